"""The look of all pictures: colours by role and line styles.

A plotly figure is stored once and shown on white as well as on near-black pages, so its background is transparent
and its text is one grey, #797979, whose contrast is 4.3 to 1 on white and on #111: no colour has more on both. The SVG
knows the reader's preference and brings its own background, so it has two colours per role.

Lower and upper are blue and vermilion of Okabe and Ito's palette for colour-blind readers, and always differ in dash
and label as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

GREY: Final = "#797979"
FONT: Final = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"


@dataclass(frozen=True, slots=True)
class Role:
    """What a line, an area or a text stands for: its colour on light and on dark, its width and dash in px."""

    light: str
    dark: str
    width: float = 1.0
    dash: str = ""


ROLES: Final[dict[str, Role]] = {
    "paper": Role("#ffffff", "#111111"),
    "title": Role("#1f1f1f", "#ededed"),
    "text": Role("#4a4a4a", "#c4c4c4"),
    "grid": Role("#e4e4e4", "#303030"),
    "mark": Role("#757575", "#929292", 1.0, "1 3"),
    "lower": Role("#0072B2", "#4FA9E0", 2.2),
    "upper": Role("#D55E00", "#F08A45", 2.2, "7 4"),
    "truth": Role("#5a5a5a", "#b5b5b5", 1.4, "1.5 2.5"),
    "band": Role("#0072B2", "#4FA9E0"),
    "unknown": Role("#757575", "#929292"),
    "alarm": Role("#B3001B", "#FF7285", 2.2),
    "third": Role("#00785A", "#3CC79B", 2.0, "2 3"),
    "fourth": Role("#9C4F8B", "#DA9BC9", 2.0, "9 3 2 3"),
}
"""Every role a picture uses. Colours of text and lines have a contrast of at least 3.8 to 1 on their paper."""

PLOTLY_DASH: Final = {
    "lower": "solid",
    "upper": "7px,4px",
    "truth": "1.5px,2.5px",
    "mark": "1px,3px",
    "third": "2px,3px",
    "fourth": "9px,3px,2px,3px",
}
PLOTLY_COLOUR: Final = {
    "lower": ROLES["lower"].light,
    "upper": ROLES["upper"].light,
    "truth": GREY,
    "mark": GREY,
    "alarm": "#E0314B",
    "band": "rgba(0,114,178,0.16)",
    "unknown": "rgba(127,127,127,0.35)",
    "text": GREY,
    "third": "#0B9671",
    "fourth": "#B5679F",
}
"""Colours of the plotly figure, one for both kinds of page."""
