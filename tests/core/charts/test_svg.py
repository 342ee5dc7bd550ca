from __future__ import annotations

from xml.etree import ElementTree

from wmlab.core.charts import svg
from wmlab.core.charts.axis import duration_ticks
from wmlab.core.charts.style import GREY, ROLES

PANEL = svg.PlotArea(left=10, top=20, width=100, height=50, x_low=0, x_high=1_000, y_low=-10, y_high=10)


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    bright, dim = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


def test_a_panel_maps_data_to_pixels_with_y_upwards() -> None:
    assert (PANEL.x(0), PANEL.x(500), PANEL.x(1_000)) == (10, 60, PANEL.right)
    assert (PANEL.y(10), PANEL.y(0), PANEL.y(-10)) == (20, 45, PANEL.bottom)


def test_steps_are_written_as_horizontal_and_vertical_moves() -> None:
    assert 'd="M0 0H5V2.5L6 3"' in svg.line([(0, 0), (5, 0), (5, 2.5), (5, 2.5), (6, 3)], "lower")


def test_lines_carry_colour_dash_and_role() -> None:
    drawn = svg.line([(0, 0), (5, 0)], "upper")
    assert 'class="wmlab-stroke-upper" stroke="#D55E00"' in drawn
    assert 'stroke-dasharray="7 4"' in drawn


def test_words_are_escaped() -> None:
    assert svg.text(1, 2, "<a & b>", "text") == (
        '<text x="1" y="2" font-size="12" class="wmlab-fill-text" fill="#4a4a4a">&lt;a &amp; b&gt;</text>'
    )


def test_a_document_is_accessible_themed_and_self_contained() -> None:
    axis = svg.x_axis(PANEL, duration_ticks(0, 1_000), title="clock (ms)", below=70)
    text = svg.document(200, 100, title="How far?", desc="This far & no farther.", parts=axis)
    root = ElementTree.fromstring(text)
    space = "{http://www.w3.org/2000/svg}"
    assert root.get("role") == "img"
    assert root.findtext(f"{space}title") == "How far?"
    assert root.findtext(f"{space}desc") == "This far & no farther."
    assert "prefers-color-scheme:dark" in (root.findtext(f"{space}style") or "")
    assert not [element.tag for element in root.iter() if element.tag in (f"{space}script", f"{space}image")]
    assert not [element for element in root.iter() if element.get("id") or element.get("href")]


def test_an_axis_without_a_place_for_labels_has_grid_lines_only() -> None:
    parts = svg.x_axis(PANEL, duration_ticks(0, 1_000), title="clock (ms)", below=None)
    assert len(parts) == 6
    assert all(part.startswith("<path") for part in parts)


def test_every_shape_of_point_is_drawn() -> None:
    drawn = {shape: svg.point(5, 5, shape, "text") for shape in ("circle", "diamond", "triangle", "cross")}
    assert len(set(drawn.values())) == 4
    assert all(ElementTree.fromstring(part).tag in ("circle", "path") for part in drawn.values())


def test_svg_colours_are_readable_on_their_paper() -> None:
    for name, role in ROLES.items():
        if name not in ("paper", "grid", "band"):
            assert contrast(role.light, ROLES["paper"].light) >= 3.8, name
            assert contrast(role.dark, ROLES["paper"].dark) >= 3.8, name


def test_plotly_colours_are_readable_on_white_and_on_near_black() -> None:
    for page in ("#ffffff", "#111111"):
        assert contrast(GREY, page) >= 4.3
        for name in ("lower", "upper", "alarm"):
            assert contrast(ROLES[name].both, page) >= 3.6
