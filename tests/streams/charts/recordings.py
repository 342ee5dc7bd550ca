"""A small recording with known answers: a stream that splits, two writers of whom one falls silent, one reader."""

from __future__ import annotations

from typing import Any

from wmlab.streams.recording import StreamRecording

BORN_1 = 2**32


def recording(**tables: list[dict[str, Any]]) -> StreamRecording:
    """The small recording; keyword arguments replace whole tables."""
    return StreamRecording.from_tables(_TABLES | tables, name="small")


def _segment(segment_id: int, low: float, high: float, keys: str, created_ms: int, sealed_ms: int | None) -> Any:
    number, epoch = segment_id % 2**32, segment_id // 2**32
    names = {"stream": "orders", "segment_id": segment_id, "number": number, "epoch": epoch}
    return names | {"low": low, "high": high, "keys": keys, "created_ms": created_ms, "sealed_ms": sealed_ms}


def _event(segment_id: int, offset: int, event_time: int, append_ms: int) -> dict[str, Any]:
    return {
        "stream": "orders",
        "segment_id": segment_id,
        "offset": offset,
        "event_time": event_time,
        "append_ms": append_ms,
        "writer": "w1",
    }


def _mark(writer: str, time: int, received_ms: int, outcome: str = "success") -> dict[str, Any]:
    at = {"noted_ms": received_ms - 5, "received_ms": received_ms, "controller": "c0", "txn": None, "outcome": outcome}
    return {"stream": "orders", "writer": writer, "process": writer, "time": time, "position": {0: 10}} | at


def _cycle(at_ms: int, previous_lower: int | None, lagging: list[str], outcome: str) -> dict[str, Any]:
    writers = {"participating": ["w1"], "lagging": lagging, "removed": []}
    reason = f"waits for {lagging[0]}" if lagging else ""
    at = {"stream": "orders", "controller": "c0", "at_ms": at_ms, "previous_lower": previous_lower}
    return at | writers | {"outcome": outcome, "reason": reason}


def _watermark(seq: int, lower: int, upper: int, cut: dict[int, int], emitted_ms: int) -> dict[str, Any]:
    bounds = {"stream": "orders", "seq": seq, "lower": lower, "upper": upper, "cut": cut}
    return bounds | {
        "writers": {"w1": upper, "w2": lower},
        "controller": "c0",
        "emitted_ms": emitted_ms,
        "revision": 48 * (seq + 1),
    }


def _position(version: int, segment_id: int, offset: int, finished: bool, at_ms: int) -> dict[str, Any]:
    place = {"stream": "orders", "group": "g", "version": version, "reader": "r0", "segment_id": segment_id}
    return place | {"offset": offset, "finished": finished, "at_ms": at_ms}


def _window(at_ms: int, lower: int | None, upper: int | None, reader: str = "r0") -> dict[str, Any]:
    return {"stream": "orders", "group": "g", "reader": reader, "lower": lower, "upper": upper, "at_ms": at_ms}


_TABLES: dict[str, list[dict[str, Any]]] = {
    "segments": [
        _segment(0, 0.0, 1.0, "0..1", 0, 4_000),
        _segment(BORN_1 + 1, 0.0, 0.5, "0..1/2", 3_990, None),
        _segment(BORN_1 + 2, 0.5, 1.0, "1/2..1", 3_990, None),
    ],
    "epochs": [
        {"stream": "orders", "epoch": 0, "kind": "create", "at_ms": 0, "segment_ids": [0]},
        {"stream": "orders", "epoch": 1, "kind": "scale", "at_ms": 4_000, "segment_ids": [BORN_1 + 1, BORN_1 + 2]},
    ],
    "events": [
        _event(0, 10, 900, 1_000),
        _event(0, 20, 1_900, 2_000),
        _event(0, 30, 500, 3_500),
        _event(BORN_1 + 1, 10, 4_900, 5_000),
        _event(BORN_1 + 2, 10, 5_900, 6_000),
    ],
    "writer_marks": [
        *(_mark("w1", at - 100, at) for at in range(1_000, 9_000, 1_000)),
        *(_mark("w2", at - 200, at) for at in range(1_000, 4_000, 1_000)),
        _mark("w2", 100, 4_000, "time went back"),
    ],
    "cycles": [
        _cycle(2_500, None, [], "emitted"),
        _cycle(5_000, 800, [], "emitted"),
        _cycle(7_000, 2_800, ["w2"], "held"),
        _cycle(8_000, 2_800, ["w2"], "held"),
    ],
    "watermarks": [
        _watermark(0, 800, 900, {0: 10}, 2_500),
        _watermark(1, 2_800, 3_900, {BORN_1 + 1: 0, BORN_1 + 2: 0}, 5_000),
    ],
    "positions": [
        _position(1, 0, 20, False, 2_600),
        _position(2, 0, 30, True, 5_500),
        _position(2, BORN_1 + 1, 10, False, 5_500),
        _position(2, BORN_1 + 2, 0, False, 5_500),
        _position(3, BORN_1 + 2, 10, False, 6_500),
    ],
    "windows": [_window(2_600, 800, None), _window(5_500, 2_800, 3_900), _window(6_500, 2_800, 3_900)],
    "incidents": [
        {"stream": "orders", "at_ms": 3_200, "kind": "crash", "target": "w2", "detail": "w2 crashes"},
        {"stream": "orders", "at_ms": 4_000, "kind": "scale", "target": "0@0", "detail": "0@0 → 1@1, 2@1"},
    ],
    "ownership": [
        {"bucket": 0, "controller": "c0", "streams": ["orders"], "from_ms": 0, "to_ms": 3_000},
        {"bucket": 0, "controller": "c1", "streams": ["orders"], "from_ms": 4_500, "to_ms": None},
        {"bucket": 1, "controller": "c1", "streams": [], "from_ms": 0, "to_ms": None},
    ],
}
