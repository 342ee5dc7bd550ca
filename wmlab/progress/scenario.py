"""Query plans as validated values: sources that cut records into buffers, operators, workers; what goes wrong.

Names and defaults follow the design text of NebulaStream, "Watermarking and Progress". Every query is a plan of its
own, with its own origin ids; all queries share the workers.

A plan is a tree: sources are its leaves, logical streams its branches, the query its root. Each of them has a chain of
operators, any of which may be windows; a chain gets what comes out of all chains below it. Chains are cut into
pipelines: `Emit`, `Renumber`, `InOrder` and windows end one; what they hand on is a task of its own for the workers.
Every pipeline begins with a scan and, unless it feeds windows, ends with an emission, written down or not.

Origins are numbered as follows. Sources come first, in the order given; then the operators that give new sequence
numbers, `Renumber` and windows, each behind those that it reads.

Source: "Watermarking and Progress", the diagram of pipelines, ChunkNumber and OriginId.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag

from wmlab.core import traces
from wmlab.core.answers import Cell, as_lines, html_card
from wmlab.core.durations import duration_text
from wmlab.core.estimate import Cost
from wmlab.core.rules import OrName
from wmlab.core.scenario_file import ScenarioFile
from wmlab.core.values import (
    EACH_ONCE,
    MAX_MS,
    Flag,
    MeanMs,
    Ms,
    Name,
    Period,
    Problem,
    Start,
    branch,
    tagged,
    unknown,
    value,
)
from wmlab.progress.model.numbers import assign_origins
from wmlab.progress.model.windows import FiringRules, SlidingWindows, Trigger
from wmlab.progress.rules import Rules

PositiveCount = Annotated[int, Field(ge=1, le=1_000_000, strict=True)]


@tagged
class Scan:
    """Opens a pipeline: it reads the records of one buffer and leaves them as they are."""


@tagged
class Filter:
    """Keeps each record with probability `keep`; the draw belongs to the record, whatever the workers do.

    A buffer without records is passed on empty; otherwise its sequence would never be complete downstream.
    """

    keep: Annotated[float, Field(ge=0, le=1, strict=True)]


_RECORD_US: Final = 1.0
_BUFFER_US: Final = 63
_WINDOW_US: Final = 0.45
"""Microseconds that a record, the arrival of a buffer, and a record of a window take, as `growth` measured them."""


@tagged
class Projection:
    """Chooses and computes fields: each record becomes `growth` times as large, 2.0 when it doubles its fields."""

    growth: Annotated[float, Field(gt=0, le=1_000, strict=True)]


@tagged
class Emit:
    """Ends a pipeline without waiting: origin and sequence do not change, chunks are numbered as they are finished.

    A buffer that has outgrown `buffer_records` records of the size they had at the source becomes several. None: as
    many as the source's buffers hold; after windows: any number. Exactly one chunk of a sequence carries the last flag,
    that with the highest number: the one that closes the last missing input (upstream `EmitOperatorHandler`).
    """

    _: KW_ONLY
    buffer_records: PositiveCount | None = None


@tagged
class Renumber:
    """A blocking operator: it assigns new sequence numbers, under its own origin called `name`.

    It passes on a sequence, in one buffer, once the sequence is in the longest consecutive sequence of its origin;
    buffers after a gap that never closes are never passed on. The watermark is the smallest local one of all inputs,
    and nothing is emitted while one of them is silent ("Watermarking and Progress", ChunkNumber).
    """

    name: Name


@tagged
class InOrder:
    """Restores the order of each origin: buffers leave one at a time, by sequence and chunk, with unchanged numbers.

    A buffer that arrives too early waits for the missing ones before it (upstream `Sequencer`).
    """

    name: Name


@value
class Windowing:
    """What windows of both kinds have; `Aggregate` says what the fields mean."""

    size_ms: Period
    _: KW_ONLY
    slide_ms: Period | None = None


@tagged
class Aggregate(Windowing):
    """Counts records in windows of `size_ms`, sliding by `slide_ms` (None: tumbling), under an origin of its own.

    A fired window becomes one record with the key 0 and the window's start as time. When a window fires is the option
    `trigger` of the rules.
    """


@tagged
class Join(Windowing):
    """Joins records of equal keys in windows of `size_ms`, sliding by `slide_ms` (None: tumbling).

    The sources and logical streams named in `left` (none: the first one) build the left side, all others the right. A
    window fires when the global watermark over both sides allows; then each pair of slices is a task of the probe side,
    which emits one or more chunks of the window. Each pair of records becomes one record with their key, whose time is
    the start of the window. When a window fires is the option `trigger` of the rules, and which watermark an output has
    the option `carries`.
    """

    _: KW_ONLY
    left: Annotated[tuple[Name, ...], EACH_ONCE] = ()


PlanOperator = Annotated[
    Scan | Filter | Projection | Emit | Renumber | InOrder | Aggregate | Join, Field(discriminator="kind")
]
"""Any operator of a chain."""


def _not_by_name(offered: object) -> object:
    if offered == "when full":
        raise ValueError('leave it out, and give the scenario rules=wm.progress.Rules(sends="when full")')
    return offered


@value
class Source:
    """A source: it receives records, cuts them into buffers and numbers these 1, 2, ... without a gap.

    Its records are synthetic (`rate_per_s` a second at random), those of a real `trace` (a name or a file) whose writer
    has this source's name, or listed as `times_ms`, all in simulated time counted from the start; a trace has its own.
    Listed `rows` have several fields, named by the schema `columns`: `event_time` chooses the one that is the time of a
    record, in units of `unit_ms`, and `arrival` the one that says when it is received, in ms, both from the start.
    Without `arrival` a record is received when it happens, without `event_time` it happens when it is received.
    A record happens, and is received after an exponential delay of mean `delay_mean_ms` (never before an earlier one,
    the source being in order) and `lag_ms` more. `disorder_ms` breaks that order: each record happened up to that much
    earlier than it should have.

    A buffer is sent when it holds `buffer_records`, or `flush_every_ms` after its first record (None: as the option
    `sends` of the rules has it). `stamp` chooses the watermark: the largest event time of the buffer, less
    `allowed_lateness_ms`, or its creation time. Where it is set is the option `stamped` of the rules. Each record has
    one of `keys` keys, drawn at random; a trace has its own. `operators` is the chain that only the buffers of this
    source pass.
    """

    name: Name
    _: KW_ONLY
    rate_per_s: Annotated[float, Field(ge=0, le=1_000_000, strict=True)] | None = None
    trace: str | None = None
    times_ms: tuple[Ms, ...] | None = None
    rows: tuple[tuple[Ms, ...], ...] | None = None
    columns: Annotated[tuple[Name, ...], EACH_ONCE] = ()
    event_time: Name | None = None
    unit_ms: Period = 1
    arrival: Name | None = None
    delay_mean_ms: MeanMs = 0.0
    lag_ms: Ms = 0
    disorder_ms: Ms = 0
    buffer_records: PositiveCount = 64
    flush_every_ms: Annotated[Period | None, BeforeValidator(_not_by_name)] = None
    stamp: Literal["event_time", "ingestion_time"] = "event_time"
    allowed_lateness_ms: Ms = 0
    keys: Annotated[int, Field(ge=1, le=1_000_000, strict=True)] = 1
    operators: tuple[PlanOperator, ...] = ()

    def _problems(self) -> Iterator[Problem]:
        origins = [name for name in ("rate_per_s", "trace", "times_ms", "rows") if getattr(self, name) is not None]
        if len(origins) != 1:
            yield Problem(
                ("rate_per_s",),
                f"give one of rate_per_s, trace, times_ms and rows (got {' and '.join(origins) or 'none'})",
            )
            return
        if self.trace is not None and (self.delay_mean_ms or self.disorder_ms):
            yield Problem(("trace",), "a trace has its own times; leave delay_mean_ms and disorder_ms out")
        if self.trace is not None and self.keys > 1:
            yield Problem(("keys",), "a trace has its own keys; leave keys out")
        yield from self._schema_problems()

    def _schema_problems(self) -> Iterator[Problem]:
        """Rows that do not fit the schema, and fields that are not in it."""
        for number, row in enumerate(self.rows or ()):
            if len(row) != len(self.columns):
                yield Problem(("rows", number), f"has {len(row)} values for {len(self.columns)} columns (got {row!r})")
                return
        largest = max((time for row in self.rows or () for time in row), default=0)
        if largest * self.unit_ms > MAX_MS:
            yield Problem(("unit_ms",), f"makes the time {largest} longer than {MAX_MS} ms (got {self.unit_ms})")
        for name in ("event_time", "arrival"):
            yield from unknown((name,), "column", getattr(self, name), self.columns)
        if self.rows is None and (self.columns or self.arrival or self.event_time):
            yield Problem(("arrival",), "a schema belongs to rows; leave columns, event_time and arrival out")
        elif self.rows is not None and self.event_time is None and self.arrival is None:
            yield Problem(("event_time",), "name the column that is the time of a record, or its arrival")


_PHYSICAL, _LOGICAL = branch("source"), branch("logical stream")


def _which_input(raw: object) -> str:
    """Whether a value is a source or a logical stream, which has sources."""
    sources = "sources" in raw if isinstance(raw, Mapping) else isinstance(raw, LogicalStream)
    return _LOGICAL if sources else _PHYSICAL


_PlanInput = Annotated[
    Annotated[Source, Tag(_PHYSICAL)] | Annotated["LogicalStream", Tag(_LOGICAL)], Discriminator(_which_input)
]


@value
class LogicalStream:
    """A stream by its name, which queries read: what its `sources` receive, "the sources `trucks` and `cars`" in one
    "called `vehicles`".

    Each source has its own origin, in every query plan that reads the stream. Several queries may name the same logical
    stream; each then has its own buffers of the same records, with the same faults. `operators` is the chain that the
    buffers of all its sources pass before the rest of the plan reads them.

    Source: "Watermarking and Progress", OriginId.
    """

    name: Name
    _: KW_ONLY
    sources: Annotated[tuple[_PlanInput, ...], Field(min_length=1, max_length=1_000)]
    operators: tuple[PlanOperator, ...] = ()

    def _problems(self) -> Iterator[Problem]:
        yield from _join_problems(self)


@value
class Query:
    """One query plan: its sources are origins 1, 2, ... in the order given, its blocking operators the next ones.

    An entry of `sources` is a source, or a `LogicalStream` whose sources count one by one. `operators` is the chain
    that the buffers of all sources pass after their own chains, up to the sink; a `Renumber` or a window there combines
    them into one origin. A join over a join reads a logical stream that has the first join as its operator. The names
    of sources, streams and named operators must differ from each other.
    """

    name: Name
    _: KW_ONLY
    sources: Annotated[tuple[_PlanInput, ...], Field(min_length=1, max_length=1_000)]
    operators: tuple[PlanOperator, ...] = ()

    @property
    def parts_by_path(self) -> tuple[tuple[tuple[str | int, ...], Source | LogicalStream], ...]:
        """All its sources and logical streams, each by its path in the query; a stream before its sources."""
        return tuple(_parts(self, ()))

    @property
    def sources_by_path(self) -> tuple[tuple[tuple[str | int, ...], Source], ...]:
        """Its physical sources in the order of their origins, each by its path in the query."""
        return tuple((path, part) for path, part in self.parts_by_path if isinstance(part, Source))

    @property
    def physical(self) -> tuple[Source, ...]:
        """Its physical sources, in the order of their origins."""
        return tuple(source for _, source in self.sources_by_path)

    def _problems(self) -> Iterator[Problem]:
        yield from _name_problems(self)
        yield from _join_problems(self)


Branch = LogicalStream | Query
"""What has sources."""


def _parts(
    branch: Branch, path: tuple[str | int, ...]
) -> Iterator[tuple[tuple[str | int, ...], Source | LogicalStream]]:
    for number, entry in enumerate(branch.sources):
        within = (*path, "sources", number)
        yield within, entry
        if isinstance(entry, LogicalStream):
            yield from _parts(entry, within)


def _name_problems(query: Query) -> Iterator[Problem]:
    """Names that are taken within a query; its sources are compared with those of others by the whole scenario."""
    reserved = {SCAN, SINK, *windows_of(query), *map(probe_of, windows_of(query)), BUILD, PROBE}
    taken = {part.name for _, part in query.parts_by_path} | reserved
    for path, part in query.parts_by_path:
        if part.name in reserved:
            yield Problem((*path, "name"), f"{part.name!r} is what wmlab calls an operator")
    chains: list[tuple[tuple[str | int, ...], Source | Branch]] = [*query.parts_by_path, ((), query)]
    for path, owner in chains:
        for number, operator in enumerate(owner.operators):
            name = getattr(operator, "name", None)
            if name in taken:
                yield Problem((*path, "operators", number, "name"), f"another part of the query is called {name!r} too")
            taken |= {name} if name else set()
            if isinstance(owner, Source) and isinstance(operator, Join):
                yield Problem(
                    (*path, "operators", number),
                    "a join needs at least two sources; give it to the query or to a logical stream",
                )


def _shared_names(queries: Sequence[Query]) -> set[str]:
    """The names that several parts have; those of a logical stream that several queries read are the same parts."""
    owners: defaultdict[str, set[object]] = defaultdict(set)
    for number, query in enumerate(queries):
        times = Counter[str]()
        for path, part in query.parts_by_path:
            entry, times[part.name] = query.sources[int(path[1])], times[part.name] + 1
            shared = isinstance(entry, LogicalStream)
            owners[part.name].add((entry, path[2:], times[part.name]) if shared else (number, path))
    return {name for name, uses in owners.items() if len(uses) > 1}


def _join_problems(branch: Branch) -> Iterator[Problem]:
    """A join that has one side only."""
    sources = {part.name for _, part in _parts(branch, ()) if isinstance(part, Source)}
    parts = sorted(_distinguished(branch), key=lambda part: isinstance(part, LogicalStream))
    for number, operator in enumerate(branch.operators):
        if not isinstance(operator, Join):
            continue
        path = ("operators", number)
        if len(branch.sources) == 1:
            yield Problem(("sources",), f"a join needs at least two sources (got {branch.sources[0].name!r} alone)")
        elif sources <= sources_of(branch, operator.left):
            yield Problem((*path, "left"), "no source is left for the right side of the join")
        for index, name in enumerate(operator.left):
            yield from unknown((*path, "left", index), "source", name, [part.name for part in parts])
        for before, earlier in enumerate(branch.operators[:number]):
            if isinstance(earlier, Renumber | Windowing):
                yield Problem(("operators", before), "it makes one origin of both sides of the join")


def _distinguished(branch: Branch) -> Iterator[Source | LogicalStream]:
    """The sources and streams that an operator of a branch can tell apart: nothing below made one origin of them."""
    for entry in branch.sources:
        yield entry
        if isinstance(entry, LogicalStream) and not any(isinstance(o, Renumber | Windowing) for o in entry.operators):
            yield from _distinguished(entry)


def sources_of(branch: Branch, names: Sequence[str]) -> set[str]:
    """The physical sources that are named, or are in a logical stream that is; those of the first entry if none is."""
    names_of_sources: set[str] = set()
    for entry in branch.sources:
        named = entry.name in names or (not names and entry is branch.sources[0])
        if isinstance(entry, Source):
            names_of_sources |= {entry.name} if named else set()
        elif named:
            names_of_sources |= {part.name for _, part in _parts(entry, ()) if isinstance(part, Source)}
        elif names:
            names_of_sources |= sources_of(entry, names)
    return names_of_sources


@value
class Workers:
    """The pool: `count` threads that execute one buffer at a time, first come, first served.

    The time a buffer takes is drawn with mean `service_mean_ms`: exponential, lognormal (sigma 1) or constant. Any
    spread makes workers overtake each other. With event time, the first pipeline of a buffer takes
    `event_time_record_ms` more per record, because it reads all records to find the largest time; with ingestion time
    it does not.

    Source: "Watermarking and Progress", Watermark Timestamp ("has to iterate over all tuples").
    """

    count: Annotated[int, Field(ge=1, le=1_000, strict=True)] = 4
    _: KW_ONLY
    service_mean_ms: MeanMs = 5.0
    service: Literal["exponential", "lognormal", "constant"] = "exponential"
    event_time_record_ms: MeanMs = 0.0


FaultyChunk = Annotated[int, Field(ge=0, le=1_000_000, strict=True)] | None
"""The chunk of a buffer that a fault happens to, behind the first `Emit`; None: the whole buffer, at the source."""


@value
class BufferFault:
    """The base of what can happen to a buffer, or to one chunk of it, on its way to the workers."""

    source: str
    sequence: PositiveCount
    _: KW_ONLY
    chunk: FaultyChunk = None


@tagged
class LoseBuffer(BufferFault):
    """A buffer, or one of its chunks, never reaches a worker; all later buffers of the origin wait for ever."""


@tagged
class DelayBuffer(BufferFault):
    """A buffer, or one of its chunks, reaches the workers `by_ms` after it was sent."""

    by_ms: Period


@tagged
class DuplicateBuffer(BufferFault):
    """A buffer, or one of its chunks, is sent twice, the second time `after_ms` after the first.

    Its records then count twice in windows. A tracker that uses the set of chunks detects the repetition; a tracker
    that counts treats the sequence as complete too early.
    """

    _: KW_ONLY
    after_ms: Ms = 0


@tagged
class EmptyBuffer:
    """The filter removes all records of a buffer; the empty buffer is still sent, to keep the chain of numbers."""

    source: str
    sequence: PositiveCount


@tagged
class SilenceSource:
    """A source receives nothing from `at_ms` on; with 0 it never sends. It does not end, either."""

    source: str
    _: KW_ONLY
    at_ms: Ms = 0


@tagged
class StallWorker:
    """A worker stops for `for_ms`, with the buffer it holds; workers are numbered from 1."""

    worker: PositiveCount
    _: KW_ONLY
    at_ms: Ms
    for_ms: Period


PlanAction = Annotated[
    LoseBuffer | DelayBuffer | DuplicateBuffer | EmptyBuffer | SilenceSource | StallWorker, Field(discriminator="kind")
]
"""Any entry of a plan scenario's script."""


