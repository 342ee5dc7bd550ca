"""The chart of generations shows who was in each one, and tells the two cases of left-out writers apart."""

from __future__ import annotations

from functools import cache

import pytest

import wmlab as wm
from tests.core.charts.layers import layers_of_kind
from wmlab.core.charts.scene import Dots, Steps
from wmlab.core.errors import ChartError
from wmlab.streams.answers.cycles import all_cycles
from wmlab.streams.recording import StreamRecording


@cache
def tills(
    *script: wm.script.NoteTime | wm.script.CrashWriter | wm.script.ShutDownWriter, late: bool = False
) -> StreamRecording:
    """Three writers, of whom the third notes no time by itself if it is `late`."""
    third = wm.EventWriter("c", rate_per_s=0 if late else 5, note_every_ms=None if late else 1_000)
    return wm.Scenario(
        name="tills",
        stream=wm.Stream("sales", timestamp_aggregation_timeout_ms=8_000),
        writers=[*(wm.EventWriter(name, rate_per_s=5, note_every_ms=1_000) for name in "ab"), third],
        controllers=wm.Controllers(period_ms=2_000),
        script=script,
        duration_ms=40_000,
    ).record()


def roles_of(chart: wm.chart.Chart, writer: str) -> list[str]:
    rows = zip(chart.data["writer"], chart.data["standing"], strict=True)
    return [place.partition(":")[0] + place[-8:] * place.startswith("left") for name, place in rows if name == writer]


CRASH = wm.script.CrashWriter(at_ms=10_000, writer="c")


def test_case_a_is_a_writer_that_has_stopped() -> None:
    chart = wm.chart.generations(tills(CRASH))
    assert set(roles_of(chart, "a")) == {"in the generation"}
    assert roles_of(chart, "c")[-5:] == ["left out(case a)"] * 4 + ["removed from the known set"]
    assert chart.sentence == "Generations in a row without c: 4, from 13.0 s on."
    assert chart.facts["left out from"] == 13_005


def test_a_writer_that_shut_down_is_removed_without_being_left_out() -> None:
    chart = wm.chart.generations(tills(wm.script.ShutDownWriter(at_ms=10_000, writer="c")))
    assert set(roles_of(chart, "c")) == {"in the generation", "removed from the known set"}
    assert chart.sentence == "Every known writer was in every generation."


def test_case_b_is_a_writer_that_notes_older_times() -> None:
    notes = [
        wm.script.NoteTime(at_ms=at, writer="c", time=min(at, 5 * (at - 20_000))) for at in range(21_000, 40_000, 500)
    ]
    chart = wm.chart.generations(tills(*notes, late=True))
    roles = roles_of(chart, "c")
    assert set(roles) == {"left out(case b)", "in the generation"}
    assert roles == sorted(roles, reverse=True)  # first left out, then in
    assert (chart.facts["left out longest"], chart.facts["left out of"]) == ("c", roles.index("in the generation"))


def test_a_dot_stands_for_every_row_of_the_cycles_and_lines_for_those_who_were_left_out() -> None:
    run = tills(CRASH)
    chart = wm.chart.generations(run)
    dots = sum(len(layer.xs) for layer in layers_of_kind(chart, Dots))
    columns = run.to_pandas("cycles")[["participating", "lagging", "removed"]]
    assert dots == columns.map(len).to_numpy().sum() == len(chart.data["writer"])
    barrier, left_out = layers_of_kind(chart, Steps)
    assert (barrier.name, left_out.name) == ("barrier", "c")
    assert left_out.ys[-1] is None, "it is not known any more"


def test_without_anybody_left_out_it_says_so() -> None:
    chart = wm.chart.generations(tills())
    assert chart.sentence == "Every known writer was in every generation."
    assert set(chart.data["writer"]) == {"a", "b", "c"}


def test_a_recording_without_cycles_is_refused() -> None:
    with pytest.raises(ChartError, match="no stream in its table 'cycles'"):
        wm.chart.generations(StreamRecording.from_tables({}, name="nothing"))


def test_a_cycle_that_died_after_its_watermark_is_a_cycle_between_the_others() -> None:
    """Another controller began a cycle in the same ms, and an end of known time is no watermark of writers."""
    ran = [{"controller": name, "at_ms": at_ms} for name, at_ms in (("c0", 1_000), ("c1", 2_000), ("c0", 3_000))]
    marks = [
        {"controller": "c0", "cycle_ms": at_ms, "lower": at_ms - 500, "writers": writers}
        for at_ms, writers in ((1_000, [("w1", 500)]), (2_000, [("w1", 1_500)]), (2_500, []))
    ]
    unknown = {"controller": "c0", "cycle_ms": None, "lower": 9, "writers": [("w1", 9)]}
    known = all_cycles(list(reversed(ran)), [*marks, unknown])
    assert [(row["controller"], row["at_ms"]) for row in known] == [
        ("c0", 1_000),
        ("c1", 2_000),
        ("c0", 2_000),
        ("c0", 3_000),
    ]
    died = known[2]
    assert (died["outcome"], died["previous_lower"], died["participating"]) == ("emitted", 500, ["w1"])
