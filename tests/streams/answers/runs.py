"""Recordings for the tests of the answers: a run with a crash, and small ones written by hand."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from wmlab.core.recording import Recording
from wmlab.streams.answers.history import CLOCKS
from wmlab.streams.api import Scenario
from wmlab.streams.recording import StreamRecording
from wmlab.streams.scenario import script
from wmlab.streams.scenario.parts import Controllers, EventWriter, ReaderGroup, Stream
from wmlab.streams.tables import TABLES


def crash(**fields: Any) -> Recording:
    """A split at 20 s; w2 crashes at 30 s, times out, and comes back at 55 s."""
    given: dict[str, Any] = {
        "stream": Stream("orders", segments=2, timestamp_aggregation_timeout_ms=10_000),
        "writers": [EventWriter("w1", rate_per_s=200, delay_mean_ms=300), EventWriter("w2", rate_per_s=50)],
        "readers": ReaderGroup(readers=2),
        "controllers": Controllers(period_ms=1_000),
        "script": [
            script.Scale(at_ms=20_000, seal=["0@0"]),
            script.CrashWriter(at_ms=30_000, writer="w2", restart_after_ms=25_000),
        ],
        "duration_ms": 60_000,
        "seed": 7,
    }
    return Scenario("a crash", **(given | fields)).record(progress=False)


def until(recording: Recording, at_ms: int) -> Recording:
    """What a recording would hold if it had been stopped right after `at_ms`."""
    rows = {name: recording.table(name).to_pylist() for name in CLOCKS}
    kept = {name: [entry for entry in of if entry[CLOCKS[name]] <= at_ms] for name, of in rows.items()}
    return StreamRecording.from_tables(kept, name=recording.name)


def row(table: str, **columns: Any) -> dict[str, Any]:
    """A row of the stream "orders"; a column that is not given is null, or empty if it must have a value."""
    given: dict[str, Any] = {"stream": "orders"} | columns
    return {field.name: given.pop(field.name, _empty(field)) for field in TABLES[table]} | given


def _empty(field: pa.Field) -> Any:
    if field.nullable:
        return None
    return 0 if pa.types.is_integer(field.type) else "" if pa.types.is_string(field.type) else []


def mark(writer: str, time: int, at_ms: int, outcome: str = "success") -> dict[str, Any]:
    times = {"time": time, "noted_ms": at_ms - 5, "received_ms": at_ms}
    return row(
        "writer_marks", writer=writer, process=writer, **times, position={0: 100}, controller="c1", outcome=outcome
    )


def cycle(at_ms: int, previous_lower: int | None, *, controller: str = "c1", **columns: Any) -> dict[str, Any]:
    since_ms = dict.fromkeys(columns.get("lagging", ()), at_ms)
    plan = {"timeout_ms": 10_000, "behind_since_ms": since_ms}
    given = {"outcome": "held"} | plan | columns
    return row("cycles", at_ms=at_ms, previous_lower=previous_lower, controller=controller, **given)


def watermark(seq: int, at_ms: int, **times: int) -> dict[str, Any]:
    return row(
        "watermarks",
        seq=seq,
        lower=min(times.values()),
        upper=max(times.values()),
        cut={0: 100 * (seq + 1)},
        writers=times,
        controller="c1",
        emitted_ms=at_ms,
        revision=32 * (seq + 1),
    )


def fault(kind: str, target: str, at_ms: int, detail: str = "", **columns: Any) -> dict[str, Any]:
    given = {"subject": "writer", "outcome": "done"} | columns
    return row("incidents", at_ms=at_ms, kind=kind, target=target, detail=detail, **given)


def segment(number: int = 0, epoch: int = 0, keys: str = "0..1") -> dict[str, Any]:
    identifier = (epoch << 32) + number
    return row("segments", segment_id=identifier, number=number, epoch=epoch, low=0.0, high=1.0, keys=keys)


def position(offset: int, version: int, at_ms: int, reader: str | None = "r-0", segment_id: int = 0) -> dict[str, Any]:
    given = {"offset": offset, "version": version, "at_ms": at_ms, "segment_id": segment_id}
    return row("positions", group="r", reader=reader, finished=False, **given)


def window(lower: int | None, at_ms: int, reader: str = "r-0") -> dict[str, Any]:
    return row("windows", group="r", reader=reader, lower=lower, at_ms=at_ms)


def owned(bucket: int, controller: str, from_ms: int, to_ms: int | None, *streams: str) -> dict[str, Any]:
    return {"bucket": bucket, "controller": controller, "streams": streams, "from_ms": from_ms, "to_ms": to_ms}


def written(**tables: list[dict[str, Any]]) -> Recording:
    """A recording of these rows, of a stream with one segment."""
    return StreamRecording.from_tables({"segments": [segment()]} | tables, name="by hand")
