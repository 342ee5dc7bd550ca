from __future__ import annotations

import json
from typing import Any

import pytest

from tests.streams.answers.runs import crash, cycle, fault, mark, position, segment, watermark, written
from wmlab.core.holders import Holders
from wmlab.core.recording import Recording
from wmlab.streams.answers.explain import explain
from wmlab.streams.api import Scenario
from wmlab.streams.recording import StreamRecording
from wmlab.streams.scenario.parts import EventWriter, Stream


@pytest.fixture(scope="module")
def run() -> Recording:
    return crash()


def over(recording: Recording) -> Holders:
    found = explain(recording)
    assert isinstance(found, Holders)
    return found


def told(found: Holders) -> list[tuple[Any, ...]]:
    return [(h.who, h.why, h.stretches, h.held_ms) for h in found]


def test_the_holders_of_a_run_are_those_that_held_longest_first() -> None:
    """w1 holds the bound at 0 for 3.5 of 10 s, where w2 had noted 3 000.

    For half a second the bound waits for a cycle. From 5 s on both hold it at 3 000, and nobody else is there.
    """
    recording = written(
        writer_marks=[mark("w1", 0, 0), mark("w2", 3_000, 0), mark("w1", 3_000, 4_500)],
        cycles=[
            cycle(1_000, None, outcome="emitted", participating=["w1", "w2"]),
            cycle(2_000, 0, lagging=["w1"], participating=["w2"], reason="waits"),
            cycle(5_000, 0, outcome="emitted", participating=["w1", "w2"]),
        ],
        watermarks=[watermark(0, 1_000, w1=0, w2=3_000), watermark(1, 5_000, w1=3_000, w2=3_000)],
        positions=[position(0, 0, 10_000)],
    )
    found = over(recording)
    assert found.run_ms == 10_000
    assert told(found) == [
        ("w1", "slowest", 2, 6_000),
        ("w2", "slowest", 1, 5_000),
        ("w1", "lagging", 1, 2_500),
        ("no cycle yet", "first cycle", 1, 1_000),
        ("the cycle period", "period", 1, 500),
    ]


def test_writers_that_hold_together_each_have_a_row() -> None:
    recording = written(
        writer_marks=[mark("w1", 0, 0), mark("w2", 0, 0), mark("w3", 500, 0)],
        cycles=[cycle(0, 0, lagging=["w1", "w2"], reason="waits")],
        watermarks=[watermark(0, 0, w1=0, w2=0, w3=500)],
        positions=[position(0, 0, 1_000)],
    )
    assert told(over(recording)) == [(name, "lagging", 1, 1_000) for name in ("w1", "w2")]


def test_a_run_lasts_as_long_as_its_scenario() -> None:
    """w1 holds the bound at 0 from 1 000 on, where w2 has noted 3 000; nothing is recorded after 1 000."""
    tables = {
        "segments": [segment()],
        "writer_marks": [mark("w1", 0, 500), mark("w2", 3_000, 500)],
        "cycles": [cycle(1_000, None, outcome="emitted", participating=["w1", "w2"])],
        "watermarks": [watermark(0, 1_000, w1=0, w2=3_000)],
    }
    writers = [EventWriter(name, rate_per_s=1) for name in ("w1", "w2")]
    scenario = Scenario("by hand", stream=Stream("orders"), writers=writers, duration_ms=4_000).to_dict()

    def length(deleted_ms: int | None = None, **given: object) -> int:
        faults = [] if deleted_ms is None else [fault("delete", "orders", deleted_ms, subject="stream")]
        return over(StreamRecording.from_tables(tables | {"incidents": faults}, name="by hand", **given)).run_ms

    assert length(scenario=scenario) == 4_000
    assert length(scenario=scenario, deleted_ms=2_500) == 2_500
    assert length() == 1_000
    found = over(StreamRecording.from_tables(tables, name="by hand", scenario=scenario))
    assert next((h.who, h.why, h.held_ms) for h in found) == ("w1", "slowest", 3_000)


def test_what_happens_before_the_creation_and_after_the_deletion_is_held_by_nobody() -> None:
    faults = [
        fault("crash", "w1", -500),
        fault("delete", "orders", 2_500, subject="stream"),
        fault("crash", "w2", 3_500),
    ]
    found = over(written(incidents=faults))
    assert (found.run_ms, [entry.held_ms for entry in found]) == (2_500, [2_500])


