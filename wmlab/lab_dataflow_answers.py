"""Where the rooms meet for questions to dataflows: rules for the answers, and runs in every order."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Literal

from pydantic import TypeAdapter

from wmlab.answers.dataflow_ask import explain_flow, flow_drops
from wmlab.answers.dataflow_explanation import Drops, FlowExplanation
from wmlab.answers.dataflow_permutations import Permutations, Permuted, permuted
from wmlab.answers.dataflow_rules import FlowRules, JoinRules, SourceRules, WindowRules
from wmlab.answers.holders import Holders
from wmlab.errors import ModelError, RecordingError, ScenarioError
from wmlab.lab_dataflow import record_dataflow
from wmlab.model.dataflow import permute
from wmlab.model.dataflow.deviations import Deviations, Mode
from wmlab.model.dataflow.deviations import deviations as of_mode
from wmlab.model.dataflow.frames import Frames
from wmlab.model.dataflow.items import DONE, IDLE, Event, Item, require_watermark
from wmlab.recording import Recording
from wmlab.scenario.flow_dataflow import OPTIONS, Dataflow, Vertex
from wmlab.scenario.flow_join import rule_of
from wmlab.scenario.flow_plan import Output
from wmlab.scenario.flow_source import Source
from wmlab.scenario.flow_windows import Join, SessionWindow, Window
from wmlab.sim.dataflow.layout import FRAMES
from wmlab.sim.dataflow.mappers import frame_ms
from wmlab.sim.dataflow.world import Choose

MergeRule = Literal["hazelcast", "no flush"]
_FREE = {"function": None, "where": None}


def explain_dataflow(recording: Recording, **options: Any) -> FlowExplanation | Holders:
    """Why a vertex, a window or a row of a dataflow waits; see `wmlab.answers.dataflow_ask.explain_flow`.

    Raises `RecordingError` for a question that only other recordings answer.
    """
    for name in ("reader", "stream"):
        if options.pop(name, None) is not None:
            raise RecordingError(f"a {name} is named; dataflows have none.", remedy=f"leave the {name} out.")
    return explain_flow(recording, rules=rules_of_dataflow(recording), **options)


def why_dropped(recording: Recording, row: Mapping[str, Any] | None = None, *, vertex: str | None = None) -> Drops:
    """The rows that were left out; see `wmlab.answers.dataflow_ask.flow_drops`."""
    return flow_drops(recording, row, vertex=vertex)


def rules_of_dataflow(recording: Recording) -> FlowRules:
    """What the recorded dataflow says about times to come; Python functions in it do not matter."""
    told = recording.scenario
    if told is None or "vertices" not in told:
        return FlowRules()
    outputs = {
        row["vertex"]: Output(tuple(row["columns"]), tuple(sorted(row["keys"])))
        for row in recording.table("vertices").to_pylist()
    }
    inputs: dict[str, list[str]] = {}
    for queue in sorted(recording.table("queues").to_pylist(), key=lambda row: row["edge"]):
        known = inputs.setdefault(queue["target"], [])
        if queue["source"] not in known:
            known.append(queue["source"])
    given = {name: [outputs[source] for source in sources] for name, sources in inputs.items()}
    vertices = [_vertex(vertex) for vertex in told["vertices"] if vertex["kind"] in _NEEDED]
    windows = [vertex for vertex in vertices if isinstance(vertex, Window | SessionWindow)]
    joins = {v.name: _join(v, *given[v.name]) for v in vertices if isinstance(v, Join)}
    end_ms = told.get("start_ms", 0) + told.get("duration_ms", 120_000)
    return FlowRules(
        sources={v.name: _source(v, told) for v in vertices if isinstance(v, Source)},
        windows={
            v.name: _window(v, given[v.name + FRAMES if v.name + FRAMES in outputs else v.name][0]) for v in windows
        },
        joins=joins,
        limits={v.name: v.limit for v in vertices if isinstance(v, Window | Join) and v.limit is not None},
        end_ms=end_ms,
    )


_NEEDED = ("source", "window", "session_window", "join")


def _vertex(told: Mapping[str, Any]) -> Any:
    known = {name: value for name, value in told.items() if name not in _FREE}
    return TypeAdapter(Vertex).validate_python(known)


def _window(vertex: Window | SessionWindow, given: Output) -> WindowRules:
    key = given.key_of(vertex.column)
    assert key is not None
    if isinstance(vertex, SessionWindow):
        return WindowRules(column=vertex.column, key=key, size_ms=vertex.timeout_ms, slide_ms=None, by=vertex.by)
    return WindowRules(column=vertex.column, key=key, size_ms=vertex.size_ms, slide_ms=vertex.step_ms, by=vertex.by)


def _join(vertex: Join, left: Output, right: Output) -> JoinRules:
    sides = tuple(tuple(key for key, column in side.keys if column is not None) for side in (left, right))
    rule = rule_of(vertex, left, right)
    return JoinRules(bounds=rule.bounds, sides=(sides[0], sides[1]), outer=vertex.outer, emit=vertex.emit)


def _source(source: Source, told: Mapping[str, Any]) -> SourceRules:
    frame = _frame_ms(source, told)
    fixed = source.rows is not None or source.trace is not None
    deviations = told.get("deviations")
    silent = told.get("mode") == "hz" if deviations is None else "rejected_rows_silent" in deviations
    return SourceRules(
        lags_ms={time.key: time.lag_ms for time in source.times},
        policies={time.key: time.policy for time in source.times},
        frames=None if frame == 0 else Frames(frame, source.frame_offset_ms if frame > source.frame_offset_ms else 0),
        idle_timeout_ms=source.idle_timeout_ms or None,
        partitions=source.partitions if fixed else None,
        parallelism=source.parallelism,
        rejected_count=not silent,
    )


def _frame_ms(source: Source, told: Mapping[str, Any]) -> int:
    """The frame as a number; where the recorded dataflow cannot be built again, the finest."""
    if isinstance(source.frame_ms, int):
        return source.frame_ms
    try:
        return frame_ms(TypeAdapter(Dataflow).validate_python(told), source)
    except ValueError:
        return 1


def merge_permutations(
    inputs: Sequence[Sequence[Any]] | Mapping[str, Sequence[Any]],
    *,
    mode: Mode = "design",
    deviations: Deviations | Sequence[str] | None = None,
    rule: MergeRule = "hazelcast",
    limit: int = 100_000,
    samples: int = 2_000,
    seed: int = 0,
) -> Permutations:
    """The distinct outputs of merging these inputs; see `wmlab.scenario.flow_permutations.permutations`."""
    named = dict(inputs) if isinstance(inputs, Mapping) else {chr(97 + n): items for n, items in enumerate(inputs)}
    items = [[_item(offered) for offered in offers] for offers in named.values()]
    rules = _deviations(mode, deviations)
    merge: permute.Rule[Any] = (
        permute.unflushed(len(items)) if rule == "no flush" else permute.merging(len(items), rules)
    )
    found = permute.explore(merge, items, limit=limit)
    total = permute.orders(items)
    exact = found is not None
    if found is None:
        found = permute.sample(merge, items, samples=samples, draw=random.Random(seed).randrange)
    return Permutations(
        of=f"merging {len(items)} inputs ({_merge_words(mode, deviations, rule, rules)})",
        outcomes=tuple(permuted(outcome, tuple(named)) for outcome in found),
        tried=total if exact else samples,
        total=total,
        exact=exact,
    )


def _merge_words(mode: Mode, deviations: object, rule: MergeRule, rules: Deviations) -> str:
    if rule == "no flush":
        return "without letting the highest through when all are idle"
    return mode if deviations is None else str(rules)


def _deviations(mode: Mode, offered: Deviations | Sequence[str] | None) -> Deviations:
    if offered is None:
        return of_mode(mode)
    if isinstance(offered, Deviations):
        return offered
    for name in offered:
        if name not in OPTIONS:
            raise ModelError(f"{name!r} is no deviation.", remedy=f"name some of: {', '.join(OPTIONS)}.")
    return Deviations(**dict.fromkeys(offered, True))


def _item(offered: Any) -> Item:
    named: dict[str, Item] = {"idle": IDLE, "event": Event(()), "done": DONE}
    match offered:
        case str() if offered in named:
            return named[offered]
        case int() if not isinstance(offered, bool):
            return require_watermark(0, offered)
        case (int() as key, int() as value):
            return require_watermark(key, value)
    raise ModelError(
        f"{offered!r} is nothing that can come on an input.",
        remedy="give a number (a watermark of key 0), (key, number), 'idle', 'event' or 'done'.",
    )


def dataflow_permutations(
    dataflow: Dataflow, *, runs: int = 100, exhaustive: bool = False, seed: int = 0
) -> Permutations:
    """The distinct results of a dataflow over many orders; see `Dataflow.permutations`."""
    if runs < 1:
        raise ScenarioError(f"{runs} runs show nothing.", remedy="give at least one.")
    found: dict[tuple[tuple[str, ...], str | None], list[Permuted]] = {}
    tried, exact = 0, exhaustive
    for one in islice(_runs(dataflow, exhaustive, seed), runs + 1):
        if tried == runs:
            exact = False
            break
        tried += 1
        found.setdefault((one.output, one.failure), []).append(one)
    outcomes = [replace(same[0], count=len(same)) for same in found.values()]
    outcomes.sort(key=lambda one: -one.count)
    finals = {one.output: f"result {number}" for number, one in enumerate(outcomes, start=1)}
    outcomes = [one if one.failure is not None else replace(one, final=finals[one.output]) for one in outcomes]
    how = "every order of turns" if exhaustive else f"seeds {seed} to {seed + tried - 1}"
    return Permutations(
        of=f"{dataflow.name} ({how})",
        outcomes=tuple(outcomes),
        tried=tried,
        total=None,
        exact=exact and exhaustive,
        ends="result",
    )


def _runs(dataflow: Dataflow, exhaustive: bool, seed: int) -> Iterator[Permuted]:
    if not exhaustive:
        number = seed
        while True:
            yield _result(record_dataflow(dataflow.replace(seed=number)), (f"seed={number}",))
            number += 1
    still = dataflow.replace(jitter_ms=0.0)

    def run(choose: Choose) -> Permuted:
        names: list[str] = []

        def noted(due: Sequence[str]) -> int:
            place = choose(due)
            names.append(due[place])
            return place

        return _result(record_dataflow(still, choose=noted), tuple(names))

    yield from (result for result, _ in permute.every_choice(run))


def _result(recording: Recording, example: tuple[str, ...]) -> Permuted:
    """The rows of all sinks, sorted, and why the job failed."""
    rows = recording.table("sunk").to_pylist()
    sinks = {row["vertex"] for row in rows}
    last = recording.table("executions").to_pylist()[-1]
    return Permuted(
        output=tuple(sorted(_told(row, len(sinks)) for row in rows if row["committed"])),
        final="fails" if last["outcome"] == "failed" else "result",
        count=1,
        example=example,
        failure=last["reason"] if last["outcome"] == "failed" else None,
    )


def _told(row: Mapping[str, Any], sinks: int) -> str:
    return str(row["row"]) if sinks < 2 else f"{row['vertex']}: {row['row']}"
