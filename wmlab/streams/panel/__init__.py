"""The panel: the options of a scenario as widgets; whatever is committed becomes a scenario, a run and a picture.

Its parts are widgets of ipywidgets. A run takes place in the kernel, which can be interrupted as ever. What a scenario
has next to the options stands in a box of YAML.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from html import escape
from typing import Any, Final

from wmlab.core.answers import Answer, folded
from wmlab.core.charts.axis import AnyAxis
from wmlab.core.charts.chart import Chart
from wmlab.core.charts.clicked import ClickedMoment
from wmlab.core.charts.svg import draw_svg
from wmlab.core.errors import ScenarioError, WmlabError
from wmlab.core.invariants import Verdicts
from wmlab.core.live_view import display_live
from wmlab.core.mistakes import Location
from wmlab.core.run_comparison import compare
from wmlab.core.scenario_file import NotYaml
from wmlab.core.scenario_words import names_of_runs, words_of
from wmlab.core.values import Problem, Problems
from wmlab.core.words import as_sentence, counted, grouped, joined, unbroken
from wmlab.streams.panel.edits import changed, removable, with_part, without_part
from wmlab.streams.panel.fields import Field, fields_of, parts_of
from wmlab.streams.panel.pictures import LAG_DISTRIBUTION, PICTURES, answer_at, readers_of
from wmlab.streams.panel.view import Control, PanelView
from wmlab.streams.recording import StreamRecording, record
from wmlab.streams.scenario.options import SECTIONS, WORDS
from wmlab.streams.scenario.scenario import StreamScenario

YAML: Final = "YAML"
"""The section that is a box of text with the whole scenario."""
_NOTHING: Final = "<svg xmlns='http://www.w3.org/2000/svg' width='1' height='1'></svg>"


class ScenarioPanel:
    """A scenario as widgets, recorded and redrawn at every change; the notebook can use its attributes.

    `scenario` is the last valid one, `mistakes` are the mistakes of the last input, `recording` is the last run,
    `kept_runs` are the runs to compare, named by their differences, and `verdicts` are those of the last run, None if
    it was not checked. After an interrupted or failed run, `recording` belongs to an earlier scenario; the panel says
    so, and neither keeps nor checks it.
    """

    def __init__(self, scenario: StreamScenario) -> None:
        scenario.to_yaml()  # refuses a Python function, which the box of YAML would lose
        self.mistakes: tuple[Problem, ...] = ()
        self.recording: StreamRecording | None = None
        self.kept_runs: dict[str, StreamRecording] = {}
        self.verdicts: Verdicts | None = None
        self._kept_scenarios: list[tuple[StreamScenario, StreamRecording]] = []
        self._history = [scenario]
        self._index = 0
        self._recorded: StreamScenario | None = None
        self._chart: Chart | None = None
        self._clicked: ClickedMoment | None = None
        self._controls: dict[tuple[Location, str], Control] = {}
        self._is_showing = False
        self._view = PanelView([*SECTIONS, YAML], [*PICTURES], StreamScenario.names())
        self.widget = self._view.root
        self._listen()
        self._show()
        self._run()

    def __repr__(self) -> str:
        rows = 0 if self.recording is None else sum(self.recording.counts.values())
        state = f"{grouped(rows)} rows recorded" if rows else "not recorded"
        wrong = f", {counted(len(self.mistakes), 'mistake')}" if self.mistakes else ""
        runs = f", {counted(len(self.kept_runs), 'run')} kept" if self.kept_runs else ""
        return f"Panel of scenario {self.scenario.name!r}: {state}{wrong}{runs}"

    def _ipython_display_(self) -> None:
        display_live(self.widget, self.svg, repr(self), "panel")

    @property
    def scenario(self) -> StreamScenario:
        """The last valid scenario."""
        return self._history[self._index]

    @property
    def svg(self) -> str:
        """The picture as SVG."""
        return _NOTHING if self._chart is None else draw_svg(self._chart.scene)

    def change(self, path: Location, offered: Any) -> ScenarioPanel:
        """Set a visible field to a text, as typed, or to a value; if it is a mistake, nothing else changes.

        Raises `ScenarioError` for a field that is not shown.
        """
        control = next((control for control in self._controls.values() if control.field.path == path), None)
        if control is None:
            raise ScenarioError(f"The panel shows no field at {path}.", remedy="show its section, or change the YAML.")
        self._edit(control, lambda: changed(self.scenario, control.field, offered))
        return self

    def section(self, name: str, part: int = 0) -> ScenarioPanel:
        """Show a section of the form, and the part with this index."""
        self._view.section.value = name
        self._view.part.index = part if self._view.part.options else None
        return self

    def add(self) -> ScenarioPanel:
        """Add a writer, a fault, or a reader group to the visible section; required fields are filled in."""
        if self._edit(None, lambda: with_part(self.scenario, self._view.section.value)):
            self._view.part.index = len(self._view.part.options) - 1
        return self

    def remove(self) -> ScenarioPanel:
        """Remove the visible writer, fault or reader group."""
        section, index = self._view.section.value, self._view.part.index
        if index is None:
            raise ScenarioError(f"The section {section} shows nothing to remove.", remedy="show another section.")
        path = parts_of(self.scenario, section)[index].path
        self._edit(None, lambda: without_part(self.scenario, path))
        return self

    def write(self, yaml: str) -> ScenarioPanel:
        """Read the scenario from YAML text; its mistakes are listed with their lines."""
        self._view.text.value = yaml
        return self

    def open(self, example: str) -> ScenarioPanel:
        """Open a scenario that comes with wmlab, such as "clock_skew".

        Raises `ScenarioError` for another name.
        """
        known = StreamScenario.names()
        if example not in known:
            raise ScenarioError(f"No example is called {example!r}.", remedy=f"choose one of: {', '.join(known)}.")
        self._edit(None, lambda: type(self.scenario).load(example))
        return self

    def undo(self) -> ScenarioPanel:
        """Undo the mistakes or, without mistakes, the last change."""
        return self._go_to(self._index if self.mistakes else self._index - 1)

    def redo(self) -> ScenarioPanel:
        """Redo the change that was undone."""
        return self._go_to(self._index + 1)

    def picture(self, name: str) -> ScenarioPanel:
        """Draw another picture of the same run. Raises `ScenarioError` for a name that is not in the list."""
        return self._choose(self._view.picture, name)

    def see(self, reader: str) -> ScenarioPanel:
        """Draw the bounds that another reader saw. Raises `ScenarioError` for a reader that saw none."""
        return self._choose(self._view.reader, reader)

    def keep(self) -> ScenarioPanel:
        """Keep the run, and compare it with the other kept runs; each is named by its differences."""
        if (recording := self._run_of_form()) is None:
            return self
        same = (
            name
            for name, (scenario, _) in zip(self.kept_runs, self._kept_scenarios, strict=True)
            if scenario == self.scenario
        )
        if (name := next(same, None)) is not None:
            return self._say(f"This run is kept as “{name}”.")
        self._kept_scenarios.append((self.scenario, recording))
        scenarios, runs = zip(*self._kept_scenarios, strict=True)
        names = names_of_runs([words_of(scenario, WORDS) for scenario in scenarios])
        self.kept_runs = dict(zip(names, runs, strict=True))
        kept = f"Kept as “{names[-1]}”."
        if len(runs) == 1:
            return self._say(f"{kept} Keep another run to compare the two.")
        self._view.comparison.value = _html_or_error(lambda: self._compared(scenarios))
        return self._say(kept)

    def check(self) -> ScenarioPanel:
        """Check the invariants of the run; the verdicts disappear when the scenario changes."""
        if (recording := self._run_of_form()) is None:
            return self
        self._say("Checking the run …")
        self.verdicts = None

        def page() -> str:
            found = self.verdicts = recording.check()
            table = found._repr_html_()
            # All of it would push the picture out of the window.
            return table if found.violated or found.unknown else folded(escape(found.sentence), table)

        self._view.verdicts.value = _html_or_error(page)
        return self._say("")

    def _listen(self) -> None:
        view = self._view
        buttons: dict[Any, Callable[[], Any]] = {
            view.undo: self.undo,
            view.redo: self.redo,
            view.add: self.add,
            view.remove: self.remove,
            view.keep: self.keep,
            view.check: self.check,
        }
        for button, act in buttons.items():
            button.on_click(lambda _, act=act: act())
        self._on_change(view.example, self._open_chosen)
        self._on_change(view.section, lambda _: self._show(first=True))
        self._on_change(view.part, lambda _: self._show())
        self._on_change(
            view.text, lambda text: self._edit(None, lambda: type(self.scenario).from_yaml(text), text=text)
        )
        self._on_change(view.picture, lambda _: self._draw())
        self._on_change(view.reader, lambda _: self._draw())

    def _on_change(self, widget: Any, act: Callable[[Any], Any]) -> None:
        """Call `act` with a value that a user, or a method of the panel, puts into a widget."""

        def changed_by_user(change: dict[str, Any]) -> None:
            if not self._is_showing:
                act(change["new"])

        widget.observe(changed_by_user, "value")

    def _choose(self, widget: Any, name: str) -> ScenarioPanel:
        if name not in widget.options:
            known = ", ".join(widget.options) or "none"
            raise ScenarioError(
                f"There is no {widget.description.lower()} {name!r}.", remedy=f"choose one of: {known}."
            )
        widget.value = name
        return self

    def _open_chosen(self, name: str) -> None:
        if name:
            self.open(name)
            self._view.example.value = ""

    def _edit(self, control: Control | None, make: Callable[[], StreamScenario], *, text: str | None = None) -> bool:
        """Go on with the scenario that `make` gives, and return whether it has no mistakes.

        They are said at the control, below the text of YAML, or else above the picture.
        """
        try:
            scenario = make()
        except WmlabError as wrong:
            self.mistakes = _problems(wrong)
            sentences = [_mistake(problem, control) for problem in self.mistakes]
            self._view.undo.disabled = False
            if control is not None:
                control.refuse(" ".join(sentences))
            elif text is not None:
                self._view.wrong_lines.value = _with_lines(self.mistakes, sentences, text)
            else:
                self._say(" ".join(sentences), alert=True)
            return False
        if scenario != self.scenario:
            self._history = [*self._history[: self._index + 1], scenario]
        self._go_to(len(self._history) - 1 if scenario != self.scenario else self._index)
        return True

    def _go_to(self, index: int) -> ScenarioPanel:
        if 0 <= index < len(self._history):
            before, self._index = self.scenario, index
            self._say("")
            self._show()
            if self.scenario != before:
                self._run()
        return self

    def _show(self, *, first: bool = False) -> None:
        """Show the scenario in the form; widgets of the same fields stay, and with them the focus."""
        self._is_showing, self.mistakes = True, ()
        view, section, scenario = self._view, self._view.section.value, self.scenario
        view.undo.disabled = self._index == 0
        view.redo.disabled = self._index + 1 == len(self._history)
        view.text.value, view.wrong_lines.value = scenario.to_yaml(), ""
        parts = () if section == YAML else parts_of(scenario, section)
        titles = [part.title for part in parts]
        chosen = 0 if first else min(view.part.index or 0, len(titles) - 1)
        if list(view.part.options) != titles:
            view.part.options = titles
        view.part.index = chosen if titles else None
        view.part.rows = max(2, min(len(titles), 5))
        view.add.description = {"Writers": "Add a writer", "Faults": "Add a fault"}.get(section, "Add readers")
        view.remove.disabled = not parts or not removable(scenario, parts[chosen].path)
        grows = section in ("Writers", "Faults")
        _display(view.part, bool(parts) and (grows or len(parts) > 1))
        _display(view.add, grows or (section == "Readers" and not parts))
        _display(view.remove, bool(parts) and (grows or section == "Readers"))
        _display(view.yaml, section == YAML)
        self._show_fields(fields_of(scenario, parts[chosen]) if parts else ())
        self._is_showing = False

    def _show_fields(self, fields: Iterable[Field]) -> None:
        by_key = {(field.path, f"{field.kind}{bool(field.stops)}"): field for field in fields}
        if list(by_key) == list(self._controls):
            for key, field in by_key.items():
                self._controls[key].show(field)
            return
        before = self._controls.values()
        self._controls = {key: Control(field, self.change) for key, field in by_key.items()}
        self._view.fields.children = [control.box for control in self._controls.values()]
        for control in before:
            control.close()

    def _say(self, sentence: str, *, alert: bool = False) -> ScenarioPanel:
        kind = "role='alert' class='wmlab-mistake'" if alert else "role='status'"
        self._view.notice.value = f"<span {kind}>{escape(sentence)}</span>" if sentence else ""
        return self

    def _run_of_form(self) -> StreamRecording | None:
        """The run of the scenario, if it has one and the form has no mistakes; else says that it has none."""
        if self.recording is not None and self._recorded == self.scenario and not self.mistakes:
            return self.recording
        self._say("The form as it is has no run. Correct it first.", alert=True)
        return None

    def _run(self) -> None:
        """Record the scenario and draw it; what was drawn stays if that fails or is interrupted."""
        scenario, old = self.scenario, "" if self.recording is None else " The picture shows the run before."
        self.verdicts, self._view.verdicts.value = None, ""
        try:
            recording = record(scenario, progress=self._show_progress)
        except WmlabError as wrong:
            self._say(f"{_in_one(wrong)}{old}", alert=True)
        except KeyboardInterrupt:
            self._say(f"The run was interrupted.{old}", alert=True)
        else:
            self.recording, self._recorded = recording, scenario
            self._say("")
            self._draw()

    def _show_progress(self, percent: int) -> None:
        self._say(f"Running: {percent} %" if percent < 100 else "")

    @property
    def _stream(self) -> str:
        """The first stream of the scenario that the recording is of."""
        return (self._recorded or self.scenario).all_streams[0].name

    def _draw(self) -> None:
        view, recording, stream = self._view, self.recording, self._stream
        if recording is None:
            return
        readers, chosen = readers_of(recording, stream), view.reader.value
        self._is_showing = True
        if list(view.reader.options) != readers:
            view.reader.options = readers
            view.reader.value = chosen if chosen in readers else next(iter(readers), None)
        self._is_showing = False
        view.sentence.value = escape(unbroken(recording.explain(stream=stream).sentence))
        picture, reader = view.picture.value, view.reader.value
        try:
            self._chart = PICTURES[picture](recording, stream, reader)
        except WmlabError as refused:
            self._chart = None
            view.drawn.outputs = (_output({"text/html": _alert(refused)}),)
            return
        from wmlab.core.charts.plotly import draw_heading  # plotly takes half a second to load

        # What a cell that shows a chart has as its outputs.
        bundles = [{"text/html": draw_heading(self._chart.scene, self._chart.facts)}, self._chart._repr_mimebundle_()]
        if picture != LAG_DISTRIBUTION:
            answer = partial(answer_at, recording, picture, stream, reader)
            bundles.insert(-1, self._click_output(answer, self._chart.scene.across))
        view.drawn.outputs = tuple(map(_output, bundles))

    def _click_output(self, answer: Callable[[int], Answer], across: AnyAxis) -> dict[str, Any]:
        """What a click on the picture asks, as an output."""
        if self._clicked is None:
            self._clicked = ClickedMoment(answer, across)
        else:
            self._clicked.ask(answer, across)
        live: Any = self._clicked._repr_mimebundle_()
        return dict(live[0])

    def _compared(self, scenarios: tuple[StreamScenario, ...]) -> str:
        # A stream that was renamed between two runs is the only one of each.
        alone = all(len(scenario.all_streams) == 1 for scenario in scenarios)
        stream = None if alone else self._stream
        return compare(*self.kept_runs.values(), labels=list(self.kept_runs), stream=stream)._repr_html_()


def panel(scenario: StreamScenario) -> ScenarioPanel:
    """Show the options of the scenario as widgets; every change records and redraws.

    Raises `ScenarioError` for anything but a scenario of streams.
    """
    if not isinstance(scenario, StreamScenario):
        raise ScenarioError(
            f"a panel cannot be made of a {type(scenario).__name__}.",
            remedy="give a Scenario; plans and dataflows are changed with replace() and recorded again.",
        )
    return ScenarioPanel(scenario)


def _display(widget: Any, is_shown: bool) -> None:
    widget.layout.display = None if is_shown else "none"


def _output(bundle: dict[str, Any]) -> dict[str, Any]:
    return {"output_type": "display_data", "data": bundle, "metadata": {}}


def _mistake(problem: Problem, control: Control | None) -> str:
    """A mistake as a sentence, with its line and its path; at its own field without."""
    own = control is not None and problem.location[: len(control.field.path)] == control.field.path
    line = "" if problem.line is None else f"Line {problem.line}"
    at = ", ".join(filter(None, [] if own else [line, problem.path if problem.location else ""]))
    return f"{at}: {problem.message.removesuffix('.')}." if at else as_sentence(problem.message)


def _problems(wrong: WmlabError) -> tuple[Problem, ...]:
    """The mistakes that an error is about, with their lines as far as they are known."""
    if isinstance(wrong, Problems):
        return tuple(wrong.problems)
    if isinstance(wrong, NotYaml):
        return (Problem((), f"This is no YAML: {wrong.complaint}", line=wrong.line),)
    return (Problem((), _in_one(wrong)),)


def _with_lines(mistakes: Iterable[Problem], sentences: Iterable[str], text: str) -> str:
    """Mistakes in a text, each with the line that it is in."""
    lines, items = text.splitlines(), []
    for mistake, sentence in zip(mistakes, sentences, strict=True):
        line = "" if mistake.line is None else f"<br><code>{mistake.line}: {escape(lines[mistake.line - 1])}</code>"
        items.append(f"<li>{escape(sentence)}{line}</li>")
    return f"<ul class='wmlab-mistake' role='alert'>{''.join(items)}</ul>"


def _html_or_error(make: Callable[[], str]) -> str:
    """The HTML that `make` gives, or what went wrong."""
    try:
        return make()
    except WmlabError as error:
        return _alert(error)


def _alert(error: WmlabError) -> str:
    return f"<p class='wmlab-alert' role='alert'>{escape(_in_one(error))}</p>"


def _in_one(error: WmlabError) -> str:
    """What was wrong and what to do, each as a sentence."""
    return joined(as_sentence(error.problem), as_sentence(error.remedy))
