"""What a scrubber shows of a run, as items that are there from one moment to another, and how each kind of item looks.

Frames have panels, a panel has lanes, and an item lies in a lane at a place of the panel's axis while the clock is in
[from_ms, to_ms). The picture of a moment is the set of items that are there, so a step back costs as much as a step
forward, and what does not change is kept once. A moment at which an item appears or disappears is a change; a scrubber
steps from one to the next. Nothing here depends on what the items stand for.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, NamedTuple

from wmlab.core.arguments import the_moment
from wmlab.core.errors import ChartError
from wmlab.core.words import moment

_MARKER: Final = 4.5
VALUES: Final = ("block", "value", "origin")
"""The shapes whose labels say what a lane holds."""
VIOLATION: Final = "violation"
"""The kind of incidents that a scrubber begins with, and has a key of their own."""

Corner = tuple[float, float, float, float]
"""A place in pixels relative to an item: share of its length, px to the right, share of the lane's height, px down."""


class Outline(NamedTuple):
    """A line through corners, or the area inside them."""

    filled: bool
    corners: tuple[Corner, ...]


class Text(NamedTuple):
    """Where a label stands: beside the panel (left, right), in the item if it fits (middle), or beside the item.

    A label before or after the item changes sides where it would leave the panel. Its baseline is at `share` of the
    lane's height and `down` px; `role` is that of the item if not given.
    """

    side: Literal["left", "right", "middle", "before", "after"]
    share: float
    down: float
    role: str = ""


class ItemShape(NamedTuple):
    """How items are drawn; the only description of it, read by `page.frame_parts` and by `static/scrubber.js`.

    An area is cut off at the ends of the axis, a point outside the axis is not drawn, and a lane's label always is.
    What has a smaller `rank` is drawn first.
    """

    kind: Literal["area", "point", "lane"]
    outlines: tuple[Outline, ...] = ()
    text: Text | None = None
    rank: int = 6


def _rectangle(share: float, px: float) -> tuple[Corner, ...]:
    """The whole length of the item, inset from the lane's edges."""
    top, bottom = (share, px), (1 - share, -px)
    return (0, 0, *top), (1, 0, *top), (1, 0, *bottom), (0, 0, *bottom)


def _around(*offsets: tuple[float, float]) -> tuple[Corner, ...]:
    """Corners around the item in the lane's middle, in sizes of a marker."""
    return tuple((0, x * _MARKER, 0.5, y * _MARKER) for x, y in offsets)


def _upright(share: float, px: float = 0) -> Outline:
    return Outline(False, ((0, 0, share, px), (0, 0, 1 - share, -px)))


_BLOCK: Final = _rectangle(0, 2)
_BLOCK_EDGE: Final = Outline(False, (*_BLOCK, _BLOCK[0]))

ITEM_SHAPES: Final[dict[str, ItemShape]] = {
    "block": ItemShape("area", (Outline(True, _BLOCK), _BLOCK_EDGE), Text("middle", 0.5, 4, "title"), rank=2),
    "bar": ItemShape("area", (Outline(True, _rectangle(0.36, 0)),), rank=1),
    "line": ItemShape("point", (_upright(0),), rank=3),
    "tick": ItemShape("point", (_upright(0.3),), rank=4),
    "long tick": ItemShape("point", (_upright(0.19),), rank=4),
    # Of two labels the lower bound's stands above the bar and the upper bound's below it, so they never meet.
    "lower flag": ItemShape("point", (_upright(0, 2),), Text("before", 0, 9), rank=5),
    "upper flag": ItemShape("point", (_upright(0, 2),), Text("after", 1, -2.5), rank=5),
    "diamond": ItemShape("point", (Outline(True, _around((0, -1), (1, 0), (0, 1), (-1, 0))),)),
    "triangle": ItemShape("point", (Outline(True, _around((0, -1), (1, 1), (-1, 1))),)),
    "cross": ItemShape("point", (Outline(False, _around((-1, -1), (1, 1), (0, 0), (1, -1), (-1, 1))),)),
    "name": ItemShape("lane", text=Text("left", 0.5, 4)),
    "value": ItemShape("lane", text=Text("right", 0.5, 4)),
    "origin": ItemShape("lane", (Outline(True, _rectangle(0.36, 0)),), Text("right", 0.5, 4, "text"), rank=0),
}
"""In the lane of an item of the shape "origin", places count from its high end."""


class Style(NamedTuple):
    """How an item looks: its shape, its role in `wmlab.core.charts.style.ROLES`, and how opaque its area is."""

    shape: str
    role: str
    opacity: float = 1.0


