"""What became of windows, and which rows release one: `explain` and the second judge say the same."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from tests.oracles.dataflow import DataflowOracle
from tests.oracles.random_dataflows import (
    beats_of,
    on_a_beat,
    random_dataflow,
    shaped,
    with_half_stalled,
    with_instances,
    with_join,
    with_second_window,
    with_stall,
)
from tests.oracles.windows import WindowOracle
from tests.repetitions import repetitions
from wmlab import dataflow as flow

RUNS = repetitions(40, long=1_000)
_NAMED = re.compile(r"partition (\d+) of (\w+)")


def differences(
    recording: Any, seed: int, moments: Sequence[int], said: Counter[str], name: str = "count"
) -> Iterator[str]:
    """What `explain` says otherwise than the judge about windows of a run at some moments; counts what it says."""
    rng, judge = Random(seed), WindowOracle(recording, name)
    window = next(vertex for vertex in recording.dataflow.vertices if vertex.name == name)
    ends = range(window.size_ms, 10_000, window.step_ms)
    for at_ms in sorted(rng.choice(moments) for _ in range(4)):
        for end in rng.choices(ends, k=2):
            answer = recording.explain(window=end, at_ms=at_ms, vertex=name)
            truth = judge.facts(end, at_ms)
            told = {label: answer.cause if label == "cause" else answer.facts.get(label) for label in truth}
            said[answer.cause] += 1
            if told != truth:
                yield f"seed {seed}, {end} at {at_ms}: {told}, not {truth}"
            if answer.cause == "waiting":
                yield from release_differences(judge, answer, end, at_ms, said)


def release_differences(judge: WindowOracle, answer: Any, end: int, at_ms: int, said: Counter[str]) -> Iterator[str]:
    """The rows that are said to release a window do, and with the last of them a millisecond earlier do not.

    Nor does anything before the moment that is said; then the window is released without a row.
    """
    facts = answer.facts
    # Also without a word on it; a minute is the longest idle timeout.
    is_silent = "released at" not in facts and "goes on at" not in facts
    if is_silent and (at_ms + end) % 3 == 0 and not judge.has_late_rows(at_ms):
        released_ms = judge.released_ms(end, at_ms, at_ms + 70_000)
        if released_ms is not None:
            yield f"{end} at {at_ms}: nothing is said of its release at {released_ms}"
    if "released at" in facts and not judge.has_late_rows(at_ms):
        said["released at"] += 1
        released_ms = judge.released_ms(end, at_ms, facts["released at"] + 1)
        if released_ms != facts["released at"]:
            yield f"{end} at {at_ms}: released at {facts['released at']}, not {released_ms}"
    label = "row in any of" if "row in any of" in facts else "row in each of"
    if "row of" not in facts or facts.get("released at", at_ms + 9) <= at_ms + 3:
        return
    names, times = (each if isinstance(each, tuple) else (each,) for each in (facts[label], facts["row of"]))
    times = times * len(names) if len(times) == 1 else times
    places = _NAMED.findall(" ".join(names))
    rows = [(source, int(number), time) for (number, source), time in zip(places, times, strict=True)]
    rows = rows[:1] if label == "row in any of" else rows
    if any(judge.is_hit(source, number, at_ms + 1) for source, number, _ in rows):
        return
    said[label] += 1
    less = [*rows[:-1], (*rows[-1][:2], rows[-1][2] - 1)]
    if not judge.is_released(end, at_ms, rows):
        yield f"{end} at {at_ms}: {rows} do not release it"
    if judge.is_released(end, at_ms, less):
        yield f"{end} at {at_ms}: {less} release it, too"


def wrong_windows(judge: WindowOracle, recording: Any, asked: Any, said: Counter[str]) -> Iterator[str]:
    """What `explain` says otherwise than the judge about windows by their ends, each at a moment; counts its words."""
    for at_ms, end in sorted(asked):
        answer, truth = recording.explain(window=end, at_ms=at_ms, vertex="count"), judge.facts(end, at_ms)
        told = {label: answer.cause if label == "cause" else answer.facts.get(label) for label in truth}
        said[answer.cause] += 1
        said[f"by {truth.get('message')}"] += 1
        if told != truth:
            yield f"{end} at {at_ms}: {told}, not {truth}"


def test_windows_of_instances_joins_and_restarts_are_where_the_tables_have_them(count: Any) -> None:
    said, wrong = Counter[str](), []
    for seed in range(1, RUNS, 3):
        recording, rng = shaped(seed).replace(jitter_ms=0).record(), Random(seed)
        judge = WindowOracle(recording, "count")
        size_ms = next(vertex.size_ms for vertex in recording.dataflow.vertices if vertex.name == "count")
        asked = [(rng.randrange(200, 12_000), size_ms * rng.randrange(1, 10_000 // size_ms)) for _ in range(2)]
        asked += [(11_999, end) for end in range(size_ms, 10_000, size_ms)]
        # At the moment itself at which a row is dropped it is on no queue any more.
        drops = recording.table("drops").to_pylist()
        asked += [(drop["at_ms"], (drop["time"] // size_ms + 1) * size_ms) for drop in drops[-2:]]
        wrong += [f"seed {seed}, {text}" for text in wrong_windows(judge, recording, asked, said)]
    count(said.total() // 2, "windows and releases of dataflows by two judges")
    assert wrong == []
    assert min(said[each] for each in ("came out", "waiting", "empty", "by watermark")) > 5
    assert min(said["by idle"], said["by done"]) > 0


def test_a_window_is_out_when_the_last_of_its_instances_has_let_it_out(count: Any) -> None:
    said, wrong, at_ms = Counter[str](), [], 11_999
    for seed in range(RUNS):
        recording = with_half_stalled(on_a_beat(seed), seed).record()
        judge = WindowOracle(recording, "count")
        ends = judge.let_out_apart(range(500, 10_000, 500), at_ms)
        wrong += [f"seed {seed}, {text}" for text in wrong_windows(judge, recording, [(at_ms, e) for e in ends], said)]
    count(said.total() // 2, "windows and releases of dataflows by two judges")
    assert wrong == []
    assert said["came out"] > 5


def test_windows_are_where_the_tables_have_them_and_the_rows_that_release_one_are_the_least(count: Any) -> None:
    said, wrong = Counter[str](), []
    for seed in range(RUNS):
        recording = random_dataflow(seed).replace(jitter_ms=0).record()
        wrong += [*differences(recording, seed, range(200, 12_000), said)]
        on_beats = with_stall(on_a_beat(seed), seed) if seed % 2 else on_a_beat(seed)
        wrong += [*differences(on_beats.record(), seed, beats_of(on_beats), said)]
        if seed % 4 == 0:
            rules = flow.Rules(bounds_only=seed % 8 == 0)
            twice = with_second_window(random_dataflow(seed)).replace(jitter_ms=0, rules=rules).record()
            wrong += [*differences(twice, seed, range(200, 12_000), said, "again")]
    count(said.total(), "windows and releases of dataflows by two judges")
    assert wrong == []
    assert min(said[each] for each in ("came out", "waiting", "empty", "row in each of", "released at")) > 5


def test_the_rows_that_release_a_window_behind_a_join_are_the_least(count: Any) -> None:
    said, wrong = Counter[str](), []
    for seed in range(RUNS):
        recording = with_join(random_dataflow(seed), seed).replace(jitter_ms=0).record()
        wrong += [*differences(recording, seed, range(200, 12_000), said)]
    count(said.total(), "windows and releases of dataflows by two judges")
    assert wrong == []
    assert min(said[each] for each in ("came out", "waiting", "row in each of")) > 5


def test_without_a_row_in_each_side_that_holds_it_the_watermark_of_a_join_stays(count: Any) -> None:
    """The second judge is right about joins: rows in all partitions that it names raise the watermark, in less not."""
    far, tried, wrong = 10_000_000, 0, []
    for seed in range(RUNS):
        dataflow, rng = with_join(random_dataflow(seed), seed), Random(seed)
        recording = (with_instances(dataflow, seed) if seed % 2 else dataflow).replace(jitter_ms=0).record()
        windows, judge, at_ms = WindowOracle(recording, "count"), DataflowOracle(recording), rng.randrange(200, 12_000)
        copies = range(next(v.parallelism for v in recording.dataflow.vertices if v.name == "count") or 1)
        marks = [judge.levels("count", number, 0, at_ms)[0].watermark for number in copies]
        lowest = marks.index(min(marks))
        places = [place for place in judge.holders("count", lowest, 0, at_ms) if place.partition is not None]
        if not places or any(windows.is_hit(place.vertex, place.partition or 0, at_ms + 1) for place in places):
            continue
        if windows.is_released(min(marks) + 1, at_ms, []):
            # It rises by itself, as an input becomes idle.
            continue
        tried += 1
        idle = {name for key in (0, 1) for name in judge.not_waited_for(at_ms, far, key)}
        parts = {place: f"partition {place.partition} of {place.vertex}" for place in places}
        # Of idle partitions a row in any is enough.
        groups = {place.vertex if name in idle else name for place, name in parts.items()}
        for left_out in (None, *sorted(groups)):
            rows = [(p.vertex, p.partition, far) for p, name in parts.items() if left_out not in {p.vertex, name}]
            if windows.is_released(min(marks) + 1, at_ms, rows) != (left_out is None):
                wrong.append(f"seed {seed} at {at_ms}: {rows} without {left_out}")
    count(tried, "moments of joins by further runs")
    assert wrong == []
    assert tried > RUNS // 3


def test_a_row_at_the_begin_of_a_window_is_dropped_and_at_that_moment_on_no_queue() -> None:
    rows = [(12_000, 100), (5_000, 200)]
    source = flow.Source("web", columns=["t", "at"], rows=rows, arrival="at", times="t")
    window = flow.Window("count", "5 s", column="t", aggregates={"n": "count()"})
    recording = flow.Dataflow(
        "a late row",
        vertices=[source, window, flow.Sink("out")],
        edges="web -> count -> out",
        duration_ms="1 s",
        jitter_ms=0.0,
    ).record()
    (drop,) = recording.table("drops").to_pylist()
    truth = WindowOracle(recording, "count").facts(10_000, drop["at_ms"])
    assert truth == {"cause": "empty", "lost rows": 1, "on a queue": None}
    answer = recording.explain(window=10_000, at_ms=drop["at_ms"])
    assert {"cause": answer.cause, **{label: answer.facts.get(label) for label in [*truth][1:]}} == truth


def test_sessions_of_two_groups_with_the_same_begin_and_end_are_told_together() -> None:
    rows = [(1_000, 100, "ann"), (1_000, 200, "bob"), (1_000, 300, "bob")]
    source = flow.Source("web", columns=["t", "at", "user"], rows=rows, arrival="at", times="t")
    sessions = flow.SessionWindow("visits", 2_000, column="t", by=["user"], aggregates={"n": "count()"})
    recording = flow.Dataflow(
        "two groups",
        vertices=[source, sessions, flow.Sink("out")],
        edges="web -> visits -> out",
        duration_ms="1 s",
        jitter_ms=0.0,
    ).record()
    answer = recording.explain(window=3_000)
    # A session that ends just at the watermark stays.
    assert (answer.cause, answer.facts["rows"], answer.facts["needed"]) == ("waiting", 3, 3_001)
    assert answer.facts["rows of part"] == 3
