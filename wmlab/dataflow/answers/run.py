"""A recorded dataflow, indexed, and the answers about it as values, with their sentences.

They say what holds a watermark, a window or a row and what would release it, what was dropped, and whether state stays
bounded.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cache, cached_property
from operator import itemgetter
from typing import Any, Final, Literal, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from wmlab.core.answers import Answer, Cell, TableAnswer
from wmlab.core.errors import RecordingError, WmlabError
from wmlab.core.recording import Recording
from wmlab.core.words import bare, counted, grouped, is_instant, listed, moment, span
from wmlab.dataflow.answers.job import Job, job_of
from wmlab.dataflow.scenario.dataflow import DataflowScenario, dataflow_of, no_dataflow
from wmlab.dataflow.sim.layout import OWN_BY_INPUT
from wmlab.dataflow.sim.rules import DataflowRules, rules_of

RecordedRow = Mapping[str, Any]
Made = TypeVar("Made")
BEGINS: Final = {"items": "put_ms", "calls": "began_ms"}
"""The column with the clock of a row where it is not `at_ms`."""
_WAITING: Final = ("window", "session window", "join", "stateful map")
"""The kinds of vertices that hold something until a watermark comes."""
_TIMED: Final = ("source_rows", "items", "coalescing", "state", "sunk", "incidents")


class DataflowRun:
    """The tables of the one dataflow of a recording; raises `RecordingError` if it has none."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self.rows: Callable[[str], list[RecordedRow]] = cache(lambda table: recording.table(table).to_pylist())
        """The rows of a table, in their order."""
        self.indexed = cache(self._indexed)
        """The rows of a table in their order by execution, vertex and instance, `items` by execution and queue.

        They may be told apart by more columns.
        """
        self.vertices: dict[str, RecordedRow] = {row["vertex"]: _keyed(row) for row in self.rows("vertices")}
        if not self.vertices:
            raise no_dataflow(recording)
        self.stream = str(next(iter(self.vertices.values()))["stream"])
        self.queues: list[RecordedRow] = [_keyed(row) for row in self.rows("queues")]
        self.executions = self.rows("executions")
        self._made: dict[tuple[Any, ...], Any] = {}

    def cached(self, make: Callable[..., Made], *arguments: Any) -> Made:
        """What `make(run, *arguments)` gives, which is made once and kept."""
        key = (make, *arguments)
        if key not in self._made:
            self._made[key] = make(self, *arguments)
        made: Made = self._made[key]
        return made

    @property
    def last_waiting(self) -> str:
        """The last vertex that waits for watermarks, or else the last one, a sink."""
        waiting = [name for name, known in self.vertices.items() if known["kind"] in _WAITING]
        return [*self.vertices, *waiting][-1]

    @cached_property
    def job(self) -> Job:
        """The job, which can be run again up to a moment."""
        return job_of(self._recording)

    @cached_property
    def rules(self) -> DataflowRules:
        """The rules of the vertices; none where the recording has no scenario."""
        if self._recording.scenario is None:
            return DataflowRules()
        return rules_of(dataflow_of(self._recording, DataflowScenario, stand_ins=True))

    @cached_property
    def end_ms(self) -> int:
        """The end of the run: of its duration, if it was running then, otherwise the last moment recorded."""
        columns = (self._recording.table(table)[BEGINS.get(table, "at_ms")] for table in _TIMED)
        moments = [pc.max(column).as_py() for column in columns]
        moments += [row[clock] for row in self.executions for clock in ("started_ms", "ended_ms")]
        if self.executions and self.executions[-1]["ended_ms"] is None:
            moments.append(self.rules.end_ms)
        return max((at_ms for at_ms in moments if at_ms is not None), default=0)

    @cached_property
    def times_ms(self) -> int:
        """What says whether event times and watermarks of the run are instants, as `moment` asks of the clock.

        That is the clock of the run; or, where it begins at 0 and so has no dates, the event time in the middle.
        """
        begun = self.executions[0]["started_ms"] if self.executions else 0
        times = sorted(time for time in self._recording.table("items")["time"].to_pylist() if time is not None)
        return int(times[len(times) // 2]) if times and not is_instant([begun]) else int(begun)

    def time(self, time: int | None) -> str:
        """An event time or a watermark in words."""
        return moment(time, clock_ms=self.times_ms)

    def bare_time(self, time: int) -> str:
        """An event time or a watermark where its unit need not be said."""
        return bare(time, clock_ms=self.times_ms)

    def _indexed(self, table: str, *columns: str) -> Mapping[tuple[Any, ...], Sequence[RecordedRow]]:
        index: dict[tuple[Any, ...], list[RecordedRow]] = {}
        names = ("execution", "queue") if table == "items" else ("execution", "vertex", "instance")
        key_of = itemgetter(*names, *columns)
        for row in self.rows(table):
            index.setdefault(key_of(row), []).append(row)
        return index

    def vertex(self, name: str | None, error: type[WmlabError] = RecordingError) -> RecordedRow:
        """The vertex; raises `error` if there is none with that name."""
        if not isinstance(name, str) or name not in self.vertices:
            raise error(
                f"no vertex of {self.stream!r} is called {name!r}.", remedy=f"name one of: {', '.join(self.vertices)}."
            )
        return self.vertices[name]

    def instance_name(self, vertex: str, instance: int | None) -> str:
        """What an instance is called: the vertex alone where there is no other, or where none is named."""
        return instance_name(vertex, instance, self.vertices[vertex]["parallelism"])

    def into(self, vertex: str, instance: int, edge: int | None = None) -> list[RecordedRow]:
        """The queues into an instance, of one edge or of all, by edge and number."""
        queues = self._queues_at["target", vertex, instance]
        return [queue for queue in queues if edge in {None, queue["edge"]}]

    def out_of(self, vertex: str, instance: int) -> list[RecordedRow]:
        """The queues out of an instance."""
        return self._queues_at["source", vertex, instance]

    @cached_property
    def _queues_at(self) -> Mapping[tuple[str, str, int], list[RecordedRow]]:
        """The queues of which an instance is the source, in their order, and the target, by edge and number."""
        queues: defaultdict[tuple[str, str, int], list[RecordedRow]] = defaultdict(list)
        for queue in self.queues:
            queues["source", queue["source"], queue["source_instance"]].append(queue)
        for queue in sorted(self.queues, key=itemgetter("edge", "input")):
            queues["target", queue["target"], queue["target_instance"]].append(queue)
        return queues

    def keys(self, vertex: str) -> tuple[int, ...]:
        """The keys whose watermarks leave a vertex; of a sink, those that come."""
        come = {key for queue in self.queues if queue["target"] == vertex for key in queue["keys"]}
        return tuple(sorted(self.vertices[vertex]["keys"] or come))


def instance_name(vertex: str, instance: int | None, parallelism: int) -> str:
    """What an instance is called in sentences: its vertex, with its number where the vertex has several."""
    return vertex if instance is None or parallelism == 1 else f"{vertex}[{instance}]"


def read(row: str) -> dict[str, Any]:
    """A row of a table as column to value."""
    values: dict[str, Any] = json.loads(row)
    return values


def listing(values: Mapping[str, Any]) -> str:
    """A row as one reads it: "id 1, t 10"."""
    return ", ".join(f"{name} {value}" for name, value in values.items())


def _keyed(row: RecordedRow) -> RecordedRow:
    return {**row, "keys": dict(row["keys"])}


Asked = Literal["watermark", "window", "row"]
Kind = Literal[
    "slow",
    "idle",
    "ended",
    "no key",
    "on queue",
    "behind rows",
    "no room",
    "inside",
    "no bound",
    "no watermark",
    "clock",
    "mute",
    "batch",
]
IN_FLIGHT: Final = ("on queue", "behind rows", "no room", "inside")
"""The kinds of a watermark that has come, or what stands for it, and is on its way."""
_MOST_ROWS: Final = 20
_MOST_HOLDERS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """What holds a watermark back, at the place where it begins; times in ms, None if unknown or if there is none.

    `vertex`, `instance`, `partition` say where (the partition of a source, otherwise None; `parallelism` is how many
    instances the vertex has). `kind` is why: slow, idle, ended, no key (the input has no watermarks of `key`), on queue
    (it waits there since `last_ms`, to be taken by `queue_to`, behind `items_before` items), behind rows (it was taken
    at `last_ms`, and rows that were taken before are still worked on), no room (`items_before` items fill the queue to
    `queue_to` since `last_ms`), inside (work is in flight), no bound (a join never lets the key through), no watermark
    (the source sends none), clock (it follows the clock), mute (it is idle, and has not sent that), batch (a join reads
    all of it first).

    `mark` is its own watermark, `last_ms` when the last row came, `rejected` how many rows a filter of the source has
    rejected since. `needs_time` is the event time that would release it; where the clock moves it, a row after
    `row_after_ms` would. `idle_at_ms` is when it is left out as idle if nothing comes, `idle_since_ms` since when it
    is. `behind_by` is how far it is behind the next input, `end_helps` whether its end would release it. `through` are
    the vertices between it and the one explained.
    """

    vertex: str
    instance: int
    partition: int | None = None
    kind: Kind
    key: int
    mark: int | None = None
    last_ms: int | None = None
    rejected: int = 0
    needs_time: int | None = None
    row_after_ms: int | None = None
    idle_at_ms: int | None = None
    idle_since_ms: int | None = None
    behind_by: int | None = None
    end_helps: bool = True
    through: tuple[str, ...] = ()
    parallelism: int = 1
    queue_to: str | None = None
    items_before: int | None = None

    @property
    def name(self) -> str:
        """Where it is, in words."""
        if self.partition is not None:
            return f"partition {self.partition} of {self.vertex}"
        return instance_name(self.vertex, self.instance, self.parallelism)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class StateForecast(Answer):
    """Whether the state of an instance stays bounded: its size and peak by `at_ms`, in rows or accumulators.

    `since_ms` is when it last shrank (or began), `changed_ms` when it last changed, `rate_per_s` how fast it grew
    between; `limit_at_ms` when it reaches `limit` at that rate. `bounded` is None if unknown. `shrank`: it ever did.
    With `instance` None it is about all `parallelism` instances together, each of which has that limit.
    """

    vertex: str
    instance: int | None
    parallelism: int = 1
    at_ms: int
    size: int
    peak: int
    since_ms: int
    changed_ms: int
    rate_per_s: float
    shrank: bool
    limit: int | None = None
    limit_at_ms: int | None = None
    bounded: bool | None = None

    @property
    def together(self) -> bool:
        """Whether it is about several instances."""
        return self.instance is None and self.parallelism > 1

    @property
    def sentence(self) -> str:
        """The forecast in one sentence, without a full stop."""
        holds = f"{instance_name(self.vertex, self.instance, self.parallelism)} holds {grouped(self.size)}"
        most = f"at most {grouped(self.peak)} so far"
        if self.bounded:
            return f"{holds}, {most}, and shrinks whenever its watermark moves"
        if self.bounded is None:
            return f"{holds}, {most}, unchanged since {moment(self.changed_ms)}"
        since = f"since it last shrank at {moment(self.since_ms)}" if self.shrank else "and has never shrunk"
        rate = self.rate_per_s
        per_s = grouped(round(rate)) if rate >= 10 else f"{rate:.1f}".removesuffix(".0")
        grows = f"{holds} {since}, growing by {per_s} a second"
        if self.limit is None:
            return f"{grows}, without a limit"
        if self.together:
            return f"{grows}; each of its {self.parallelism} instances has a limit of {grouped(self.limit)}"
        if self.limit_at_ms is None:
            return f"{grows}; it has reached its limit of {grouped(self.limit)}"
        return f"{grows}: it reaches its limit of {grouped(self.limit)} at {moment(self.limit_at_ms)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedRow:
    """A row that was left out at `at_ms` (clock) by `rule`: its time lies `margin` below `limit`, both of `key`.

    `passed_ms` is when the watermark that decided had come; None if the recording does not tell.
    """

    vertex: str
    instance: int
    at_ms: int
    rule: str
    key: int
    time: int
    limit: int
    margin: int
    passed_ms: int | None
    row: dict[str, Any]

    @property
    def sentence(self) -> str:
        """The drop in one sentence, without a full stop."""
        late = ""
        if self.passed_ms is not None:
            before = span(self.at_ms - self.passed_ms, beside_ms=self.at_ms)
            late = f"; the watermark that decided had come at {moment(self.passed_ms)}, {before} before it"
        # Its limit comes from other rows, which have dates where the clock of the run has none.
        clock_ms = self.at_ms if is_instant([self.at_ms]) else self.limit
        time, limit = (moment(value, clock_ms=clock_ms) for value in (self.time, self.limit))
        margin = span(self.margin, beside_ms=_beside(self.time, clock_ms))
        return (
            f"dropped by the {self.rule} rule of {self.vertex} at {moment(self.at_ms)}: its time {time} is {margin} "
            f"below {limit}, the lowest that was still taken (key {self.key}){late}"
        )


def _beside(time: int, clock_ms: int) -> int:
    """A time beside which a duration is written, for `span`; instants change nothing."""
    return 0 if is_instant([time], clock=[clock_ms]) else time


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Drops(TableAnswer[DroppedRow]):
    """The rows that were left out, in the order of the clock."""

    stream: str
    rows: tuple[DroppedRow, ...]

    entries = "rows"
    heads = ("row", "vertex", "rule", "key", "at (ms)", "time", "limit", "late by", "passed at (ms)")
    left = (0, 1, 2)

    @property
    def sentence(self) -> str:
        """Who dropped how many and by how much, in one sentence."""
        if not self.rows:
            return f"No row was dropped in {self.stream}."
        if len(self.rows) == 1:
            return f"row ({listing(self.rows[0].row)}) was {self.rows[0].sentence}."
        margins: dict[tuple[str, str], list[int]] = {}
        for drop in self.rows:
            margins.setdefault((drop.rule, drop.vertex), []).append(drop.margin)
        parts = []
        for (rule, vertex), late_by in sorted(margins.items(), key=lambda entry: -len(entry[1])):
            ends = dict.fromkeys((span(min(late_by)), span(max(late_by))))
            parts.append(f"{grouped(len(late_by))} by the {rule} rule of {vertex}, late by {' to '.join(ends)}")
        return f"{counted(len(self.rows), 'row')} of {self.stream} were dropped: {listed(parts)}."

    def to_dict(self) -> dict[str, Any]:
        """The drops as dicts, lists and scalars."""
        return asdict(self) | {"sentence": self.sentence}

    def to_pandas(self) -> Any:
        """One row per drop as a pandas DataFrame, with the columns of `DroppedRow`; `row` as JSON."""
        names = [field.name for field in fields(DroppedRow)]
        columns = {name: [getattr(drop, name) for drop in self.rows] for name in names}
        columns["row"] = [json.dumps(row, ensure_ascii=False) for row in columns["row"]]
        return pa.table(columns).to_pandas(integer_object_nulls=True)

    def __repr__(self) -> str:
        shown = self.rows[:_MOST_ROWS] if len(self) > 1 else ()
        lines = [f"  row ({listing(drop.row)}) {drop.sentence}" for drop in shown]
        more = [f"  {grouped(len(self) - _MOST_ROWS)} more"] if len(self) > _MOST_ROWS else []
        return "\n".join([self.sentence, *lines, *more])

    def _rows(self) -> Iterator[tuple[Cell, ...]]:
        for drop in self.rows[:_MOST_ROWS]:
            numbers = drop.key, drop.at_ms, drop.time, drop.limit, drop.margin, drop.passed_ms
            yield f"row ({listing(drop.row)})", drop.vertex, drop.rule, *numbers


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Explanation(Answer):
    """Why a watermark, a window or a row stands where it does at `at_ms` (clock, ms).

    `asked` says which of them. `cause` is in one word what is the matter: held, moving, idle, ended, failed, stuck,
    came out, dropped, rejected, empty, waiting, gone or unknown. `watermark` is what has left `vertex` for `key`,
    `since_ms` when it last moved (for a window or a row: when it happened), `needed` the watermark that would release
    it. `holders` are those that keep it from there; `release_ms` is when it is released if nothing else happens. Each
    is None if unknown or if there is none. `drop` tells how a row was left out, `state` whether the vertex stays
    bounded.
    """

    at_ms: int
    stream: str
    asked: Asked
    vertex: str | None
    instance: int | None = None
    key: int | None = None
    cause: str
    watermark: int | None = None
    since_ms: int | None = None
    needed: int | None = None
    holders: tuple[Holder, ...] = ()
    release_ms: int | None = None
    drop: DroppedRow | None = None
    state: StateForecast | None = None
    sentence: str


def held_by(run: DataflowRun, holders: Sequence[Holder]) -> str:
    """Who holds it, and why, in one phrase; empty if nobody does."""
    if not holders:
        return ""
    texts = []
    for holder in holders[:_MOST_HOLDERS]:
        through = f" (through {listed(holder.through)})" if holder.through else ""
        texts.append(f"{holder.name}{through}: {_why(run, holder)}")
    left = len(holders) - _MOST_HOLDERS
    return "held by " + "; and by ".join(texts) + (f"; and by {grouped(left)} more" if left > 0 else "")


def _why(run: DataflowRun, holder: Holder) -> str:
    mark = "it has no watermark yet" if holder.mark is None else f"its watermark is {run.time(holder.mark)}"
    at_mark = idle_at = "without a watermark"
    if holder.mark is not None:
        at_mark, idle_at = f"at {run.time(holder.mark)}", f"at watermark {run.time(holder.mark)}"
    if holder.idle_since_ms is not None:
        idle_at = f"since {moment(holder.idle_since_ms)} {idle_at}"
    beside_ms = _beside(holder.mark or 0, run.times_ms)
    behind = f", {span(holder.behind_by, beside_ms=beside_ms)} behind the next" if holder.behind_by else ""
    inside = "the watermark has come and is still inside"
    if holder.last_ms is not None:
        inside = f"the watermark has come, but a call that began at {moment(holder.last_ms)} is in flight"
    elif run.vertices[holder.vertex]["kind"] == "source":
        inside = "its partitions are there, but it has not sent the watermark yet"
    elif run.vertices[holder.vertex]["kind"] == OWN_BY_INPUT:
        inside = "its inputs are there, but its function has not sent the watermark yet"
    return {
        "slow": f"{mark}{behind}, {_last(holder)}",
        "mute": f"{_last(holder)}, and it sends neither watermarks nor that it is idle",
        "idle": f"it is idle {idle_at}, {_last(holder)}",
        "ended": f"it has ended {at_mark}, and nothing more comes",
        "no key": f"it brings no watermarks of key {holder.key}, so the key is stuck while this input is neither idle "
        "nor done",
        "batch": "it is a batch, which the join reads to its end first, and it has not ended",
        "on queue": f"what would release it waits since {moment(holder.last_ms)} on its queue to {holder.queue_to}, "
        f"{_before(holder)}",
        "behind rows": f"the watermark came at {moment(holder.last_ms)} and waits for rows that were taken before it",
        "no room": f"the watermark has come, but its queue to {holder.queue_to} is full with "
        f"{counted(holder.items_before or 0, 'item')} since {moment(holder.last_ms)}",
        "inside": inside,
        "no bound": f"nothing of the other side bounds key {holder.key}, so the join never lets it through",
        "no watermark": "it sends no watermarks at all, its frame being 0",
        "clock": f"its watermark follows the clock and is {run.time(holder.mark)}",
    }[holder.kind]


def _before(holder: Holder) -> str:
    """Where on its queue it stands."""
    return f"behind {counted(holder.items_before, 'item')}" if holder.items_before else "the next to be taken"


def _last(holder: Holder) -> str:
    """When a row last came, and how many came since that the filter of the source rejected."""
    rows = counted(holder.rejected, "row")
    if holder.last_ms is None:
        return f"its filter has rejected all {rows}" if holder.rejected else "no row has come"
    rejected = f", {rows} since were rejected by its filter" if holder.rejected else ""
    return f"its last row came at {moment(holder.last_ms)}{rejected}"


def released_by(run: DataflowRun, holders: Sequence[Holder], at_ms: int | None) -> str:
    """What would release it, in one phrase; empty if nothing can be said."""
    idle = ""
    if at_ms is not None:
        who = "it is" if len(holders) == 1 else "the last of them is"
        clock = all(holder.kind == "clock" for holder in holders)
        idle = f"by the clock at {moment(at_ms)}" if clock else f"at {moment(at_ms)} when {who} left out as idle"
    ways = [way for way in (_events(run, holders), idle, _end(holders)) if way]
    return f"released {', or '.join(ways)}" if ways else ""


def _events(run: DataflowRun, holders: Sequence[Holder]) -> str:
    """Rows that would do it, one for each holder.

    All of them are needed, unless they are merely idle inputs of one merge: a join needs both of its sides.
    """
    needed = [holder for holder in holders if holder.kind in {"slow", "idle", "mute"}]
    if not needed or len(needed) < sum(holder.kind not in IN_FLIGHT for holder in holders):
        return ""
    idle = all(holder.kind != "slow" and holder.end_helps for holder in needed)
    names: dict[str, list[str]] = {}
    for holder in needed:
        column = run.vertices[holder.vertex]["keys"].get(holder.key)
        row = "a row"
        if holder.needs_time is not None and column is not None:
            row = f"a row with {column} ≥ {run.time(holder.needs_time)}"
        elif holder.row_after_ms is not None:
            row = f"a row after {moment(holder.row_after_ms)}"
        names.setdefault(row, []).append(holder.name)
    texts = []
    for row, senders in list(names.items())[:_MOST_HOLDERS]:
        more = [f"{grouped(len(senders) - _MOST_HOLDERS)} more"] if len(senders) > _MOST_HOLDERS else []
        among = f"{'any' if idle else 'each'} of " if len(senders) > 1 else ""
        texts.append(f"{row} in {among}{listed([*senders[:_MOST_HOLDERS], *more])}")
    return "by " + (" or " if idle else " and ").join(texts)


def _end(holders: Sequence[Holder]) -> str:
    """The inputs whose end would do it."""
    kinds = {holder.kind for holder in holders}
    if kinds & {"no bound", "ended"}:
        return ""
    if "batch" in kinds:
        return f"by the end of {listed(list(dict.fromkeys(h.name for h in holders if h.kind == 'batch')))}"
    if "no key" in kinds:
        stuck = dict.fromkeys(holder.name for holder in holders if holder.kind == "no key")
        return f"by {listed(list(stuck))} being idle or ending"
    sources = dict.fromkeys(holder.vertex for holder in holders if holder.kind in {"slow", "idle", "clock", "mute"})
    return f"by the end of {listed(list(sources))}" if sources and all(holder.end_helps for holder in holders) else ""
