"""What is drawn, before any library draws it: panels over one x axis, each with layers in the units of its data.

A chart composes a `Scene` from the facts it found; `svg` and `plotly` draw the same scene. A layer has a role, which
gives colour, width and dash (`style.ROLES`), and a name, which stands beside its end, in the legend or in the hover
box; so nothing is shown by colour alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeVar

from wmlab.core.charts.axis import Number, Numbers, Scale, Tick
from wmlab.core.charts.steps import Value, staircases
from wmlab.core.charts.style import Placed, stagger, text_width, wrap
from wmlab.core.words import listed

Shape = Literal["circle", "diamond", "triangle", "cross"]

LANE: Final = 34.0
"""Height of a lane in px."""
_MARGIN, _LABELLED, _BARE = 20.0, 132.0, 34.0
"""Pixels left of everything, and right of the plot at least, with and without the names of curves."""
_BOLD: Final = 1.1
"""How much wider the bold names of curves are than plain text."""


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
    """Straight lines through points; None breaks the line. Its name stands in the legend, or beside its end."""

    name: str
    role: str
    xs: Sequence[Number | None]
    ys: Sequence[Number | None]
    legend: bool = True
    labelled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Dots:
    """Markers, each with its own words for the hover box (empty: none)."""

    name: str
    role: str
    shape: Shape
    xs: Sequence[Number]
    ys: Sequence[Number]
    hover: Sequence[str] = ()
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
    hover: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """Rectangles of one meaning; with `beside` their labels stand after them, and always."""

    name: str
    role: str
    boxes: Sequence[Box]
    opacity: float = 0.28
    legend: bool = True
    beside: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Between:
    """The area between two step curves over the same points."""

    xs: Sequence[int]
    lows: Sequence[Value]
    highs: Sequence[Value]


Layer = Steps | Path | Dots | Blocks | Between
Named = Path | Dots | Blocks
"""Layers that may stand in the legend."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One vertical axis and what is drawn over it, the last layer on top. `height` is in px.

    A `note` stands in the middle of a panel that has nothing to show; its vertical axis has no ticks.
    """

    up: Scale
    layers: Sequence[Layer]
    height: float = 240.0
    note: str = ""

    @property
    def ends(self) -> list[tuple[Steps | Path, Number]]:
        """The curves whose name stands beside their end, with their last known values."""
        named = [layer for layer in self.layers if isinstance(layer, Steps | Path) and layer.labelled]
        known = [(layer, [y for y in layer.ys if y is not None]) for layer in named]
        return [(layer, ys[-1]) for layer, ys in known if ys]


_IMPORTANCE: Final = ("cross", "circle", "triangle", "diamond")
"""Which labels come first where there is no room for all: of failures, of anything else, of recoveries, of scales."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A vertical line through all panels with a label above them: something that happened."""

    x: int
    label: str
    shape: Shape = "circle"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A whole picture: question, answer, the x axis, the panels from top to bottom, and the rules across them.

    Rules beyond the ends of the x axis are left out. With `together` a hover box shows all values at one x.
    """

    title: str
    subtitle: str
    across: Scale
    panels: Sequence[Panel]
    rules: Sequence[Rule] = ()
    together: bool = False

    def __post_init__(self) -> None:
        axis = self.across
        object.__setattr__(self, "rules", [rule for rule in self.rules if axis.low <= rule.x <= axis.high])

    @property
    def layers(self) -> list[Layer]:
        """The layers of all panels."""
        return [layer for panel in self.panels for layer in panel.layers]

    @property
    def legend(self) -> list[Named]:
        """The layers that the legend names, each name once."""
        named: dict[str, Named] = {}
        for layer in self.layers:
            if isinstance(layer, Path | Dots | Blocks) and layer.legend:
                drawn = layer.boxes if isinstance(layer, Blocks) else layer.xs
                if drawn:
                    named.setdefault(layer.name, layer)
        return list(named.values())

    def legend_rows(self, width: float, *, size: float, beside: float) -> list[list[tuple[float, Named]]]:
        """The entries of a legend of that width, with their columns, in as many rows as they need.

        `beside` is what an entry takes besides its name, in pixels.
        """
        rows: list[list[tuple[float, Named]]] = []
        column = width
        for layer in self.legend:
            taken = text_width(layer.name, size) + beside
            if column + taken > width:
                rows.append([])
                column = 0.0
            rows[-1].append((column, layer))
            column += taken
        return rows

    @property
    def left(self) -> float:
        """Pixels left of the plot, for the labels of ticks and the titles of the vertical axes."""
        widths = []
        for panel in self.panels:
            widest = max((text_width(tick.label, 12) for tick in panel.up.ticks(6)), default=0.0)
            widths.append(_MARGIN + widest + (36 if panel.up.title else 14))
        return max(widths)

    @property
    def right(self) -> float:
        """Pixels right of the plot, for the names of curves or for labels beside boxes."""
        beside = [layer for layer in self.layers if isinstance(layer, Blocks) and layer.beside]
        widths = [text_width(box.label, 12) + 16 for layer in beside for box in layer.boxes]
        named = [layer.name for layer in self.layers if isinstance(layer, Steps | Path) and layer.labelled]
        widths += [text_width(name, 12.5 * _BOLD) + 16 for name in named]
        return max([_LABELLED if named else _BARE, *widths])

    def rule_labels(self, plot_px: float, *, size: float, gap: float, limit: float) -> tuple[int, list[Placed | None]]:
        """Where the labels of the rules stand in a plot of that width, as `stagger` has it."""
        span = self.across.high - self.across.low
        columns = [(rule.x - self.across.low) / span * plot_px for rule in self.rules]
        widths = [text_width(rule.label, size) + gap for rule in self.rules]
        return stagger(columns, widths, limit=limit, ranks=[_IMPORTANCE.index(rule.shape) for rule in self.rules])

    def subtitle_lines(self, labels: Sequence[Placed | None], *, width: float) -> list[str]:
        """The subtitle in lines, which says how many rules have no room for their label."""
        note = f" Without a label: {n} of {len(labels)} incidents." if (n := labels.count(None)) else ""
        return wrap(self.subtitle + note, width=width, size=13)


Curve = TypeVar("Curve", Steps, Path)


def joined(curves: Sequence[Curve]) -> list[Curve]:
    """The curves, of which equal ones become one with all their names, in the look of the last: it would hide them."""
    found: dict[str, list[Curve]] = {}
    for curve in curves:
        known = staircases(curve.xs, curve.ys) if isinstance(curve, Steps) else (curve.xs, curve.ys)
        found.setdefault(repr(known), []).append(curve)
    return [replace(equal[-1], name=listed([curve.name for curve in equal])) for equal in found.values()]


def lanes(names: Iterable[str], layers: Sequence[Layer], *, height: float = LANE) -> Panel:
    """A panel of named rows of `height` px, the first on top; row i is the stretch from i - 0.5 to i + 0.5."""
    rows = tuple(Tick(row, name) for row, name in enumerate(names))
    up = Numbers("", max(len(rows), 1) - 0.5, -0.5, rows)
    return Panel(up=up, layers=layers, height=height * max(len(rows), 1))
