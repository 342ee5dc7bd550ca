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
    """What a line, an area or a text stands for: its colours, its width and its dash in px.

    `light` and `dark` are its colours in an SVG on light and on dark, `both` its colour in a plotly figure.
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
    "lower": Role("#0072B2", "#4FA9E0", 2.2, both="#0072B2"),
    "upper": Role("#D55E00", "#F08A45", 2.2, "7 4", "#D55E00"),
    "perfect": Role("#5a5a5a", "#b5b5b5", 1.4, "1.5 2.5"),
    "band": Role("#0072B2", "#4FA9E0", both="rgba(0,114,178,0.16)"),
    "unknown": Role("#757575", "#929292", both="rgba(127,127,127,0.35)"),
    "alarm": Role("#B3001B", "#FF7285", 2.2, both="#E0314B"),
    "third": Role("#00785A", "#3CC79B", 2.0, "2 3", "#0B9671"),
    "fourth": Role("#9C4F8B", "#DA9BC9", 2.0, "9 3 2 3", "#B5679F"),
}
"""Every role a picture uses. Colours of text and lines have a contrast of at least 3.8 to 1 on their paper."""


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
