"""Who held a watermark over a run, and for how long."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

import wmlab as wm
from tests.dataflow.flows import line
from tests.repetitions import repetitions
from wmlab import dataflow as flow
from wmlab.core.holders import Holders
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


def held_by(run: Recording, **asked: Any) -> Holders:
    answer = run.explain(**asked)
    assert isinstance(answer, Holders)
    return answer


@pytest.mark.parametrize(
    ("vertices", "stalled", "fields"),
    [([], "count", {}), ([PASS], "pass", {}), ([], "web", {}), ([PASS], "out", {"queue_size": 2})],
    ids=["asked vertex", "vertex between", "source", "back pressure"],
)
def test_what_stands_still_for_half_of_the_run_is_named_first_with_its_time(
    vertices: list[Any], stalled: str, fields: dict[str, Any]
) -> None:
    answer = held_by(shop(*vertices, faults=[flow.Stall(stalled, at_ms="8 s", for_ms="20 s")], **fields))
    (first, *_) = answer
    assert (first.who, first.why) == (stalled, "stalled")
    assert 19_000 <= first.held_ms <= 20_400
    assert answer.headline.startswith(f"The watermark at count was held longest by {stalled} (stalled), for ")
    assert answer.facts["held for"] == first.held_ms
    assert [holder.held_ms for holder in answer] == sorted((holder.held_ms for holder in answer), reverse=True)


def test_each_holder_and_cause_has_one_row_and_causes_are_defined() -> None:
    answer = held_by(shop(faults=[flow.Stall("count", at_ms="8 s", for_ms="20 s")]))
    assert len({(entry.who, entry.why) for entry in answer}) == len(answer)
    for why in {entry.why for entry in answer}:
        assert f"\n{why[:1].upper()}{why[1:]}: " in repr(answer)
        assert f"<li>{why[:1].upper()}{why[1:]}: " in answer._repr_html_()


def test_the_charts_name_the_same_first() -> None:
    run = shop(faults=[flow.Stall("count", at_ms="8 s", for_ms="20 s")])
    answer = held_by(run)
    assert wm.chart.holders(answer).sentence.endswith("was held longest by count (stalled), for 20.0 s.")
    chart = wm.dataflow.chart.coalescing(run, vertex="count")
    assert chart.sentence.startswith(answer.headline)


@pytest.mark.parametrize("seed", range(repetitions(5, long=100)))
def test_the_head_of_the_chart_says_what_explain_says_of_the_same_watermark(seed: int) -> None:
    run = drawn(seed).record()
    answer = held_by(run, vertex="count", key=0, instance=0)
    assert wm.dataflow.chart.coalescing(run, vertex="count").sentence.startswith(answer.sentence)
    assert sum(holder.held_ms for holder in answer) >= answer.facts["held for"] > 0


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


STALL = flow.Stall("count", at_ms="8 s", for_ms="20 s")


@pytest.mark.parametrize("at_s", [9, 11, 14, 20, 27])
@pytest.mark.parametrize(
    ("vertices", "stalled", "fields"),
    [([], "count", {}), ([PASS], "pass", {}), ([], "web", {}), ([PASS], "out", {"queue_size": 2})],
    ids=["asked vertex", "vertex between", "source", "back pressure"],
)
def test_what_stands_still_is_said_at_once_and_nothing_ahead_of_the_watermark_is_named(
    vertices: list[Any], stalled: str, fields: dict[str, Any], at_s: int
) -> None:
    run = shop(*vertices, faults=[flow.Stall(stalled, at_ms="8 s", for_ms="20 s")], **fields)
    answer = run.explain(at_ms=f"{at_s} s")
    assert f"It is held because {stalled} stands still from 8 s to 28 s" in answer.sentence
    assert "held by partition" not in answer.sentence
    assert re.search(rf"when {stalled} goes on, at 28 s at the earliest|but not before {stalled} goes on at 28 s\.",
                     answer.sentence)  # fmt: skip
    assert answer.release_ms is None
    later = run.explain(at_ms="29 s")
    assert later.watermark > answer.needed
    assert "stands still" not in later.sentence


def test_what_a_window_still_needs_is_said_of_the_release() -> None:
    answer = shop(faults=[STALL]).explain(at_ms="9 s")
    assert answer.sentence.endswith(
        "It is released by a row with t ≥ 10 s in each of partition 1 of web and partition 0 of web, or by the end of "
        "web, but not before count goes on at 28 s."
    )
    silent = shop(faults=[STALL, flow.SilentPartition("web", 1, at_ms="5 s", for_ms="30 s")]).explain(at_ms="9 s")
    assert "It is held because count stands still from 8 s to 28 s; and by partition 1 of web: its" in silent.sentence


def test_calls_in_flight_are_named_before_the_rows_that_a_window_needs() -> None:
    slowed = flow.SlowCalls("call", at_ms="8 s", for_ms="10 s", by_ms="6 s")
    answer = shop(CALL, faults=[slowed]).explain(at_ms="9 s")
    assert (answer.holders[0].name, answer.holders[0].kind, answer.holders[0].last_ms) == ("call", "inside", 8_002)
    assert "but a call that began at 8.0 s is in flight; calls that begin from 8 s to 18 s take 6 s longer." in (
        answer.sentence
    )
    held, _, below = answer.sentence.partition("It is released")[0].partition(" Also below 10 s: ")
    assert "partition" not in held
    assert below == "partition 0 of web (8.8 s) and partition 1 of web (8.9 s). "


def test_a_vertex_next_to_the_path_that_stands_still_is_named_where_it_stops_the_source() -> None:
    side = flow.Map("side", select={"id": "id", "t": "t"})
    dataflow = flow.Dataflow(
        "both ways",
        vertices=[WEB, PASS, COUNT, side, flow.Sink("out"), flow.Sink("end")],
        edges=["web -> pass -> count -> out", "web -> side -> end"],
        faults=[flow.Stall("side", at_ms="8 s", for_ms="20 s")],
        queue_size=4,
        duration_ms=40_000,
    )
    run = dataflow.record()
    assert (
        "It is held because side stands still from 8 s to 28 s (web: the watermark has come, but its queue to side"
        in (run.explain(at_ms="12 s", vertex="count").sentence)
    )
    assert "held longest by side (stalled), for " in held_by(run, vertex="count").sentence


def test_after_a_failure_sentences_are_about_the_past() -> None:
    """A call fails, and with it the job, while a window waits for its end."""
    run = shop(CALL, faults=[flow.FailCall("call", at_ms="7 s")])
    at_end = run.explain(at_ms="20 s").sentence
    last = r"The last watermark of key 0 at count was 6\.?\d* s, from \d\.\d s on\."
    assert re.fullmatch(rf"The job failed at 7\.\d s: .*\. {last}", at_end)
    window = run.explain(window=(5_000, 10_000), at_ms="20 s").sentence
    assert " of count held " in window
    assert window.endswith(" and waited for watermark 10 s of key 0.")
