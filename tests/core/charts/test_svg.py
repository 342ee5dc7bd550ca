"""The look of charts: colours that are seen, texts that do not collide, and the layers in the order of drawing."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wmlab.core.charts.axis import time_axis
from wmlab.core.charts.scene import Between, Dots, Panel, Path, Rule, Scene, Steps, at_rim, merge_equal
from wmlab.core.charts.style import ROLES, Placed, page_colour, spread, stagger, text_width, wrap


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    bright, dim = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


def blended(colour: str, opacity: float, paper: str) -> str:
    """What a colour is on a paper that shines through it."""
    pairs = ((int(colour[n : n + 2], 16), int(paper[n : n + 2], 16)) for n in (1, 3, 5))
    return "#" + "".join(f"{round(opacity * over + (1 - opacity) * under):02x}" for over, under in pairs)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_texts_are_readable_on_paper_and_inside_boxes(theme: str) -> None:
    """WCAG 2.2, 1.4.3, level AA: 4.5 to 1 for text."""
    colours = {name: getattr(role, theme) for name, role in ROLES.items() if name != "grid"}
    paper, words = colours.pop("paper"), colours["title"]
    assert {name: contrast(colour, paper) for name, colour in colours.items() if contrast(colour, paper) < 4.5} == {}
    boxes = {name: blended(colour, 0.5, paper) for name, colour in colours.items() if name != "title"}
    assert {name: contrast(words, box) for name, box in boxes.items() if contrast(words, box) < 4.5} == {}


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
    for wanted, columns in (([10, 90, 50], [10, 90, 50]), ([52, 50, 51], [61, 41, 51]), ([0, 1], [0, 10])):
        assert spread(wanted, gap=10, low=0, high=100) == columns


@given(st.lists(st.integers(0, 300), max_size=8))
def test_spread_labels_never_overlap(wanted: list[int]) -> None:
    columns = spread(wanted, gap=17, low=0, high=300)
    for left, right in itertools.pairwise(sorted(columns)):
        assert right - left >= 17 - 1e-9
    assert all(0 <= column <= 300 for column in columns)


@pytest.mark.parametrize(
    ("columns", "widths", "placed"),
    [
        ([0, 200], [50, 50], (1, [Placed(0, 0, 50, False), Placed(0, 200, 250, False)])),
        ([290], [50], (1, [Placed(0, 240, 290, True)])),
        ([], [], (0, [])),
        ([5, 250], [400, 20], (1, [None, Placed(0, 250, 270, False)])),
    ],
    ids=["lone labels need one level", "before its line at the edge", "nothing", "left out without room"],
)
def test_labels_stand_next_to_their_lines(columns: list[float], widths: list[float], placed: object) -> None:
    assert stagger(columns, widths, room=(0, 300), ranks=[0] * len(columns)) == placed


markers = st.lists(st.tuples(st.integers(0, 600), st.integers(20, 160)), max_size=14).map(sorted)


@given(markers)
def test_no_label_touches_a_label_or_a_line(markers: list[tuple[int, int]]) -> None:
    columns, widths = [column for column, _ in markers], [width for _, width in markers]
    levels, placed = stagger(columns, widths, room=(0, 700), ranks=[0] * len(columns))
    drawn = [(column, label) for column, label in zip(columns, placed, strict=True) if label is not None]
    assert all(0 <= label.level < levels and label.start >= 0 and label.end <= 700 for _, label in drawn)
    for (_, one), (_, other) in itertools.combinations(drawn, 2):
        assert one.level != other.level or one.end < other.start or other.end < one.start
    for (column, line), (_, text) in itertools.permutations(drawn, 2):
        assert line.level <= text.level or not text.start < column < text.end


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
    columns, widths = [100.0 + 2 * n for n in range(12)], [250.0] * 12
    _, labels = stagger(columns, widths, room=(0, 400), ranks=[0] * 12)
    left_out = [i for i, label in enumerate(labels) if label is None]
    assert left_out
    for important in left_out:
        ranks = [int(i != important) for i in range(12)]
        assert stagger(columns, widths, room=(0, 400), ranks=ranks)[1][important] is not None


def test_names_next_to_the_ends_of_curves_are_in_the_order_of_the_curves() -> None:
    axis = time_axis("event time", [0, 100])
    rising = Panel(up=axis, layers=[steps("b", "lower", [1, 20, 45]), steps("a", "upper", [10, 30, None])])
    assert rising.ends == [(rising.layers[1], 45), (rising.layers[0], 45)], "a ended at 30, above b"
    far = Panel(up=axis, layers=[steps("b", "lower", [1, 20, 90]), steps("a", "upper", [10, 30, None])])
    assert far.ends == [(far.layers[0], 90), (far.layers[1], 30)], "next to b it would be far from where a ended"
    same = Panel(up=axis, layers=[steps("a", "upper", [1, 7]), steps("b", "lower", [1, 7])])
    assert [curve.name for curve, _ in same.ends] == ["a", "b"]


def test_a_dashed_curve_is_drawn_over_a_solid_one_that_would_hide_it() -> None:
    axis = time_axis("event time", [0, 100])
    panel = Panel(up=axis, layers=[steps("dashed", "upper", [1, 7]), steps("solid", "lower", [1, 7])])
    assert [layer.name for layer in panel.drawn if not isinstance(layer, Between)] == ["solid", "dashed"]


def steps(name: str, role: str, ys: list[int | None], xs: list[int] | None = None) -> Steps:
    return Steps(name=name, role=role, xs=xs or list(range(len(ys))), ys=ys)


def test_equal_curves_are_one_with_all_names_whatever_rows_change_nothing() -> None:
    curves = [steps("a", "lower", [1, 1, 3]), steps("b", "upper", [1, 1, 4]), steps("c", "third", [1, 3], [0, 2])]
    merged = merge_equal(curves)
    assert [(curve.name, curve.role) for curve in merged] == [("a and c", "third"), ("b", "upper")]


def test_a_rule_beyond_the_ends_of_the_axis_is_left_out() -> None:
    axis = time_axis("clock", [10, 20])
    rules = [Rule(at_ms, str(at_ms)) for at_ms in (5, 10, 20, 25)]
    scene = Scene(title="", subtitle="", across=axis, panels=[Panel(up=axis, layers=[], height=10)], rules=rules)
    assert [rule.label for rule in scene.rules] == ["10", "20"]


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
    short = Steps(name="lag", role="perfect", xs=[*range(5_000, 5_500), 15_000], ys=[10**9] * 500 + [5])
    assert [list(layer.xs) for layer in at_rim(axis, [short]) if isinstance(layer, Dots)] == [[5_000, 5_167, 5_334]]
