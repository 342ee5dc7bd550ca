"""The scenario files: each can be read, written and recorded, and its recording shows what the file says.

The upstream reports are judged here, the days in the life in `test_scenario_days`.
"""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

import wmlab as wm
from tests.scenario_files import FOLDER, files, known, late_reads, lowers, named, recording, rows
from wmlab.streams.model.history import StreamHistory
from wmlab.streams.model.position import Position, behind_at_a_key, is_lineage_valid, is_valid_cut

MERGED_AND_SPLIT = StreamHistory.create(2).scale(["0@0", "1@0"], into=1).scale(["2@1"], into=2)


@pytest.mark.parametrize("name", files("reports", "days"))
def test_a_file_is_read_and_written_without_a_difference(name: str) -> None:
    scenario = wm.Scenario.load(FOLDER / f"{name}.yaml")
    assert wm.Scenario.from_yaml(scenario.to_yaml()) == scenario


@pytest.mark.parametrize("name", files("reports", "days"))
def test_a_file_says_what_happens_and_where_that_is_from(name: str) -> None:
    lines = (FOLDER / f"{name}.yaml").read_text(encoding="utf-8").splitlines()
    comment = " ".join(line.removeprefix("# ") for line in lines[: lines.index("wmlab: 1")])
    assert re.search(r"Source: \S", comment)
    issue = re.fullmatch(r"reports/pravega_(\d+)", name)
    assert issue is None or re.search(rf"pravega issues? .*\b{issue[1]}\b", comment)


