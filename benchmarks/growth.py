"""Case `growth`: what a run costs when one dimension of its scenario is ten times as large, and what was estimated.

Each dimension of each model is measured by itself: seconds of processors of `record()`, and next to them what
`estimate()` said before. There is no peer; the yardstick is the same scenario without the factor.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import wmlab as wm

THREADS = 1
FACTOR: Final = 10
MOST: Final = 12
"""The ratio up to which what a dimension costs counts as linear."""
OFF: Final = 2
"""The factor by which an estimate may be wrong."""

Scenario = Any


def streams(
    length: int,
    *,
    duration: int = 1,
    events: int = 1,
    writers: int = 1,
    notes: int = 1,
    segments: int = 1,
    scales: int = 1,
    readers: int = 1,
    controllers: int = 1,
    cycles: int = 1,
) -> Scenario:
    """Streams with writers, readers and controllers, and splits and merges in turns."""
    duration_ms = 30_000 * length * duration
    return wm.Scenario(
        "streams",
        stream=wm.Stream("s", segments=4 * segments),
        writers=[
            wm.EventWriter(f"w{n}", rate_per_s=50.0 * events, note_every_ms=500 // notes, delay_mean_ms=50)
            for n in range(4 * writers)
        ],
        readers=wm.ReaderGroup(readers=2 * readers, publish_every_ms=500),
        controllers=wm.Controllers(controllers, period_ms=1_000 // cycles),
        script=_scales(2 * scales, 4 * segments, duration_ms),
        duration_ms=duration_ms,
        seed=1,
    )


def _scales(count: int, segments: int, duration_ms: int) -> list[Any]:
    """Segment 0@0 is split, its successors are merged, and so on."""
    script: list[Any] = []
    sealed, following = ["0@0"], segments
    for epoch in range(1, count + 1):
        into = 3 - len(sealed)
        script.append(wm.script.Scale(at_ms=epoch * duration_ms // (count + 1), seal=sealed, into=into))
        sealed = [f"{following + number}@{epoch}" for number in range(into)]
        following += into
    return script


def dataflow(
    length: int, *, rows: int = 1, keys: int = 1, sources: int = 1, filters: int = 1, windows: int = 1
) -> Scenario:
    """Sources that are merged, filters in a row, a sliding window and a sink."""
    flow = wm.dataflow
    count = 100 * length * rows
    made = [
        flow.Source(
            f"source{n}",
            columns=["t", "key"],
            rows=[(20 * row, row % (4 * keys)) for row in range(count)],
            arrival="t",
            times=[flow.EventTime("t", lag_ms=100)],
        )
        for n in range(sources)
    ]
    row = [flow.Merge("merge"), *(flow.Filter(f"filter{n}", "key >= 0") for n in range(filters))]
    window = flow.Window(
        "window", 10_000, slide_ms=10_000 // windows, column="t", by=["key"], aggregates={"rows": "count()"}
    )
    row += [window, flow.Sink("sink")]
    edges = [f"{source.name} -> merge" for source in made] + [" -> ".join(vertex.name for vertex in row)]
    return flow.Dataflow("dataflow", vertices=[*made, *row], edges=edges, duration_ms=20 * count + 20_000)


def progress(
    length: int,
    *,
    duration: int = 1,
    records: int = 1,
    buffers: int = 1,
    sources: int = 1,
    operators: int = 1,
    workers: int = 1,
    windows: int = 1,
    queries: int = 1,
) -> Scenario:
    """Queries of several sources, with operators in a row and sliding windows."""
    plan = wm.progress

    def source(name: str) -> Any:
        projections = [plan.Projection(1.0) for _ in range(operators)]
        return plan.Source(name, rate_per_s=100.0 * records, buffer_records=10 // buffers, operators=projections)

    return plan.PlanScenario(
        "plan",
        queries=[
            plan.Query(
                f"query{number}",
                sources=[source(f"source{number}-{n}") for n in range(2 * sources)],
                operators=[plan.Aggregate(2_000, slide_ms=2_000 // windows)],
            )
            for number in range(queries)
        ],
        workers=plan.Workers(4 * workers, service_mean_ms=1),
        duration_ms=20_000 * length * duration,
        seed=1,
    )


Model = Callable[..., Scenario]
DIMENSIONS: Final[dict[Model, tuple[str, ...]]] = {
    model: tuple((model.__kwdefaults__ or {}).keys()) for model in (streams, dataflow, progress)
}
"""By model, what it can be ten times as large in."""


def run(rows: int | None, runs: int) -> Iterator[str]:
    """The lines of the report; `rows` is how many times as long the runs are as the shortest, by default 10."""
    length = 10 if rows is None else rows
    yield f"{'model':<10}{'10 times':<13}{'s':>7}{'ratio':>7}{'estimated s':>13}{'ratio':>7}"
    too_dear, too_far = [], []
    for model, names in DIMENSIONS.items():
        model(1).record()
        alone_s = min(processors_s(model(length)) for _ in range(runs))
        yield _line(model.__name__, "(base)", alone_s, 1.0, _estimated_s(model(length)) / alone_s)
        for name in names:
            large = model(length, **{name: FACTOR})
            large_s = processors_s(large)
            growth, off = large_s / alone_s, _estimated_s(large) / large_s
            yield _line(model.__name__, name, large_s, growth, off)
            too_dear += [name] if growth > MOST else []
            too_far += [name] if not 1 / OFF <= off <= OFF else []
    yield f"more than {MOST} times: {', '.join(too_dear) or 'none'}"
    yield f"estimates off by more than {OFF}: {', '.join(too_far) or 'none'}"


def processors_s(scenario: Scenario) -> float:
    """Seconds of processors that a run takes; what the run before it has left is collected first."""
    gc.collect()
    begun_s = time.process_time()
    scenario.record()
    return time.process_time() - begun_s


def _estimated_s(scenario: Scenario) -> float:
    """The estimate, which is in whole seconds, with its fraction."""
    return sum(cost.us for cost in scenario.estimate().costs) / 1e6


def _line(model: str, name: str, seconds: float, growth: float, off: float) -> str:
    return f"{model:<10}{name:<13}{seconds:>7.2f}{growth:>7.1f}{seconds * off:>13.2f}{off:>7.2f}"
