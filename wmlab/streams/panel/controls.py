"""A field of the form as widgets: a text with a slider, a list of choices, or a check box, and its mistake below."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

import ipywidgets as ui

from wmlab.streams.panel.fields import Field

Commit = Callable[[Field, Any], None]
"""What is called with a field and what a user has put into it: a text as it was typed, or a value."""


class Control:
    """The widgets of a field, all in `box`.

    A text is committed by Enter or by leaving it, a slider when it is let go.
    """

    def __init__(self, field: Field, commit: Commit) -> None:
        self._commit = commit
        self._is_showing = False
        self._slider: Any = None
        common = {"description": field.label, "tooltip": field.help, "layout": ui.Layout(flex="1 1 0", min_width="0")}
        match field.kind:
            case "flag":
                self.entry: Any = ui.Checkbox(indent=False, **common)
            case "choice":
                self.entry = ui.Dropdown(options=[words for words, _ in field.choices], **common)
            case _:
                self.entry = ui.Text(continuous_update=False, placeholder=field.empty, **common)
        widgets = [self.entry]
        if field.stops:
            self._slider = ui.SelectionSlider(
                options=_stops(field),
                continuous_update=False,
                readout=False,
                tooltip=f"{field.label}: {field.help}",
                layout=ui.Layout(flex="0 1 30%", min_width="80px"),
            )
            self._slider.observe(lambda change: self._offer(change["new"]), "value")
            widgets.append(self._slider)
        self._help = ui.HTML(layout=ui.Layout(display=None if field.help_below else "none"))
        self._mistake = ui.HTML(layout=ui.Layout(display="none"))
        for below in (self._help, self._mistake):
            below.add_class("wmlab-below")
        self._help.add_class("wmlab-help")
        self.box = ui.VBox([ui.HBox(widgets), self._help, self._mistake])
        self.show(field)
        self.entry.observe(lambda change: self._offer(change["new"]), "value")

    def show(self, field: Field) -> None:
        """Show the value of the field, which has the same path and kind as before, and no mistake."""
        self.field, self._is_showing = field, True
        if field.kind == "choice":
            self.entry.options = [words for words, _ in field.choices]
            self.entry.value = next(words for words, choice in field.choices if choice == field.value)
        else:
            self.entry.value = field.value if field.kind == "flag" else field.text
        if self._slider is not None:
            self._slider.options = _stops(field)
            self._slider.value = field.text
        self._help.value = escape(field.help)
        self._is_showing = False
        self.refuse("")

    def refuse(self, mistake: str) -> None:
        """Say what is wrong with what was put into the field; "" if nothing is."""
        self._mistake.value = f"<span class='wmlab-mistake' role='alert'>{escape(mistake)}</span>" if mistake else ""
        self._mistake.layout.display = None if mistake else "none"

    def close(self) -> None:
        """Forget the widgets, in the kernel and in the browser."""
        for widget in (*self.box.children[0].children, *self.box.children, self.box):
            widget.close()

    def _offer(self, offered: Any) -> None:
        if not self._is_showing:
            self._commit(self.field, dict(self.field.choices).get(offered, offered))


def _stops(field: Field) -> list[tuple[str, str]]:
    """The stops of the slider: in words, and as one types them."""
    texts = map(field.text_of, field.stops)
    return [(text or field.empty, text) for text in texts]