STYLES: Final[dict[str, Style]] = {
    "segment": Style("block", "text", 0.1),
    "unowned": Style("block", "mark", 0.04),
    "read": Style("origin", "band", 0.3),
    "unread": Style("bar", "unknown", 0.28),
    "cut": Style("tick", "text"),
    "passed": Style("lower flag", "lower"),
    "ahead": Style("upper flag", "upper"),
    "mark": Style("tick", "text"),
    "newest mark": Style("diamond", "title"),
    "refused": Style("cross", "alarm"),
    "window": Style("bar", "band", 0.3),
    "open window": Style("bar", "unknown", 0.14),
    "lower": Style("long tick", "lower"),
    "upper": Style("long tick", "upper"),
    "perfect": Style("triangle", "text"),
    "lower line": Style("line", "lower"),
    "upper line": Style("line", "upper"),
    "incident": Style("diamond", "title"),
    "frequent incident": Style("tick", "text"),
    "violation": Style("triangle", "alarm"),
    "name": Style("name", "text"),
    "value": Style("value", "text"),
    "alarm": Style("value", "alarm"),
}


class FrameItem(NamedTuple):
    """What lies in `lane` (None: across all lanes) from `low` to `high` on the axis while from_ms <= clock < to_ms.

    `to_ms` is None if it stays to the end; `label` is written on it, or beside it.
    """

    lane: int | None
    from_ms: int
    to_ms: int | None
    low: int
    high: int
    style: str
    label: str


@dataclass(slots=True)
class Builder:
    """Items in the making: under each key lies one item at a time, until something else is put there."""

    items: list[FrameItem] = field(default_factory=list)
    _open: dict[Hashable, FrameItem] = field(default_factory=dict)

    def put(
        self,
        key: Hashable,
        at_ms: int,
        lane: int | None,
        style: str,
        low: int | None = 0,
        high: int | None = None,
        label: str = "",
    ) -> None:
        """From `at_ms` on this lies under the key, and what lay there before does not; moments of a key ascend.

        An equal item stays. `high` is `low` if not given; nothing lies there if `low` is unknown (None).
        """
        if low is None:
            self.take(key, at_ms)
            return
        new = FrameItem(lane, at_ms, None, low, low if high is None else high, style, label)
        before = self._open.get(key)
        if before is None or before._replace(from_ms=at_ms) != new:
            self.take(key, at_ms)
            self._open[key] = new

    def take(self, key: Hashable, at_ms: int) -> None:
        """From `at_ms` on nothing lies under the key."""
        before = self._open.pop(key, None)
        if before is not None and before.from_ms < at_ms:
            self.items.append(before._replace(to_ms=at_ms))

    def take_all(self, of: object, at_ms: int, *, but: Iterable[Hashable] = ()) -> None:
        """From `at_ms` on nothing lies under the keys that are tuples beginning with `of`, except those in `but`."""
        excepted = set(but)
        for key in [key for key in self._open if isinstance(key, tuple) and key[0] == of and key not in excepted]:
            self.take(key, at_ms)

    def finish(self) -> tuple[FrameItem, ...]:
        """All items: areas first, points and words on top of them, each by when it appeared."""
        everything = [*self.items, *self._open.values()]
        return tuple(sorted(everything, key=lambda item: (ITEM_SHAPES[STYLES[item.style].shape].rank, item.from_ms)))


@dataclass(frozen=True, slots=True, kw_only=True)
class FramePanel:
    """Lanes under each other, `lane_px` high each, over the axis [low, high] in integers of the axis' own unit.

    Sizes are pixels; `head_px` is room above the lanes. `still` is SVG of what never changes: axes, titles, curves.
    Places count from the clock if the panel is `relative`. With `cursor` the moment is drawn across the panel.
    """

    title: str
    left: float
    top: float = 0
    width: float
    head_px: float = 24.0
    lanes: int
    lane_px: float = 30.0
    low: int
    high: int
    relative: bool = False
    cursor: bool = False
    items: tuple[FrameItem, ...]
    still: str = ""

    @property
    def lanes_top(self) -> float:
        """The pixel row where the first lane begins."""
        return self.top + self.head_px

    @property
    def bottom(self) -> float:
        """The last pixel row of the last lane."""
        return self.lanes_top + self.lanes * self.lane_px

    def x(self, value: float) -> float:
        """The pixel column of a place on the axis."""
        return self.left + (value - self.low) / (self.high - self.low) * self.width

    def items_at(self, at_ms: int) -> list[FrameItem]:
        """The items of a moment, in the order in which they are drawn."""
        return [item for item in self.items if item.from_ms <= at_ms and (item.to_ms is None or at_ms < item.to_ms)]

    def lane_texts(self, at_ms: int) -> Iterator[str]:
        """The lanes of a moment in words: what stands in the column of values, and the blocks."""
        labels: dict[tuple[int | None, bool], list[str]] = {}
        for item in self.items_at(at_ms):
            shape = STYLES[item.style].shape
            if item.label and shape in ("name", *VALUES):
                labels.setdefault((item.lane, shape == "name"), []).append(item.label)
        for lane in range(self.lanes):
            if (lane, True) in labels and (lane, False) in labels:
                yield f"{labels[lane, True][0]}: {', '.join(labels[lane, False])}"


