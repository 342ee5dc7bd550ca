"""The scenario files of dataflows: each is read, written and recorded in both modes, and shows what it says."""

from __future__ import annotations

import functools
import json
import re
from typing import Any

import pytest

import wmlab as wm
from tests.scenario_files import FOLDER, Row, files, rows

SETS = pytest.mark.parametrize("rules", wm.dataflow.Rules.sets)
NAMES = files("flows")


@functools.cache
def run(name: str, rules: str, seed: int = 0) -> wm.trace.Recording:
    dataflow = wm.dataflow.Dataflow.load(FOLDER / "flows" / f"{name}.yaml").replace(seed=seed)
    # What leaves joins and windows is as in Jet, by the design too.
    return dataflow.with_rules(rules, emit="state", bounds_only=False).record()


def changed(name: str, vertex: str, **fields: Any) -> wm.trace.Recording:
    """The recording of a file with fields of a vertex changed."""
    dataflow = wm.dataflow.Dataflow.load(FOLDER / "flows" / f"{name}.yaml")
    data = dataflow.to_dict()
    data["vertices"] = [{**v, **fields} if v["name"] == vertex else v for v in data["vertices"]]
    return wm.dataflow.Dataflow(**data).record()


def between(recording: wm.trace.Recording, source: str, target: str, kind: str) -> list[Row]:
    numbers = {queue["queue"] for queue in rows(recording, "queues", source=source, target=target)}
    return [item for item in rows(recording, "items", kind=kind) if item["queue"] in numbers]


@pytest.mark.parametrize("name", NAMES)
def test_a_file_is_read_and_written_without_a_difference(name: str) -> None:
    dataflow = wm.dataflow.Dataflow.load(FOLDER / f"{name}.yaml")
    assert wm.dataflow.Dataflow.from_yaml(dataflow.to_yaml()) == dataflow


@pytest.mark.parametrize("name", NAMES)
def test_a_file_says_where_it_is_from(name: str) -> None:
    lines = (FOLDER / f"{name}.yaml").read_text(encoding="utf-8").splitlines()
    comment = " ".join(line.removeprefix("# ") for line in lines[: lines.index("wmlab: 1")])
    assert re.search(r"Source: \S", comment)
    report = re.fullmatch(r"flows/(jet|hazelcast|flink)_(\d+)(_\w+)?", name)
    assert report is None or re.search(rf"(issue |pull request |FLINK-){report[2]}\b", comment)


@SETS
def test_jet_1605_the_last_window_comes_with_the_next_event_and_idleness_does_not_help(rules: str) -> None:
    first, last = rows(run("jet_1605", rules), "sunk")
    assert (first["time"], last["time"]) == (5_000, 10_000)
    assert first["at_ms"] < 5_100
    assert last["at_ms"] >= 90_000
    idle = between(run("jet_1605", rules), "mean", "out", "idle")
    assert 69_000 < idle[0]["put_ms"] < 70_000


@SETS
def test_jet_2103_results_wait_until_partitions_without_data_are_idle(rules: str) -> None:
    recording = run("jet_2103", rules)
    assert min(row["at_ms"] for row in rows(recording, "sunk")) >= 60_000
    steps = rows(recording, "coalescing", vertex="payments", level="partition")
    (released, *_) = [step for step in steps if step["emitted"]]
    assert released["idle"] == [1, 3]
    prompt = changed("jet_2103", "payments", idle_timeout_ms=2_000)
    assert min(row["at_ms"] for row in rows(prompt, "sunk")) < 4_000


@SETS
def test_jet_1746_the_join_begins_after_a_minute(rules: str) -> None:
    recording = run("jet_1746", rules)
    assert [row["source_instance"] for row in rows(recording, "queues") if row["source"] == "orders"] == [0, 1]
    assert between(recording, "delivered", "count", "event")[0]["put_ms"] < 1_000
    assert between(recording, "delivered", "count", "watermark")[0]["put_ms"] >= 60_000
    assert min(row["at_ms"] for row in rows(recording, "sunk")) >= 60_000
    assert [json.loads(row["row"])["n"] for row in rows(recording, "sunk")] == [4, 1]


