"""A view that lives in a notebook as long as its kernel, with a still picture where no kernel runs.

A widget whose kernel is gone is shown by JupyterLab as "Error displaying widget: model not found", whatever else the
output holds. So a live view is three outputs: the picture and its words, a note that says how to bring it to life, and
the widget. A style sheet hides the first two while the widget lives, and the third one while it does not.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from html import escape
from pathlib import Path
from typing import Any, Final

import anywidget
from IPython.display import publish_display_data

from wmlab.core.charts.style import FONT, ROLES

publish: Callable[[dict[str, str]], None] = publish_display_data
"""Makes an output of the cell that runs."""
_VIEW: Final = "application/vnd.jupyter.widget-view+json"
_OUTPUT: Final = ".jp-OutputArea-child"
HIDES_THE_STILL: Final = (
    f"{_OUTPUT}:has(+ {_OUTPUT} .wmlab-note):has(+ {_OUTPUT} + {_OUTPUT} .wmlab-live),"
    f"{_OUTPUT}:has(.wmlab-note):has(+ {_OUTPUT} .wmlab-live){{display:none}}\n"
)
"""The rule of a living view about the two outputs before it."""


def hides_the_dead(note: str) -> str:
    """The rule of a note of this class about the view after it; of all outputs only widgets are Panels of Lumino.

    A note after a picture that stays while the widget lives has another class than `wmlab-note`.
    """
    return (
        f"<style>{_OUTPUT}:has(.{note}) + {_OUTPUT}:has(> .jp-OutputArea-output.lm-Panel):not(:has(.wmlab-live))"
        "{display:none}</style>"
    )


@cache
def shared_script() -> str:
    """What the programs of all live views have in common, to stand before each."""
    return Path(__file__).with_suffix(".js").read_text(encoding="utf-8")


def theme(inside: str) -> str:
    """The colours of `style.ROLES` inside a selector, by JupyterLab's theme or else the desktop's, for HTML and SVG."""
    light, dark = (
        "".join(f"--wmlab-{name}:{getattr(role, shade)};" for name, role in ROLES.items())
        for shade in ("light", "dark")
    )
    rules = [
        f"{inside}{{{light}font-family:{FONT}}}",
        f"@media (prefers-color-scheme:dark){{{inside}{{{dark}}}}}",
        f'[data-jp-theme-light="true"] {inside}{{{light}}}',
        f'[data-jp-theme-light="false"] {inside}{{{dark}}}',
    ]
    for name in ROLES:
        rules += [f"{inside} .wmlab-{kind}-{name}{{{kind}:var(--wmlab-{name})}}" for kind in ("fill", "stroke")]
    return "\n".join(rules)


class LiveView(anywidget.AnyWidget):
    """A widget of which a notebook keeps a still picture; `noun` says what it is a picture of.

    The element of its program has the class `wmlab-live`, and its style sheet begins with `HIDES_THE_STILL`.
    """

    noun: str

    def still(self) -> tuple[str, str]:
        """The picture as SVG, and the same in words."""
        raise NotImplementedError

    def _ipython_display_(self) -> None:
        display_live(self, *self.still(), self.noun)


def display_live(widget: Any, picture: str, words: str, noun: str) -> None:
    """Publish a widget as three outputs; the picture (SVG) and the words are what a notebook keeps of it."""
    note = f"A still picture of the {noun}, which needs a running kernel: run this cell to bring it to life."
    publish({"image/svg+xml": picture, "text/plain": words})
    publish({"text/html": f"{hides_the_dead('wmlab-note')}<p class='wmlab-note'>{escape(note)}</p>"})
    live: Any = widget._repr_mimebundle_()
    bundle = live[0] if isinstance(live, tuple) else live
    publish({_VIEW: bundle[_VIEW]})
