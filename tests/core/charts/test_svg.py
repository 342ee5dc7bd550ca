"""From a scene to a still picture: what is drawn as one, where it is laid out, and the SVG."""

from __future__ import annotations

import itertools
import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wmlab.core.charts import svg
from wmlab.core.charts.axis import time_axis
from wmlab.core.charts.plotly import draw_plotly
from wmlab.core.charts.scene import TITLE, Between, Dots, Panel, Path, Rule, Scene, Steps, at_rim, merge_equal
from wmlab.core.charts.style import BOLD, ROLES, Placed, page_colour, spread, stagger, text_width, wrap

PANEL = svg.PlotArea(left=10, top=20, width=100, height=50, x_low=0, x_high=1_000, y_low=-10, y_high=10)
TICKS = time_axis("clock", [0, 1_000]).ticks(6)


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


def test_steps_are_horizontal_and_vertical_moves_in_the_colour_and_dash_of_their_role() -> None:
    assert svg.line([(0, 0), (5, 0), (5, 2.5), (5, 2.5), (6, 3)], "upper") == (
        '<path d="M0 0H5V2.5L6 3" fill="none" class="wmlab-stroke-upper" stroke="#BF5400" stroke-width="2.2"'
        ' stroke-dasharray="7 4" stroke-linejoin="round"/>'
    )


def test_words_are_escaped() -> None:
    assert svg.text(1, 2, "<a & b>", "text") == (
        '<text x="1" y="2" font-size="12" class="wmlab-fill-text" fill="#4a4a4a">&lt;a &amp; b&gt;</text>'
    )


def test_a_document_is_accessible_themed_and_self_contained() -> None:
    axis = svg.x_axis(PANEL, TICKS, title="clock (ms)", below=70)
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
    parts = svg.x_axis(PANEL, TICKS, title="clock (ms)", below=None)
    assert [part.split()[0] for part in parts] == ["<path"] * len(TICKS)


def test_every_shape_of_point_is_drawn() -> None:
    drawn = {shape: svg.point(5, 5, shape, "text") for shape in ("circle", "diamond", "triangle", "cross")}
    assert len(set(drawn.values())) == 4
    assert all(ElementTree.fromstring(part).tag in ("circle", "path") for part in drawn.values())


def blended(colour: str, opacity: float, paper: str) -> str:
    """What a colour is on a paper that shines through it."""
    pairs = ((int(colour[n : n + 2], 16), int(paper[n : n + 2], 16)) for n in (1, 3, 5))
    return "#" + "".join(f"{round(opacity * over + (1 - opacity) * under):02x}" for over, under in pairs)


def test_every_role_but_the_grid_is_readable_as_text_in_both_themes() -> None:
    """WCAG 2.2, 1.4.3, level AA: 4.5 to 1 for text."""
    for theme in ("light", "dark"):
        paper = getattr(ROLES["paper"], theme)
        for name, role in ROLES.items():
            if name not in ("paper", "grid"):
                assert contrast(getattr(role, theme), paper) >= 4.5, (name, theme)


def test_a_label_inside_a_box_is_readable_in_both_themes() -> None:
    for theme in ("light", "dark"):
        paper, words = (getattr(ROLES[name], theme) for name in ("paper", "title"))
        for name, role in ROLES.items():
            if name not in ("paper", "title", "grid"):
                assert contrast(words, blended(getattr(role, theme), 0.5, paper)) >= 4.5, (name, theme)


def test_lines_of_a_figure_are_seen_on_white_and_on_near_black() -> None:
    """WCAG 2.2, 1.4.11: 3 to 1 for what is no text."""
    for page in ("#ffffff", "#111111"):
        for name, role in ROLES.items():
            if role.both.startswith("#"):
                assert contrast(role.both, page) >= 3, name


@pytest.mark.parametrize(("theme", "red"), [("light", 1.0), ("dark", 0x11 / 255)])
def test_the_colour_of_the_page_is_that_of_its_theme(theme: str, red: float) -> None:
    for name, role in ROLES.items():
        terms = re.findall(r"calc\((\S+) \+ (\S+)\*r\)", page_colour(name))
        shown = [round(255 * (float(base) + float(slope) * red)) for base, slope in terms]
        wanted = [int(getattr(role, theme)[n : n + 2], 16) for n in (1, 3, 5)]
        assert shown == pytest.approx(wanted, abs=1), name


