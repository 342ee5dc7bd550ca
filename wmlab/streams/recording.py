"""The recording of streams: its verbs, and the run of a scenario that makes one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, Never

from tqdm.auto import tqdm

from wmlab.core.arguments import the_flag
from wmlab.core.errors import RecordingError, ScenarioError
from wmlab.core.invariants import Verdicts
from wmlab.core.overlap import warn_of_times_apart
from wmlab.core.recording import Recording, planned_span, recorded, require_no_fields
from wmlab.core.waiting import PROGRESS_AFTER_S, is_interactive
from wmlab.core.words import rounded
from wmlab.streams import positions
from wmlab.streams.answers.explain import explain
from wmlab.streams.answers.history import recorded_configuration, the_stream
from wmlab.streams.answers.measures import ownership
from wmlab.streams.answers.timeline import timeline
from wmlab.streams.answers.together import REMEDY_FOR_GROUPS, streams_apart
from wmlab.streams.run_measures import EventsInLog, measures
from wmlab.streams.scenario.rules import configuration
from wmlab.streams.scenario.scenario import StreamScenario
from wmlab.streams.sim.run import simulate
from wmlab.streams.tables import TABLES


class StreamRecording(Recording, kind="streams", schemas=TABLES):
    """Everything that happened to the streams of a scenario, or of a log from outside."""

    __slots__ = ()

    stream_cut_at = positions.stream_cut_at
    time_at = positions.time_at
    bytes_between = positions.bytes_between
    group_positions = positions.group_positions
    group_windows = positions.group_windows
    most_recent_watermark = positions.most_recent_watermark
    read_sides = positions.read_sides
    explain = explain
    timeline = timeline
    ownership = ownership
    measures = measures

    def _origin(self) -> str:
        ends = "" if self.counts["cycles"] else self._ends_before_the_first_cycle()
        return f"{super()._origin()}{ends}"

    def _ends_before_the_first_cycle(self) -> str:
        """That the run is too short for a watermark, as with a duration in the wrong unit; else nothing."""
        span_ms = planned_span(self)
        try:
            written = self.scenario_as(StreamScenario)
        except RecordingError:
            return ""
        if span_ms is None or written is None:
            return ""
        start_ms, end_ms = span_ms
        first_ms = min(self.table("writer_marks")["received_ms"].to_pylist(), default=start_ms)
        controllers, rules = written.controllers, written.resolved.rules
        cycle_ms = first_ms + min(configuration(part, controllers, rules).delay_ms for part in written.all_streams)
        if cycle_ms < end_ms:
            return ""
        lasted, until = rounded(end_ms - start_ms), rounded(cycle_ms - start_ms)
        hint = f"; did you mean duration_ms='{end_ms - start_ms} s'?" if lasted.endswith(" ms") else ""
        return f", ends after {lasted}, before the first watermark cycle at {until}{hint}"

    def time_bounds(
        self,
        spark: Any = None,
        *,
        of: Literal["readers", "events"] | None = None,
        visible: Literal["all", "then"] | None = None,
    ) -> Any:
        """Lower, upper and perfect watermark at the positions of reader groups, as a Spark DataFrame.

        A row is valid from its `at_ms` (clock) until the next one of its group. `of` chooses the positions: of the
        readers by default, or of the events if nobody read. `visible="then"`, the default for readers, uses a watermark
        from its emission on, so the bounds are what the log says at the position at that moment; nobody need have seen
        them, and the table `windows` has what readers saw. `visible="all"` uses the complete log from the beginning. In
        both cases, `upper_later` is the upper bound of the complete log. Without `spark` it uses the Spark session of
        the process, which is started if there is none. Raises `SessionError` for anything but a session, `ModelError`
        for other options.
        """
        from wmlab.core.spark.session import the_session
        from wmlab.streams.bounds.recorded import bounds_of_recording

        return bounds_of_recording(self, the_session(spark), of=of, visible=visible)

    def replay(
        self, spark: Any = None, configs: Mapping[str, Mapping[str, Any]] | None = None, *, stream: str | None = None
    ) -> Any:
        """The watermarks that one stream would have had with other rules, as a Spark DataFrame.

        A row is one watermark of one configuration: `stream`, `config` (its label), `seq`, and the other columns of the
        table `watermarks`. `configs` gives, by label, the differences from the recorded rules, in the fields of
        `wm.spark.Configuration`, for example {"10 s": {"timeout_ms": 10_000}}; by default there are none. A log from
        outside has the default rules. `stream` is needed when there are several. Without `spark` it uses the Spark
        session of the process, which is started if there is none. Raises `SessionError` for anything but a session, and
        `Problems` for an invalid configuration.
        """
        from wmlab.core.spark.session import the_session
        from wmlab.streams.bounds.replay import replay

        name, spark = the_stream(self, stream), the_session(spark)
        span_ms, cycles = planned_span(self), recorded_configuration(self, name)
        recorded_options = {} if cycles is None else asdict(cycles)
        whole = {label: recorded_options | dict(changes) for label, changes in (configs or {"as recorded": {}}).items()}
        tables = (self.spark(spark, title) for title in ("writer_marks", "segments", "writer_shutdowns"))
        marks, segments, shutdowns = (table.where(table["stream"] == name) for table in tables)
        until_ms = None if span_ms is None else span_ms[1]
        return replay(marks, segments, whole, shutdowns=shutdowns, until_ms=until_ms)

    def check(self, *only: str) -> Verdicts:
        """One verdict per invariant, I1 to I12, or of those named in `only`: check("I1", "I6").

        It needs no Spark: the rules run in memory, with one part of the events at a time. Two invariants are checked
        only if they are named: I14, a liveness invariant about a run at rest, and I15, which is I6 including events at
        exactly the time of the bound. A verdict says whether the invariant holds and what it leaves out, and has the
        rows that prove a violation. With I6 it says what came late: `late`, by stream. Raises `ModelError` for an
        unknown name.
        """
        from wmlab.streams.checks import in_memory

        return in_memory(self, *only, events_in_log=EventsInLog)

    def scrub(
        self,
        at_ms: int | str | None = None,
        *,
        stream: str | None = None,
        group: str | None = None,
        verdicts: Verdicts | None = None,
    ) -> Any:
        """The chart of a moment, with widgets that change the moment, beginning at `at_ms` (clock, ms).

        Without `at_ms` it begins at the first violation, or else at an event halfway through. `stream` is needed when
        there are several; `group` is by default the first by name. `verdicts`, of `check`, add the violations. Raises
        `RecordingError` for a stream or group that is not there, or a stream in which nothing happened, `ChartError`
        for anything but a moment of the run.
        """
        from wmlab.streams.scrub import scrub

        return scrub(self, at_ms=at_ms, stream=stream, group=group, verdicts=verdicts)


def record(
    scenario: StreamScenario,
    path: str | Path | None = None,
    *,
    progress: bool | Callable[[int], None] = True,
    **fields: Never,
) -> StreamRecording:
    """Run a scenario and return a recording of everything that happened; with `path`, save it there.

    Runs of more than five seconds show a progress bar in a terminal or notebook, unless `progress` is False. If
    `progress` is a function, it is called with the percentage instead, and can stop the run by raising. Warns with
    `TimesApartWarning` if a group reads streams together whose event times do not overlap in the run; if warnings are
    errors, the error has the recording as `recording`.
    """
    require_no_fields(fields)
    progress = as_progress(progress)

    def run(folder: Path | None) -> Mapping[str, Any]:
        if callable(progress):
            return simulate(scenario, progress, folder)
        hidden = not (progress and is_interactive())
        description = None if hidden else repr(scenario.estimate())
        with tqdm(total=100, desc=description, unit="%", delay=PROGRESS_AFTER_S, leave=False, disable=hidden) as bar:
            return simulate(scenario, lambda percent: _advance(bar, percent), folder)

    recording = recorded(StreamRecording, scenario, run, path)
    apart = [sentence for _, sentence in streams_apart(recording).values()]
    warn_of_times_apart(recording, apart, REMEDY_FOR_GROUPS)
    return recording


def as_progress(offered: bool | Callable[[int], None]) -> bool | Callable[[int], None]:
    """How progress is shown; raises `ScenarioError` for what is neither a flag nor a function."""
    return offered if callable(offered) else the_flag(offered, "progress", ScenarioError)


def _advance(bar: tqdm[Never], percent: int) -> None:
    bar.update(percent - bar.n)
