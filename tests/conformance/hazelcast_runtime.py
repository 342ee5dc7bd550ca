"""Adapter for whole processor instances: a processor that writes down everything it is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.conformance.fields import Fields, UnknownFormatError
from tests.conformance.hazelcast_steps import all_written, check, item_of, steps_of
from wmlab.dataflow.model.deviations import Deviations
from wmlab.dataflow.model.items import DONE, IDLE, Event, Item
from wmlab.dataflow.model.processor import EdgeWatermark, GlobalWatermark, InputIdle, Reply, Row, Stimulus
from wmlab.dataflow.model.tasklet import InputEdge, Tasklet


@dataclass(frozen=True, slots=True)
class Probe:
    """Emits what it is given as events; refuses each callback so many times. The state counts the refusals left."""

    edge_refusals: int
    global_refusals: int

    def start(self) -> int | None:
        return None

    def step(self, state: int | None, stimulus: Stimulus) -> Reply[int | None]:
        match stimulus:
            case Row(event=event):
                return Reply(state, (event,))
            case EdgeWatermark(edge, mark):
                return self.called(state, self.edge_refusals, ("edge_wm", edge, mark.key, mark.value))
            case GlobalWatermark(mark):
                return self.called(state, self.global_refusals, ("global_wm", mark.key, mark.value))
            case InputIdle():
                return Reply(state, (IDLE,))
        return Reply(state)

    def called(self, state: int | None, refusals: int, log: tuple[Any, ...]) -> Reply[int | None]:
        left = refusals if state is None else state
        return Reply(left - 1 if left else None, (Event((*log, left)),), accepted=not left)

    def size(self, state: int | None) -> int:
        return 0

    def may_snapshot(self, state: int | None) -> bool:
        return True

    def restore(self, snapshots: Sequence[int | None]) -> int | None:
        return None


class Instance:
    """A probe with its inputs; on an edge with a chunk size, items come so many at a time."""

    def __init__(self, queues: Sequence[int], probe: Probe, deviations: Deviations) -> None:
        self.runtime = Tasklet(
            processor=probe, edges=tuple(InputEdge(count) for count in queues), deviations=deviations
        )
        self.state = self.runtime.start()
        self.coming: dict[int, list[Item]] = {}
        self.chunks: dict[int, int] = {}

    def push(self, edge: int, queue: int, items: Sequence[Any]) -> None:
        self.state = self.runtime.push(self.state, edge=edge, queue=queue, items=map(item_of, items))

    def run(self) -> list[Item]:
        """Go on until nothing happens any more; what left, without the end."""
        found: list[Item] = []
        while True:
            turn = self.runtime.step(self.state)
            self.state = turn.state
            found += (item for item in turn.out if item != DONE)
            if not turn.progress and not self.more():
                return found

    def more(self) -> bool:
        """Let the next chunk come on every edge that has one."""
        left = {edge: items for edge, items in self.coming.items() if items}
        for edge, items in left.items():
            chunk, self.coming[edge] = items[: self.chunks[edge]], items[self.chunks[edge] :]
            self.state = self.runtime.push(self.state, edge=edge, queue=0, items=chunk)
        return bool(left)


def run_tasklet(case: Fields, deviations: Deviations) -> None:
    """push and run of an instance; the log is compared."""
    with Fields(case.take("config"), "config") as config:
        instance = instance_of(config, deviations)
    for step in steps_of(case):
        with step:
            match step.take("op"):
                case "push":
                    instance.push(step.take("edge"), step.take("queue", 0), step.take("items"))
                case "run":
                    only_global = step.take("only_global", False)
                    check(step, lambda only=only_global: log_of(instance.run(), only_global=only))
                case op:
                    raise UnknownFormatError(f"unknown operation {op!r}")


def instance_of(config: Fields, deviations: Deviations) -> Instance:
    """Edges by the number of their queues, or edges of one queue with what comes on it."""
    probe = Probe(config.take("edge_countdown", 0), config.take("global_countdown", 0))
    if "edges_queues" in config:
        return Instance(config.take("edges_queues"), probe, deviations)
    edges = config.take("edges")
    instance = Instance([1] * len(edges), probe, deviations)
    for place, edge in enumerate(edges):
        with Fields(edge, f"edge {place}") as fields:
            instance.coming[place] = [item_of(item) for item in fields.take("items")]
            instance.chunks[place] = fields.take("chunk")
    return instance


def log_of(out: Sequence[Item], *, only_global: bool) -> list[list[Any]]:
    """What the probe was given; the merged watermarks without the count of refusals, if only these are asked for."""
    log = all_written(out)
    if not only_global:
        return log
    return [entry[:3] for entry in log if entry[0] in ("global_wm", "idle")]
