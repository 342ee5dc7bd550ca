"""Every frame shows what the tables say at its moment; the tables are read here anew, row by row."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.streams.answers.runs import fault, mark, written
from tests.streams.answers.runs import segment as one_segment
from tests.streams.charts.recordings import recording
from tests.streams.scrubber.runs import LENGTH_MS, everything, unread
from wmlab.core.errors import ChartError
from wmlab.core.recording import Recording
from wmlab.streams.answers.history import history_at
from wmlab.streams.api import Scenario
from wmlab.streams.recording import StreamRecording
from wmlab.streams.scenario import script
from wmlab.streams.scenario.parts import Controllers, EventWriter, ReaderGroup, Stream
from wmlab.streams.scrubber.frames import STYLES, FrameItem, FramePanel, ScrubberFrames
from wmlab.streams.scrubber.layout import frames_of

FRAMES = frames_of(everything(), stream="orders")
KEY_UNITS, SEGMENTS, TIMES, WHOLE = FRAMES.panels
MOMENTS = st.one_of(st.integers(0, LENGTH_MS), st.sampled_from(FRAMES.changes))


def rows(table: str, clock: str, at_ms: int) -> list[dict[str, Any]]:
    found = everything().table(table).to_pylist(maps_as_pydicts="strict")
    return [row for row in found if row[clock] <= at_ms]


def names(ids: Any) -> list[str]:
    return sorted(f"{i % 2**32}@{i // 2**32}" for i in ids)


def lane(panel: FramePanel, at_ms: int, *styles: str) -> dict[str, list[FrameItem]]:
    """The items of the styles that are there, by the name of their lane."""
    items = panel.items_at(at_ms)
    labels = {item.lane: item.label for item in items if item.style == "name"}
    return {label: [i for i in items if i.lane == place and i.style in styles] for place, label in labels.items()}


def group_state(at_ms: int) -> dict[int, tuple[str | None, int]]:
    """Reader and offset of each segment in the group's state."""
    state: dict[int, tuple[str | None, int]] = {}
    for row in rows("positions", "at_ms", at_ms):
        if row["finished"]:
            state.pop(row["segment_id"], None)
        else:
            state[row["segment_id"]] = row["reader"], row["offset"]
    return state


@settings(max_examples=60)
@given(MOMENTS)
def test_the_key_space_shows_who_works_on_which_segment(at_ms: int) -> None:
    blocks = lane(KEY_UNITS, at_ms, "segment", "unowned")
    assert sorted(i.label for i in blocks["append to"]) == names(rows("epochs", "at_ms", at_ms)[-1]["segment_ids"])
    marks = rows("watermarks", "emitted_ms", at_ms)
    assert sorted(i.label for i in blocks["newest cut"]) == (names(marks[-1]["cut"]) if marks else [])
    owners = {names([segment])[0]: reader or "nobody" for segment, (reader, _) in group_state(at_ms).items()}
    assert sorted(i.label for i in blocks["read"]) == sorted(f"{name} {who}" for name, who in owners.items())
    for item in blocks["append to"]:
        keys = next(
            row for row in everything().table("segments").to_pylist() if names([row["segment_id"]]) == [item.label]
        )
        assert (item.low, item.high) == (round(keys["low"] * 10**6), round(keys["high"] * 10**6))


def test_an_old_segment_that_a_scale_in_steps_has_yet_to_seal_has_a_lane_of_its_own() -> None:
    steps = script.Scale(at_ms=2_000, seal=["0@0", "1@0"], into=["0..3/5", "3/5..1"], seal_every_ms=1_500)
    made = Scenario(
        "steps", stream=Stream(segments=2), writers=[EventWriter("w", rate_per_s=20)], script=[steps], duration_ms=6_000
    )
    keys, *_ = frames_of(made.record(progress=False), stream="stream").panels
    shown = {at_ms: lane(keys, at_ms, "segment") for at_ms in (1_900, 2_500, 3_600)}
    assert {at: [item.label for item in lanes["still open"]] for at, lanes in shown.items()} == {
        1_900: [],
        2_500: ["1@0"],
        3_600: [],
    }
    assert [item.label for item in shown[2_500]["append to"]] == ["2@1", "3@1"]
    assert "still open" not in lane(KEY_UNITS, 0, "segment")


