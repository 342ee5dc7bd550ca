"""Query plans as validated values: sources that cut records into buffers, operators, workers; what goes wrong.

Names and defaults follow the design text of NebulaStream, "Watermarking and Progress". Every query is a plan of its
own, with its own origin ids; all queries share the workers.

Operators stand between the sources, the windows and the sink of a plan. A chain of them is cut into pipelines: `Emit`,
`Renumber` and `InOrder` end one, and what they hand on is a task of its own for the workers. Every pipeline begins with
a scan and, unless it feeds windows, ends with an emission, written down or not.

Origins are numbered as follows. Sources come first, in the order given; then the blocking operators: those of the
sources' own chains, those over all sources, the windows, and those behind them.

Source: "Watermarking and Progress", the diagram of pipelines, ChunkNumber and OriginId.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Final, Literal, Self, get_args

from pydantic import Discriminator, Field, Tag

from wmlab.core import traces
from wmlab.core.answers import Cell, as_lines, html_card
from wmlab.core.durations import duration_text
from wmlab.core.estimate import Cost
from wmlab.core.recording import Recording
from wmlab.core.scenario_file import ScenarioFile
from wmlab.core.values import (
    EACH_ONCE,
    MAX_MS,
    UNSET,
    Flag,
    MeanMs,
    Ms,
    Name,
    Option,
    Period,
    Problem,
    Rules,
    Start,
    branch,
    resolved,
    tagged,
    unknown,
    value,
)
from wmlab.core.words import counted
from wmlab.progress.model.numbers import assign_origins
from wmlab.progress.model.tracker import ProgressRules

PlanRules = Literal[Rules, "diagram"]
"""The rules that every kind of scenario has, and what the diagram of the design needs."""
PositiveCount = Annotated[int, Field(ge=1, le=1_000_000, strict=True)]


@tagged
class Scan:
    """Opens a pipeline: it reads the records of one buffer and leaves them as they are."""


@tagged
class Filter:
    """Keeps each record with probability `keep`; chance goes with the record, whatever the workers do.

    A buffer of which nothing is left is handed on empty, or its sequence would never be complete downstream.
    """

    keep: Annotated[float, Field(ge=0, le=1, strict=True)]


_RECORD_US: Final = 1.0
_BUFFER_US: Final = 63
_WINDOW_US: Final = 0.45
"""Microseconds that a record, the arrival of a buffer, and a record of a window take, as `growth` measured them."""


@tagged
class Map:
    """A projection: each record becomes `growth` times as large, 2.0 when it doubles its fields."""

    growth: Annotated[float, Field(gt=0, le=1_000, strict=True)]


@tagged
class Emit:
    """Ends a pipeline without waiting: origin and sequence stay, chunks are numbered as they are made.

    A buffer that has outgrown `buffer_records` records of the size they had at the source becomes several. None: as
    many as the source's buffers hold; behind windows: any number. Exactly one chunk of a sequence carries the last
    flag, that with the highest number: the one that closes the last missing input (upstream `EmitOperatorHandler`).
    """

    _: KW_ONLY
    buffer_records: PositiveCount | None = None


@tagged
class Renumber:
    """A blocking operator: it gives new sequence numbers, under an origin of its own called `name`.

    It hands a sequence on, in one buffer, once that lies in the longest consecutive sequence of its origin; what
    comes beyond a gap that never closes is never handed on. The watermark is the smallest local one of all inputs, and
    nothing goes out while one of them is silent ("Watermarking and Progress", ChunkNumber).
    """

    name: Name


@tagged
class InOrder:
    """Restores the order of each origin: buffers go on one at a time, by sequence and chunk, identifiers unchanged.

    `policy`: `keep` parks what comes too early; `drop` parks only the newest and forgets what is older than what was
    handled, so that sequences are missing downstream (upstream `Sequencer`).
    """

    name: Name
    _: KW_ONLY
    policy: Literal["keep", "drop"] = "keep"


PlanOperator = Annotated[Scan | Filter | Map | Emit | Renumber | InOrder, Field(discriminator="kind")]
"""Any operator between the sources and the windows or the sink."""
OutputOperator = Annotated[Scan | Map | Emit | Renumber | InOrder, Field(discriminator="kind")]
"""Any operator behind windows."""


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

    A buffer is sent when it holds `buffer_records`, or `flush_every_ms` after its first record (None: only when full).
    `stamp` chooses the watermark: the largest event time of the buffer, less `allowed_lateness_ms`, or its creation
    time. `stamped` says where:
    at the source, or at the end of the first pipeline (`filter`) as in the engine, where a buffer without a record left
    gets 0. Each record has one of `keys` keys, drawn at random; a trace has its own.
    `operators` is the chain that the buffers of this source go through on their own.
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
    flush_every_ms: Period | None = 1_000
    stamp: Literal["event_time", "ingestion_time"] = "event_time"
    allowed_lateness_ms: Ms = 0
    stamped: Option[Literal["source", "filter"]] = UNSET
    keys: Annotated[int, Field(ge=1, le=1_000_000, strict=True)] = 1
    operators: tuple[PlanOperator, ...] = ()

    def _problems(self) -> Iterator[Problem]:
        origins = [name for name in ("rate_per_s", "trace", "times_ms", "rows") if getattr(self, name) is not None]
        if len(origins) != 1:
            message = f"give one of rate_per_s, trace, times_ms and rows (got {' and '.join(origins) or 'none'})"
            yield Problem(("rate_per_s",), message)
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


@value
class LogicalStream:
    """A stream by its name, which queries read: what its physical `sources` receive, "the sources `trucks` and `cars`
    in a stream called `vehicles`".

    Each source keeps an origin of its own, in every query plan that reads the stream. Several queries may name the same
    logical stream; each then has its own buffers of the same records, with the same faults.

    Source: "Watermarking and Progress", OriginId.
    """

    name: Name
    _: KW_ONLY
    sources: Annotated[tuple[Source, ...], Field(min_length=1, max_length=1_000)]


_PHYSICAL, _LOGICAL = branch("source"), branch("logical stream")


def _which_input(raw: object) -> str:
    """Whether a value is a source or a logical stream, which has sources."""
    sources = "sources" in raw if isinstance(raw, Mapping) else isinstance(raw, LogicalStream)
    return _LOGICAL if sources else _PHYSICAL


_QueryInput = Annotated[
    Annotated[Source, Tag(_PHYSICAL)] | Annotated[LogicalStream, Tag(_LOGICAL)], Discriminator(_which_input)
]


@value
class Windowing:
    """What windows of both kinds have; `Aggregate` says what the fields mean."""

    size_ms: Period
    _: KW_ONLY
    slide_ms: Period | None = None
    trigger: Option[Literal["strict", "exact"]] = UNSET
    emit_lag_ms: Ms = 0


@tagged
class Aggregate(Windowing):
    """Counts records in windows of `size_ms`, sliding by `slide_ms` (None: tumbling).

    `trigger`: `exact` fires a window when its end is at most the global watermark, for no record with a time below it
    is still to come, as the text says; `strict` when its end is before it, as the engine does, which waits for a later
    watermark. `emit_lag_ms` is taken off the watermark first.
    """


@tagged
class Join(Windowing):
    """Joins records of equal keys in windows of `size_ms`, sliding by `slide_ms` (None: tumbling).

    The sources and logical streams named in `left` (none: what comes first) build the left side, all others the right.
    A window fires when the global watermark over both sides allows; then each pair of slices is a task of the probe
    side, which puts out one chunk of the window or more. `carries`: an output has the `start` of its window as
    watermark, as the engine does, or the `largest` time of the records of its two slices, as in the diagram of the
    text; then chunks of one window differ, and later windows may bring results below it. `trigger` and `emit_lag_ms`
    are as in `Aggregate`.
    """

    _: KW_ONLY
    left: Annotated[tuple[Name, ...], EACH_ONCE] = ()
    carries: Option[Literal["start", "largest"]] = UNSET


WindowOperator = Annotated[Aggregate | Join, Field(discriminator="kind")]
"""Any operator with windows."""


@value
class Query:
    """One query plan: its sources are origins 1, 2, ... in the order given, its blocking operators the next ones.

    An entry of `sources` is a source, or a `LogicalStream` whose sources count one by one.
    `operators` is the chain that the buffers of all sources go through behind their own; a `Renumber` there makes one
    origin of all. `window` is what they come to, and `output` the chain behind it. Without a window buffers go to the
    sink. Names of sources and of operators that have one differ from each other.
    """

    name: Name
    _: KW_ONLY
    sources: Annotated[tuple[_QueryInput, ...], Field(min_length=1, max_length=1_000)]
    operators: tuple[PlanOperator, ...] = ()
    window: WindowOperator | None = None
    output: tuple[OutputOperator, ...] = ()

    @property
    def inputs_by_path(self) -> tuple[tuple[tuple[str | int, ...], Source | LogicalStream], ...]:
        """Its sources and logical streams in order, each by its path in the query; a stream before its sources."""
        inputs: list[tuple[tuple[str | int, ...], Source | LogicalStream]] = []
        for number, entry in enumerate(self.sources):
            path = ("sources", number)
            inputs.append((path, entry))
            if isinstance(entry, LogicalStream):
                inputs += (((*path, "sources", index), source) for index, source in enumerate(entry.sources))
        return tuple(inputs)

    @property
    def sources_by_path(self) -> tuple[tuple[tuple[str | int, ...], Source], ...]:
        """Its physical sources in the order of their origins, each by its path in the query."""
        return tuple((path, part) for path, part in self.inputs_by_path if isinstance(part, Source))

    @property
    def physical(self) -> tuple[Source, ...]:
        """Its physical sources, in the order of their origins."""
        return tuple(source for _, source in self.sources_by_path)

    @property
    def streams(self) -> dict[str, str]:
        """The logical stream of each source that is in one, by their names."""
        logical = (entry for entry in self.sources if isinstance(entry, LogicalStream))
        return {source.name: entry.name for entry in logical for source in entry.sources}

    @property
    def left(self) -> frozenset[str]:
        """The sources that build the left side of a join."""
        named = self.window.left if isinstance(self.window, Join) else ()
        named = named or (self.sources[0].name,)
        return frozenset(
            source.name for source in self.physical if source.name in named or self.streams.get(source.name) in named
        )

    def _problems(self) -> Iterator[Problem]:
        yield from _name_problems(self)
        yield from _join_problems(self)
        if self.output and self.window is None:
            yield Problem(("output",), "there is no window; give these operators as operators")


def _name_problems(query: Query) -> Iterator[Problem]:
    """Names that are taken within a query; its sources are compared with those of others by the whole scenario."""
    taken = {part.name for _, part in query.inputs_by_path} | set(RESERVED)
    for path, part in query.inputs_by_path:
        if part.name in RESERVED:
            yield Problem((*path, "name"), f"{part.name!r} is what wmlab calls an operator")
    chains: list[tuple[tuple[str | int, ...], Sequence[object]]] = [
        *(((*path, "operators"), source.operators) for path, source in query.sources_by_path),
        (("operators",), query.operators),
        (("output",), query.output),
    ]
    for path, operators in chains:
        for number, operator in enumerate(operators):
            name = getattr(operator, "name", None)
            if name in taken:
                yield Problem((*path, number, "name"), f"another part of the query is called {name!r} too")
            taken |= {name} if name else set()


def _shared_names(queries: Sequence[Query]) -> set[str]:
    """The names that several parts have; those of a logical stream that several queries read are the same parts."""
    owners: defaultdict[str, set[object]] = defaultdict(set)
    for number, query in enumerate(queries):
        times = Counter[str]()
        for path, part in query.inputs_by_path:
            entry, times[part.name] = query.sources[int(path[1])], times[part.name] + 1
            shared = isinstance(entry, LogicalStream)
            owners[part.name].add((entry, path[2:], times[part.name]) if shared else (number, path))
    return {name for name, uses in owners.items() if len(uses) > 1}


def _join_problems(query: Query) -> Iterator[Problem]:
    """A join that has one side only."""
    if not isinstance(query.window, Join):
        return
    names = [source.name for source in query.physical]
    if len(query.sources) == 1:
        yield Problem(("sources",), f"a join needs at least two sources (got {query.sources[0].name!r} alone)")
    elif set(names) <= query.left:
        yield Problem(("window", "left"), "no source is left for the right side of the join")
    for index, name in enumerate(query.window.left):
        yield from unknown(("window", "left", index), "source", name, dict.fromkeys([*names, *query.streams.values()]))
    for index, operator in enumerate(query.operators):
        if isinstance(operator, Renumber):
            yield Problem(("operators", index), "it makes one origin of both sides of the join")


@value
class Workers:
    """The pool: `count` threads that execute one buffer at a time, first come, first served.

    The time a buffer takes is drawn with mean `service_mean_ms`: exponential, lognormal (sigma 1) or constant. Any
    spread makes workers overtake each other.
    """

    count: Annotated[int, Field(ge=1, le=1_000, strict=True)] = 4
    _: KW_ONLY
    service_mean_ms: MeanMs = 5.0
    service: Literal["exponential", "lognormal", "constant"] = "exponential"


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
    """A buffer, or one chunk of it, never reaches a worker; everything behind it waits for ever."""


@tagged
class DelayBuffer(BufferFault):
    """A buffer, or one chunk of it, reaches the workers `by_ms` later than it was sent."""

    by_ms: Period


@tagged
class DuplicateBuffer(BufferFault):
    """A buffer, or one chunk of it, is sent twice, the second time `after_ms` after the first.

    Its records then count twice in windows; a tracker that goes by the set of chunks names the repetition, one that
    counts takes the sequence for complete too early.
    """

    _: KW_ONLY
    after_ms: Ms = 0


@tagged
class EmptyBuffer:
    """The filter leaves no record of a buffer; it is sent on all the same, to keep the chain of numbers."""

    source: str
    sequence: PositiveCount


@tagged
class SilenceSource:
    """A source receives nothing any more from `at_ms` on; at 0 it never sends. It does not end either."""

    source: str
    _: KW_ONLY
    at_ms: Ms = 0


@tagged
class StallWorker:
    """A worker stands still for `for_ms`, with the buffer it holds; workers are numbered from 1."""

    worker: PositiveCount
    _: KW_ONLY
    at_ms: Ms
    for_ms: Period


PlanAction = Annotated[
    LoseBuffer | DelayBuffer | DuplicateBuffer | EmptyBuffer | SilenceSource | StallWorker, Field(discriminator="kind")
]
"""Any entry of a plan scenario's script."""


