"""What is drawn, before any library draws it: panels over one x axis, each with layers in the units of its data.

A chart composes a `Scene` from the facts it found; `scene_svg` and `scene_plotly` draw the same scene. A layer has a
role, which gives colour, width and dash (`style.ROLES`), and a name, which stands beside its end, in the legend or in
the hover box; so nothing is told by colour alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal

from wmlab.core.charts.axis import Axis
from wmlab.core.charts.progress_picture import Counts
from wmlab.core.charts.steps import Value
from wmlab.core.charts.ticks import Tick, duration_unit, is_instant

Shape = Literal["circle", "diamond", "triangle", "cross"]
Number = int | float

LANE: Final = 34.0
"""Height of a lane in px."""


@dataclass(frozen=True, slots=True)
class Lanes:
    """A vertical axis of named rows, the first on top; row i is the stretch from i - 0.5 to i + 0.5."""

    names: tuple[str, ...]
    title: str = ""
    instants: bool = False

    @property
    def low(self) -> float:
        """The lower edge."""
        return max(len(self.names), 1) - 0.5

    @property
    def high(self) -> float:
        """The upper edge."""
        return -0.5

    def ticks(self, count: int) -> list[Tick]:  # noqa: ARG002 (as other axes)
        """One for each row."""
        return [Tick(place, name) for place, name in enumerate(self.names)]

    def plotted(self, values: Iterable[Number | None]) -> list[float | None]:
        """Values as a plotly axis takes them."""
        return list(values)


@dataclass(frozen=True, slots=True)
class Share:
    """A vertical axis from 0 to 1, such as the key space."""

    title: str
    low: float = 0.0
    high: float = 1.0
    instants: bool = False

    def ticks(self, count: int) -> list[Tick]:  # noqa: ARG002 (as other axes)
        """The quarters."""
        return [Tick(quarter / 4, str(Fraction(quarter, 4))) for quarter in range(5)]

    def plotted(self, values: Iterable[Number | None]) -> list[float | None]:
        """Values as a plotly axis takes them."""
        return list(values)


Scale = Axis | Counts | Lanes | Share


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """A curve that holds each value until the next; None is unknown. Its name stands beside its end."""

    name: str
    role: str
    xs: Sequence[int]
    ys: Sequence[Value]
    labelled: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """Straight lines through points; None breaks the line."""

    name: str
    role: str
    xs: Sequence[Number | None]
    ys: Sequence[Number | None]
    legend: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Dots:
    """Markers, each with its own words for the hover box (empty: none)."""

    name: str
    role: str
    shape: Shape
    xs: Sequence[Number]
    ys: Sequence[Number]
    told: Sequence[str] = ()
    size: float = 4.0
    legend: bool = True


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle with a label inside it, if there is room, and words for the hover box."""

    x_low: int
    x_high: int
    y_low: Number
    y_high: Number
    label: str = ""
    told: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """Rectangles of one meaning."""

    name: str
    role: str
    boxes: Sequence[Box]
    opacity: float = 0.28
    legend: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Between:
    """The area between two step curves over the same points."""

    xs: Sequence[int]
    lows: Sequence[Value]
    highs: Sequence[Value]


Layer = Steps | Path | Dots | Blocks | Between


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One vertical axis and what is drawn over it, the last layer on top. `height` is in px."""

    up: Scale
    layers: Sequence[Layer]
    height: float = 240.0


@dataclass(frozen=True, slots=True)
class Rule:
    """A vertical line through all panels with a label above them: something that happened."""

    x: int
    label: str
    shape: Shape = "circle"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A whole picture: question, answer, the x axis, the panels from top to bottom, and the rules across them."""

    title: str
    subtitle: str
    across: Axis | Counts
    panels: Sequence[Panel]
    rules: Sequence[Rule] = ()

    @property
    def legend(self) -> list[Path | Dots | Blocks]:
        """The layers that the legend names, each name once."""
        named: dict[str, Path | Dots | Blocks] = {}
        for panel in self.panels:
            for layer in panel.layers:
                if isinstance(layer, Path | Dots | Blocks) and layer.legend and _drawn(layer):
                    named.setdefault(layer.name, layer)
        return list(named.values())

    @property
    def labelled(self) -> bool:
        """Whether some curve has its name beside its end."""
        return any(isinstance(layer, Steps) and layer.labelled for panel in self.panels for layer in panel.layers)


def _drawn(layer: Path | Dots | Blocks) -> bool:
    return bool(layer.boxes if isinstance(layer, Blocks) else layer.xs)


def lanes(names: Iterable[str], layers: Sequence[Layer], *, title: str = "") -> Panel:
    """A panel of named rows, as high as they need."""
    rows = tuple(names)
    return Panel(up=Lanes(rows, title), layers=layers, height=LANE * max(len(rows), 1))


def time_axis(name: str, values: Iterable[int | None], *, pad_percent: int = 0) -> Axis:
    """An axis that covers the known `values` (ms): instants if they read as such, durations otherwise."""
    known = [value for value in values if value is not None] or [0, 1]
    low, high = min(known), max(known)
    pad = (high - low) * pad_percent // 100 if low < high else 1_000
    low, high = low - pad, high + pad
    return Axis(name, low, high, is_instant(known), duration_unit(high - low))
