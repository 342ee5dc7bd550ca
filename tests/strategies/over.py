"""Logs as traces for the tests of what is measured over a log, and a watermark for each key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from wmlab.core.traces import TRACE_SCHEMA, Trace
from wmlab.strategies.model.strategy import UNKNOWN, Input, Record, Strategy, Tick


def trace(records: Sequence[Record]) -> Trace:
    """The records, in order of arrival, as a trace."""
    return Trace("log", pa.table([list(column) for column in zip(*records, strict=True)], TRACE_SCHEMA))


@dataclass(frozen=True, slots=True)
class EachKey(Strategy[dict[str, int]]):
    """The largest event time of each key."""

    keyed: ClassVar[bool] = True

    def start(self) -> dict[str, int]:
        return {}

    def step(self, state: dict[str, int], given: Input) -> tuple[dict[str, int], int, Any]:
        if not isinstance(given, Record):
            return state, min(state.values(), default=UNKNOWN), None
        state[given.key] = max(state.get(given.key, UNKNOWN), given.event_time)
        return state, state[given.key], None

    def met(self, state: dict[str, int], x: int, record: Record) -> int:
        return state.get(record.key, UNKNOWN)


@dataclass(frozen=True, slots=True)
class Clock(Strategy[None]):
    """The wall clock less `behind_ms`, as the ticks give it."""

    behind_ms: int = 0

    def start(self) -> None:
        return None

    def step(self, state: None, given: Input) -> tuple[None, int, Any]:
        now = given.now_ms if isinstance(given, Tick) else given.arrival_ms if isinstance(given, Record) else 0
        return None, now - self.behind_ms, None
