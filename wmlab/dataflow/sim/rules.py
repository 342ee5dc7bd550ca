"""The rules of a dataflow by vertex, as values of the model: what it runs by, and what checks and answers ask.

Source: "Keyed watermark support", WM generation; "Stream-to-stream join", time bounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from wmlab.dataflow.model.join import StreamJoin
from wmlab.dataflow.model.window import SessionWindow as SessionRule
from wmlab.dataflow.model.window import Window as WindowRule
from wmlab.dataflow.scenario.dataflow import DataflowScenario
from wmlab.dataflow.scenario.source import Source
from wmlab.dataflow.scenario.vertices import AsyncMap, Join, SessionWindow, Window
from wmlab.dataflow.sim.layout import FRAMES, Node
from wmlab.dataflow.sim.processors import Clocked, clocked, processor_of


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRule:
    """A window or a join of a dataflow: what it is called in the tables, and the rule by which it ran.

    `entry` is the vertex that took its rows: `vertex` itself, or the first of two stages. `inputs` are the columns on
    each input edge, `columns` those of its results.
    """

    vertex: str
    entry: str
    rule: WindowRule | SessionRule | StreamJoin
    inputs: tuple[tuple[str, ...], ...]
    columns: tuple[str, ...]

    @property
    def one_stage(self) -> bool:
        """Whether each instance makes its own results of the rows that it takes."""
        return self.vertex == self.entry

    @property
    def place(self) -> tuple[str, ...]:
        """The columns that tell apart what makes results on its own."""
        return ("stream", "execution", "instance") if self.one_stage else ("stream", "execution")

    @property
    def limit(self) -> int | None:
        """How many rows or accumulators an instance may hold; None: any number."""
        return None if isinstance(self.rule, SessionRule) else self.rule.limit


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRule:
    """How a source makes watermarks: `times` by key. `partitions` None: known only when what it reads is read."""

    times: Mapping[int, Clocked] = field(default_factory=dict)
    partitions: int | None
    parallelism: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DataflowRules:
    """The rules of all vertices; `capacities`: how many calls an asynchronous vertex makes at once; `end_ms`: the end.

    Without a dataflow to take them from, all are empty.
    """

    sources: Mapping[str, SourceRule] = field(default_factory=dict)
    results: Mapping[str, RecordedRule] = field(default_factory=dict)
    capacities: Mapping[str, int] = field(default_factory=dict)
    end_ms: int | None = None

    @property
    def windows(self) -> dict[str, RecordedRule]:
        """The windows and sessions."""
        return {name: known for name, known in self.results.items() if not isinstance(known.rule, StreamJoin)}

    @property
    def joins(self) -> dict[str, StreamJoin]:
        """The joins."""
        return {name: known.rule for name, known in self.results.items() if isinstance(known.rule, StreamJoin)}


def rules_of(dataflow: DataflowScenario) -> DataflowRules:
    """The rules of a dataflow."""
    vertices = dataflow.vertices
    return DataflowRules(
        sources={
            source.name: SourceRule(
                times={time.mapper.key: time for time in clocked(dataflow, source)},
                partitions=source.partitions if source.stream is None else None,
                parallelism=source.parallelism,
            )
            for source in vertices
            if isinstance(source, Source)
        },
        results={v.name: _result(dataflow, v) for v in vertices if isinstance(v, Window | SessionWindow | Join)},
        capacities={vertex.name: vertex.capacity for vertex in vertices if isinstance(vertex, AsyncMap)},
        end_ms=dataflow.start_ms + dataflow.duration_ms,
    )


def _result(dataflow: DataflowScenario, vertex: Window | SessionWindow | Join) -> RecordedRule:
    plan = dataflow.plan
    node = Node(vertex.name, vertex, plan.outputs[vertex.name])
    return RecordedRule(
        vertex=vertex.name,
        entry=vertex.name + FRAMES if isinstance(vertex, Window) and vertex.stages == 2 else vertex.name,
        rule=processor_of(dataflow, plan, node, lambda: True),  # type: ignore[arg-type]
        inputs=tuple(plan.outputs[edge.source].columns for edge in plan.inputs[vertex.name]),
        columns=node.output.columns,
    )
