"""The charts of progress and of windows that fire: what they say, what they draw, and what they refuse."""

from __future__ import annotations

from functools import partial
from typing import Any

import pandas as pd
import pytest

from tests.core.charts.layers import check_chart, layers_of, layers_of_kind, points
from tests.progress.sim.plans import query, scenario
from wmlab.core.charts.scene import Steps
from wmlab.core.charts.style import ROLES
from wmlab.core.errors import ChartError
from wmlab.progress import Aggregate, DelayBuffer, Emit, PlanScenario, Projection, Query, Source
from wmlab.progress.charts import progress, sequence_prefix, windows_firing
from wmlab.progress.recording import ProgressRecording
from wmlab.progress.tables import PROGRESS_TABLES as TABLES
from wmlab.streams.recording import StreamRecording


def table(**columns: object) -> pd.DataFrame:
    """Source a sends 1, 3, 4, then 2 after 4 s; source b sends every second."""
    names = ["arrived_ms", "emitter", "sequence", "prefix", "local_watermark", "global_watermark"]
    rows = [
        (0, "a", 1, 1, 1_000, None),
        (200, "b", 1, 1, 1_000, 1_000),
        (1_000, "a", 3, 1, 1_000, 1_000),
        (1_200, "b", 2, 2, 2_000, 1_000),
        (2_000, "a", 4, 1, 1_000, 1_000),
        (5_000, "a", 2, 4, 4_000, 2_000),
        (6_000, "b", 3, 3, 3_000, 3_000),
    ]
    frame = pd.DataFrame(rows, columns=names).astype(dict.fromkeys(names[4:], "Int64"))
    frame = frame.assign(stream="q", operator="build", arrival=range(1, 8), watermark=1_000 * frame.sequence)
    return frame.assign(**{"origin": 1 + (frame.emitter == "b")} | columns)


def test_the_longest_standstill_is_told_of_a_table() -> None:
    assert progress(table()).sentence == "The global watermark stood at 1.0 s for 4.8 s."
    assert progress(table()).facts.to_dict() == {
        "unknown for": 200,
        "longest stop": 4_800,
        "at": 1_000,
        "from": 200,
        "to": 5_000,
    }


def test_the_longest_gap_is_named() -> None:
    assert sequence_prefix(table(), emitter="a").sentence == "Sequences of a waited for sequence 2 from 1.0 s to 5.0 s."
    assert sequence_prefix(table(), emitter="b").sentence == "No sequence of b waited for an earlier one."


def test_a_gap_that_stays_is_named() -> None:
    cut = table().iloc[:5]
    assert sequence_prefix(cut, emitter="a").sentence == ("Sequences of a waited for sequence 2 from 1.0 s to the end.")


def test_a_watermark_that_is_never_known_is_told() -> None:
    silent = table()[lambda frame: frame["emitter"] == "a"].assign(global_watermark=None)
    assert progress(silent).sentence == "The global watermark is unknown throughout."
    unheard = silent.assign(local_watermark=None)
    assert progress(unheard).sentence.endswith("unknown throughout; nothing complete came from a.")


def test_a_watermark_that_goes_back_is_told() -> None:
    frame = table(global_watermark=[None, 5, 3, 4, 4, 4, 4])
    chart = progress(frame)
    assert chart.facts["steps back"] == 1
    assert chart.sentence == "The global watermark stood at 4 ms for 4.8 s."


def test_each_curve_has_another_colour() -> None:
    assert len({ROLES[curve.role].both for curve in layers_of_kind(progress(table()), Steps)}) == 3


@pytest.mark.parametrize("draw", [progress, lambda frame: sequence_prefix(frame, emitter="a")])
def test_a_chart_is_drawn_in_both_pictures_and_the_same_whatever_the_order_of_the_rows(draw) -> None:
    first, second = draw(table()), draw(table().sample(frac=1, random_state=1))
    assert first == second
    check_chart(first)
    assert first.data["at_ms"] == sorted(first.data["at_ms"])


