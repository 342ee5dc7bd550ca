"""Operators: re-chunking, slices, firing windows, the order-restoring sequencer, and the watermark of a buffer."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

from tests.conformance.fields import Fields, UnknownFormatError, expect, expect_if, known, steps_of
from wmlab.progress.model.numbers import TupleBuffer, by_event_time, by_ingestion_time
from wmlab.progress.model.operators import Emission, Sequencer
from wmlab.progress.model.windows import Fired, Firing, FiringRules, SlidingWindows, WindowedAggregation

Output = tuple[int, int, bool]

ALL_ORDERS = re.compile(r"all (\d+)")
NUMBERED = re.compile(r"outputs numbered 1\.\.(\d+) in processing order; exactly the (\w+) carries last")
DISTINCT = re.compile(
    r"(\d+) outputs, no \(seq,chunk\) twice, exactly one last per seq and it has the largest chunk number of that seq"
)
SAME_SET = re.compile(r"same set of (\d+) windows for every lag")
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")


def run_rechunking(case: Fields) -> None:
    """Inputs (sequence, chunk, last) and the buffers they become, in one order or in all."""
    inputs, each = case.take("inputs"), case.take("outputs_per_input", 1)
    if "expect_outputs" in case:
        expect("outputs", [list(output) for output in rechunked(inputs, each)], case.take("expect_outputs"))
        return
    match = ALL_ORDERS.fullmatch(case.take("permutations"))
    if match is None or int(match[1]) != math.factorial(len(inputs)):
        raise UnknownFormatError("permutations")
    wanted = case.take("expect")
    for outputs in in_all_orders(emission(each), inputs):
        assert as_described(outputs, wanted), f"{wanted}: {outputs}"


def rechunked(inputs: Sequence[Sequence[Any]], each: int) -> list[Output]:
    """The outputs of a pipeline."""
    operator = emission(each)
    return [output for buffer in inputs for output in rechunk(operator, buffer)]


def emission(each: int) -> Emission[TupleBuffer]:
    """An emission that makes so many buffers of each."""
    return Emission(lambda buffer: [buffer] * each, chunk_base=1)


def in_all_orders(
    operator: Emission[TupleBuffer], left: Sequence[Sequence[Any]], before: Sequence[Output] = ()
) -> Iterator[list[Output]]:
    """The outputs of every order of what is left; orders that begin alike share the steps of their beginning."""
    if not left:
        yield list(before)
    for index, buffer in enumerate(left):
        after = copy.deepcopy(operator)
        made = rechunk(after, buffer)
        yield from in_all_orders(after, [*left[:index], *left[index + 1 :]], [*before, *made])


def rechunk(operator: Emission[TupleBuffer], buffer: Sequence[Any]) -> list[Output]:
    """What one input (sequence, chunk, last) becomes."""
    sequence, chunk, last = buffer
    made = operator.take(TupleBuffer(1, sequence, chunk, last, 0))
    assert made
    return [(output.sequence, output.chunk, output.last) for output in made]


def as_described(outputs: Sequence[Output], text: str) -> bool:
    """Whether outputs are as a text says."""
    if match := NUMBERED.fullmatch(text):
        count, place = int(match[1]), ORDINALS.index(match[2])
        return list(outputs) == [(1, number, number == place + 1) for number in range(1, count + 1)]
    if match := DISTINCT.fullmatch(text):
        places = [(sequence, chunk) for sequence, chunk, _ in outputs]
        highest = {sequence: max(c for s, c in places if s == sequence) for sequence, _ in places}
        lasts = [(sequence, chunk) for sequence, chunk, last in outputs if last]
        return (
            len(outputs) == int(match[1])
            and len(set(places)) == len(places)
            and sorted(lasts) == sorted(highest.items())
        )
    raise UnknownFormatError(f"outputs {text!r}")


def windows_of(case: Fields) -> SlidingWindows:
    """The windows of a case."""
    return SlidingWindows(case.take("size"), case.take("slide"))


def run_slices(case: Fields) -> None:
    """The slice of each time and the windows that hold it."""
    windows = windows_of(case)
    for entry in case.take("cases"):
        with Fields(entry, "case") as fields:
            wanted_slice, wanted_windows = fields.take("slice"), fields.take("windows")
            for time in fields.take("ts"):
                expect(f"slice of {time}", list(windows.slice_of(time)), wanted_slice)
                found = [list(windows.span(number)) for number in windows.windows_of(time)]
                expect(f"windows of {time}", found, wanted_windows)


def run_store(case: Fields) -> None:
    """The slices that records leave behind."""
    windows = windows_of(case)
    state = Firing(FiringRules(windows=windows, trigger="strict"))
    state.fill(case.take("ts"))
    expect("slices", [list(windows.slice_of(start)) for start in sorted(state.slices)], case.take("slices"))


def run_trigger(case: Fields) -> None:
    """Records, then watermarks and the windows that they fire: as the code does it, `strict`."""
    windows, times = windows_of(case), case.take("ts")
    if "emit_lags" in case:
        run_lags(case, windows, times)
        return
    state = Firing(FiringRules(windows=windows, trigger="strict", emit_lag=case.take("emit_lag")))
    assert not state.fill(times)
    outputs: list[dict[str, int]] = []
    for fields in steps_of(case):
        if "late_ts" in fields:
            late = copy.deepcopy(state).fill([fields.take("late_ts")])
            expect("late record", "late" if late else "in time", fields.take("result"))
            continue
        fired = fire(state, fields)
        expect("fired", [window.end for window in fired], fields.take("fired_ends"))
        outputs += [written(window) for window in fired]
    expect_if(case, outputs=outputs)


def fire(state: Firing, fields: Fields) -> tuple[Fired, ...]:
    """The windows that a watermark, or the end of the stream, fires."""
    if "terminate" in fields:
        expect("terminate", fields.take("terminate"), True)
        return state.end()
    return state.advance(fields.take("wm"))


def written(window: Fired) -> dict[str, int]:
    """A fired window's output as the cases write it."""
    rules = FiringRules(windows=SlidingWindows(window.end - window.start, 1))
    ((buffer, _),) = WindowedAggregation(rules, origin=2, chunk_base=1).outputs(window)
    assert (buffer.chunk, buffer.last) == (1, True)
    return {"seq": buffer.sequence, "start": window.start, "watermark": buffer.watermark}


