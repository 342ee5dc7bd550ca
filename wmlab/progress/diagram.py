"""The drawing of query plans: sources, the pipelines of their operators, and the buffers on the edges.

A plan is drawn as the document draws it: each pipeline is a box, and a buffer is named by its four identifiers. Without
a recording an edge has the origin only.

Source: "Watermarking and Progress", the diagram of tuple buffers through the engine.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from wmlab.core import mermaid
from wmlab.core.charts.chart import the_recording
from wmlab.core.charts.diagram import Diagram
from wmlab.core.errors import ChartError
from wmlab.core.recording import Recording
from wmlab.core.words import bare, counted, exactly, grouped, in_mermaid
from wmlab.progress.scenario import (
    BUILD,
    PROBE,
    SINK,
    Emit,
    InOrder,
    Join,
    ProgressScenario,
    Query,
    Renumber,
    origins_of,
)

_MOST_BUFFERS: Final = 4
"""Buffers of one edge that are named; of more their number and the range of their watermarks are."""


class _Buffer(NamedTuple):
    sequence: int
    chunk: int
    last: bool
    watermark: int


_Recorded = Mapping[tuple[str, str, str], Sequence[_Buffer]]
"""The buffers by query, by the operator at which they arrived, and by emitter."""


def plan_as_mermaid(scenario: ProgressScenario, recording: Recording | None = None) -> str:
    """The query plans as the text of a Mermaid flowchart, each pipeline in a box of its own.

    An edge has the origin of what comes along it. With a `recording` of this scenario it also has the buffers that
    arrived: sequence, chunk, whether it is the last one, and watermark; of more than four their number, and the
    smallest and largest watermark. Raises `ChartError` for a recording of anything else.
    """
    return "\n".join(["flowchart LR", *_drawn(scenario, {} if recording is None else _recorded(recording))]) + "\n"


def plan(recording: Recording) -> Diagram:
    """Draw the query plans of a recording, with the buffers that arrived on the edges.

    Raises `ChartError` for a recording of anything else, or without its scenario.
    """
    scenario = the_recording(recording, "buffers").scenario_as(ProgressScenario)
    if scenario is None:
        raise ChartError(
            f"Recording {recording.name!r} has no scenario, so its plans are not known.",
            remedy="Draw what scenario.record() gives, or the scenario itself with scenario.mermaid().",
        )
    sources = len({source.name for query in scenario.queries for source in query.physical})
    origins = sum(len(origins_of(query).ids) for query in scenario.queries)
    drawn = [buffers for (_, operator, _), buffers in _recorded(recording).items() if operator != PROBE]
    buffers = sum(map(len, drawn))
    plans = f"{counted(len(scenario.queries), 'query plan')} with {counted(sources, 'source')}"
    return Diagram(
        f"{plans} and {counted(origins, 'origin')}; on the edges are {counted(buffers, 'buffer')} where they arrived.",
        plan_as_mermaid(scenario, recording),
    )


def _recorded(recording: Recording) -> _Recorded:
    table = the_recording(recording, "buffers").table("buffers")
    recorded: defaultdict[tuple[str, str, str], list[_Buffer]] = defaultdict(list)
    for row in table.select(["stream", "operator", "emitter", *_Buffer._fields]).to_pylist():
        buffer = _Buffer(*(row[name] for name in _Buffer._fields))
        recorded[row["stream"], row["operator"], row["emitter"]].append(buffer)
    return {key: sorted(buffers) for key, buffers in recorded.items()}


def _drawn(scenario: ProgressScenario, recorded: _Recorded) -> Iterator[str]:
    pipelines = 0
    for number, query in enumerate(scenario.queries):
        drawing = _Drawing(query, f"q{number}", recorded)
        drawing.draw()
        yield f'    subgraph {drawing.prefix}["{in_mermaid(query.name)}"]'
        yield "    direction LR"  # Mermaid turns a box that no edge leaves by a right angle
        yield from drawing.ends
        for nodes in filter(None, drawing.pipelines):
            pipelines += 1
            yield f'    subgraph p{pipelines}["Pipeline {pipelines}"]'
            yield from nodes
            yield "    end"
        yield from drawing.edges
        yield "    end"


@dataclass(slots=True)
class _Drawing:
    """The nodes and edges of one query, as they are made; `ends` are its sources and its sink."""

    query: Query
    prefix: str
    recorded: _Recorded
    ends: list[str] = field(default_factory=list)
    pipelines: list[list[str]] = field(default_factory=list)
    edges: list[str] = field(default_factory=list)
    made: int = 0

    def draw(self) -> None:
        """Follow the buffers from the sources to the sink."""
        query, origins = self.query, origins_of(self.query)
        heads = []
        for source in query.physical:
            self.pipelines.append([])
            stream = [f"stream {query.streams[source.name]}"] if source.name in query.streams else []
            end = self._end(source.name, [*stream, f"origin {origins.ids[source.name]}"], mermaid.ROUND)
            chain = self._chain([(end, source.name)], source.operators)
            heads += chain if query.operators else self._build(chain)
        if query.operators:
            self.pipelines.append([])
            heads = self._build(self._chain(heads, query.operators))
        if query.window:
            self.pipelines.append([])
            kind = "Join Probe" if isinstance(query.window, Join) else "Aggregation Probe"
            heads = self._step(heads, kind, [f"origin {origins.ids[BUILD]}"], PROBE)
            heads = self._chain([(head, BUILD) for head, _ in heads], query.output)
        sink = self._end(SINK, [], mermaid.SUBROUTINE)
        for before, emitter in heads:
            self._edge(before, sink, SINK, emitter)

    def _chain(self, heads: list[tuple[str, str]], operators: Sequence[object]) -> list[tuple[str, str]]:
        """The operators one behind the other, and what leaves the last one; an emission begins a new pipeline."""
        for operator in operators:
            name = getattr(operator, "name", "")
            kind, _, options = repr(operator).partition("(")
            heads = self._step(heads, kind, [options.removesuffix(")")] if options != ")" else [], name)
            if isinstance(operator, Renumber):
                heads = [(head, name) for head, _ in heads]
            if isinstance(operator, Emit | Renumber | InOrder):
                self.pipelines.append([])
        return heads

    def _build(self, heads: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """The side of the windows that takes buffers in, if there are windows."""
        window = self.query.window
        if window is None:
            return heads
        slide = [] if window.slide_ms is None else [f"slide {exactly(window.slide_ms)}"]
        kind = "Join Build" if isinstance(window, Join) else "Aggregation Build"
        return self._step(heads, kind, [f"size {exactly(window.size_ms)}", *slide], BUILD)

    def _step(
        self, heads: Sequence[tuple[str, str]], kind: str, lines: Sequence[str], operator: str
    ) -> list[tuple[str, str]]:
        """A node behind all heads, in the newest pipeline; each emitter leaves it as it came."""
        identifier = self._identifier()
        self.pipelines[-1].append("    " + mermaid.node(identifier, kind, lines))
        for before, emitter in heads:
            self._edge(before, identifier, operator, emitter)
        return [(identifier, emitter) for emitter in dict.fromkeys(emitter for _, emitter in heads)]

    def _edge(self, before: str, target: str, operator: str, emitter: str) -> None:
        """An edge with the buffers of an emitter that arrived at the operator behind it."""
        lines: list[str] = []
        if operator and operator != PROBE:
            origin = origins_of(self.query).ids[emitter]
            buffers = self.recorded.get((self.query.name, operator, emitter), ())
            lines = [f"origin {origin}", *_words(buffers)]
        line = mermaid.edge(before, target, map(in_mermaid, lines))
        if line not in self.edges:
            self.edges.append(line)

    def _end(self, name: str, lines: Sequence[str], shape: tuple[str, str]) -> str:
        identifier = self._identifier()
        self.ends.append(mermaid.node(identifier, name, lines, shape=shape))
        return identifier

    def _identifier(self) -> str:
        self.made += 1
        return f"{self.prefix}n{self.made}"


def _words(buffers: Sequence[_Buffer]) -> Iterator[str]:
    if len(buffers) > _MOST_BUFFERS:
        marks = [buffer.watermark for buffer in buffers]
        yield f"{grouped(len(buffers))} buffers"
        yield f"watermarks {bare(min(marks))} … {bare(max(marks))}"
        return
    for buffer in buffers:
        yield f"sequence {buffer.sequence}, chunk {buffer.chunk}"
        yield f"{'last, ' if buffer.last else ''}watermark {bare(buffer.watermark)}"
