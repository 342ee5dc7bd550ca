"""Who held a watermark over a run, and for how long."""

from __future__ import annotations

import re
from typing import Any

import pytest

import wmlab as wm
from tests.dataflow.flows import line
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


def test_the_chart_of_holders_names_the_same_first() -> None:
    run = shop(faults=[flow.Stall("count", at_ms="8 s", for_ms="20 s")])
    answer = held_by(run)
    assert wm.chart.holders(answer).sentence.endswith("was held longest by count (stalled), for 20.0 s.")


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
    labels = ("holder", "cause", "fault", "fault from", "fault until", "goes on at")
    assert [answer.facts[label] for label in labels] == [stalled, "stalled", "stalled", 8_000, 28_000, 28_000]
    assert answer.sentence.endswith(f"held by {stalled} (stalled). It is not released before 28.0 s.")
    assert answer.release_ms is None
    later = run.explain(at_ms="29 s")
    assert later.watermark > answer.needed
    assert later.facts["cause"] != "stalled"


def test_what_a_window_still_needs_is_said_of_the_release() -> None:
    answer = shop(faults=[STALL]).explain(at_ms="9 s")
    labels = ("row in each of", "row of", "end of", "goes on at")
    partitions = ("partition 1 of web", "partition 0 of web")
    assert [answer.facts[label] for label in labels] == [partitions, 10_000, "web", 28_000]
    silent = shop(faults=[STALL, flow.SilentPartition("web", 1, at_ms="5 s", for_ms="30 s")]).explain(at_ms="9 s")
    assert silent.facts["holder"] == ("count", "partition 1 of web")
    assert silent.facts["cause"] == ("stalled", "slow")


def test_calls_in_flight_are_named_before_the_rows_that_a_window_needs() -> None:
    slowed = flow.SlowCalls("call", at_ms="8 s", for_ms="10 s", by_ms="6 s")
    answer = shop(CALL, faults=[slowed]).explain(at_ms="9 s")
    assert (answer.holders[0].name, answer.holders[0].kind, answer.holders[0].last_ms) == ("call", "inside", 8_002)
    labels = ("holder", "cause", "waits since", "fault", "fault until", "also below", "watermark also below")
    assert [answer.facts[label] for label in labels] == [
        "call",
        "inside",
        8_002,
        "slowed",
        18_000,
        ("partition 0 of web", "partition 1 of web"),
        (8_800, 8_900),
    ]


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
    facts = run.explain(at_ms="12 s", vertex="count").facts
    assert [facts[label] for label in ("holder", "cause", "taken by")] == ["side", "stalled", "side"]
    assert "held longest by side (stalled), for " in held_by(run, vertex="count").sentence


def test_after_a_failure_sentences_are_about_the_past() -> None:
    """A call fails, and with it the job, while a window waits for its end."""
    run = shop(CALL, faults=[flow.FailCall("call", at_ms="7 s")])
    at_end = run.explain(at_ms="20 s").sentence
    last = r"The last watermark of key 0 at count was 6\.?\d* s, from \d\.\d s on\."
    assert re.fullmatch(rf"The job failed at 7\.\d s: .*\. {last}", at_end)
    window = run.explain(window=(5_000, 10_000), at_ms="20 s").sentence
    assert window.endswith("The window from 5.0 s to 10.0 s of count (rows: 20) waits for 10.0 s.")