@settings(max_examples=60)
@given(MOMENTS)
def test_the_segments_panel_shows_positions_cuts_and_what_is_unread(at_ms: int) -> None:
    state = {names([segment])[0]: (segment, offset) for segment, (_, offset) in group_state(at_ms).items()}
    read, cuts = lane(SEGMENTS, at_ms, "read"), lane(SEGMENTS, at_ms, "cut")
    assert {name: items[0].high for name, items in read.items()} == {n: offset for n, (_, offset) in state.items()}
    for name, (segment, _) in state.items():
        known = [row["cut"] for row in rows("watermarks", "emitted_ms", at_ms)]
        assert [item.low for item in cuts[name]] == [cut[segment] for cut in known if segment in cut]


@settings(max_examples=40)
@given(st.sampled_from(FRAMES.changes))
def test_the_segments_panel_ends_where_the_segment_ends_at_a_change(at_ms: int) -> None:
    unread_bytes = lane(SEGMENTS, at_ms, "unread")
    for segment, (_, offset) in group_state(at_ms).items():
        events = [row for row in rows("events", "append_ms", at_ms) if row["segment_id"] == segment]
        written = max((row["offset"] for row in events), default=0)
        (item,) = unread_bytes[names([segment])[0]]
        assert (item.low, item.high) == (offset, max(written, offset))


@settings(max_examples=60)
@given(MOMENTS)
def test_the_flags_are_the_cuts_of_the_newest_window(at_ms: int) -> None:
    windows = rows("windows", "at_ms", at_ms)
    log = rows("watermarks", "emitted_ms", at_ms)
    flags = {style: lane(SEGMENTS, at_ms, style) for style in ("passed", "ahead")}
    state = group_state(at_ms)
    for style, bound in (("passed", "lower"), ("ahead", "upper")):
        seq = windows[-1][f"{bound}_seq"] if windows else None
        cuts = [row["cut"] for row in log if row["seq"] == seq]
        for segment in state:
            shown = flags[style][names([segment])[0]]
            assert [item.low for item in shown] == [cut[segment] for cut in cuts if segment in cut]


def test_of_watermarks_with_one_upper_bound_the_flag_is_at_the_one_that_the_window_names() -> None:
    """A window that does not say which it was has no flags."""
    (first, second), looks = recording().table("watermarks").to_pylist(), recording().table("windows").to_pylist()
    log = [first, second | {"upper": first["upper"], "lower": first["lower"] + 1, "cut": [(0, 30)]}]
    window = looks[0] | {"lower": None, "upper": first["upper"], "at_ms": 5_200}
    for seq, cuts in ((0, [10]), (1, [30]), (None, [])):
        windows = [window | {"upper_seq": seq}]
        frames = frames_of(recording(watermarks=log, windows=windows), stream="orders", group="g")
        assert [item.low for item in lane(frames.panels[1], 5_300, "ahead")["0@0"]] == cuts


@settings(max_examples=60)
@given(MOMENTS)
def test_the_writers_lanes_show_their_marks(at_ms: int) -> None:
    newest, accepted = lane(TIMES, at_ms, "newest mark"), lane(TIMES, at_ms, "mark")
    refused, values = lane(TIMES, at_ms, "refused"), lane(TIMES, at_ms, "value", "alarm")
    for writer in ("t1", "w1", "w2"):
        marks = [row for row in rows("writer_marks", "received_ms", at_ms) if row["writer"] == writer]
        good = [row["time"] for row in marks if row["outcome"] == "success"]
        assert sorted(item.low for item in accepted[writer]) == sorted(good)
        assert len(refused[writer]) == len(marks) - len(good)
        assert [item.low for item in newest[writer]] == good[-1:]
        assert ("no mark" in values[writer][0].label) == (not good)
    cycles = rows("cycles", "at_ms", at_ms)
    waits = cycles[-1]["lagging"] if cycles else []
    assert [w for w in ("t1", "w1", "w2") if "awaited" in values[w][0].label] == sorted(waits)
    down = 12_000 <= at_ms < 22_000
    assert ("down" in values["w2"][0].label) == down
    assert (values["w2"][0].style == "alarm") == (down or "w2" in waits)


