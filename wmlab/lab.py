"""Where the rooms meet: a scenario goes through the simulator into a recording, and from there through Spark.

Methods of values that reach to the right (`Scenario.record`, `Recording.time_bounds`) come through here, so that
the rooms themselves never import what stands to their right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Never

import numpy as np
import pyarrow as pa
from pydantic import TypeAdapter
from tqdm.auto import tqdm

import wmlab.answers as answers
import wmlab.traces as traces
from wmlab.errors import RecordingError
from wmlab.lab_dataflow import coalesced, dataflow_of, judge_of, of_dataflow, record_dataflow
from wmlab.lab_dataflow_answers import dataflow_permutations, explain_dataflow, merge_permutations, why_dropped
from wmlab.lab_progress import explain_plan, holds, of_plans, record_plan, rules_of
from wmlab.model.routing import key_of
from wmlab.places import stream_cut_at, time_at
from wmlab.recording import Recording
from wmlab.scenario import Problem, Problems, Scenario
from wmlab.sim.journal import EventColumns, Journal
from wmlab.sim.load import Load
from wmlab.sim.world import World
from wmlab.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from wmlab.view.scrubber import Scrubber

__all__ = [
    "Recording",
    "check",
    "coalesced",
    "dataflow_of",
    "dataflow_permutations",
    "dataframe",
    "explain",
    "holds",
    "merge_permutations",
    "record",
    "record_dataflow",
    "record_plan",
    "scrub",
    "stream_cut_at",
    "tables_of",
    "time_at",
    "time_bounds",
    "timeline",
    "why_dropped",
]

_PROGRESS_AFTER_S = 5
_KEYS = 2**64
_CHECKS_AT_ONCE = 3


def record(
    scenario: Scenario, path: str | Path | None = None, *, progress: bool | Callable[[int], None] = True
) -> Recording:
    """Run a scenario and return everything that happened; with `path`, keep it there.

    Runs of more than five seconds show a progress bar unless `progress` is False; a function is told the percentage
    instead, and stops the run by raising.
    """
    world = World(scenario, _trace_loads(scenario))
    if callable(progress):
        world.run(progress=progress)
    else:
        with tqdm(
            total=100, desc=scenario.name, unit="%", delay=_PROGRESS_AFTER_S, leave=False, disable=not progress
        ) as bar:
            world.run(progress=lambda percent: _advance(bar, percent))
    recording = Recording.from_tables(
        tables_of(scenario, world.journals()), name=scenario.name, scenario=scenario.to_dict(), seed=scenario.seed
    )
    return recording if path is None else recording.save(path)


def _advance(bar: tqdm[Never], percent: int) -> None:
    bar.update(percent - bar.n)


def tables_of(scenario: Scenario, journals: Mapping[str | None, Journal]) -> dict[str, pa.Table]:
    """The rows of a run, given by stream and under None for those of no stream, as the tables of a recording."""
    writers = tuple(writer.name for writer in scenario.writers)
    return {
        name: pa.concat_tables(
            _events(stream or "", journal.events(writers))
            if name == "events"
            else _table(stream, name, journal.rows.get(name, []))
            for stream, journal in journals.items()
        ).combine_chunks()
        for name in TABLES
    }


def _table(stream: str | None, name: str, rows: list[Mapping[str, object]]) -> pa.Table:
    columns = [pa.array(_entries(stream, rows, f), f.type) for f in TABLES[name]]
    return pa.Table.from_arrays(columns, schema=TABLES[name])


def _entries(stream: str | None, rows: list[Mapping[str, object]], field: pa.Field) -> list[object]:
    """One column of the rows; Arrow takes a map as the list of its pairs."""
    if field.name == "stream":
        return [row.get("stream", stream) for row in rows]
    name = field.name
    found = [row[name] for row in rows]
    if not pa.types.is_map(field.type):
        return found
    return [list(offered.items()) if isinstance(offered, Mapping) else offered for offered in found]


def _events(stream: str, events: EventColumns) -> pa.Table:
    names = pa.array(events.writer_names or [""], pa.string())
    columns = {
        "stream": pa.repeat(pa.scalar(stream, pa.string()), len(events.offset)),
        "segment_id": events.segment_id,
        "offset": events.offset,
        "event_time": events.event_time,
        "append_ms": events.append_ms,
        "writer": pa.DictionaryArray.from_arrays(pa.array(events.writer), names).cast(pa.string()),
    }
    return pa.table([columns[name] for name in TABLES["events"].names], schema=TABLES["events"])


def _trace_loads(scenario: Scenario) -> dict[str, Load]:
    """The load of every writer that replays a trace: what is under way at the start or departs until the end."""
    loaded = {part.trace: traces.load(part.trace) for part in scenario.writers if part.trace is not None}
    loads: dict[str, Load] = {}
    problems: list[Problem] = []
    end_ms = scenario.start_ms + scenario.duration_ms
    for index, part in enumerate(scenario.writers):
        if part.trace is None:
            continue
        trace = loaded[part.trace]
        if part.name not in trace.writer_names:
            known = ", ".join(trace.writer_names)
            message = f"trace {part.trace!r} has no writer {part.name!r}; it has: {known}"
            problems.append(Problem(("writers", index, "name"), message))
            continue
        columns = trace.writers(part.name).columns()
        happens, arrives = columns["event_time"], columns["arrival_ms"]
        inside = (arrives >= scenario.start_ms + part.starts_ms) & (happens < end_ms)
        keys, place = np.unique(columns["key"][inside].astype(str), return_inverse=True)
        numbers = np.array([int(key_of(str(key)) * _KEYS) for key in keys], np.uint64)
        loads[part.name] = Load.of(happens[inside], arrives[inside], numbers[place])
    if problems:
        raise Problems(f"the scenario {scenario.name!r}", problems)
    return loads


def dataframe(recording: Recording, spark: SparkSession, name: str) -> DataFrame:
    """One table of a recording as a Spark DataFrame; a recording on disk is read by Spark itself."""
    from wmlab import spark as questions

    if recording.path is not None:
        return spark.read.schema(questions.SCHEMAS[name]).parquet(str(recording.path / name))
    return questions.dataframe(spark, name, recording.table(name))


def time_bounds(
    recording: Recording,
    spark: SparkSession,
    *,
    of: Literal["readers", "events"] | None = None,
    visible: Literal["all", "then"] = "all",
) -> DataFrame:
    """Lower, upper and true bound of every position in a recording, computed by Spark.

    The positions are those that reader groups published, one row a version of a group's state; or, when nobody read,
    the events, one row an event. `of` chooses. `visible="then"` lets a mark count only once it was emitted, as a
    reader saw it at that moment; it needs readers. `happened` tells what the script did since the row before.
    """
    from wmlab import spark as questions

    if of_plans(recording):
        raise RecordingError(
            f"the recording {recording.name!r} is one of query plans, which have no positions in segments.",
            remedy="ask wmlab.spark.progress about its table 'buffers', or check and explain it.",
        )
    tables = {name: dataframe(recording, spark, name) for name in ("watermarks", "segments", "events", "faults")}
    marks, segments, events = tables["watermarks"], tables["segments"], tables["events"]
    if of == "events" or (of is None and not recording.counts["positions"]):
        positions = events.withColumn("at_ms", events.append_ms)
        return questions.true_bound(questions.time_bounds(positions, marks, segments), events, segments)
    positions = dataframe(recording, spark, "positions")
    bounds = questions.group_time_bounds(positions, marks, segments, visible=visible)
    truth = questions.group_true_bound(positions, events, segments)
    joined = bounds.join(truth, ["stream", "group", "version", "at_ms"])
    return questions.with_happenings(joined, tables["faults"])


def check(recording: Recording, spark: SparkSession) -> answers.Verdicts:
    """One verdict per invariant, with the rows that prove a violation; judged by Spark from the tables.

    Of a stream they are I1 to I9, of query plans N1 to N12, of a dataflow K1 to K14.
    """
    if of_plans(recording):
        return _check_plans(recording, spark)
    if of_dataflow(recording):
        return _judged(recording, *judge_of(recording, spark))
    from wmlab.spark.checks import INVARIANTS, verdict

    names = {table for rule in INVARIANTS.values() for table in rule.tables}
    tables = {name: dataframe(recording, spark, name) for name in names}
    return _judged(recording, INVARIANTS, lambda name: verdict(name, tables))


def _check_plans(recording: Recording, spark: SparkSession) -> answers.Verdicts:
    from wmlab.spark.checks_progress import JUDGED, PROGRESS_INVARIANTS, progress_verdict

    rules = rules_of(recording)
    tables = {name: dataframe(recording, spark, name) for name in JUDGED}
    local = "running_max" if rules is None else rules.local
    return _judged(recording, PROGRESS_INVARIANTS, lambda name: progress_verdict(name, tables, local=local))


def _judged(recording: Recording, names: Iterable[str], judge: Callable[[str], DataFrame]) -> answers.Verdicts:
    with ThreadPoolExecutor(_CHECKS_AT_ONCE) as pool:
        rows = list(pool.map(lambda name: judge(name).first(), names))
    return answers.Verdicts.of(recording.name, [row.asDict(recursive=True) for row in rows if row is not None])


def explain(recording: Recording, **asked: Any) -> Any:
    """What holds the lower bound, see `wmlab.answers.explain`; of plans and dataflows, what holds a watermark."""
    if of_dataflow(recording):
        return explain_dataflow(recording, **asked)
    if of_plans(recording):
        return explain_plan(recording, **asked)
    return answers.explain(recording, rules=_rules(recording, asked.get("stream")), **asked)


def timeline(recording: Recording, *, stream: str | None = None) -> answers.Timeline:
    """What happened, row by row; see `wmlab.answers.timeline`."""
    return answers.timeline(recording, stream=stream)


def scrub(
    recording: Recording,
    *,
    at_ms: int | None = None,
    stream: str | None = None,
    group: str | None = None,
    bounds: Any = None,
    verdicts: answers.Verdicts | None = None,
) -> Scrubber:
    """Step through a stream of a recording, both ways, beginning at `at_ms` (clock, ms).

    Without `at_ms` it begins at the first violation, or else halfway through. `stream` is needed when there are
    several; `group` is by default the first by name. `bounds`, a table of `time_bounds` for that group, adds the true
    bound, and `verdicts`, of `check`, add the violations. Raises `RecordingError` for a stream that the recording does
    not have or that has no segments, and `ChartError` for a group that did not read, other bounds, or an empty stream.
    """
    from wmlab.answers.known import the_stream
    from wmlab.answers.moving import sentences, violations
    from wmlab.view.scrubber import Scrubber
    from wmlab.view.scrubber_frames import film_of

    if not recording.counts["segments"]:
        raise RecordingError(
            f"The recording {recording.name!r} has no segments to step through.",
            remedy="scrub a recording of a stream; ask others with explain(at_ms=...) and wm.chart.",
        )
    name = the_stream(recording, stream)
    broken = () if verdicts is None else violations(verdicts, stream=name)
    film = film_of(recording, stream=name, group=group, bounds=bounds, violations=broken)
    told = sentences(recording, film.changes, stream=name, rules=_rules(recording, name))
    return Scrubber(replace(film, sentences=told), at_ms=at_ms)


def _rules(recording: Recording, stream: str | None) -> answers.Rules | None:
    """The rules of one stream of a recorded scenario, by the name that the tables have for it."""
    if recording.scenario is None or "queries" in recording.scenario:
        return None
    scenario = TypeAdapter(Scenario).validate_python(recording.scenario)
    named = None if stream is None else stream.partition("#")[0]
    part = next((part for part in scenario.all_streams if part.name == named), scenario.all_streams[0])
    looks = {
        group.publish_every_ms if group.publish_timer == "fixed" else None
        for group in scenario.groups
        if part.name in (group.streams or (group.stream or part.name,))
    }
    return answers.Rules(
        period_ms=scenario.controllers.period_ms,
        timeout_ms=part.timestamp_aggregation_timeout_ms,
        timeout_from=part.timeout_from,
        start_delay_ms=scenario.controllers.start_delay_ms,
        look_every_ms=looks.pop() if len(looks) == 1 else None,
    )
