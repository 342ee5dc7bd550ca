"""A film: what a scrubber shows of a run, as items that are there from one moment to another.

A film has panels, a panel has lanes, and an item lies in a lane at a place of the panel's axis while the clock is in
[from_ms, to_ms). The picture of a moment is the set of items that are there, so going back is as cheap as going on, and
what does not change is kept once. A moment at which an item comes or goes is a change; a scrubber steps from one to the
next. Nothing here knows what the items stand for: other runs may be told in other panels.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from wmlab.core.errors import ChartError

Shape = Literal["block", "bar", "tick", "flag", "line", "diamond", "cross", "triangle", "name", "value", "origin"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Style:
    """How an item looks: its shape, its role in `wmlab.core.charts.style.ROLES`, and how opaque its area is."""

    shape: Shape
    role: str
    opacity: float = 1.0


STYLES: Final[dict[str, Style]] = {
    "segment": Style("block", "text", 0.1),
    "unowned": Style("block", "mark", 0.04),
    "read": Style("bar", "band", 0.3),
    "unread": Style("bar", "unknown", 0.28),
    "cut": Style("tick", "text"),
    "passed": Style("flag", "lower"),
    "ahead": Style("flag", "upper"),
    "mark": Style("tick", "text"),
    "newest mark": Style("diamond", "title"),
    "refused": Style("cross", "alarm"),
    "window": Style("bar", "band", 0.3),
    "open window": Style("bar", "unknown", 0.14),
    "lower": Style("tick", "lower"),
    "upper": Style("tick", "upper"),
    "truth": Style("triangle", "text"),
    "lower line": Style("line", "lower"),
    "upper line": Style("line", "upper"),
    "happened": Style("diamond", "title"),
    "happened often": Style("tick", "text"),
    "violation": Style("triangle", "alarm"),
    "name": Style("name", "text"),
    "value": Style("value", "text"),
    "alarm": Style("value", "alarm"),
    "origin": Style("origin", "text"),
}
"""The looks there are. An item of the shape "origin" is not drawn: in its lane, places count from where it lies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """What lies in `lane` (None: across all lanes) from `low` to `high` on the axis while from_ms <= clock < to_ms.

    `to_ms` is None if it stays to the end; `label` is written on it, or beside it.
    """

    lane: int | None
    from_ms: int
    to_ms: int | None
    low: int
    high: int
    style: str
    label: str = ""

    def is_there(self, at_ms: int) -> bool:
        """Whether the moment lies in its life."""
        return self.from_ms <= at_ms and (self.to_ms is None or at_ms < self.to_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """Lanes under each other, `lane_px` high each, over the axis [low, high] in integers of the axis' own unit.

    Sizes are pixels; `head_px` is room above the lanes. `still` is SVG of what never changes: axes, titles, curves.
    Places count from the clock if the panel is `relative`. With `cursor` the moment is drawn across the panel.
    """

    title: str
    left: float
    top: float
    width: float
    head_px: float
    lanes: int
    lane_px: float
    low: int
    high: int
    relative: bool = False
    cursor: bool = False
    items: tuple[Item, ...]
    still: str = ""

    @property
    def lanes_top(self) -> float:
        """The pixel row where the first lane begins."""
        return self.top + self.head_px

    @property
    def bottom(self) -> float:
        """The last pixel row of the last lane."""
        return self.lanes_top + self.lanes * self.lane_px

    def there(self, at_ms: int) -> list[Item]:
        """The items of a moment, in the order in which they are drawn."""
        return [item for item in self.items if item.is_there(at_ms)]


@dataclass(frozen=True, slots=True, order=True)
class Happened:
    """Something a person may want to jump to: when, of which kind, and in words."""

    at_ms: int
    kind: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Film:
    """All frames of a run.

    The clock runs from `low_ms` to `high_ms`; with `instants` it is ms since 1970. `changes` are the moments at which
    anything changes, ascending; `kinds` are those of what happened, in the order in which they are offered.
    `sentences` are (from when it holds, sentence), ascending.
    """

    title: str
    low_ms: int
    high_ms: int
    instants: bool
    width: float
    height: float
    panels: tuple[Panel, ...]
    kinds: tuple[str, ...]
    happened: tuple[Happened, ...]
    changes: tuple[int, ...]
    sentences: tuple[tuple[int, str], ...] = ()

    def clamp(self, at_ms: object) -> tuple[int, str]:
        """The moment, and "" or, if it lies outside, the nearest one and what to say about it.

        Raises `ChartError` if it is no whole number.
        """
        if isinstance(at_ms, bool) or not isinstance(at_ms, int):
            raise ChartError(
                f"at_ms is {at_ms!r}, which is no moment.", remedy="Give whole milliseconds of the recording's clock."
            )
        kept = min(max(at_ms, self.low_ms), self.high_ms)
        if kept == at_ms:
            return at_ms, ""
        side, edge = ("before", "begins") if at_ms < self.low_ms else ("after", "ends")
        return kept, f"{self.clock(at_ms)} is {side} the recording, which {edge} at {self.clock(kept)}"

    def clock(self, at_ms: int) -> str:
        """A moment in words, exact: "36 000 ms", or "2013-01-05 17:32:00.000 UTC"."""
        if not (self.instants and self.low_ms <= at_ms <= self.high_ms):
            return f"{at_ms:,} ms".replace(",", " ")
        return f"{_EPOCH + timedelta(milliseconds=at_ms):%Y-%m-%d %H:%M:%S}.{at_ms % 1_000:03} UTC"

    def step(self, at_ms: int, changes: int) -> int:
        """The moment so many changes later, or earlier if negative; the first or last change if there are not."""
        here = bisect_right(self.changes, at_ms) - 1
        if changes < 0 and self.changes[max(here, 0)] < at_ms:
            here += 1
        return self.changes[min(max(here + changes, 0), len(self.changes) - 1)]

    def change(self, at_ms: int) -> int:
        """How many changes have happened until the moment, itself included."""
        return bisect_right(self.changes, at_ms)

    def next_happened(self, at_ms: int, kind: str | None = None, *, backwards: bool = False) -> Happened | None:
        """The nearest happening of the kind (None: of any) after the moment, or before it; None if there is none."""
        wanted = [h for h in self.happened if kind in (None, h.kind)]
        times = [h.at_ms for h in wanted]
        place = bisect_left(times, at_ms) - 1 if backwards else bisect_right(times, at_ms)
        return wanted[place] if 0 <= place < len(wanted) else None

    def sentence(self, at_ms: int) -> str:
        """The sentence that holds at the moment; empty if there is none."""
        place = bisect_right([from_ms for from_ms, _ in self.sentences], at_ms) - 1
        return self.sentences[place][1] if place >= 0 else ""

    def text(self, at_ms: int) -> str:
        """The picture of a moment in words, a line a lane."""
        lines = [self.heading(at_ms)]
        if sentence := self.sentence(at_ms):
            lines.append(f"{sentence[0].upper()}{sentence[1:]}.")
        for panel in self.panels:
            lines += _lane_texts(panel, at_ms)
        return "\n".join(lines)

    def heading(self, at_ms: int) -> str:
        """Where in the run a moment lies."""
        return f"{self.title} at {self.clock(at_ms)}, change {self.change(at_ms)} of {len(self.changes)}"


def _lane_texts(panel: Panel, at_ms: int) -> Iterator[str]:
    there = panel.there(at_ms)
    for lane in range(panel.lanes):
        mine = [item for item in there if item.lane == lane and item.label]
        names = [item.label for item in mine if STYLES[item.style].shape == "name"]
        told = [item.label for item in mine if STYLES[item.style].shape in ("block", "value")]
        if names and told:
            yield f"  {names[0]}: {', '.join(told)}"
