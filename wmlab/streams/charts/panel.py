"""The panel's widgets: a form on the left, the picture with its sentence on the right, kept runs below.

Pictures are the charts' own SVG inside an HTML widget, so that a notebook stores nothing live.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Any, Final, Protocol

import ipywidgets as widgets  # type: ignore[import-untyped]

from wmlab.streams.charts.panel_form import Form

_BUTTON: Final = "150px"


class Deeds(Protocol):
    """What the panel asks for when the user does something."""

    def change(self, path: Any, value: Any) -> None:
        """A field has a new value."""

    def remove(self, group: str) -> None:
        """The part with this heading is to go."""

    def add(self, what: str, text: str) -> None:
        """A writer or an act is to be added, as YAML."""

    def picture(self, name: str) -> None:
        """Another picture is wanted."""

    def cancel(self) -> None:
        """The run is to stop."""

    def keep(self, label: str) -> None:
        """The run is to be kept under a label."""

    def judge(self) -> None:
        """Verdicts are wanted."""

    def save(self, path: str) -> None:
        """The scenario is to be written to a file."""


class PanelView(widgets.VBox):  # type: ignore[misc]
    """All widgets of a panel, laid out; `deeds` is told what the user does."""

    def __init__(self, deeds: Deeds, pictures: Sequence[str]) -> None:
        self.form = Form(deeds.change, deeds.remove)
        self.choice = widgets.Dropdown(options=list(pictures), description="picture")
        self.choice.observe(lambda change: deeds.picture(change["new"]), "value")
        self.picture = widgets.HTML()
        self.sentence = widgets.HTML()
        self.message = widgets.HTML()
        self.bar = widgets.IntProgress(description="running", max=100, layout=widgets.Layout(visibility="hidden"))
        self.stop = _button("cancel the run", lambda: deeds.cancel())
        self.stop.layout.visibility = "hidden"
        self.label = widgets.Text(description="label", placeholder="name of this run", continuous_update=False)
        self.keep = _button("keep this run", lambda: deeds.keep(self.label.value))
        self.kept = widgets.HTML()
        self.judge = _button("verdicts", lambda: deeds.judge())
        self.verdicts = widgets.HTML()
        self.yaml = widgets.Textarea(
            description="YAML", rows=10, layout=widgets.Layout(width="98%"), tooltip="the scenario, to be copied"
        )
        self.file = widgets.Text(description="file", placeholder="scenario.yaml")
        self.save = _button("save as a file", lambda: deeds.save(self.file.value))
        self.added = widgets.Textarea(
            description="add", rows=4, layout=widgets.Layout(width="98%"), tooltip="a writer or an act, as YAML"
        )
        self.add_writer = _button("add this writer", lambda: deeds.add("writers", self.added.value))
        self.add_act = _button("add this act", lambda: deeds.add("script", self.added.value))
        super().__init__([widgets.HBox([self._left(), self._right()]), self.kept])

    def _left(self) -> widgets.Widget:
        more = widgets.VBox([self.added, widgets.HBox([self.add_writer, self.add_act])])
        copied = widgets.VBox([self.yaml, widgets.HBox([self.file, self.save])])
        folds = widgets.Accordion([more, copied], titles=["add a writer or an act", "copy the scenario as YAML"])
        folds.layout.width = "450px"
        return widgets.VBox([self.form, folds], layout=widgets.Layout(width="456px", flex="0 0 auto"))

    def _right(self) -> widgets.Widget:
        running = widgets.HBox([self.choice, self.bar, self.stop])
        keeping = widgets.HBox([self.label, self.keep, self.judge])
        return widgets.VBox(
            [running, self.message, self.sentence, self.picture, keeping, self.verdicts],
            layout=widgets.Layout(flex="1 1 auto", min_width="420px"),
        )

    def __repr__(self) -> str:
        return "Panel"

    def show_picture(self, svg: str, sentence: str) -> None:
        """A new picture and what explains the bound."""
        self.picture.value = svg
        self.sentence.value = f"<div aria-live='polite' style='line-height:1.4'>{escape(sentence)}</div>"

    def show_progress(self, percent: int | None) -> None:
        """How far a long run has come; None: nothing runs."""
        shown = "hidden" if percent is None else "visible"
        self.bar.value = percent or 0
        self.bar.layout.visibility = self.stop.layout.visibility = shown


def _button(text: str, pressed: Callable[[], None]) -> widgets.Button:
    button = widgets.Button(description=text, layout=widgets.Layout(width=_BUTTON), tooltip=text)
    button.on_click(lambda _: pressed())
    return button