SCAN: Final = "scan"
BUILD: Final = "build"
PROBE: Final = "probe"
SINK: Final = "sink"
"""The operators of a plan that have no names of their own; the second windows of a query are "build-2", "probe-2"."""


def probe_of(build: str) -> str:
    """The name of the probe side of windows, by that of their build side, which names them."""
    return build.replace(BUILD, PROBE, 1)


def is_build(operator: str) -> bool:
    """Whether an operator is the build side of windows."""
    return operator == BUILD or operator.startswith(f"{BUILD}-")


def last_of(operators: Iterable[str]) -> str:
    """The build side of the last windows among operators, or the sink."""
    return max((name for name in operators if is_build(name)), key=lambda name: (len(name), name), default=SINK)


def windows_of(query: Query) -> list[str]:
    """The names of all windows of a query: "build", "build-2", ... in the order of their origins."""
    return [*windowing_of(query)]


def windowing_of(query: Query) -> dict[str, Aggregate | Join]:
    """The operators of a query that have windows, by the names of these."""
    operators = [
        operator for part in _upwards(query) for operator in part.operators if isinstance(operator, Aggregate | Join)
    ]
    return {BUILD if number == 1 else f"{BUILD}-{number}": operator for number, operator in enumerate(operators, 1)}


def firing_rules_of(part: Aggregate | Join, trigger: Trigger) -> FiringRules:
    """The windows of an operator, and when they fire."""
    return FiringRules(windows=SlidingWindows(part.size_ms, part.slide_ms or part.size_ms), trigger=trigger)


