"""The chart of time bounds: how a table is read, what the sentence says, and what is drawn."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import plotly.graph_objects as go  # type: ignore[import-untyped]
import pyarrow as pa
import pytest

from tests.core.charts.layers import layers_of, points, stretches, tick_labels
from tests.streams.charts.recordings import Remote, all_charts, frame
from wmlab.core.charts.chart import Chart
from wmlab.core.charts.scene import Steps
from wmlab.core.errors import ChartError
from wmlab.streams.answers.bounds_table import Incident, bounds_head
from wmlab.streams.charts.bounds import CAP, read_bounds, time_bounds

Bounds = Callable[..., pd.DataFrame]
JAN_3_2014 = 1_388_757_600_000


@pytest.fixture
def bounds() -> Bounds:
    """A function that builds the bounds of one reader over a minute, a row per second.

    The perfect watermark is 500 ms behind the clock, lower 1.5 s behind that, upper 1 s ahead of the clock; lower is
    unknown for 3 s, upper in the last 2 s, and lower stands still at 30 s from 32 s to 55 s. `start_ms` shifts clock
    and times; other keyword arguments replace columns.
    """

    def build(*, start_ms: int = 0, **columns: object) -> pd.DataFrame:
        times = pd.DataFrame({"at_ms": range(0, 61_000, 1_000)}, dtype="Int64")
        at_ms = times["at_ms"]
        lower = (at_ms - 2_000).mask(at_ms < 3_000).mask((at_ms >= 32_000) & (at_ms < 55_000), 30_000)
        upper = (at_ms + 1_000).mask(at_ms > 58_000)
        times = times.assign(lower=lower, upper=upper, perfect_watermark=(at_ms - 500).clip(lower=0)) + start_ms
        return times.assign(**{"stream": "orders", "group": "billing"} | columns)

    return build


@pytest.fixture
def incidents() -> list[list[dict[str, object]] | None]:
    """A column `incidents` for the 61 rows: a split, and a writer that is down for 25 s; said twice, as joins may."""
    entries = [
        {"at_ms": 20_000, "kind": "scale", "what": "0@0 → 2@1, 3@1"},
        {"at_ms": 30_000, "kind": "crash", "what": "w2 crashes"},
        {"at_ms": 55_000, "kind": "restart", "what": "w2 restarts"},
    ]
    return [[entries[0]], entries, *[None] * 59]


class Struct:
    """Stands in for a Spark Row."""

    def __init__(self, **fields: object) -> None:
        self._fields = fields

    def asDict(self) -> dict[str, object]:  # noqa: N802
        return self._fields


def test_rows_come_in_the_order_of_the_clock_with_unknowns_as_none(bounds: Bounds) -> None:
    table = read_bounds(bounds().sample(frac=1, random_state=3))
    assert table.at_ms == list(range(0, 61_000, 1_000))
    assert table.lower[:4] == [None, None, None, 1_000]
    assert table.upper[-2:] == [None, None]
    assert (table.stream, table.group) == ("orders", "billing")
    assert {type(value) for value in [*table.at_ms, *table.upper]} == {int, type(None)}


def test_tables_of_every_kind_and_floats_that_hold_whole_times_read_like_local_integers(bounds: Bounds) -> None:
    frame = bounds()
    expected, rows = read_bounds(frame), pa.Table.from_pandas(frame, preserve_index=False)
    for table in (rows, Remote(rows), pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches())):
        assert read_bounds(table) == expected
    assert read_bounds(frame.astype({"lower": "float64", "upper": "float64"})) == expected


def test_times_beyond_the_reach_of_a_double_are_kept() -> None:
    far = pa.table({"stream": ["s", "s"], "at_ms": [1, 2], "lower": [None, 2**63 - 1], "upper": [None, 2**53 + 1]})
    table = read_bounds(Remote(far))
    assert (table.lower, table.upper) == ([None, 2**63 - 1], [None, 2**53 + 1])


def test_rows_of_one_moment_are_ordered_by_version_or_else_by_what_they_hold() -> None:
    frame = pd.DataFrame({"stream": "s", "at_ms": 5, "version": [2, 1], "lower": [8, 9], "upper": [10, 10]})
    assert read_bounds(frame).lower == [9, 8]
    frame = pd.DataFrame({"stream": "s", "at_ms": 5, "lower": [8, 9, 7], "upper": [10, 10, 10]})
    assert read_bounds(frame) == read_bounds(frame[::-1])


def test_happenings_are_gathered_once_from_dicts_rows_and_arrays(bounds: Bounds, incidents: list[Any]) -> None:
    expected = [Incident(20_000, "scale", "0@0 → 2@1, 3@1"), Incident(30_000, "crash", "w2 crashes")]
    expected.append(Incident(55_000, "restart", "w2 restarts"))
    assert read_bounds(bounds(incidents=incidents)).incidents == expected
    arrays = [
        None if cell is None else np.array([Struct(**entry) for entry in cell], dtype=object) for cell in incidents
    ]
    assert read_bounds(bounds(incidents=arrays)).incidents == expected


@pytest.mark.parametrize(
    ("kind", "what", "label"),
    [
        ("crash", "w2 crashes", "w2 crashes"),
        ("idle", "w2 is not running", "w2 is not running"),
        ("scale", "0@0 → 2@1, 3@1", "scale 0@0 → 2@1, 3@1"),
        ("pause", None, "pause"),
    ],
)
def test_an_incident_has_a_label(bounds: Bounds, kind: str, what: str | None, label: str) -> None:
    cell = [{"at_ms": 7, "kind": kind, "what": what}]
    (rule,) = time_bounds(bounds(incidents=[cell] * 61)).scene.rules
    assert rule.label == label


def without(column: str) -> Any:
    return lambda frame: frame.drop(columns=column)


def full_of(column: str, values: list[Any]) -> Any:
    return lambda frame: frame.assign(**{column: values})


def holding(column: str, value: object) -> Any:
    """The column with a value in its fifth row that does not belong there."""
    return lambda frame: frame.assign(**{column: [*frame[column][:4], value, *frame[column][5:]]})


ODD = [("lower", 1.5), ("upper", "soon"), ("at_ms", None), ("lower", float("inf")), ("perfect_watermark", "7")]
NO_INCIDENTS: list[list[Any]] = [[{"at_ms": 1, "kind": "scale"}], ["scale"]]
TWO_GROUPS, SEGMENTS = full_of("group", ["billing"] * 3 + ["audit"] * 58), full_of("segment_id", [*range(61)])


@pytest.mark.parametrize(
    ("change", "message", "remedy"),
    [
        *((without(name), f"has no column '{name}'; it has .*perfect_watermark", "recording.time_bounds(spark)")
          for name in ("stream", "at_ms", "lower", "upper")),
        (TWO_GROUPS, r"shows one group, but the table has 2: audit, billing\.", "Choose one with group='billing'"),
        (SEGMENTS, "shows one segment, but the table has 61", "table[table['segment_id'] == 0]"),
        (lambda frame: frame[:0], "has no rows", "loosen the filter"),
        (lambda _: {"lower": [1]}, "cannot be drawn from a dict", "Pass a table"),
        *((full_of("incidents", [cell] * 61), "Column 'incidents' holds .*scale", "structs with at_ms, kind and what")
          for cell in NO_INCIDENTS),
        *((holding(column, value), f"Column '{column}' holds .*which is not a whole number", "times in milliseconds")
          for column, value in ODD),
    ],
)  # fmt: skip
def test_a_table_that_does_not_fit_is_refused_with_a_remedy(
    bounds: Bounds, change: Callable[[pd.DataFrame], Any], message: str, remedy: str
) -> None:
    with pytest.raises(ChartError, match=message) as caught:
        read_bounds(change(bounds()))
    assert remedy in caught.value.remedy


def test_the_headline_has_the_longest_stop_and_the_facts_the_rest(bounds: Bounds, incidents: list[Any]) -> None:
    head = bounds_head(read_bounds(bounds(incidents=incidents)))
    assert head.headline == "The lower bound at the position of billing stood still for 23.0 s from 32.0 s."
    assert head.facts == {
        "bound": "The lower bound at the position of billing",
        "last": 58_000,
        "above perfect for": 0,
        "above perfect by": 0,
        "longest stop": 23_000,
        "at": 30_000,
        "from": 32_000,
        "to": 55_000,
    }
    assert bounds_head(read_bounds(bounds(start_ms=JAN_3_2014))).headline.endswith("from 2014-01-03 14:00:32 UTC.")


def test_who_held_the_bound_is_asked_for_the_longest_stop_alone(bounds: Bounds) -> None:
    asked: list[tuple[int, int]] = []

    def held(from_ms: int, to_ms: int) -> tuple[str, ...]:
        asked.append((from_ms, to_ms))
        return ("w2", "w3")

    head = bounds_head(read_bounds(bounds()), held)
    assert head.headline.endswith("stood still for 23.0 s from 32.0 s, held by w2 and w3.")
    assert head.facts["held by"] == ("w2", "w3")
    assert asked == [(32_000, 55_000)]


@pytest.mark.parametrize(
    ("lower", "perfect", "headline"),
    [
        ([0, 1_000, 2_000, 3_000], None, "The lower bound stood still for 1.0 s from 0 s."),
        ([1, 2, 3, 3, 3, 3], None, "The lower bound stood still for 3.0 s from 2.0 s."),
        ([5], [9], "The lower bound is 5 ms."),
        ([None, None], [5, 5], "The lower bound is unknown all the time."),
    ],
)
def test_a_small_table_has_a_headline(lower: list[int | None], perfect: list[int | None] | None, headline: str) -> None:
    assert bounds_head(read_bounds(frame(lower, perfect))).headline == headline


def at_times(at_ms: list[int], lower: list[int | None], perfect: list[int | None] | None = None) -> pd.DataFrame:
    rows = frame(lower, perfect)
    return rows.assign(at_ms=at_ms, upper=rows["upper"].mask(rows["lower"].isna()))


def test_how_often_a_row_was_written_changes_no_fact() -> None:
    """The same curve with a row at each change, and with a row every 100 ms."""
    at_ms, lower, perfect = [0, 4_000, 5_000, 60_000], [None, 2_000, 4_000, 4_000], [3_000, 3_000, 3_500, 3_500]
    few = bounds_head(read_bounds(at_times(at_ms, lower, perfect))).facts
    assert (few["above perfect for"], few["above perfect by"]) == (55_000, 500)
    times = [*range(0, 60_000, 100), 60_000]
    last = [max(n for n, at in enumerate(at_ms) if at <= time) for time in times]
    table = at_times(times, [lower[n] for n in last], [perfect[n] for n in last])
    assert bounds_head(read_bounds(table)).facts == few


IN_ANOTHER_PROCESS = """
import json, sys
from tests.streams.charts.recordings import all_charts
drawn = all_charts()
assert all(chart.svg for chart in drawn) and "plotly" not in sys.modules, "nothing is drawn before it is needed"
print(json.dumps([chart._repr_mimebundle_() for chart in drawn]))
assert "plotly" in sys.modules
"""


def test_the_bundle_is_the_same_in_every_process() -> None:
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    environment = {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", IN_ANOTHER_PROCESS]
    there = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert there.strip() == json.dumps([chart._repr_mimebundle_() for chart in all_charts()])


def test_curves_are_steps_with_gaps_and_below_them_is_the_distance_from_the_perfect_watermark(bounds: Bounds) -> None:
    curves, _, below = (layers_of(time_bounds(bounds()), panel) for panel in range(3))
    lower, upper = curves["lower bound at the position"], curves["upper bound at the position"]
    assert [(type(curve), curve.role) for curve in (lower, upper)] == [(Steps, "lower"), (Steps, "upper")]
    assert list(lower.ys[:4]) == [None, None, None, 1_000]
    assert points(upper)[-3:] == [(58_000, 59_000), (59_000, None), (60_000, None)]
    assert below["lower − perfect watermark"].ys[54] == -23_500
    assert below["upper − perfect watermark"].ys[10] == 1_500


def test_without_perfect_watermark_the_lower_panel_shows_the_distance_from_the_clock(bounds: Bounds) -> None:
    """The distance falls with the clock while the bound stands still, from 30 s at 32 s to just before 55 s."""
    frame = bounds().drop(columns="perfect_watermark")
    drawn = points(layers_of(time_bounds(frame), 2)["lower − clock"])
    assert drawn[:4] == [(0, None), (3_000, None), (3_000, -2_000), (4_000, -3_000)]
    still = drawn.index((32_000, -2_000))
    assert drawn[still : still + 4] == [(32_000, -2_000), (55_000, -25_000), (55_000, -2_000), (56_000, -3_000)]


def test_without_perfect_watermark_or_common_clock_there_is_one_panel(bounds: Bounds) -> None:
    frame = bounds(start_ms=JAN_3_2014).drop(columns="perfect_watermark")
    chart = time_bounds(frame.assign(at_ms=frame["at_ms"] - JAN_3_2014))
    assert len(chart.scene.panels) == 2
    assert set(layers_of(chart, 1)) == {"no lower bound", "an upper bound"}
    assert chart.scene.panels[0].up.instants
    assert chart.scene.panels[0].up.title == "event time (UTC, 2014)"
    assert chart.scene.across.title == "clock (s)"


def test_happenings_are_marked_and_labelled_at_their_own_time(bounds: Bounds, incidents: list[Any]) -> None:
    chart = time_bounds(bounds(stream="a<b & c", incidents=incidents))
    marked = [(rule.x, rule.label) for rule in chart.scene.rules]
    assert marked == [(20_000, "scale 0@0 → 2@1, 3@1"), (30_000, "w2 crashes"), (55_000, "w2 restarts")]
    assert chart.scene.title == "Which time bounds does a<b & c have at the position of billing?"
    assert chart.scene.subtitle == chart.sentence


def test_the_unknown_is_drawn_as_unknown(bounds: Bounds) -> None:
    chart = time_bounds(bounds())
    strip = layers_of(chart, 1)
    exceptions = {name: stretches(blocks) for name, blocks in strip.items()}
    assert exceptions == {"no lower bound": [(0, 3_000)], "an upper bound": [(0, 59_000)]}
    assert tick_labels(chart.scene.panels[1].up) == ["no lower bound", "an upper bound"]
    never = time_bounds(bounds(upper=pd.NA))
    assert tick_labels(never.scene.panels[1].up) == ["no lower bound"], "a bar from end to end would say nothing"
    assert not [layer.name for layer in never.scene.legend if layer.name.startswith("upper bound")]
    nothing = time_bounds(bounds(lower=pd.NA, upper=pd.NA, perfect_watermark=pd.NA))
    assert nothing.scene.panels[0].note == "no bound is known"


def test_how_long_a_bound_is_above_the_perfect_watermark_is_drawn(bounds: Bounds) -> None:
    frame = bounds()
    frame.loc[40:43, "lower"] = frame["perfect_watermark"] + 200
    chart = time_bounds(frame)
    assert stretches(layers_of(chart, 1)["above perfect"]) == [(40_000, 44_000)]
    assert (chart.facts["above perfect for"], chart.facts["above perfect by"]) == (4_000, 200)


def test_a_long_run_is_thinned_in_the_picture_and_whole_in_the_data() -> None:
    rows = 20_000
    frame = pd.DataFrame({"stream": "s", "at_ms": range(rows), "lower": pd.array(range(rows), dtype="Int64")})
    frame = frame.assign(upper=range(9, rows + 9), perfect_watermark=frame["lower"] + 3)
    frame.loc[12_345, "lower"] = 40_000
    frame.loc[7_001:7_002, "lower"] = pd.NA
    chart = time_bounds(frame)
    curves = layers_of(chart, 0)
    assert max(y for y in curves["lower bound"].ys if y is not None) == 40_000
    assert all(len(curve.xs) <= CAP for name, curve in curves.items() if name.endswith(" bound"))
    assert len(chart.data["lower"]) == rows
    assert re.search(r"Drawn are [\d]+ of 20 000 rows\.", chart.scene.note)
    assert "Drawn" not in chart.sentence
    assert stretches(layers_of(chart, 1)["no lower bound"]) == [(7_001, 7_003)], "what is unknown is not thinned"
    assert len(json.dumps(chart._repr_mimebundle_())) < 250_000


def test_a_single_position_is_a_point(bounds: Bounds) -> None:
    chart = time_bounds(bounds()[20:21])
    assert points(layers_of(chart, 0)["lower bound at the position"]) == [(20_000, 18_000)]
    assert chart.svg.count("<circle") == 5


def test_the_data_are_plain_lists(bounds: Bounds, incidents: list[Any]) -> None:
    data = time_bounds(bounds(incidents=incidents)).data
    assert list(data) == ["at_ms", "lower", "upper", "perfect_watermark", "incidents"]
    assert data["incidents"][1] == {"at_ms": 30_000, "kind": "crash", "what": "w2 crashes"}
    assert json.loads(json.dumps(data)) == data


def is_twice_the_size_of(chart: Chart, png: bytes) -> bool:
    """Whether a PNG is twice as wide and as high as the still picture of the chart."""
    still = ElementTree.fromstring(chart.svg)
    width, height = struct.unpack(">II", png[16:24])
    return (width, height) == (2 * float(still.attrib["width"]), 2 * float(still.attrib["height"]))


SAVED: dict[str, Callable[[Chart, bytes], bool]] = {
    "html": lambda chart, page: b"<html" in page and chart.scene.title.encode() in page,
    "svg": lambda chart, picture: picture == chart.svg.encode(),
    "SVG": lambda chart, picture: picture == chart.svg.encode(),
    "png": lambda chart, png: png.startswith(b"\x89PNG\r\n\x1a\n") and is_twice_the_size_of(chart, png),
    "json": lambda chart, text: (
        json.loads(text) == {"sentence": chart.sentence, "facts": chart.facts.to_dict(), "data": chart.data}
    ),
    "txt": lambda chart, text: text.decode() == f"{chart.sentence}\n\n{chart.facts!r}\n",
}


@pytest.mark.parametrize("suffix", SAVED)
def test_a_chart_is_saved_by_its_suffix_and_the_same_each_time(bounds: Bounds, tmp_path: Path, suffix: str) -> None:
    one, other = tmp_path / f"one.{suffix}", tmp_path / f"other.{suffix}"
    chart = time_bounds(bounds())
    assert chart.save(str(one)) == one
    time_bounds(bounds()).save(other)
    assert one.read_bytes() == other.read_bytes()
    assert SAVED[suffix](chart, one.read_bytes())


def test_an_unknown_suffix_is_refused_with_the_known_ones(bounds: Bounds, tmp_path: Path) -> None:
    with pytest.raises(ChartError, match=r"'chart\.pdf': its suffix is '\.pdf'") as caught:
        time_bounds(bounds()).save(tmp_path / "chart.pdf")
    with pytest.raises(ChartError, match=r"chart\.svg' cannot be written: No such file or directory"):
        time_bounds(bounds()).save(tmp_path / "nowhere" / "chart.svg")
    assert caught.value.remedy == "Choose one of .html, .svg, .png, .json, .txt."
    assert list(tmp_path.iterdir()) == []


def test_a_figure_is_the_callers_own(bounds: Bounds) -> None:
    chart = time_bounds(bounds())
    figure = chart.figure()
    assert isinstance(figure, go.Figure)
    figure.add_hline(y=30).update_layout(width=600)
    assert len(chart.figure().layout.shapes) == len(figure.layout.shapes) - 1
    assert chart.figure().layout.width is None


def test_a_chart_is_frozen(bounds: Bounds) -> None:
    chart = time_bounds(bounds())
    with pytest.raises(FrozenInstanceError):
        chart.sentence = "another"  # type: ignore[misc]


def test_a_group_is_chosen() -> None:
    frame = pd.DataFrame({"stream": "s", "group": ["a", "b"], "at_ms": [0, 5], "lower": [1, 2], "upper": [3, 4]})
    assert time_bounds(frame, group="b").data["at_ms"] == [5]
    with pytest.raises(ChartError, match="no rows"):
        time_bounds(frame, group="c")


JAN_1_2024 = 1_704_067_200_000
YEAR_MS = 366 * 24 * 3_600_000


def far_bounds(**columns: Any) -> pd.DataFrame:
    """Ten minutes of bounds around a clock of 2024, a row per second; keyword arguments replace columns."""
    at_ms = JAN_1_2024 + 1_000 * pd.Series(range(601))
    frame = pd.DataFrame({"at_ms": at_ms, "lower": at_ms - 2_000, "upper": at_ms + 1_000, "stream": "s"})
    return frame.assign(perfect_watermark=at_ms - 500).assign(**columns)


def during(first: int, last: int, far: int) -> Any:
    """A bound that is `far` in some of the rows, and the clock in the others."""
    return lambda frame: frame["at_ms"].mask((frame.index >= first) & (frame.index < last), far)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"lower": during(60, 100, 5)}, "lower bound, down to Jan 1 1970"),
        ({"upper": during(60, 601, JAN_1_2024 + YEAR_MS)}, "upper bound, up to Jan 1 2025"),
        (
            {"perfect_watermark": during(0, 400, -2_082_844_800_000)},
            "perfect watermark, down to Jan 1 1904",
        ),
        (
            {"lower": during(60, 61, 5), "upper": during(600, 601, JAN_1_2024 + YEAR_MS)},
            "upper bound, up to Jan 1 2025; lower bound, down to Jan 1 1970",
        ),
    ],
)
def test_a_far_stretch_of_a_curve_is_beyond_the_axis_and_said(columns: dict[str, Any], said: str) -> None:
    bounds = far_bounds(**columns)
    chart = time_bounds(bounds)
    event = chart.scene.panels[0].up
    assert JAN_1_2024 - 60_000 < event.low < event.high < JAN_1_2024 + 700_000
    assert "; ".join(words for _, words in chart.scene.panels[0].beyond) == said
    assert chart.scene.beyond.startswith(f"Beyond the axis: {said}")
    (name,) = [column for column in columns if column != "upper"] or ["upper"]
    assert chart.data[name] == bounds[name].tolist()


@pytest.mark.parametrize(("first", "last"), [(0, 300), (300, 601), (0, 560), (0, 601)])
def test_a_lower_bound_that_is_far_for_long_is_on_the_axis(first: int, last: int) -> None:
    chart = time_bounds(far_bounds(lower=during(first, last, 5)))
    event = chart.scene.panels[0].up
    assert event.low <= 5
    assert event.high >= JAN_1_2024 + 600_000
    assert chart.scene.panels[0].beyond == []


def test_the_distance_to_the_clock_leaves_out_far_values_and_no_stall() -> None:
    far = far_bounds(lower=during(60, 100, 5)).drop(columns="perfect_watermark")
    chart = time_bounds(far)
    distance = chart.scene.panels[1].up
    assert distance.high - distance.low < 10_000
    assert "lower − clock, down to −19 723 d" in chart.scene.beyond
    stall = far.assign(lower=during(300, 400, JAN_1_2024 + 299_000))
    chart = time_bounds(stall)
    assert chart.scene.panels[-1].up.low <= -100_000
    assert chart.scene.beyond == ""
