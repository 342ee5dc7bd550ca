from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wmlab.streams.scrubber.frames import Builder, FramePanel, Incident, ScrubberFrames, changes_of
from wmlab.streams.scrubber.page import frames_json

CHANGES = (0, 10, 25, 40)


def frames(**fields: object) -> ScrubberFrames:
    """Frames of 50 ms with one panel of one lane, in which one block comes at 10, is another at 25, and goes at 40."""
    builder = Builder()
    builder.put("name", 0, 0, "name", label="lane")
    builder.put("block", 10, 0, "segment", 2, 6, "0@0 r1")
    builder.put("block", 25, 0, "segment", 4, 6, "1@0 r1")
    builder.take("block", 40)
    panel = FramePanel(
        title="?", left=100, top=0, width=100, head_px=20, lanes=1, lane_px=20, low=0, high=10, items=builder.finish()
    )
    made = ScrubberFrames(
        title="blocks",
        low_ms=0,
        high_ms=50,
        instants=False,
        width=300,
        height=60,
        panels=(panel,),
        kinds=("scale", "fault"),
        incidents=(Incident(10, "fault", "one"), Incident(25, "scale", "two"), Incident(40, "fault", "three")),
        changes=CHANGES,
        sentences=((0, "nothing yet"), (25, "something")),
    )
    return replace(made, **fields)


@pytest.mark.parametrize(
    ("at_ms", "labels"),
    [(0, ["lane"]), (9, ["lane"]), (10, ["0@0 r1", "lane"]), (24, ["0@0 r1", "lane"]), (39, ["1@0 r1", "lane"])],
)
def test_a_frame_holds_what_came_and_has_not_gone(at_ms: int, labels: list[str]) -> None:
    assert [item.label for item in frames().panels[0].items_at(at_ms)] == labels


def test_an_equal_item_lies_on_and_one_that_goes_at_once_never_was() -> None:
    builder = Builder()
    builder.put("a", 5, 0, "cut", 7)
    builder.put("a", 8, 0, "cut", 7)
    builder.put("b", 5, 0, "cut", 1)
    builder.put("b", 5, 0, "cut", 2)
    assert [(item.from_ms, item.to_ms, item.low) for item in builder.finish()] == [(5, None, 7), (5, None, 2)]


def test_words_and_points_are_drawn_over_areas() -> None:
    builder = Builder()
    for style in ("name", "newest mark", "cut", "segment", "read"):
        builder.put(style, 0, 0, style)
    assert [item.style for item in builder.finish()] == ["read", "segment", "cut", "name", "newest mark"]


def test_changes_are_when_items_come_and_go_and_things_happen() -> None:
    items = frames().panels[0].items
    assert changes_of([items], [Incident(33, "fault", "")], 0) == (0, 10, 25, 33, 40)


@given(st.integers(0, 50), st.integers(1, 6))
def test_a_step_goes_to_the_next_or_previous_change(at_ms: int, count: int) -> None:
    later = [change for change in CHANGES if change > at_ms]
    earlier = [change for change in CHANGES if change < at_ms][::-1]
    assert frames().step(at_ms, count) == (later[count - 1] if count <= len(later) else CHANGES[-1])
    assert frames().step(at_ms, -count) == (earlier[count - 1] if count <= len(earlier) else CHANGES[0])


@pytest.mark.parametrize(
    ("at_ms", "kind", "backwards", "found"),
    [
        (0, None, False, "one"),
        (10, None, False, "two"),
        (10, "fault", False, "three"),
        (40, "fault", False, None),
        (40, None, True, "two"),
        (40, "fault", True, "one"),
        (10, "fault", True, None),
    ],
)
def test_the_next_incident_of_a_kind(at_ms: int, kind: str | None, backwards: bool, found: str | None) -> None:
    incident = frames().next_incident(at_ms, kind, backwards=backwards)
    assert (incident and incident.text) == found


def test_a_moment_since_1970_reads_as_a_date() -> None:
    low = 1_388_757_600_000
    instants = frames(low_ms=low, high_ms=low + 90_061_007, instants=True)
    assert instants.clock(low + 90_061_007) == "2014-01-04 15:01:01.007 UTC"


def test_the_words_of_a_frame_tell_each_lane() -> None:
    assert frames().text(30) == "blocks at 30 ms, change 3 of 4\nSomething.\n  lane: 1@0 r1"
    assert frames(sentences=()).text(45) == "blocks at 45 ms, change 4 of 4"


def test_json_says_each_text_once_and_gives_every_item_back() -> None:
    content = json.loads(frames_json(frames()))
    assert len(content["texts"]) == len(set(content["texts"]))
    columns = content["panels"][0]["items"]
    at, low, items = 0, 0, []
    for row in zip(*(columns[name] for name in ("from", "life", "low", "length", "text")), strict=True):
        at, low = at + row[0], low + row[2]
        items.append((at, None if row[1] < 0 else at + row[1], low, low + row[3], content["texts"][row[4]]))
    assert items == [(i.from_ms, i.to_ms, i.low, i.high, i.label) for i in frames().panels[0].items]
