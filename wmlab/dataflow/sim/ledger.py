"""Everything that happens in a run of a dataflow, as rows; a row can be completed when more is known."""

from __future__ import annotations

import json
from typing import Any

from wmlab.dataflow.model.items import Barrier, Event, Item, Watermark
from wmlab.dataflow.scenario.plan import Output

Row = dict[str, Any]


class Ledger:
    """The rows of a run, table by table; `execution` is written into each."""

    def __init__(self) -> None:
        self.execution = 1
        self.items: list[Row] = []
        self.tables: dict[str, list[Row]] = {"items": self.items}

    def write(self, table: str, row: Row) -> Row:
        """Add a row to a table, and return it to be completed later."""
        row["execution"] = self.execution
        self.tables.setdefault(table, []).append(row)
        return row

    def put(self, queue: int, sequence: int, now_ms: int, item: Item, text: str | None, time: int | None) -> Row:
        """An item is put on a queue."""
        kind, key, value = described(item)
        row: Row = {
            "execution": self.execution,
            "queue": queue,
            "sequence": sequence,
            "put_ms": now_ms,
            "taken_ms": None,
            "taken": None,
            "kind": kind,
            "key": key,
            "value": value,
            "time": time,
            "row": text,
        }
        self.items.append(row)
        return row


def described(item: Item) -> tuple[str, int | None, int | None]:
    """An item as (kind, key, value)."""
    if isinstance(item, Event):
        return "event", None, None
    if isinstance(item, Watermark):
        return "watermark", item.key, item.value
    if isinstance(item, Barrier):
        return "barrier", None, item.snapshot
    return type(item).__name__.lower(), None, None


class Written:
    """How the rows of one vertex are written down: as JSON, and which of their values is their time."""

    def __init__(self, output: Output) -> None:
        self.columns = output.columns
        self._time = None if output.time is None else output.columns.index(output.time)

    def text(self, values: tuple[Any, ...]) -> str:
        """A row as a JSON object."""
        return _ENCODE(dict(zip(self.columns, values, strict=True)))

    def time(self, values: tuple[Any, ...]) -> int | None:
        """The time of a row; None if it has none."""
        found = None if self._time is None else values[self._time]
        return found if type(found) is int else None


_ENCODE = json.JSONEncoder(ensure_ascii=False, check_circular=False).encode
