"""Writer marks of many streams, generated; and their replay by the rule alone, note by note."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from random import Random
from typing import Any

import pyarrow as pa

from wmlab.streams.model.history import StreamHistory
from wmlab.streams.model.replay import Configuration, received_of, replayed_watermarks
from wmlab.streams.model.segment import Segment
from wmlab.streams.tables import TABLES

Rows = list[dict[str, Any]]


def notes_of(stream: str, seed: int, *, writers: int = 4, seconds: int = 30) -> tuple[Rows, Rows]:
    """Marks and shutdowns of writers that are silent, fall back, close, and move to successors at half-time."""
    random = Random(seed)
    marks: Rows = []
    shutdowns: Rows = []
    for writer in (f"w{n}" for n in range(writers)):
        silent = random.choice([0, 0, 5, 20])
        from_s = random.randrange(seconds)
        offset = time = 0
        for second in range(1, seconds):
            if from_s <= second < from_s + silent or random.random() < 0.1:
                continue
            at_ms = second * 1_000 + random.randrange(900)
            falls = random.random() < 0.03
            time = at_ms - random.randrange(500) - (9_000 if falls else 0)
            offset += 100 if random.random() > 0.02 else -300
            held = {0: max(0, offset)} if second < seconds // 2 else {2**32 + 1: max(0, offset), 2**32 + 2: None}
            row = {"stream": stream, "writer": writer, "process": writer, "controller": "c", "txn": None}
            row |= {"time": time, "position": held, "noted_ms": at_ms, "received_ms": at_ms, "outcome": "success"}
            marks.append(row)
        if random.random() < 0.3:
            at_ms = random.randrange(seconds * 1_000)
            row = {"stream": stream, "writer": writer, "process": writer, "call": "shut down", "controller": "c"}
            shutdowns.append(row | {"sent_ms": at_ms, "received_ms": at_ms, "outcome": "ok"})
    return marks, shutdowns


def segments_of(stream: str, seconds: int = 30) -> Rows:
    """One segment that is split in two at half-time."""
    rows = [(0, 0, 0, "0..1"), (2**32 + 1, 1, 1, "0..1/2"), (2**32 + 2, 2, 1, "1/2..1")]
    return [
        {"stream": stream, "segment_id": segment, "number": number, "epoch": epoch, "low": 0.0, "high": 1.0}
        | {"keys": keys, "created_ms": epoch * seconds * 500, "sealed_ms": None}
        for segment, number, epoch, keys in rows
    ]


def table(name: str, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """The rows as a table of a recording."""
    listed = [{key: list(v.items()) if isinstance(v, dict) else v for key, v in row.items()} for row in rows]
    return pa.Table.from_pylist(listed, schema=TABLES[name])


def history_of(segments: Rows) -> StreamHistory:
    return StreamHistory.of(Segment.parse(row["segment_id"], row["keys"]) for row in segments)


def replayed(marks: Rows, shutdowns: Rows, history: StreamHistory, config: Configuration) -> list[tuple[Any, ...]]:
    """Emission, bounds, cut and writers of every watermark of one stream."""
    rows = [*marks, *({"time": None, "position": None, **row} for row in shutdowns)]
    received = received_of((row["received_ms"], row["writer"], row["time"], row["position"]) for row in rows)
    until_ms = received[-1].received_ms + 1
    found = replayed_watermarks(received, history, config, created_ms=0, until_ms=until_ms)
    return [(at_ms, w.lower, w.upper, dict(w.cut), dict(w.writers)) for at_ms, w in found]