def test_labels_that_touch_part_evenly_in_their_order_and_inside() -> None:
    for wanted, places in (([10, 90, 50], [10, 90, 50]), ([52, 50, 51], [61, 41, 51]), ([0, 1], [0, 10])):
        assert spread(wanted, gap=10, low=0, high=100) == places


@given(st.lists(st.integers(0, 300), max_size=8))
def test_spread_labels_never_overlap(wanted: list[int]) -> None:
    places = spread(wanted, gap=17, low=0, high=300)
    for left, right in itertools.pairwise(sorted(places)):
        assert right - left >= 17 - 1e-9
    assert all(0 <= place <= 300 for place in places)


@pytest.mark.parametrize(
    ("places", "widths", "placed"),
    [
        ([0, 200], [50, 50], (1, [Placed(0, 0, 50, False), Placed(0, 200, 250, False)])),
        ([290], [50], (1, [Placed(0, 240, 290, True)])),
        ([], [], (0, [])),
        ([5, 250], [400, 20], (1, [None, Placed(0, 250, 270, False)])),
    ],
    ids=["lone labels need one level", "before its line at the edge", "nothing", "left out without room"],
)
def test_labels_stand_beside_their_lines(places: list[float], widths: list[float], placed: object) -> None:
    assert stagger(places, widths, room=(0, 300), ranks=[0] * len(places)) == placed


markers = st.lists(st.tuples(st.integers(0, 600), st.integers(20, 160)), max_size=14).map(sorted)


@given(markers)
def test_no_label_touches_a_label_or_a_line(markers: list[tuple[int, int]]) -> None:
    places, widths = [place for place, _ in markers], [width for _, width in markers]
    levels, placed = stagger(places, widths, room=(0, 700), ranks=[0] * len(places))
    drawn = [(place, label) for place, label in zip(places, placed, strict=True) if label is not None]
    assert all(0 <= label.level < levels and label.start >= 0 and label.end <= 700 for _, label in drawn)
    for (_, one), (_, other) in itertools.combinations(drawn, 2):
        assert one.level != other.level or one.end < other.start or other.end < one.start
    for (place, line), (_, text) in itertools.permutations(drawn, 2):
        assert line.level <= text.level or not text.start < place < text.end


def test_few_labels_in_a_narrow_plot_all_stand() -> None:
    """Two scales with long names, a crash of two, and a restart: there is room, one above the other."""
    line_xs, widths = [93.0, 140.0, 145.0, 256.0, 277.0], [155.0, 90.0, 131.0, 97.0, 155.0]
    levels, labels = stagger(line_xs, widths, room=(-100, 430), ranks=[3, 0, 0, 2, 3])
    assert None not in labels
    assert levels <= 5


def test_wrapping_keeps_a_number_with_its_unit() -> None:
    lines = wrap("stood still for 24.0 s and then went on", width=text_width("stood still for 24.0", 13), size=13)
    assert lines[0] == "stood still for"
    assert lines[1].startswith("24.0\u00a0s")


def test_where_there_is_no_room_for_all_the_important_labels_stand() -> None:
    places, widths = [100.0 + 2 * n for n in range(12)], [250.0] * 12
    _, labels = stagger(places, widths, room=(0, 400), ranks=[0] * 12)
    left_out = [i for i, label in enumerate(labels) if label is None]
    assert left_out
    for important in left_out:
        ranks = [int(i != important) for i in range(12)]
        assert stagger(places, widths, room=(0, 400), ranks=ranks)[1][important] is not None