def _upwards(part: Source | Branch) -> Iterator[Source | Branch]:
    """A part and all those below it, each behind those that it reads."""
    for entry in () if isinstance(part, Source) else part.sources:
        yield from _upwards(entry)
    yield part


@dataclass(frozen=True, slots=True)
class Origins:
    """The origin id of every emitter, and the ids that each operator which follows progress has declared.

    `chains` has the operators of each part with the names under which they follow progress, empty for those that do
    not; `left` the origins on the left side of each join. `last` is the last operator through which everything comes
    that has windows or, without one, the sink: its watermark is that of the query.
    """

    ids: Mapping[str, int]
    inputs: Mapping[str, tuple[int, ...]]
    chains: Mapping[str, Sequence[tuple[PlanOperator, str]]]
    left: Mapping[str, frozenset[int]]
    last: str

    def chain(self, part: Source | Branch) -> Sequence[tuple[PlanOperator, str]]:
        """The operators of a part of the query, or of the query's own chain."""
        return self.chains[_key_of(part)]

    @property
    def emitters(self) -> dict[int, str]:
        """The name of every origin."""
        return {number: name for name, number in self.ids.items()}


def _key_of(part: Source | Branch) -> str:
    """The key of a part in `Origins.chains`; a query may have the name of one of its sources."""
    return "" if isinstance(part, Query) else part.name