def run_lags(case: Fields, windows: SlidingWindows, times: Sequence[int]) -> None:
    """The same records under several emit lags, flushed at the end."""
    watermarks = case.take("wms")
    expect("then", case.take("then"), "terminate")
    match = SAME_SET.fullmatch(case.take("expect"))
    if match is None:
        raise UnknownFormatError("expect")
    for lag in case.take("emit_lags"):
        state = Firing(FiringRules(windows=windows, trigger="strict", emit_lag=lag))
        state.fill(times)
        ends = [window.end for watermark in watermarks for window in state.advance(watermark)]
        ends += [window.end for window in state.end()]
        held = {windows.span(number)[1] for time in times for number in windows.windows_of(time)}
        expect(f"windows at lag {lag}", ends, sorted(held))
        expect(f"count at lag {lag}", len(ends), int(match[1]))


def run_sequencer(case: Fields) -> None:
    """Take and acknowledge."""
    assert case.take("api", "take/ack") == "take/ack"
    sequencer = Sequencer[TupleBuffer](known("policy", case.take("policy", "keep"), ("keep", "drop")))
    for fields in steps_of(case):
        if "take" in fields:
            sequence, chunk, last = fields.take("take")
            released = sequencer.take(TupleBuffer(1, sequence, chunk, last, 0))
        else:
            released = sequencer.done(TupleBuffer(1, *fields.take("ack"), True, 0))
        expect_if(fields, out=[released[0].sequence, released[0].chunk] if released else None)


def run_assigner(case: Fields) -> None:
    """The watermark of one buffer."""
    kind, times = known("assigner", case.take("kind"), ("event_time", "ingestion_time")), case.take("buffer_ts")
    if kind == "event_time":
        lateness = case.take("allowed_lateness", 0)
        found = by_event_time(times, unit=case.take("unit_multiplier"), allowed_lateness=lateness)
    else:
        found = by_ingestion_time(case.take("buffer_creation_ts"))
    expect("watermark", found, case.take("wm"))