@pytest.mark.parametrize(
    ("faults", "told"),
    [
        ([("crash", ""), ("note", "w is not running"), ("restart", "")], ["down", "down", ""]),
        ([("silence", ""), ("write", "w writes in t-1"), ("speak", "")], ["silent", "silent", ""]),
        ([("shut_down", ""), ("restart", "")], ["shut down", ""]),
        ([("idle", ""), ("commit", "w commits t-1"), ("active", "")], ["idle", "idle", ""]),
        ([("silence", ""), ("crash", ""), ("speak", "")], ["silent", "down", "down"]),
    ],
)
def test_a_lane_tells_what_befell_its_writer_as_explain_does(faults: list[tuple[str, str]], told: list[str]) -> None:
    happened = [fault(kind, "w", 100 * n, detail) for n, (kind, detail) in enumerate(faults, start=1)]
    recording = written(incidents=happened, writer_marks=[mark("w", 7, 50)])
    times = frames_of(recording, stream="orders").panels[1]
    labels = [lane(times, 100 * n, "value", "alarm")["w"][0].label for n in range(1, len(faults) + 1)]
    assert labels == [", ".join(filter(None, ("7 ms", state))) for state in told]
    states = [history_at(recording, "orders", 100 * n).state_of("w") for n in range(1, len(faults) + 1)]
    assert [state.replace("crashed", "down") for state in states] == told


@pytest.mark.parametrize(("finished", "end_ms"), [(True, 1_000), (False, 700)])
def test_the_clock_of_a_stopped_run_ends_with_what_was_recorded(finished: bool, end_ms: int) -> None:
    tables = {"segments": [one_segment()], "writer_marks": [mark("w", 7, 50), mark("w", 600, 700)]}
    scenario = {"start_ms": 0, "duration_ms": 1_000}
    recording = Recording.from_tables(tables, name="by hand", scenario=scenario, finished=finished)
    assert frames_of(recording, stream="orders").high_ms == end_ms


@settings(max_examples=60)
@given(MOMENTS)
def test_the_windows_are_those_that_each_reader_saw(at_ms: int) -> None:
    bounds = {style: lane(TIMES, at_ms, style) for style in ("lower", "upper")}
    for reader in ("billing-0", "billing-1"):
        seen = [row for row in rows("windows", "at_ms", at_ms) if row["reader"] == reader]
        for style in ("lower", "upper"):
            value = seen[-1][style] if seen else None
            assert [i.low for i in bounds[style][f"{reader} sees"]] == ([] if value is None else [value])
    log = rows("watermarks", "emitted_ms", at_ms)
    lines = [(item.style, item.low) for item in TIMES.items_at(at_ms) if STYLES[item.style].shape == "line"]
    assert sorted(lines) == ([("lower line", log[-1]["lower"]), ("upper line", log[-1]["upper"])] if log else [])


def test_all_bounds_are_known_at_some_moment() -> None:
    assert any(lane(TIMES, at, "upper")["billing-0 sees"] for at in FRAMES.changes)
    assert any(item.style == "ahead" for item in SEGMENTS.items)


def incidents(kind: str) -> list[int]:
    return [h.at_ms for h in FRAMES.incidents if h.kind == kind]


KINDS_IN_RUN = ("crash", "restart", "roll")


def late_reader() -> StreamRecording:
    """Reader "a" joins at 6 s, the first by name; the other one has read from the start."""
    return Scenario(
        "late",
        stream=Stream("orders", segments=2),
        writers=[EventWriter("w", rate_per_s=40), EventWriter("watermark", rate_per_s=20)],
        readers=ReaderGroup("z", readers=1),
        controllers=Controllers(period_ms=1_000),
        script=[
            script.AddReader(at_ms=6_000, reader="a"),
            script.Checkpoint(at_ms=7_000, name="c"),
            script.CrashWriter(at_ms=8_000, writer="w", restart_after_ms=500),
        ],
        duration_ms=10_000,
        seed=2,
    ).record(progress=False)


def test_the_overview_says_whose_bounds_it_draws_and_takes_the_reader_that_is_asked_for() -> None:
    run = late_reader()
    assert [row["lower"] for row in run.table("windows").to_pylist() if row["reader"] == "a"][-1] is not None
    *_, whole = run.scrub().frames.panels
    assert whole.title == "Where in the run is this? The bounds that z-0 of group z sees"
    assert "lower, z-0" in whole.still
    *_, mine = run.scrub(reader="a").frames.panels
    assert "a of group z sees" in mine.title
    assert "lower, a" in mine.still
    with pytest.raises(ChartError, match=r"(?s)no reader 'x'.*a, z-0"):
        run.scrub(reader="x")
    assert frames_of(unread(), stream="orders").panels[-1].title.endswith("The bounds that the watermarks have")