@dataclass(frozen=True, slots=True, order=True)
class Incident:
    """Something a person may want to jump to: when, of which kind, and in words."""

    at_ms: int
    kind: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrubberFrames:
    """All frames of a run.

    The clock runs from `low_ms` to `high_ms`; with `instants` it is ms since 1970. `changes` are the moments at which
    anything changes, ascending; `kinds` are those of the incidents, in the order in which they are offered.
    `sentences` are (from when it holds, sentence), ascending. `overviews` has for each reader what never changes in the
    last panel if it shows the bounds of that reader; it shows those of `reader`, or, under "", of nobody.
    """

    title: str
    low_ms: int
    high_ms: int
    instants: bool
    width: float
    height: float
    panels: tuple[FramePanel, ...]
    kinds: tuple[str, ...]
    incidents: tuple[Incident, ...]
    changes: tuple[int, ...]
    sentences: tuple[tuple[int, str], ...] = ()
    overviews: Mapping[str, str] = field(default_factory=dict)
    reader: str | None = None

    def seen_by(self, reader: str | None) -> ScrubberFrames:
        """The frames whose last panel shows the bounds of a reader; raises `ChartError` for one that it cannot show."""
        if reader == self.reader:
            return self
        if reader is None or reader not in self.overviews:
            remedy = f"Choose one of: {', '.join(self.overviews) or 'there is none'}."
            raise ChartError(f"No reader {reader!r} looked at its window.", remedy=remedy)
        *panels, whole = self.panels
        return replace(self, panels=(*panels, replace(whole, still=self.overviews[reader])), reader=reader)

    def clamp(self, offered: object) -> tuple[int, str]:
        """The moment, and "" or, if it lies outside, the nearest one and what to say about it.

        Raises `ChartError` if it is no whole number.
        """
        at_ms = the_moment(offered, ChartError)
        nearest_ms = min(max(at_ms, self.low_ms), self.high_ms)
        if nearest_ms == at_ms:
            return at_ms, ""
        side, edge = ("before", "begins") if at_ms < self.low_ms else ("after", "ends")
        return nearest_ms, f"{self.clock(at_ms)} is {side} the recording, which {edge} at {self.clock(nearest_ms)}"

    def clock(self, at_ms: int) -> str:
        """A moment in words, "36 000 ms", "12 min 0.5 s" in a run of ten minutes, or "2013-01-05 17:32:00 UTC"."""
        return moment(at_ms, beside_ms=max(self.low_ms, self.high_ms, key=abs))

    def step(self, at_ms: int, changes: int) -> int:
        """The moment so many changes later, or earlier if negative; the first or last change if there are not."""
        index = bisect_right(self.changes, at_ms) - 1
        if changes < 0 and self.changes[max(index, 0)] < at_ms:
            index += 1
        return self.changes[min(max(index + changes, 0), len(self.changes) - 1)]

    def next_incident(self, at_ms: int, kind: str | None = None, *, backwards: bool = False) -> Incident | None:
        """The nearest incident of the kind (None: of any) after the moment, or before it; None if there is none."""
        wanted = [incident for incident in self.incidents if kind in (None, incident.kind)]
        times = [incident.at_ms for incident in wanted]
        index = bisect_left(times, at_ms) - 1 if backwards else bisect_right(times, at_ms)
        return wanted[index] if 0 <= index < len(wanted) else None

    def sentence(self, at_ms: int) -> str:
        """The sentence that holds at the moment; empty if there is none."""
        index = bisect_right(self.sentences, at_ms, key=lambda entry: entry[0])
        return self.sentences[index - 1][1] if index else ""

    def text(self, at_ms: int) -> str:
        """The picture of a moment in words, a line a lane."""
        lanes = (f"  {line}" for panel in self.panels for line in panel.lane_texts(at_ms))
        return "\n".join([self.heading(at_ms), *capitalized(self.sentence(at_ms)), *lanes])

    def heading(self, at_ms: int) -> str:
        """Where in the run a moment lies."""
        return f"{self.title} at {self.clock(at_ms)}, change {bisect_right(self.changes, at_ms)} of {len(self.changes)}"


def capitalized(sentence: str) -> list[str]:
    """A sentence as it stands alone; nothing if it is empty."""
    return [f"{sentence[0].upper()}{sentence[1:]}."] if sentence else []


def changes_of(panels: Iterable[Iterable[FrameItem]], incidents: Iterable[Incident], low_ms: int) -> tuple[int, ...]:
    """The moments at which an item appears or disappears or an incident happens, ascending, beginning with `low_ms`."""
    items = [item for panel in panels for item in panel]
    times = {low_ms, *(incident.at_ms for incident in incidents), *(max(item.from_ms, low_ms) for item in items)}
    return tuple(sorted(times | {item.to_ms for item in items if item.to_ms is not None}))
