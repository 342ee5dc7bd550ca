"""Adapters for processors without windows: asynchronous steps, late drop, stateful map, and pure functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tests.conformance.fields import Fields, UnknownFormatError
from tests.conformance.hazelcast_steps import all_written, check, number, operations, shown
from tests.dataflow.model.driving import Driven
from wmlab.core.expression import join_time_bounds
from wmlab.dataflow.model.async_map import AsyncOrdered, AsyncUnordered
from wmlab.dataflow.model.items import Event, Item, Watermark
from wmlab.dataflow.model.join import minimum_spread
from wmlab.dataflow.model.processor import Complete, Deviations, EdgeRow
from wmlab.dataflow.model.source import sql_frame_ms
from wmlab.dataflow.model.transform import LateDropProcessor, StatefulMapProcessor
from wmlab.dataflow.model.window import WindowShape

PLACES = {f"c{place}": place for place in range(4)}


def check_state(step: Fields, driven: Driven[Any], op: str) -> None:
    """The operations that look at any processor."""
    match op:
        case "dropped" | "late":
            check(step, lambda: len(driven.drops))
        case "state_size":
            check(step, lambda: driven.size)
        case _:
            raise UnknownFormatError(f"unknown operation {op!r}")


def run_async_ordered(case: Fields, deviations: Deviations) -> None:
    """Rows, watermarks and answers, let out in order; a watermark waits for the flush."""
    run_async(case, AsyncOrdered, deviations, lambda state: not state.queue)


def run_async_unordered(case: Fields, deviations: Deviations) -> None:
    """Rows, watermarks and answers, let out as they come."""
    run_async(case, AsyncUnordered, deviations, lambda state: not state.in_flight)


def run_async(case: Fields, kind: Any, deviations: Deviations, is_empty: Callable[[Any], bool]) -> None:
    with Fields(case.take("config"), "config") as config:
        calls = kind(config.take("max_ops"), deviations=deviations)
    state = calls.start()
    for op, step in operations(case):
        match op:
            case "item":
                reply = calls.row(state, 0, Event((step.take("value"),)))
                says = {"accepted": reply.accepted}
            case "wm":
                reply = calls.put(state, Watermark(step.take("key"), number(step.take("value"))))
                says = {"accepted": reply.accepted}
            case "complete_future":
                results = tuple((result,) for result in step.take("results"))
                state = calls.answered(state, step.take("future"), results)
                continue
            case "flush":
                reply = calls.flush(state)
                says = {"drained": is_empty(reply.state)}
            case _:
                raise UnknownFormatError(f"unknown operation {op!r}")
        state = reply.state
        check(step, lambda says=says, reply=reply: says | {"out": all_written(reply.out)})


def run_late_drop(case: Fields, deviations: Deviations) -> None:
    """Times of events and watermarks of several keys."""
    with Fields(case.take("config"), "config") as config:
        driven = Driven(LateDropProcessor(time=0, key=config.take("key")))
    for op, step in operations(case):
        match op:
            case "event":
                row = EdgeRow(0, Event((number(step.take("ts")),)))
                check(step, lambda row=row: all_written(driven.offer(row)))
            case "wm":
                mark = Watermark(step.take("key", 0), number(step.take("value")))
                check(step, lambda mark=mark: all_written(driven.offer(mark)))
            case _:
                check_state(step, driven, op)


def run_stateful_map(case: Fields, deviations: Deviations) -> None:
    """A running sum per group; a group that is removed says so with a signal."""
    with Fields(case.take("config"), "config") as config:
        ttl, signal = config.take("ttl") or None, config.take("evict_signal", None)
    driven = Driven(running_sum(ttl, signal, deviations))
    for op, step in operations(case):
        match op:
            case "event":
                row = EdgeRow(0, Event((number(step.take("ts")), step.take("key"), step.take("value"))))
                check(step, lambda row=row: outs(driven.offer(row)))
            case "wm":
                mark = Watermark(step.take("key", 0), number(step.take("value")))
                check(step, lambda mark=mark: outs(driven.offer(mark)))
            case "complete":
                check(step, lambda: outs(driven.offer(Complete())))
            case _:
                check_state(step, driven, op)


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


def outs(items: Iterable[Item]) -> list[list[Any]]:
    return [
        ["out", shown(item.values[0]), *item.values[1:]] if isinstance(item, Event) else all_written([item])[0]
        for item in items
    ]


def run_pure(case: Fields, deviations: Deviations) -> None:
    """Functions of their arguments alone."""
    with Fields(case.take("config"), "config"):
        pass
    for op, step in operations(case):
        match op:
            case "extract_bounds":
                check(step, lambda s=step: written_bounds(join_time_bounds(comparison(s), PLACES, {0}, {2})))
            case "minimum_spread":
                width = step.take("left_columns") if "left_columns" in step else step.take("left_cols")
                bounds = bounds_of(step.take("postpone"))
                check(step, lambda b=bounds, w=width: minimum_spread(b, range(w)))
            case "throttle_frame":
                frame = sql_frame_ms(step.take("slides"), step.take("spreads"))
                check(step, lambda f=frame: f)
            case "window_bounds":
                shape, time = WindowShape(step.take("size"), step.take("slide")), number(step.take("ts"))
                check(step, lambda s=shape, t=time: [list(window) for window in s.windows_of(t)])
            case _:
                raise UnknownFormatError(f"unknown operation {op!r}")


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


def written_bounds(bounds: Mapping[int, Mapping[int, int]]) -> dict[str, dict[str, int]]:
    return {str(a): {str(b): amount for b, amount in bounded.items()} for a, bounded in bounds.items()}
