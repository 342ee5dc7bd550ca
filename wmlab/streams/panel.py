"""The panel: a scenario as a form; a changed field becomes a scenario, a run, a picture and a sentence.

Runs happen on a thread of their own, the latest request wins, and a run that is cancelled leaves the last one in place.
Pictures are the charts' own SVG inside an HTML widget, so that a notebook stores nothing live.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from html import escape
from itertools import count
from pathlib import Path as FilePath
from typing import Any, Final, Literal

import ipywidgets as widgets  # type: ignore[import-untyped]

from wmlab.core.answers import Verdicts
from wmlab.core.charts.chart import Chart
from wmlab.core.charts.style import jupyter_style
from wmlab.core.errors import ScenarioError, WmlabError
from wmlab.core.values import Problems
from wmlab.core.words import grouped
from wmlab.streams import charts
from wmlab.streams.compare import compare
from wmlab.streams.recording import StreamRecording, record
from wmlab.streams.scenario.scenario import (
    FieldPath,
    FormField,
    StreamScenario,
    fields_of,
    with_changes,
    with_part,
    without_part,
)

_PICTURES: Final[dict[str, Callable[..., Chart]]] = {
    "events and bounds": charts.event_vs_arrival,
    "who held the bound": charts.writer_marks,
    "lag": charts.lag,
    "key space": charts.key_space,
    "watermark cycles": charts.watermark_cycles,
    "lag, how often": charts.lag_distribution,
}
_THEMED: Final = f"<style>{jupyter_style('.wmlab-panel')}</style>"
_FORM: Final = widgets.Layout(width="472px", flex="0 0 auto", max_height="820px", overflow="auto")
"""The form scrolls by itself, so that the chart beside it stays in view."""


_NO_RUN: Final = ("the scenario as it is has no run.", "correct it, or wait until it has run.")


class Cancelled(Exception):
    """A run was stopped because it is not wanted any more."""


class ScenarioPanel:
    """A scenario as a form that records and redraws at every change; what it holds is there for the notebook.

    `scenario` is the last one without mistakes, `recording` the last run, `kept` the kept runs by label, `verdicts` the
    judgement of that run, None if it has not been judged. While a run is under way, and after it was cancelled or
    failed, `recording` is that of a scenario before; the panel says so, and neither keeps nor judges it.
    """

    def __init__(self, scenario: StreamScenario) -> None:
        self.scenario = scenario
        self.recording: StreamRecording | None = None
        self.kept: dict[str, StreamRecording] = {}
        self.verdicts: Verdicts | None = None
        self.widget = PanelView(self)
        self._fields: tuple[FormField, ...] = ()
        self._parts: dict[str, FieldPath] = {}
        self._pending: dict[FieldPath, Any] = {}
        self._requested: StreamScenario | None = None
        self._recorded: StreamScenario | None = None
        self._lock = threading.Lock()
        self._runner: threading.Thread | None = None
        self._judge: threading.Thread | None = None
        self._judged_next: StreamRecording | None = None
        self._accept(scenario)

    def __repr__(self) -> str:
        rows = 0 if self.recording is None else sum(self.recording.counts.values())
        state = f"{grouped(rows)} rows recorded" if rows else "not recorded yet"
        kept = f", {len(self.kept)} runs kept" if self.kept else ""
        return f"Panel of scenario {self.scenario.name!r}: {len(self._fields)} fields, {state}{kept}"

    def _repr_mimebundle_(self, **kinds: Any) -> dict[str, Any]:
        """The widgets where a kernel runs, and the text everywhere."""
        self.wait()
        return dict(self.widget._repr_mimebundle_(**kinds) or {}) | {"text/plain": repr(self)}

    def change(self, path: FieldPath, value: Any) -> None:
        """Take a new value for a field; with a mistake in it the last run stays and the mistake is shown."""
        self._pending[path] = value
        self._try(lambda: with_changes(self.scenario, self._pending))

    def remove(self, group: str) -> None:
        """Take the writer or the act with this heading out."""
        if group in self._parts:
            self._try(lambda: without_part(self.scenario, self._parts[group]))
        else:
            remedy = f"choose one of: {', '.join(self._parts)}."
            self.widget.message.value = _notice(f"no writer and no act has the heading {group!r}.", remedy)

    def add(self, what: Literal["writers", "script"], text: str) -> None:
        """Add a writer (`writers`) or an act (`script`), given as YAML."""
        self._try(lambda: with_part(self.scenario, what, text))

    def picture(self, name: str) -> None:
        """Draw another picture of the same run; the names are those of the panel's list."""
        if self.widget.choice.value == name:
            self._draw()
        else:
            self.widget.choice.value = name  # calls this method again, as when the user chooses

    def cancel(self) -> None:
        """Stop the run; the one before stays."""
        self._requested = None

    def keep(self, label: str = "") -> None:
        """Keep the run under a label, and compare it with the others that were kept; a label taken is refused."""
        self.wait()
        if self.recording is None or self._recorded is not self.scenario:
            self.widget.message.value = _notice(*_NO_RUN)
            return
        title = label.strip() or next(name for n in count(len(self.kept) + 1) if (name := f"run {n}") not in self.kept)
        if title in self.kept:
            problem = f"a run is kept under {title!r} already."
            self.widget.message.value = _notice(problem, "give another label, or none.")
            return
        self.kept[title] = self.recording
        page = f"Kept: {', '.join(self.kept)}"
        if len(self.kept) > 1:
            runs = self.kept
            # A stream that was renamed between two runs is the only one of each.
            scenarios = [run.scenario_as(StreamScenario) for run in runs.values()]
            alone = all(scenario is not None and len(scenario.all_streams) == 1 for scenario in scenarios)
            stream = None if alone else self._stream
            page = _html_or_error(lambda: compare(*runs.values(), labels=list(runs), stream=stream)._repr_html_())
        self.widget.kept.value = page

    def judge(self) -> None:
        """Have Spark judge the run, without waiting for it; the verdicts go when the scenario changes."""
        if self.recording is None or self._recorded is not self.scenario:
            self.widget.message.value = _notice(*_NO_RUN)
            return
        with self._lock:
            if self._judge is not None and self._judge.is_alive():
                self._judged_next = self.recording
                return
            self.widget.verdicts.value = "Spark is judging …"
            self._judge = threading.Thread(target=self._check, args=(self.recording,), daemon=True)
            self._judge.start()

    def save(self, path: str) -> None:
        """Write the scenario to a YAML file."""
        file = FilePath(path.strip() or "scenario.yaml")
        self.widget.message.value = _html_or_error(lambda: f"Written to {self.scenario.save(file)}.")

    def wait(self, timeout_s: float = 600) -> ScenarioPanel:
        """Wait until no run and no judgement is under way."""
        while alive := self._under_way():
            alive[0].join(timeout_s)
            if alive[0].is_alive():
                break
        return self

    def _under_way(self) -> list[threading.Thread]:
        """The threads of a run and of a judgement that are alive, but for the one that asks."""
        with self._lock:
            threads = [thread for thread in (self._runner, self._judge) if thread is not None and thread.is_alive()]
        return [thread for thread in threads if thread is not threading.current_thread()]

    @property
    def _stream(self) -> str:
        """The first stream of the scenario that the recording is of."""
        return (self._recorded or self.scenario).all_streams[0].name

    def _try(self, make: Callable[[], StreamScenario]) -> None:
        try:
            scenario = make()
        except Problems as wrong:
            mistakes = {problem.path: problem.message for problem in wrong.problems}
            self.widget.message.value = _notice("", "The picture shows the last scenario without mistakes.", mistakes)
        except ScenarioError as wrong:
            self.widget.message.value = _notice(wrong.problem, wrong.remedy)
        else:
            self._accept(scenario)

    def _accept(self, scenario: StreamScenario) -> None:
        """Show a scenario without mistakes and request its run, which replaces a run that is under way."""
        text = scenario.to_yaml()  # refuses a Python function, which the form would lose
        self.scenario, self._pending = scenario, {}
        self._forget_verdicts()
        self._fields = fields_of(scenario)
        self._parts = {
            f.group: f.path[:2] for f in self._fields if f.path[0] in ("writers", "script") and len(f.path) > 2
        }
        alone = len(scenario.writers) < 2
        removable = sorted(group for group, path in self._parts.items() if not (alone and path[0] == "writers"))
        self.widget.form.show(self._fields, removable)
        self.widget.yaml.value = text
        self.widget.message.value = ""
        with self._lock:
            self._requested = scenario
            if self._runner is None or not self._runner.is_alive():
                self._runner = threading.Thread(target=self._run, daemon=True)
                self._runner.start()

    def _run(self) -> None:
        """Record the requested scenario, again and again until the one recorded last is still the requested one."""
        recorded: StreamScenario | None = None
        while True:
            with self._lock:
                scenario = self._requested
                if scenario is None or scenario is recorded:
                    self._runner = None
                    return
            self._record(scenario)
            recorded = scenario

    def _record(self, scenario: StreamScenario) -> None:
        def progress(percent: int) -> None:
            requested = self._requested
            # A run that has reached its end when it is cancelled is kept, unless another one is requested.
            if requested is not scenario and (requested is not None or percent < 100):
                raise Cancelled
            if percent:
                self.widget.show_progress(percent)

        try:
            recording = record(scenario, progress=progress)
        except Cancelled:
            if self._requested is None:
                self._mark_as_old("the run was cancelled.")
        except WmlabError as error:
            self._mark_as_old(error.problem, error.remedy)
        else:
            self.recording, self._recorded = recording, scenario
            self._forget_verdicts()
            self._draw()
        finally:
            self.widget.show_progress(None)

    def _mark_as_old(self, problem: str, remedy: str = "change a field to run it.") -> None:
        """Say that what is shown is of another run than the scenario's, if anything is."""
        old = "" if self.recording is None else " The picture shows the run of the scenario before."
        self.widget.message.value = _notice(f"{problem}{old}", remedy)

    def _forget_verdicts(self) -> None:
        """Verdicts are of one run."""
        self.verdicts, self._judged_next = None, None
        self.widget.verdicts.value = ""

    def _draw(self) -> None:
        if (recording := self.recording) is None:
            return
        svg = _html_or_error(lambda: _PICTURES[self.widget.choice.value](recording, stream=self._stream).svg)
        sentence = recording.explain(stream=self._stream).sentence
        self.widget.picture.value = svg + _THEMED
        self.widget.sentence.value = f"<div aria-live='polite' style='line-height:1.4'>{escape(sentence)}</div>"

    def _check(self, recording: StreamRecording) -> None:
        """Judge a run, and the one that was requested meanwhile; verdicts of a run that is gone are dropped."""
        while True:
            verdicts: list[Verdicts] = []

            def page(judged: StreamRecording = recording, collected: list[Verdicts] = verdicts) -> str:
                collected.append(judged.check())
                return collected[0]._repr_html_()

            html = _html_or_error(page)
            with self._lock:
                if recording is self.recording and self._recorded is self.scenario:
                    self.verdicts = verdicts[0] if verdicts else None
                    self.widget.verdicts.value = html
                following, self._judged_next = self._judged_next, None
                if following is None or following is recording:
                    return
            recording = following
            self.widget.verdicts.value = "Spark is judging …"