def test_the_table_of_the_readme_has_every_file() -> None:
    listed = re.findall(r"^\| `([\w/]+)\.yaml` \|", (FOLDER / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted([*files("reports", "days", "flows"), *files(".")])


@pytest.mark.parametrize("name", files("reports", "days"))
def test_a_run_makes_watermarks_that_rise(name: str) -> None:
    log = rows(recording(name), "watermarks")
    assert log
    assert all(row["lower"] <= row["upper"] for row in log)
    for earlier, later in pairwise(sorted(log, key=lambda row: (row["stream"], row["seq"]))):
        assert earlier["lower"] < later["lower"] or earlier["stream"] != later["stream"]


def test_4233_windows_are_unknown_or_constant_for_seconds_only_because_of_slow_timers() -> None:
    slow = recording("reports/pravega_4233")
    prompt = recording("reports/pravega_4233", readers={"publish_every_ms": 100}, rules={"publish_timer": "fixed"})
    emitted = rows(slow, "watermarks")[0]["emitted_ms"]
    first = [min(r["at_ms"] for r in rows(run, "windows") if r["lower"] is not None) for run in (slow, prompt)]
    assert first[0] - emitted > 1_000
    assert first[1] - emitted <= 300
    held = [(a, b) for a, b in pairwise(rows(slow, "windows", reader="readers-3")) if a["upper"] is not None]
    assert all(after["at_ms"] - before["at_ms"] >= 3_000 for before, after in held)
    assert any(before["lower"] is None for before, _ in held)
    assert {r["lower"] for r in rows(slow, "reads", reader="readers-3") if emitted < r["at_ms"] < first[0]} == {None}


def test_4299_the_next_window_begins_before_the_last_one_ends() -> None:
    seen = {(row["lower"], row["upper"]) for row in rows(recording("reports/pravega_4299"), "windows") if known(row)}
    windows = sorted(seen)
    assert len(windows) > 5
    assert all(before[0] <= after[0] < before[1] for before, after in pairwise(windows))


def test_6510_windows_are_unknown_for_ever_with_the_option_and_known_without_it() -> None:
    faulty = recording("reports/pravega_6510")
    sound = recording("reports/pravega_6510", rules={"bug_6510": False})
    assert {dict(row["cut"])[1] for row in rows(faulty, "watermarks")} == {None}
    assert {dict(row["cut"])[1] for row in rows(sound, "watermarks")} == {0}
    assert set(lowers(faulty)) == {None}
    assert lowers(sound)[-1] is not None
    assert lowers(sound)[-1] > 10_000


def test_6678_a_silent_writer_is_waited_for_as_long_as_the_timeout_says_and_then_dropped() -> None:
    run = recording("reports/pravega_6678")
    waits = [row["at_ms"] for row in rows(run, "cycles") if row["lagging"] == ["w3"] and row["at_ms"] > 10_000]
    (removal,) = [row["at_ms"] for row in rows(run, "cycles") if row["removed"] == ["w3"]]
    assert removal - waits[0] == 5_000
    emitted = {row["emitted_ms"]: dict(row["writers"]) for row in rows(run, "watermarks")}
    assert not [at for at in emitted if waits[0] <= at < removal]
    assert {frozenset(writers) for at, writers in emitted.items() if at >= removal} == {frozenset(["w1", "w2"])}


def test_4225_every_cycle_is_measured_against_the_newest_watermark_alone() -> None:
    run = recording("reports/pravega_4225")
    log = rows(run, "watermarks")
    assert all(earlier["revision"] < later["revision"] for earlier, later in pairwise(log))
    assert len({row["controller"] for row in log}) == 2
    for cycle in rows(run, "cycles"):
        before = [row["lower"] for row in log if row["emitted_ms"] < cycle["at_ms"]]
        assert cycle["previous_lower"] == (before[-1] if before else None)
    (removal,) = [row["at_ms"] for row in rows(run, "cycles") if "stale" in row["removed"]]
    assert not [row for row in rows(run, "cycles") if row["at_ms"] > removal and "stale" in row["lagging"]]
    assert log[-1]["lower"] > 25_000


def test_4291_a_commit_without_a_time_makes_a_watermark_at_zero_only_with_the_option() -> None:
    faulty = recording("reports/pravega_4291")
    sound = recording("reports/pravega_4291", rules={"commit_without_time": "no_mark"})
    assert {row["time"] for row in rows(faulty, "transactions")} == {None}
    assert {row["time"] for row in rows(faulty, "writer_marks", writer="t1")} == {0}
    assert rows(faulty, "watermarks")[0]["lower"] == 0
    assert not rows(sound, "writer_marks", writer="t1")
    assert rows(sound, "watermarks")[0]["lower"] > 0
    assert sound.counts["watermarks"] > 2 * faulty.counts["watermarks"]


def test_4478_the_second_stream_of_a_name_gets_a_log_of_its_own_after_one_failed_cycle() -> None:
    run = recording("reports/pravega_4478")
    reasons = [row["reason"] for row in rows(run, "cycles", stream="stream#2")]
    assert reasons[0] == "cycle failed: no such marks segment"
    assert set(reasons[1:]) == {""}
    log = rows(run, "watermarks", stream="stream#2")
    assert log[0]["seq"] == 0
    assert log[-1]["lower"] > 20_000
    assert max(row["lower"] or 0 for row in rows(run, "windows", stream="stream#2")) > 20_000


def test_7408_with_timeout_0_a_live_writer_is_dropped_at_once_and_what_it_writes_is_late() -> None:
    hasty = recording("reports/pravega_7408")
    patient = recording("reports/pravega_7408", stream={"timestamp_aggregation_timeout_ms": 10_000})
    dropped = [row for row in rows(hasty, "cycles") if row["removed"] == ["w2"]]
    assert len(dropped) > 3
    assert not [row for row in rows(hasty, "cycles") if row["lagging"]]
    assert late_reads(hasty) > 100
    assert not [row for row in rows(patient, "cycles") if row["removed"]]
    assert late_reads(patient) == 0


def test_4182_events_before_the_cut_may_be_above_the_upper_bound_but_what_comes_later_is_not_below_the_lower() -> None:
    run = recording("reports/pravega_4182")
    events = rows(run, "events")
    for mark in rows(run, "watermarks"):
        limit = dict(mark["cut"])[0]
        assert max(row["event_time"] for row in events if row["offset"] <= limit) > mark["upper"]
    assert late_reads(run) == 0


CUTS = [
    ("cut_order", Position({"0@0": 10, "4@2": 5}), Position({"3@2": 0, "4@2": 5})),
    ("cut_backwards", Position({"0@0": 10, "4@2": 5}), Position({"3@2": 0, "4@2": 5})),
    ("cut_lineage", Position({"1@0": 4, "3@2": 7}), Position({"3@2": 7, "4@2": 0})),
]


@pytest.mark.parametrize(("name", "unsound", "expected"), CUTS, ids=[case[0] for case in CUTS])
def test_a_cut_is_unsound_only_as_implemented(name: str, unsound: Position, expected: Position) -> None:
    implemented = recording(f"reports/{name}")
    sound = recording(f"reports/{name}", rules={"cut_algorithm": "sound"}, stream={"visit_order": "as_noted"})
    assert [Position(named(row["cut"])) for row in rows(implemented, "watermarks")][-1] == unsound
    assert [Position(named(row["cut"])) for row in rows(sound, "watermarks")][-1] == expected
    assert is_valid_cut(unsound, MERGED_AND_SPLIT)
    assert is_lineage_valid(expected, MERGED_AND_SPLIT)


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("as_noted", Position({"0@0": 10, "4@2": 5})),
        ("newest_first", Position({"0@0": 10, "4@2": 5})),
        ("oldest_first", Position({"3@2": 0, "4@2": 5})),
    ],
)
def test_the_order_in_which_a_stream_visits_positions_decides_about_its_cut(order: str, expected: Position) -> None:
    run = recording("reports/cut_order", stream={"visit_order": order})
    assert [Position(named(row["cut"])) for row in rows(run, "watermarks")] == [expected]


def test_the_second_cut_is_not_at_or_beyond_the_first() -> None:
    implemented = recording("reports/cut_backwards")
    sound = recording("reports/cut_backwards", rules={"cut_algorithm": "sound"})
    for run, order in ((implemented, False), (sound, True)):
        first, second = (Position(dict(row["cut"])) for row in rows(run, "watermarks"))
        assert (not behind_at_a_key(first, second, MERGED_AND_SPLIT.segments)) is order