def test_the_axis_of_the_overview_has_its_unit_and_several_ticks() -> None:
    for run in (late_reader(), everything()):
        *_, whole = run.scrub().frames.panels
        assert "event time (s)" in whole.still
        grid = ET.fromstring(f"<svg>{whole.still}</svg>")
        ends = [node for node in grid.iter("text") if node.get("text-anchor") == "end"]
        assert len({node.get("y") for node in ends}) > 1


def with_windows(*seen: tuple[int, int]) -> FramePanel:
    """The overview of a run in which one reader saw these lower bounds, each at a time of its clock."""
    first = recording().table("windows").to_pylist()[0]
    windows = [first | {"at_ms": at, "lower": lower, "upper": lower + 500} for at, lower in seen]
    return frames_of(recording(windows=windows), stream="orders", group="g").panels[-1]


def corners(whole: FramePanel, role: str) -> list[tuple[float, float]]:
    """The corners of the curve of a role, in px."""
    lines = [node for node in ET.fromstring(f"<svg>{whole.still}</svg>") if role in (node.get("class") or "")]
    points = [re.findall(r"-?[0-9.]+", node.get("d") or node.get("points") or "") for node in lines]
    return [(float(x), float(y)) for xys in points for x, y in zip(xys[::2], xys[1::2], strict=True)]


def test_the_overview_is_over_the_bulk_of_its_bounds() -> None:
    whole = with_windows(*((1_000 * n, -(10**12) if n in {20, 21} else 1_000 * n - 500) for n in range(100)))
    assert "Beyond the axis: lower for 2.0 s, down to −11 574 d 1 h; upper for 2.0 s, down to" in whole.still
    assert len({y for _, y in corners(whole, "lower")}) > 50


def test_a_quiet_stretch_of_the_overview_is_drawn_as_it_was() -> None:
    busy = [(n, n + n % 7) for n in range(3_000)]
    quiet = [(10_000 * n, 10_000 * n) for n in range(1, 51)]
    whole = with_windows(*busy, *quiet)
    assert len({x for x, _ in corners(whole, "lower") if x > whole.x(5_000)}) >= 48


def test_what_is_no_fault_is_a_change_and_nobody_is_shown_before_joining() -> None:
    frames = late_reader().scrub().frames
    told = {kind: [entry.text for entry in frames.incidents if entry.kind == kind] for kind in ("fault", "change")}
    assert told == {"fault": ["w crashes", "w restarts"], "change": ["a joins", "checkpoint c"]}
    lanes = {at_ms: list(frames.panels[2].lane_texts(at_ms)) for at_ms in (5_999, 6_000)}
    assert not [text for text in lanes[5_999] if text.startswith("a sees")]
    assert [text for text in lanes[6_000] if text.startswith("a sees: ")]
    assert len([text for text in lanes[5_999] if text.startswith("watermark: ")]) == 2, "a writer is called so, too"


def test_what_happened_is_what_the_tables_say() -> None:
    tables = {name: everything().table(name).to_pylist() for name in ("epochs", "incidents", "cycles", "watermarks")}
    assert incidents("watermark") == [row["emitted_ms"] for row in tables["watermarks"]]
    assert incidents("held cycle") == [row["at_ms"] for row in tables["cycles"] if row["outcome"] != "emitted"]
    assert incidents("dropped writer") == [row["at_ms"] for row in tables["cycles"] for _ in row["removed"]]
    happened = {kind: [row["at_ms"] for row in tables["incidents"] if row["kind"] == kind] for kind in KINDS_IN_RUN}
    assert incidents("fault") == sorted([*happened["crash"], *happened["restart"]])
    assert incidents("change") == happened["roll"]
    # The rolling transaction makes two epochs in one moment.
    assert incidents("scale") == sorted({row["at_ms"] for row in tables["epochs"][1:]})


def test_the_whole_run_is_shown_from_the_start() -> None:
    assert (FRAMES.low_ms, FRAMES.high_ms) == (0, LENGTH_MS)
    points = [item for item in WHOLE.items_at(0) if STYLES[item.style].shape not in ("name", "value")]
    assert sorted({item.low for item in points}) == sorted({h.at_ms for h in FRAMES.incidents})


def test_every_item_comes_and_goes_at_a_change() -> None:
    changes = set(FRAMES.changes)
    for panel in FRAMES.panels:
        for item in panel.items:
            assert item.from_ms in changes
            assert item.to_ms is None or item.to_ms in changes


