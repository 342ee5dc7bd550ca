"""Histories of every rule, drawn by hypothesis: out of order, idle, restarts, ties, and times from the future.

The times of some are shifted as a whole, to those of a real clock in milliseconds since 1970, or before it: a machine
that computes in 16 or 32 bits answers small times like the rule.

Draws are small and plain, so that hypothesis shrinks a history to its fewest steps and smallest numbers. It can leave
out a step of at most four draws, wherever it stands; so each draw of a step is a single choice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from wmlab.testing.known_rules import History, Step, rule_of

_LEAST: Final = (0, 8, 16)
_MOST: Final = 24
"""Steps that a history has at most."""
Drawn = TypeVar("Drawn")
_WRITERS: Final = ("a", "b", "c")
_RESTART: Final = {"op": "restart"}


def histories(rule: str) -> SearchStrategy[History]:
    """A hypothesis strategy for the histories of a rule and its parameters; raises `ModelError` for an unknown rule."""
    name = rule_of(rule).name
    drawn: SearchStrategy[History] = _DRAWN[name](**_PARAMETERS[name])
    return st.builds(_shifted, drawn, st.sampled_from(_SHIFTS_MS))


_SHIFTS_MS: Final = (0, 0, 0, 1_700_000_000_000, -(2**33))
"""By how much all times of a history are shifted; the first one is the one to which it shrinks."""


def _shifted(history: History, shift_ms: int) -> History:
    """A history at another time of the clock."""
    return History(history.parameters, tuple(_step_at(step, shift_ms) for step in history.steps))


def _step_at(step: Step, shift_ms: int) -> Step:
    moved = {name: step[name] + shift_ms for name in ("time", "now") if name in step}
    if "times" in step:
        moved["times"] = {of: [time + shift_ms for time in times] for of, times in step["times"].items()}
    return {**step, **moved}


def _kinds(**weights: int) -> SearchStrategy[str]:
    """One of the operations, each as often as its weight; the first one is the simplest, to which a history shrinks."""
    return st.sampled_from([kind for kind, weight in weights.items() for _ in range(weight)])


def _several(draw: DrawFn, each: SearchStrategy[Drawn]) -> list[Drawn]:
    """A list of such draws, often a long one, which shrinks to an empty one all the same."""
    return draw(st.lists(each, min_size=draw(st.sampled_from(_LEAST)), max_size=_MOST))


def _among(*ranges: range) -> SearchStrategy[int]:
    """A number of one of these ranges, each as likely as the others, in a single choice; it shrinks towards 0."""
    longest = max(map(len, ranges))
    numbers = [number for of in ranges for number in of for _ in range(longest // len(of))]
    return st.sampled_from(sorted(numbers, key=lambda number: (abs(number), number < 0)))


@st.composite
def _of_records(draw: DrawFn, /, **parameters: SearchStrategy[Any]) -> History:
    """Records at, behind and ahead of a clock that goes on, at times for long; some at one moment."""
    drawn = {name: draw(of) for name, of in parameters.items()}
    gaps = _among(range(5), range(13), range(41))
    kinds = _kinds(record=10, tick=5, restart=1)
    offsets = _among(range(-4, 5), range(-30, 1), range(31))
    now, steps = 0, []
    for kind, gap, offset, writer in _several(draw, st.tuples(kinds, gaps, offsets, st.sampled_from(_WRITERS))):
        now += gap
        if kind == "record":
            steps.append({"op": kind, "time": now + offset, "now": now, "writer": writer})
        else:
            steps.append({"op": kind, "now": now} if kind == "tick" else dict(_RESTART))
    return History(drawn, tuple(steps))


@st.composite
def _of_channels(draw: DrawFn, channels: SearchStrategy[int]) -> History:
    """Watermarks, mostly rising, of channels that fall idle and resume; some do so twice."""
    count = draw(channels)
    kinds = _kinds(watermark=2, switch=14, idle=1, active=1, restart=1)
    idle: set[int] = set()
    steps: list[Step] = []
    if draw(st.sampled_from((False, True, True, True))):
        # Only once every channel has a watermark is there an output that idleness can move.
        steps += [{"op": "watermark", "channel": of, "time": draw(st.integers(0, 9))} for of in range(count)]
    for kind, channel, time in _several(draw, st.tuples(kinds, st.integers(0, count - 1), st.integers(0, 9))):
        if kind == "restart":
            steps.append(dict(_RESTART))
            idle.clear()
        elif kind == "watermark":
            steps.append({"op": kind, "channel": channel, "time": time})
        else:
            falls_idle = kind == "idle" or (kind == "switch" and channel not in idle)
            (idle.add if falls_idle else idle.discard)(channel)
            steps.append({"op": "idle" if falls_idle else "active", "channel": channel})
    return History({"channels": count}, tuple(steps))


@st.composite
def _of_inputs(draw: DrawFn, inputs: SearchStrategy[int]) -> History:
    """Watermarks of two keys that rise on each input, events, idle messages and ends."""
    count = draw(inputs)
    kinds = _kinds(watermark=9, idle=5, event=2, done=1, restart=1)
    # The rises are such that inputs overtake each other and meet at one time.
    each = st.tuples(kinds, st.integers(0, count - 1), st.integers(0, 1), st.integers(1, 4))
    at: dict[tuple[int, int], int] = {}
    done: set[int] = set()
    steps: list[Step] = []
    for kind, index, key, rise in _several(draw, each):
        if kind == "restart":
            steps.append(dict(_RESTART))
            at, done = {}, set()
        elif index not in done:
            step: dict[str, Any] = {"op": kind, "input": index}
            if kind == "watermark":
                at[index, key] = at.get((index, key), 0) + rise
                step |= {"key": key, "time": at[index, key]}
            elif kind == "done":
                done.add(index)
            steps.append(step)
    return History({"inputs": count}, tuple(steps))


@st.composite
def _of_buffers(draw: DrawFn, origins: SearchStrategy[int]) -> History:
    """The buffers of some sequences, each in one or more chunks, in any order; some come twice, some never."""
    numbers = list(range(1, draw(origins) + 1))
    buffers: list[Step] = []
    for origin in numbers:
        for sequence, chunks in enumerate(draw(st.lists(st.integers(1, 3), max_size=3)), 1):
            for chunk in range(chunks):
                of = {"op": "buffer", "origin": origin, "sequence": sequence, "chunk": chunk}
                buffers.append(of | {"last": chunk == chunks - 1, "time": draw(st.integers(0, 9))})
    rows = st.integers(0, max(0, len(buffers) - 1))
    twice: list[int] = draw(st.lists(rows, max_size=2)) if buffers else []
    again = [{**buffers[row], "time": draw(st.integers(0, 12))} for row in twice]
    steps: list[Step] = draw(st.permutations([*buffers, *again]))
    left_out = draw(st.booleans())
    if steps and left_out:
        del steps[draw(st.integers(0, len(steps) - 1))]
    if draw(st.integers(0, 5)) == 5:
        steps.insert(draw(st.integers(0, len(steps))), dict(_RESTART))
    return History({"origins": numbers}, tuple(steps))


@st.composite
def _of_batches(draw: DrawFn, streams: SearchStrategy[Sequence[str]], delay: SearchStrategy[int]) -> History:
    """Batches with the times of one to three streams, some without a record; queries are started again."""
    delays = {stream: draw(delay) for stream in draw(streams)}
    policy = draw(st.sampled_from(["min", "max"]))
    times = st.lists(st.one_of(st.integers(0, 20), st.integers(-3, 60)), max_size=3)
    batch = st.fixed_dictionaries(dict.fromkeys(delays, times))
    steps = [
        dict(_RESTART) if again == 5 else {"op": "batch", "times": of}
        for again, of in _several(draw, st.tuples(st.integers(0, 5), batch))
    ]
    return History({"delays": delays, "policy": policy}, tuple(steps))


_IDLE: Final = st.one_of(st.none(), st.integers(1, 10), st.integers(1, 20))
_BOUND: Final = st.integers(0, 6)
_INPUTS: Final = st.sampled_from([1, 2, 2, 3, 3, 3])
_CHANNELS: Final = {"channels": st.sampled_from((1, 2, 3, 3, 3))}
"""Oftener three than of `_INPUTS`: two mistakes of the valve show with three channels only."""
_PARAMETERS: Final[Mapping[str, Mapping[str, SearchStrategy[Any]]]] = {
    "bounded": {"bound": _BOUND},
    "per-writer-minimum": {"bound": _BOUND, "idle_ms": _IDLE},
    "flink-bounded": {"bound": _BOUND, "idle_ms": _IDLE, "interval_ms": st.integers(1, 4)},
    "flink-valve": _CHANNELS,
    "flink-valve-2.3.0": _CHANNELS,
    "jet-coalescer": {"inputs": _INPUTS},
    "nebula-tracker": {"origins": st.integers(1, 3)},
    "spark-batches": {
        "streams": st.sampled_from([_WRITERS[:1], _WRITERS[:2], _WRITERS]),
        "delay": st.integers(0, 10),
    },
}
_DRAWN: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("bounded", "per-writer-minimum", "flink-bounded"), _of_records),
    **dict.fromkeys(("flink-valve", "flink-valve-2.3.0"), _of_channels),
    "jet-coalescer": _of_inputs,
    "nebula-tracker": _of_buffers,
    "spark-batches": _of_batches,
}
