"""Adapters for window aggregations: sliding and session windows alone, and a source with a window behind it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from tests.conformance.fields import Fields, UnknownFormatError, expect
from tests.conformance.hazelcast_processors import check_state
from tests.conformance.hazelcast_sources import source_items
from tests.conformance.hazelcast_steps import all_written, check, in_any_order, number, operations
from tests.dataflow.model.driving import Driven, Instance
from wmlab.dataflow.model.aggregate import Aggregation
from wmlab.dataflow.model.items import Event, FrameGrid, Item, Watermark
from wmlab.dataflow.model.processor import Complete, Deviations, EdgeRow
from wmlab.dataflow.model.source import EventTimeMapper, FixedLag, sql_frame_ms
from wmlab.dataflow.model.window import FrameStore, SessionProcessor, WindowProcessor, WindowShape

COMPARED: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def aggregate_of(name: str) -> Aggregation:
    """The aggregation of the third column of (time, key, value)."""
    if name == "set":
        return Aggregation("list", 2, distinct=True)
    return Aggregation("count") if name == "count" else Aggregation(name, 2)


def run_window(case: Fields, deviations: Deviations) -> None:
    """Rows (time, key, value), watermarks, the end, and a restart with another window."""
    with Fields(case.take("config"), "config") as config:
        window = WindowProcessor(
            shape=WindowShape(config.take("window"), config.take("slide")),
            time=0,
            aggregates=(aggregate_of(config.take("agg")),),
            group=(1,),
            key=config.take("wm_key", 0),
            limit=config.take("limit", None),
            deviations=deviations,
        )
    driven: Driven[FrameStore] = Driven(window)
    for op, step in operations(case):
        if op == "restore_into":
            other = replace(window, shape=WindowShape(step.take("window"), step.take("slide")))
            driven = driven.restarted(other)
        else:
            window_step(step, driven, op)


def run_session(case: Fields, deviations: Deviations) -> None:
    """Rows (time, key, value), watermarks, and the end."""
    with Fields(case.take("config"), "config") as config:
        aggregates = (aggregate_of(config.take("agg")),)
        key = config.take("wm_key", 0)
        driven = Driven(
            SessionProcessor(timeout=config.take("timeout"), time=0, aggregates=aggregates, group=(1,), key=key)
        )
    for op, step in operations(case):
        window_step(step, driven, op)


def window_step(step: Fields, driven: Driven[Any], op: str) -> None:
    unordered = step.take("unordered", False)
    match op:
        case "add":
            row = EdgeRow(0, Event((number(step.take("ts")), step.take("key"), step.take("value"))))
            check(step, lambda: wins(driven.offer(row)), unordered=unordered)
        case "wm":
            watermark = Watermark(step.take("key", 0), number(step.take("value")))
            check(step, lambda: wins(driven.offer(watermark)), unordered=unordered)
        case "complete":
            check(step, lambda: wins(driven.offer(Complete())), unordered=unordered)
        case _:
            check_state(step, driven, op)


def wins(items: Iterable[Item]) -> list[list[Any]]:
    """Results as ["win", start, end, key, value], a set as a sorted list."""
    found = []
    for item in items:
        if isinstance(item, Event):
            *bounds, value = item.values
            found.append(["win", *bounds, sorted(value) if isinstance(value, tuple) else value])
        else:
            found += all_written([item])
    return found


def run_pipeline_window(case: Fields, deviations: Deviations) -> None:
    """A source of one partition, or several alike, with a window behind it; what its watermarks close."""
    with Fields(case.take("config"), "config") as config:
        columns: list[str] = config.take("columns")
        shape = WindowShape(config.take("window"), config.take("slide"))
        groups = [column for column in config.take("group_by") if not column.startswith("window_")]
        select, having = config.take("select"), config.take("having", None)
        mapper = EventTimeMapper(
            policy=FixedLag(config.take("lag")), frames=FrameGrid(sql_frame_ms([shape.slide])), deviations=deviations
        )
        items = source_items(mapper, config.take("rows"))
        copies = config.take("union_copies", 1)
    window = WindowProcessor(
        shape=shape,
        time=0,
        aggregates=tuple(aggregated(part, columns) for part in select if isinstance(part, dict)),
        group=tuple(columns.index(group) for group in groups),
        deviations=deviations,
    )
    instance = Instance(*[1] * copies, processor=window, deviations=deviations)
    for edge in range(copies):
        instance.push(edge, 0, *items)
    out = instance.run()
    rows = [selected(event.values, select, groups) for event in out if isinstance(event, Event)]
    kept = [row for row in rows if having is None or COMPARED[having[1]](row[having[0]], having[2])]
    expect("rows", in_any_order(kept), in_any_order(case.take("expect")))


def aggregated(part: Mapping[str, Any], columns: list[str]) -> Aggregation:
    with Fields(part, "aggregation") as fields:
        column = fields.take("col")
        place = None if column is None else columns.index(column)
        return Aggregation(fields.take("fn"), place, fields.take("distinct", False))


def selected(result: tuple[Any, ...], select: list[Any], groups: list[str]) -> list[Any]:
    """The columns of a query from the result (start, end, groups..., aggregates...)."""
    names = {"window_start": 0, "window_end": 1} | {name: 2 + place for place, name in enumerate(groups)}
    aggregates = iter(result[2 + len(groups) :])
    found = []
    for part in select:
        if isinstance(part, str) and part not in names:
            raise UnknownFormatError(f"column {part!r}")
        found.append(result[names[part]] if isinstance(part, str) else next(aggregates))
    return found
