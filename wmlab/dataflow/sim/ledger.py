"""How items and rows are written down."""

from __future__ import annotations

import json
from typing import Any

from wmlab.dataflow.model.items import Barrier, Event, Item, Watermark
from wmlab.dataflow.scenario.plan import Output


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
