"""What keeps a watermark from a value: from the place where it is missed, upstream to where that begins.

At every level of merging the inputs that count and are below the value hold it; of these each is followed to what
feeds it, up to the partition of a source, a queue, a vertex with work in flight, or an input that has no such key. A
join needs both of its sides: for the watermarks of the key, and for those that raise its limit.

An input is left out when it is idle. That releases the value only if some other input has reached it; and never
across a join, to which idle inputs make no difference.

Source: "Keyed watermark support", WM generation, Coalescing of WMs with different keys, Handling of keyed idle
messages; "Stream-to-stream join", Implementation of multiple watermarks; upstream class `EventTimeMapper`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from wmlab.dataflow.answers.explanation import FlowHolder, Kind
from wmlab.dataflow.answers.run import Level, Merging, Row, Run
from wmlab.dataflow.model.items import MIN
from wmlab.dataflow.model.join import StreamJoin
from wmlab.dataflow.model.source import FixedLag
from wmlab.dataflow.sim.processors import Clocked
from wmlab.dataflow.sim.rules import DataflowRules, SourceRule

START = MIN + 1
"""Below every watermark: what is needed for any one at all."""


@dataclass(frozen=True, slots=True)
class Want:
    """`value` of `key` is wanted; `ahead` is the lowest mark of others on the way, `reached` whether one is there."""

    key: int
    value: int
    through: tuple[str, ...] = ()
    ahead: int | None = None
    reached: bool = False

    def beside(self, marks: Iterable[int | None], vertex: str) -> Want:
        """The same one step upstream of `vertex`, where the other inputs have these marks."""
        known = [mark for mark in marks if mark is not None]
        ahead = min([*known, *([] if self.ahead is None else [self.ahead])], default=None)
        reached = self.reached or any(mark >= self.value for mark in known)
        through = self.through if self.through[:1] == (vertex,) else (vertex, *self.through)
        return replace(self, through=through, ahead=ahead, reached=reached)

    def behind(self, mark: int | None) -> int | None:
        """How far the next of the others on the way is ahead of `mark`; 0 if none is."""
        return None if mark is None or self.ahead is None else max(0, self.ahead - mark)


@dataclass(frozen=True, slots=True)
class Found:
    """A holder, and whether another input has reached the value, so that it helps when the holder is left out."""

    holder: FlowHolder
    helps: bool


class Search:
    """The search for holders in one execution at one moment (clock, ms)."""

    def __init__(self, run: Run, rules: DataflowRules, execution: Row, at_ms: int) -> None:
        self.run = run
        self.rules = rules
        self.windows, self.joins = rules.windows, rules.joins
        self.execution = execution
        self.number: int = execution["execution"]
        self.at_ms = at_ms

    def at_inputs(self, vertex: str, instance: int, key: int, value: int) -> tuple[FlowHolder, ...]:
        """What keeps the merged watermark of all inputs of an instance below `value`."""
        return _settled(self._merged(vertex, instance, Want(key, value)), vertex)

    def at_output(self, vertex: str, instance: int, key: int, value: int) -> tuple[FlowHolder, ...]:
        """What keeps the watermarks that leave an instance below `value`."""
        return _settled(self._output(vertex, instance, Want(key, value)), vertex)

    def at_limit(self, vertex: str, instance: int, key: int, value: int) -> tuple[FlowHolder, ...]:
        """What keeps the limit of `key` in a join below `value`."""
        return _settled(self._limit(vertex, instance, self.joins[vertex], Want(key, value)), vertex)

    def merged(self, vertex: str, instance: int, level: Level, edge: int | None = None) -> Merging:
        """A level of merging of an instance now."""
        return self.run.merging(vertex, instance, level, self.number, self.at_ms, edge)

    def put(self, vertex: str, instance: int) -> list[Row]:
        """What an instance had put on one of its queues: all get the same watermarks, idle messages and ends."""
        for queue in self.run.out_of(vertex, instance)[:1]:
            return list(self.run.on_queue(queue, self.number, self.at_ms))
        return []

    def sent(self, vertex: str, instance: int, key: int) -> tuple[int, int] | None:
        """The last watermark that left an instance and when; None: none did."""
        marks = [item for item in self.put(vertex, instance) if item["kind"] == "watermark" and item["key"] == key]
        return (marks[-1]["value"], marks[-1]["put_ms"]) if marks else None

    def received(self, vertex: str, instance: int, key: int) -> int | None:
        """The last watermark of a key that a join got on one of its inputs; None: none."""
        for edge in (0, 1):
            mark = self.merged(vertex, instance, "edge", edge).emitted.get(key)
            if mark is not None:
                return mark[0]
        return None

    def limit(self, vertex: str, instance: int, key: int) -> int | None:
        """The lowest time of a key that can still find a partner in a join; None: any."""
        limits = [
            received - amount
            for other, amount in _bounding(self.joins[vertex], key)
            if (received := self.received(vertex, instance, other)) is not None
        ]
        return max(limits, default=None)

    def _output(self, vertex: str, instance: int, want: Want) -> list[Found]:
        sent = self.sent(vertex, instance, want.key)
        if sent is not None and sent[0] >= want.value:
            return []
        if self.run.vertex(vertex)["kind"] == "source":
            return self._source(vertex, instance, want)
        if want.key not in self.run.keys(vertex):
            return [self._found(vertex, instance, "no key", want)]
        join = self.joins.get(vertex)
        result = self._merged(vertex, instance, want) if join is None else self._joined(vertex, instance, join, want)
        return result or self._inside(vertex, instance, want)

    def _inside(self, vertex: str, instance: int, want: Want) -> list[Found]:
        """The watermark has come and not gone on: calls are in flight, or there is no room behind."""
        calls = [
            row["began_ms"]
            for row in self.run.indexed("calls").get((vertex, instance), ())
            if row["execution"] == self.number
            and row["began_ms"] <= self.at_ms
            and (row["ended_ms"] is None or row["ended_ms"] > self.at_ms)
        ]
        return [self._found(vertex, instance, "inside", want, last_ms=min(calls, default=None))]

    def _merged(self, vertex: str, instance: int, want: Want) -> list[Found]:
        """All input edges of an instance."""
        level = self.merged(vertex, instance, "global")
        result: list[Found] = []
        for edge in _holding(level, want):
            result += self._edge(vertex, instance, edge, want.beside(_others(level, edge, want.key), vertex))
        return self._or_ended(level, vertex, instance, want, result)

    def _edge(self, vertex: str, instance: int, edge: int, want: Want) -> list[Found]:
        """The queues of one input edge."""
        level = self.merged(vertex, instance, "edge", edge)
        queues = {queue["input"]: queue for queue in self.run.into(vertex, instance, edge)}
        result: list[Found] = []
        for number in _holding(level, want):
            result += self._queue(queues[number], want.beside(_others(level, number, want.key), vertex))
        return self._or_ended(level, vertex, instance, want, result)

    def _or_ended(self, level: Merging, vertex: str, instance: int, want: Want, result: list[Found]) -> list[Found]:
        if level.active or level.idle or _reached(level, want):
            return result
        return [self._found(vertex, instance, "ended", want, helps=False)]

    def _queue(self, queue: Row, want: Want) -> list[Found]:
        source, instance = queue["source"], queue["source_instance"]
        if want.key not in queue["keys"]:
            return [self._found(source, instance, "no key", want)]
        for item in self.run.on_queue(queue, self.number, self.at_ms):
            waits = item["taken_ms"] is None or item["taken_ms"] > self.at_ms
            if waits and (
                item["kind"] in {"idle", "done"} or (item["key"] == want.key and item["value"] >= want.value)
            ):
                return [self._found(source, instance, "on queue", want, last_ms=item["put_ms"])]
        return self._output(source, instance, want)

    def _joined(self, vertex: str, instance: int, join: StreamJoin, want: Want) -> list[Found]:
        """Both things that the output watermark of a join waits for."""
        received = self.received(vertex, instance, want.key)
        result: list[Found] = []
        if received is None or received < want.value:
            result += self._side(vertex, instance, join, want)
        return result + (self._limit(vertex, instance, join, want) if join.output == "state" else [])

    def _limit(self, vertex: str, instance: int, join: StreamJoin, want: Want) -> list[Found]:
        limit = self.limit(vertex, instance, want.key)
        if limit is not None and limit >= want.value:
            return []
        bounding = _bounding(join, want.key)
        if not bounding:
            return [self._found(vertex, instance, "no bound", want, helps=False)]

        def reach(bound: tuple[int, int]) -> tuple[int, int]:
            other, amount = bound
            received = self.received(vertex, instance, other)
            return START if received is None else received - amount, -amount

        other, amount = max(bounding, key=reach)
        value = want.value if want.value == START else want.value + amount
        return self._side(vertex, instance, join, replace(want, key=other, value=value))

    def _side(self, vertex: str, instance: int, join: StreamJoin, want: Want) -> list[Found]:
        """The holders behind the input of a join that has the key.

        It does not matter how far the other side is, and neither idle inputs nor ended ones let anything through.
        """
        edge = 0 if want.key in join.keys[0] else 1
        alone = Want(want.key, want.value, (vertex, *want.through))
        result = _without_vain_hopes(self._edge(vertex, instance, edge, alone))
        return [Found(replace(entry.holder, end_helps=False), entry.helps) for entry in result]

    def _source(self, vertex: str, instance: int, want: Want) -> list[Found]:
        """The partitions of a source instance."""
        rule = self.rules.sources.get(vertex)
        time = None if rule is None else rule.times.get(want.key)
        if time is not None and time.mapper.frames is None:
            return [self._found(vertex, instance, "no watermark", want)]
        put = self.put(vertex, instance)
        if any(item["kind"] == "done" for item in put):
            return [self._found(vertex, instance, "ended", want)]
        parts = Partitions(self.run, self.execution, self.at_ms, vertex, instance, rule, want.key)
        active = [number for number in parts.numbers if not parts.idle(number)]
        below = [number for number in active if (mark := parts.sent(number)) is None or mark < want.value]
        if active and not below:
            return self._inside(vertex, instance, want)
        announced = bool(put) and put[-1]["kind"] == "idle"
        kind: Kind = "clock" if parts.by_clock else "slow" if below else "idle" if announced else "mute"
        result = []
        for number in below or parts.numbers:
            beside = want.beside([parts.mark(other) for other in parts.numbers if other != number], vertex)
            result.append(Found(parts.holder(number, beside, kind), beside.reached or parts.by_clock))
        return result or [self._found(vertex, instance, "idle", want)]

    def _found(
        self,
        vertex: str,
        instance: int,
        kind: Kind,
        want: Want,
        *,
        helps: bool | None = None,
        last_ms: int | None = None,
    ) -> Found:
        sent = self.sent(vertex, instance, want.key)
        mark = None if sent is None else sent[0]
        holder = FlowHolder(
            vertex=vertex,
            instance=instance,
            kind=kind,
            key=want.key,
            mark=mark,
            last_ms=last_ms,
            behind_by=want.behind(mark),
            through=tuple(name for name in want.through if name != vertex),
        )
        return Found(holder, want.reached if helps is None else helps)


def _bounding(join: StreamJoin, key: int) -> list[tuple[int, int]]:
    """The keys of the other side whose watermarks raise the limit of `key`, each with its amount."""
    return [(other, bounded[key]) for other, bounded in sorted(join.bounds.items()) if key in bounded]


def _holding(level: Merging, want: Want) -> tuple[int, ...]:
    """The inputs that hold a level: those below the value that count or, if none counts, that could come back."""
    if _reached(level, want):
        return ()
    counting = level.active or level.idle
    return tuple(number for number in counting if (mark := level.mark(number, want.key)) is None or mark < want.value)


def _reached(level: Merging, want: Want) -> bool:
    emitted = level.emitted.get(want.key)
    return emitted is not None and emitted[0] >= want.value


def _others(level: Merging, number: int, key: int) -> list[int | None]:
    """The marks of the other inputs; those that were left out may still be let through when all are."""
    return [level.mark(other, key) for other in (*level.active, *level.idle) if other != number]


def _without_vain_hopes(result: list[Found]) -> list[Found]:
    """The holders of one merged input: if leaving them out helps none of them, none says when that happens."""
    if any(entry.helps for entry in result):
        return result
    return [Found(replace(entry.holder, idle_at_ms=None), entry.helps) for entry in result]


def _settled(result: list[Found], asked: str) -> tuple[FlowHolder, ...]:
    """The holders, each once, in the order they were found, with what lies between them and the vertex asked for."""
    unique: dict[tuple[str, int, int | None, str, int], FlowHolder] = {}
    for entry in _without_vain_hopes(result):
        holder = replace(entry.holder, through=tuple(name for name in entry.holder.through if name != asked))
        unique.setdefault((holder.vertex, holder.instance, holder.partition, holder.kind, holder.key), holder)
    return tuple(unique.values())


class Partitions:
    """The partitions of a source instance: their watermarks of one key, their rows, and when they are idle."""

    def __init__(
        self, run: Run, execution: Row, at_ms: int, vertex: str, instance: int, rule: SourceRule | None, key: int
    ) -> None:
        self.vertex, self.instance, self.key = vertex, instance, key
        self.time: Clocked | None = None if rule is None else rule.times.get(key)
        self.at_ms = at_ms
        self._begun_ms: int = execution["started_ms"]
        number = execution["execution"]
        self._level = run.merging(vertex, instance, "partition", number, at_ms)
        self._rows: dict[int, list[Row]] = {}
        for row in run.indexed("source_rows").get((vertex, instance), ()):
            if row["execution"] == number and row["at_ms"] <= at_ms:
                self._rows.setdefault(row["partition"], []).append(row)
        self._added: dict[int, int] = {}
        for row in run.steps(vertex, instance, number, at_ms):
            if row["stimulus"] == "added":
                self._added.setdefault(row["input"], row["at_ms"])
        if self._level.marks:
            self.numbers = tuple(sorted({*self._level.active, *self._level.idle}))
        elif rule is not None and rule.partitions is not None:
            self.numbers = tuple(range(instance, rule.partitions, rule.parallelism))
        else:
            self.numbers = tuple(sorted(self._level.active))

    @property
    def by_clock(self) -> bool:
        """Whether the clock moves their watermarks."""
        return self.time is not None and self.time.by_clock

    def mark(self, number: int) -> int | None:
        """The watermark of a partition; None: none yet."""
        if self.time is not None and self.time.by_clock:
            return self.time.mapper.policy.current(None, self.at_ms)
        return self._level.mark(number, self.key)

    def sent(self, number: int) -> int | None:
        """What the source may send for it."""
        mark = self.mark(number)
        if self.time is None or mark is None:
            return mark
        frames = self.time.mapper.frames
        return None if frames is None else frames.floor(mark)

    def idle(self, number: int) -> bool:
        """Whether it is left out."""
        at_ms = self.idle_at_ms(number)
        if self.time is None:
            return number in self._level.idle
        return at_ms is not None and at_ms <= self.at_ms

    def idle_at_ms(self, number: int) -> int | None:
        """When it is left out if nothing comes; None: never, or unknown."""
        if self.time is None:
            return None
        rows = self._rows.get(number, ())
        began_ms = self._added.get(number, self._begun_ms)
        counted = [int(row["at_ms"]) for row in rows if row["passed"] or not self._rejected_silent]
        return self.time.mapper.deadline_ms(max(counted, default=began_ms))

    @property
    def _rejected_silent(self) -> bool:
        return self.time is not None and self.time.mapper.deviations.rejected_rows_silent

    def _needs(self, watermark: int) -> int | None:
        """What brings a partition to `watermark`: an event of this time or, if the clock moves it, this clock time."""
        if self.time is None or self.time.mapper.frames is None:
            return None
        return self.time.mapper.frames.higher(watermark - 1) + self.time.lag

    def holder(self, number: int, want: Want, kind: Kind) -> FlowHolder:
        """It as a holder."""
        mark = self.mark(number)
        rows = self._rows.get(number, [])
        last = max((row["at_ms"] for row in rows if row["passed"]), default=None)
        by_events = self.time is not None and isinstance(self.time.mapper.policy, FixedLag)
        rejected = sum(not row["passed"] and (last is None or row["at_ms"] > last) for row in rows)
        silenced = rejected > 0 and self._rejected_silent
        idle_at_ms = self.idle_at_ms(number) if kind == "slow" and not silenced else None
        return FlowHolder(
            vertex=self.vertex,
            instance=self.instance,
            partition=number,
            kind=kind,
            key=self.key,
            mark=mark,
            last_ms=last,
            rejected=rejected,
            needs_time=self._needs(want.value) if by_events and want.value != START else None,
            idle_at_ms=self._needs(want.value) if self.by_clock else idle_at_ms,
            behind_by=want.behind(mark) if kind == "slow" else None,
            through=tuple(name for name in want.through if name != self.vertex),
        )
