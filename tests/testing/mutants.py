"""Machines with one mistake each, made of those of the rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from wmlab.dataflow.model import processor
from wmlab.dataflow.model.coalescer import KeyedCoalescer
from wmlab.progress.model.tracker import ProgressRules, ProgressTracker
from wmlab.strategies.model import flink
from wmlab.strategies.model.bounded import BoundedOutOfOrderness
from wmlab.strategies.model.writers import Minimum, PerWriterMinimum
from wmlab.testing.known_rules import Batches, Coalescer, OfStrategy, Tracker, Valve


class LastTime(OfStrategy):
    """The last event time, not the largest."""

    def step(self, item):
        if item["op"] == "record":
            self.state = self.strategy.start()
        return super().step(item)


class KeepsItsState(OfStrategy):
    def step(self, item):
        if item["op"] == "restart":
            return None
        return super().step(item)


class DeafToTicks(OfStrategy):
    last = None

    def step(self, item):
        self.last = self.last if item["op"] == "tick" else super().step(item)
        return self.last


class Falls(OfStrategy):
    """The least as it is now, which a writer that resumes takes down."""

    def step(self, item):
        super().step(item)
        known = [] if item["op"] == "restart" else [self.state.values[writer] for writer in self.state._active]
        return min(known, default=None)


class IdleForEver(OfStrategy):
    """A writer that was idle once does not count again."""

    def step(self, item):
        if item["op"] == "record" and item["writer"] in self.state.values and item["writer"] not in self.state._active:
            item = {"op": "tick", "now": item["now"]}
        return super().step(item)


class ClockOfEvents(OfStrategy):
    """Idleness by event time."""

    def step(self, item):
        return super().step({**item, "now": item["time"]} if item["op"] == "record" else item)


class Flushes(OfStrategy):
    def __init__(self, strategy):
        super().__init__(strategy)
        self.state = Minimum(strategy.idle_ms, flush=True)

    def step(self, item):
        answer = super().step(item)
        if item["op"] == "restart":
            self.state = Minimum(self.strategy.idle_ms, flush=True)
        return answer


class AnyWatermark(Valve):
    """Watermarks of idle channels wake them."""

    def step(self, item):
        if item["op"] == "watermark" and self.state.inputs[item["channel"]].idle:
            self.state, _ = flink.channel_status(self.state, item["channel"], False)
        return super().step(item)


class AlignedAtOnce(Valve):
    def step(self, item):
        emitted = super().step(item)
        if item["op"] == "active":
            of = self.state.inputs[item["channel"]]
            self.state.inputs[item["channel"]] = of._replace(aligned=True)
        return emitted


class Silent(Valve):
    """It does not say what it leaves out."""

    def step(self, item):
        return [of for of in super().step(item) if of != "IDLE"]


class KeepsItsChannels(Valve):
    def step(self, item):
        if item["op"] == "restart":
            return []
        return super().step(item)


class DoneIsIdle(Coalescer):
    def step(self, item):
        return super().step({**item, "op": "idle"} if item["op"] == "done" else item)


class EventsWakeNobody(Coalescer):
    def step(self, item):
        return [] if item["op"] == "event" else super().step(item)


class OneKey(Coalescer):
    """All keys are one; what does not rise is left out."""

    def step(self, item):
        if item["op"] == "watermark":
            of = self.state.keys.get(0)
            if of is not None and item["time"] <= of.marks[item["input"]]:
                return []
            return [["watermark", item["key"], time] for _, _, time in super().step({**item, "key": 0})]
        return super().step(item)


class Largest(Tracker):
    def step(self, item):
        super().step(item)
        known = [of.local for of in self.state.origins.values() if of.local is not None]
        return max(known) if len(known) == len(self.origins) else None


class NoGaps(Tracker):
    """Every sequence counts when it comes."""

    def step(self, item):
        if item["op"] == "buffer":
            origin = self.state.origins[item["origin"]]
            item = {**item, "sequence": origin.prefix + 1, "chunk": 0, "last": True}
        return super().step(item)


class Late(Batches):
    """Rows are dropped by the watermark that the batch leaves."""

    def step(self, item):
        watermark, _ = super().step(item)
        return [watermark, watermark]


class KeepsItsNodes(Batches):
    def step(self, item):
        return [self.state.watermark, self.state.late] if item["op"] == "restart" else super().step(item)


class EmptyStreamsHold(Batches):
    """A stream without rows in a batch is at 0."""

    def step(self, item):
        if item["op"] == "batch":
            nodes = {node: of if item["times"].get(node) else 0 for node, of in self.state.nodes.items()}
            self.state = self.state._replace(nodes=nodes)
        return super().step(item)


def deviating(name: str) -> Callable[..., Any]:
    """Jet's coalescer with an error of the code that ships."""

    def start(inputs):
        machine = Coalescer(inputs)
        machine.state = KeyedCoalescer(inputs, replace(processor.SOUND, **{name: True}))
        return machine

    return start