def test_what_stands_in_the_way_without_a_writer_is_a_holder_too() -> None:
    recording = written(
        writer_marks=[mark("w1", 5, 400)],
        cycles=[cycle(1_400, None, reason="cut failed: no positions")],
        positions=[position(0, 0, 2_000)],
    )
    assert told(over(recording)) == [
        ("no cycle yet", "first cycle", 1, 1_000),
        ("failed cycles", "cycle failed", 1, 600),
        ("no accepted time", "no mark", 1, 400),
    ]


def test_the_dead_writer_and_the_slow_one_share_a_run(run: Recording) -> None:
    found = over(run)
    dead = next(h for h in found if (h.who, h.why) == ("w2", "lagging"))
    assert (dead.stretches, dead.held_ms) == (1, 10_000)
    assert sum(h.held_ms for h in found) == found.run_ms
    assert found.sentence == "The watermark in the log of orders stood still for 11.0 s, held by w2 (down)."
    assert {label: value for label, value in found.facts.items() if label not in ("curve", "at")} == {
        "longest stop": 11_000,
        "from": 33_005,
        "to": 44_005,
        "cause": "lagging",
        "held by": "w2",
        "held for": 11_000,
        "holder state": "down",
        "holder since": 30_000,
    }


def test_holders_are_a_table_and_data(run: Recording) -> None:
    found = over(run)
    frame = found.to_pandas()
    assert list(frame.columns) == ["stream", "who", "why", "stretches", "held_ms"]
    assert len(frame) == len(found) == len(json.loads(found.to_json())["holders"])
    assert (
        "<td style='text-align:left'>w2</td><td style='text-align:left'>lagging</td>"
        "<td style='white-space:nowrap'>1</td><td style='white-space:nowrap'>10.0\u00a0s</td>" in found._repr_html_()
    )
    row = "w2 lagging 1 10.0 s"
    assert row in [" ".join(line.split()) for line in repr(found).splitlines()]
    assert json.loads(found.to_json())["facts"] == found.facts.to_dict()


def test_a_run_without_a_bound_says_what_was_missing() -> None:
    found = over(written(positions=[position(0, 0, 50)]))
    assert (found.sentence, told(found)) == (
        "No watermark was made.",
        [("no accepted time", "no mark", 1, 50)],
    )


def test_a_single_writer_holds_and_no_line_says_nothing() -> None:
    """The bound stands at 500 from 1 s to 9 s: cycles wait from 2 s on.

    At 8.9 s the writer notes a later time, which waits for the cycle of 9 s.
    """
    recording = written(
        writer_marks=[mark("w1", 500, 400), mark("w1", 9_000, 8_900)],
        cycles=[cycle(1_000, None, outcome="emitted", participating=["w1"])]
        + [cycle(at_ms, 500, lagging=["w1"], reason="waits") for at_ms in (2_000, 5_000)]
        + [cycle(9_000, 500, outcome="emitted", participating=["w1"])],
        watermarks=[watermark(0, 1_000, w1=500), watermark(1, 9_000, w1=9_000)],
        positions=[position(0, 0, 10_000)],
    )
    found = over(recording)
    assert told(found)[:2] == [
        ("w1", "lagging", 1, 6_900),
        ("w1", "slowest", 2, 2_000),
    ]
    assert found.sentence == "The watermark in the log of orders stood still for 8.0 s, held by w1."
    assert "unknown" not in repr(found) + found._repr_html_()
    assert "Lagging: the last cycle waited for this writer" in repr(found)


def test_words_and_numbers_stay_whole_at_the_margin(run: Recording) -> None:
    found = over(run)
    for text in (repr(found), repr(explain(run, at_ms=36_000))):
        prose = [line for line in text.splitlines() if "  " not in line]
        assert prose
        assert max(map(len, prose)) <= 100
        assert not any(line[-1].isdigit() for line in prose)
    assert "10.0\N{NO-BREAK SPACE}s" in found._repr_html_()


def test_the_answer_stands_above_the_table_and_what_its_words_mean_is_folded_below() -> None:
    page = Scenario.load("first_bounds").record().explain()._repr_html_()
    sentence, _, table = page.partition("<table>")
    assert sentence.startswith("<p style='text-align:left'>The watermark in the log of")
    assert "Stretches: how often" not in sentence
    assert "Stretches: how often" in table.partition("<details><summary>")[2]
