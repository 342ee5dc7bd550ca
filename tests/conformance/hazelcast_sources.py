"""Adapters for the source side: policies, frames, the mapper of a source, and a source with a late drop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.conformance.fields import Fields, UnknownFormatError, expect, known
from tests.conformance.hazelcast_steps import all_written, check, number, operations, shown
from tests.dataflow.model.driving import Instance
from wmlab.dataflow.model.items import Event, FrameGrid, Item, Watermark
from wmlab.dataflow.model.processor import Deviations
from wmlab.dataflow.model.source import EventTimeMapper, FixedLag, LagPolicy, SourceState
from wmlab.dataflow.model.transform import LateDropProcessor


@dataclass(frozen=True, slots=True)
class Constant(LagPolicy):
    """A policy that always says the same."""

    mark: int = field(kw_only=True)

    def current(self, state: int | None, now_ms: int) -> int:
        return self.mark


def run_mapper(case: Fields, deviations: Deviations) -> None:
    """Events, silence and changes of the partitions of one source."""
    with Fields(case.take("config"), "config") as config:
        mapper = mapper_of(config, deviations)
    state: SourceState = mapper.start()
    for op, step in operations(case):
        now = step.take("now_ms", 0)
        match op:
            case "add_partitions":
                state = mapper.add(state, step.take("count"), now_ms=now)
            case "restore":
                state = mapper.restore(state, {step.take("partition"): number(step.take("value"))})
            case "idle":
                state = moved(step, mapper.tick(state, now_ms=now))
            case "remove_partition":
                state = moved(step, mapper.remove(state, step.take("partition"), now_ms=now))
            case "event":
                time = number(step.take("ts"))
                event, partition = Event((shown(time),)), step.take("partition")
                state = moved(step, mapper.event(state, event, partition=partition, time=time, now_ms=now))
            case _:
                raise UnknownFormatError(f"unknown operation {op!r}")


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


def moved(step: Fields, found: tuple[SourceState, tuple[Item, ...]]) -> SourceState:
    state, items = found
    check(step, lambda: all_written(items))
    return state


def run_policy(case: Fields, deviations: Deviations) -> None:
    """Events that are reported to a policy, and what it says."""
    with Fields(case.take("config"), "config") as config:
        policy = FixedLag(config.take("lag"))
    state: int | None = None
    for op, step in operations(case):
        match op:
            case "event":
                state = policy.report(state, number(step.take("ts")))
            case "current":
                check(step, lambda s=state: shown(policy.current(s, now_ms=0)))
            case _:
                raise UnknownFormatError(f"unknown operation {op!r}")


def run_frames(case: Fields, deviations: Deviations) -> None:
    """Times of a grid around a time; of how many frames a window consists does not matter to them."""
    with Fields(case.take("config"), "config") as config:
        frames = FrameGrid(config.take("frame"), config.take("offset"))
        config.take("frames_per_window", None)
    for op, step in operations(case):
        act, time = getattr(frames, known("operation", op, ("floor", "higher"))), number(step.take("ts"))
        check(step, lambda act=act, time=time: shown(act(time)))


def run_pipeline(case: Fields, deviations: Deviations) -> None:
    """The rows of a source of one partition, through a late drop if there is one; its watermarks or its events."""
    with Fields(case.take("config"), "config") as config:
        rows, view = config.take("rows"), known("view", config.take("view"), ("wms", "events"))
        mapper = EventTimeMapper(
            policy=FixedLag(config.take("lag")), frames=frames_of(config.take("throttle")), deviations=deviations
        )
        drops_late = config.take("drop_late", False)
    found = source_items(mapper, [[time] for time in rows])
    if drops_late:
        found = Instance(1, processor=LateDropProcessor(time=0), deviations=deviations).push(0, 0, *found).run()
    marks = [item.value for item in found if isinstance(item, Watermark)]
    events = [item.values[0] for item in found if isinstance(item, Event)]
    expect("view", marks if view == "wms" else events, case.take("expect"))


def source_items(mapper: EventTimeMapper, rows: Iterable[Sequence[Any]], column: int = 0) -> list[Item]:
    """What leaves a source of one partition, whose rows have their time in a column."""
    state, out = mapper.start(1), []
    for row in rows:
        time = number(row[column])
        state, items = mapper.event(state, Event(tuple(row)), partition=0, time=time, now_ms=0)
        out += items
    return out
