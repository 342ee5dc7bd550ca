"""The charts of a random run, each with what has to stand above it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pandas as pd
import pyarrow.compute as pc

import wmlab as wm
from tests.oracles import heads
from tests.oracles.heads import Above, BoundRows
from tests.oracles.runs import moments_of
from tests.oracles.tables import Run
from wmlab.core.errors import ChartError
from wmlab.core.words import clock_words
from wmlab.streams.api import Scenario
from wmlab.streams.scenario import noting

Pair = tuple[str, Any, Above]
"""Which chart it is, the chart, and what has to stand above it."""
_SPAN_MS = 1_000
CONTROLLERS = ("leader", "controller-0", "controller-1")


def with_messages(scenario: Scenario) -> Scenario:
    """The same run with the table of its messages."""
    return scenario.replace(network=replace(scenario.network, keep_messages=True))


def charts_of(run: Run, seed: int) -> Iterator[Pair]:
    """Every chart of a run that can be drawn; one that must not be drawn raises `ChartError`."""
    recording = run.recording
    for stream in run.titles:
        yield from _of_bounds(run, stream)
        yield from _of_parties(run, stream)
        yield from _of_events(run, stream, Random(f"charts {seed} {stream}"))
        yield from _of_cuts(run, stream, moments_of(f"cuts {seed} {stream}", 3))
        if run.recording.counts["messages"]:
            yield from _of_messages(run, stream, moments_of(f"messages {seed} {stream}", 2))
    yield from _drawn("bucket_ownership", heads.bucket_ownership(run), lambda: wm.chart.bucket_ownership(recording))
    if recording.counts["windows"]:
        for by in ("stream", "reader"):
            said = heads.alignment(run, by)
            yield from _drawn(f"alignment by {by}", said, lambda by=by: wm.chart.alignment(recording, by=by))
    yield from _of_sweep(Random(f"sweep {seed}"))


def _drawn(name: str, said: Above | None, draw: Any) -> Iterator[Pair]:
    """A chart; where nothing can be said, it has to be refused."""
    if said is not None:
        yield name, draw(), said
        return
    try:
        draw()
    except ChartError:
        return
    raise AssertionError(f"{name} is drawn, although there is nothing to say")


def _of_bounds(run: Run, stream: str) -> Iterator[Pair]:
    windows = run.all_rows("windows", stream)
    groups = sorted({row["group"] for row in run.all_rows("positions", stream)})
    tables = [heads.group_rows(run, stream, group) for group in groups]
    tables += [
        heads.reader_rows(run, stream, group, reader)
        for group, reader in sorted({(row["group"], row["reader"]) for row in windows})
    ]
    for table in tables:
        name = f"time_bounds of {table.reader or table.group}"
        drawn = wm.chart.time_bounds(_frame(stream, table), recording=run.recording)
        yield name, drawn, heads.time_bounds(run, stream, table)
        until_known = next((n + 1 for n, row in enumerate(table.rows) if row[1] is not None), None)
        for begin in (replace(table, rows=table.rows[:rows]) for rows in (until_known, -1) if rows != -len(table.rows)):
            alone = wm.chart.time_bounds(_frame(stream, begin))
            yield f"{name}, alone", alone, heads.time_bounds(run, stream, begin, alone=True)
    for group in groups:
        yield from _drawn(
            f"reader_times of {group}",
            heads.reader_times(run, stream, group),
            lambda group=group: wm.chart.reader_times(run.recording, stream=stream, group=group),
        )
    if windows:
        yield "lag", wm.chart.lag(run.recording, stream=stream), heads.lag(run, stream)
        yield from _drawn(
            "lag_distribution",
            heads.lag_distribution(run, stream),
            lambda: wm.chart.lag_distribution(run.recording, stream=stream),
        )


def _frame(stream: str, table: BoundRows) -> pd.DataFrame:
    at_ms, lower, upper, perfect = zip(*table.rows, strict=True)
    columns: dict[str, Any] = {"stream": stream, "at_ms": at_ms, "version": range(len(at_ms))}
    columns |= {
        name: pd.array(list(values), "Int64")
        for name, values in (("lower", lower), ("upper", upper), ("perfect_watermark", perfect))
        if name != "perfect_watermark" or table.reader is None
    }
    columns |= {"group": table.group} if table.group is not None else {}
    return pd.DataFrame(columns | ({"reader": table.reader} if table.reader is not None else {}))


def _of_parties(run: Run, stream: str) -> Iterator[Pair]:
    recording = run.recording
    if run.all_rows("writer_marks", stream):
        yield "writer_marks", wm.chart.writer_marks(recording, stream=stream), heads.writer_marks(run, stream)
    yield "holders", wm.chart.holders(recording.explain(stream=stream)), heads.holders(run, stream)
    if run.all_rows("cycles", stream):
        cycles = wm.chart.watermark_cycles(recording, stream=stream)
        yield "watermark_cycles", cycles, heads.watermark_cycles(run, stream)
        yield "generations", wm.chart.generations(recording, stream=stream), heads.generations(run, stream)


def _of_events(run: Run, stream: str, draw: Random) -> Iterator[Pair]:
    if not run.all_rows("events", stream):
        return
    recording = run.recording
    yield "event_vs_arrival", wm.chart.event_vs_arrival(recording, stream=stream), heads.event_vs_arrival(run, stream)
    marks = run.watermarks(stream, run.end_ms)
    if marks and any(row["writers"] for row in marks):
        later_ms = draw.choice((100, 3_000))
        logs = {
            "as recorded": marks,
            "later": [row | {"lower": row["lower"] - later_ms} for row in marks],
            "earlier": [row | {"lower": row["lower"] + draw.choice((100, 1_500))} for row in marks],
        }
        rows = pd.DataFrame([row | {"config": config} for config, log in logs.items() for row in log])
        yield "replay", wm.chart.replay(rows, recording), heads.replay(run, stream, logs)


def _of_cuts(run: Run, stream: str, moments: list[int]) -> Iterator[Pair]:
    recording = run.recording
    yield "key_space", wm.chart.key_space(recording, stream=stream), heads.key_space(run, stream)
    for at_ms in moments if run.watermarks(stream, run.end_ms) else ():
        marks = run.watermarks(stream, at_ms)
        words = clock_words(marks[-1]["emitted_ms"]) if marks else ""
        yield from _drawn(
            f"stream_cut at {at_ms}",
            heads.stream_cut(run, stream, at_ms, words),
            lambda at_ms=at_ms: wm.chart.stream_cut(recording, at_ms=at_ms, stream=stream),
        )


def _of_messages(run: Run, stream: str, moments: list[int]) -> Iterator[Pair]:
    messages = run.recording.table("messages")
    about = messages.filter(pc.equal(messages["stream"], stream))
    lost = about.filter(pc.is_null(about["received_ms"]))
    around = [(at_ms, about) for at_ms in moments] + [(at_ms, lost) for at_ms in lost["sent_ms"].to_pylist()[:1]]
    for at_ms, table in around:
        words = f"{at_ms / 1_000:.3f}".rstrip("0").rstrip(".") + " s"
        yield from _drawn(
            f"message_diagram around {at_ms}",
            heads.message_diagram(table.to_pylist(), stream, at_ms, _SPAN_MS, words),
            lambda at_ms=at_ms, table=table: wm.chart.message_diagram(
                table.to_pandas(), around_ms=at_ms, span_ms=_SPAN_MS
            ),
        )


def _of_sweep(draw: Random) -> Iterator[Pair]:
    runs = [
        (draw.choice((500, 1_500, 45_000)), draw.uniform(100, 5_000), draw.choice((0.0, 0.0, 0.2)))
        for _ in range(draw.randrange(1, 9))
    ]
    table = pd.DataFrame(runs, columns=["timeout_ms", "lag_ms", "late_share"])
    words = {500: "500 ms", 1_500: "1.5 s", 45_000: "45 s"}
    yield "sweep", wm.chart.sweep(table, by="timeout_ms"), heads.sweep("timeout", words.__getitem__, runs)


def partly_noted_run(seed: int) -> Scenario:
    """Two writers note positions in one segment each, the second one later: until then a segment has none."""
    draw = Random(f"partly noted {seed}")
    at_ms = sorted(draw.sample(range(2_000, 11_000, 500), 6))
    places = ["0@0", "0@0", "0@0", "1@0", "0@0", "1@0"]
    notes = [
        wm.script.NoteTime(at_ms=at, writer="w1", time=at, position=((place, draw.randrange(1, 50)),))
        for at, place in zip(at_ms, places, strict=True)
    ]
    return Scenario(
        f"partly noted {seed}",
        stream=wm.Stream("orders", segments=2),
        rules=wm.Rules(cut_algorithm=draw.choice(("sound", "document", "pravega"))),
        writers=(wm.EventWriter("w1", rate_per_s=20, noting=noting.Never()),),
        readers=wm.ReaderGroup("readers", readers=1),
        controllers=wm.Controllers(period_ms=1_000),
        script=notes,
        duration_ms=12_000,
        seed=abs(seed),
    )


def struck_cycles_run(seed: int) -> Scenario:
    """Leaders crash or pause in the middle of a cycle, at drawn points; another goes on, and a writer falls silent."""
    draw = Random(f"struck cycles {seed}")
    period_ms = draw.choice((1_000, 2_000))
    points = ("after_marks", "after_log", "before_removal", "before_append", "after_append")
    strikes: list[Any] = []
    for at_ms in (6_000, 16_000, 27_000):
        at, point, controller = at_ms + draw.randrange(0, 4_000, 250), draw.choice(points), draw.choice(CONTROLLERS)
        if draw.random() < 0.5:
            crash = wm.script.CrashController(at_ms=at, controller=controller, point=point, restart_after_ms=2_000)
            strikes.append(crash)
        else:
            for_ms = draw.choice((2_500, 6_000, 9_000))
            strikes.append(wm.script.PauseController(at_ms=at, controller=controller, point=point, for_ms=for_ms))
    strikes.append(wm.script.SilenceWriter(at_ms=draw.randrange(8_000, 35_000, 500), writer="w2"))
    seldom = wm.EventWriter("w2", rate_per_s=20, note_every_ms=draw.choice((1_000, 2_500, 4_000)))
    return Scenario(
        f"struck cycles {seed}",
        stream=wm.Stream("orders", segments=1, timestamp_aggregation_timeout_ms=draw.choice((2_000, 5_000))),
        writers=(wm.EventWriter("w1", rate_per_s=20), seldom),
        readers=wm.ReaderGroup("readers", readers=1),
        controllers=wm.Controllers(2, period_ms=period_ms, session_timeout_ms=4_000),
        script=strikes,
        duration_ms=38_000,
        seed=abs(seed),
    )