def test_the_legend_has_every_origin() -> None:
    assert [layer.name for layer in progress(table()).scene.legend] == ["a", "b", "global"]


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: progress(table().drop(columns="prefix")), "no column 'prefix'"),
        (lambda: progress(table().iloc[:0]), "no rows"),
        (lambda: progress(table(stream=list("qqqqqqp"))), "one stream, but the table has 2: p, q"),
        (lambda: progress(table(sequence=1.5)), "holds 1.5"),
        (lambda: sequence_prefix(table()), "origins a, b; none is named"),
        (lambda: sequence_prefix(table(), emitter="c"), "emitter is 'c', which has no rows"),
    ],
)
def test_a_table_that_does_not_answer_is_refused(draw, message) -> None:
    with pytest.raises(ChartError, match=message):
        draw()


@pytest.fixture(scope="module")
def plan() -> ProgressRecording:
    """A recording with windows, so with rows at their build and at the sink."""
    return scenario(duration_ms=3_000).record()


def test_a_recording_is_drawn_as_its_operator_took_it_to_be(plan: ProgressRecording) -> None:
    names = {"reached_prefix": "prefix", "reached_local": "local_watermark", "reached": "global_watermark"}
    noted = plan.to_pandas("buffers").rename(columns=names)
    for operator in ("build", "sink"):
        mine = noted[noted.operator == operator]
        emitter = mine.emitter.iloc[0]
        for draw in (progress, partial(sequence_prefix, emitter=emitter)):
            of_table, of_recording = draw(mine), draw(plan, operator=operator)
            assert (of_recording.data, of_recording.scene.panels) == (of_table.data, of_table.scene.panels)
            assert draw(noted, stream="q", operator=operator).data == of_table.data
    assert progress(plan).data == progress(plan, operator="build").data
    windowless = scenario(queries=[query(window=None)], duration_ms=1_000).record()
    assert progress(windowless).data == progress(windowless, operator="sink").data


STREAMS = StreamRecording.from_tables({"segments": []}, name="other")
A_TABLE = r"Pass a table, for example wm\.progress\.spark\.progress\(.*\), or a recording of query plans"
A_RECORDING = r"is not a recording\.\nTo repair it: Draw what scenario\.record\(\) gives"


@pytest.mark.parametrize("draw", [progress, sequence_prefix, windows_firing])
@pytest.mark.parametrize(
    "offered", [STREAMS, pd.DataFrame({"a": [1]}), None, scenario(), 3], ids=lambda o: type(o).__name__
)
def test_what_is_nothing_to_draw_is_refused_and_says_what_to_pass(draw: Any, offered: Any) -> None:
    if offered is STREAMS:
        message = (
            "Recording 'other' is one of streams, which has no table .*\nTo repair it: Draw a recording of the model"
        )
    elif draw is windows_firing:
        message = A_RECORDING
    else:
        message = (
            "with the columns stream, operator, .*, or a recording" if isinstance(offered, pd.DataFrame) else A_TABLE
        )
    with pytest.raises(ChartError, match=message):
        draw(offered)


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        (
            {"operator": "probed"},
            "operator is 'probed', which has no rows.\nTo repair it: Give one of 'build', 'probe', 'scan', 'sink'",
        ),
        ({"stream": "other"}, "no rows of stream 'other' in its table 'buffers'; it has q"),
    ],
)
def test_what_a_recording_does_not_have_is_refused(plan: ProgressRecording, chosen: Any, message: str) -> None:
    with pytest.raises(ChartError, match=message):
        progress(plan, **chosen)


def row(table: str, **values: Any) -> dict[str, Any]:
    """A row of `table` with harmless values where none is named."""
    blank = {"string": "x", "int64": 0, "bool": False, "list<item: int64>": []}
    return (
        {f.name: None if f.nullable else blank.get(str(f.type), []) for f in TABLES[table]}
        | {"stream": "q", "operator": "build"}
        | values
    )


def fired(sequence: int, end: int, at_ms: int, cause: str = "watermark") -> dict[str, Any]:
    times = {"start": end - 10, "end": end, "fired_ms": at_ms}
    return row("windows_fired", sequence=sequence, records=3, cause=cause, **times)


BUFFERS = [row("buffers", arrival=n, arrived_ms=100 * n, reached=None if n < 2 else 12 * n) for n in range(1, 5)]


def recording(*windows: dict[str, Any]) -> ProgressRecording:
    return ProgressRecording.from_tables({"buffers": BUFFERS, "windows_fired": list(windows)}, name="run")


