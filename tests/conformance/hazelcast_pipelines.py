"""Adapters for the source side (policies, frames, the mapper of a source), alone and with operators behind it."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.conformance.fields import Fields, Operations, UnknownFormatError, expect, known
from tests.conformance.hazelcast_processors import join_options
from tests.conformance.hazelcast_steps import all_written, in_any_order, number, shown, without_answer
from tests.dataflow.model.driving import Driven, Instance
from wmlab.dataflow.model.aggregate import Aggregation
from wmlab.dataflow.model.items import FrameGrid, Item, Watermark
from wmlab.dataflow.model.join import StreamJoin
from wmlab.dataflow.model.processor import Deviations
from wmlab.dataflow.model.source import EventTimeMapper, FixedLag, LagPolicy, SourceState, sql_frame_ms
from wmlab.dataflow.model.transform import LateDropProcessor
from wmlab.dataflow.model.window import WindowProcessor, WindowShape

INTERLEAVINGS: Final = 40
COMPARED: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class Constant(LagPolicy):
    """A policy that always says the same."""

    mark: int = field(kw_only=True)

    def current(self, state: int | None, now_ms: int) -> int:
        return self.mark


def policy(config: Fields, deviations: Deviations) -> Operations:
    """Events that are reported to a policy, and what it says."""
    lag = FixedLag(config.take("lag"))
    state: int | None = None

    def event(step: Fields) -> None:
        nonlocal state
        state = lag.report(state, number(step.take("ts")))

    return {"event": without_answer(event), "current": lambda step: shown(lag.current(state, now_ms=0))}


def frames(config: Fields, deviations: Deviations) -> Operations:
    """Times of a grid around a time; of how many frames a window consists does not matter to them."""
    grid = FrameGrid(config.take("frame"), config.take("offset"))
    config.take("frames_per_window", None)
    return {
        "floor": lambda step: shown(grid.floor(number(step.take("ts")))),
        "higher": lambda step: shown(grid.higher(number(step.take("ts")))),
    }


def mapper(config: Fields, deviations: Deviations) -> Operations:
    """Events, silence and changes of the partitions of one source."""
    source = mapper_of(config, deviations)
    state: SourceState = source.start()

    def now_ms(step: Fields) -> int:
        return step.take("now_ms", 0)

    def restore(step: Fields) -> None:
        now_ms(step)
        source.restore(state, {step.take("partition"): number(step.take("value"))})

    def event(step: Fields) -> list[Any]:
        time, partition = number(step.take("ts")), step.take("partition")
        items = source.report(state, partition=partition, time=time, now_ms=now_ms(step))
        return all_written((*items, (shown(time),)))

    return {
        "add_partitions": without_answer(lambda step: source.add(state, step.take("count"), now_ms=now_ms(step))),
        "restore": without_answer(restore),
        "idle": lambda step: all_written(source.tick(state, now_ms=now_ms(step))),
        "remove_partition": lambda step: all_written(source.remove(state, step.take("partition"), now_ms=now_ms(step))),
        "event": event,
    }


def mapper_of(config: Fields, deviations: Deviations) -> EventTimeMapper:
    policy: LagPolicy = (
        Constant(mark=number(config.take("const_wm"))) if "const_wm" in config else FixedLag(config.take("lag"))
    )
    return EventTimeMapper(
        policy=policy,
        frames=frames_of(config.take("throttle"), config.take("throttle_offset", 0)),
        idle_timeout_ms=config.take("idle_ms") or None,
        deviations=deviations,
    )


def frames_of(size: int, offset: int = 0) -> FrameGrid | None:
    """The grid of a throttle; size 0 lets no watermark through."""
    return FrameGrid(size, offset) if size else None


def run_source(config: Fields, case: Fields, deviations: Deviations) -> None:
    """The rows of a source of one partition, through a late drop if there is one; its watermarks or its events."""
    rows, view = config.take("rows"), known("view", config.take("view"), ("wms", "events"))
    mapper = EventTimeMapper(
        policy=FixedLag(config.take("lag")), frames=frames_of(config.take("throttle")), deviations=deviations
    )
    items = source_items(mapper, [[time] for time in rows])
    if config.take("drop_late", False):
        items = Instance(1, processor=LateDropProcessor(time=0), deviations=deviations).push(0, 0, *items).run()
    marks = [item.value for item in items if isinstance(item, Watermark)]
    events = [item[0] for item in items if isinstance(item, tuple)]
    expect("view", marks if view == "wms" else events, case.take("expect"))


def source_items(mapper: EventTimeMapper, rows: Iterable[Sequence[Any]], column: int = 0) -> list[Item]:
    """What leaves a source of one partition, whose rows have their time in a column."""
    state = mapper.start(1)
    out: list[Item] = []
    for row in rows:
        out += mapper.report(state, partition=0, time=number(row[column]), now_ms=0)
        out.append(tuple(row))
    return out


def run_window(config: Fields, case: Fields, deviations: Deviations) -> None:
    """A source of one partition, or several alike, with a window behind it; what its watermarks close."""
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
        aggregates=tuple(aggregation_of(part, columns) for part in select if isinstance(part, dict)),
        group=tuple(columns.index(group) for group in groups),
        deviations=deviations,
    )
    instance = Instance(*[1] * copies, processor=window, deviations=deviations)
    for edge in range(copies):
        instance.push(edge, 0, *items)
    rows = [selected(row, select, groups) for row in instance.run() if isinstance(row, tuple)]
    kept = [row for row in rows if having is None or COMPARED[having[1]](row[having[0]], having[2])]
    expect("rows", in_any_order(kept), in_any_order(case.take("expect")))


def aggregation_of(part: Mapping[str, Any], columns: list[str]) -> Aggregation:
    with Fields(part, "aggregation") as fields:
        name = fields.take("col")
        column = None if name is None else columns.index(name)
        return Aggregation(fields.take("fn"), column, fields.take("distinct", False))


def selected(result: tuple[Any, ...], select: list[Any], groups: list[str]) -> list[Any]:
    """The columns of a query from the result (start, end, groups..., aggregates...)."""
    numbers = {name: number for number, name in enumerate(["window_start", "window_end", *groups])}
    aggregates = iter(result[2 + len(groups) :])
    values = []
    for part in select:
        if isinstance(part, str) and part not in numbers:
            raise UnknownFormatError(f"column {part!r}")
        values.append(result[numbers[part]] if isinstance(part, str) else next(aggregates))
    return values


def run_join(config: Fields, case: Fields, deviations: Deviations) -> None:
    """Two sources and a join: every interleaving has to give the same rows."""
    sources = [items_and_columns(source, key, deviations) for key, source in enumerate(config.take("sources"))]
    options = join_options(config) | {
        "keys": ({0: sources[0][1]}, {1: sources[1][1]}),
        "widths": (sources[0][2], sources[1][2]),
        "deviations": deviations,
    }
    items, wanted = [source[0] for source in sources], in_any_order(case.take("expect"))
    for seed in range(INTERLEAVINGS):
        order = [side for side in (0, 1) for _ in items[side]]
        if seed == 1:
            order.reverse()
        elif seed:
            random.Random(seed).shuffle(order)
        expect(f"rows in the order {order}", in_any_order(joined_rows(StreamJoin(**options), items, order)), wanted)


def items_and_columns(source: Mapping[str, Any], key: int, deviations: Deviations) -> tuple[list[Item], int, int]:
    """The items of a source, its time column, and its number of columns."""
    with Fields(source, "source") as fields:
        rows, column = fields.take("rows"), fields.take("time")
        policy, frames = FixedLag(fields.take("lag")), FrameGrid(fields.take("throttle"))
    mapper = EventTimeMapper(policy=policy, frames=frames, key=key, deviations=deviations)
    return source_items(mapper, rows, column), column, len(rows[0])


def joined_rows(join: StreamJoin, items: list[list[Item]], order: list[int]) -> list[list[Any]]:
    driven, queues = Driven(join), [iter(queue) for queue in items]
    rows: list[list[Any]] = []
    for side in order:
        match next(queues[side]):
            case tuple() as row:
                out = driven.offer("row", row, side)
            case Watermark() as watermark:
                out = driven.offer("edge_watermark", watermark, side)
            case item:
                raise UnknownFormatError(f"item {item!r}")
        rows += [list(result) for result in out if isinstance(result, tuple)]
    return rows