def test_the_perfect_watermark_is_that_of_the_bounds() -> None:
    bounds = pd.DataFrame(
        {"stream": "orders", "group": "billing", "at_ms": [1_000, 2_000, 3_000], "lower": 0, "upper": 5_000}
    ).assign(perfect_watermark=pd.array([700, 1_700, None], dtype="Int64"))
    times = frames_of(everything(), stream="orders", bounds=bounds).panels[2]
    shown = {at: [i.low for i in lane(times, at, "perfect")["billing-1 sees"]] for at in (999, 1_000, 2_500, 3_000)}
    assert shown == {999: [], 1_000: [700], 2_500: [1_700], 3_000: []}


def test_bounds_of_another_group_and_a_group_that_did_not_read_are_refused() -> None:
    bounds = pd.DataFrame({"stream": "orders", "group": "audit", "at_ms": [1], "lower": [0], "upper": [5]})
    with pytest.raises(ChartError, match="'audit'"):
        frames_of(everything(), stream="orders", bounds=bounds)
    with pytest.raises(ChartError, match=r"(?s)No reader group 'audit'.*billing"):
        frames_of(everything(), stream="orders", group="audit")


def test_a_stream_in_which_nothing_happened_is_refused() -> None:
    segments = [one_segment()]
    with pytest.raises(ChartError, match=f"Nothing happened in the stream '{segments[0]['stream']}'"):
        frames_of(Recording.from_tables({"segments": segments}, name="empty"), stream=segments[0]["stream"])


def test_violations_come_first() -> None:
    frames = frames_of(everything(), stream="orders", violations=[(9_000, "I3 violated"), (4_000, "I1 violated")])
    assert frames.kinds[0] == "violation"
    assert [h.text for h in frames.incidents if h.kind == "violation"] == ["I1 violated", "I3 violated"]


def test_a_run_without_readers_has_no_segments_panel() -> None:
    frames = frames_of(unread(), stream="orders")
    assert [panel.title for panel in frames.panels[:2]] == [KEY_UNITS.title, TIMES.title]
    assert len(frames.panels) == 3
    assert KEY_UNITS.lanes == 3
    assert frames.panels[0].lanes == 2


def test_a_group_that_never_looked_at_a_window_has_no_flags() -> None:
    recording = everything()
    tables = {name: recording.table(name) for name in recording.counts if name != "windows"}
    panels = frames_of(Recording.from_tables(tables, name="blind"), stream="orders").panels
    styles = {item.style for panel in panels if panel.title == SEGMENTS.title for item in panel.items}
    assert "cut" in styles
    assert not styles & {"passed", "ahead"}


def test_after_an_end_of_known_time_there_are_no_bounds() -> None:
    recording = everything()
    tables = {name: recording.table(name) for name in recording.counts}
    *before, last = tables["watermarks"].to_pylist(maps_as_pydicts="strict")
    ended = Recording.from_tables(tables | {"watermarks": [*before, last | {"writers": {}}]}, name="ended")
    times = frames_of(ended, stream="orders").panels[2]
    styles = {item.style for item in times.items_at(last["emitted_ms"]) if item.lane in (None, 3)}
    assert not styles & {"lower", "upper", "window", "lower line", "upper line"}
    assert {"lower", "upper", "window"} <= {i.style for i in times.items_at(last["emitted_ms"] - 1) if i.lane == 3}


def boxes(frames: ScrubberFrames) -> Iterator[tuple[float, float, float, float]]:
    for panel in frames.panels:
        yield panel.left, panel.top, panel.left + panel.width, panel.bottom + 40


def test_panels_do_not_overlap_and_fit() -> None:
    found = list(boxes(FRAMES))
    for number, (left, top, right, bottom) in enumerate(found):
        assert 0 <= left < right <= FRAMES.width
        assert bottom <= FRAMES.height
        assert all(r <= left or right <= x or b <= top or bottom <= y for x, y, r, b in found[:number])


def test_usual_times_lie_inside_the_axis() -> None:
    shown = outside = 0
    for at_ms in FRAMES.changes:
        points = [item for item in TIMES.items_at(at_ms) if item.style in ("lower", "upper", "newest mark")]
        shown += len(points)
        outside += sum(not TIMES.low <= item.low - at_ms <= TIMES.high for item in points)
    assert shown > 100
    assert outside == 0
