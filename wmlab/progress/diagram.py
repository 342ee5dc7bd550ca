"""The drawing of query plans: sources, the pipelines of their operators, and the buffers on the edges.

A plan is drawn as the document draws it, each pipeline in a box, but from left to right: so it fits a screen, and no
edge crosses the title of a box. A buffer is named by its four identifiers, on the edge over which it reaches a pipeline
or the sink. Without a recording such an edge has the origin only.

Source: "Watermarking and Progress", the diagram of tuple buffers through the engine.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, NamedTuple

from wmlab.core import mermaid
from wmlab.core.charts.chart import the_recording
from wmlab.core.charts.diagram import Diagram
from wmlab.core.errors import ChartError
from wmlab.core.recording import Recording
from wmlab.core.words import exactly, grouped, in_mermaid, moment, unbroken
from wmlab.progress.scenario import (
    SCAN,
    SINK,
    Branch,
    Emit,
    InOrder,
    Join,
    LogicalStream,
    Origins,
    ProgressScenario,
    Query,
    Renumber,
    Source,
    Windowing,
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

    An edge to a pipeline or the sink shows the origin of its buffers. With a `recording` of this scenario it also has
    the buffers that arrived where progress is followed: sequence, chunk, whether it is the last one, and watermark; of
    more than four their number, and the smallest and largest watermark. Raises `ChartError` for a recording of anything
    else.
    """
    return _text(_drawings(scenario, {} if recording is None else _recorded(recording)))


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
    return Diagram(f"The query plans of {recording.name}.", _text(_drawings(scenario, _recorded(recording))))


def _recorded(recording: Recording) -> _Recorded:
    table = the_recording(recording, "buffers").table("buffers")
    recorded: defaultdict[tuple[str, str, str], list[_Buffer]] = defaultdict(list)
    for row in table.select(["stream", "operator", "emitter", *_Buffer._fields]).to_pylist():
        buffer = _Buffer(*(row[name] for name in _Buffer._fields))
        recorded[row["stream"], row["operator"], row["emitter"]].append(buffer)
    return {key: sorted(buffers) for key, buffers in recorded.items()}


def _drawings(scenario: ProgressScenario, recorded: _Recorded) -> list[_Drawing]:
    drawings = [_Drawing(query, origins_of(query), f"q{n}", recorded) for n, query in enumerate(scenario.queries)]
    for drawing in drawings:
        drawing.draw()
    return drawings


def _text(drawings: Sequence[_Drawing]) -> str:
    queries, pipelines = list[list[str]](), 0
    for drawing in drawings:
        lines = [f'    subgraph {drawing.prefix}["{in_mermaid(drawing.query.name)}"]']
        lines.append("    direction LR")  # Mermaid turns a box that no edge leaves by a right angle
        lines += drawing.ends
        for nodes in drawing.pipelines:
            pipelines += 1
            lines += [f'    subgraph p{pipelines}["Pipeline {pipelines}"]', *nodes, "    end"]
        queries.append([*lines, *drawing.edges, "    end"])
    # Mermaid puts the last box first.
    return "\n".join(["flowchart LR", *chain.from_iterable(reversed(queries))]) + "\n"


class _Head(NamedTuple):
    """A node from which an emitter's buffers go on, in the pipeline that it is in; None: one ends there."""

    node: str
    emitter: str
    pipeline: list[str] | None