def panel(scenario: StreamScenario) -> ScenarioPanel:
    """A form of the scenario's fields; every change records and redraws.

    Raises `ScenarioError` for anything but a scenario of streams.
    """
    if not isinstance(scenario, StreamScenario):
        raise ScenarioError(
            f"a panel cannot be made of a {type(scenario).__name__}.",
            remedy="give a Scenario; plans and dataflows are changed with replace() and recorded again.",
        )
    return ScenarioPanel(scenario)


def _html_or_error(make: Callable[[], str]) -> str:
    """The HTML that `make` gives, or what went wrong."""
    try:
        return make()
    except WmlabError as error:
        return _notice(error.problem, error.remedy)


def _notice(problem: str, remedy: str, mistakes: Mapping[str, str] | None = None) -> str:
    """An error as HTML: what is wrong, field by field, and what to do."""
    listed = "".join(f"<li><b>{escape(path)}</b>: {escape(wrong)}</li>" for path, wrong in (mistakes or {}).items())
    text = f"{escape(problem)} " if problem else ""
    return (
        f"<div role='alert' style='border-left:4px solid #B3001B;padding:4px 10px'>{text}<ul style='margin:2px 0'>"
        f"{listed}</ul>{escape(remedy)}</div>"
    )


class PanelView(widgets.VBox):  # type: ignore[misc]
    """All widgets of a panel: the form on the left, the picture with its sentence on the right, kept runs below."""

    def __init__(self, actions: ScenarioPanel) -> None:
        self.form = Form(actions)
        self.choice = widgets.Dropdown(options=list(_PICTURES), description="picture")
        self.choice.observe(lambda change: actions.picture(change["new"]), "value")
        self.picture, self.sentence, self.message, self.kept, self.verdicts = (widgets.HTML() for _ in range(5))
        self.picture.add_class("wmlab-panel")
        self.bar = widgets.IntProgress(description="running", max=100, layout=widgets.Layout(visibility="hidden"))
        self.stop = _button("cancel the run", actions.cancel)
        self.stop.layout.visibility = "hidden"
        self.yaml = _text_area("YAML", 10, "the scenario, to be copied")
        label = widgets.Text(description="label", placeholder="name of this run", continuous_update=False)
        keep = _button("keep this run", lambda: actions.keep(label.value))
        judge = _button("verdicts", actions.judge)
        file = widgets.Text(description="file", placeholder="scenario.yaml")
        save = _button("save as a file", lambda: actions.save(file.value))
        added = _text_area("add", 4, "a writer or an act, as YAML")
        add_writer = _button("add this writer", lambda: actions.add("writers", added.value))
        add_act = _button("add this act", lambda: actions.add("script", added.value))
        folds = widgets.Accordion(
            [
                widgets.VBox([added, widgets.HBox([add_writer, add_act])]),
                widgets.VBox([self.yaml, widgets.HBox([file, save])]),
            ],
            titles=["add a writer or an act", "copy the scenario as YAML"],
            layout=widgets.Layout(width="450px"),
        )
        left = widgets.VBox([self.form, folds], layout=_FORM)
        running, keeping = widgets.HBox([self.choice, self.bar, self.stop]), widgets.HBox([label, keep, judge])
        right = widgets.VBox(
            [running, self.message, self.sentence, self.picture, keeping, self.verdicts],
            layout=widgets.Layout(flex="1 1 auto", min_width="420px"),
        )
        super().__init__([widgets.HBox([left, right]), self.kept])

    def show_progress(self, percent: int | None) -> None:
        """How far a long run has come; None: nothing runs."""
        self.bar.value = percent or 0
        self.bar.layout.visibility = self.stop.layout.visibility = "hidden" if percent is None else "visible"


