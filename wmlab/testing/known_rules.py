"""The rules that code can be compared with, as machines over plain values: dicts go in, answers of JSON come out.

Every step is a dict with the operation under "op". `restart` starts again, as after a failure: generators, valves,
coalescers and trackers keep nothing, and a query of Spark its watermark. Unknown is null.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Protocol

from wmlab.core.errors import ModelError
from wmlab.core.words import shown
from wmlab.dataflow.model.coalescer import KeyedCoalescer
from wmlab.dataflow.model.items import DONE, IDLE_MESSAGE, Item, Watermark
from wmlab.progress.model.numbers import TupleBuffer
from wmlab.progress.model.tracker import ProgressTracker
from wmlab.strategies.model import flink, spark
from wmlab.strategies.model.bounded import BoundedOutOfOrderness
from wmlab.strategies.model.strategy import UNKNOWN, Record, Strategy, Tick
from wmlab.strategies.model.writers import PerWriterMinimum

Step = Mapping[str, Any]
"""One step: its operation under "op", and what that takes."""
Answer = Any
"""What a machine says after a step: null, numbers, texts, and lists of these."""


class Machine(Protocol):
    """An implementation to compare: it takes the steps of one history, in order, and answers each."""

    def step(self, item: Step) -> Answer:
        """The answer to one step."""


@dataclass(frozen=True, slots=True)
class History:
    """The parameters of a rule, and the steps for a machine with these parameters."""

    parameters: Mapping[str, Any]
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule by its name: what it answers, the parameters and steps that it takes, and a machine of it."""

    name: str
    answers: str
    parameters: str
    steps: str
    start: Callable[..., Machine] = field(repr=False)


@dataclass(slots=True)
class _OfState:
    """Base of the machines with a state, which a restart begins again; `restarted` is the answer to that."""

    state: Any = field(init=False)
    restarted: ClassVar[Answer] = None

    def __post_init__(self) -> None:
        self.state = self._begin()

    def step(self, item: Step) -> Answer:
        """The answer to one step."""
        if item["op"] != "restart":
            return self._answer(item)
        self.state = self._begin()
        return self.restarted

    def _begin(self) -> Any:
        raise NotImplementedError

    def _answer(self, item: Step) -> Answer:
        raise NotImplementedError


@dataclass(slots=True)
class OfStrategy(_OfState):
    """X of a strategy, or its native watermark, after each record and tick; None before anything is known."""

    strategy: Strategy[Any]
    native: bool = False

    def _begin(self) -> Any:
        return self.strategy.start()

    def _answer(self, item: Step) -> Answer:
        of = Record(item["time"], item["now"], item["writer"]) if item["op"] == "record" else Tick(item["now"])
        self.state, x, native = self.strategy.step(self.state, of)
        watermark = native if self.native else x
        return None if watermark == UNKNOWN else watermark


@dataclass(slots=True)
class Valve(_OfState):
    """What goes downstream of the valve of a task of Flink over its channels."""

    channels: int
    rule: flink.ValveRule = "fixed"
    restarted: ClassVar[Answer] = []

    def _begin(self) -> flink.Combined:
        return flink.initially_combined(range(self.channels))

    def _answer(self, item: Step) -> Answer:
        if item["op"] == "watermark":
            self.state, emitted = flink.channel_watermark(self.state, item["channel"], item["time"])
        else:
            self.state, emitted = flink.channel_status(self.state, item["channel"], item["op"] == "idle", self.rule)
        return list(emitted)


@dataclass(slots=True)
class Coalescer(_OfState):
    """What Jet's coalescing emits over its inputs, watermarks as ["watermark", key, time] before ["idle"]."""

    inputs: int
    restarted: ClassVar[Answer] = []

    def _begin(self) -> KeyedCoalescer:
        return KeyedCoalescer(self.inputs)

    def _answer(self, item: Step) -> Answer:
        of: Item = Watermark(item["key"], item["time"]) if item["op"] == "watermark" else _ITEMS[item["op"]]
        emitted = self.state.step(item["input"], of)
        return [["watermark", of.key, of.value] if isinstance(of, Watermark) else ["idle"] for of in emitted]


_ITEMS: Final[Mapping[str, Item]] = {"event": (), "idle": IDLE_MESSAGE, "done": DONE}


@dataclass(slots=True)
class Tracker(_OfState):
    """The global watermark of NebulaStream over origins whose buffers come in any order."""

    origins: list[int]

    def _begin(self) -> ProgressTracker:
        return ProgressTracker(self.origins)

    def _answer(self, item: Step) -> Answer:
        self.state.step(TupleBuffer(*(item[name] for name in ("origin", "sequence", "chunk", "last", "time"))))
        return self.state.watermark


