"""The look of all pictures: colours by role, line styles, and text that must not collide.

Each role has a colour for light and one for dark pages. An SVG brings its own background and takes the colours that the
reader prefers. A plotly figure is stored once and shown on white as well as on near-black pages: its background is
transparent, its lines and areas have one colour that is seen on both, and its texts take the colour of the page
(`page_colour`). Where a viewer cannot do that they are of one grey, #797979, whose contrast is 4.3 to 1 on white and on
#111: no colour has more on both.

Lower and upper are blue and vermilion of Okabe and Ito's palette for colour-blind readers, and always differ in dash
and label as well.

Widths and positions are in pixels. Fonts differ between machines, so the estimate is a little generous.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

GREY: Final = "#797979"
TITLE_PX, TEXT_PX, TICK_PX, LABEL_PX = 17.0, 13.0, 12.0, 12.0
"""Font sizes: the title, the answer and the titles of axes, ticks and legends, labels and the names of curves."""
THIN_PX = 1.0
"""The width of lines that lie close together, whatever their role."""
BOLD: Final = 1.22
"""How much wider bold text is than plain text."""
FONT: Final = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"


@dataclass(frozen=True, slots=True)
class Role:
    """What a line, an area or a text stands for: its colours, its width and its dash in px.

    `light` and `dark` are its colours on light and on dark pages, `both` that of lines and areas in a plotly figure.
    """

    light: str
    dark: str
    width: float = 1.0
    dash: str = ""
    both: str = GREY

    @property
    def plotly_dash(self) -> str:
        """The dash as plotly writes it."""
        return ",".join(f"{length}px" for length in self.dash.split()) or "solid"


ROLES: Final[dict[str, Role]] = {
    "paper": Role("#ffffff", "#111111"),
    "title": Role("#1f1f1f", "#ededed"),
    "text": Role("#4a4a4a", "#c4c4c4"),
    "grid": Role("#e4e4e4", "#303030"),
    "mark": Role("#757575", "#929292", 1.0, "1 3"),
    "lower": Role("#0072B2", "#4FA9E0", 2.2, both="#2385CB"),
    "coalesced": Role("#0072B2", "#4FA9E0", 4.5, both="#2385CB"),
    "upper": Role("#BF5400", "#F08A45", 2.2, "7 4", "#D55E00"),
    "perfect": Role("#5a5a5a", "#b5b5b5", 1.4, "1.5 2.5"),
    "band": Role("#0072B2", "#4FA9E0", both="rgba(35,133,203,0.24)"),
    "unknown": Role("#757575", "#929292", both="rgba(127,127,127,0.35)"),
    "alarm": Role("#B3001B", "#FF7285", 2.2, both="#E0314B"),
    "third": Role("#00785A", "#3CC79B", 2.0, "2 3", "#0B9671"),
    "fourth": Role("#9C4F8B", "#DA9BC9", 2.0, "9 3 2 3", "#B5679F"),
}
"""Every role a picture uses. On its paper each has a contrast of at least 4.5 to 1, as WCAG 2.2 AA asks of text, but
for the grid, and `both` has at least 3 to 1 on either, as it asks of anything but text."""


def page_colour(role: str) -> str:
    """The colour of the role as CSS, by the background of the page on which it is shown.

    JupyterLab declares that as `--jp-layout-color0`, white in its light theme and #111 in its dark one; the colour is
    on the straight line between `light` and `dark`. On a page without it the value is invalid, and a text has the
    colour of what it is in.
    """
    light, dark, white, black = (_channels(colour) for colour in (ROLES[role].light, ROLES[role].dark, *_PAPERS))
    span = white[0] - black[0]
    slopes = [(of_light - of_dark) / span for of_light, of_dark in zip(light, dark, strict=True)]
    terms = (f"calc({at - slope * black[0]:.3f} + {slope:.3f}*r)" for at, slope in zip(dark, slopes, strict=True))
    return f"color(from var({PAGE}) srgb {' '.join(terms)})"


PAGE: Final = "--jp-layout-color0"
"""The variable of CSS that holds the background of a page."""
_PAPERS: Final = (ROLES["paper"].light, ROLES["paper"].dark)


def _channels(colour: str) -> list[float]:
    """Red, green and blue of "#rrggbb", from 0 to 1."""
    return [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]


def jupyter_style(inside: str) -> str:
    """The CSS that gives the SVG of charts inside the selector `inside` the colours of JupyterLab's theme.

    By itself an SVG follows the desktop, which may be light while JupyterLab is dark.
    """
    return "".join(
        f'[data-jp-theme-light="{light}"] {inside} .wmlab-{kind}-{name}{{{kind}:{colour}}}'
        for name, role in ROLES.items()
        for kind in ("fill", "stroke")
        for light, colour in (("true", role.light), ("false", role.dark))
    )


_EM_PER_CHARACTER: Final = 0.57
_GAP: Final = 8.0
_MOST_LEVELS: Final = 8
_MOST_TRIED: Final = 40
"""Of so many labels it is tried whether they have room, where not all have."""
_QUANTITY: Final = re.compile(r"(?<=\d) (?=(?:ms|s|min|h|d|\d{3})\b)")


def text_width(text: str, size: float) -> float:
    """About how wide `text` is in a proportional sans-serif font of `size` pixels."""
    return len(text) * _EM_PER_CHARACTER * size


def glued(text: str) -> str:
    """The text with each number held together, and with its unit, by spaces at which no line is broken."""
    return _QUANTITY.sub("\u00a0", text)


def wrap(text: str, *, width: float, size: float) -> list[str]:
    """The lines of `text` so that each fits into `width`; a number stays whole and with its unit."""
    return textwrap.wrap(glued(text), max(int(width / (_EM_PER_CHARACTER * size)), 10))


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a marker's label stands: its level (0 next to the plot, upwards), from where to where its text runs, and
    whether the text stands before its line instead of after it. A text of several lines takes as many levels, the
    lowest of which is its own."""

    level: int
    start: float
    end: float
    before: bool
    lines: int = 1

    @property
    def middle(self) -> float:
        """The height of the middle of the text, in levels."""
        return self.level + self.lines / 2

    @property
    def above(self) -> int:
        """The level above the text."""
        return self.level + self.lines


