"""Adapters for stream-to-stream joins: alone, and behind two sources in many interleavings."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from tests.conformance.fields import Fields, UnknownFormatError, expect, known
from tests.conformance.hazelcast_processors import bounds_of, check_state
from tests.conformance.hazelcast_sources import source_items
from tests.conformance.hazelcast_steps import all_written, check, in_any_order, number, operations, shown
from tests.dataflow.model.driving import Driven
from wmlab.core.errors import ModelError
from wmlab.dataflow.model.items import Event, FrameGrid, Item, Watermark
from wmlab.dataflow.model.join import LEFT, RIGHT, JoinState, StreamJoin
from wmlab.dataflow.model.processor import Deviations, EdgeRow, EdgeWatermark
from wmlab.dataflow.model.source import EventTimeMapper, FixedLag

TYPES: Final = {"INNER": None, "LEFT": LEFT, "RIGHT": RIGHT}
INTERLEAVINGS: Final = 40


def run_join(case: Fields, deviations: Deviations) -> None:
    """Rows and watermarks of each side; or a configuration that has to be refused."""
    unordered = case.take("unordered", False)
    if "expect_config_error" in case:
        expect("steps", case.take("steps"), [])
        found = None
        try:
            join_of(case.take("config"), deviations)
        except ModelError as error:
            found = error
        expect("configuration refused", found is not None, case.take("expect_config_error"))
        return
    driven = Driven(join_of(case.take("config"), deviations))
    for op, step in operations(case):
        join_step(step, driven, op, unordered=unordered)


def join_of(written: Mapping[str, Any], deviations: Deviations) -> StreamJoin:
    with Fields(written, "config") as config:
        taken = {
            "outer": outer_of(config.take("type")),
            "keys": (keys_of(config.take("left")), keys_of(config.take("right"))),
            "widths": (config.take("left_cols"), config.take("right_cols")),
            "bounds": bounds_of(config.take("postpone")),
            "condition": condition_of(config.take("cond")),
            "output": config.take("emit", "state"),
            "limit": config.take("limit", None),
        }
    return StreamJoin(**taken, deviations=deviations)


def outer_of(written: str) -> int | None:
    return TYPES[known("join", written, TYPES)]


def keys_of(written: Mapping[str, int]) -> dict[int, int]:
    return {int(key): column for key, column in written.items()}


def condition_of(triples: Iterable[tuple[int, int, int]]) -> Callable[[tuple[Any, ...]], bool]:
    """[a, b, c] says that column a of the joined row is at least column b minus c."""
    listed = [tuple(triple) for triple in triples]
    return lambda row: all(row[a] >= row[b] - c for a, b, c in listed)


def join_step(step: Fields, driven: Driven[JoinState], op: str, *, unordered: bool) -> None:
    match op:
        case "row":
            row = EdgeRow(step.take("side"), Event(tuple(step.take("row"))))
            check(step, lambda: joined(driven.offer(row)), unordered=unordered)
        case "wm":
            watermark = Watermark(step.take("key"), number(step.take("value")))
            stimulus = EdgeWatermark(step.take("side"), watermark)
            check(step, lambda: joined(driven.offer(stimulus)), unordered=unordered)
        case "buffer":
            check(step, lambda: [[list(row.values) for row in rows] for rows in driven.state.buffers])
        case "wm_state":
            check(step, lambda: {str(key): shown(time) for key, time in driven.state.limits.items()})
        case _:
            check_state(step, driven, op)


def joined(items: Iterable[Item]) -> list[list[Any]]:
    return [["row", list(i.values)] if isinstance(i, Event) else all_written([i])[0] for i in items]


def run_pipeline_join(case: Fields, deviations: Deviations) -> None:
    """Two sources and a join: every interleaving has to give the same rows."""
    with Fields(case.take("config"), "config") as config:
        sources = [source_items_of(written, key, deviations) for key, written in enumerate(config.take("sources"))]
        join = StreamJoin(
            outer=outer_of(config.take("type")),
            keys=({0: sources[0][0]}, {1: sources[1][0]}),
            widths=(sources[0][1], sources[1][1]),
            bounds=bounds_of(config.take("postpone")),
            condition=condition_of(config.take("cond")),
            deviations=deviations,
        )
    wanted = in_any_order(case.take("expect"))
    for seed in range(INTERLEAVINGS):
        order = [side for side in (0, 1) for _ in sources[side][2]]
        if seed == 1:
            order.reverse()
        elif seed:
            random.Random(seed).shuffle(order)
        expect(f"rows in the order {order}", in_any_order(rows_of(join, [s[2] for s in sources], order)), wanted)


def source_items_of(written: Mapping[str, Any], key: int, deviations: Deviations) -> tuple[int, int, list[Item]]:
    """The time column of a source, its number of columns, and its items."""
    with Fields(written, "source") as fields:
        rows, column = fields.take("rows"), fields.take("time")
        policy, frames = FixedLag(fields.take("lag")), FrameGrid(fields.take("throttle"))
    mapper = EventTimeMapper(policy=policy, frames=frames, key=key, deviations=deviations)
    return column, len(rows[0]), source_items(mapper, rows, column)


def rows_of(join: StreamJoin, items: list[list[Item]], order: list[int]) -> list[list[Any]]:
    driven, queues = Driven(join), [iter(one) for one in items]
    found: list[list[Any]] = []
    for side in order:
        match next(queues[side]):
            case Event() as event:
                out = driven.offer(EdgeRow(side, event))
            case Watermark() as watermark:
                out = driven.offer(EdgeWatermark(side, watermark))
            case item:
                raise UnknownFormatError(f"item {item!r}")
        found += [list(result.values) for result in out if isinstance(result, Event)]
    return found