@dataclass(slots=True)
class Batches(_OfState):
    """The watermark of a query of Spark, which removes state, and that by which the batch just ended dropped rows."""

    delays: Mapping[Hashable, int]
    policy: spark.WatermarkPolicy

    def _begin(self) -> spark.QueryWatermarks:
        return spark.watermarks(self.delays)

    def step(self, item: Step) -> Answer:
        """Both, also after a restart, which keeps the watermark."""
        if item["op"] == "restart":
            self.state = spark.after_restart(self.state)
        else:
            largest: dict[Hashable, int] = {node: max(times) for node, times in item["times"].items() if times}
            self.state = spark.after_batch(self.state, largest, self.delays, self.policy)
        return [self.state.watermark, self.state.late]


_RECORDS: Final = (
    '{"op": "record", "time": event time, "now": arrival, "writer": name}, {"op": "tick", "now": time}, '
    '{"op": "restart"}; "now" never goes back'
)
_CHANNELS: Final = (
    '{"op": "watermark", "channel": from 0, "time": time}, {"op": "idle", "channel": from 0}, '
    '{"op": "active", "channel": from 0}, {"op": "restart"}'
)
_EMITTED: Final = 'what goes downstream: a list of watermarks, "IDLE" and "ACTIVE"'
_RULES: Final = (
    Rule(
        "bounded",
        "X, the largest event time less the bound: no record before X is to come; null before the first record",
        "bound",
        _RECORDS,
        lambda bound: OfStrategy(BoundedOutOfOrderness(bound)),
    ),
    Rule(
        "per-writer-minimum",
        "X, the least over the writers that are not idle of the largest event time less the bound, which never falls; "
        "a writer is idle if its last record is more than idle_ms ago (null: never); X stays while all are idle",
        "bound, idle_ms",
        _RECORDS,
        lambda bound, idle_ms: OfStrategy(PerWriterMinimum(bound, idle_ms)),
    ),
    Rule(
        "flink-bounded",
        "the inclusive watermark of a source of Flink whose splits are the writers, with forBoundedOutOfOrderness and "
        "withIdleness (null: without), probed at every multiple of interval_ms that the clock has come to before the "
        "step; null before the first",
        "bound, idle_ms, interval_ms",
        _RECORDS,
        lambda bound, idle_ms, interval_ms: OfStrategy(flink.Flink(bound, idle_ms, interval_ms), native=True),
    ),
    Rule("flink-valve", f"{_EMITTED}; without FLINK-40475", "channels", _CHANNELS, Valve),
    Rule(
        "flink-valve-2.3.0",
        f"{_EMITTED}; as Flink 2.3.0 does, with FLINK-40475",
        "channels",
        _CHANNELS,
        lambda channels: Valve(channels, "flink_2_3_0"),
    ),
    Rule(
        "jet-coalescer",
        'what is emitted: a list of ["watermark", key, time], by ascending key, and ["idle"]',
        "inputs",
        '{"op": "watermark", "input": from 0, "key": number, "time": time}, {"op": "event", "input": from 0}, '
        '{"op": "idle", "input": from 0}, {"op": "done", "input": from 0}, {"op": "restart"}; the watermarks of a key '
        "rise on each input, and nothing comes after the end",
        Coalescer,
    ),
    Rule(
        "nebula-tracker",
        "the global watermark, the least over the origins of the largest time of their consecutive sequences; null "
        "while one has none; a buffer that repeats a chunk, or contradicts what came, changes nothing",
        "origins",
        '{"op": "buffer", "origin": id, "sequence": from 1, "chunk": from 0, "last": whether it is the last chunk of '
        'its sequence, "time": watermark}, {"op": "restart"}',
        Tracker,
    ),
    Rule(
        "spark-batches",
        "two numbers: the watermark after the batch, and the one by which that batch dropped rows; both begin at 0",
        "delays (by stream), policy (min or max)",
        '{"op": "batch", "times": the event times by stream}, {"op": "restart"}, after which a query has its '
        "watermarks, and its streams begin at 0",
        Batches,
    ),
)
RULES: Final[Mapping[str, Rule]] = {rule.name: rule for rule in _RULES}
"""Every rule by its name."""


def rule_of(name: object) -> Rule:
    """The rule of a name; raises `ModelError` for another one."""
    if not isinstance(name, str) or name not in RULES:
        raise ModelError(f"There is no rule {shown(name)}.", remedy=f"Give one of {', '.join(RULES)}.")
    return RULES[name]
