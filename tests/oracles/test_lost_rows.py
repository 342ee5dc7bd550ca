"""Why rows of a dataflow were lost: `why_dropped` and the second judge name the same partition, cause and timeout."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from tests.oracles.lost_rows import LostRows
from tests.oracles.random_dataflows import (
    on_a_beat,
    over_a_join,
    random_dataflow,
    with_another_fault,
    with_instances,
    with_join,
)
from tests.oracles.test_dataflow import several
from tests.repetitions import repetitions
from wmlab import dataflow as flow

RUNS = repetitions(60, long=1_000)


def differences(recording: Any) -> tuple[list[str], Counter[str]]:
    """What `why_dropped` says otherwise than the judge about lost rows, and how often it says which reason."""
    judge = LostRows(recording)
    said = {drop.row["id"]: drop.facts for drop in recording.why_dropped()}
    wrong, reasons = [], Counter(str(facts["lost because"]) for facts in said.values())
    lost = dict(judge.rows())
    if lost.keys() != said.keys():
        wrong.append(f"rows {sorted(said)}, not {sorted(lost)}")
    for name, truth in lost.items():
        facts, partition = said[name], f"partition {truth.partition} of {truth.source}"
        if facts["passed at"] != judge.passed_ms(name):
            wrong.append(f"{name}: passed at {facts['passed at']}, not {judge.passed_ms(name)}")
        if (facts["lost because"], facts.get("partition")) != (truth.because, partition):
            wrong.append(f"{name}: {dict(facts)}, not {truth}")
        elif truth.because == "idle":
            wrong += wrong_timeout(judge, name, facts)
            idle = facts["row before at"], facts["idle since"], facts["idle timeout"]
            if idle != (truth.row_before_ms, truth.row_before_ms + truth.idle_timeout_ms, truth.idle_timeout_ms):
                wrong.append(f"{name}: {dict(facts)}, not {truth}")
    return wrong, reasons


def wrong_timeout(judge: LostRows, name: str, facts: Any) -> Iterator[str]:
    """What is wrong with the timeout that is said to keep a row, by runs with that timeout and with 1 ms less.

    With it the row is kept, and its partition never idle in between; with less it is.
    """
    timeout_ms, since_ms = facts["kept with timeout"], facts["row before at"]
    if judge.is_lost(name, idle_timeout_ms=timeout_ms):
        yield f"{timeout_ms} does not keep {name}"
    if judge.is_idle_before(name, since_ms=since_ms, idle_timeout_ms=timeout_ms):
        yield f"{name}: the partition is idle with {timeout_ms}"
    if not judge.is_idle_before(name, since_ms=since_ms, idle_timeout_ms=timeout_ms - 1):
        yield f"{name}: the partition is not idle with {timeout_ms - 1}"


def test_every_lost_row_has_its_reason_and_the_timeout_that_keeps_it(count: Any) -> None:
    wrong, reasons = [], Counter[str]()
    for seed in range(RUNS):
        dataflow = with_instances(random_dataflow(seed), seed) if seed % 4 else random_dataflow(seed)
        texts, said = differences(dataflow.replace(jitter_ms=0).record())
        wrong += [f"seed {seed}: {text}" for text in texts]
        reasons += said
    count(reasons.total(), "lost rows by two judges")
    assert wrong == []
    assert reasons["idle"] > 10
    assert reasons["own rows"] > 0
    assert reasons["not known"] == 0


def test_rows_that_come_as_the_watermark_passes_them_have_their_reason(count: Any) -> None:
    wrong, reasons = [], Counter[str]()
    for seed in range(RUNS // 3):
        texts, said = differences(on_a_beat(seed).record())
        wrong += [f"seed {seed}: {text}" for text in texts]
        reasons += said
    count(reasons.total(), "lost rows by two judges")
    assert wrong == []
    assert min(reasons["idle"], reasons["own rows"]) > 10


def test_rows_of_a_partition_that_was_added_late_and_rows_after_a_restart_have_their_reason(count: Any) -> None:
    """An idle partition is proved by runs with other timeouts; another one is not there before its time."""
    wrong, reasons = [], Counter[str]()
    for seed in range(RUNS * 2 // 3):
        recording = with_another_fault(random_dataflow(seed), seed).replace(jitter_ms=0).record()
        judge = LostRows(recording)
        for drop in recording.why_dropped():
            because, name = str(drop.facts["lost because"]), drop.row["id"]
            reasons[because] += 1
            if because == "idle":
                wrong += [f"seed {seed}: {text}" for text in wrong_timeout(judge, name, drop.facts)]
            elif because == "not there" and not judge.is_passed_before_it_was_added(name):
                wrong.append(f"seed {seed}: the partition of {name} was there")
    count(reasons.total(), "lost rows of partitions that were added, or after a restart")
    assert wrong == []
    assert min(reasons["idle"], reasons["not there"]) > 5


def test_rows_that_a_join_drops_have_their_reason(count: Any) -> None:
    wrong, reasons = [], Counter[str]()
    for seed in range(RUNS // 2):
        dataflow = with_join(random_dataflow(seed), seed)
        recording = (with_instances(dataflow, seed) if seed % 2 else dataflow).replace(jitter_ms=0).record()
        judge = LostRows(recording)
        for drop in recording.why_dropped():
            because, name = str(drop.facts["lost because"]), drop.row["id"]
            reasons[because] += 1
            is_own = judge.own_watermark(name) > drop.number("time")
            if because != ("own rows" if is_own else "idle"):
                wrong.append(f"seed {seed}: {name} is lost because of {because}")
            if because == "idle":
                wrong += [f"seed {seed}: {text}" for text in wrong_timeout(judge, name, drop.facts)]
    count(reasons.total(), "rows that joins dropped")
    assert wrong == []
    assert min(reasons["idle"], reasons["own rows"]) > 5


def test_joined_rows_are_lost_while_both_sides_of_the_join_are_idle(count: Any) -> None:
    """Rows that a window drops behind a merge of a join; each side alone, never idle, keeps them all.

    What is said of them is true, also where only the partition of one of the two rows is named.
    """
    wrong, reasons = [], Counter[str]()
    for seed in range(RUNS // 10):
        recording = over_a_join(seed, mapped=seed % 2 == 1).record()
        judge = LostRows(recording)
        drops = [drop for drop in recording.table("drops").to_pylist() if drop["vertex"] == "count"]
        joined = {drop["row"]: drop for drop in drops if not json.loads(drop["row"])["id"].startswith("c")}
        if not joined:
            continue
        wrong += [
            f"seed {seed}: {side} does not keep all" for side in "ab" if {*judge.without_idleness(side)} & {*joined}
        ]
        for answer in recording.why_dropped(vertex="count"):
            drop = joined.get(json.dumps(answer.row))
            if drop is None:
                continue
            truth, because = judge.not_waited_for(drop, "both"), str(answer.facts["lost because"])
            reasons[because] += 1
            told = several(answer.facts.get("partition")), several(answer.facts.get("idle since"))
            is_known = because == "idle" and {*zip(*told, strict=True)} <= {*truth.items()}
            if not truth or not (is_known or because == "not known"):
                wrong.append(f"seed {seed}: {answer.row['id']} is {because} {told}, not {truth}")
    count(reasons.total(), "joined rows that were lost")
    assert wrong == []
    assert reasons.total() > 50


def test_a_row_is_passed_where_its_source_is_coalesced_before_another_source_lets_the_watermark_go() -> None:
    """Partition 1 of `a` is idle as `a` passes the row; once more it is not, and `b` lets it go 3 s later."""
    of_a = [(at, at, 0, f"a{at}") for at in range(0, 9_000, 100)]
    of_a += [(0, 0, 1, "first"), (500, 3_500, 1, "in between"), (600, 6_050, 1, "lost")]
    of_b = [(max(0, at - 3_000), at, 0, f"b{at}") for at in range(0, 9_000, 100)]
    sources = [
        flow.Source(
            name,
            columns=("t", "at", "part", "id"),
            rows=rows,
            arrival="at",
            times="t",
            partitions=copies,
            partition_by="part",
            parallelism=copies,
            idle_timeout_ms=1_000,
        )
        for name, rows, copies in (("a", of_a, 2), ("b", of_b, 1))
    ]
    window = flow.Window("count", 1_000, column="t", aggregates={"n": "count()"})
    recording = flow.Dataflow(
        "passed twice",
        vertices=[*sources, flow.Merge("both"), window, flow.Sink("out")],
        edges=["a -> both -> count -> out", "b -> both"],
        duration_ms="9 s",
        jitter_ms=0.0,
    ).record()
    assert differences(recording) == ([], Counter({"idle": 1}))
    (drop,) = recording.why_dropped()
    labels = ("passed at", "row before at", "idle since", "kept with timeout")
    assert [drop.facts[label] for label in labels] == [6_000, 0, 1_000, 3_500]
