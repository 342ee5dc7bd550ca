"""The panel: a scenario as a form; a changed field becomes a scenario, a run, a picture and a sentence.

Runs happen on a thread of their own, the latest request wins, and a run that is cancelled leaves the last one in place.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from html import escape
from itertools import count
from pathlib import Path as FilePath
from typing import Any, Final, Literal

from wmlab.core.answers import Verdicts
from wmlab.core.charts.chart import Chart
from wmlab.core.charts.svg import draw_svg
from wmlab.core.errors import ScenarioError, WmlabError
from wmlab.core.run_comparison import compare
from wmlab.core.values import Problem, Problems
from wmlab.core.words import counted, grouped
from wmlab.streams.panel.pictures import PICTURES, readers_of
from wmlab.streams.panel.view import PanelView
from wmlab.streams.recording import StreamRecording, record
from wmlab.streams.scenario.form import Draft, FieldPath
from wmlab.streams.scenario.scenario import StreamScenario

_WIDTHS: Final = (420, 900, 1_400)
"""The picture is at least, at first, and at most so wide (px)."""
_JUDGING: Final = "Spark is judging …"
_NO_RUN: Final = ("the scenario as it is has no run.", "correct it, or wait until it has run.")


class Cancelled(Exception):
    """A run was stopped because it is not wanted any more."""


class ScenarioPanel:
    """A scenario as a form that records and redraws at every change; what it holds is there for the notebook.

    `scenario` is the last one without mistakes, `mistakes` are those of the form as it is, `recording` is the last run,
    `kept` the kept runs by label, `verdicts` the judgement of that run, None if it has not been judged. While a run is
    under way, and after it was cancelled or failed, `recording` is that of a scenario before; the panel says so, and
    neither keeps nor judges it.
    """

    def __init__(self, scenario: StreamScenario) -> None:
        scenario.to_yaml()  # refuses a Python function, which the form would lose
        self.scenario = scenario
        self.mistakes: tuple[Problem, ...] = ()
        self.recording: StreamRecording | None = None
        self.kept: dict[str, StreamRecording] = {}
        self.verdicts: Verdicts | None = None
        self._drafts: list[Draft[StreamScenario]] = [Draft.of(scenario)]
        self._at = 0
        self._gesture: tuple[FieldPath, int] | None = None
        self._chart: Chart | None = None
        self._width = _WIDTHS[1]
        self._requested: StreamScenario | None = None
        self._recorded: StreamScenario | None = None
        self._lock = threading.Lock()
        self._runner: threading.Thread | None = None
        self._judge: threading.Thread | None = None
        self._judged_next: StreamRecording | None = None
        self.widget = PanelView(
            {
                "change": lambda path, text, gesture: self.change(tuple(path), text, gesture=gesture),
                "add": self.add,
                "remove": lambda path: self.remove(tuple(path)),
                "undo": self.undo,
                "redo": self.redo,
                "picture": self.picture,
                "reader": self.see,
                "fit": self.fit,
                "cancel": self.cancel,
                "keep": self.keep,
                "judge": self.judge,
                "save": self.save,
            },
            lambda: (self.widget.picture, repr(self)),
        )
        self._accept(scenario)

    def __repr__(self) -> str:
        rows = 0 if self.recording is None else sum(self.recording.counts.values())
        state = f"{grouped(rows)} rows recorded" if rows else "not recorded yet"
        wrong = f", {counted(len(self.mistakes), 'mistake')} in the form" if self.mistakes else ""
        runs = f", {counted(len(self.kept), 'run')} kept" if self.kept else ""
        return f"Panel of scenario {self.scenario.name!r}: {len(self.draft.fields)} fields, {state}{wrong}{runs}"

    def _ipython_display_(self) -> None:
        self.wait()
        self.widget._ipython_display_()

    @property
    def draft(self) -> Draft[StreamScenario]:
        """The form as it is, with its mistakes."""
        return self._drafts[self._at]

    def change(self, path: FieldPath, offered: Any, *, gesture: int | None = None) -> ScenarioPanel:
        """Put a text, as it is typed, or a value into a field; with a mistake in it the last run stays.

        Changes of one field in one `gesture`, such as the drag of a slider, are undone together.
        """
        draft = self.draft.changed(path, offered)
        same = gesture is not None and self._gesture == (path, gesture)
        self._go_on(draft, instead=same)
        self._gesture = None if gesture is None else (path, gesture)
        return self

    def add(self, name: Literal["writers", "script"], kind: str) -> ScenarioPanel:
        """Add a writer (`writers`) or an act (`script`) of a kind; what it requires is filled in, to be changed."""
        self._go_on(self.draft.with_part(name, kind), added=[name, len(self.draft.data.get(name, ()))])
        return self

    def remove(self, path: FieldPath) -> ScenarioPanel:
        """Take the writer or the act at the path out, for example ("script", 0)."""
        part = next((part for part in self.draft.parts if part.path == path and part.removable), None)
        if part is None:
            paths = [str(part.path) for part in self.draft.parts if part.removable]
            raise ScenarioError(
                f"The form has nothing at {path} that can be removed.",
                remedy=f"choose one of: {', '.join(paths)}." if paths else "a scenario has one writer at least.",
            )
        self._go_on(self.draft.without(path), removed=part.title)
        return self

    def undo(self) -> ScenarioPanel:
        """Take the last change of the form back; nothing happens if there is none."""
        return self._go_to(self._at - 1)

    def redo(self) -> ScenarioPanel:
        """Make the change again that was taken back; nothing happens if there is none."""
        return self._go_to(self._at + 1)

    def picture(self, name: str) -> ScenarioPanel:
        """Draw another picture of the same run; the names are those of the panel's list."""
        if name not in PICTURES:
            raise ScenarioError(f"There is no picture {name!r}.", remedy=f"choose one of: {', '.join(PICTURES)}.")
        self.widget.chosen = name
        self._draw()
        return self

    def see(self, reader: str) -> ScenarioPanel:
        """Draw the bounds that another reader saw."""
        if reader not in self.widget.readers:
            known = ", ".join(self.widget.readers) or "none"
            raise ScenarioError(f"There is no reader {reader!r}.", remedy=f"choose one of: {known}.")
        self.widget.reader = reader
        self._draw()
        return self

    def fit(self, width: float) -> None:
        """Draw the picture for so many px, so that its words have the size they are meant to have."""
        self._width = round(min(max(width, _WIDTHS[0]), _WIDTHS[-1]))
        self._show_chart()

    def cancel(self) -> None:
        """Stop the run; the one before stays."""
        self._requested = None

    def keep(self, label: str = "") -> ScenarioPanel:
        """Keep the run under a label, and compare it with the others that were kept; a label taken is refused."""
        self.wait()
        if not self._is_of_form():
            self._say(*_NO_RUN)
            return self
        title = label.strip() or next(name for n in count(len(self.kept) + 1) if (name := f"run {n}") not in self.kept)
        if title in self.kept:
            self._say(f"a run is kept under {title!r} already.", "give another label, or none.")
            return self
        assert self.recording is not None
        self.kept[title] = self.recording
        if len(self.kept) > 1:
            runs = self.kept
            # A stream that was renamed between two runs is the only one of each.
            scenarios = [run.scenario_as(StreamScenario) for run in runs.values()]
            alone = all(scenario is not None and len(scenario.all_streams) == 1 for scenario in scenarios)
            stream = None if alone else self._stream
            self.widget.comparison = _html_or_error(
                lambda: compare(*runs.values(), labels=list(runs), stream=stream)._repr_html_()
            )
        self.widget.kept = list(self.kept)
        self._say(f"kept as {title!r}.", "" if len(self.kept) > 1 else "keep another one to compare the two.")
        return self

    def judge(self) -> None:
        """Have Spark judge the run, without waiting for it; the verdicts go when the scenario changes."""
        if not self._is_of_form() or self.recording is None:
            self._say(*_NO_RUN)
            return
        with self._lock:
            if self._judge is not None and self._judge.is_alive():
                self._judged_next = self.recording
                return
            self.widget.verdicts = _JUDGING
            self._judge = threading.Thread(target=self._check, args=(self.recording,), daemon=True)
            self._judge.start()

    def save(self, path: str) -> None:
        """Write the scenario to a YAML file."""
        file = FilePath(path.strip() or "scenario.yaml")
        self._say(f"written to {self.scenario.save(file)}.", "")

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

    def _is_of_form(self) -> bool:
        """Whether the run is that of the scenario, and the scenario that of the form."""
        return self.recording is not None and self._recorded is self.scenario and not self.mistakes

    def _say(self, problem: str, remedy: str) -> None:
        self.widget.notice = f"{problem[:1].upper()}{problem[1:]} {remedy[:1].upper()}{remedy[1:]}".strip()

    def _go_on(self, draft: Draft[StreamScenario], *, instead: bool = False, **state: Any) -> None:
        """Go on with another draft; what was taken back cannot be made again then."""
        self._drafts = [*self._drafts[: self._at + (not instead or self._at == 0)], draft]
        self._at = len(self._drafts) - 1
        self._gesture = None
        self._try(**state)

    def _go_to(self, index: int) -> ScenarioPanel:
        if 0 <= index < len(self._drafts):
            self._at, self._gesture = index, None
            self._try()
        return self

    def _try(self, **state: Any) -> None:
        """Show the draft; if it has no mistakes, it is the scenario."""
        self.widget.notice = ""
        try:
            scenario = self.draft.scenario()
        except Problems as wrong:
            self.mistakes = wrong.problems
            self._show_form(**state)
        else:
            self.mistakes = ()
            if scenario == self.scenario and self._requested is not None:
                self._show_form(**state)
            else:
                self._accept(scenario, **state)

    def _show_form(self, **state: Any) -> None:
        possible = {"undo": self._at > 0, "redo": self._at + 1 < len(self._drafts)}
        self.widget.show(self.draft, self.mistakes, **possible, **state)

    def _accept(self, scenario: StreamScenario, **state: Any) -> None:
        """Take a scenario without mistakes and request its run, which replaces a run that is under way."""
        self.scenario = scenario
        self._forget_verdicts()
        self._show_form(**state)
        self.widget.yaml, self.widget.python = scenario.to_yaml(), scenario.to_python()
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
                self.widget.running = percent

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
            self.widget.running = None

    def _mark_as_old(self, problem: str, remedy: str = "change a field to run it.") -> None:
        """Say that what is shown is of another run than the scenario's, if anything is."""
        old = "" if self.recording is None else " The picture shows the run of the scenario before."
        self._say(f"{problem}{old}", remedy)

    def _forget_verdicts(self) -> None:
        """Verdicts are of one run."""
        self.verdicts, self._judged_next = None, None
        self.widget.verdicts = ""

    def _draw(self) -> None:
        if (recording := self.recording) is None:
            return
        self.widget.readers = readers_of(recording, self._stream)
        if self.widget.reader not in self.widget.readers:
            self.widget.reader = next(iter(self.widget.readers), None)
        try:
            self._chart = PICTURES[self.widget.chosen](recording, self._stream, self.widget.reader)
        except WmlabError as refused:
            self._chart = None
            self.widget.picture = _notice(refused)
        self._show_chart()
        self.widget.sentence = recording.explain(stream=self._stream).sentence

    def _show_chart(self) -> None:
        if self._chart is not None:
            self.widget.picture = draw_svg(self._chart.scene, self._width)

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
                    self.widget.verdicts = html
                following, self._judged_next = self._judged_next, None
                if following is None or following is recording:
                    return
            recording = following
            self.widget.verdicts = _JUDGING


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
        return _notice(error)


def _notice(error: WmlabError) -> str:
    """An error as HTML: what is wrong, and what to do."""
    return f"<p class='wmlab-alert' role='alert'>{escape(error.problem)} {escape(error.remedy)}</p>"