def _button(text: str, pressed: Callable[[], None], width: str = "150px") -> widgets.Button:
    button = widgets.Button(description=text, layout=widgets.Layout(width=width), tooltip=text)
    button.on_click(lambda _: pressed())
    return button


def _text_area(name: str, rows: int, tooltip: str) -> widgets.Textarea:
    return widgets.Textarea(description=name, rows=rows, layout=widgets.Layout(width="98%"), tooltip=tooltip)


class Form(widgets.VBox):  # type: ignore[misc]
    """One control per field, folded by group, each with its unit, its bounds, and a label that a screen reader says."""

    def __init__(self, actions: ScenarioPanel) -> None:
        self._actions = actions
        self._controls: dict[FieldPath, widgets.Widget] = {}
        self._shape: tuple[tuple[FieldPath, str], ...] = ()
        self._quiet = False
        super().__init__(layout=widgets.Layout(width="450px", min_width="400px"))

    def control(self, path: FieldPath) -> widgets.Widget:
        """The control of a field."""
        return self._controls[path]

    def show(self, fields: Sequence[FormField], removable: Sequence[str]) -> None:
        """Show these fields with their values; controls are built anew only if the fields are others than before.

        Groups in `removable` have a button that removes their part.
        """
        shape = tuple((field.path, field.group) for field in fields)
        self._quiet = True
        try:
            if shape != self._shape:
                self._build(fields, removable)
                self._shape = shape
            for field in fields:
                self._controls[field.path].value = _shown(field)
        finally:
            self._quiet = False

    def _build(self, fields: Sequence[FormField], removable: Sequence[str]) -> None:
        self._controls = {}
        groups: dict[str, list[widgets.Widget]] = {}
        for field in fields:
            control = self._controls[field.path] = _control(field)
            control.observe(partial(self._report, field), "value")
            groups.setdefault(field.group, []).append(control)
        for group in removable:
            groups[group].append(_button(f"remove {group}", partial(self._actions.remove, group), "98%"))
        folds = widgets.Accordion([widgets.VBox(controls) for controls in groups.values()], titles=list(groups))
        folds.selected_index = min(1, len(groups) - 1)
        self.children = (folds,)

    def _report(self, field: FormField, change: Mapping[str, Any]) -> None:
        if not self._quiet:
            self._actions.change(field.path, _value(field, change["new"]))


