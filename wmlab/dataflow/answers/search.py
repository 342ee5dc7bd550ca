"""A job at one moment, as known by then: its levels of coalescing, and what keeps a watermark from a value.

At every level the inputs that count and are below the value hold it; of these each is followed to what feeds it, up to
one that holds. It is the partition of a source, a queue, a vertex with work in flight, or an input that has no such
key. A join needs both of its sides: for the watermarks of the key, and for those that raise its limit; one that emits
by its buffer needs the limit only above the rows that it keeps.

An instance that stands still holds all that it has to take or to send, and is named before what else is missing.

An input is excluded when it is idle. That releases the value only if some other input has reached it; and never
across a join, to which idle inputs make no difference.

Source: "Keyed watermark support", Description of current behavior, WM generation, Coalescing of WMs with different
keys, Handling of keyed idle messages; "Stream-to-stream join", Implementation of multiple watermarks; upstream classes
`KeyedWatermarkCoalescer`, `EventTimeMapper`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from wmlab.core.errors import RecordingError
from wmlab.core.words import moment
from wmlab.dataflow.answers.cause import Holder, Kind
from wmlab.dataflow.answers.job import LevelState, ReadPartition
from wmlab.dataflow.answers.run import BEGINS, DataflowRun, RecordedRow
from wmlab.dataflow.model.items import DONE, FrameGrid, Idle, Watermark, row_time
from wmlab.dataflow.model.join import LEFT, RIGHT, START, JoinState
from wmlab.dataflow.model.source import EventTimeMapper, FixedLag
from wmlab.dataflow.sim.layout import OWN_BY_INPUT

Blocking = tuple[Holder, bool]
"""What blocks, and whether another input has reached the value, so that it helps when that is excluded."""


@dataclass(frozen=True, slots=True)
class Target:
    """The watermark `value` of `key`; `reached` says whether another input on the way is there.

    `marks` are the watermarks of the inputs on the way, from the vertex explained on.
    """

    key: int
    value: int
    through: tuple[str, ...] = ()
    reached: bool = False
    marks: tuple[int, ...] = ()

    def beside(self, watermark: int | None) -> Target:
        """The same behind an input with this watermark."""
        return replace(self, marks=(*self.marks, START if watermark is None else watermark))

    def one_step_upstream(self, watermarks: Sequence[int], vertex: str) -> Target:
        """The same one step upstream of `vertex`, where other inputs, those that are ahead, have these watermarks."""
        reached = self.reached or any(watermark >= self.value for watermark in watermarks)
        through = self.through if self.through[:1] == (vertex,) else (vertex, *self.through)
        return replace(self, through=through, reached=reached)

    def holder(self, vertex: str, instance: int, kind: Kind, watermark: int | None, **fields: Any) -> Holder:
        """An instance, or one of its partitions, as what keeps the watermark from the value."""
        through = tuple(name for name in self.through if name != vertex)
        known: dict[str, Any] = {"through": through, "mark": watermark, "key": self.key}
        known |= {"marks": self.marks} | fields
        return Holder(vertex=vertex, instance=instance, kind=kind, **known)


class Search:
    """A run at one moment (clock, ms), and the search for holders in it.

    Raises `RecordingError` if nothing had begun by then.
    """

    def __init__(self, run: DataflowRun, at_ms: int) -> None:
        begun = [row for row in run.executions if row["started_ms"] <= at_ms]
        if not begun:
            raise RecordingError(f"at {moment(at_ms)} nothing had begun.", remedy="ask later.")
        self.run, self.execution, self.at_ms = run, begun[-1], at_ms
        self.job = run.job.at(at_ms)
        self.end = run.end_at(at_ms)
        self.windows, self.joins = run.rules.windows, run.rules.joins

    def still(self, until_ms: int | None) -> bool:
        """Whether what went on until then, or for ever, went on at the moment."""
        return until_ms is None or until_ms > self.at_ms

    def rows(self, table: str, *where: Any) -> Iterator[RecordedRow]:
        """The rows of the execution by the moment, of a vertex and instance; of `items`, those put on a queue."""
        clock = BEGINS.get(table, "at_ms")
        for row in self.run.indexed(table).get((self.execution["execution"], *where), ()):
            if row[clock] <= self.at_ms:
                yield row

    def join_state(self, vertex: str, instance: int) -> JoinState:
        """The limits of a join and the watermarks that it received."""
        state: JoinState = self.job.processor(vertex, instance).state
        return state

    def holders(
        self, vertex: str, instance: int, key: int, value: int, *, at: Literal["inputs", "output"]
    ) -> tuple[Holder, ...]:
        """What keeps a watermark below `value`, each once: the coalesced one of all inputs, or the one that leaves.

        Those behind the lowest inputs are first; where none counts, all are idle, and none is lower than another.
        """
        search = {"inputs": self._coalesced, "output": self._output}[at]
        result = _without_idle_release(search(vertex, instance, Target(key, value)))
        if not all(holder.kind in {"idle", "silent"} for holder, _ in result):
            result.sort(key=lambda blocking: blocking[0].marks)
        return unique_holders(
            replace(holder, through=tuple(name for name in holder.through if name != vertex)) for holder, _ in result
        )

    def holders_now(self, vertex: str, instance: int, key: int, watermark: int | None) -> tuple[Holder, ...]:
        """What keeps the watermark of an instance where it is.

        A higher one may be on its way, for no longer than instances take to begin a turn: then what keeps back the next
        one. While something waits, an input that is ahead of the watermark does not hold it.
        """
        at: Literal["inputs", "output"] = "output" if self.run.is_outwards(vertex) else "inputs"
        value = START if watermark is None else watermark + 1
        holders = self.holders(vertex, instance, key, value, at=at)
        while holders and all(self.is_moving(holder) for holder in holders):
            marks = [holder.mark for holder in holders if holder.key == key and holder.mark is not None]
            if not marks or max(marks) < value:
                break
            value = max(marks) + 1
            holders = self.holders(vertex, instance, key, value, at=at)
        holders = tuple(holder for holder in holders if not self.is_moving(holder)) or holders
        if not any(holder.is_waiting for holder in holders):
            return holders
        return tuple(holder for holder in holders if holder.is_waiting or not holder.is_ahead(key, watermark))

    def not_waited_for(self, vertex: str, instance: int, key: int, watermark: int | None) -> dict[str, int]:
        """The partitions with a watermark below this one that do not count, with when they became idle (clock, ms)."""
        if watermark is None:
            return {}
        idle = {}
        for source, number in sorted(self.run.sources_of(vertex, instance)):
            if key in self.run.keys(source) and self.job.last_kind(source, number) != "done":
                for partition, read in self.job.partitions(source, number, key)[1].items():
                    if read.state.idle(self.at_ms) and (read.watermark is None or read.watermark < watermark):
                        idle[f"partition {partition} of {source}"] = read.state.deadline_ms or 0
        return idle

    def watermark(self, vertex: str, instance: int, key: int) -> tuple[int | None, int | None]:
        """The watermark of an instance, and since when it is there (clock, ms); None: there is none."""
        if self.run.is_outwards(vertex):
            return self.job.sent(vertex, instance).get(key, (None, None))
        return self.job.level(vertex, instance).emitted.get(key, (None, None))

    def is_moving(self, holder: Holder) -> bool:
        """Whether a holder is only on its way from one instance to the next, or leaves its source at its next turn."""
        if holder.kind == "inside" and self.run.vertex(holder.vertex)["kind"] == "source":
            return True
        waits = holder.is_waiting and holder.stall is None
        return waits and holder.last_ms is not None and self.at_ms - holder.last_ms <= self.job.turn_ms

    def _output(self, vertex: str, instance: int, target: Target) -> list[Blocking]:
        sent = self.job.sent(vertex, instance).get(target.key)
        if sent is not None and sent[0] >= target.value:
            return []
        if self.run.vertex(vertex)["kind"] == "source":
            return self._source(vertex, instance, target)
        if target.key not in self.run.keys(vertex):
            return [self._blocking(vertex, instance, "no key", target)]
        if self.run.vertex(vertex)["kind"] == OWN_BY_INPUT:
            return self._by_input(vertex, instance, target)
        if vertex not in self.joins:
            target = self._on_grid(vertex, target)
            return self._coalesced(vertex, instance, target) or self._inside(vertex, instance, target)
        state = self.join_state(vertex, instance)
        received = state.received[target.key]
        beside = target.beside(received)
        result = [] if received != START and received >= target.value else self._side(vertex, instance, beside)
        if self.joins[vertex].output == "state":
            result += self._limit(vertex, instance, target.beside(state.limits[target.key]))
        else:
            result += self._kept(vertex, instance, target, state)
        return result or self._inside(vertex, instance, target)

    def _inside(self, vertex: str, instance: int, target: Target) -> list[Blocking]:
        """The watermark has come and not gone on: calls are in flight, or there is no room behind."""
        if stalled := self._stalled(vertex, instance, target):
            return stalled
        calls = [call["began_ms"] for call in self.rows("calls", vertex, instance) if self.still(call["ended_ms"])]
        if calls:
            return [self._blocking(vertex, instance, "inside", target, last_ms=min(calls))]
        return self._full(vertex, instance, target) or [self._blocking(vertex, instance, "inside", target)]

    def _taken(self, vertex: str, instance: int, target: Target, edge: int) -> list[Blocking]:
        """An input has let it through, but the instance is not done with rows that it took before."""
        came = self.job.level(vertex, instance, edge).emitted.get(target.key)
        last_ms = None if came is None else came[1]
        full = self._stalled(vertex, instance, target) or self._full(vertex, instance, target)
        return full or [self._blocking(vertex, instance, "behind rows", target, last_ms=last_ms)]

    def _full(self, vertex: str, instance: int, target: Target) -> list[Blocking]:
        """The first queue of an instance that has no room, without which nothing leaves; none if all have."""
        number = self.job.full_queue(vertex, instance)
        if number is None:
            return []
        on_queue = self.job.on_queue(number)
        known = {"last_ms": on_queue[-1][1], "items_before": len(on_queue), **self._taker(self.run.queues[number])}
        return [self._blocking(vertex, instance, "no room", target, **known)]

    def _taker(self, queue: RecordedRow) -> dict[str, Any]:
        """Who has to take what lies on a queue, and the fault that happens to it."""
        vertex, instance = queue["target"], queue["target_instance"]
        fault = self.job.stall(vertex, instance) or self.job.fault(vertex, instance)
        return {"queue_to": self.run.instance_name(vertex, instance), "fault": fault}

    def _stalled(self, vertex: str, instance: int, target: Target, behind: Sequence[Blocking] = ()) -> list[Blocking]:
        """The instance if it stands still, with when the first came of what it has to take, and what else holds."""
        fault = self.job.fault(vertex, instance)
        if fault is None or fault.kind != "stalled":
            return list(behind)
        waiting = [(h, helps) for h, helps in behind if h.fault is not None and h.fault.party == fault.party]
        if any(holder.kind == "stalled" for holder, _ in waiting):
            return list(behind)
        last_ms = next((holder.last_ms for holder, _ in waiting), None)
        others = [blocking for blocking in behind if blocking not in waiting]
        return [self._blocking(vertex, instance, "stalled", target, last_ms=last_ms), *others]

    def _coalesced(self, vertex: str, instance: int, target: Target, edge: int | None = None) -> list[Blocking]:
        """All input edges of an instance or, with `edge`, the queues of that one."""
        level = self.job.level(vertex, instance, edge)
        emitted = level.emitted.get(target.key)
        if emitted is not None and emitted[0] >= target.value:
            return []
        return self._stalled(vertex, instance, target, self._behind(vertex, instance, target, edge, level))

    def _behind(
        self, vertex: str, instance: int, target: Target, edge: int | None, level: LevelState
    ) -> list[Blocking]:
        """What holds the inputs of a level of coalescing."""
        if not level.active and not level.idle:
            return [self._blocking(vertex, instance, "ended", target, helps=False)]
        queues = {queue["input"]: queue for queue in self.run.into(vertex, instance, edge)}
        result: list[Blocking] = []
        # Those that count and are below the value or, if none counts, that could come back.
        watermarks = {number: level.watermarks.get((number, target.key)) for number in (*level.active, *level.idle)}
        for number in level.active or level.idle:
            watermark = watermarks[number]
            if watermark is not None and watermark >= target.value:
                continue
            # Those that are excluded may still be let through when all are.
            beside = target.beside(watermark).one_step_upstream(_ahead_of(watermark, watermarks.values()), vertex)
            if edge is None:
                result += self._coalesced(vertex, instance, beside, number) or self._taken(
                    vertex, instance, beside, number
                )
            else:
                result += self._queue(queues[number], beside)
        return result if level.active else _any_of(result, (vertex, instance, edge))

    def _queue(self, queue: RecordedRow, target: Target) -> list[Blocking]:
        source, instance = queue["source"], queue["source_instance"]
        if target.key not in queue["keys"]:
            kind: Kind = "batch" if self.run.vertex(queue["target"])["kind"] == "hash join" else "no key"
            return [self._blocking(source, instance, kind, target)]
        for before, (item, put_ms) in enumerate(self.job.on_queue(queue["queue"])):
            of_key = isinstance(item, Watermark) and item.key == target.key and item.value >= target.value
            if of_key or item == DONE or isinstance(item, Idle):
                known = {"last_ms": put_ms, "items_before": before, **self._taker(queue)}
                return [self._blocking(source, instance, "on queue", target, **known)]
        return self._output(source, instance, target)

    def _limit(self, vertex: str, instance: int, target: Target) -> list[Blocking]:
        """What keeps the limit of a key in a join: the input of the key of the other side that raised it furthest."""
        amounts = {other: by[target.key] for other, by in self.joins[vertex].bounds.items() if target.key in by}
        if not amounts:
            return [self._blocking(vertex, instance, "no bound", target, helps=False)]
        state = self.join_state(vertex, instance)
        limit = state.limits[target.key]
        if limit != START and limit >= target.value:
            return []

        def raised(other: int) -> tuple[int, int]:
            received = state.received[other]
            return START if received == START else received - amounts[other], -amounts[other]

        other = max(sorted(amounts), key=raised)
        value = target.value if target.value == START else target.value + amounts[other]
        return self._side(vertex, instance, replace(target, key=other, value=value))

    def _kept(self, vertex: str, instance: int, target: Target, state: JoinState) -> list[Blocking]:
        """What keeps the rows below the value in a join, which go when any limit has passed them: the nearest one."""
        join = self.joins[vertex]
        side = LEFT if target.key in join.keys[LEFT] else RIGHT
        column = join.keys[side][target.key]
        rows = [row.values for row in state.buffers[side] if row_time(row.values, column) < target.value]
        if not rows:
            return []
        bounded = {key for by in join.bounds.values() for key in by}
        columns = {key: at for key, at in join.keys[side].items() if key in bounded}
        above = {key: max(row_time(row, at) for row in rows) + 1 for key, at in columns.items()}
        key = min(above, key=lambda key: (above[key] - state.limits[key], key != target.key))
        oldest = min(row_time(row, column) for row in rows)
        return self._limit(vertex, instance, replace(target.beside(oldest), key=key, value=above[key]))

    def _side(self, vertex: str, instance: int, target: Target) -> list[Blocking]:
        """The holders behind the input of a join that has the key."""
        return self._edge(vertex, instance, target, LEFT if target.key in self.joins[vertex].keys[LEFT] else RIGHT)

    def _edge(self, vertex: str, instance: int, target: Target, edge: int) -> list[Blocking]:
        """The holders behind an input of a vertex that gets the watermarks of each input by itself.

        It does not matter how far the others are, and neither idle inputs nor ended ones let anything through.
        """
        alone = Target(target.key, target.value, (vertex, *target.through), marks=target.marks)
        result = _without_idle_release(self._coalesced(vertex, instance, alone, edge))
        return [(replace(holder, end_helps=False), helps) for holder, helps in result]

    def _on_grid(self, vertex: str, target: Target) -> Target:
        """The watermark that has to be coalesced for `target` to leave, where only multiples of a number leave."""
        grid = self.run.vertex(vertex).get("grid")
        if grid is None or target.value == START:
            return target
        return replace(target, value=FrameGrid(grid).higher(target.value - 1))

    def _by_input(self, vertex: str, instance: int, target: Target) -> list[Blocking]:
        """The holders behind each input that has the key; what a custom processor makes of it, it alone knows."""
        queues = self.run.into(vertex, instance)
        edges = sorted({queue["edge"] for queue in queues if target.key in queue["keys"]})
        result = [blocking for edge in edges for blocking in self._edge(vertex, instance, target, edge)]
        return result or self._inside(vertex, instance, target)

    def _source(self, vertex: str, instance: int, target: Target) -> list[Blocking]:
        """The partitions of a source instance."""
        mapper, partitions = self.job.partitions(vertex, instance, target.key)
        if mapper.frames is None:
            return [self._blocking(vertex, instance, "no watermark", target)]
        awaited = max(target.value, self.job.sent_before(vertex, instance, target.key) + 1)
        if awaited != START:
            # What a source sends is throttled, so a partition has reached the value when it has reached its frame.
            target = replace(target, value=mapper.frames.higher(awaited - 1))
        last_kind = self.job.last_kind(vertex, instance)
        if last_kind == "done":
            return [self._blocking(vertex, instance, "ended", target)]
        if blocking := self._stalled(vertex, instance, target) or self._full(vertex, instance, target):
            return blocking
        marks = {number: partition.watermark for number, partition in partitions.items()}
        active = [number for number, partition in partitions.items() if not partition.state.idle(self.at_ms)]
        below = [n for n in active if (mark := marks[n]) is None or mapper.frames.floor(mark) < target.value]
        if active and not below:
            return self._inside(vertex, instance, target)
        result: list[Blocking] = []
        for number in below or partitions:
            mark = marks[number]
            kind: Kind = "idle" if last_kind == "idle" else "silent"
            if below:
                deadline_ms = partitions[number].state.deadline_ms
                in_time = deadline_ms is None or target.value + mapper.policy.lag < deadline_ms
                by_clock = mapper.policy.by_clock and in_time
                kind = "clock" if by_clock else "slow"
                if kind == "slow" and awaited != START and mark is not None and mark >= awaited:
                    kind = "throttled"
            counted = target.beside(None if mark is None else mapper.frames.floor(mark))
            beside = counted.one_step_upstream(_ahead_of(mark, marks.values()), vertex)
            holder = self._partition(vertex, instance, number, kind, beside, mapper, partitions[number])
            result.append((holder, beside.reached or kind == "clock"))
        result = result or [self._blocking(vertex, instance, "idle", target)]
        return result if below else _any_of(result, (vertex, instance))

    def _partition(
        self,
        vertex: str,
        instance: int,
        number: int,
        kind: Kind,
        target: Target,
        mapper: EventTimeMapper,
        partition: ReadPartition,
    ) -> Holder:
        """A partition of a source as a holder."""
        deadline_ms, lag = partition.state.deadline_ms, mapper.policy.lag
        rejects_silently = mapper.deviations.rejected_rows_silent
        silent = partition.rejected and rejects_silently
        idle_at_ms = deadline_ms if kind in {"slow", "throttled"} and not silent else None
        # What brings it to the value: an event of this time or, if the clock moves it, this time of the clock.
        needs = target.value + lag
        fault = self.job.fault(vertex, instance, number)
        quiet_until_ms = None
        if kind == "clock":
            idle_at_ms = needs
        elif fault is not None and fault.until_ms is not None and (deadline_ms is None or fault.until_ms < deadline_ms):
            # Behind the fault rows come again, before it is idle.
            idle_at_ms = None
            quiet_until_ms = fault.until_ms if fault.kind == "silenced" and kind in {"slow", "throttled"} else None
        return target.holder(
            vertex,
            instance,
            kind,
            partition.watermark,
            partition=number,
            last_ms=partition.last_ms,
            rejected=partition.rejected,
            needs_time=needs if isinstance(mapper.policy, FixedLag) and target.value != START else None,
            next_mark=target.value if kind == "throttled" else None,
            idle_at_ms=idle_at_ms,
            quiet_until_ms=quiet_until_ms,
            idle_since_ms=deadline_ms if kind == "idle" else None,
            is_filtered=rejects_silently and self.run.rules.sources[vertex].where is not None,
            fault=fault,
            parallelism=self.run.vertex(vertex)["parallelism"],
        )

    def _blocking(
        self, vertex: str, instance: int, kind: Kind, target: Target, *, helps: bool | None = None, **fields: Any
    ) -> Blocking:
        watermark, _ = self.job.sent(vertex, instance).get(target.key, (None, None))
        fields = {"fault": self.job.fault(vertex, instance)} | fields
        fields["parallelism"] = self.run.vertex(vertex)["parallelism"]
        return target.holder(vertex, instance, kind, watermark, **fields), target.reached if helps is None else helps


def history_of(run: DataflowRun, execution: RecordedRow, vertex: str, instance: int) -> list[tuple[int, int | None]]:
    """The executions that an execution goes on from, each with the moment (ms) up to which it counts for an instance.

    That is when the instance saved its state for the snapshot from which the next one began; itself is last, with None.
    """
    history: list[tuple[int, int | None]] = [(execution["execution"], None)]
    number = execution["snapshot"]
    while number is not None:
        (row,) = (
            row
            for row in run.rows("snapshots")
            if (row["snapshot"], row["vertex"], row["instance"]) == (number, vertex, instance)
        )
        history.insert(0, (row["execution"], row["saved_ms"]))
        number = run.executions[row["execution"] - 1]["snapshot"]
    return history


def _ahead_of(watermark: int | None, others: Iterable[int | None]) -> list[int]:
    """Those that are higher than a watermark; of None, which is none yet, all that are known."""
    return [other for other in others if other is not None and (watermark is None or other > watermark)]


def unique_holders(holders: Iterable[Holder]) -> tuple[Holder, ...]:
    """Each once, however many ways lead to it."""
    unique: dict[tuple[Any, ...], Holder] = {}
    for holder in holders:
        unique.setdefault((*holder.place, holder.kind, holder.queue_to), holder)
    return tuple(unique.values())


def _any_of(result: list[Blocking], level: tuple[object, ...]) -> list[Blocking]:
    """The same, where all inputs of a level are idle, so that one of them is enough; of a join one for each side."""
    return [(replace(holder, any_of=(*level, holder.key)), helps) for holder, helps in result]


def _without_idle_release(result: list[Blocking]) -> list[Blocking]:
    """If no holder's idleness would help, none says when it turns idle."""
    if any(helps for _, helps in result):
        return result
    return [(replace(holder, idle_at_ms=None), helps) for holder, helps in result]