@SETS
def test_hazelcast_20740_rejected_records_count_only_as_designed(rules: str) -> None:
    recording = run("hazelcast_20740", rules)
    assert not any(row["passed"] for row in rows(recording, "source_rows", vertex="europe"))
    sent = between(recording, "europe", "both", "watermark") + between(recording, "europe", "both", "idle")
    assert bool(sent) is (rules != "implementation")
    assert len(rows(recording, "sunk")) == (9 if rules != "implementation" else 0)


@SETS
@pytest.mark.parametrize("seed", range(3))
def test_hazelcast_26474_a_repeated_idle_message_is_passed_on_only_as_shipped(rules: str, seed: int) -> None:
    recording = run("hazelcast_26474", rules, seed)
    silent = [q["queue"] for q in rows(recording, "queues", source="tag")]
    heard = {queue: [i["kind"] for i in rows(recording, "items", queue=queue)] for queue in silent}
    (without_events,) = [kinds for kinds in heard.values() if "event" not in kinds]
    assert without_events == ["watermark"] + ["idle"] * (5 if rules == "implementation" else 1)
    assert len(rows(recording, "sunk")) == 5


@pytest.mark.parametrize("rules", ["sound", "implementation"])
def test_flink_7728_the_order_of_idle_messages_does_not_matter(rules: str) -> None:
    expected = sorted(row["row"] for row in rows(run("flink_7728", rules), "sunk"))
    first = set()
    for seed in range(12):
        recording = run("flink_7728", rules, seed)
        assert sorted(row["row"] for row in rows(recording, "sunk")) == expected
        assert between(recording, "both", "count", "watermark")[-1]["value"] == 1_000
        assert len(between(recording, "count", "out", "idle")) == 1
        steps = rows(recording, "coalescing", vertex="both", level="global", stimulus="idle")
        first.add(steps[0]["input"])
    assert first == {0, 1}


def test_flink_7728_without_the_flush_the_order_matters() -> None:
    dataflow = wm.dataflow.Dataflow.load(FOLDER / "flows" / "flink_7728.yaml")
    for held_back in (
        dataflow.replace(rules=wm.dataflow.Rules(highest_held_back=True)),
        dataflow.replace(rules="design"),
    ):
        assert (len(dataflow.permutations(12).finals), len(held_back.permutations(12).finals)) == (1, 2)


def test_hazelcast_22440_an_event_ends_idleness_now() -> None:
    dataflow = wm.dataflow.Dataflow.load(FOLDER / "flows" / "hazelcast_22440.yaml")
    before, after = (dataflow.with_rules(event_leaves_idle=on).record() for on in (True, False))
    (drop,) = rows(before, "drops")
    assert (drop["time"], drop["at_ms"], rows(after, "drops")) == (1_600, 2_400, [])
    said = [[row["put_ms"] for row in between(run, "both", "all", "idle")] for run in (before, after)]
    assert said == [[1_700, 4_300], [4_300]], "the rare source is active from 1 500 ms on"


def test_hazelcast_22440_an_ended_input_is_left_out_now() -> None:
    dataflow = wm.dataflow.Dataflow.load(FOLDER / "flows" / "hazelcast_22440_ended.yaml")
    before, after = (dataflow.with_rules(end_counts_as_active=on).record() for on in (True, False))
    assert [len(rows(run, "sunk")) for run in (before, after)] == [2, 9]
    assert [len(between(run, "both", "all", "idle")) for run in (before, after)] == [0, 1]


@SETS
def test_edge_case_15_merge_over_join_goes_on_when_the_join_is_idle(rules: str) -> None:
    recording = run("merge_over_join", rules)
    assert [row["time"] for row in rows(recording, "sunk")] == [500, 1_000, 1_500]
    assert 1_000 <= rows(recording, "sunk")[0]["at_ms"] < 1_100
    assert [(q["source"], q["target"]) for q in rows(recording, "queues") if "merge" in (q["source"], q["target"])] == [
        ("join", "merge"),
        ("scan3", "merge"),
        ("merge", "aggr"),
    ]
    assert between(recording, "join", "merge", "watermark") == []
    assert between(recording, "join", "merge", "idle")


@SETS
def test_edge_case_15_join_over_join_keeps_everything(rules: str) -> None:
    recording = run("join_over_join", rules)
    assert rows(recording, "sunk") == []
    assert between(recording, "joinOuter", "out", "watermark") == []
    assert between(recording, "joinInner", "joinOuter", "idle")
    sizes = [row["size"] for row in rows(recording, "state", vertex="joinOuter", buffer="right")]
    assert sizes == list(range(1, 21))
