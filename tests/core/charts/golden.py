"""Six scenes that together contain every kind of element, and what is stored of each: its picture and its figure.

`python -m tests.core.charts.golden --write` stores them as the two writers draw them now. The SVG writer rounds to a
tenth of a pixel, so equal scenes give equal bytes on every machine. Of a figure, each trace and each entry of the
layout is a line of JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path as FilePath
from typing import Any, Final

from wmlab.core.charts.axis import Axis, Numbers, Tick, duration_unit, time_axis
from wmlab.core.charts.plotly import draw_plotly
from wmlab.core.charts.scene import Between, Blocks, Box, Dots, Panel, Path, Rule, Scene, Steps, Value, lanes
from wmlab.core.charts.svg import draw_svg

FOLDER: Final = FilePath(__file__).parent / "golden"
JAN_3_2014: Final = 1_388_757_600_000
HOUR_MS: Final = 3_600_000
HOSTILE: Final = "<b>a</b> & 'b'"
LOG_TICKS: Final = (Tick(0, "100%"), Tick(1, "10%"), Tick(2, "1%"), Tick(2.5, "none"))
LINES: Final = ("lower", "coalesced", "upper", "perfect", "alarm", "third", "fourth", "unknown")


def steps(name: str, role: str, ys: Sequence[Value], *, legend: bool = True) -> Steps:
    """A curve with a row every 10 s."""
    xs = range(0, 10_000 * len(ys), 10_000)
    return Steps(name=name, role=role, xs=xs, ys=ys, legend=legend)


def curves() -> Scene:
    """Step curves with gaps, a band, a curve of its last row alone, and one beyond its axis."""
    lower, upper = [None, 5_000, 5_000, 22_000, 22_000, 58_000, 58_000], [9_000, 30_000, None, 45_000, 60_000, 60_000]
    rows = len(lower)
    seconds = time_axis("clock", [0, 10_000 * (rows - 1)])
    main = [
        Between(xs=range(0, 60_000, 10_000), lows=lower[:-1], highs=upper),
        steps("perfect", "perfect", [8_000] * rows, legend=False),
        steps("upper", "upper", [*upper, None]),
        steps(HOSTILE, "lower", lower),
    ]
    lag = time_axis("lag", [0, 9_000])
    beyond = [
        steps("only the last row is known", "third", [*[None] * (rows - 1), 7_000]),
        steps("far", "alarm", [1_000, 10**9, 10**9, None, 2_000, -(10**9), 3_000]),
        Path(name="slope", role="fourth", xs=[0, 60_000], ys=[0, 18_000]),
        Dots(name="far dot", role="alarm", shape="cross", xs=[20_000, 30_000], ys=[5_000, 10**9], hover=["in", "out"]),
    ]
    panels = [
        Panel(up=time_axis("event time", [0, 60_000]), layers=main),
        Panel(up=lag, layers=beyond, height=120),
    ]
    return Scene(title="Why?", subtitle="Why not.", across=seconds, panels=panels, together=True)


def lines_and_dots() -> Scene:
    """Straight lines with a break, thin ones, and markers of every shape, over dates and a logarithmic axis."""
    at = [JAN_3_2014 + hour * HOUR_MS for hour in range(5)]
    broken: list[float | None] = [0.2, 0.9, None, 2.5, 1.1]
    layers = [
        Path(name="not in the legend", role="upper", xs=at, ys=broken, legend=False),
        Path(name="thin", role="fourth", xs=[*at[:2], None, *at[2:4]], ys=[2, 1, None, 1, 2], thin=True),
        Dots(name="met", role="lower", shape="circle", xs=at[:2], ys=[0.5, 1.5]),
        Dots(name="late", role="alarm", shape="cross", xs=at[1:3], ys=[2, 2], hover=["first", HOSTILE], size=6.0),
        Dots(name="early", role="third", shape="diamond", xs=at[3:], ys=[0.1, 0.7], legend=False),
        Dots(name="beyond", role="fourth", shape="triangle", xs=[at[4]], ys=[2.4], size=2.0),
        Dots(name="none", role="fourth", shape="circle", xs=[], ys=[]),
    ]
    up = Numbers("late share", -0.2, 3, LOG_TICKS)
    return Scene(title="When?", subtitle="Then.", across=time_axis("day", at), panels=[Panel(up=up, layers=layers)])


def blocks() -> Scene:
    """Rectangles with labels inside and after them, on named rows, over durations far from 0."""
    begin = 19_723 * 24 * HOUR_MS
    across = Axis("lag", begin, begin + 600_000, False, duration_unit(600_000))
    at = [begin + quarter * 150_000 for quarter in range(4)]
    inside = [
        Box(at[0], at[2], -0.4, 0.4, HOSTILE, "it has room"),
        Box(at[2], at[2] + 30_000, 0.6, 1.4, "no room in it"),
        Box(at[1], at[3], 0.6, 0.8, "too low"),
    ]
    after = [Box(at[0], at[1], 1.7, 2.3, "after it"), Box(at[1], at[1], 0.7, 1.3, "of no length")]
    layers = [
        Blocks(name="inside", role="alarm", boxes=inside),
        Blocks(name="after", role="lower", boxes=after, opacity=0.5, beside=True),
        Blocks(name="plain", role="unknown", boxes=[Box(at[2], at[3], 1.6, 2.4)], legend=False, outlined=False),
        Blocks(name="none", role="third", boxes=[]),
    ]
    return Scene(
        title="Who?",
        subtitle="",
        note="Drawn are 3 of 4.",
        across=across,
        panels=[lanes(["w1", HOSTILE, "w3"], layers)],
    )


def incidents() -> Scene:
    """Vertical lines with a label of every shape, some before their line and some without room, below a long title."""
    day = 24 * HOUR_MS
    rules = [
        Rule(2 * HOUR_MS, HOSTILE, "cross"),
        Rule(3 * HOUR_MS, "a pause"),
        *(Rule(12 * HOUR_MS + n, f"segment {n}@0 becomes two segments", "diamond") for n in range(10)),
        Rule(20 * HOUR_MS, "w2 restarts", "triangle"),
        Rule(23 * HOUR_MS, "a writer at the edge crashes", "cross"),
        Rule(day + 1, "after the end"),
    ]
    curve = Steps(name="lag", role="lower", xs=[0, 32_160_000], ys=[None, 3_723_000])
    panels = [Panel(up=time_axis("lag", [0, 2 * HOUR_MS]), layers=[curve])] * 2
    title, answer = "What was it that " + "long " * 30 + "lasted?", "It was 24.0 s " * 20 + "in all."
    across = time_axis("clock", [0, day])
    return Scene(title=title, subtitle=answer, across=across, panels=panels, rules=rules, together=True)


def panels() -> Scene:
    """Panels with titles of several paragraphs, of several heights, with nothing to show, and one turned downwards."""
    axis = time_axis("clock", [0, 900])
    titled = [HOSTILE, "more words", "many words " * 20]
    note = Panel(up=axis, layers=[], height=60, note="no bound is known", title=["nothing"])
    turned = Panel(up=axis.turned(), layers=[steps("down", "lower", [500])], title=titled)
    numbers = Panel(up=Numbers("events", -5_000, 30_000), layers=[], height=201)
    return Scene(title=HOSTILE, subtitle=f"{HOSTILE}.", across=axis, panels=[turned, note, numbers])


def colours() -> Scene:
    """A line, a point and a box of every role."""
    layers = [
        layer
        for row, role in enumerate(LINES)
        for layer in (
            Path(name=role, role=role, xs=[0, 40_000], ys=[row, 3]),
            Dots(name="point", role=role, shape="circle", xs=[50_000], ys=[row], legend=False),
            Blocks(name="box", role=role, boxes=[Box(52_000, 58_000, row - 0.4, row + 0.4)], legend=False),
        )
    ]
    axis = time_axis("clock", [0, 60_000])
    return Scene(title="Which?", subtitle="All.", across=axis, panels=[Panel(up=Numbers("", -1, 8), layers=layers)])


SCENES: Final = {scene.__name__: scene() for scene in (curves, lines_and_dots, blocks, incidents, panels, colours)}


def picture(name: str) -> str:
    """The still picture of a scene as SVG; that of the colours for a narrow column, without heading."""
    scene = SCENES[name]
    return f"{draw_svg(scene, 560, headed=False) if name == 'colours' else draw_svg(scene)}\n"


@cache
def figure(name: str, *, headed: bool = True) -> dict[str, Any]:
    """The interactive picture of a scene as JSON, without the template that all figures have."""
    drawn: dict[str, Any] = json.loads(draw_plotly(SCENES[name], headed=headed).to_json())
    del drawn["layout"]["template"]
    return drawn


def stored(name: str) -> dict[str, str]:
    """What is stored of a scene as the writers draw it now, by the name of the file."""
    drawn = figure(name)
    entries = [*drawn["data"], *({key: value} for key, value in sorted(drawn["layout"].items()))]
    lines = "".join(f"{json.dumps(entry, sort_keys=True, ensure_ascii=False)}\n" for entry in entries)
    return {f"{name}.svg": picture(name), f"{name}.jsonl": lines}


if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    for scene_name in SCENES:
        for file_name, content in stored(scene_name).items():
            (FOLDER / file_name).write_text(content, encoding="utf-8")
