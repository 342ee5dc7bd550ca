"""What the two writers make of a scene: six scenes against their stored pictures and figures, and a few rules."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from dataclasses import MISSING
from html import escape
from typing import Any, get_args
from xml.etree import ElementTree

import pytest

from tests.core.charts.golden import FOLDER, SCENES, figure, picture, stored
from wmlab.core.charts import scene as elements
from wmlab.core.charts.axis import Axis, Numbers
from wmlab.core.charts.plotly import draw_heading
from wmlab.core.charts.scene import Between, Blocks, Dots, Layer, Path, Shape, Steps
from wmlab.core.charts.style import ROLES
from wmlab.core.facts import NO_FACTS

SPACE = "{http://www.w3.org/2000/svg}"
ELEMENTS = ("svg", "title", "desc", "style", "rect", "path", "circle", "text")


def parts_of(value: Any) -> Iterator[Any]:
    """The elements and axes of which a scene consists, itself included."""
    if dataclasses.is_dataclass(value):
        yield value
        for field in dataclasses.fields(value):
            yield from parts_of(getattr(value, field.name))
    elif isinstance(value, list | tuple):
        for entry in value:
            yield from parts_of(entry)


PARTS = [part for scene in SCENES.values() for part in parts_of(scene)]


@pytest.mark.parametrize("name", SCENES)
def test_a_scene_is_drawn_as_it_is_stored(name: str) -> None:
    """To store what is drawn now: `python -m tests.core.charts.golden --write`."""
    for file_name, content in stored(name).items():
        assert content == (FOLDER / file_name).read_text(encoding="utf-8"), file_name


def test_each_stored_file_is_of_a_scene() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {file_name for name in SCENES for file_name in stored(name)}


@pytest.mark.parametrize("name", SCENES)
def test_a_picture_is_accessible_and_self_contained(name: str) -> None:
    root = ElementTree.fromstring(picture(name))
    assert root.get("role") == "img"
    assert root.findtext(f"{SPACE}title") == SCENES[name].title
    assert (root.findtext(f"{SPACE}desc") or "").startswith(SCENES[name].subtitle)
    assert {node.tag for node in root} <= {f"{SPACE}{element}" for element in ELEMENTS}
    assert not [node for node in root.iter() if node.get("id") or node.get("href")]
    used = set(re.findall(r'class="wmlab-(\w+-\w+)"', picture(name)))
    assert set(re.findall(r"\.wmlab-(\w+-\w+)\{", root.findtext(f"{SPACE}style") or "")) == used, "colours when dark"


def test_the_scenes_have_every_kind_of_element_with_and_without_each_option() -> None:
    in_module = {cls for cls in vars(elements).values() if getattr(cls, "__module__", "") == elements.__name__}
    kinds = {cls for cls in in_module if dataclasses.is_dataclass(cls)} - {elements.ConstantSpan}
    assert {type(part) for part in PARTS} >= kinds > {*get_args(Layer)}
    options = [(cls, field) for cls in kinds for field in dataclasses.fields(cls) if field.default is not MISSING]
    for cls, option in options:
        values = {repr(getattr(part, option.name) or None) for part in PARTS if type(part) is cls}
        assert {repr(option.default or None)} < values, f"{cls.__name__}.{option.name}"


def test_the_scenes_have_every_shape_role_gap_and_kind_of_axis() -> None:
    for cls in (Dots, elements.Rule):
        assert {part.shape for part in PARTS if isinstance(part, cls)} == {*get_args(Shape)}
    assert set(re.findall(r"wmlab-(?:fill|stroke)-(\w+)", "".join(map(picture, SCENES)))) == {*ROLES}
    for kind in (Steps, Path):
        assert any(None in part.ys and len({*part.ys}) > 2 for part in PARTS if isinstance(part, kind))
    assert any(None in part.lows and None in part.highs for part in PARTS if isinstance(part, Between))
    axes = [part for part in PARTS if isinstance(part, Axis)]
    assert {axis.unit.symbol for axis in axes} >= {"ms", "s", "min", "h"}
    assert any(axis.instants for axis in axes)
    assert any(axis.far for axis in axes)
    numbers = [part for part in PARTS if isinstance(part, Numbers)]
    assert {part.marked is None for part in numbers} == {True, False}
    for of_kind in (axes, numbers):
        assert {axis.low > axis.high for axis in of_kind} == {True, False}


@pytest.mark.parametrize("name", SCENES)
def test_a_figure_has_a_trace_for_each_layer_and_an_entry_of_the_legend_for_each_name(name: str) -> None:
    scene, drawn = SCENES[name], figure(name)
    names: list[str] = []
    for panel in scene.panels:
        layers = [layer for layer in panel.drawn if (layer.boxes if isinstance(layer, Blocks) else layer.xs)]
        names += [escape(getattr(layer, "name", "between")) for layer in layers]
    assert [trace["name"] for trace in drawn["data"] if trace["name"] not in ("moment", "happened")] == names
    entries = [trace["name"] for trace in drawn["data"] if trace["showlegend"]]
    assert sorted(entries) == sorted(escape(layer.name) for layer in scene.legend)
    assert {trace["legendgroup"] == trace["name"] for trace in drawn["data"]} == {True}, "a click hides all of a name"
    layout = drawn["layout"]
    heights = [panel.height for panel in scene.panels]
    domains = [layout[f"yaxis{number or ''}"]["domain"] for number in (None, 2, 3)[: len(heights)]]
    shares = [high - low for low, high in domains]
    assert shares == pytest.approx([height / heights[0] * shares[0] for height in heights], abs=1e-5)
    bare = figure(name, headed=False)["layout"]
    assert "title" not in bare
    assert layout["height"] - bare["height"] == layout["margin"]["t"] - bare["margin"]["t"]


def test_what_has_no_room_for_its_label_is_said_in_its_hover_box_and_counted() -> None:
    layout, rules = figure("incidents")["layout"], SCENES["incidents"].rules
    (happened,) = (trace for trace in figure("incidents")["data"] if trace["name"] == "happened")
    labels = [escape(rule.label) for rule in rules]
    shown = [" ".join(text.replace("<br>", " ").replace("\u00a0", " ").split()) for text in happened["text"]]
    assert "" in shown
    assert shown == [label if label in shown else "" for label in labels]
    assert happened["customdata"] == labels
    assert layout["title"]["subtitle"]["text"].replace("<br>", " ").endswith("in all.")
    lacking = f"Without a label: {shown.count('')} of {len(rules)} incidents."
    assert lacking in draw_heading(SCENES["incidents"], NO_FACTS)
    lines = [line["x0"] for line in layout["shapes"]]
    assert lines == happened["x"] == SCENES["incidents"].across.plotted([rule.x for rule in rules])
