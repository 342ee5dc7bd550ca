"""Adapters for merging: one key, all keys, the queues of one edge, and whole processor instances."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.conformance.fields import Fields, Operations, each
from tests.conformance.hazelcast_steps import Unordered, all_written, item_of, shown, without_answer
from tests.dataflow.model.driving import Edge, Instance
from wmlab.dataflow.model.coalescer import Coalescer, KeyedCoalescer
from wmlab.dataflow.model.items import DONE, IDLE_MESSAGE, MAX, Item, RowValues, Watermark
from wmlab.dataflow.model.processor import Deviations, Processor

ANY_ROW = ()


def one_key(config: Fields, deviations: Deviations) -> Operations:
    """The inputs of one key, and its values in between."""
    coalescer = Coalescer(config.take("queues"))
    return on_inputs(coalescer.step) | {
        "idle_pending": lambda step: is_idle(coalescer),
        "top": lambda step: shown(coalescer.highest),
        "coalesced": lambda step: shown(coalescer.last),
    }


def is_idle(coalescer: Coalescer) -> bool:
    """Whether all inputs that have not ended are idle, and there is one."""
    open_inputs = {index for index, mark in enumerate(coalescer.marks) if mark < MAX}
    return bool(open_inputs) and open_inputs <= coalescer.idle


def all_keys(config: Fields, deviations: Deviations) -> Operations:
    """The inputs of all keys, and which keys there are."""
    coalescer = KeyedCoalescer(config.take("queues"), deviations)

    def put(queue: int, item: Item) -> list[list[Any]]:
        emitted = all_written(coalescer.step(queue, item))
        # Upstream gives the watermarks of several keys in the order of a hash map.
        return emitted if isinstance(item, tuple) else Unordered(emitted)

    return on_inputs(put) | {"keys": lambda step: sorted(coalescer.keys)}


def on_inputs(put: Callable[[int, Item], Any]) -> dict[str, Callable[[Fields], Any]]:
    """What comes on one of several inputs."""
    return {
        "wm": lambda step: put(step.take("queue"), item_of(["wm", step.take("key", 0), step.take("value")])),
        "idle": lambda step: put(step.take("queue"), IDLE_MESSAGE),
        "event": lambda step: put(step.take("queue"), ANY_ROW),
        "done": lambda step: put(step.take("queue"), DONE),
    }


def one_edge(config: Fields, deviations: Deviations) -> Operations:
    """The queues of one edge."""
    guarantee = "exactly_once" if config.take("wait_for_all_barriers") else "at_least_once"
    edge = Edge(config.take("queues"), guarantee=guarantee, deviations=deviations)

    def drain(step: Fields) -> dict[str, Any]:
        progress, out = edge.drain()
        return {"state": progress, "out": all_written(out)}

    return {
        "push": without_answer(lambda step: edge.push(step.take("queue"), *map(item_of, step.take("items")))),
        "sizes": lambda step: edge.sizes,
        "drain": drain,
    }


@dataclass(kw_only=True, eq=False)
class Probe(Processor[int | None]):
    """Emits what it is given as rows; refuses each callback so many times. The state counts the refusals left."""

    edge_refusals: int
    global_refusals: int

    def start(self) -> int | None:
        return None

    def row(self, values: RowValues, edge: int) -> None:
        self.out.append(values)

    def edge_watermark(self, watermark: Watermark, edge: int) -> bool:
        return self.called(self.edge_refusals, ("edge_wm", edge, watermark.key, watermark.value))

    def watermark(self, watermark: Watermark) -> bool:
        return self.called(self.global_refusals, ("global_wm", watermark.key, watermark.value))

    def called(self, refusals: int, log: tuple[Any, ...]) -> bool:
        left = refusals if self.state is None else self.state
        self.state = left - 1 if left else None
        self.out.append((*log, left))
        return not left


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


def tasklet(config: Fields, deviations: Deviations) -> Operations:
    """An instance of the probe, of which the log is compared."""
    instance = instance_of(config, deviations)

    def push(step: Fields) -> None:
        instance.push(step.take("edge"), step.take("queue", 0), *map(item_of, step.take("items")))

    def run(step: Fields) -> list[list[Any]]:
        only_global, log = step.take("only_global", False), all_written(instance.run_all())
        # The merged watermarks alone come without the count of refusals.
        return [entry[:3] for entry in log if entry[0] in ("global_wm", "idle")] if only_global else log

    return {"push": without_answer(push), "run": run}


def instance_of(config: Fields, deviations: Deviations) -> Chunked:
    """Edges by the number of their queues, or edges of one queue with what comes on it."""
    probe = Probe(edge_refusals=config.take("edge_countdown", 0), global_refusals=config.take("global_countdown", 0))
    if "edges_queues" in config:
        return Chunked(config.take("edges_queues"), probe, deviations)
    edges = config.take("edges")
    instance = Chunked([1] * len(edges), probe, deviations)
    for number, fields in enumerate(each(edges, "edge")):
        instance.coming[number] = [item_of(item) for item in fields.take("items")]
        instance.chunks[number] = fields.take("chunk")
    return instance
