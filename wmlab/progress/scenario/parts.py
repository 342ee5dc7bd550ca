"""Query plans as values: sources that cut records into buffers, operators, and the workers that execute them.

Names and defaults follow the design text of NebulaStream, "Watermarking and Progress". Every query is a plan of its
own, with its own origin ids; all queries share the workers.

Operators stand between the sources, the windows and the sink of a plan. A chain of them is cut into pipelines: `Emit`,
`Renumber` and `InOrder` end one, and what they hand on is a task of its own for the workers. Every pipeline begins with
a scan and, unless it feeds windows, ends with an emission, written down or not.

Origins are numbered as follows. Sources come first, in the order given; then the blocking operators: those of the
sources' own chains, those over all sources, the windows, and those behind them.

Source: "Watermarking and Progress", the diagram of pipelines, and ChunkNumber; "Watermarking and Progress", OriginId.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Final, Literal

from pydantic import Field

from wmlab.core.values import Ms, Name, Period, Problem, Problems, value
from wmlab.progress.model.identifiers import assign_origins

Count = Annotated[int, Field(ge=1, le=1_000_000, strict=True)]


@value
class Scan:
    """Opens a pipeline: it reads the records of one buffer and leaves them as they are."""

    kind: Literal["scan"] = "scan"


@value
class Filter:
    """Keeps each record with probability `keep`; chance goes with the record, whatever the workers do.

    A buffer of which nothing is left is handed on empty, or its sequence would never be complete downstream.
    """

    keep: Annotated[float, Field(ge=0, le=1, strict=True)]
    _: KW_ONLY
    kind: Literal["filter"] = "filter"


@value
class Map:
    """A projection: each record becomes `growth` times as large, 2.0 when it doubles its fields."""

    growth: Annotated[float, Field(gt=0, le=1_000, strict=True)]
    _: KW_ONLY
    kind: Literal["map"] = "map"


@value
class Emit:
    """Ends a pipeline without waiting: origin and sequence stay, chunks are numbered as they are made.

    A buffer that has outgrown `buffer_records` records of the size they had at the source becomes several. None: as
    many as the source's buffers hold; behind windows: any number. Exactly one chunk of a sequence carries the last
    flag, that with the highest number: the one that closes the last missing input (upstream `EmitOperatorHandler`).
    """

    _: KW_ONLY
    buffer_records: Count | None = None
    kind: Literal["emit"] = "emit"


@value
class Renumber:
    """A blocking operator: it gives new sequence numbers, under an origin of its own called `name`.

    It hands a sequence on, in one buffer, once that lies in the longest complete prefix of its origin; what comes
    beyond a gap that never closes is never handed on. The watermark is the smallest local one of all inputs, and
    nothing goes out while one of them is silent ("Watermarking and Progress", ChunkNumber).
    """

    name: Name
    _: KW_ONLY
    kind: Literal["renumber"] = "renumber"


@value
class InOrder:
    """Restores the order of each origin: buffers go on one at a time, by sequence and chunk, identifiers unchanged.

    `policy`: `keep` parks what comes too early; `drop` parks only the newest and forgets what is older than what was
    handled, so that sequences are missing downstream (upstream `Sequencer`).
    """

    name: Name
    _: KW_ONLY
    policy: Literal["keep", "drop"] = "keep"
    kind: Literal["in_order"] = "in_order"


Operator = Annotated[Scan | Filter | Map | Emit | Renumber | InOrder, Field(discriminator="kind")]
"""Any operator between the sources and the windows or the sink."""
OutputOperator = Annotated[Scan | Map | Emit | Renumber | InOrder, Field(discriminator="kind")]
"""Any operator behind windows."""
Breaker = Emit | Renumber | InOrder
"""What ends a pipeline."""


Mean = Annotated[float, Field(ge=0, strict=True)]


@value
class Source:
    """A source: it receives records, cuts them into buffers and numbers these 1, 2, ... without a gap.

    Its records are synthetic (`rate_per_s` a second at random), those of a real `trace` (a name or a file) whose writer
    has this source's name, or listed as `times_ms`, all in simulated time counted from the start; a trace has its own.
    A record happens, and is received after an exponential delay of mean `delay_mean_ms` (never before an earlier one,
    the source being in order) and `lag_ms` more. `disorder_ms` breaks that order: each record happened up to that much
    earlier than it should have.

    A buffer is sent when it holds `buffer_records`, or `flush_every_ms` after its first record (None: only when full).
    `stamp` chooses the watermark: the largest event time of the buffer, or its creation time. `stamped` says where:
    at the source, or at the end of the first pipeline (`filter`) as in the engine, where a buffer without a record left
    gets 0. Each record has one of `keys` keys, drawn at random; a trace has its own.
    `operators` is the chain that the buffers of this source go through on their own.
    """

    name: Name
    _: KW_ONLY
    rate_per_s: Annotated[float, Field(ge=0, le=1_000_000, strict=True)] | None = None
    trace: str | None = None
    times_ms: tuple[Ms, ...] | None = None
    delay_mean_ms: Mean = 0.0
    lag_ms: Ms = 0
    disorder_ms: Ms = 0
    buffer_records: Count = 64
    flush_every_ms: Period | None = 1_000
    stamp: Literal["event_time", "ingestion_time"] = "event_time"
    stamped: Literal["source", "filter"] = "source"
    keys: Annotated[int, Field(ge=1, le=1_000_000, strict=True)] = 1
    operators: tuple[Operator, ...] = ()

    def __post_init__(self) -> None:
        given = [name for name in ("rate_per_s", "trace", "times_ms") if getattr(self, name) is not None]
        if len(given) != 1:
            message = f"give one of rate_per_s, trace and times_ms (got {' and '.join(given) or 'none'})"
            raise Problems(f"Source {self.name!r}", [Problem(("rate_per_s",), message)])
        if self.trace is not None and (self.delay_mean_ms or self.disorder_ms):
            message = "a trace has its own times; leave delay_mean_ms and disorder_ms out"
            raise Problems(f"Source {self.name!r}", [Problem(("trace",), message)])
        if self.trace is not None and self.keys > 1:
            raise Problems(f"Source {self.name!r}", [Problem(("keys",), "a trace has its own keys; leave keys out")])


@value
class Aggregate:
    """Counts records in windows of `size_ms`, sliding by `slide_ms` (None: tumbling).

    `trigger`: `strict` fires a window when its end is before the global watermark, as the engine does, `exact` one
    tick earlier, when they are equal. `forget_fired` throws fired windows away without a trace, as an engine may: a
    late record then fires its window twice.
    """

    size_ms: Period
    _: KW_ONLY
    slide_ms: Period | None = None
    trigger: Literal["strict", "exact"] = "strict"
    forget_fired: bool = False
    kind: Literal["aggregate"] = "aggregate"


@value
class Join:
    """Joins records of equal keys in windows of `size_ms`, sliding by `slide_ms` (None: tumbling).

    The sources named in `left` (none: the first one) build the left side, all others the right. A window fires when
    the global watermark over both sides allows; then each pair of slices is a task of the probe side, which puts out
    one chunk of the window or more. The probe follows the watermark of these outputs and throws away the slices that
    no later window needs. `trigger` and `forget_fired` are as in `Aggregate`.
    """

    size_ms: Period
    _: KW_ONLY
    slide_ms: Period | None = None
    left: tuple[Name, ...] = ()
    trigger: Literal["strict", "exact"] = "strict"
    forget_fired: bool = False
    kind: Literal["join"] = "join"


Windowed = Annotated[Aggregate | Join, Field(discriminator="kind")]
"""Any operator with windows."""


@value
class Query:
    """One query plan: its sources are origins 1, 2, ... in the order given, its blocking operators the next ones.

    `operators` is the chain that the buffers of all sources go through behind their own; a `Renumber` there makes one
    origin of all. `window` is what they come to, and `output` the chain behind it. Without a window buffers go to the
    sink. Names of sources and of operators that have one differ from each other.
    """

    name: Name
    _: KW_ONLY
    sources: Annotated[tuple[Source, ...], Field(min_length=1, max_length=1_000)]
    operators: tuple[Operator, ...] = ()
    window: Windowed | None = None
    output: tuple[OutputOperator, ...] = ()

    def __post_init__(self) -> None:
        problems = (*_name_problems(self), *_join_problems(self))
        if self.output and self.window is None:
            problems = (*problems, Problem(("output",), "there is no window; give these operators as operators"))
        if problems:
            raise Problems(f"Query {self.name!r}", problems)


def _name_problems(query: Query) -> Iterator[Problem]:
    """Operators with a name that is taken; sources are compared with each other by the whole scenario."""
    chains: list[tuple[tuple[str | int, ...], Sequence[object]]] = [
        (("sources", place, "operators"), source.operators) for place, source in enumerate(query.sources)
    ]
    chains += [(("operators",), query.operators), (("output",), query.output)]
    taken = {source.name for source in query.sources}
    for place, source in enumerate(query.sources):
        if source.name in RESERVED:
            yield Problem(("sources", place, "name"), f"{source.name!r} is what wmlab calls an operator")
    for path, operators in chains:
        for place, operator in enumerate(operators):
            name = getattr(operator, "name", None)
            if name in taken or name in RESERVED:
                yield Problem((*path, place, "name"), f"another part of the query is called {name!r} too")
            taken |= {name} if name else set()


def _join_problems(query: Query) -> Iterator[Problem]:
    """A join that has one side only."""
    if not isinstance(query.window, Join):
        return
    names = [source.name for source in query.sources]
    if len(names) == 1:
        yield Problem(("sources",), f"a join needs at least two sources (got {names[0]!r} alone)")
    elif set(names) <= set(query.window.left):
        yield Problem(("window", "left"), "no source is left for the right side of the join")
    for place, name in enumerate(query.window.left):
        if name not in names:
            known = ", ".join(names)
            yield Problem(("window", "left", place), f"no source is called {name!r}; there are: {known}")
    for place, operator in enumerate(query.operators):
        if isinstance(operator, Renumber):
            yield Problem(("operators", place), "it makes one origin of both sides of the join")


@value
class Workers:
    """The pool: `count` threads that execute one buffer at a time, first come, first served.

    The time a buffer takes is drawn with mean `service_mean_ms`: exponential, lognormal (sigma 1) or constant. Any
    spread makes workers overtake each other.
    """

    count: Annotated[int, Field(ge=1, le=1_000, strict=True)] = 4
    _: KW_ONLY
    service_mean_ms: Mean = 5.0
    service: Literal["exponential", "lognormal", "constant"] = "exponential"


@value
class LoseBuffer:
    """A buffer never reaches a worker; everything behind it waits for ever."""

    source: str
    sequence: Count
    _: KW_ONLY
    kind: Literal["lose_buffer"] = "lose_buffer"


@value
class DelayBuffer:
    """A buffer reaches the workers `by_ms` later than it was sent."""

    source: str
    sequence: Count
    by_ms: Period
    _: KW_ONLY
    kind: Literal["delay_buffer"] = "delay_buffer"


@value
class EmptyBuffer:
    """The filter leaves no record of a buffer; it is sent on all the same, to keep the chain of numbers."""

    source: str
    sequence: Count
    _: KW_ONLY
    kind: Literal["empty_buffer"] = "empty_buffer"


@value
class SilenceSource:
    """A source receives nothing any more from `at_ms` on; at 0 it never sends. It does not end either."""

    source: str
    _: KW_ONLY
    at_ms: Ms = 0
    kind: Literal["silence_source"] = "silence_source"


@value
class StallWorker:
    """A worker stands still for `for_ms`, with the buffer it holds; workers are numbered from 1."""

    worker: Count
    _: KW_ONLY
    at_ms: Ms
    for_ms: Period
    kind: Literal["stall_worker"] = "stall_worker"


PlanAction = Annotated[
    LoseBuffer | DelayBuffer | EmptyBuffer | SilenceSource | StallWorker, Field(discriminator="kind")
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
    before = [operator for source in query.sources for operator in source.operators] + list(query.operators)
    ids = assign_origins(
        [source.name for source in query.sources]
        + _blocking(before)
        + ([BUILD] if query.window else [])
        + _blocking(query.output)
    )
    inputs: dict[str, tuple[int, ...]] = {}
    at_end = {s.name: _follow(s.operators, (ids[s.name],), ids, inputs)[0] for s in query.sources}
    merged = _follow(query.operators, tuple(at_end.values()), ids, inputs)
    if len(merged) < len(at_end):
        at_end = dict.fromkeys(at_end, merged[0])
    if query.window:
        inputs[BUILD], merged = merged, (ids[BUILD],)
        inputs[PROBE] = merged
    inputs[SINK] = _follow(query.output, merged, ids, inputs)
    return Origins(ids, inputs, at_end)


def _blocking(operators: Iterable[object]) -> list[str]:
    return [operator.name for operator in operators if isinstance(operator, Renumber)]


def _follow(
    operators: Sequence[object], origins: tuple[int, ...], ids: Mapping[str, int], inputs: dict[str, tuple[int, ...]]
) -> tuple[int, ...]:
    """The origins behind a chain; notes what each of its operators has declared."""
    for operator in operators:
        if isinstance(operator, Renumber | InOrder):
            inputs[operator.name] = origins
        if isinstance(operator, Renumber):
            origins = (ids[operator.name],)
    return origins
