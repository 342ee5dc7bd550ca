"""Adapters for single processors: asynchronous calls, late drop, stateful map, windows, joins, and pure functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from tests.conformance.fields import Fields, Operations, UnknownFormatError, accepted, expect, lookup
from tests.conformance.hazelcast_steps import (
    Unordered,
    all_written,
    number,
    run_steps,
    shown,
    watermark_in,
    without_answer,
    written,
)
from tests.dataflow.model.driving import Driven
from wmlab.core.expression import join_time_bounds
from wmlab.dataflow.model.aggregate import Aggregation
from wmlab.dataflow.model.async_map import AsyncOrdered, AsyncUnordered
from wmlab.dataflow.model.items import Item, RowValues, Watermark
from wmlab.dataflow.model.join import LEFT, RIGHT, JoinState, StreamJoin, minimum_spread
from wmlab.dataflow.model.processor import Deviations
from wmlab.dataflow.model.source import sql_frame_ms
from wmlab.dataflow.model.transform import LateDropProcessor, StatefulMapProcessor
from wmlab.dataflow.model.window import SessionProcessor, WindowProcessor, WindowShape

COLUMNS: Final = {f"c{column}": column for column in range(4)}
OUTER_SIDES: Final = {"INNER": None, "LEFT": LEFT, "RIGHT": RIGHT}


def ordered_calls(config: Fields, deviations: Deviations) -> Operations:
    """Answers of calls are let out in order; a watermark waits for the flush."""
    return calls(AsyncOrdered(capacity=config.take("max_ops")), lambda state: not state.queue)


def unordered_calls(config: Fields, deviations: Deviations) -> Operations:
    """Answers of calls are let out as they come."""
    return calls(AsyncUnordered(capacity=config.take("max_ops")), lambda state: not state.in_flight)


def calls(processor: AsyncOrdered | AsyncUnordered, is_empty: Callable[[Any], bool]) -> Operations:
    """Rows, watermarks and the answers of asynchronous calls; what is finished leaves only when it is flushed."""
    driven: Driven[Any] = Driven(processor)

    def offered(method: str, *arguments: Any) -> dict[str, Any]:
        out = driven.offer(method, *arguments)
        return {"accepted": driven.accepted, "out": all_written(out)}

    def flush(step: Fields) -> dict[str, Any]:
        out = offered("flush")["out"]
        return {"drained": is_empty(driven.state), "out": out}

    def complete_future(step: Fields) -> None:
        driven.offer("answered", step.take("future"), tuple((result,) for result in step.take("results")))

    return {
        "item": lambda step: offered("call", (step.take("value"),)),
        "wm": lambda step: offered("put", Watermark(step.take("key"), number(step.take("value")))),
        "flush": flush,
        "complete_future": without_answer(complete_future),
    }


def looks_at(driven: Driven[Any]) -> dict[str, Callable[[Fields], Any]]:
    """The operations that look at any processor."""
    return {
        "dropped": lambda step: len(driven.drops),
        "late": lambda step: len(driven.drops),
        "state_size": lambda step: driven.size,
    }


def late_drop(config: Fields, deviations: Deviations) -> Operations:
    """Times of events and watermarks of several keys."""
    driven = Driven(LateDropProcessor(time=0, key=config.take("key")))
    return looks_at(driven) | {
        "event": lambda step: all_written(driven.offer("row", (number(step.take("ts")),), 0)),
        "wm": lambda step: all_written(driven.offer("watermark", watermark_in(step))),
    }


def grouping(
    driven: Driven[Any], row: str, shown_row: Callable[[RowValues], list[Any]]
) -> dict[str, Callable[[Fields], Any]]:
    """Rows (time, group, value) by an operation of this name, watermarks, and the end; how a row is written."""

    def offered(method: str, *arguments: Any) -> list[list[Any]]:
        items = driven.offer(method, *arguments)
        return [shown_row(item) if isinstance(item, tuple) else written(item) for item in items]

    def values(step: Fields) -> RowValues:
        return number(step.take("ts")), step.take("key"), step.take("value")

    return looks_at(driven) | {
        row: lambda step: offered("row", values(step), 0),
        "wm": lambda step: offered("watermark", watermark_in(step)),
        "complete": lambda step: offered("complete"),
    }


def stateful_map(config: Fields, deviations: Deviations) -> Operations:
    """A running sum per group; a group that is removed says so with a signal."""
    ttl, signal = config.take("ttl") or None, config.take("evict_signal", None)
    driven = Driven(running_sum(ttl, signal, deviations))
    return grouping(driven, "event", lambda row: ["out", shown(row[0]), *row[1:]])


def running_sum(ttl: int | None, signal: Any, deviations: Deviations) -> StatefulMapProcessor:
    def on_row(memory: Any, row: tuple[Any, ...]) -> tuple[Any, list[tuple[Any, ...]]]:
        time, group, value = row
        return memory + value, [(time, group, memory + value)]

    def on_evict(memory: Any, group: tuple[Any, ...], watermark: int) -> list[tuple[Any, ...]]:
        return [(watermark, *group, signal)]

    return StatefulMapProcessor(
        on_row=on_row,
        initial=0,
        time=0,
        group=(1,),
        ttl=ttl,
        on_evict=None if signal is None else on_evict,
        deviations=deviations,
    )


def windows(driven: Driven[Any]) -> dict[str, Callable[[Fields], Any]]:
    """The operations on windows, whose steps may say that the order of the answer does not matter."""

    def result(row: RowValues) -> list[Any]:
        """["win", start, end, key, value], a set as a sorted list."""
        *bounds, value = row
        return ["win", *bounds, sorted(value) if isinstance(value, tuple) else value]

    def answer(operation: Callable[[Fields], Any], step: Fields) -> Any:
        unordered, answer = step.take("unordered", False), operation(step)
        return Unordered(answer) if unordered and isinstance(answer, list) else answer

    return {name: partial(answer, operation) for name, operation in grouping(driven, "add", result).items()}


def sliding_windows(config: Fields, deviations: Deviations) -> Operations:
    """Sliding windows, which may start again with another shape."""
    options: dict[str, Any] = {
        "time": 0,
        "aggregates": (aggregation_of(config.take("agg")),),
        "group": (1,),
        "key": config.take("wm_key", 0),
        "limit": config.take("limit", None),
        "deviations": deviations,
    }
    driven = Driven(WindowProcessor(shape=WindowShape(config.take("window"), config.take("slide")), **options))

    def restore_into(step: Fields) -> None:
        shape = WindowShape(step.take("window"), step.take("slide"))
        vars(driven).update(vars(driven.restarted(WindowProcessor(shape=shape, **options))))

    return windows(driven) | {"restore_into": without_answer(restore_into)}


def sessions(config: Fields, deviations: Deviations) -> Operations:
    """Session windows."""
    aggregates, key, timeout = (aggregation_of(config.take("agg")),), config.take("wm_key", 0), config.take("timeout")
    return windows(Driven(SessionProcessor(timeout=timeout, time=0, aggregates=aggregates, group=(1,), key=key)))


def aggregation_of(name: str) -> Aggregation:
    """The aggregation of the third column of (time, key, value)."""
    if name == "set":
        return Aggregation("list", 2, distinct=True)
    return Aggregation("count") if name == "count" else Aggregation(name, 2)


def join(driven: Driven[JoinState], *, unordered: bool) -> Operations:
    """Rows and watermarks of each side of a join of two streams."""

    def offered(method: str, *arguments: Any) -> list[Any]:
        items: list[Item] = driven.offer(method, *arguments)
        out = [["row", list(item)] if isinstance(item, tuple) else written(item) for item in items]
        return Unordered(out) if unordered else out

    def watermark(step: Fields) -> list[Any]:
        mark = Watermark(step.take("key"), number(step.take("value")))
        return offered("edge_watermark", mark, step.take("side"))

    return looks_at(driven) | {
        "row": lambda step: offered("row", tuple(step.take("row")), step.take("side")),
        "wm": watermark,
        "buffer": lambda step: [[list(row.values) for row in rows] for rows in driven.state.buffers],
        "wm_state": lambda step: {str(key): shown(time) for key, time in driven.state.limits.items()},
    }


def run_join(config: Fields, case: Fields, deviations: Deviations) -> None:
    """The steps of a join; or a configuration that has to be refused."""
    options = join_options(config) | {
        "keys": tuple({int(k): column for k, column in config.take(side).items()} for side in ("left", "right")),
        "widths": (config.take("left_cols"), config.take("right_cols")),
        "output": config.take("emit", "state"),
        "limit": config.take("limit", None),
        "deviations": deviations,
    }
    unordered = case.take("unordered", False)
    if "expect_config_error" in case:
        expect("steps", case.take("steps"), [])
        expect("refused", not accepted(lambda: StreamJoin(**options)), case.take("expect_config_error"))
    else:
        run_steps(case, join(Driven(StreamJoin(**options)), unordered=unordered))


def join_options(config: Fields) -> dict[str, Any]:
    """The options of a join that every configuration of one has."""
    return {
        "outer": lookup("join", config.take("type"), OUTER_SIDES),
        "bounds": bounds_of(config.take("postpone")),
        "condition": condition_of(config.take("cond")),
    }


def condition_of(triples: Iterable[tuple[int, int, int]]) -> Callable[[tuple[Any, ...]], bool]:
    """[a, b, c] says that column a of the joined row is at least column b minus c."""
    listed = [tuple(triple) for triple in triples]
    return lambda row: all(row[a] >= row[b] - c for a, b, c in listed)


def pure_functions(config: Fields, deviations: Deviations) -> Operations:
    """Functions of their arguments alone."""

    def extract_bounds(step: Fields) -> dict[str, dict[str, int]]:
        bounds = join_time_bounds(comparison(step), COLUMNS, {0}, {2})
        return {str(a): {str(b): amount for b, amount in bounded.items()} for a, bounded in bounds.items()}

    def minimum(step: Fields) -> Any:
        width = step.take("left_columns") if "left_columns" in step else step.take("left_cols")
        return minimum_spread(bounds_of(step.take("postpone")), range(width))

    def window_bounds(step: Fields) -> list[list[int]]:
        shape = WindowShape(step.take("size"), step.take("slide"))
        return [list(window) for window in shape.windows_of(number(step.take("ts")))]

    return {
        "extract_bounds": extract_bounds,
        "minimum_spread": minimum,
        "throttle_frame": lambda step: sql_frame_ms(step.take("slides"), step.take("spreads")),
        "window_bounds": window_bounds,
    }


def comparison(step: Fields) -> str:
    """The sides, each [["col", n], ["-col", n], ["const", n], ["-const", n], ...] added up, as an expression."""
    left, right = ("0" + "".join(term(kind, value) for kind, value in terms) for terms in step.take("terms"))
    comparator = step.take("cmp")
    return f"{left} {'==' if comparator == '=' else comparator} {right}"


def term(kind: str, value: int) -> str:
    sign = " - " if kind.startswith("-") else " + "
    match kind.removeprefix("-"):
        case "col":
            return f"{sign}c{value}"
        case "const":
            return f"{sign}({value})"
    raise UnknownFormatError(f"term {kind!r}")


def bounds_of(written: Mapping[str, Mapping[str, int]]) -> dict[int, dict[int, int]]:
    """{"a": {"b": amount}}, as JSON can only name things by texts."""
    return {int(a): {int(b): amount for b, amount in bounded.items()} for a, bounded in written.items()}