def tracking(**rules: Any) -> Callable[..., Any]:
    """A tracker by other rules."""

    def start(origins):
        machine = Tracker(origins)
        machine.state = ProgressTracker(origins, ProgressRules(**rules))
        return machine

    return start


def bounded(kind: Any = OfStrategy, more: int = 0) -> Callable[..., Any]:
    return lambda bound: kind(BoundedOutOfOrderness(bound + more))


def least(kind: Any = OfStrategy, more: int = 0) -> Callable[..., Any]:
    return lambda bound, idle_ms: kind(PerWriterMinimum(bound, None if idle_ms is None else idle_ms + more))


def of_flink(more: int = 0, kind: Any = OfStrategy, **fields: Any) -> Callable[..., Any]:
    def start(bound, idle_ms, interval_ms):
        given = {"idle_ms": None if idle_ms is None else idle_ms + more, "interval_ms": interval_ms} | fields
        return kind(flink.Flink(bound, **given), native=True)

    return start


MUTANTS: Final[list[tuple[str, str, Callable[..., Any]]]] = [
    ("bounded", "one more", bounded(more=1)),
    ("bounded", "the last time", bounded(LastTime)),
    ("bounded", "keeps its state", bounded(KeepsItsState)),
    ("per-writer-minimum", "idle too late", least(more=1)),
    ("per-writer-minimum", "ticks are not seen", least(DeafToTicks)),
    ("per-writer-minimum", "falls", least(Falls)),
    ("per-writer-minimum", "idle for ever", least(IdleForEver)),
    ("per-writer-minimum", "the clock of events", least(ClockOfEvents)),
    ("per-writer-minimum", "flushes", least(Flushes)),
    ("flink-bounded", "idle too late", of_flink(more=1)),
    ("flink-bounded", "ticks are not seen", of_flink(kind=lambda of, native: DeafToTicks(of, native))),
    ("flink-valve", "as 2.3.0", lambda channels: Valve(channels, "flink_2_3_0")),
    ("flink-valve", "half mended", lambda channels: Valve(channels, "flush")),
    ("flink-valve", "any watermark", AnyWatermark),
    ("flink-valve", "aligned at once", AlignedAtOnce),
    ("flink-valve", "silent of idleness", Silent),
    ("flink-valve-2.3.0", "mended", Valve),
    ("jet-coalescer", "an end is idleness", DoneIsIdle),
    ("jet-coalescer", "events wake nobody", EventsWakeNobody),
    ("jet-coalescer", "one key", OneKey),
    ("jet-coalescer", "held back", deviating("highest_held_back")),
    ("jet-coalescer", "wakes one key", deviating("watermark_wakes_one_key")),
    ("jet-coalescer", "an end counts as active", deviating("end_counts_as_active")),
    ("nebula-tracker", "the head", tracking(local="head")),
    ("nebula-tracker", "by the count", tracking(complete="count")),
    ("nebula-tracker", "the largest", Largest),
    ("nebula-tracker", "no gaps", NoGaps),
    ("spark-batches", "late at once", Late),
    ("spark-batches", "keeps its nodes", KeepsItsNodes),
    ("spark-batches", "empty streams hold", EmptyStreamsHold),
]
"""The rule that each claims to be, its mistake, and how it is made."""
