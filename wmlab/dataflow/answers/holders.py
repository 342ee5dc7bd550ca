"""What keeps a watermark from a value: from the place where it is missed, upstream to where that begins.

At every level of merging the inputs that count and are below the value hold it; of these each is followed to what
feeds it, up to the partition of a source, a queue, a vertex with work in flight, or an input that has no such key. A
join asks both of its sides: for the watermarks of the key, and for those that raise its limit.

An input is left out when it is idle. That releases the value only if some other input has reached it; and never
across a join, which hears nothing of idle inputs.

Source: "Keyed watermark support", Coalescing of WMs with different keys, Handling of keyed idle messages;
"Stream-to-stream join", Implementation of multiple watermarks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from wmlab.dataflow.answers.explanation import FlowHolder
from wmlab.dataflow.answers.partitions import START, Partitions, Want, behind
from wmlab.dataflow.answers.rules import FlowRules, JoinRules
from wmlab.dataflow.answers.run import Merging, Row, Run


@dataclass(frozen=True, slots=True)
class Found:
    """A holder, and whether another input has reached the value, so that it helps when the holder is left out."""

    holder: FlowHolder
    helps: bool


class Search:
    """The search for holders in one execution at one moment (clock, ms)."""

    def __init__(self, run: Run, rules: FlowRules | None, execution: Row, at_ms: int) -> None:
        self.run = run
        self.rules = rules or FlowRules()
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
        return _settled(self._limit(vertex, instance, self.rules.joins[vertex], Want(key, value)), vertex)

    def merged(self, vertex: str, instance: int, level: str, edge: int | None = None) -> Merging:
        """A level of merging of an instance now."""
        return self.run.merging(vertex, instance, level, self.number, self.at_ms, edge)  # type: ignore[arg-type]

    def sent(self, vertex: str, instance: int, key: int) -> tuple[int, int] | None:
        """The last watermark that left an instance and when; None: none did."""
        found = None
        for queue in self.run.out_of(vertex, instance)[:1]:
            for item in self.run.on_queue(queue, self.number, self.at_ms):
                if item["kind"] == "watermark" and item["key"] == key:
                    found = item["value"], item["put_ms"]
        return found

    def received(self, vertex: str, instance: int, key: int) -> int | None:
        """The last watermark of a key that a join got on one of its inputs; None: none."""
        for edge in (0, 1):
            found = self.merged(vertex, instance, "edge", edge).emitted.get(key)
            if found is not None:
                return found[0]
        return None

    def limit(self, vertex: str, instance: int, key: int) -> int | None:
        """The lowest time of a key that can still find a partner in a join; None: any."""
        found = [
            received - amount
            for other, amount in self.rules.joins[vertex].bounding(key)
            if (received := self.received(vertex, instance, other)) is not None
        ]
        return max(found, default=None)

    def _output(self, vertex: str, instance: int, want: Want) -> list[Found]:
        sent = self.sent(vertex, instance, want.key)
        if sent is not None and sent[0] >= want.value:
            return []
        if self.run.vertex(vertex)["kind"] == "source":
            return self._source(vertex, instance, want)
        if want.key not in self.run.keys(vertex):
            return [Found(self._holder(vertex, instance, "no key", want), want.reached)]
        join = self.rules.joins.get(vertex)
        found = self._merged(vertex, instance, want) if join is None else self._joined(vertex, instance, join, want)
        return found or self._inside(vertex, instance, want)

    def _inside(self, vertex: str, instance: int, want: Want) -> list[Found]:
        """The watermark has come and not gone on: calls are in flight, or there is no room behind."""
        calls = [
            row["began_ms"]
            for row in self.run.calls.get((vertex, instance), ())
            if row["execution"] == self.number
            and row["began_ms"] <= self.at_ms
            and (row["ended_ms"] is None or row["ended_ms"] > self.at_ms)
        ]
        holder = self._holder(vertex, instance, "inside", want)
        return [Found(replace(holder, last_ms=min(calls, default=None)), want.reached)]

    def _merged(self, vertex: str, instance: int, want: Want) -> list[Found]:
        """All input edges of an instance."""
        level = self.merged(vertex, instance, "global")
        found: list[Found] = []
        for edge in _holding(level, want):
            found += self._edge(vertex, instance, edge, want.beside(_others(level, edge, want.key), vertex))
        if level.active or level.idle or _reached(level, want):
            return found
        return [Found(self._holder(vertex, instance, "ended", want), False)]

    def _edge(self, vertex: str, instance: int, edge: int, want: Want) -> list[Found]:
        """The queues of one input edge."""
        level = self.merged(vertex, instance, "edge", edge)
        queues = {queue["input"]: queue for queue in self.run.into(vertex, instance, edge)}
        found: list[Found] = []
        for place in _holding(level, want):
            found += self._queue(queues[place], want.beside(_others(level, place, want.key), vertex))
        if level.active or level.idle or _reached(level, want):
            return found
        return [Found(self._holder(vertex, instance, "ended", want), False)]

    def _queue(self, queue: Row, want: Want) -> list[Found]:
        source, instance = queue["source"], queue["source_instance"]
        if want.key not in queue["keys"]:
            return [Found(self._holder(source, instance, "no key", want), want.reached)]
        for item in self.run.on_queue(queue, self.number, self.at_ms):
            waits = item["taken_ms"] is None or item["taken_ms"] > self.at_ms
            if waits and (
                item["kind"] in {"idle", "done"} or (item["key"] == want.key and item["value"] >= want.value)
            ):
                holder = self._holder(source, instance, "on queue", want)
                return [Found(replace(holder, last_ms=item["put_ms"]), want.reached)]
        return self._output(source, instance, want)

    def _joined(self, vertex: str, instance: int, join: JoinRules, want: Want) -> list[Found]:
        """Both things that the output watermark of a join waits for."""
        side = 0 if want.key in join.sides[0] else 1
        received = self.received(vertex, instance, want.key)
        found: list[Found] = []
        if received is None or received < want.value:
            found += _of_side(self._edge(vertex, instance, side, _alone(want, vertex)))
        return found + (self._limit(vertex, instance, join, want) if join.emit == "state" else [])

    def _limit(self, vertex: str, instance: int, join: JoinRules, want: Want) -> list[Found]:
        limit = self.limit(vertex, instance, want.key)
        if limit is not None and limit >= want.value:
            return []
        if not join.bounding(want.key):
            return [Found(self._holder(vertex, instance, "no bound", want), False)]
        other, amount = max(
            join.bounding(want.key), key=lambda pair: (self._limit_by(vertex, instance, *pair), -pair[1])
        )
        side = 0 if other in join.sides[0] else 1
        value = want.value if want.value == START else want.value + amount
        return _of_side(self._edge(vertex, instance, side, _alone(replace(want, key=other, value=value), vertex)))

    def _limit_by(self, vertex: str, instance: int, other: int, amount: int) -> int:
        received = self.received(vertex, instance, other)
        return START if received is None else received - amount

    def _source(self, vertex: str, instance: int, want: Want) -> list[Found]:
        """The partitions of a source instance."""
        rules = self.rules.sources.get(vertex)
        if rules is not None and rules.frames is None:
            return [Found(self._holder(vertex, instance, "no watermark", want), want.reached)]
        if self._ended(vertex, instance):
            return [Found(self._holder(vertex, instance, "ended", want), want.reached)]
        parts = Partitions(self.run, self.execution, self.at_ms, vertex, instance, rules, want.key)
        active = [number for number in parts.numbers if not parts.idle(number)]
        below = [number for number in active if (mark := parts.sent(number)) is None or mark < want.value]
        if active and not below:
            return self._inside(vertex, instance, want)
        found = []
        for number in below or parts.numbers:
            beside = want.beside([parts.mark(other) for other in parts.numbers if other != number], vertex)
            unsaid = not below and not self._announced(vertex, instance)
            kind = "clock" if parts.by_clock else "slow" if below else "mute" if unsaid else "idle"
            holder = parts.holder(number, beside, kind)
            found.append(Found(holder, beside.reached or parts.by_clock))
        return found or [Found(self._holder(vertex, instance, "idle", want), want.reached)]

    def _announced(self, vertex: str, instance: int) -> bool:
        """Whether the last that a source has said is that it is idle."""
        for queue in self.run.out_of(vertex, instance)[:1]:
            said = [item["kind"] for item in self.run.on_queue(queue, self.number, self.at_ms)]
            return said[-1:] == ["idle"]
        return False

    def _ended(self, vertex: str, instance: int) -> bool:
        return any(
            item["kind"] == "done"
            for queue in self.run.out_of(vertex, instance)[:1]
            for item in self.run.on_queue(queue, self.number, self.at_ms)
        )

    def _holder(self, vertex: str, instance: int, kind: str, want: Want) -> FlowHolder:
        sent = self.sent(vertex, instance, want.key)
        mark = None if sent is None else sent[0]
        through = tuple(name for name in want.through if name != vertex)
        return FlowHolder(
            vertex=vertex,
            instance=instance,
            kind=kind,  # type: ignore[arg-type]
            key=want.key,
            mark=mark,
            behind_by=behind(mark, want),
            through=through,
        )


def _holding(level: Merging, want: Want) -> tuple[int, ...]:
    """The inputs that hold a level: those below the value that count or, if none counts, that could come back."""
    if _reached(level, want):
        return ()
    counting = level.active or level.idle
    return tuple(place for place in counting if (mark := level.mark(place, want.key)) is None or mark < want.value)


def _reached(level: Merging, want: Want) -> bool:
    emitted = level.emitted.get(want.key)
    return emitted is not None and emitted[0] >= want.value


def _others(level: Merging, place: int, key: int) -> list[int | None]:
    """The marks of the other inputs; those that were left out may still be let through when all are."""
    return [level.mark(other, key) for other in (*level.active, *level.idle) if other != place]


def _alone(want: Want, vertex: str) -> Want:
    """What is wanted of one side of a join, which hears nothing of the other side's being ahead."""
    return Want(want.key, want.value, (vertex, *want.through))


def _deaf(found: list[Found]) -> list[Found]:
    """The holders of one merged input: if leaving them out helps none of them, waiting for that is vain."""
    helped = any(one.helps for one in found)
    return [one if helped else Found(replace(one.holder, idle_at_ms=None), one.helps) for one in found]


def _of_side(found: list[Found]) -> list[Found]:
    """The holders behind an input of a join, which is told neither of idle inputs nor of ended ones."""
    return [Found(replace(one.holder, end_helps=False), one.helps) for one in _deaf(found)]


def _settled(found: list[Found], asked: str) -> tuple[FlowHolder, ...]:
    """The holders, each once, in the order they were found, with what lies between them and the vertex asked for."""
    kept = _deaf(found)
    unique: dict[tuple[str, int, int | None, str, int], FlowHolder] = {}
    for one in kept:
        holder = replace(one.holder, through=tuple(name for name in one.holder.through if name != asked))
        unique.setdefault((holder.vertex, holder.instance, holder.partition, holder.kind, holder.key), holder)
    return tuple(unique.values())
