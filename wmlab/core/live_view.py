"""A view that lives in a notebook as long as its kernel, with a still picture where no kernel runs.

A widget whose kernel is gone is shown by JupyterLab as "Error displaying widget: model not found", whatever else the
output holds. So a live view is three outputs: the picture and its words, a note that says how to bring it to life, and
the widget. A style sheet hides the first two while the widget lives, and the third one while it does not.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any, Final

import anywidget
from IPython.display import publish_display_data

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


class KeyGuard(anywidget.AnyWidget):
    """Keeps keys without Ctrl, Alt or Cmd from JupyterLab while the focus is in a widget of the class `wmlab-keys`.

    Otherwise x on a button of the widget would cut the cell. It shows nothing.
    """

    _esm = """
    const guard = event => {
        if (!event.target.closest?.(".wmlab-keys")) return
        const plain = !(event.ctrlKey || event.metaKey || event.altKey)
        // JupyterLab looks for this attribute before it looks for a shortcut.
        event.target.toggleAttribute("data-lm-suppress-shortcuts", plain)
    }
    const render = ({ el }) => {
        el.hidden = true
        window.addEventListener("keydown", guard, true)
        return () => window.removeEventListener("keydown", guard, true)
    }
    export default { render }
    """


def display_live(widget: Any, picture: str, words: str, noun: str) -> None:
    """Publish a widget as three outputs; the picture (SVG) and the words are what a notebook keeps of it."""
    note = f"A still picture of the {noun}, which needs a running kernel: run this cell to bring it to life."
    publish({"image/svg+xml": picture, "text/plain": words})
    publish({"text/html": f"{hides_the_dead('wmlab-note')}<p class='wmlab-note'>{escape(note)}</p>"})
    live: Any = widget._repr_mimebundle_()
    bundle = live[0] if isinstance(live, tuple) else live
    publish({_VIEW: bundle[_VIEW]})
