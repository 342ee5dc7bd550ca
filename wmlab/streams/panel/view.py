"""What a panel shows: the form, the picture and what was said, as the traits of one widget.

A program in the browser (`static/panel.js`) draws them, and sends back what the user does, as
`{"do": ..., "with": [...]}`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any, Final

import traitlets

from wmlab.core.errors import WmlabError
from wmlab.core.live_view import HIDES_THE_STILL, LiveView, shared_script, theme
from wmlab.core.values import Problem
from wmlab.streams.panel.pictures import PICTURES
from wmlab.streams.scenario.form import Draft, FieldPath, FormField, FormPart, kinds_of_parts
from wmlab.streams.scenario.parts import Controllers, EventWriter, Stream, TransactionalWriter
from wmlab.streams.scenario.scenario import StreamScenario

_STATIC: Final = Path(__file__).with_name("static")

_LOAD: Final = {"rate_per_s": (1, 1_000), "delay_mean_ms": (0, 10_000), "note_every_ms": (100, 30_000)}
_FIRST: Final[Mapping[type, Mapping[str, tuple[int, int]]]] = {
    EventWriter: _LOAD,
    TransactionalWriter: _LOAD,
    Stream: {"segments": (1, 16), "timestamp_aggregation_timeout_ms": (0, 120_000)},
    Controllers: {"period_ms": (500, 60_000)},
    StreamScenario: {"latency_ms": (0, 5_000)},
}
"""The fields that a newcomer meets first, by the class of their part, and from where to where their sliders go."""


@cache
def _script() -> str:
    return f"{shared_script()}\n{(_STATIC / 'panel.js').read_text(encoding='utf-8')}"


@cache
def _style_sheet() -> str:
    return "\n".join((HIDES_THE_STILL, theme(".wmlab-panel"), (_STATIC / "panel.css").read_text(encoding="utf-8")))


class PanelView(LiveView):
    """The widget of a panel. `acts` are what the user may do, by name; each is called with what the browser sends."""

    noun = "panel"
    _esm = _script()
    _css = _style_sheet()

    form = traitlets.Dict().tag(sync=True)
    """`parts` with their fields, `mistakes` (path and message), and whether `undo` and `redo` are possible."""
    kinds = traitlets.Dict(kinds_of_parts()).tag(sync=True)
    pictures = traitlets.List(list(PICTURES)).tag(sync=True)
    chosen = traitlets.Unicode(next(iter(PICTURES))).tag(sync=True)
    readers: Any = traitlets.List().tag(sync=True)
    reader = traitlets.Unicode(None, allow_none=True).tag(sync=True)
    picture = traitlets.Unicode().tag(sync=True)
    sentence = traitlets.Unicode().tag(sync=True)
    running = traitlets.Int(None, allow_none=True).tag(sync=True)
    """How far the run is (percent); None: nothing runs."""
    notice = traitlets.Unicode().tag(sync=True)
    """What was said of the run, of keeping, judging and saving: HTML, empty if nothing was."""
    kept: Any = traitlets.List().tag(sync=True)
    comparison = traitlets.Unicode().tag(sync=True)
    verdicts = traitlets.Unicode().tag(sync=True)
    python = traitlets.Unicode().tag(sync=True)
    yaml = traitlets.Unicode().tag(sync=True)
    answered = traitlets.Int(0).tag(sync=True)
    """How many messages of the browser were dealt with."""

    def __init__(self, acts: Mapping[str, Callable[..., Any]], still: Callable[[], tuple[str, str]]) -> None:
        super().__init__()
        self._acts, self._still = dict(acts), still
        self.on_msg(self._receive)

    def still(self) -> tuple[str, str]:
        """The picture as it is, and the panel in words."""
        return self._still()

    def show(self, draft: Draft[Any], mistakes: Sequence[Problem], **state: Any) -> None:
        """Show a draft, what is wrong with it, and what else is to be known of the form."""
        parts = [_part(part) for part in draft.parts]
        located = [
            {"path": _field_of(problem, draft), "where": problem.path, "text": problem.message} for problem in mistakes
        ]
        self.form = {"parts": parts, "mistakes": located, **state}

    def _receive(self, _: Any, content: Mapping[str, Any], __: Any) -> None:
        try:
            self._acts[content["do"]](*content["with"])
        except WmlabError as refused:
            self.notice = f"{refused.problem} {refused.remedy}"
        finally:
            self.answered += 1


def _part(part: FormPart) -> dict[str, Any]:
    first = next((fields for made, fields in _FIRST.items() if issubclass(part.made, made)), {})
    fields = [_field(field, first.get(str(field.path[-1]))) for field in part.fields]
    return {
        "path": list(part.path),
        "title": part.title,
        "help": part.help,
        "removable": part.removable,
        "fields": fields,
    }


def _field(field: FormField, usual: tuple[int, int] | None) -> dict[str, Any]:
    shown = asdict(field)
    del shown["value"]
    # JSON has no integer as large as some bounds: they are for reading only.
    return shown | {
        "path": list(field.path),
        "usual": usual,
        "choices": list(field.choices),
        "names": list(field.names),
    }


def _field_of(problem: Problem, draft: Draft[Any]) -> FieldPath | None:
    """The field that a mistake is at: the one with the longest path on the way to it; None: it is at a whole part."""
    lengths = range(len(problem.location), 0, -1)
    return next((path for length in lengths if (path := problem.location[:length]) in draft.fields), None)
