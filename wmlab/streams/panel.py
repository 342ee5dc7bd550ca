"""Where the panel meets the simulator: a changed field becomes a scenario, a run, a picture and a sentence.

Runs happen on a thread of their own, the newest wish wins, and a run that is cancelled leaves the last one in place.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Literal, cast

from wmlab.core.answers.stragglers import Stragglers
from wmlab.core.answers.verdicts import Verdicts
from wmlab.core.charts.chart import Chart
from wmlab.core.errors import ScenarioError, WmlabError
from wmlab.core.values import Problems
from wmlab.streams import charts as view
from wmlab.streams.charts.panel import PanelView
from wmlab.streams.charts.panel_form import notice
from wmlab.streams.compare import compare
from wmlab.streams.recording import StreamRecording, record
from wmlab.streams.scenario.form import FormField, fields_of, with_changes, with_part, without_part
from wmlab.streams.scenario.scenario import StreamScenario

_PICTURES: Final[dict[str, Callable[..., Chart]]] = {
    "events and bounds": view.event_vs_arrival,
    "who held the bound": view.writer_marks,
    "lag": view.lag,
    "key space": view.key_space,
    "watermark cycles": view.watermark_cycles,
    "lag, how often": view.lag_distribution,
}
_SETTLE_S: Final = 0.05
"""Changes that follow each other this quickly, as when a key is held down, are one."""


class Cancelled(Exception):
    """A run was stopped because it is not wanted any more."""


class Panel:
    """A scenario as a form that records and redraws at every change; what it holds is there for the notebook.

    `scenario` is the last one without mistakes, `recording` its run, `kept` the kept runs by label, `verdicts` the
    last judgement.
    """

    def __init__(self, scenario: StreamScenario) -> None:
        self.scenario = scenario
        self.recording: StreamRecording | None = None
        self.kept: dict[str, StreamRecording] = {}
        self.verdicts: Verdicts | None = None
        self.widget = PanelView(self, tuple(_PICTURES))
        self._fields: tuple[FormField, ...] = ()
        self._pending: dict[Any, Any] = {}
        self._wanted: StreamScenario | None = None
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._runner: threading.Thread | None = None
        self._judge: threading.Thread | None = None
        self._adopt(scenario)

    def __repr__(self) -> str:
        rows = 0 if self.recording is None else sum(self.recording.counts.values())
        state = f"{rows:,} rows recorded" if rows else "not recorded yet"
        kept = f", {len(self.kept)} runs kept" if self.kept else ""
        return f"Panel of scenario {self.scenario.name!r}: {len(self._fields)} fields, {state}{kept}"

    def _repr_mimebundle_(self, **kinds: Any) -> dict[str, Any]:
        """The widgets where a kernel runs, and the text everywhere."""
        self.wait()
        bundle: dict[str, Any] = dict(self.widget._repr_mimebundle_(**kinds) or {})
        return bundle | {"text/plain": repr(self)}

    def change(self, path: Any, value: Any) -> None:
        """Take a new value for a field; with a mistake in it the last run stays and the mistake is shown."""
        self._pending[path] = value
        self._try(lambda: with_changes(self.scenario, self._pending))

    def remove(self, group: str) -> None:
        """Take the writer or the act with this heading out."""
        path = next(field.path[:2] for field in self._fields if field.group == group)
        self._try(lambda: without_part(self.scenario, path))

    def add(self, what: str, text: str) -> None:
        """Add a writer (`writers`) or an act (`script`), given as YAML."""
        name = cast("Literal['writers', 'script']", what)
        self._try(lambda: with_part(self.scenario, name, text))

    def picture(self, name: str) -> None:
        """Draw another picture of the same run; the names are those of the panel's list."""
        if self.widget.choice.value == name:
            self._draw()
        else:
            self.widget.choice.value = name  # comes back here, as when the user chooses

    def cancel(self) -> None:
        """Stop the run; the one before stays."""
        self._wanted = None
        self._stop.set()

    def keep(self, label: str = "") -> None:
        """Keep the run under a label, and compare it with the others that were kept."""
        self.wait()
        if self.recording is None:
            self.widget.message.value = notice(None, "there is no run to keep.", "correct the scenario first.")
            return
        self.kept[label.strip() or f"run {len(self.kept) + 1}"] = self.recording
        page = f"Kept: {', '.join(self.kept)}"
        if len(self.kept) > 1:
            page = self._guarded(lambda: compare(*self.kept.values(), labels=list(self.kept), stream=self._stream()))
        self.widget.kept.value = page

    def judge(self) -> None:
        """Have Spark judge the run, without waiting for it."""
        if self.recording is None or (self._judge and self._judge.is_alive()):
            return
        self.widget.verdicts.value = "Spark is judging …"
        self._judge = threading.Thread(target=self._judged, args=(self.recording,), daemon=True)
        self._judge.start()

    def save(self, path: str) -> None:
        """Write the scenario to a YAML file."""
        try:
            written = self.scenario.save(Path(path.strip() or "scenario.yaml"))
        except OSError as error:
            said = notice(None, f"{path!r} cannot be written: {error.strerror}.", "choose another file.")
            self.widget.message.value = said
            return
        self.widget.message.value = f"Written to {written}."

    def wait(self, timeout_s: float = 600) -> Panel:
        """Wait until no run and no judgement is under way."""
        for thread in (self._runner, self._judge):
            if thread is not None and thread is not threading.current_thread():
                thread.join(timeout_s)
        return self

    def _try(self, make: Callable[[], StreamScenario]) -> None:
        try:
            made = make()
        except Problems as wrong:
            mistakes = {problem.path: problem.message for problem in wrong.problems}
            self.widget.message.value = notice(mistakes, remedy="The picture shows the last scenario without mistakes.")
        except ScenarioError as wrong:
            self.widget.message.value = notice(None, wrong.problem, wrong.remedy)
        else:
            self._adopt(made)

    def _adopt(self, scenario: StreamScenario) -> None:
        self.scenario, self._pending = scenario, {}
        self._fields = fields_of(scenario)
        removable = {f.group for f in self._fields if f.path[0] in ("writers", "script") and len(f.path) > 2}
        if len(scenario.writers) < 2:
            removable -= {f.group for f in self._fields if f.path[0] == "writers"}
        self.widget.form.show(self._fields, sorted(removable))
        self.widget.yaml.value = scenario.to_yaml()
        self.widget.message.value = ""
        with self._lock:
            self._wanted = scenario
            self._stop.set()
            if self._runner is None or not self._runner.is_alive():
                self._runner = threading.Thread(target=self._run, daemon=True)
                self._runner.start()

    def _run(self) -> None:
        while True:
            self._stop.clear()
            self._stop.wait(_SETTLE_S)
            with self._lock:
                scenario, self._wanted = self._wanted, None
                if scenario is None:
                    self._runner = None
                    return
            self._stop.clear()
            self._record(scenario)

    def _record(self, scenario: StreamScenario) -> None:
        try:
            recording = record(scenario, progress=self._told)
        except Cancelled:
            return
        except WmlabError as error:
            self.widget.message.value = notice(None, error.problem, error.remedy)
        else:
            self.recording = recording
            self._draw()
        finally:
            self.widget.show_progress(None)

    def _told(self, percent: int) -> None:
        if self._stop.is_set() and (self._wanted is not None or percent < 100):
            raise Cancelled
        if percent:
            self.widget.show_progress(percent)

    def _draw(self) -> None:
        recording = self.recording
        if recording is None:
            return
        stream = self._stream()
        try:
            svg = _PICTURES[self.widget.choice.value](recording, stream=stream).svg
        except WmlabError as error:
            svg = notice(None, error.problem, error.remedy)
        holders = recording.explain(stream=stream)
        self.widget.show_picture(svg, holders.sentence if isinstance(holders, Stragglers) else repr(holders))

    def _judged(self, recording: StreamRecording) -> None:
        from wmlab.core.spark.session import spark_session

        def verdicts() -> Verdicts:
            self.verdicts = recording.check(spark_session())
            return self.verdicts

        self.widget.verdicts.value = self._guarded(verdicts)

    def _guarded(self, answer: Callable[[], Any]) -> str:
        try:
            found = answer()
        except WmlabError as error:
            return notice(None, error.problem, error.remedy)
        page = found._repr_html_() if hasattr(found, "_repr_html_") else found._repr_mimebundle_()["text/html"]
        return str(page)

    def _stream(self) -> str:
        return self.scenario.all_streams[0].name


def panel(scenario: StreamScenario) -> Panel:
    """A form of the scenario's fields; every change records and redraws.

    Raises `ScenarioError` for anything but a scenario of streams.
    """
    if not isinstance(scenario, StreamScenario):
        raise ScenarioError(
            f"a panel cannot be made of a {type(scenario).__name__}.",
            remedy="give a Scenario; plans and dataflows are changed with replace() and recorded again.",
        )
    return Panel(scenario)
