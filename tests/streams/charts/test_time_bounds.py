from __future__ import annotations

import hashlib
import json
import re
import struct
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pandas as pd
import plotly.graph_objects as go  # type: ignore[import-untyped]
import pytest

from wmlab.core.charts.chart import Chart
from wmlab.core.errors import ChartError
from wmlab.streams.charts.bounds import CAP, time_bounds

Bounds = Callable[..., pd.DataFrame]


def traces(chart: Chart, yaxis: str | None = None) -> dict[str, dict[str, Any]]:
    drawn = json.loads(chart.figure().to_json())["data"]
    return {trace["name"]: trace for trace in drawn if yaxis in (None, trace["yaxis"])}


def leaves(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        for inner in value.values():
            yield from leaves(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from leaves(inner)
    else:
        yield value


def test_a_notebook_gets_figure_svg_and_sentence(bounds: Bounds) -> None:
    chart = time_bounds(bounds())
    bundle = chart._repr_mimebundle_()
    assert list(bundle) == ["application/vnd.plotly.v1+json", "image/svg+xml", "text/plain"]
    assert bundle["text/plain"] == chart.sentence == repr(chart)
    assert list(chart._repr_mimebundle_(include=["text/plain"])) == ["text/plain"]
    assert "image/svg+xml" not in chart._repr_mimebundle_(exclude=["image/svg+xml"])


def test_the_bundle_is_the_same_in_every_process(bounds: Bounds, happened: list[object], tmp_path: Path) -> None:
    frame = bounds(happened=happened)
    frame.to_json(tmp_path / "bounds.json", orient="table", index=False)
    script = (
        "import hashlib, json, sys, pandas as pd\n"
        "from wmlab.streams.charts.bounds import time_bounds\n"
        "frame = pd.DataFrame(json.load(open(sys.argv[1]))['data'])\n"
        "bundle = time_bounds(frame)._repr_mimebundle_()\n"
        "print(hashlib.sha256(json.dumps(bundle).encode()).hexdigest())\n"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", script, str(tmp_path / "bounds.json")],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    here = json.dumps(time_bounds(frame)._repr_mimebundle_()).encode()
    assert runs == {hashlib.sha256(here).hexdigest()}


def test_the_figure_holds_plain_lists_only(bounds: Bounds, happened: list[object]) -> None:
    drawn = time_bounds(bounds(happened=happened)).figure().to_plotly_json()["data"]
    assert {type(leaf) for leaf in leaves(drawn)} <= {int, float, str, bool, type(None)}
    assert "bdata" not in json.dumps(drawn)
    assert "uid" not in {key for trace in drawn for key in trace}


def test_curves_are_steps_with_gaps_where_unknown(bounds: Bounds) -> None:
    curves = traces(time_bounds(bounds()), "y")
    lower, upper = curves["lower bound"], curves["upper bound"]
    assert {lower["line"]["shape"], upper["line"]["shape"]} == {"hv"}
    assert (lower["line"]["dash"], upper["line"]["dash"]) == ("solid", "7px,4px")
    assert lower["y"][:4] == [None, None, None, 1]
    assert list(zip(upper["x"], upper["y"], strict=True))[-3:] == [(59, 59), (59, None), (60, None)]


def test_the_lower_panel_shows_the_distance_from_the_perfect_watermark(bounds: Bounds) -> None:
    below = traces(time_bounds(bounds()), "y3")
    assert below["lower − perfect watermark"]["y"][54] == pytest.approx(-23.5)
    assert below["upper − perfect watermark"]["y"][10] == 1.5


def test_without_perfect_watermark_the_lower_panel_shows_the_distance_from_the_clock(bounds: Bounds) -> None:
    frame = bounds().drop(columns="perfect_watermark")
    assert traces(time_bounds(frame), "y3")["lower − clock"]["y"][40] == -10


def test_without_perfect_watermark_or_common_clock_there_is_one_panel(bounds: Bounds) -> None:
    frame = bounds(start_ms=1_388_757_600_000).drop(columns="perfect_watermark")
    chart = time_bounds(frame.assign(at_ms=frame["at_ms"] - 1_388_757_600_000))
    assert len(chart.scene.panels) == 2
    assert set(traces(chart, "y2")) == {"lower unknown", "upper unknown"}
    assert chart.figure().layout.yaxis.type == "date"
    assert chart.figure().layout.yaxis.title.text == "event time (UTC, 2014)"
    assert chart.figure().layout.xaxis.title.text == "reader's clock (s)"


def test_happenings_are_marked_and_labelled_at_their_own_time(bounds: Bounds, happened: list[object]) -> None:
    chart = time_bounds(bounds(happened=happened))
    marks = traces(chart)["happened"]
    assert marks["x"] == [20, 30, 55]
    assert marks["customdata"] == ["scale 0@0 → 2@1, 3@1", "w2 crashes", "w2 restarts"]
    lines = {shape.x0 for shape in chart.figure().layout.shapes if shape.type == "line" and shape.xref == "x"}
    assert lines == {20, 30, 55}
    assert all(f">{label}<" in chart.svg for label in marks["customdata"])


def test_the_unknown_is_drawn_as_unknown(bounds: Bounds) -> None:
    chart = time_bounds(bounds())
    strip = traces(chart, "y2")
    assert [(strip[name]["base"], strip[name]["x"]) for name in ("lower unknown", "upper unknown")] == [
        ([0], [3]),
        ([59], [1]),
    ]
    assert ">lower unknown<" in chart.svg
    assert ">upper unknown<" in chart.svg
    assert ">no bound is known<" in time_bounds(bounds(lower=pd.NA, upper=pd.NA, perfect_watermark=pd.NA)).svg


def test_a_broken_promise_is_marked_where_it_begins(bounds: Bounds) -> None:
    frame = bounds()
    frame.loc[40:43, "lower"] = frame["perfect_watermark"] + 200
    chart = time_bounds(frame)
    marked = traces(chart, "y")["not safe"]
    assert (marked["x"], marked["y"]) == ([40], [39.7])
    assert "not safe" in chart.svg


def test_the_svg_is_xml_and_says_question_and_answer(bounds: Bounds, happened: list[object]) -> None:
    chart = time_bounds(bounds(stream="a<b & c", happened=happened))
    root = ElementTree.fromstring(chart.svg)
    space = "{http://www.w3.org/2000/svg}"
    assert root.findtext(f"{space}title") == "What time has reader group “billing” reached in stream “a<b & c”?"
    assert root.findtext(f"{space}desc") == chart.sentence
    coordinates = [float(n) for path in root.iter(f"{space}path") for n in re.findall(r"-?[\d.]+", path.get("d", ""))]
    assert max(coordinates) <= float(root.get("height", "0")) + 300
    assert min(coordinates) >= 0


def test_the_title_can_be_replaced(bounds: Bounds) -> None:
    chart = time_bounds(bounds(), title="Why <so> late?")
    assert chart.figure().layout.title.text == "<b>Why &lt;so&gt; late?</b>"
    assert "Why &lt;so&gt; late?</text>" in chart.svg


def test_a_long_run_is_thinned_in_the_picture_and_whole_in_the_data() -> None:
    rows = 20_000
    frame = pd.DataFrame({"stream": "s", "at_ms": range(rows), "lower": range(rows), "upper": range(9, rows + 9)})
    frame = frame.assign(perfect_watermark=frame["lower"] + 3)
    frame.loc[12_345, "lower"] = 40_000
    chart = time_bounds(frame)
    curves = traces(chart, "y")
    assert max(curves["lower bound"]["y"]) == 40
    assert all(len(curve["x"]) <= CAP for name, curve in curves.items() if name.endswith(" bound"))
    assert len(chart.data["lower"]) == rows
    assert re.search(r"Drawn are [\d]+ of 20,000 positions\.", chart.svg)
    assert "Drawn" not in chart.sentence
    assert len(json.dumps(chart._repr_mimebundle_())) < 250_000


def test_a_single_position_is_a_point(bounds: Bounds) -> None:
    chart = time_bounds(bounds()[20:21])
    assert traces(chart, "y")["lower bound"]["mode"] == "lines+markers"
    assert chart.svg.count("<circle") == 5


def test_the_data_are_plain_lists(bounds: Bounds, happened: list[object]) -> None:
    data = time_bounds(bounds(happened=happened)).data
    assert list(data) == ["at_ms", "lower", "upper", "perfect_watermark", "happened"]
    assert data["happened"][1] == {"at_ms": 30_000, "kind": "crash", "what": "w2"}
    assert json.loads(json.dumps(data)) == data


@pytest.mark.parametrize("suffix", ["html", "svg", "png", "json", "txt", "SVG"])
def test_a_chart_is_saved_the_same_each_time(bounds: Bounds, tmp_path: Path, suffix: str) -> None:
    one, other = tmp_path / f"one.{suffix}", tmp_path / f"other.{suffix}"
    assert time_bounds(bounds()).save(str(one)) == one
    time_bounds(bounds()).save(other)
    assert one.read_bytes() == other.read_bytes()


def test_a_saved_png_is_the_still_picture_at_twice_its_size(bounds: Bounds, tmp_path: Path) -> None:
    chart = time_bounds(bounds())
    header = chart.save(tmp_path / "chart.png").read_bytes()[:24]
    width, height = struct.unpack(">II", header[16:])
    still = ET.fromstring(chart.svg)
    assert header[:8] == b"\x89PNG\r\n\x1a\n"
    assert (width, height) == (2 * float(still.attrib["width"]), 2 * float(still.attrib["height"]))


def test_a_saved_json_holds_sentence_and_data(bounds: Bounds, tmp_path: Path) -> None:
    chart = time_bounds(bounds())
    stored = json.loads(chart.save(tmp_path / "chart.json").read_text(encoding="utf-8"))
    assert stored == {"sentence": chart.sentence, "data": chart.data}


def test_an_unknown_suffix_is_refused_with_the_known_ones(bounds: Bounds, tmp_path: Path) -> None:
    with pytest.raises(ChartError, match=r"'chart\.pdf': its suffix is '\.pdf'") as caught:
        time_bounds(bounds()).save(tmp_path / "chart.pdf")
    assert caught.value.remedy == "Choose one of .html, .svg, .png, .json, .txt."
    assert list(tmp_path.iterdir()) == []


def test_a_figure_is_the_callers_own(bounds: Bounds) -> None:
    chart = time_bounds(bounds())
    figure = chart.figure()
    assert isinstance(figure, go.Figure)
    figure.add_hline(y=30).update_layout(width=600)
    assert len(chart.figure().layout.shapes) == len(figure.layout.shapes) - 1
    assert chart.figure().layout.width is None


def test_nothing_is_drawn_before_it_is_needed() -> None:
    script = (
        "import sys, pandas as pd\n"
        "from wmlab.streams.charts.bounds import time_bounds\n"
        "chart = time_bounds(pd.DataFrame({'stream': 's', 'at_ms': [1, 2], 'lower': [0, 1], 'upper': [2, 2]}))\n"
        "assert chart.svg and 'plotly' not in sys.modules\n"
        "assert chart.figure() and 'plotly' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_chart_is_frozen(bounds: Bounds) -> None:
    chart = time_bounds(bounds())
    with pytest.raises(FrozenInstanceError):
        chart.sentence = "another"  # type: ignore[misc]