def test_names_beside_the_ends_of_curves_are_in_the_order_of_the_curves() -> None:
    axis = time_axis("event time", [0, 100])
    rising = Panel(up=axis, layers=[steps("b", "lower", [1, 20, 45]), steps("a", "upper", [10, 30, None])])
    assert rising.ends == [(rising.layers[1], 45), (rising.layers[0], 45)], "a ended at 30, above b"
    far = Panel(up=axis, layers=[steps("b", "lower", [1, 20, 90]), steps("a", "upper", [10, 30, None])])
    assert far.ends == [(far.layers[0], 90), (far.layers[1], 30)], "beside b would be far from where a ended"
    same = Panel(up=axis, layers=[steps("a", "upper", [1, 7]), steps("b", "lower", [1, 7])])
    assert [curve.name for curve, _ in same.ends] == ["a", "b"]
    data = draw_plotly(Scene(title="Q", subtitle="", across=axis, panels=[same])).data
    upper, lower = (trace for trace in data if trace.mode == "text")
    assert (upper.text, lower.text) == ((" <b>a</b>",), (" <b>b</b>",))
    assert upper.y[0] > lower.y[0]
    curves = {trace.name: trace.legendgroup for trace in data if trace.mode == "lines"}
    assert curves == {trace.name: trace.legendgroup for trace in (upper, lower)}, "a click on the legend hides both"
    assert [upper.showlegend, lower.showlegend] == [False, False]


def test_a_dashed_curve_is_drawn_over_a_solid_one_that_would_hide_it() -> None:
    axis = time_axis("event time", [0, 100])
    panel = Panel(up=axis, layers=[steps("dashed", "upper", [1, 7]), steps("solid", "lower", [1, 7])])
    assert [layer.name for layer in panel.drawn if not isinstance(layer, Between)] == ["solid", "dashed"]
    scene = Scene(title="Q", subtitle="", across=axis, panels=[panel])
    assert [trace.name for trace in draw_plotly(scene).data if trace.mode == "lines"] == ["solid", "dashed"]
    picture = svg.draw_svg(scene)
    assert 0 < picture.index('fill="none" class="wmlab-stroke-lower"') < picture.index("wmlab-stroke-upper", 2_000)


def test_a_hover_box_writes_hours_and_minutes_in_words() -> None:
    across, up = time_axis("clock", [0, 86_400_000]), time_axis("lag", [0, 7_200_000])
    curve = Steps(name="lag", role="lower", xs=[0, 32_160_000], ys=[None, 3_723_000])
    scene = Scene(title="Q", subtitle="", across=across, panels=[Panel(up=up, layers=[curve])], together=True)
    figure = draw_plotly(scene)
    moment, lag, _ = figure.data
    assert figure.layout.xaxis.unifiedhovertitle.text == "clock"
    assert (moment.customdata[1], lag.customdata[1]) == ("8 h 56 min", "1 h 2 min 3 s")
    assert (lag.hovertemplate, moment.showlegend) == ("%{customdata}", False)


def test_a_long_title_has_lines_and_pushes_the_rest_down() -> None:
    axis = time_axis("clock", [0, 1_000])
    short, long = (
        Scene(title=title, subtitle="Yes.", across=axis, panels=[Panel(up=axis, layers=[])])
        for title in ("Short?", "long " * 40)
    )
    lines = [node.text for node in ElementTree.fromstring(svg.draw_svg(long)).iter() if node.get("font-weight")]
    assert len(lines) > 1
    assert " ".join(line or "" for line in lines) == long.title.strip()
    assert all(text_width(line or "", 17 * BOLD) <= 860 for line in lines)
    assert draw_plotly(long).layout.title.text.count("<br>") >= 4
    assert draw_plotly(long).layout.height > draw_plotly(short).layout.height + 80


def steps(name: str, role: str, ys: list[int | None], xs: list[int] | None = None) -> Steps:
    return Steps(name=name, role=role, xs=xs or list(range(len(ys))), ys=ys)


def test_equal_curves_are_one_with_all_names_whatever_rows_change_nothing() -> None:
    curves = [steps("a", "lower", [1, 1, 3]), steps("b", "upper", [1, 1, 4]), steps("c", "third", [1, 3], [0, 2])]
    found = merge_equal(curves)
    assert [(curve.name, curve.role) for curve in found] == [("a and c", "third"), ("b", "upper")]


def test_a_rule_beyond_the_ends_of_the_axis_is_left_out() -> None:
    axis = time_axis("clock", [10, 20])
    rules = [Rule(at_ms, str(at_ms)) for at_ms in (5, 10, 20, 25)]
    scene = Scene(title="", subtitle="", across=axis, panels=[Panel(up=axis, layers=[], height=10)], rules=rules)
    assert [rule.label for rule in scene.rules] == ["10", "20"]


