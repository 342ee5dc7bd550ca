"""Who holds a watermark of a dataflow, and why rows were lost, from the tables and the script alone.

Nothing of `wmlab.dataflow.answers` or of its rules is used. The watermark of an input is the last that was taken from
it; an input that sent an idle message does not count until it sends something else. The lowest of those that count
sets the watermark, and is followed to the partitions of the source behind it. When no input counts, by `design` nothing
more comes out; by other rules the highest watermark of all does, as in Hazelcast and Flink. Vertices between are those
that forward what comes: merges, maps, filters and windows; so are sinks.

Source: "Keyed watermark support", Description of current behavior and Handling of keyed idle messages.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter
from typing import Any, NamedTuple, cast

LOWEST = -(2**63)
HIGHEST = 2**63 - 1
Row = Mapping[str, Any]


class Place(NamedTuple):
    """What holds: a partition of a source, or with `partition` None an instance from which something is on its way."""

    vertex: str
    instance: int
    partition: int | None


class Input(NamedTuple):
    """An input at a moment: its watermark, and whether it is idle or has ended."""

    watermark: int = LOWEST
    idle: bool = False
    done: bool = False

    @property
    def counts(self) -> bool:
        """Whether it is neither idle nor has ended."""
        return not self.idle and not self.done


class Coalesced(NamedTuple):
    """What came out of several inputs, `LOWEST` before the first, since when, and the inputs by number."""

    watermark: int
    since_ms: int | None
    inputs: Mapping[int, Input]

    def lowest(self) -> list[int]:
        """The inputs that set the watermark: of those that count the lowest ones; none if none counts."""
        counting = {number: each.watermark for number, each in self.inputs.items() if each.counts}
        return [number for number, mark in counting.items() if mark == min(counting.values())]


class Message(NamedTuple):
    """Something that came on an input, in its order."""

    at_ms: int
    number: int
    kind: str
    value: int | None = None


class Level:
    """Inputs that are coalesced, message by message; by the `text` alone nothing comes out when none counts."""

    def __init__(self, numbers: Iterable[int], *, text: bool) -> None:
        self._text = text
        self.inputs = dict.fromkeys(numbers, Input())
        self.watermark, self.since_ms = LOWEST, cast("int | None", None)
        self._highest, self._announced = LOWEST, False

    @property
    def now(self) -> Coalesced:
        """What has come out, and the inputs."""
        return Coalesced(self.watermark, self.since_ms, dict(self.inputs))

    def take(self, message: Message) -> list[Message]:
        """What leaves when this comes."""
        before = self.inputs[message.number]
        if message.kind == "event":
            self.inputs[message.number] = before._replace(idle=False)
            self._announced = self._announced and not before.idle
            return [message]
        if message.kind == "watermark":
            assert message.value is not None
            self.inputs[message.number] = Input(message.value)
            self._highest = max(self._highest, message.value)
            self._announced = self._announced and not before.idle
        elif message.kind == "idle":
            self.inputs[message.number] = before._replace(idle=True)
        else:
            self.inputs[message.number] = before._replace(done=True, idle=False)
        left = []
        when_none_counts = LOWEST if self._text else self._highest
        lowest = min((each.watermark for each in self.inputs.values() if each.counts), default=when_none_counts)
        if lowest > self.watermark:
            self.watermark, self.since_ms = lowest, message.at_ms
            left.append(message._replace(kind="watermark", value=lowest))
        not_ended = [each for each in self.inputs.values() if not each.done]
        if not not_ended:
            left.append(message._replace(kind="done", value=None))
        elif all(each.idle for each in not_ended) and not self._announced:
            self._announced = True
            left.append(message._replace(kind="idle", value=None))
        return left


class DataflowOracle:
    """The tables of a run of one execution in which no vertex joins; `frames` is the frame of each source."""

    def __init__(self, recording: Any) -> None:
        self._tables = {name: recording.table(name).to_pylist() for name in ("items", "queues", "coalescing")}
        self._sources = {vertex.name: vertex for vertex in recording.dataflow.vertices if hasattr(vertex, "frame_ms")}
        self._text = recording.dataflow.rules == "design"
        self._on_queue: defaultdict[int, list[Row]] = defaultdict(list)
        for item in self._tables["items"]:
            self._on_queue[item["queue"]].append(item)

    def _into(self, vertex: str, instance: int) -> list[Row]:
        return [q for q in self._tables["queues"] if (q["target"], q["target_instance"]) == (vertex, instance)]

    def history(self, vertex: str, instance: int, key: int) -> Iterator[tuple[int, Coalesced, Mapping[int, Level]]]:
        """What an instance has coalesced of all its edges, and the level of each edge, from each moment (ms) on."""
        queues = {(queue["edge"], queue["input"]): queue for queue in self._into(vertex, instance)}
        levels = {edge: Level((number for of, number in queues if of == edge), text=self._text) for edge, _ in queues}
        every = Level(levels, text=self._text)
        came = [
            (item["taken"], edge, Message(item["taken_ms"], number, item["kind"], item["value"]))
            for (edge, number), queue in queues.items()
            for item in self._on_queue[queue["queue"]]
            if item["taken"] is not None and item["key"] in {None, key}
        ]
        yield 0, every.now, levels
        for _, edge, message in sorted(came, key=itemgetter(0)):
            for left in levels[edge].take(message):
                every.take(left._replace(number=edge))
            yield message.at_ms, every.now, levels

    def levels(self, vertex: str, instance: int, key: int, at_ms: int) -> tuple[Coalesced, dict[int, Coalesced]]:
        """What an instance has coalesced by then of all its edges, and of each edge by number."""
        for from_ms, every, levels in self.history(vertex, instance, key):
            if from_ms > at_ms:
                break
            known = every, {edge: level.now for edge, level in levels.items()}
        return known

    def held_ms(self, vertex: str, instance: int, key: int, end_ms: int) -> dict[int, int]:
        """For how long each input edge set the watermark of an instance."""
        history = [(from_ms, every) for from_ms, every, _ in self.history(vertex, instance, key)]
        held = dict.fromkeys(history[0][1].inputs, 0)
        for (from_ms, every), (to_ms, _) in zip(history, [*history[1:], (end_ms, None)], strict=True):
            for edge in every.lowest():
                held[edge] += to_ms - from_ms
        return held

    def holders(self, vertex: str, instance: int, key: int, at_ms: int) -> set[Place]:
        """The places that set the watermark of an instance; empty if no input counts."""
        every, of_edge = self.levels(vertex, instance, key, at_ms)
        queues = {(queue["edge"], queue["input"]): queue for queue in self._into(vertex, instance)}
        places: set[Place] = set()
        for edge in every.lowest():
            for number in of_edge[edge].lowest():
                queue = queues[edge, number]
                places |= self._behind(queue, key, at_ms)
        return places

    def _behind(self, queue: Row, key: int, at_ms: int) -> set[Place]:
        """What holds the queue of an input: something on it, or what holds the instance that puts on it."""
        source, instance = queue["source"], queue["source_instance"]
        put = [item for item in self._on_queue[queue["queue"]] if item["put_ms"] <= at_ms]
        waiting = [item for item in put if item["taken_ms"] is None or item["taken_ms"] > at_ms]
        if any(item["kind"] in {"idle", "done"} or item["key"] == key for item in waiting):
            return {Place(source, instance, None)}
        sent = max(
            (item["value"] for item in put if item["kind"] == "watermark" and item["key"] == key), default=LOWEST
        )
        if source not in self._sources:
            every, _ = self.levels(source, instance, key, at_ms)
            return (
                {Place(source, instance, None)}
                if every.watermark > sent
                else self.holders(source, instance, key, at_ms)
            )
        return self._partitions(source, instance, key, sent, at_ms)

    def _partitions(self, source: str, instance: int, key: int, sent: int, at_ms: int) -> set[Place]:
        """The partitions of a source that set its watermark."""
        steps = [
            row
            for row in self._tables["coalescing"]
            if (row["vertex"], row["instance"], row["level"]) == (source, instance, "partition")
            and row["at_ms"] <= at_ms
            and row["key"] == key
        ]
        marks = {row["input"]: row["value"] for row in steps if row["input"] is not None and row["value"] is not None}
        active = steps[-1]["active"] if steps else self._read_by(source, instance)
        if not active:
            return set()
        frame = self._sources[source].frame_ms
        lowest = min(self._floor(marks.get(number), frame) for number in active)
        if lowest > sent:
            return {Place(source, instance, None)}
        return {Place(source, instance, number) for number in active if self._floor(marks.get(number), frame) == lowest}

    def _read_by(self, source: str, instance: int) -> list[int]:
        known = self._sources[source]
        copies = known.parallelism or 1
        return [number for number in range(known.partitions) if number % copies == instance]

    @staticmethod
    def _floor(mark: int | None, frame: int) -> int:
        return LOWEST if mark is None else mark // frame * frame
