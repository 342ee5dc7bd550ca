"""Stream cuts against the history: order, validity, what lies between (streamcut_*, segments_between, rolling_txn)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from tests.conformance.fields import Fields, each, expect, history_of, interpreted, matched, position_of
from wmlab.core.errors import ModelError
from wmlab.streams.model.cut import CutAlgorithm
from wmlab.streams.model.history import StreamHistory
from wmlab.streams.model.position import (
    Position,
    behind_at_a_key,
    is_valid_cut,
    segment_bytes_between,
    segments_between,
)
from wmlab.streams.model.segment import segment_name

ORDERS = {
    (False, False): "EqualOrAfter",
    (False, True): "EqualOrAfter",
    (True, False): "Before",
    (True, True): "Overlaps",
}
"""How a first cut lies to a second: by being behind it at some key, and ahead of it."""
RULE = r"epoch k has segments k\*(\d+)\+i for i in 0\.\.(\d+), every scale replaces all of them one to one"
MIXED = r"for each i any one epoch e in 0\.\.(\d+): segment \(e\*(\d+)\+i\)@e at (\d+)"


def run_compare(inputs: Fields, expected: Fields, algorithm: CutAlgorithm) -> None:
    """How each of the first cuts lies to the second."""
    segments, second = history_of(inputs.take("epochs")).segments, position_of(inputs.take("second"))
    found = [
        ORDERS[behind_at_a_key(second, first, segments), behind_at_a_key(first, second, segments)]
        for first in map(position_of, inputs.take("first"))
    ]
    expect("results", found, expected.take("results"))


def run_valid(inputs: Fields, expected: Fields, algorithm: CutAlgorithm) -> None:
    """Cuts of mixed epochs in a stream that replaces all its segments again and again."""
    count, epochs = inputs.take("segments_per_epoch"), inputs.take("epochs")
    rule = matched("rule", inputs.take("rule"), RULE)
    expect("segments of the rule", (int(rule[1]), int(rule[2])), (count, count - 1))
    history = StreamHistory.create(count)
    for _ in range(epochs - 1):
        history = history.scale(history.active.ids, [segment.keys for segment in history.active.segments])
    valid = all(is_valid_cut(cut, history) for cut in cuts_of(inputs.take("valid"), history))
    expect("valid", valid, expected.take("valid"))
    invalid = is_valid_cut(position_of(inputs.take("invalid")), history)
    expect("invalid", invalid, expected.take("invalid"))


def cuts_of(text: str, history: StreamHistory) -> list[Position]:
    """Cuts by the rule: every one of a single epoch, and some with an epoch drawn for each segment."""
    last, count, offset = (int(group) for group in matched("valid", text, MIXED).groups())
    random = Random(1)
    choices = [[epoch] * count for epoch in range(last + 1)]
    choices += [[random.randint(0, last) for _ in range(count)] for _ in range(5)]
    cuts = [Position({f"{epoch * count + i}@{epoch}": offset for i, epoch in enumerate(chosen)}) for chosen in choices]
    assert all(segment in history.segments for cut in cuts for segment in cut), "the rule names unknown segments"
    return cuts


def run_between(inputs: Fields, expected: Fields, algorithm: CutAlgorithm) -> None:
    """The segments between pairs of cuts."""
    history = history_of(inputs.take("epochs"))
    found = [between(pair.take("from"), pair.take("to"), history) for pair in each(inputs.take("pairs"), "pair")]
    listed = [sorted(result) if isinstance(result, list) else result for result in expected.take("results")]
    expect("results", found, listed)


def between(start: Any, end: Any, history: StreamHistory) -> list[str] | str:
    """Sorted names of the segments between two cuts, or that the second lies before the first."""
    try:
        segments = segments_between(cut_of(start), cut_of(end), history)
    except ModelError as error:
        if "lies before" not in error.problem:
            raise
        return "TO_BEFORE_FROM"
    return sorted(segment.name for segment in segments)


def cut_of(names: Sequence[str] | Mapping[str, int]) -> Position:
    """A cut from its segments, all at offset 0, or from segments with offsets."""
    return position_of(names if isinstance(names, Mapping) else dict.fromkeys(names, 0))


def run_rolling(inputs: Fields, expected: Fields, algorithm: CutAlgorithm) -> None:
    """A history with duplicate epochs: spans of cuts, and what lies between two of them."""
    history = history_of(inputs.take("epochs"))
    check_rolling(history)
    length = inputs.take("sealed_size_each", None)
    cuts = {matched("input", n, r"cut\w+")[0]: position_of(offsets) for n, offsets in inputs.rest().items()}

    def spans(suffix: str) -> dict[str, int]:
        return {segment_name(s): epoch for s, epoch in history.spans(cuts[f"cut{suffix}"]).items()}

    def bytes_between() -> int:
        lengths = dict.fromkeys(history.segments, length)
        return sum(segment_bytes_between(cuts["cut1"], cuts["cut2"], history, lengths).values())

    forms: Mapping[str, Callable[..., Any]] = {
        r"span(\w+)": spans,
        "segments_between": lambda: between(cuts["cut1"], cuts["cut2"], history),
        "bytes_between": bytes_between,
    }
    for name, value in expected.rest().items():
        answer = interpreted("expected", name, forms)
        expect(name, answer, sorted(value) if name == "segments_between" else value)


def check_rolling(history: StreamHistory) -> None:
    """The two duplicates of every rolling transaction are those that the model makes."""
    for epoch in history.epochs:
        if epoch.kind == "rolling" and history.epoch(epoch.number - 1).kind != "rolling":
            before = StreamHistory(history.epochs[: epoch.number])
            assert epoch.reference is not None
            rolled = before.roll(epoch.reference)
            expect("duplicate epochs", rolled.epochs[-2:], history.epochs[epoch.number : epoch.number + 2])