BUILD: Final = "build"
PROBE: Final = "probe"
SINK: Final = "sink"
RESERVED: Final = (BUILD, PROBE, SINK)
"""The operators that follow progress in a plan, besides those that have names of their own."""


@dataclass(frozen=True, slots=True)
class Origins:
    """The origin id of every emitter, and the ids that each operator which follows progress has declared.

    `at_end` has, for each source, the origin under which its records come out of the chains before the windows.
    """

    ids: Mapping[str, int]
    inputs: Mapping[str, tuple[int, ...]]
    at_end: Mapping[str, int]

    @property
    def emitters(self) -> dict[int, str]:
        """The name of every origin."""
        return {number: name for name, number in self.ids.items()}


def origins_of(query: Query) -> Origins:
    """The origins of a query plan."""
    before = [operator for source in query.physical for operator in source.operators] + list(query.operators)
    names = [source.name for source in query.physical]
    names += [operator.name for operator in before if isinstance(operator, Renumber)]
    names += [BUILD] if query.window else []
    names += [operator.name for operator in query.output if isinstance(operator, Renumber)]
    ids = assign_origins(names)
    inputs: dict[str, tuple[int, ...]] = {}

    def follow(operators: Iterable[object], origins: tuple[int, ...]) -> tuple[int, ...]:
        """The origins behind a chain; notes what each of its operators has declared."""
        for operator in operators:
            if isinstance(operator, Renumber | InOrder):
                inputs[operator.name] = origins
            if isinstance(operator, Renumber):
                origins = (ids[operator.name],)
        return origins

    at_end = {source.name: follow(source.operators, (ids[source.name],))[0] for source in query.physical}
    merged = follow(query.operators, tuple(at_end.values()))
    if len(merged) < len(at_end):
        at_end = dict.fromkeys(at_end, merged[0])
    if query.window:
        inputs[BUILD], merged = merged, (ids[BUILD],)
        inputs[PROBE] = merged
    inputs[SINK] = follow(query.output, merged)
    return Origins(ids, inputs, at_end)