@dataclass(frozen=True, slots=True)
class RuleLabels:
    """In how many `levels` the labels of rules stand, where each stands (None: it has no room), and its lines."""

    levels: int
    places: Sequence[Placed | None]
    texts: Sequence[Sequence[str]]

    @property
    def missing(self) -> int:
        """How many have no room."""
        return list(self.places).count(None)

    @property
    def rows(self) -> int:
        """How many rows of text they take, with one for the markers of those without room."""
        return self.levels + bool(self.missing)


_Side = tuple[float, float, bool]
"""The last three fields of a `Placed`."""


def stagger(
    line_xs: Sequence[float],
    widths: Sequence[float],
    *,
    room: tuple[float, float],
    ranks: Sequence[int],
    lines: Sequence[int] = (),
) -> tuple[int, list[Placed | None]]:
    """Levels for the labels of vertical lines at `line_xs` (ascending): (number of levels, one answer per label).

    A line rises from the plot to the middle of its label, whose text stands after it or before it, inside the `room`.
    `lines` is how many each text has; one if not given. No text touches another text or a line. Labels are placed from
    the left, from the right, or the longest first, whichever needs fewer levels; one that does not fit into eight
    levels is None. If there is no room for all, those of the lowest of the `ranks` come first.
    """
    if not line_xs:
        return 0, []
    lines = lines or [1] * len(line_xs)
    after_or_before = [[(x, x + width, False), (x - width, x, True)] for x, width in zip(line_xs, widths, strict=True)]
    sides = [[side for side in both if side[0] >= room[0] and side[1] <= room[1]] for both in after_or_before]

    def least(rows: Sequence[int]) -> tuple[int, list[Placed | None]]:
        """The placing of these labels with the fewest missing, and of those the one with the fewest levels."""
        orders = [sorted(rows), sorted(rows, reverse=True), sorted(rows, key=lambda i: -widths[i])]
        tries = [
            (levels, _put_labels(line_xs, sides, lines, order, levels, before=before))
            for levels in range(1, _MOST_LEVELS + 1)
            for order in orders
            for before in (False, True)
        ]
        return min(tries, key=lambda tried: tried[1].count(None))

    placed = least(range(len(line_xs)))
    if None not in placed[1]:
        return placed
    # Each label in turn, the most important first, stays if all that stay have room together.
    staying: list[int] = []
    for i in sorted(range(len(line_xs)), key=lambda i: ranks[i])[:_MOST_TRIED]:
        together = sorted([*staying, i])
        ways = ((order, before) for order in (together, together[::-1]) for before in (False, True))
        tries = (_put_labels(line_xs, sides, lines, order, _MOST_LEVELS, before=before) for order, before in ways)
        if any(all(labels[number] is not None for number in together) for labels in tries):
            staying = together
    return least(staying)


def _put_labels(
    line_xs: Sequence[float],
    sides: Sequence[list[_Side]],
    lines: Sequence[int],
    order: Sequence[int],
    levels: int,
    *,
    before: bool,
) -> list[Placed | None]:
    """The labels, put down in this order, each where it meets nothing that stands; `before`: rather before its line."""
    labels: list[Placed | None] = [None] * len(line_xs)
    for i in order:
        preferred = sorted(sides[i], key=lambda side: side[2] != before)
        free_levels = range(levels - lines[i], -1, -1)
        wishes = [Placed(level, *side, lines[i]) for side in preferred for level in free_levels]
        others = [(line_x, label) for line_x, label in zip(line_xs, labels, strict=True) if label is not None]
        labels[i] = next((wish for wish in wishes if _is_free(wish, line_xs[i], others)), None)
    return labels


def _is_free(wish: Placed, line_x: float, others: Sequence[tuple[float, Placed]]) -> bool:
    """Whether neither the wished text nor the line at `line_x` that carries it meets a line or a text that stands."""
    for other_x, other in others:
        side_by_side = other.level < wish.above and wish.level < other.above
        texts_meet = side_by_side and wish.start < other.end + _GAP and other.start < wish.end + _GAP
        line_crosses_wish = other.middle > wish.level + 0.5 and wish.start < other_x < wish.end
        line_crosses_other = wish.middle > other.level + 0.5 and other.start < line_x < other.end
        if texts_meet or line_crosses_wish or line_crosses_other:
            return False
    return True
