"""A chart that answers a click while a kernel runs: what there is to say of the moment is above the picture.

The picture is the same as without: a notebook that is executed to be stored or tested has no widget, and a page
without a kernel shows the picture alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from typing import Any, Final

import anywidget
import traitlets
from IPython.display import display

from wmlab.core.answers import Answer
from wmlab.core.charts.axis import AnyAxis, Axis
from wmlab.core.charts.chart import Chart
from wmlab.core.errors import WmlabError
from wmlab.core.live_view import hides_the_dead, publish
from wmlab.core.waiting import is_interactive

_INVITATION: Final = "Click on the chart: what held the lower bound at that moment?"


@cache
def script() -> str:
    """The ES module that hears the clicks; its default export is what anywidget renders."""
    return Path(__file__).with_name("static").joinpath("clicked.js").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class AnsweringChart(Chart):
    """A chart over a clock; `answer` gives what there is to say of a moment (ms)."""

    answer: Callable[[int], Answer]

    def _ipython_display_(self) -> None:
        """Question and answer, what a click asks if a person looks on, and the picture."""
        self.show_heading()
        if is_interactive():
            # So that a notebook saved by hand shows no dead widget once its kernel is gone.
            publish({"text/html": f"{hides_the_dead('wmlab-before')}<span class='wmlab-before' hidden></span>"})
            display(ClickedMoment(self.answer, self.scene.across))  # type: ignore[no-untyped-call]
        self.show_picture()


class ClickedMoment(anywidget.AnyWidget):
    """The answer for the moment that was clicked on in the chart below; `clicked` is where the x axis has it.

    `sentence` is the answer in text; `shown` is what a page has, with the facts folded beneath.
    """

    _esm = script()

    clicked = traitlets.Float(allow_none=True, default_value=None).tag(sync=True)
    shown = traitlets.Unicode().tag(sync=True)

    def __init__(self, answer: Callable[[int], Answer], across: AnyAxis) -> None:
        super().__init__()
        self.ask(answer, across)

    def ask(self, answer: Callable[[int], Answer], across: AnyAxis) -> None:
        """Stand at another chart: the same widget for another picture in the same place."""
        self._answer, self._across, self.clicked = answer, across, None
        self._say(_INVITATION)

    def _say(self, sentence: str, html: str = "") -> None:
        self.sentence, self.shown = sentence, html or f"<p>{escape(sentence)}</p>"

    @traitlets.observe("clicked")
    def _answer_click(self, change: dict[str, Any]) -> None:
        clicked, across = change["new"], self._across
        if clicked is None:
            return
        unit_ms = across.unit.ms if isinstance(across, Axis) and not across.instants else 1
        try:
            answer = self._answer(round(clicked * unit_ms))
            self._say(answer.sentence, answer._repr_html_())
        except WmlabError as refused:
            self._say(str(refused))

    def __repr__(self) -> str:
        return self.sentence
