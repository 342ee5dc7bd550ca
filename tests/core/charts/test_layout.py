from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wmlab.core.charts.layout import Placed, spread, stagger, text_width, wrap


def test_labels_that_touch_part_evenly_in_their_order_and_inside() -> None:
    assert spread([10, 90, 50], gap=10, low=0, high=100) == [10, 90, 50]
    assert spread([52, 50, 51], gap=10, low=0, high=100) == [61, 41, 51]
    assert spread([0, 1], gap=10, low=0, high=100) == [0, 10]


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
    assert stagger(places, widths, limit=300) == placed


markers = st.lists(st.tuples(st.integers(0, 600), st.integers(20, 160)), max_size=14).map(sorted)


@given(markers)
def test_no_label_touches_a_label_or_a_line(markers: list[tuple[int, int]]) -> None:
    places, widths = [place for place, _ in markers], [width for _, width in markers]
    levels, placed = stagger(places, widths, limit=700)
    drawn = [(place, label) for place, label in zip(places, placed, strict=True) if label is not None]
    assert all(0 <= label.level < levels and label.start >= 0 and label.end <= 700 for _, label in drawn)
    for (_, one), (_, other) in itertools.combinations(drawn, 2):
        assert one.level != other.level or one.end < other.start or other.end < one.start
    for (place, line), (_, text) in itertools.permutations(drawn, 2):
        assert line.level <= text.level or not text.start < place < text.end


def test_wrapping_keeps_a_number_with_its_unit() -> None:
    lines = wrap("stood still for 24.0 s and then went on", width=text_width("stood still for 24.0", 13), size=13)
    assert lines[0] == "stood still for"
    assert lines[1].startswith("24.0\u00a0s")


def test_where_there_is_no_room_for_all_the_important_labels_stand() -> None:
    places, widths = [100.0, 102.0, 104.0, 106.0, 108.0, 110.0], [250.0] * 6
    _, labels = stagger(places, widths, limit=400)
    left_out = [i for i, label in enumerate(labels) if label is None]
    assert left_out
    for important in left_out:
        ranks = [int(i != important) for i in range(6)]
        assert stagger(places, widths, limit=400, ranks=ranks)[1][important] is not None
