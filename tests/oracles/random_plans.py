"""Random query plans of every shape, under all rules, with every kind of fault that a script has."""

from __future__ import annotations

from random import Random
from typing import Any

import wmlab as wm

plan: Any = wm.progress

DURATION_MS = 3_000
KINDS = (
    plan.LoseBuffer,
    plan.DelayBuffer,
    plan.DuplicateBuffer,
    plan.EmptyBuffer,
    plan.SilenceSource,
    plan.StallWorker,
)
INSTANT_MS = 1_373_846_400_000


def random_plan(seed: int) -> wm.progress.PlanScenario:
    """One query, or two, of three seconds; below zero three shapes of their own."""
    if seed < 0:
        return (_lost_in_a_silence, _delayed_twice, _handed_over)[seed]()
    draw = Random(f"plan {seed}")
    names = ["a", "b", "c"][: draw.choice([1, 2, 2, 3])]
    queries = [_query("q", names, draw)]
    if draw.random() < 0.2:
        queries.append(_query("p", ["d"], draw))
    sources = [source for query in queries for source in query.physical]
    workers = draw.choice([1, 1, 2, 4])
    kinds = draw.choice([KINDS, KINDS, KINDS, KINDS, (plan.StallWorker,)])
    return plan.PlanScenario(
        f"random plan {seed}",
        queries=queries,
        workers=plan.Workers(
            workers,
            service_mean_ms=draw.choice([0.0, 5.0, 20.0]),
            service=draw.choice(["exponential", "lognormal", "constant"]),
        ),
        script=[_fault(draw.choice(kinds), sources, workers, draw) for _ in range(draw.choice([0, 1, 2, 3, 5]))],
        duration_ms=DURATION_MS,
        start_ms=draw.choice([0, 0, INSTANT_MS]),
        flush_at_end=draw.random() < 0.8,
        rules=_rules(draw),
        seed=seed,
    )


def _rules(draw: Random) -> wm.progress.Rules:
    """A set of rules with options of its own, which none of the sets may have."""
    base = draw.choice(["sound", "sound", "design", "implementation", "diagram"])
    trackers = draw.choice(
        [{}, {}, {"complete": "count"}, {"complete": "balance", "chunk_base": 1}, {"local": "literal"}]
    )
    carries, sends = draw.choice(["start", "largest"]), draw.choice(["when full", "every second"])
    return plan.Rules(base, **trackers, carries=carries, sends=sends)


def _lost_in_a_silence() -> wm.progress.PlanScenario:
    """A buffer has begun when its source becomes silent, and is lost when it is flushed."""
    of_a = plan.Source("a", times_ms=[100, 200, 900], buffer_records=2, flush_every_ms=1_000)
    of_b = plan.Source("b", rate_per_s=60, buffer_records=5)
    return plan.PlanScenario(
        "lost in a silence",
        queries=[plan.Query("q", sources=[of_a, of_b], operators=[plan.Aggregate(500)])],
        script=[plan.SilenceSource("a", at_ms=1_000), plan.LoseBuffer("a", 2)],
        duration_ms=DURATION_MS,
    )


def _delayed_twice() -> wm.progress.PlanScenario:
    """Both chunks of one sequence are late, the later one by less, and further sequences of another source."""
    of_a = plan.Source("a", rate_per_s=60, buffer_records=5, operators=[plan.Projection(2.0), plan.Emit()])
    of_b = plan.Source("b", rate_per_s=60, buffer_records=5)
    late = [plan.DelayBuffer("a", 4, chunk=chunk, by_ms=by_ms) for chunk, by_ms in ((0, 2_400), (1, 1_800))]
    return plan.PlanScenario(
        "delayed twice",
        queries=[plan.Query("q", sources=[of_a, of_b], operators=[plan.Aggregate(500)])],
        script=late,
        duration_ms=DURATION_MS,
    )