def _control(field: FormField) -> widgets.Widget:
    """The control that fits the field."""
    bounds = {"at least": field.low, "at most": field.high}
    rules = [f"{word} {grouped(bound)}" for word, bound in bounds.items() if bound is not None]
    rules += (["as YAML"] if field.kind == "yaml" else []) + (["may be empty"] if field.optional else [])
    look: dict[str, Any] = {
        "description": f"{field.label} ({field.unit})" if field.unit else field.label,
        "layout": widgets.Layout(width="98%"),
        "style": {"description_width": "262px"},
        "tooltip": "; ".join(rules) or field.label,
    }
    match field.optional, field.kind:
        case _, "flag":
            return widgets.Checkbox(indent=False, **look)
        case False, "choice":
            return widgets.Dropdown(options=list(field.choices), **look)
        case False, "whole":
            return widgets.IntText(**look)  # a bounded one would change a number in silence
        case False, "real":
            return widgets.FloatText(**look)
    return widgets.Text(continuous_update=False, placeholder="none" if field.optional else "", **look)


def _shown(field: FormField) -> Any:
    """What the control of a field holds."""
    if field.kind in {"flag", "choice", "whole", "real"} and not field.optional:
        return field.value
    return "" if field.value is None or (field.optional and field.value == "null") else str(field.value)


def _value(field: FormField, content: Any) -> Any:
    """What a control's content means: an empty optional field is None, a number in a text box is a number."""
    if not isinstance(content, str):
        return content
    if field.optional and not content.strip():
        return None if field.kind != "yaml" else "null"
    for read in (int, float) if field.kind in {"whole", "real"} else ():
        try:
            return read(content.replace(",", "").strip())
        except ValueError:
            continue
    return content
