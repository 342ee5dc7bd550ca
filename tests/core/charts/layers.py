"""What a chart shows, read from its scene, and what holds for every chart."""

from __future__ import annotations

import json
import re
from typing import Any
from xml.etree import ElementTree

from wmlab.core.charts.chart import Chart
from wmlab.core.charts.scene import Between, Layer

Points = list[tuple[Any, Any]]


def layers_of(chart: Chart, panel: int | None = None) -> dict[str, Any]:
    """The layers by their name, of two with one name the first; those of one panel if it is numbered."""
    chosen = chart.scene.panels if panel is None else [chart.scene.panels[panel]]
    named: dict[str, Any] = {}
    for layer in (layer for part in chosen for layer in part.layers if not isinstance(layer, Between)):
        named.setdefault(layer.name, layer)
    return named


def layers_of_kind(chart: Chart, kind: type[Layer]) -> list[Any]:
    """The layers of one kind, from the top panel to the bottom one."""
    return [layer for layer in chart.scene.layers if isinstance(layer, kind)]


def points(layer: Any) -> Points:
    """The points of a curve, or of markers."""
    return list(zip(layer.xs, layer.ys, strict=True))


def stretches(layer: Any) -> Points:
    """Where the boxes of a layer begin and end along the x axis."""
    return [(box.x_low, box.x_high) for box in layer.boxes]


def tick_labels(axis: Any) -> list[str]:
    """What is written at the ticks of an axis."""
    return [tick.label for tick in axis.ticks(6)]


def texts_in(svg: str) -> tuple[list[str], list[str]]:
    """What a screen reader says of a still picture, which are its title and description, and the texts in it."""
    root = ElementTree.fromstring(svg)
    drawn = ["".join(node.itertext()) for node in root if node.tag.endswith("}text")]
    return [node.text or "" for node in root[:2]], drawn


def check_chart(chart: Chart) -> None:
    """Check that a chart asks a question, answers it in a sentence, and is drawn by both writers as plain JSON."""
    scene, bundle = chart.scene, chart._repr_mimebundle_()
    assert list(bundle) == ["application/vnd.plotly.v1+json", "image/svg+xml", "text/plain"]
    assert bundle["text/plain"] == chart.sentence == repr(chart)
    assert scene.title.endswith("?")
    assert chart.sentence.endswith(".")
    assert scene.subtitle.startswith(chart.sentence)
    spoken, without_heading = texts_in(bundle["image/svg+xml"])
    assert spoken[0] == scene.title
    assert spoken[1].startswith(scene.subtitle)
    spoken_with_heading, texts = texts_in(chart.svg)
    assert spoken_with_heading == spoken
    heading, below = texts[: -len(without_heading)], texts[-len(without_heading) :]
    assert below == without_heading
    assert " ".join(heading).replace("\xa0", " ").startswith(f"{scene.title} {scene.subtitle}"), (
        "a notebook has these as HTML"
    )
    figure = json.dumps(bundle["application/vnd.plotly.v1+json"])
    assert not re.search(r"\b(bdata|uid)\b", figure), "arrays are stored readably, and nothing by chance"
    assert json.loads(json.dumps(chart.data)) == chart.data
