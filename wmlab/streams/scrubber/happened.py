"""What happened in a run that a person may want to jump to, and the items that show when it did."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from wmlab.streams.scrubber.film import Happened, Item
from wmlab.streams.scrubber.tables import Run

VIOLATION: Final = "violation"

KINDS: Final = (
    VIOLATION,
    "scale",
    "fault",
    "refused mark",
    "dropped writer",
    "refused call",
    "checkpoint",
    "held cycle",
    "watermark",
)
"""Kinds of happenings in the order in which they are offered."""

_MANY: Final = 40


def happenings(run: Run, violations: Iterable[tuple[int, str]]) -> tuple[Happened, ...]:
    """Everything that happened, ascending by moment, then by kind. `violations` are (moment, in words)."""
    found = [
        *(Happened(at_ms, VIOLATION, text) for at_ms, text in violations),
        *_scales(run),
        *(Happened(row["at_ms"], "fault", row["detail"]) for row in run.rows["incidents"] if row["kind"] != "scale"),
        *_of_writers(run),
        *_of_log(run),
        *_of_calls(run),
    ]
    return tuple(sorted(found, key=lambda h: (h.at_ms, KINDS.index(h.kind))))


def _scales(run: Run) -> Iterator[Happened]:
    """Every change of the segments; several epochs of one moment, as a rolling transaction makes, are one change."""
    last = {row["at_ms"]: row for row in run.rows["epochs"]}
    for before, row in pairwise(last.values()):
        gone = [run.name(i) for i in before["segment_ids"] if i not in row["segment_ids"]]
        new = [run.name(i) for i in row["segment_ids"] if i not in before["segment_ids"]]
        yield Happened(row["at_ms"], "scale", f"{', '.join(gone)} → {', '.join(new)}")


def _of_writers(run: Run) -> Iterator[Happened]:
    for row in run.rows["writer_marks"]:
        if row["outcome"] != "success":
            told = f"a mark of {row['writer']} is refused: {row['outcome']}"
            yield Happened(row["received_ms"], "refused mark", told)
    for row in run.rows["cycles"]:
        for writer in row["removed"]:
            yield Happened(row["at_ms"], "dropped writer", f"{row['controller']} drops {writer}")


def _of_log(run: Run) -> Iterator[Happened]:
    for row in run.rows["watermarks"]:
        yield Happened(row["emitted_ms"], "watermark", f"watermark {row['seq']} by {row['controller']}")
    for row in run.rows["cycles"]:
        if row["outcome"] != "emitted":
            why = f"waits for {', '.join(sorted(row['lagging']))}" if row["lagging"] else row["reason"]
            yield Happened(row["at_ms"], "held cycle", f"the cycle of {row['controller']} {why}")


def _of_calls(run: Run) -> Iterator[Happened]:
    for row in run.rows["errors"]:
        yield Happened(row["at_ms"], "refused call", f"{row['process']}: {row['call']} is refused: {row['problem']}")
    for row in run.rows["checkpoints"]:
        if row["completed_ms"] is not None:
            yield Happened(row["completed_ms"], "checkpoint", f"checkpoint {row['checkpoint']} is complete")


def kinds_of(happened: Sequence[Happened]) -> list[str]:
    """The kinds that occur, in their order."""
    return [kind for kind in KINDS if any(h.kind == kind for h in happened)]


def happened_items(happened: Sequence[Happened], low_ms: int) -> tuple[Item, ...]:
    """A lane for each kind that occurs; everything is there from the start, so one sees what is still to come."""
    kinds = kinds_of(happened)
    names = [_item(lane, low_ms, low_ms, "name", kind) for lane, kind in enumerate(kinds)]
    counts = [sum(h.kind == kind for h in happened) for kind in kinds]
    points = [
        _item(kinds.index(kind), low_ms, at_ms, _style(kind, counts[kinds.index(kind)]))
        for at_ms, kind in dict.fromkeys((h.at_ms, h.kind) for h in happened)
    ]
    values = [_item(lane, low_ms, low_ms, "value", f"{count:,}") for lane, count in enumerate(counts)]
    return (*points, *names, *values)


def _style(kind: str, count: int) -> str:
    if kind in (VIOLATION, "refused mark", "refused call"):
        return VIOLATION if kind == VIOLATION else "refused"
    rare = count <= _MANY and kind not in ("watermark", "held cycle")
    return "happened" if rare else "happened often"


def _item(lane: int, from_ms: int, at: int, style: str, label: str = "") -> Item:
    return Item(lane=lane, from_ms=from_ms, to_ms=None, low=at, high=at, style=style, label=label)