@value
class ProgressScenario(ScenarioFile, only_field="queries", users_call_it="wm.progress.PlanScenario"):
    """Queries, the workers that execute them, and what goes wrong.

    `duration_ms` is how long the sources receive records, in simulated time; then they end, the workers finish what
    they have, and `flush_at_end` fires the windows that are left. `start_ms` is the clock at the start, zero or, for a
    real trace, a moment in milliseconds since 1970. `chunk_base` is 0 as documented or 1 as in the engine; `complete`
    and `local` are the rules of the trackers. `rules` sets all options in which the design, the implementation and
    sound rules differ, unless a part sets them itself; `options` shows what is in effect. All randomness comes from
    `seed`: the same scenario always gives the same recording.

    The design contradicts itself: its snippet (`complete="literal"`) completes no sequence of a single chunk with the
    number 0, as all inputs of its own diagram are, so no window fires there with `rules="design"`. `rules="diagram"`
    is the design but for that: a sequence is complete when all its chunks have come, as the sentence before the snippet
    says.
    """

    name: Annotated[str, Field(min_length=1, max_length=200)]
    _: KW_ONLY
    queries: Annotated[tuple[Query, ...], Field(min_length=1, max_length=1_000)]
    workers: Workers = Workers()
    script: tuple[PlanAction, ...] = ()
    duration_ms: Period
    start_ms: Start = 0
    flush_at_end: Flag = True
    rules: PlanRules = "sound"
    chunk_base: Option[Literal[0, 1]] = UNSET
    complete: Option[Literal["set", "count", "literal", "balance"]] = UNSET
    local: Option[Literal["running_max", "head", "literal"]] = UNSET
    seed: Annotated[int, Field(ge=0, lt=2**63, strict=True)] = 0

    @property
    def resolved(self) -> Self:
        """The same scenario with all that was left to its `rules` filled in: what is run."""
        if self.rules != "diagram":
            return resolved(self, self.rules, self.rule_table)
        completes = self.replace(complete="set") if self.complete is UNSET else self
        return resolved(completes, "design", self.rule_table)

    @classmethod
    def rule_names(cls) -> tuple[str, ...]:
        """As of every scenario, and those of the drawing."""
        return get_args(PlanRules)

    @classmethod
    def rule_values(cls, rules: str) -> dict[tuple[type, str], object]:
        """As of every scenario; those of the drawing are the design with one difference."""
        if rules != "diagram":
            return super().rule_values(rules)
        return super().rule_values("design") | {(ProgressScenario, "complete"): "set"}

    def _problems(self) -> Iterator[Problem]:
        queries, shared = Counter(query.name for query in self.queries), _shared_names(self.queries)
        for number, query in enumerate(self.queries):
            if queries[query.name] > 1:
                yield Problem(("queries", number, "name"), f"another query is called {query.name!r} too")
            for path, part in query.inputs_by_path:
                if part.name in shared:
                    message = f"another source is called {part.name!r} too"
                    yield Problem(("queries", number, *path, "name"), message)
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
                flushes = 0 if source.flush_every_ms is None else self.duration_ms // source.flush_every_ms
                buffers = min(records, records // source.buffer_records + flushes + 1)
                # An operator of a pipeline costs next to nothing; one that waits, and what it makes larger, does.
                chunks = math.prod(max(1, math.ceil(part.growth)) for part in source.operators if isinstance(part, Map))
                arrivals = buffers * chunks * (1 + len(query.operators) + len(query.output))
                yield Cost("buffers", f"{field}.buffer_records", arrivals, 3_000, _BUFFER_US)
                total += records
            if query.window is not None:
                shared = -(-query.window.size_ms // (query.window.slide_ms or query.window.size_ms))
                yield Cost("windows", f"queries[{number}].window.slide_ms", total * shared, 100, _WINDOW_US)

    def _repr_html_(self) -> str:
        rows: list[tuple[str, Cell]] = [(query.name, _summary(query)) for query in self.queries]
        rows += [
            ("workers", f"{self.workers.count}, {self.workers.service_mean_ms:g} ms a buffer ({self.workers.service})"),
            ("script", as_lines(repr(action) for action in self.script)),
            ("duration", f"{duration_text(self.duration_ms)}, seed {self.seed}"),
            *([("rules", self.rules)] if self.rules != "sound" else []),
        ]
        return html_card(f"Scenario “{self.name}”", rows)


ProgressScenario.rule_table = {
    ProgressScenario: {
        "chunk_base": (0, 1, 0),
        "complete": ("literal", "balance", "set"),
        "local": ("literal", "head", "running_max"),
    },
    Source: {"stamped": ("source", "filter", "source")},
    Aggregate: {"trigger": ("exact", "strict", "exact")},
    Join: {"carries": ("largest", "start", "start"), "trigger": ("exact", "strict", "exact")},
}
_BARRIER: Final = (
    "“A timestamp-barrier after which no tuples with a timestamp smaller than the global watermark will arrive.” "
    "(Reasoning about progress)"
)
_LARGEST: Final = "“The largest timestamp in the tuple buffer becomes the watermark timestamp.” (Watermark Timestamp)"
ProgressScenario.rule_sentences = {
    "ProgressScenario.chunk_base": "“The ChunkNumber is set to 0 for the first tuple buffer of each sequence number.” "
    "(ChunkNumber)",
    "ProgressScenario.complete": "“return numSeenChunks == lastChunkNumber” (ChunkNumber, the snippet)",
    "ProgressScenario.local": "“The watermark timestamp of maximum Seq_i, for which it saw all ChunkNumbers of all "
    "Seq_i-1.” (Reasoning about progress)",
    "Source.stamped": _LARGEST,
    "Aggregate.trigger": _BARRIER,
    "Join.carries": _LARGEST,
    "Join.trigger": _BARRIER,
}


def _summary(query: Query) -> str:
    sources = ", ".join(" → ".join([source.name, *map(repr, source.operators)]) for source in query.physical)
    last = "Emit()" if query.window is None else repr(query.window)
    return " → ".join([sources, *map(repr, query.operators), last, *map(repr, query.output)])


def _script_problems(scenario: ProgressScenario, sources: set[str]) -> Iterator[Problem]:
    """Faults that happen to what is not there, or when nothing comes any more."""
    by_name = {source.name: source for query in scenario.queries for source in query.physical}
    for number, action in enumerate(scenario.script):
        if isinstance(action, StallWorker):
            if action.worker > scenario.workers.count:
                message = f"there are workers 1 to {scenario.workers.count} (got {action.worker})"
                yield Problem(("script", number, "worker"), message)
        elif action.source not in sources:
            yield from unknown(("script", number, "source"), "source", action.source, sorted(sources))
        elif not isinstance(action, SilenceSource):
            yield from _buffer_problems(scenario, number, action, by_name[action.source])
        elif action.at_ms >= scenario.duration_ms:
            message = f"lies at or after the end of the scenario, {scenario.duration_ms} (got {action.at_ms})"
            yield Problem(("script", number, "at_ms"), message)


def _buffer_problems(
    scenario: ProgressScenario, number: int, action: BufferFault | EmptyBuffer, source: Source
) -> Iterator[Problem]:
    """A buffer that its source cannot send, or a chunk that nothing makes of it."""
    chunk = getattr(action, "chunk", None)
    if chunk is not None and not _emits(scenario, source.name):
        message = f"nothing makes chunks of what {source.name!r} sends; give it or its query an Emit()"
        yield Problem(("script", number, "chunk"), message)
    elif chunk is not None and chunk < scenario.resolved.chunk_base:
        message = f"chunks are numbered from {scenario.resolved.chunk_base} on (got {chunk})"
        yield Problem(("script", number, "chunk"), message)
    listed = source.times_ms if source.times_ms is not None else source.rows
    if listed is not None and action.sequence > max(len(listed), 1):
        message = f"{source.name!r} has {counted(len(listed), 'record')}, so at most as many buffers, from 1 on"
        yield Problem(("script", number, "sequence"), f"{message} (got {action.sequence})")


def _emits(scenario: ProgressScenario, name: str) -> bool:
    """Whether the buffers of a source come through an `Emit` under its own origin."""
    for query in scenario.queries:
        for source in (source for source in query.physical if source.name == name):
            for operator in (*source.operators, *query.operators):
                if isinstance(operator, Emit | Renumber):
                    return isinstance(operator, Emit)
    return False


def tracker_rules_of(recording: Recording) -> ProgressRules | None:
    """The rules of the recorded scenario, where the recording tells it; what a scenario leaves out is the default."""
    scenario = recording.scenario_as(ProgressScenario)
    return None if scenario is None else tracker_rules(scenario.resolved)


def tracker_rules(scenario: ProgressScenario) -> ProgressRules:
    """The rules of the trackers in a scenario that is resolved."""
    return ProgressRules(chunk_base=scenario.chunk_base, complete=scenario.complete, local=scenario.local)
