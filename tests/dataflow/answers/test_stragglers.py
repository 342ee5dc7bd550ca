"""Who held a watermark over a run: the fault that `wm.compare` shows to cost most is named first, with its cost."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

import wmlab as wm
from tests.dataflow.flows import line
from tests.repetitions import repetitions
from wmlab import dataflow as flow
from wmlab.core.answers import Stragglers
from wmlab.core.recording import Recording

ROWS = [(n, 100 * n, n % 2) for n in range(380)]
WEB = flow.Source(
    "web", columns=["id", "t", "p"], rows=ROWS, times="t", every_ms=100, partitions=2, partition_by="p"
)  # fmt: skip
COUNT = flow.Window("count", 5_000, column="t", aggregates={"n": "count()"})
PASS = flow.Map("pass", select={"id": "id", "t": "t"})
CALL = flow.AsyncMap("call", select={"id": "id", "t": "t"})


def shop(*vertices: Any, faults: Any = (), **fields: Any) -> Recording:
    """Two partitions, each with a row every 200 ms, into windows of 5 s."""
    return line(
        WEB, *vertices, COUNT, **({"faults": faults, "duration_ms": 40_000, "jitter_ms": 2.0} | fields)
    ).record()


def held_by(run: Recording, **asked: Any) -> Stragglers:
    answer = run.explain(**asked)
    assert isinstance(answer, Stragglers)
    return answer


def lag_ms(run: Any) -> float:
    lag = run.measures().lag_ms
    assert lag is not None
    return float(lag)


@pytest.mark.parametrize(
    ("vertices", "fault", "fields", "first"),
    [
        ([], flow.Stall("count", at_ms="8 s", for_ms="20 s"), {}, "count, which stood still from 8 s to 28 s"),
        ([PASS], flow.Stall("pass", at_ms="8 s", for_ms="20 s"), {}, "pass, which stood still from 8 s to 28 s"),
        ([], flow.Stall("web", at_ms="8 s", for_ms="20 s"), {}, "web, which stood still from 8 s to 28 s"),
        (
            [PASS],
            flow.Stall("out", at_ms="8 s", for_ms="20 s"),
            {"queue_size": 2},
            "out, which stood still from 8 s to 28 s",
        ),
        (
            [CALL],
            flow.SlowCalls("call", at_ms="8 s", for_ms="10 s", by_ms="6 s"),
            {},
            "call, whose calls from 8 s to 18 s took 6 s longer",
        ),
        (
            [],
            flow.SilentPartition("web", 1, at_ms="8 s", for_ms="20 s"),
            {},
            "partition 1 of web, whose rows from 8 s to 28 s never arrived",
        ),
        (
            [],
            flow.LatePartition("web", 1, at_ms="8 s", for_ms="10 s", by_ms="6 s"),
            {},
            "partition 1 of web, whose rows from 8 s to 18 s came 6 s later",
        ),
    ],
    ids=["asked vertex", "vertex between", "source", "back pressure", "calls", "silent", "late"],
)
def test_a_fault_is_named_first_with_what_it_costs(
    vertices: list[Any], fault: Any, fields: dict[str, Any], first: str
) -> None:
    run, without = shop(*vertices, faults=[fault], **fields), shop(*vertices, **fields)
    answer, more_ms = held_by(run), lag_ms(run) - lag_ms(without)
    assert f"was held back most by {first}: for " in answer.sentence
    cost_ms = answer.stragglers[0].cost_ms
    assert cost_ms is not None
    assert more_ms > 1_000
    assert abs(cost_ms - more_ms) < 0.15 * more_ms, (cost_ms, more_ms)
    assert [entry.why for entry in answer].count("on queue") <= 1


def test_a_cost_is_that_of_the_run_without_it_where_no_other_input_is_ahead() -> None:
    (stalled, *_) = held_by(shop(faults=[flow.Stall("count", at_ms="8 s", for_ms="20 s")]))
    assert (stalled.who, stalled.why, stalled.against) == ("count", "stalled", "the run without it")
    assert 19_800 <= stalled.held_ms <= 20_200
    alone = line(flow.Source("s", columns=["t"], rows=[[100 * n] for n in range(100)], times="t", every_ms=100), COUNT)
    quiet = held_by(alone.replace(faults=[flow.SilentPartition("s", 0, at_ms=3_000)], duration_ms=10_000).record())
    assert "held back most by partition 0 of s, whose rows from 3 s on never arrived: for 7.0 s" in quiet.sentence


def test_what_happens_at_the_same_time_and_costs_nothing_is_not_the_cause() -> None:
    """As designed, a row that the filter of a source rejects moves the watermark all the same."""
    rows = [[100 * n] for n in range(400)]
    source = flow.Source("s", columns=["t"], rows=rows, times="t", every_ms=100, where="t >= 0", idle_timeout_ms=3_000)
    run = line(source, COUNT, faults=[flow.SwallowAll("s", at_ms=7_000, for_ms=12_000)], duration_ms=40_000).record()
    assert run.counts["source_rows"] > sum(row["passed"] for row in run.table("source_rows").to_pylist())
    assert "rejected" not in held_by(run).sentence


def test_two_rows_of_one_holder_and_cause_say_what_they_differ_in_and_causes_are_defined() -> None:
    answer = held_by(shop(faults=[flow.Stall("count", at_ms="8 s", for_ms="20 s")]))
    lines = [line for line in repr(answer).splitlines() if line.startswith("  ")]
    of_slow = [line for line in lines if "partition 1 of web" in line]
    assert len(of_slow) == 2
    assert sorted("without a watermark at count" in line for line in of_slow) == [False, True]
    for why in {entry.why for entry in answer}:
        assert f"\n{why}: " in repr(answer)
        assert f"<li>{why}: " in answer._repr_html_()
    assert all(re.search(r"cost|without", line) for line in lines)


def test_the_chart_of_costs_names_the_same_first() -> None:
    answer = held_by(shop(faults=[flow.Stall("count", at_ms="8 s", for_ms="20 s")]))
    chart = wm.chart.holder_costs(answer)
    assert chart.sentence.startswith("count (stalled) cost most: ")


def drawn(seed: int) -> flow.Dataflow:
    """One of four shapes with one or two faults, drawn by the seed."""
    draw = random.Random(seed)
    shape = draw.choice(["line", "merge", "calls", "parallel"])
    sources, partitions = [], {}
    for name in ("web", "app") if shape == "merge" else ("web",):
        partitions[name] = draw.choice([1, 2, 3])
        late_ms = draw.choice([0, 300])
        rows = [(n, 100 * n - draw.randint(0, late_ms), draw.randrange(partitions[name])) for n in range(200)]
        by = "p" if partitions[name] > 1 else None
        idle_ms = draw.choice([0, 3_000, 60_000])
        sources.append(
            flow.Source(name, columns=["id", "t", "p"], rows=rows, times="t", every_ms=100, idle_timeout_ms=idle_ms,
                        partitions=partitions[name], partition_by=by)
        )  # fmt: skip
    between = {"line": [PASS], "merge": [flow.Merge("both")], "calls": [CALL], "parallel": []}[shape]
    window = flow.Window("count", 2_000, column="t", by="id", aggregates={"n": "count()"},
                         parallelism=2 if shape == "parallel" else 1)  # fmt: skip
    path = " -> ".join([*(vertex.name for vertex in between), "count", "out"])
    faults: list[Any] = []
    for _ in range(draw.choice([1, 1, 2])):
        source = draw.choice(sorted(partitions))
        partition, at_ms = draw.randrange(partitions[source]), draw.randrange(2_000, 10_000, 500)
        for_ms = draw.choice([4_000, 8_000])
        stalled = draw.choice([*(vertex.name for vertex in (*sources, *between)), "count"])
        faults.append(
            draw.choice(
                [
                    flow.SilentPartition(source, partition, at_ms=at_ms, for_ms=for_ms),
                    flow.LatePartition(source, partition, at_ms=at_ms, for_ms=for_ms, by_ms=3_000),
                    flow.Stall(stalled, at_ms=at_ms, for_ms=for_ms),
                    flow.SlowCalls("call", at_ms=at_ms, for_ms=for_ms, by_ms=3_000)
                    if shape == "calls"
                    else flow.Stall("count", at_ms=at_ms, for_ms=for_ms),
                ]
            )
        )
    return flow.Dataflow(
        f"{shape} {seed}",
        vertices=[*sources, *between, window, flow.Sink("out")],
        edges=[f"{source.name} -> {path}" for source in sources],
        faults=faults,
        duration_ms=20_000,
        queue_size=draw.choice([1_024, 4]),
        seed=seed,
    )


def parties(fault: Any) -> tuple[str, ...]:
    """What a table of the run may call that which a fault happens to: instances of several have numbers."""
    if hasattr(fault, "partition"):
        return (f"partition {fault.partition} of {fault.source}",)
    return (fault.vertex, *(f"{fault.vertex}[{number}]" for number in range(2)))


@pytest.mark.parametrize("seed", range(repetitions(10, long=200)))
def test_the_run_names_first_the_fault_without_which_the_mean_lag_is_lowest(seed: int) -> None:
    dataflow = drawn(seed)
    run, faults = dataflow.record(), dataflow.faults
    answer = held_by(run)
    gains = [
        lag_ms(run) - lag_ms(dataflow.replace(faults=[*faults[:n], *faults[n + 1 :]]).record())
        for n in range(len(faults))
    ]
    best = max(range(len(faults)), key=lambda n: gains[n])
    # A lower gain is not above what partitions that are in turn behind each other cost.
    if gains[best] > 500 and all(gain < 0.8 * gains[best] for n, gain in enumerate(gains) if n != best):
        assert answer.stragglers[0].who in parties(faults[best]), (faults, gains, answer.sentence)
