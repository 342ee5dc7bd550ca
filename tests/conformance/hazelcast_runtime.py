"""Adapter for whole processor instances: a processor that writes down everything it is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.conformance.fields import Fields, UnknownFormatError
from tests.conformance.hazelcast_steps import all_written, check, item_of, operations
from tests.dataflow.model.driving import Instance
from wmlab.dataflow.model.items import DONE, Event, Item, Watermark
from wmlab.dataflow.model.processor import Deviations, EdgeWatermark, Processor, Reply, Stimulus


@dataclass(frozen=True, slots=True)
class Probe(Processor[int | None]):
    """Emits what it is given as events; refuses each callback so many times. The state counts the refusals left."""

    edge_refusals: int
    global_refusals: int

    def start(self) -> int | None:
        return None

    def row(self, state: int | None, edge: int, event: Event) -> Reply[int | None]:
        return Reply(state, (event,))

    def step(self, state: int | None, stimulus: Stimulus) -> Reply[int | None]:
        match stimulus:
            case EdgeWatermark(edge, mark):
                return self.called(state, self.edge_refusals, ("edge_wm", edge, mark.key, mark.value))
            case Watermark(key, value):
                return self.called(state, self.global_refusals, ("global_wm", key, value))
        return Processor.step(self, state, stimulus)

    def called(self, state: int | None, refusals: int, log: tuple[Any, ...]) -> Reply[int | None]:
        left = refusals if state is None else state
        return Reply(left - 1 if left else None, (Event((*log, left)),), accepted=not left)


class Chunked(Instance):
    """On an edge with a chunk size, items come so many at a time."""

    def __init__(self, queues: Sequence[int], probe: Probe, deviations: Deviations) -> None:
        super().__init__(*queues, processor=probe, deviations=deviations)
        self.coming: dict[int, list[Item]] = {}
        self.chunks: dict[int, int] = {}

    def run_all(self) -> list[Item]:
        """Go on until nothing happens any more; what left, without the end."""
        out = self.run()
        while left := {edge: items for edge, items in self.coming.items() if items}:
            for edge, items in left.items():
                self.push(edge, 0, *items[: self.chunks[edge]])
                self.coming[edge] = items[self.chunks[edge] :]
            out += self.run()
        return [item for item in out if item != DONE]


def run_tasklet(case: Fields, deviations: Deviations) -> None:
    """push and run of an instance; the log is compared."""
    with Fields(case.take("config"), "config") as config:
        instance = instance_of(config, deviations)
    for op, step in operations(case):
        match op:
            case "push":
                instance.push(step.take("edge"), step.take("queue", 0), *map(item_of, step.take("items")))
            case "run":
                only_global = step.take("only_global", False)
                check(step, lambda only=only_global: log_of(instance.run_all(), only_global=only))
            case _:
                raise UnknownFormatError(f"unknown operation {op!r}")


def instance_of(config: Fields, deviations: Deviations) -> Chunked:
    """Edges by the number of their queues, or edges of one queue with what comes on it."""
    probe = Probe(config.take("edge_countdown", 0), config.take("global_countdown", 0))
    if "edges_queues" in config:
        return Chunked(config.take("edges_queues"), probe, deviations)
    edges = config.take("edges")
    instance = Chunked([1] * len(edges), probe, deviations)
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
