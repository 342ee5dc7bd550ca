"""The look of charts: colours that are seen, texts that do not collide, and the layers in the order of drawing."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from tests.core.charts.golden import SCENES, picture
from wmlab.core.charts.axis import Numbers, time_axis
from wmlab.core.charts.scene import Between, Panel, Rule, Scene, Steps, merge_equal
from wmlab.core.charts.style import ROLES, Placed, page_colour, stagger, text_width, wrap


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
    """WCAG 2.2, 1.4.11: 3 to 1 for anything but text."""
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


def test_of_many_labels_close_together_most_stand() -> None:
    columns = [75, 105, 120, 135, 150, 172, 180, 202, 217, 232, 247, 270, 292]
    ranks = [0, 2, 0, 2, 1, 1, 1, 1, 1, 1, 3, 0, 2]
    levels, labels = stagger(columns, [120.0] * 13, room=(-100, 430), ranks=ranks)
    missing = [rank for rank, label in zip(ranks, labels, strict=True) if label is None]
    assert levels <= 8
    assert len(missing) <= 4
    assert 0 not in missing, "a failure has its label"


def test_what_lies_beyond_an_axis_is_not_drawn_and_is_said() -> None:
    svg, scene = picture("curves"), SCENES["curves"]
    assert scene.beyond == (
        "Beyond the axis: far, down to −11 d 13 h 47 min and up to 11 d 13 h 47 min; slope, up to 18.0 s; "
        "far dot (1 value), up to 11 d 13 h 47 min."
    )
    assert scene.left_out(scene.rule_labels(500, gap=0, beside=(0, 0))) == scene.beyond
    twice = replace(scene, panels=[*scene.panels, *(replace(panel, title=("again",)) for panel in scene.panels)])
    assert twice.beyond == "Some values of far, slope and far dot lie beyond the axes."
    assert svg.count("<svg x=") == 2, "the two curves, each in a picture that ends at the rim"
    crosses = svg.count(' fill="none" class="wmlab-stroke-alarm" stroke="#B3001B" stroke-width="2"/>')
    assert crosses == 2, "that of the legend, and one of two"


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


def test_a_label_without_room_in_one_line_has_several() -> None:
    """Of 80 s in 404 px: neither has room left of the first line, nor right of the second, nor between them."""
    rules = [
        Rule(21_000, "payments holds its transaction for 26 s"),
        Rule(66_000, "payments aborts its oldest transaction"),
    ]
    panel = Panel(up=Numbers("", 0, 1), layers=[])
    scene = Scene(title="", subtitle="", across=time_axis("clock", [0, 80_000]), panels=[panel], rules=rules)
    labels = scene.rule_labels(404, gap=12, beside=(62, 22))
    assert labels.missing == 0
    assert [" ".join(lines).replace("\u00a0", " ") for lines in labels.texts] == [rule.label for rule in rules]
    assert sorted(len(lines) for lines in labels.texts) == [1, 2], "only the one without room is broken"
    assert labels.rows == labels.levels == max(place.above for place in labels.places if place is not None)
    assert "Without a label" not in scene.left_out(labels)
