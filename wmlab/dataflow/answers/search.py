"""A recorded dataflow at one moment, as known by then: its levels of merging, and what keeps a watermark from a value.

At every level of merging the inputs that count and are below the value hold it; of these each is followed to what
feeds it, up to the partition of a source, a queue, a vertex with work in flight, or an input that has no such key. A
join needs both of its sides: for the watermarks of the key, and for those that raise its limit.

An input is left out when it is idle. That releases the value only if some other input has reached it; and never
across a join, to which idle inputs make no difference.

Source: "Keyed watermark support", Description of current behavior, WM generation, Coalescing of WMs with different
keys, Handling of keyed idle messages; "Stream-to-stream join", Implementation of multiple watermarks; upstream classes
`KeyedWatermarkCoalescer`, `EventTimeMapper`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from wmlab.core.errors import RecordingError
from wmlab.core.words import moment
from wmlab.dataflow.answers.run import BEGINS, Asked, Explanation, Holder, Kind, Row, Run, held_by, released_by
from wmlab.dataflow.model.items import MIN
from wmlab.dataflow.model.join import START
from wmlab.dataflow.model.source import EventTimeMapper, FixedLag, LagPolicy
from wmlab.dataflow.scenario.source import share
from wmlab.dataflow.sim.party import FRAMES

Found = tuple[Holder, bool]
"""A holder, and whether another input has reached the value, so that it helps when the holder is left out."""


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

    def holder(self, vertex: str, instance: int, kind: Kind, mark: int | None, **fields: Any) -> Holder:
        """An instance, or one of its partitions, as what keeps the watermark from the value."""
        behind_by = None if mark is None or self.ahead is None else max(0, self.ahead - mark)
        through = tuple(name for name in self.through if name != vertex)
        known = {"behind_by": behind_by, "through": through, "mark": mark, "key": self.key} | fields
        return Holder(vertex=vertex, instance=instance, kind=kind, **known)


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """One level of merging at a moment: which inputs count, which are idle, and what each brought.

    `marks` is the last watermark by input and key, `emitted` by key what came out: (watermark, clock ms).
    """

    active: Sequence[int]
    idle: Sequence[int]
    marks: Mapping[tuple[int, int], int]
    emitted: Mapping[int, tuple[int, int]]

    def reached(self, want: Want) -> bool:
        """Whether the value has come out."""
        return want.key in self.emitted and self.emitted[want.key][0] >= want.value

    def holding(self, want: Want) -> list[int]:
        """The inputs below the value that count or, if none counts, that could come back."""
        return [number for number in self.active or self.idle if self.marks.get((number, want.key), MIN) < want.value]

    def others(self, number: int, key: int) -> list[int | None]:
        """The marks of the other inputs; those that were left out may still be let through when all are."""
        return [self.marks.get((other, key)) for other in (*self.active, *self.idle) if other != number]


class Search:
    """A run at one moment (clock, ms), and the search for holders in it.

    Raises `RecordingError` with that `remedy` if nothing had begun by then.
    """

    def __init__(self, run: Run, at_ms: int, remedy: str = "ask later.") -> None:
        begun = [row for row in run.executions if row["started_ms"] <= at_ms]
        if not begun:
            raise RecordingError(f"at {moment(at_ms)} nothing had begun.", remedy=remedy)
        self.run, self.execution, self.at_ms = run, begun[-1], at_ms
        self.outcome: str = "running" if self.still(self.execution["ended_ms"]) else self.execution["outcome"]
        self.windows, self.joins = run.rules.windows, run.rules.joins

    def still(self, until_ms: int | None) -> bool:
        """Whether what went on until then, or for ever, went on at the moment."""
        return until_ms is None or until_ms > self.at_ms

    def rows(self, table: str, *where: Any) -> Iterator[Row]:
        """The rows of the execution by the moment, of a vertex and instance; of `items`, those put on a queue."""
        clock, number = BEGINS.get(table, "at_ms"), self.execution["execution"]
        for row in self.run.indexed(table).get(where, ()):
            if row["execution"] == number and row[clock] <= self.at_ms:
                yield row

    def level(
        self, vertex: str, instance: int, name: Literal["edge", "global", "partition"], edge: int | None = None
    ) -> Level:
        """A level of merging of an instance."""
        if name == "partition":
            active = sorted({row["partition"] for row in self.run.indexed("source_rows").get((vertex, instance), ())})
        else:
            column = "input" if name == "edge" else "edge"
            active = sorted({queue[column] for queue in self.run.into(vertex, instance, edge)})
        idle: list[int] = []
        marks: dict[tuple[int, int], int] = {}
        emitted: dict[int, tuple[int, int]] = {}
        for row in self.rows("coalescing", vertex, instance):
            if row["level"] != name or row["edge"] != edge:
                continue
            active, idle = row["active"], row["idle"]
            if row["input"] is not None and row["key"] is not None and row["value"] is not None:
                marks[row["input"], row["key"]] = row["value"]
            emitted |= {key: (value, row["at_ms"]) for key, value in row["emitted"]}
        return Level(active=active, idle=idle, marks=marks, emitted=emitted)

    def put(self, vertex: str, instance: int) -> list[Row]:
        """What an instance had put on one of its queues: all get the same watermarks, idle messages and ends."""
        return [item for queue in self.run.out_of(vertex, instance)[:1] for item in self.rows("items", queue["queue"])]

    def sent(self, vertex: str, instance: int, key: int) -> tuple[int, int] | None:
        """The last watermark that left an instance and when; None: none did."""
        marks = [item for item in self.put(vertex, instance) if item["kind"] == "watermark" and item["key"] == key]
        return (marks[-1]["value"], marks[-1]["put_ms"]) if marks else None

    def received(self, vertex: str, instance: int, key: int) -> int | None:
        """The last watermark of a key that a join got on one of its inputs; None: none."""
        levels = (self.level(vertex, instance, "edge", edge) for edge in (0, 1))
        return next((level.emitted[key][0] for level in levels if key in level.emitted), None)

    def limit(self, vertex: str, instance: int, key: int) -> int:
        """The lowest time of a key that can still find a partner in a join; `START`: any."""
        return max((limit for limit, _, _ in self._limits(vertex, instance, key)), default=START)

    def holders(
        self, vertex: str, instance: int, key: int, value: int, *, at: Literal["inputs", "output", "limit"]
    ) -> tuple[Holder, ...]:
        """What keeps a watermark below `value`, each once: the merged one of all inputs, the one that leaves an
        instance, or the limit of the key in a join."""
        search = {"inputs": self._merged, "output": self._output, "limit": self._limit}[at]
        result = _without_vain_hopes(search(vertex, instance, Want(key, value)))
        # A window in two stages is one vertex to whoever asks.
        own = {vertex, vertex + FRAMES}
        through = [tuple(name for name in holder.through if name not in own) for holder, _ in result]
        return unique_holders(replace(held, through=names) for (held, _), names in zip(result, through, strict=True))

    @property
    def end(self) -> str:
        """How and when the job had failed or was complete, in words; empty if it was running."""
        ended = {"failed": "failed", "completed": "was complete"}.get(self.outcome)
        reason = f": {self.execution['reason']}" if self.execution["reason"] else ""
        return f"the job {ended} at {moment(self.execution['ended_ms'])}{reason}" if ended else ""

    def waiting(
        self, text: str, holders: Sequence[Holder], *, free: str = "", idles: bool = True
    ) -> tuple[str, int | None]:
        """What waits (`text`), who holds it (`free` without holders) and what releases it, in one sentence, and when.

        It is released, if nothing else happens, when the last holder is left out as idle; None if one never is. Without
        `idles` that is not considered. In a job that has failed nothing releases it.
        """
        if self.outcome == "failed":
            return text, None
        known = [holder.idle_at_ms for holder in holders if holder.idle_at_ms is not None]
        release_ms = max([self.at_ms, *known]) if idles and known and len(known) == len(holders) else None
        parts = (text, held_by(self.run, holders) or free, released_by(self.run, holders, release_ms))
        return "; ".join(part for part in parts if part), release_ms

    def explanation(self, asked: Asked, *, cause: str, sentence: str, **fields: Any) -> Explanation:
        """An answer about the moment; `fields` are the other ones of `Explanation`."""
        if self.outcome == "failed" and cause in {"waiting", "on queue"}:
            cause, sentence = "failed", f"{sentence}; {self.end}"
            fields |= {"holders": ()}
        return Explanation(
            at_ms=self.at_ms, stream=self.run.stream, asked=asked, cause=cause, sentence=sentence, **fields
        )

    def _output(self, vertex: str, instance: int, want: Want) -> list[Found]:
        sent = self.sent(vertex, instance, want.key)
        if sent is not None and sent[0] >= want.value:
            return []
        if self.run.vertex(vertex)["kind"] == "source":
            return self._source(vertex, instance, want)
        if want.key not in self.run.keys(vertex):
            return [self._found(vertex, instance, "no key", want)]
        if vertex not in self.joins:
            return self._merged(vertex, instance, want) or self._inside(vertex, instance, want)
        received = self.received(vertex, instance, want.key)
        result = [] if received is not None and received >= want.value else self._side(vertex, instance, want)
        if self.joins[vertex].output == "state":
            result += self._limit(vertex, instance, want)
        return result or self._inside(vertex, instance, want)

    def _inside(self, vertex: str, instance: int, want: Want) -> list[Found]:
        """The watermark has come and not gone on: calls are in flight, or there is no room behind."""
        calls = [row["began_ms"] for row in self.rows("calls", vertex, instance) if self.still(row["ended_ms"])]
        return [self._found(vertex, instance, "inside", want, last_ms=min(calls, default=None))]

    def _merged(self, vertex: str, instance: int, want: Want, edge: int | None = None) -> list[Found]:
        """All input edges of an instance or, with `edge`, the queues of that one."""
        level = self.level(vertex, instance, "global" if edge is None else "edge", edge)
        if level.reached(want):
            return []
        if not level.active and not level.idle:
            return [self._found(vertex, instance, "ended", want, helps=False)]
        queues = {queue["input"]: queue for queue in self.run.into(vertex, instance, edge)}
        result: list[Found] = []
        for number in level.holding(want):
            beside = want.beside(level.others(number, want.key), vertex)
            if edge is None:
                result += self._merged(vertex, instance, beside, number)
            else:
                result += self._queue(queues[number], beside)
        return result

    def _queue(self, queue: Row, want: Want) -> list[Found]:
        source, instance = queue["source"], queue["source_instance"]
        if want.key not in queue["keys"]:
            return [self._found(source, instance, "no key", want)]
        for item in self.rows("items", queue["queue"]):
            releases = item["kind"] in {"idle", "done"} or (item["key"] == want.key and item["value"] >= want.value)
            if releases and self.still(item["taken_ms"]):
                return [self._found(source, instance, "on queue", want, last_ms=item["put_ms"])]
        return self._output(source, instance, want)

    def _limits(self, vertex: str, instance: int, key: int) -> list[tuple[int, int, int]]:
        """How far each key of the other side of a join has raised the limit of `key`, its amount, and that key."""
        limits = []
        for other, bounded in sorted(self.joins[vertex].bounds.items()):
            if key in bounded:
                mark = self.received(vertex, instance, other)
                limits.append((START if mark is None else mark - bounded[key], bounded[key], other))
        return limits

    def _limit(self, vertex: str, instance: int, want: Want) -> list[Found]:
        limits = self._limits(vertex, instance, want.key)
        if not limits:
            return [self._found(vertex, instance, "no bound", want, helps=False)]
        limit, amount, other = max(limits, key=lambda entry: (entry[0], -entry[1]))
        if limit != START and limit >= want.value:
            return []
        value = want.value if want.value == START else want.value + amount
        return self._side(vertex, instance, replace(want, key=other, value=value))

    def _side(self, vertex: str, instance: int, want: Want) -> list[Found]:
        """The holders behind the input of a join that has the key.

        It does not matter how far the other side is, and neither idle inputs nor ended ones let anything through.
        """
        edge = 0 if want.key in self.joins[vertex].keys[0] else 1
        alone = Want(want.key, want.value, (vertex, *want.through))
        result = _without_vain_hopes(self._merged(vertex, instance, alone, edge))
        return [(replace(holder, end_helps=False), helps) for holder, helps in result]

    def _source(self, vertex: str, instance: int, want: Want) -> list[Found]:
        """The partitions of a source instance."""
        partitions = Partitions(self, vertex, instance, want.key)
        if partitions.mapper.frames is None:
            return [self._found(vertex, instance, "no watermark", want)]
        if want.value != START:
            # What a source sends is throttled, so a partition has reached the value when it has reached its frame.
            want = replace(want, value=partitions.mapper.frames.higher(want.value - 1))
        put = self.put(vertex, instance)
        if any(item["kind"] == "done" for item in put):
            return [self._found(vertex, instance, "ended", want)]
        active = [number for number in partitions.numbers if not partitions.idle(number)]
        below = [number for number in active if (mark := partitions.sent(number)) is None or mark < want.value]
        if active and not below:
            return self._inside(vertex, instance, want)
        announced = bool(put) and put[-1]["kind"] == "idle"
        result: list[Found] = []
        for number in below or partitions.numbers:
            kind: Kind = "idle" if announced else "mute"
            if below:
                kind = "clock" if partitions.reached_by_clock(number, want.value) else "slow"
            marks = [partitions.mark(other) for other in partitions.numbers if other != number]
            beside = want.beside(marks, vertex)
            result.append((partitions.holder(number, beside, kind), beside.reached or kind == "clock"))
        return result or [self._found(vertex, instance, "idle", want)]

    def _found(
        self, vertex: str, instance: int, kind: Kind, want: Want, *, helps: bool | None = None, **fields: Any
    ) -> Found:
        mark, _ = self.sent(vertex, instance, want.key) or (None, None)
        fields["parallelism"] = self.run.vertex(vertex)["parallelism"]
        return want.holder(vertex, instance, kind, mark, **fields), want.reached if helps is None else helps


def unique_holders(holders: Iterable[Holder]) -> tuple[Holder, ...]:
    """Each once, however many ways lead to it."""
    unique: dict[tuple[Any, ...], Holder] = {}
    for holder in holders:
        unique.setdefault((holder.vertex, holder.instance, holder.partition, holder.kind, holder.key), holder)
    return tuple(unique.values())


def _without_vain_hopes(result: list[Found]) -> list[Found]:
    """The holders of one merged input: if leaving them out helps none of them, none says when that happens."""
    if any(helps for _, helps in result):
        return result
    return [(replace(holder, idle_at_ms=None), helps) for holder, helps in result]


class Partitions:
    """The partitions of a source instance: their watermarks of one key, their rows, and when they are idle."""

    def __init__(self, search: Search, vertex: str, instance: int, key: int) -> None:
        self.vertex, self.instance, self.key, self.at_ms = vertex, instance, key, search.at_ms
        source = search.run.rules.sources.get(vertex)
        time = search.run.rules.times.get((vertex, key))
        self._known = time is not None
        self.mapper = EventTimeMapper(policy=LagPolicy(), idle_timeout_ms=None) if time is None else time.mapper
        self.lag, self.by_clock = self.mapper.policy.lag, self.mapper.policy.by_clock
        self._silent = self.mapper.deviations.rejected_rows_silent
        self._parallelism: int = search.run.vertex(vertex)["parallelism"]
        self._begun_ms: int = search.execution["started_ms"]
        self._level = search.level(vertex, instance, "partition")
        self._rows: dict[int, list[Row]] = {}
        for row in search.rows("source_rows", vertex, instance):
            self._rows.setdefault(row["partition"], []).append(row)
        self._added: dict[int, int] = {}
        for row in search.rows("coalescing", vertex, instance):
            if row["stimulus"] == "added":
                self._added.setdefault(row["input"], row["at_ms"])
        self.numbers: Sequence[int] = sorted({*self._level.active, *self._level.idle})
        if not self._level.marks:
            self.numbers = sorted(self._level.active)
            # How many partitions a stream has is known only when it is read.
            if source is not None and source.stream is None:
                self.numbers = share(source, instance, source.partitions)

    def mark(self, number: int) -> int | None:
        """The watermark of a partition; None: none yet."""
        return self._level.marks.get((number, self.key))

    def sent(self, number: int) -> int | None:
        """What the source may send for it."""
        mark = self.mark(number)
        return None if self.mapper.frames is None or mark is None else self.mapper.frames.floor(mark)

    def idle(self, number: int) -> bool:
        """Whether it is left out."""
        at_ms = self._idle_at_ms(number)
        return at_ms is not None and at_ms <= self.at_ms if self._known else number in self._level.idle

    def _idle_at_ms(self, number: int) -> int | None:
        """When it is left out if nothing comes; None: never, or unknown."""
        counted = [int(row["at_ms"]) for row in self._rows.get(number, ()) if row["passed"] or not self._silent]
        return self.mapper.deadline_ms(max(counted, default=self._added.get(number, self._begun_ms)))

    def reached_by_clock(self, number: int, value: int) -> bool:
        """Whether the clock brings a partition to a watermark before it is left out."""
        left_out_ms = self._idle_at_ms(number)
        return self.by_clock and (left_out_ms is None or value + self.lag < left_out_ms)

    def holder(self, number: int, want: Want, kind: Kind) -> Holder:
        """It as a holder."""
        rows = self._rows.get(number, [])
        last = max((row["at_ms"] for row in rows if row["passed"]), default=None)
        rejected = sum(not row["passed"] and (last is None or row["at_ms"] > last) for row in rows)
        left_out_ms = self._idle_at_ms(number)
        # What brings it to the value: an event of this time or, if the clock moves it, this time of the clock.
        needs = want.value + self.lag
        idle_at_ms = left_out_ms if kind == "slow" and not (rejected and self._silent) else None
        row_after_ms = None
        if kind == "clock":
            idle_at_ms = needs
        elif self.by_clock and self.mapper.idle_timeout_ms is not None and want.value != START:
            # A row makes it count for the idle timeout, within which the clock has to get there.
            after_ms = needs - self.mapper.idle_timeout_ms
            row_after_ms = after_ms if after_ms > self.at_ms else None
        by_events = isinstance(self.mapper.policy, FixedLag)
        holder = want.holder(
            self.vertex,
            self.instance,
            kind,
            self.mark(number),
            partition=number,
            last_ms=last,
            rejected=rejected,
            needs_time=needs if by_events and want.value != START else None,
            row_after_ms=row_after_ms,
            idle_at_ms=idle_at_ms,
            idle_since_ms=left_out_ms if kind == "idle" else None,
            parallelism=self._parallelism,
        )
        return holder if kind == "slow" else replace(holder, behind_by=None)