def test_the_title_of_a_panel_stands_above_it_in_both_pictures() -> None:
    axis = time_axis("clock", [0, 1_000])
    plain = Scene(title="Q", subtitle="", across=axis, panels=[Panel(up=axis, layers=[])] * 2)
    titled = Scene(title="Q", subtitle="", across=axis, panels=[Panel(up=axis, layers=[], title=["a <b>", "more"])] * 2)
    tops = [[area.top for area in svg._areas(scene, 0, 500)] for scene in (plain, titled)]
    assert [with_title - without for without, with_title in zip(*tops, strict=True)] == [2 * TITLE, 4 * TITLE]
    words = [node.text for node in ElementTree.fromstring(svg.draw_svg(titled)).iter() if node.tag.endswith("}text")]
    assert [words.count(line) for line in ("a <b>", "more")] == [2, 2]
    notes = [note.text for note in draw_plotly(titled).layout.annotations]
    assert notes == ["<b>a &lt;b&gt;</b><br>more"] * 2
    heights = [draw_plotly(scene).layout.height for scene in (plain, titled)]
    assert heights[1] - heights[0] == 4 * TITLE


def test_values_beyond_an_axis_stand_at_its_rim_with_triangles() -> None:
    axis = time_axis("lag", [0, 100_000])
    steps = Steps(name="lag", role="lower", xs=[1, 2, 3], ys=[5, None, 10**9])
    perfect = Steps(name="perfect", role="perfect", xs=[1, 2], ys=[5, 10**9])
    dots = Dots(name="late", role="alarm", shape="cross", xs=[1, 2], ys=[5, -(10**9)], hover=["one", "two"])
    band = Between(xs=[1], lows=[-(10**9)], highs=[10**9])
    line = Path(name="line", role="lower", xs=[1], ys=[10])
    drawn = at_rim(axis, [steps, perfect, dots, band, line], unmarked="perfect")
    assert [layer.name for layer in drawn if not isinstance(layer, Between)] == [
        *("lag", "lag beyond the axis", "perfect", "late", "late beyond the axis", "line")
    ]
    lag, triangle, _, late, far, between, _ = drawn
    assert isinstance(lag, Steps)
    assert isinstance(triangle, Dots)
    assert isinstance(late, Dots)
    assert isinstance(far, Dots)
    assert isinstance(between, Between)
    assert lag.ys == [5, None, 98_000]
    assert (triangle.shape, triangle.xs, triangle.ys) == ("triangle", [3], [98_000])
    assert (late.xs, late.hover, far.xs, far.ys, far.hover) == ([1], ["one"], [2], [2_000], ["two"])
    assert (between.lows, between.highs) == ([2_000], [98_000])
    assert at_rim(axis, [late]) == [late]
    # A sloping line keeps its slope up to the rim.
    slope = Path(name="lag", role="lower", xs=[0, 10, 10, None, 20, 30], ys=[0, 196_000, 0, None, 196_000, -196_000])
    cut, marks = at_rim(axis, [slope])
    assert isinstance(cut, Path)
    assert isinstance(marks, Dots)
    assert cut.xs == [0, 5, 10, 10, 10, None, 20, 25 - 5 / 2, pytest.approx(24.9, abs=0.1), 30]
    assert cut.ys == [0, 98_000, 98_000, 98_000, 0, None, 98_000, 98_000, 2_000, 2_000]
    assert list(zip(marks.xs, marks.ys, strict=True)) == [(10, 98_000), (20, 98_000), (30, 2_000)]
    many = Steps(name="lag", role="lower", xs=range(500), ys=[10**9] * 500)
    assert [len(layer.xs) for layer in at_rim(axis, [many]) if isinstance(layer, Dots)] == [60]
    # A curve that is far for a short time, in many rows, has few.
    short = Steps(name="lag", role="perfect", xs=[*range(500), 10_000], ys=[10**9] * 500 + [5])
    assert [list(layer.xs) for layer in at_rim(axis, [short]) if isinstance(layer, Dots)] == [[0, 167, 334]]