def origins_of(query: Query) -> Origins:
    """The origins of a query plan."""
    windows = iter(windows_of(query))
    chains: dict[str, list[tuple[PlanOperator, str]]] = {}
    emitters = [source.name for source in query.physical]
    for part in _upwards(query):
        chain = [(o, next(windows) if isinstance(o, Windowing) else getattr(o, "name", "")) for o in part.operators]
        chains[_key_of(part)] = chain
        emitters += [name for operator, name in chain if isinstance(operator, Renumber | Windowing)]
    ids = assign_origins(emitters)
    inputs: dict[str, tuple[int, ...]] = {SCAN: tuple(ids[source.name] for source in query.physical)}
    left: dict[str, frozenset[int]] = {}

    def follow(part: Source | Branch) -> tuple[dict[str, int], str]:
        """The origin under which each source comes out of a chain, and the last windows that all came through."""
        last = SINK
        if isinstance(part, Source):
            origins = {part.name: ids[part.name]}
        else:
            below = [follow(entry) for entry in part.sources]
            origins = {name: origin for entry, _ in below for name, origin in entry.items()}
            last = below[0][1] if len(below) == 1 else SINK
        for operator, name in chains[_key_of(part)]:
            if name:
                inputs[name] = tuple(dict.fromkeys(origins.values()))
            if isinstance(operator, Join) and not isinstance(part, Source):
                left[name] = frozenset(origins[source] for source in sources_of(part, operator.left))
            if isinstance(operator, Windowing):
                inputs[probe_of(name)], last = (ids[name],), name
            if isinstance(operator, Renumber | Windowing):
                origins = dict.fromkeys(origins, ids[name])
        return origins, last

    merged, last = follow(query)
    inputs[SINK] = tuple(dict.fromkeys(merged.values()))
    return Origins(ids, inputs, chains, left, last)


