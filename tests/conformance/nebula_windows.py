"""Operators: re-chunking, slices, firing windows, the order-restoring sequencer, and the watermark of a buffer."""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from tests.conformance.fields import Fields, each, expect, expect_if, interpreted, known, matched, steps_of
from wmlab.progress.model.numbers import TupleBuffer, by_event_time, by_ingestion_time
from wmlab.progress.model.operators import Emit, InOrder
from wmlab.progress.model.windows import Fired, Firing, FiringRules, SlidingWindows, WindowedAggregation

Output = tuple[int, int, bool]

SAME_SET = r"same set of (\d+) windows for every lag"
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")


def run_rechunking(case: Fields) -> None:
    """Inputs (sequence, chunk, last) and the buffers they become, in one order or in all."""
    inputs, each = case.take("inputs"), case.take("outputs_per_input", 1)
    if "expect_outputs" in case:
        expect("outputs", [list(output) for output in rechunked(inputs, each)], case.take("expect_outputs"))
        return
    permutations = matched("permutations", case.take("permutations"), r"all (\d+)")
    expect("permutations", int(permutations[1]), math.factorial(len(inputs)))
    wanted = case.take("expect")
    for outputs in in_all_orders(inputs, each):
        assert interpreted("outputs", wanted, DESCRIBED_OUTPUTS, outputs), f"{wanted}: {outputs}"


def rechunked(inputs: Sequence[Sequence[Any]], each: int) -> list[Output]:
    """The outputs of a pipeline."""
    operator = emission(each)
    return [output for buffer in inputs for output in rechunk(operator, buffer)]


def emission(each: int) -> Emit[TupleBuffer]:
    """An emission that makes so many buffers of each."""
    return Emit(lambda buffer: [buffer] * each, chunk_base=1)


def rechunk(operator: Emit[TupleBuffer], buffer: Sequence[Any]) -> list[Output]:
    """What one input (sequence, chunk, last) becomes."""
    sequence, chunk, last = buffer
    outputs = operator.take(TupleBuffer(1, sequence, chunk, last, 0))
    assert outputs
    return [(output.sequence, output.chunk, output.last) for output in outputs]


def in_all_orders(inputs: Sequence[Sequence[Any]], each: int) -> Iterator[list[Output]]:
    """The outputs of every order of the inputs. Orders that lead to equal states share the steps from there on."""
    start = emission(each)
    emissions = {state_of(start): start}

    @functools.cache
    def step(state: str, index: int) -> tuple[list[Output], str]:
        operator = copy.deepcopy(emissions[state])
        outputs = rechunk(operator, inputs[index])
        after = state_of(operator)
        emissions.setdefault(after, operator)
        return outputs, after

    def continued(state: str, left: Sequence[int], before: list[Output]) -> Iterator[list[Output]]:
        if not left:
            yield before
        for index in left:
            outputs, after = step(state, index)
            yield from continued(after, [other for other in left if other != index], before + outputs)

    return continued(state_of(start), range(len(inputs)), [])


def state_of(operator: Emit[TupleBuffer]) -> str:
    """All that an emission goes by, so that two with the same text behave alike."""
    return repr(vars(operator))


def one_numbered_sequence(outputs: Sequence[Output], count: str, ordinal: str) -> bool:
    last = ORDINALS.index(ordinal) + 1
    return list(outputs) == [(1, number, number == last) for number in range(1, int(count) + 1)]


def distinct_and_closed(outputs: Sequence[Output], count: str) -> bool:
    chunks = [(sequence, chunk) for sequence, chunk, _ in outputs]
    highest = {sequence: max(c for s, c in chunks if s == sequence) for sequence, _ in chunks}
    lasts = [(sequence, chunk) for sequence, chunk, last in outputs if last]
    return len(outputs) == int(count) and len(set(chunks)) == len(chunks) and sorted(lasts) == sorted(highest.items())


DESCRIBED_OUTPUTS: Final[Mapping[str, Callable[..., bool]]] = {
    r"outputs numbered 1\.\.(\d+) in processing order; exactly the (\w+) carries last": one_numbered_sequence,
    r"(\d+) outputs, no \(seq,chunk\) twice, "
    r"exactly one last per seq and it has the largest chunk number of that seq": distinct_and_closed,
}


def windows_of(case: Fields) -> SlidingWindows:
    """The windows of a case."""
    return SlidingWindows(case.take("size"), case.take("slide"))


def run_slices(case: Fields) -> None:
    """The slice of each time and the windows that hold it."""
    windows = windows_of(case)
    for fields in each(case.take("cases"), "case"):
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
    count = int(matched("expect", case.take("expect"), SAME_SET)[1])
    for lag in case.take("emit_lags"):
        state = Firing(FiringRules(windows=windows, trigger="strict", emit_lag=lag))
        state.fill(times)
        ends = [window.end for watermark in watermarks for window in state.advance(watermark)]
        ends += [window.end for window in state.end()]
        held = {windows.span(number)[1] for time in times for number in windows.windows_of(time)}
        expect(f"windows at lag {lag}", ends, sorted(held))
        expect(f"count at lag {lag}", len(ends), count)


def run_sequencer(case: Fields) -> None:
    """Take and acknowledge."""
    assert case.take("api", "take/ack") == "take/ack"
    sequencer = InOrder[TupleBuffer](known("policy", case.take("policy", "keep"), ("keep", "drop")))
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