def _handed_over() -> wm.progress.PlanScenario:
    """The global watermark stands still, held by one source and then by another one, whose watermark goes back."""
    rows = {"a": [(1_000, 1_100), (2_900, 2_000)], "b": [(2_000, 1_200), (1_000, 1_500), (2_950, 2_960)]}
    fields: Any = {"columns": ("t", "at"), "event_time": "t", "arrival": "at", "buffer_records": 1}
    sources = [plan.Source(name, rows=every, **fields) for name, every in rows.items()]
    return plan.PlanScenario(
        "handed over",
        queries=[plan.Query("q", sources=sources, operators=[plan.Aggregate(500)])],
        workers=plan.Workers(1, service_mean_ms=0.0),
        rules=plan.Rules(local="head"),
        duration_ms=DURATION_MS,
    )


def _query(name: str, names: list[str], draw: Random) -> wm.progress.Query:
    sources: list[Any] = [_source(each, draw) for each in names]
    if len(sources) > 1 and draw.random() < 0.3:
        chain = draw.choice([[], [plan.Renumber(f"{name}-both")], [plan.Join(400), plan.Emit()], [plan.Aggregate(300)]])
        sources = [plan.LogicalStream(f"{name}-stream", sources=sources[:2], operators=chain), *sources[2:]]
    window = plan.Aggregate(draw.choice([200, 500]), slide_ms=draw.choice([None, 100]))
    chains: list[list[Any]] = [
        [],
        [window],
        [window],
        [plan.Emit(), window, plan.Emit()],
        [plan.Renumber(f"{name}-merged"), window],
        [plan.InOrder(f"{name}-order"), window],
        [plan.Renumber(f"{name}-merged"), plan.Projection(2.0), plan.Emit()],
        [window, plan.Emit(), plan.Aggregate(1_000)],
    ]
    if len(sources) > 1:
        join = plan.Join(draw.choice([200, 400]), slide_ms=draw.choice([None, 100]))
        chains += [[join], [join, plan.Emit(), plan.Aggregate(800)]]
    return plan.Query(name, sources=sources, operators=draw.choice(chains))


def _source(name: str, draw: Random) -> wm.progress.Source:
    chains: list[list[Any]] = [
        [],
        [],
        [plan.Filter(0.5)],
        [plan.Projection(2.0), plan.Emit()],
        [plan.Projection(3.0), plan.Emit(), plan.Filter(0.8), plan.Emit(buffer_records=3)],
        [plan.Emit(), plan.InOrder(f"{name}-order")],
        [plan.Renumber(f"{name}-renumbered")],
        [plan.Aggregate(100)],
    ]
    records: dict[str, Any] = draw.choice(
        [
            {"rate_per_s": draw.choice([10, 60, 60])},
            {"times_ms": [draw.randrange(0, DURATION_MS) for _ in range(40)]},
            {"rows": [(t, t + draw.randrange(0, 500)) for t in range(0, DURATION_MS, 90)], "columns": ("t", "at")},
        ]
    )
    if "rows" in records:
        records |= {"event_time": "t", "arrival": "at"}
    return plan.Source(
        name,
        **records,
        delay_mean_ms=draw.choice([0.0, 200.0]),
        disorder_ms=draw.choice([0, 0, 600]),
        lag_ms=draw.choice([0, 0, 300]),
        buffer_records=draw.choice([2, 5, 10]),
        flush_every_ms=draw.choice([250, None]),
        stamp=draw.choice(["event_time", "event_time", "ingestion_time"]),
        keys=3,
        operators=draw.choice(chains),
    )


def _fault(kind: Any, sources: list[wm.progress.Source], workers: int, draw: Random) -> Any:
    of_source, sequence = draw.choice(sources), draw.choice([1, 2, 3, 4, 6, 9, 300])
    source = of_source.name
    chunk = draw.choice([None, 0, 1]) if plan.Emit() in of_source.operators else None
    if kind is plan.SilenceSource:
        return kind(source, at_ms=draw.choice([0, 700, 1_500]))
    if kind is plan.StallWorker:
        return kind(draw.randint(1, workers), at_ms=draw.choice([300, 1_000]), for_ms=draw.choice([200, 900]))
    if kind is plan.EmptyBuffer:
        return kind(source, sequence)
    times = {plan.DelayBuffer: {"by_ms": draw.choice([600, 1_500])}, plan.DuplicateBuffer: {"after_ms": 300}}
    return kind(source, sequence, chunk=chunk, **times.get(kind, {}))