@value
class ProgressScenario(ScenarioFile, only_field="queries", users_call_it="wm.progress.PlanScenario"):
    """Queries, the workers that execute them, and the faults.

    `duration_ms` is how long the sources receive records, in simulated time; then they end, the workers finish their
    buffers, and `flush_at_end` fires the remaining windows. `start_ms` is the clock at the start, zero or, for a real
    trace, a moment in milliseconds since 1970. `rules` is a set of rules, "design", "implementation", "sound" or
    "diagram", or `Rules` with other options; `options` shows what is in effect. All randomness comes from `seed`: the
    same scenario always gives the same recording.
    """

    name: Annotated[str, Field(min_length=1, max_length=200)]
    _: KW_ONLY
    queries: Annotated[tuple[Query, ...], Field(min_length=1, max_length=1_000)]
    workers: Workers = Workers()
    script: tuple[PlanAction, ...] = ()
    duration_ms: Period
    start_ms: Start = 0
    flush_at_end: Flag = True
    rules: OrName[Rules] = Rules()
    rule_set = Rules
    seed: Annotated[int, Field(ge=0, lt=2**63, strict=True)] = 0

    def _problems(self) -> Iterator[Problem]:
        queries, shared = Counter(query.name for query in self.queries), _shared_names(self.queries)
        for number, query in enumerate(self.queries):
            if queries[query.name] > 1:
                yield Problem(("queries", number, "name"), f"another query is called {query.name!r} too")
            for path, part in query.parts_by_path:
                if part.name in shared:
                    yield Problem(("queries", number, *path, "name"), f"another source is called {part.name!r} too")
        yield from _script_problems(self, {source.name for query in self.queries for source in query.physical})

    def _costs(self) -> Iterator[Cost]:
        """Records, buffers at all operators, and the windows that records belong to."""
        logs = traces.load_each(source.trace for query in self.queries for source in query.physical)
        for number, query in enumerate(self.queries):
            total = 0
            for path, source in query.sources_by_path:
                field = Problem(("queries", number, *path), "").path
                if source.trace is not None:
                    records, named = logs[source.trace].rows, "trace"
                elif source.rate_per_s is None:
                    named = "rows" if source.times_ms is None else "times_ms"
                    records = len(source.rows or source.times_ms or ())
                else:
                    records, named = int(source.rate_per_s * self.duration_ms / 1_000), "rate_per_s"
                yield Cost.of_events(f"{field}.{named}", records, _RECORD_US)
                flush_ms = source.flush_every_ms or self.rules.flush_every_ms
                flushes = 0 if flush_ms is None else self.duration_ms // flush_ms
                buffers = min(records, records // source.buffer_records + flushes + 1)
                # An operator of a pipeline costs next to nothing; one that waits, and what it makes larger, does.
                chunks = math.prod(
                    max(1, math.ceil(part.growth)) for part in source.operators if isinstance(part, Projection)
                )
                arrivals = buffers * chunks * (1 + len(query.operators))
                yield Cost("buffers", f"{field}.buffer_records", arrivals, 3_000, _BUFFER_US)
                total += records
            for path, part in (*query.parts_by_path, ((), query)):
                for index, windows in enumerate(part.operators):
                    if isinstance(windows, Windowing):
                        shared = -(-windows.size_ms // (windows.slide_ms or windows.size_ms))
                        field = Problem(("queries", number, *path, "operators", index, "slide_ms"), "").path
                        yield Cost("windows", field, total * shared, 100, _WINDOW_US)

    def _repr_html_(self) -> str:
        rows: list[tuple[str, Cell]] = [(query.name, _summary(query)) for query in self.queries]
        rows += [
            ("workers", f"{self.workers.count}, {self.workers.service_mean_ms:g} ms a buffer ({self.workers.service})"),
            ("script", as_lines(repr(action) for action in self.script)),
            ("duration", f"{duration_text(self.duration_ms)}, seed {self.seed}"),
            *([("rules", str(self.rules))] if self.rules != Rules() else []),
        ]
        return html_card(f"Scenario “{self.name}”", rows)


def _summary(part: Source | Branch) -> str:
    begin = part.name if isinstance(part, Source) else ", ".join(map(_summary, part.sources))
    begin = f"{part.name} ({begin})" if isinstance(part, LogicalStream) else begin
    return " → ".join([begin, *map(repr, part.operators)])


def _script_problems(scenario: ProgressScenario, sources: set[str]) -> Iterator[Problem]:
    """Faults of a source or a worker that is not there. Any other that cannot happen is an incident of the run."""
    for number, action in enumerate(scenario.script):
        if not isinstance(action, StallWorker):
            yield from unknown(("script", number, "source"), "source", action.source, sorted(sources))
        elif action.worker > scenario.workers.count:
            yield Problem(
                ("script", number, "worker"), f"there are workers 1 to {scenario.workers.count} (got {action.worker})"
            )