def test_windows_stand_at_their_end_when_they_fired() -> None:
    chart = windows_firing(recording(fired(1, 20, 200), fired(2, 40, 400), fired(3, 50, 450, "end of stream")))
    assert chart.sentence == "Windows of q that fired: 3, only at the end of the stream: 1."
    assert chart.facts["longest without"] == 200
    drawn = layers_of(chart)
    assert points(drawn["fired by the watermark"]) == [(200, 20), (400, 40)]
    assert list(drawn["fired at the end of the stream"].ys) == [50]
    assert list(drawn["global watermark"].ys) == [None, 24, 36, 48]
    assert chart.data["end"] == [20, 40, 50]


@pytest.mark.parametrize(
    ("windows", "longest_ms"),
    [([fired(1, 20, 200)], None), ([fired(n, 20, 200, "end of stream") for n in (1, 2)], 0)],
)
def test_windows_that_fire_at_one_moment_have_no_time_between_them(windows: list[Any], longest_ms: int | None) -> None:
    assert windows_firing(recording(*windows)).facts.get("longest without") == longest_ms


@pytest.mark.parametrize(
    ("flushed", "words"), [(300, ""), (401, "Drawn are 400 of the 401 fired at the end of the stream.")]
)
def test_windows_that_are_not_drawn_are_told(flushed: int, words: str) -> None:
    windows = [fired(n, 10 * n, n, "watermark" if n <= 200 else "end of stream") for n in range(1, 201 + flushed)]
    chart = windows_firing(recording(*windows))
    assert chart.scene.note == words


BEGIN = 1_704_067_200_000


def test_an_origin_of_another_time_does_not_squeeze_the_others() -> None:
    frame = pd.concat([table().assign(arrival=7 * n + table().arrival) for n in range(20)], ignore_index=True)
    clock = BEGIN + 1_000 * pd.Series(range(140))
    frame = frame.assign(arrived_ms=clock, watermark=clock, local_watermark=clock, global_watermark=clock - 500)
    frame.loc[20:29, "global_watermark"] = 5
    frame.loc[22:22, "local_watermark"] = 7
    chart = progress(frame)
    panel, behind = chart.scene.panels
    assert panel.up.high - panel.up.low < 160_000
    assert behind.up.high < 20_000
    assert chart.scene.subtitle == chart.sentence
    assert chart.scene.beyond == (
        "Beyond the axis: b, down to Jan 1 1970; global, down to Jan 1 1970; b behind the furthest, up to 19 723 d."
    )
    assert chart.data["global_watermark"] == frame.global_watermark.tolist()


def test_windows_of_another_time_are_beyond_the_axis_and_counted() -> None:
    windows = [fired(n, BEGIN + 10_000 * n, BEGIN + 10_000 * n + 5) for n in range(1, 40)]
    buffers = [row("buffers", arrival=n, arrived_ms=BEGIN + 10_000 * n, reached=BEGIN + 10_000 * n) for n in range(41)]
    tables = {"buffers": buffers, "windows_fired": [*windows, fired(40, 20, BEGIN + 400_000)]}
    chart = windows_firing(ProgressRecording.from_tables(tables, name="run"))
    assert "(1 value), down to Jan 1 1970" in chart.scene.beyond
    (panel,) = chart.scene.panels
    assert BEGIN - 100_000 < panel.up.low < panel.up.high < BEGIN + 500_000
    assert chart.data["end"] == [*(BEGIN + 10_000 * n for n in range(1, 40)), 20]


def test_nothing_fired_is_refused_with_a_remedy() -> None:
    with pytest.raises(ChartError, match="no stream in its table 'windows_fired'"):
        windows_firing(recording())


def test_a_sequence_of_which_some_chunks_came_is_no_later_number_of_itself() -> None:
    trucks = Source("t", times_ms=[50 * i for i in range(12)], buffer_records=2, operators=[Projection(2.0), Emit()])
    plan = PlanScenario(
        "v",
        queries=[Query("v", sources=[trucks], operators=[Aggregate(1_000)])],
        script=[DelayBuffer("t", 3, 400)],
        duration_ms=3_000,
    )
    chart = sequence_prefix(plan.record(), emitter="t")
    assert (chart.facts["waited for"], "waited to" in chart.facts) == (3, True)
