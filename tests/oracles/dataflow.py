"""Who holds a watermark of a dataflow, and why rows were lost, from the tables and the script alone.

Nothing of `wmlab.dataflow.answers` or of its rules is used. The watermark of an input is the last that was taken from
it; an input that sent an idle message does not count until it sends something else. Those that count and are not above
what came out set the watermark, and are followed to the partitions of the source behind them. When no input counts, by
`design` nothing more comes out; by other rules the highest watermark of all does, as in Hazelcast and Flink; then the
idle ones are followed. Vertices between are those that forward what comes: merges, maps, filters and windows; so are
sinks. A window that sends bounds only needs the next bound. A join sends of a key the lower one of what came and of its
limit, which the other side raises; so one side holds it or the other, or both. By its buffer it sends the lower one of
what came and of the times of that side that it keeps; a row goes when the limit is above its time, which the other side
raises, too.

Source: "Keyed watermark support", Description of current behavior and Handling of keyed idle messages; "Stream-to-
stream join", Implementation of multiple watermarks.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from operator import itemgetter
from typing import Any, NamedTuple, cast

LOWEST = -(2**63)
HIGHEST = 2**63 - 1
ENDED = -1
"""Stands for the partition of a join of which a side that holds has ended."""
Row = Mapping[str, Any]


class Place(NamedTuple):
    """What holds: a partition of a source, or with `partition` None an instance from which something is on its way."""

    vertex: str
    instance: int
    partition: int | None

    @property
    def name(self) -> str:
        """The partition, as answers call it."""
        return f"partition {self.partition} of {self.vertex}"


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

    def up_to(self, watermark: int) -> list[int]:
        """The inputs that count and are not above a watermark; where none counts, the idle ones, which could be."""
        counting = any(each.counts for each in self.inputs.values())
        able = {n: each for n, each in self.inputs.items() if (each.counts if counting else not each.done)}
        return [number for number, each in able.items() if each.watermark <= watermark]


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
        if message.kind in {"event", "other key"}:
            self.inputs[message.number] = before._replace(idle=False)
            self._announced = self._announced and not before.idle
            return [message] if message.kind == "event" else []
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


class Joined:
    """A join of two inputs with one key each, 0 on the left and 1 on the right: what came of each, and what it keeps.

    `bounds` are how far the time of the right side may be below and above that of the left one.
    """

    def __init__(self, bounds: tuple[int, int]) -> None:
        self._bounds = bounds
        self.received = [LOWEST, LOWEST]
        self.limits = [LOWEST, LOWEST]
        self.kept: list[list[int]] = [[], []]

    def take(self, edge: int, watermark: int) -> None:
        """A watermark of the key of a side comes on its edge."""
        self.received[edge] = watermark
        self.limits[1 - edge] = max(self.limits[1 - edge], watermark - self._bounds[edge])
        self.kept = [[time for time in self.kept[key] if time >= self.limits[key]] for key in (0, 1)]

    def keep(self, edge: int, time: int) -> None:
        """A row of a side comes."""
        if time >= max(self.received[edge], self.limits[edge]):
            self.kept[edge].append(time)


class DataflowOracle:
    """The tables of one execution of a run; `frames` is the frame of each source."""

    def __init__(self, recording: Any, execution: int = 1) -> None:
        self._recording, self._execution = recording, execution
        self._queues = recording.table("queues").to_pylist()
        self._items = [row for row in recording.table("items").to_pylist() if row["execution"] == execution]
        self._steps = [row for row in recording.table("coalescing").to_pylist() if row["execution"] == execution]
        vertices = recording.dataflow.vertices
        self._sources = {vertex.name: vertex for vertex in vertices if hasattr(vertex, "frame_ms")}
        self._joins = {vertex.name: _bounds(vertex.condition) for vertex in vertices if hasattr(vertex, "condition")}
        rules = recording.dataflow.rules.in_effect
        self._text, self._by_buffer = rules.highest_held_back, rules.emit == "buffer"
        windows = [vertex for vertex in vertices if hasattr(vertex, "slide_ms")]
        self._steps_ms = {window.name: window.step_ms for window in windows if rules.bounds_only}
        self._on_queue: defaultdict[int, list[Row]] = defaultdict(list)
        for item in self._items:
            self._on_queue[item["queue"]].append(item)

    @classmethod
    def at(cls, recording: Any, at_ms: int) -> DataflowOracle:
        """Of the execution that had begun last by a moment."""
        executions = recording.table("executions").to_pylist()
        return cls(recording, max(row["execution"] for row in executions if row["started_ms"] <= at_ms))

    def _into(self, vertex: str, instance: int) -> list[Row]:
        return [q for q in self._queues if (q["target"], q["target_instance"]) == (vertex, instance)]

    def _messages(self, vertex: str, instance: int, key: int) -> list[tuple[int, int, Message]]:
        """What an instance took, in its order: the position, the edge, and the message as one about a key."""
        came = []
        for queue in self._into(vertex, instance):
            for item in self._on_queue[queue["queue"]]:
                if item["taken"] is not None and item["kind"] != "barrier":
                    of_key = item["key"] in {None, key}
                    value = item["time"] if item["kind"] == "event" else item["value"]
                    message = Message(item["taken_ms"], queue["input"], item["kind"], value)
                    came.append(
                        (item["taken"], queue["edge"], message if of_key else message._replace(kind="other key"))
                    )
        return sorted(came, key=itemgetter(0))

    def _edges(self, vertex: str, instance: int) -> dict[int, list[int]]:
        edges: defaultdict[int, list[int]] = defaultdict(list)
        for queue in self._into(vertex, instance):
            edges[queue["edge"]].append(queue["input"])
        return edges

    def history(self, vertex: str, instance: int, key: int) -> Iterator[tuple[int, Coalesced, Mapping[int, Level]]]:
        """What an instance has coalesced of all its edges, and the level of each edge, from each moment (ms) on."""
        edges = self._edges(vertex, instance)
        levels = {edge: Level(numbers, text=self._text) for edge, numbers in edges.items()}
        every = Level(levels, text=self._text)
        yield 0, every.now, levels
        for _, edge, message in self._messages(vertex, instance, key):
            for left in levels[edge].take(message):
                every.take(left._replace(number=edge))
            yield message.at_ms, every.now, levels

    def passing(self, vertex: str, instance: int, key: int, watermark: int) -> tuple[int, int, str, str] | None:
        """When an instance first coalesced a watermark so high (ms), the one that it was, by which input and message.

        The input is the vertex in front of an edge, the message what came out of the queues of that edge. None: never.
        """
        levels = {edge: Level(numbers, text=self._text) for edge, numbers in self._edges(vertex, instance).items()}
        every = Level(levels, text=self._text)
        for _, edge, message in self._messages(vertex, instance, key):
            for left in levels[edge].take(message):
                every.take(left._replace(number=edge))
                if every.watermark >= watermark:
                    source = next(q["source"] for q in self._into(vertex, instance) if q["edge"] == edge)
                    return message.at_ms, every.watermark, source, left.kind
        return None

    def joined(self, vertex: str, instance: int, until_ms: float, taken: float = float("inf")) -> Joined:
        """A join at a moment, or before it took something; at first what a snapshot gave back."""
        join = self._restored(vertex, instance)
        edges = {edge: Level(numbers, text=self._text) for edge, numbers in self._edges(vertex, instance).items()}
        both = [self._messages(vertex, instance, key) for key in (0, 1)]
        for number, (position, edge, _) in enumerate(both[0]):
            message = both[edge][number][2]
            if message.at_ms > until_ms or position >= taken:
                break
            for left in edges[edge].take(message):
                if left.kind == "watermark":
                    assert left.value is not None
                    join.take(edge, left.value)
            if message.kind == "event" and message.value is not None:
                join.keep(edge, message.value)
        return join

    def _restored(self, vertex: str, instance: int) -> Joined:
        """A join as the execution begins: its rows, and of all instances the lowest that they had saved."""
        join = Joined(self._joins[vertex])
        row = self._recording.table("executions").to_pylist()[self._execution - 1]
        if row["snapshot"] is not None:
            before = self._saved_in
            copies = sorted({q["target_instance"] for q in self._queues if q["target"] == vertex})
            saved = [
                before.joined(vertex, number, float("inf"), before.barrier(vertex, number, row["snapshot"]))
                for number in copies
            ]
            # By its buffer a join saves its rows and limits, and not what came.
            if not self._by_buffer:
                join.received = [min(each.received[key] for each in saved) for key in (0, 1)]
            join.kept = [[*times] for times in saved[instance].kept]
            join.limits = [min(each.limits[key] for each in saved) for key in (0, 1)]
        return join

    @cached_property
    def _saved_in(self) -> DataflowOracle:
        """The execution that wrote the snapshot from which this one began."""
        row = self._recording.table("executions").to_pylist()[self._execution - 1]
        snapshots = self._recording.table("snapshots").to_pylist()
        return DataflowOracle(
            self._recording,
            next(each["execution"] for each in snapshots if each["snapshot"] == row["snapshot"]),
        )

    def barrier(self, vertex: str, instance: int, snapshot: int) -> int:
        """The position of the last barrier of a snapshot that an instance took."""
        queues = {queue["queue"] for queue in self._into(vertex, instance)}
        barriers = [i for i in self._items if i["queue"] in queues and (i["kind"], i["value"]) == ("barrier", snapshot)]
        return max(item["taken"] for item in barriers)

    def levels(self, vertex: str, instance: int, key: int, at_ms: int) -> tuple[Coalesced, dict[int, Coalesced]]:
        """What an instance has coalesced by then of all its edges, and of each edge by number."""
        for from_ms, every, levels in self.history(vertex, instance, key):
            if from_ms > at_ms:
                break
            known = every, {edge: level.now for edge, level in levels.items()}
        return known

    def held_ms(self, vertex: str, instance: int, key: int, end_ms: int) -> dict[int, int]:
        """For how long each input edge counted and set the watermark of an instance."""
        history = [(from_ms, every) for from_ms, every, _ in self.history(vertex, instance, key)]
        held = dict.fromkeys(history[0][1].inputs, 0)
        for (from_ms, every), (to_ms, _) in zip(history, [*history[1:], (end_ms, None)], strict=True):
            for edge in every.up_to(every.watermark):
                held[edge] += (to_ms - from_ms) * every.inputs[edge].counts
        return held

    def names_of(self, places: Iterable[Place]) -> set[str]:
        """What answers call some places."""
        return {self._name(*each[:2]) if each.partition in {None, ENDED} else each.name for each in places}

    def holders(self, vertex: str, instance: int, key: int, at_ms: int) -> set[Place]:
        """The places that set the watermark of an instance; empty if all have ended."""
        every, _ = self.levels(vertex, instance, key, at_ms)
        return self._below(vertex, instance, key, at_ms, every.watermark)

    def below(self, vertex: str, instance: int, key: int, at_ms: int, needed: int) -> set[Place]:
        """The places that are below a watermark that an instance needs."""
        places = self._below(vertex, instance, key, at_ms, needed - 1)
        # Where none counts, a row in any partition could let something out, also in one that is not below.
        return {place for place in places if place.partition is None or self.left(place, key, at_ms) < needed}

    def cause(self, place: Place, key: int, at_ms: int, watermark: int) -> str:
        """Why a partition holds a watermark: by its rows or only by the frames of its source, or it is idle."""
        numbers = {q["queue"] for q in self._queues if (q["source"], q["source_instance"]) == place[:2]}
        sent = sorted(
            (item["put_ms"], item["sequence"], item["kind"], item["value"])
            for item in self._items
            if item["queue"] == min(numbers) and item["put_ms"] <= at_ms
        )
        if f"partition {place.partition} of {place.vertex}" in self.not_waited_for(at_ms, HIGHEST, key):
            return "idle" if sent and sent[-1][2] == "idle" else "silent"
        highest = max([watermark, *(value for _, _, kind, value in sent if kind == "watermark")])
        return "throttled" if highest != LOWEST and self._mark(place, key, at_ms) > highest else "slow"

    def left(self, place: Place, key: int, at_ms: int) -> int:
        """The watermark of a partition in the frames of its source; `LOWEST` before the first."""
        mark = self._mark(place, key, at_ms)
        return self._floor(None if mark == LOWEST else mark, self._sources[place.vertex].frame_ms)

    def _mark(self, place: Place, key: int, at_ms: int) -> int:
        """The watermark of a partition; `LOWEST` before the first."""
        where = place.vertex, place.instance, "partition", place.partition, key
        columns = ("vertex", "instance", "level", "input", "key")
        mine = [
            row["value"] for row in self._steps if tuple(row[c] for c in columns) == where and row["at_ms"] <= at_ms
        ]
        marks = [mark for mark in mine if mark is not None]
        return marks[-1] if marks else LOWEST

    def _below(self, vertex: str, instance: int, key: int, at_ms: int, top: int) -> set[Place]:
        """The places without which nothing above `top` comes out of an instance."""
        if vertex not in self._joins:
            every, _ = self.levels(vertex, instance, key, at_ms)
            edges = every.up_to(top)
            return {place for edge in edges for place in self._behind_edge(vertex, instance, edge, key, at_ms, top)}
        join, places = self.joined(vertex, instance, at_ms), set()
        if join.received[key] <= top:
            places |= self._behind_side(vertex, instance, key, at_ms, top)
        # The highest limit with which nothing above it comes out.
        keeps = [time for time in join.kept[key] if time <= top] if self._by_buffer else [top]
        if keeps and join.limits[key] <= (limit := max(keeps)):
            above = limit if limit == LOWEST else limit + self._joins[vertex][1 - key]
            places |= self._behind_side(vertex, instance, 1 - key, at_ms, above)
        return places or {Place(vertex, instance, None)}

    def _behind_side(self, vertex: str, instance: int, side: int, at_ms: int, top: int) -> set[Place]:
        """What holds a side of a join, which the join is itself for good where that side has ended."""
        _, of_edge = self.levels(vertex, instance, side, at_ms)
        if all(each.done for each in of_edge[side].inputs.values()):
            return {Place(vertex, instance, ENDED)}
        return self._behind_edge(vertex, instance, side, side, at_ms, top)

    def _behind_edge(self, vertex: str, instance: int, edge: int, key: int, at_ms: int, top: int) -> set[Place]:
        _, of_edge = self.levels(vertex, instance, key, at_ms)
        queues = {queue["input"]: queue for queue in self._into(vertex, instance) if queue["edge"] == edge}
        return {place for n in of_edge[edge].up_to(top) for place in self._behind(queues[n], key, at_ms, top)}

    def _behind(self, queue: Row, key: int, at_ms: int, top: int) -> set[Place]:
        """What holds the queue of an input: something on it, or what holds the instance that puts on it."""
        source, instance = queue["source"], queue["source_instance"]
        put = [item for item in self._on_queue[queue["queue"]] if item["put_ms"] <= at_ms]
        waiting = [item for item in put if item["taken_ms"] is None or item["taken_ms"] > at_ms]
        if any(i["kind"] in {"idle", "done"} or (i["key"] == key and i["value"] > top) for i in waiting):
            return {Place(source, instance, None)}
        if source in self._sources:
            still = {Place(source, instance, None)} if self._stands_still(source, instance, at_ms) else None
            return still or self._partitions(source, instance, key, top, at_ms)
        if source in self._steps_ms and top != LOWEST:
            top += self._steps_ms[source] - 1 - top % self._steps_ms[source]
        come = top
        if source not in self._joins:
            come = self.levels(source, instance, key, at_ms)[0].watermark
        return {Place(source, instance, None)} if come > top else self._below(source, instance, key, at_ms, top)

    def on_queues(self, place: Place, key: int, at_ms: int, watermark: int) -> set[tuple[str, int]]:
        """The first on each queue of an instance that could let out more: who has to take it, and since when (ms)."""
        first = set()
        for queue in self._queues:
            if (queue["source"], queue["source_instance"]) != place[:2]:
                continue
            put = [item for item in self._on_queue[queue["queue"]] if item["put_ms"] <= at_ms]
            waiting = [item for item in put if item["taken_ms"] is None or item["taken_ms"] > at_ms]
            more = [i for i in waiting if i["kind"] in {"idle", "done"} or (i["key"] == key and i["value"] > watermark)]
            first |= {(self._name(queue["target"], queue["target_instance"]), item["put_ms"]) for item in more[:1]}
        return first

    def _name(self, vertex: str, instance: int) -> str:
        """An instance, as answers call it."""
        copies = {each.name: each.parallelism or 1 for each in self._recording.dataflow.vertices}
        return vertex if copies[vertex] == 1 else f"{vertex}[{instance}]"

    def waiting_since(self, name: str, key: int, at_ms: int, watermark: int) -> set[int | None]:
        """Since when on each queue into an instance something waits that could let out more than a watermark."""
        vertex, _, number = name.rstrip("]").partition("[")
        if vertex in self._sources:
            return {None}
        since = set[int | None]()
        for queue in self._into(vertex, int(number or 0)):
            put = [item for item in self._on_queue[queue["queue"]] if item["put_ms"] <= at_ms]
            waiting = [item for item in put if item["taken_ms"] is None or item["taken_ms"] > at_ms]
            more = [i for i in waiting if i["kind"] in {"idle", "done"} or (i["key"] == key and i["value"] > watermark)]
            since.add(more[0]["put_ms"] if more else None)
        return since

    def standing_still(self, vertex: str, instance: int, at_ms: int) -> set[str]:
        """The instances that the script stalls, of this one and of merges in front of it, as answers call them."""
        merges = {(q["source"], q["source_instance"]) for q in self._into(vertex, instance)}
        way = {(vertex, instance), *(place for place in merges if place[0] not in self._sources)}
        return {self._name(*place) for place in way if self._stands_still(*place, at_ms)}

    def _stands_still(self, vertex: str, instance: int, at_ms: int) -> bool:
        """Whether the script stalls an instance at a moment."""
        return any(
            fault.vertex == vertex
            and fault.instance in {None, instance}
            and fault.at_ms <= at_ms < fault.at_ms + fault.for_ms
            for fault in self._recording.dataflow.faults
            if type(fault).__name__ == "Stall"
        )

    def _partitions(self, source: str, instance: int, key: int, top: int, at_ms: int) -> set[Place]:
        """The partitions of a source that count and have not let anything above `top` out."""
        steps = [
            row
            for row in self._steps
            if (row["vertex"], row["instance"], row["level"]) == (source, instance, "partition")
            and row["at_ms"] <= at_ms
            and row["key"] == key
        ]
        marks = {row["input"]: row["value"] for row in steps if row["input"] is not None and row["value"] is not None}
        active = steps[-1]["active"] if steps else self._read_by(source, instance)
        if not active:
            # A row in any of them lets something out.
            return {Place(source, instance, number) for number in steps[-1]["idle"]}
        frame = self._sources[source].frame_ms
        restored = {row["input"]: row["value"] for row in steps if row["stimulus"] == "restored"}
        if all(number in restored for number in self._read_by(source, instance)):
            # What a snapshot gave back had been sent before.
            top = max(top, self._floor(min(restored.values()), frame))
        below = {Place(source, instance, n) for n in active if self._floor(marks.get(n), frame) <= top}
        return below or {Place(source, instance, None)}

    def not_waited_for(self, at_ms: int, watermark: int | None, key: int) -> dict[str, int]:
        """The partitions of all sources that are idle with a watermark below this one, with when they became so (ms).

        That is the idle timeout after the last row, or after the begin of the execution. What has ended is not idle.
        """
        idle: dict[str, int] = {}
        if watermark is None:
            return idle
        begun_ms = self._recording.table("executions").to_pylist()[self._execution - 1]["started_ms"]
        reads = [r for r in self._recording.table("source_rows").to_pylist() if r["execution"] == self._execution]
        steps = [step for step in self._steps if step["level"] == "partition" and step["at_ms"] <= at_ms]
        for source, known in self._sources.items():
            for number in range(known.partitions):
                mine = [s for s in steps if (s["vertex"], s["input"], s["key"]) == (source, number, key)]
                marks = [step["value"] for step in mine if step["value"] is not None]
                rows = (r for r in reads if (r["vertex"], r["partition"]) == (source, number) and r["at_ms"] <= at_ms)
                since_ms = max((row["at_ms"] for row in rows), default=begun_ms) + known.idle_timeout_ms
                is_over = self._has_ended(source, number % (known.parallelism or 1), at_ms)
                is_below = (
                    not is_over and key in {time.key for time in known.times} and (not marks or marks[-1] < watermark)
                )
                if is_below and since_ms <= at_ms:
                    idle[f"partition {number} of {source}"] = since_ms
        return idle

    def _has_ended(self, vertex: str, instance: int, at_ms: int) -> bool:
        """Whether an instance has sent that it has ended."""
        numbers = {q["queue"] for q in self._queues if (q["source"], q["source_instance"]) == (vertex, instance)}
        ends = (item["put_ms"] for item in self._items if item["queue"] in numbers and item["kind"] == "done")
        return min(ends, default=at_ms + 1) <= at_ms

    def fault(self, source: str, partition: int, at_ms: int) -> tuple[str, int, int] | None:
        """The first fault of the script that keeps rows of a partition back now: its kind, and from when to when (ms).

        Rows that are late are on their way after the time of that fault.
        """
        kinds = {"SilentPartition": "silenced", "LatePartition": "delayed"}
        for fault in self._recording.dataflow.faults:
            if (getattr(fault, "source", None), getattr(fault, "partition", None)) == (source, partition):
                kind, until_ms = kinds.get(type(fault).__name__), fault.at_ms + getattr(fault, "for_ms", 0)
                if kind is not None and fault.at_ms <= at_ms < until_ms + getattr(fault, "by_ms", 0):
                    return kind, fault.at_ms, until_ms
        return None

    def next_frame(self, place: Place, at_ms: int) -> int | None:
        """The lowest watermark of its frames above all that a partition has reached; None: it has reached none."""
        source = self._sources[place.vertex]
        mark, frame = self._mark(place, source.times[0].key, at_ms), source.frame_ms
        return None if mark == LOWEST else (mark // frame + 1) * frame

    def _read_by(self, source: str, instance: int) -> list[int]:
        known = self._sources[source]
        copies = known.parallelism or 1
        return [number for number in range(known.partitions) if number % copies == instance]

    @staticmethod
    def _floor(mark: int | None, frame: int) -> int:
        return LOWEST if mark is None else mark // frame * frame


def _bounds(condition: str) -> tuple[int, int]:
    """How far the time of the right side of a join may be below and above that of the left one."""
    below, above = re.search(r"left\.t - (\d+) <= right\.t and right\.t <= left\.t \+ (\d+)", condition).groups()
    return int(below), int(above)