@dataclass(slots=True)
class _Drawing:
    """The nodes and edges of one query, as they are made; `ends` are its sources and its sink."""

    query: Query
    origins: Origins
    prefix: str
    recorded: _Recorded
    ends: list[str] = field(default_factory=list)
    pipelines: list[list[str]] = field(default_factory=list)
    edges: list[str] = field(default_factory=list)
    end_nodes: set[str] = field(default_factory=set)
    made: int = 0

    def draw(self) -> None:
        """Follow the buffers from the sources to the sink."""
        heads = self._part(self.query)
        sink = self._end(SINK, [], mermaid.SUBROUTINE)
        for head in heads:
            self._labelled_edge(head, sink, SINK)

    def _part(self, part: Source | Branch, within: Sequence[str] = ()) -> list[_Head]:
        """A source, or all below a stream or query, with its chain; what leaves that. `within` names its stream."""
        if isinstance(part, Source):
            lines = [*within, f"origin {self.origins.ids[part.name]}"]
            heads = [_Head(self._end(part.name, lines, mermaid.ROUND), part.name, None)]
        else:
            stream = [f"stream {part.name}"] if isinstance(part, LogicalStream) else []
            heads = [head for entry in part.sources for head in self._part(entry, stream)]
        for operator, name in self.origins.chain(part):
            if isinstance(operator, Windowing):
                heads = self._windows(heads, operator, name)
                continue
            kind, _, options = repr(operator).partition("(")
            heads = self._step(heads, kind, [options.removesuffix(")")] if options != ")" else [], name)
            if isinstance(operator, Renumber):
                heads = [heads[0]._replace(emitter=name)]
            if isinstance(operator, Emit | Renumber | InOrder):
                heads = [head._replace(pipeline=None) for head in heads]
        return heads

    def _windows(self, heads: Sequence[_Head], windows: Windowing, name: str) -> list[_Head]:
        """Windows, into which each pipeline before them builds; the probe side begins a pipeline."""
        title = "Join" if isinstance(windows, Join) else "Aggregation"
        lengths = {"size": windows.size_ms, "slide": windows.slide_ms}
        size = [f"{name} {exactly(length_ms)}" for name, length_ms in lengths.items() if length_ms is not None]
        builds = [
            self._step([head for head in heads if head.node == node], f"{title} Build", size, name)[0].node
            for node in dict.fromkeys(head.node for head in heads)
        ]
        pipeline: list[str] = []
        probe = self._node(pipeline, f"{title} Probe", [f"origin {self.origins.ids[name]}"])
        self.edges += [mermaid.edge(build, probe, []) for build in builds]
        return [_Head(probe, name, pipeline)]

    def _step(self, heads: Sequence[_Head], kind: str, lines: Sequence[str], operator: str) -> list[_Head]:
        """A node behind all heads: in their pipeline, or in a new one if they come from several or theirs has ended."""
        pipeline = heads[0].pipeline
        begins = pipeline is None or any(head.pipeline is not pipeline for head in heads)
        pipeline = [] if pipeline is None or begins else pipeline
        node = self._node(pipeline, kind, lines)
        for head in heads:
            if begins:
                self._labelled_edge(head, node, SCAN if head.node in self.end_nodes else operator)
            elif (edge := mermaid.edge(head.node, node, [])) not in self.edges:
                self.edges.append(edge)
        return [_Head(node, emitter, pipeline) for emitter in dict.fromkeys(head.emitter for head in heads)]

    def _labelled_edge(self, head: _Head, node: str, operator: str) -> None:
        """An edge with the buffers of an emitter that arrived at the operator behind it."""
        buffers = self.recorded.get((self.query.name, operator, head.emitter), ())
        lines = [f"origin {self.origins.ids[head.emitter]}", *_words(buffers)]
        self.edges.append(mermaid.edge(head.node, node, map(in_mermaid, lines)))

    def _node(self, pipeline: list[str], kind: str, lines: Sequence[str]) -> str:
        """A new node of a pipeline, which counts as one as soon as it has a node."""
        if not pipeline:
            self.pipelines.append(pipeline)
        identifier = self._identifier()
        pipeline.append("    " + mermaid.node(identifier, kind, lines))
        return identifier

    def _end(self, name: str, lines: Sequence[str], shape: tuple[str, str]) -> str:
        identifier = self._identifier()
        self.ends.append(mermaid.node(identifier, name, lines, shape=shape))
        self.end_nodes.add(identifier)
        return identifier

    def _identifier(self) -> str:
        self.made += 1
        return f"{self.prefix}n{self.made}"


def _words(buffers: Sequence[_Buffer]) -> Iterator[str]:
    if len(buffers) > _MOST_BUFFERS:
        marks = [buffer.watermark for buffer in buffers]
        yield f"{grouped(len(buffers))} buffers"
        yield f"watermarks from {unbroken(moment(min(marks)))}"
        yield f"to {unbroken(moment(max(marks)))}"
        return
    for buffer in buffers:
        yield f"sequence {buffer.sequence}, chunk {buffer.chunk}"
        yield f"{'last' if buffer.last else 'not last'}, watermark {unbroken(moment(buffer.watermark))}"
