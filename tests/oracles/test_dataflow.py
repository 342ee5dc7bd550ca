"""Who holds the watermark of a dataflow: `explain` and the second judge name the same ones."""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random
from typing import Any

import pytest

import wmlab as wm
from tests.oracles.dataflow import ENDED, LOWEST, DataflowOracle, Place
from tests.oracles.random_dataflows import (
    beats_of,
    on_a_beat,
    random_dataflow,
    shaped,
    with_barriers,
    with_join,
    with_stall,
)
from tests.repetitions import repetitions
from wmlab import dataflow as flow
from wmlab.core.recording import Recording

RUNS = repetitions(40, long=1_000)
END_MS = 12_000
SAMPLED_MS = 240
"""A whole run is explained at some 200 moments, so a length may be off by a few of their distances."""
_NAMED = re.compile(r"partition (\d+) of (\w+)")


def test_the_chart_of_a_join_says_what_it_sent_last(count: Any) -> None:
    compared = 0
    for seed in range(RUNS // 4):
        recording = with_join(random_dataflow(seed), seed).record()
        tables = {name: recording.table(name).to_pylist(maps_as_pydicts="strict") for name in ("items", "queues")}
        (queue,) = [row for row in tables["queues"] if (row["source"], row["source_instance"]) == ("both", 0)][:1]
        for key in queue["keys"]:
            came = {row["key"] for row in tables["items"] if row["kind"] == "watermark"}
            sent = [
                row["value"]
                for row in tables["items"]
                if (row["queue"], row["kind"], row["key"]) == (queue["queue"], "watermark", key)
            ]
            if key in came:
                chart = wm.dataflow.chart.coalescing(recording, vertex="both", key=key)
                assert chart.facts.get("watermark") == (sent[-1] if sent else None), (seed, key)
                compared += bool(sent)
    count(compared, "last watermarks of joins in charts")
    assert compared > RUNS // 8


def several(value: Any, number: int | None = None) -> tuple[Any, ...]:
    """A value of facts as one for each of so many parties; of None without a number, none."""
    if value is None:
        return (None,) * (number or 0)
    return value if isinstance(value, tuple) else (value,)


def wrong_idle(judge: DataflowOracle, answer: Any, at_ms: int) -> list[str]:
    """What an answer says otherwise than the judge about the partitions that are idle and hold nothing."""
    both = (several(answer.facts.get(label)) for label in ("not waited for", "not waited for since"))
    told = dict(zip(*both, strict=True))
    held = {holder.name for holder in answer.holders}
    every = judge.not_waited_for(at_ms, answer.watermark, answer.key)
    idle = {name: since_ms for name, since_ms in every.items() if name not in held}
    is_over = answer.cause in {"failed", "completed"}
    return [] if is_over or told == idle else [f"{at_ms}: {told} are not waited for, not {idle}"]


def wrong_of_holders(judge: DataflowOracle, recording: Any, answer: Any, at_ms: int) -> list[str]:
    """What an answer says otherwise than the judge about the faults and frames of the partitions that hold."""
    names, wrong = several(answer.facts["holder"]), []
    # Behind a join or a restart another watermark is needed than the next one.
    is_joined = any(isinstance(each, flow.Join) for each in recording.dataflow.vertices)
    is_joined = is_joined or len(recording.table("executions")) > 1
    copies = {vertex.name: vertex.parallelism or 1 for vertex in recording.dataflow.vertices}
    labels = ("fault", "fault from", "fault until", "cause", "next watermark", "waits since")
    rows = zip(names, *(several(answer.facts.get(label), len(names)) for label in labels), strict=True)
    for name, *fault, cause, next_mark, since_ms in rows:
        if not (partition := _NAMED.findall(name)):
            # An instance that stands still, or from which something is on its way.
            since = judge.waiting_since(
                name, answer.key, at_ms, LOWEST if answer.watermark is None else answer.watermark
            )
            if cause == "stalled" and since_ms not in since:
                wrong.append(f"{at_ms}: something waits at {name} since {since_ms}, not {since}")
            continue
        number, vertex = partition[0]
        place = Place(vertex, int(number) % copies[vertex], int(number))
        truth = judge.cause(place, answer.key, at_ms, LOWEST if answer.needed is None else answer.needed - 1)
        if answer.vertex == "count" and not is_joined and truth != cause:
            wrong.append(f"{at_ms}: the cause of {name} is {cause}, not {truth}")
        expected = judge.fault(vertex, int(number), at_ms) or (None, None, None)
        if tuple(fault) != expected:
            wrong.append(f"{at_ms}: {name} has the fault {fault}, not {expected}")
        frame = judge.next_frame(place, at_ms) if cause == "throttled" else None
        if len(recording.table("executions")) == 1 and next_mark != frame:
            wrong.append(f"{at_ms}: the next watermark of {name} is {next_mark}, not {frame}")
    return wrong


def wrong_below(judge: DataflowOracle, answer: Any, at_ms: int, places: set[Place]) -> list[str]:
    """What an answer says otherwise than the judge about the inputs that are below the watermark that is needed."""
    marks = several(answer.facts.get("watermark also below"), len(answer.facts.get("also below") or ()))
    told = dict(zip(several(answer.facts.get("also below")), marks, strict=True))
    below = judge.below(answer.vertex, answer.instance, answer.key, at_ms, answer.needed)
    if not below or any(place.partition is None for place in below):
        return []
    left = {place.name: judge.left(place, answer.key, at_ms) for place in below - places}
    truth = {name: None if mark == LOWEST else mark for name, mark in left.items()}
    return [] if told == truth else [f"{at_ms}: also below are {told}, not {truth}"]


def wrong_restart(recording: Any, answer: Any, at_ms: int) -> list[str]:
    """When the job began again last, by the table of executions, where an answer says otherwise."""
    begun = [row["started_ms"] for row in recording.table("executions").to_pylist() if row["started_ms"] <= at_ms]
    said = answer.facts.get("restarted at")
    return [] if said == [None, *begun[1:]][-1] else [f"{at_ms}: restarted at {said}, not {begun}"]


def differences(recording: Any, at_ms: int, vertex: str = "count") -> list[str]:
    """What `explain` says otherwise than the judge about the window of a recording, or its sink, at a moment."""
    judge, answer = DataflowOracle.at(recording, at_ms), recording.explain(at_ms=at_ms, vertex=vertex)
    every, _ = judge.levels(vertex, answer.instance, answer.key, at_ms)
    watermark = None if every.watermark == LOWEST else every.watermark
    wrong = []
    if (answer.watermark, answer.since_ms) != (watermark, every.since_ms):
        wrong.append(f"{at_ms}: watermark {answer.watermark} since {answer.since_ms}, not {watermark}")
    wrong += wrong_restart(recording, answer, at_ms)
    copies = {each.name: each.parallelism or 1 for each in recording.dataflow.vertices}
    of_all = [judge.levels(vertex, number, answer.key, at_ms)[0].watermark for number in range(copies[vertex])]
    if every.watermark != min(of_all):
        wrong.append(f"{at_ms}: instance {answer.instance}, the watermarks are {of_all}")
    wrong += wrong_idle(judge, answer, at_ms)
    places = judge.holders(vertex, answer.instance, answer.key, at_ms)
    told, also = (set(several(answer.facts.get(label))) for label in ("holder", "also below"))
    marks = [mark for mark in several(answer.facts.get("watermark also below")) if mark is not None]
    if any(mark >= answer.needed for mark in marks):
        wrong.append(f"{at_ms}: {marks} are not below {answer.needed}")
    if any(place.partition is None for place in places):
        # Something is on its way, or stands still, or is in a join after a restart. An answer looks behind what is on
        # its way for a turn only; where a turn takes no time it names the partitions that hold beside it, and no other.
        named = {name for name in told if _NAMED.match(name)}
        expected = {place.name for place in places if place.partition not in {None, ENDED}}
        is_judged = recording.dataflow.jitter_ms == 0 and named != expected
        return [*wrong, f"{at_ms}: held by {named}, not by {expected}"] if is_judged else wrong
    if not places:
        # All have ended.
        return wrong
    # An instance that stands still holds beside what has not come to it.
    if told != (truth := judge.names_of(places) | judge.standing_still(vertex, answer.instance, at_ms)):
        wrong.append(f"{at_ms}: held by {told}, not by {truth}")
    ranked = [Place(holder.vertex, holder.instance, holder.partition) for holder in answer.holders if not holder.stall]
    wrong += wrong_of_holders(judge, recording, answer, at_ms)
    if set(ranked[: len(places)]) != {p._replace(partition=None) if p.partition == ENDED else p for p in places}:
        wrong.append(f"{at_ms}: ranked {ranked}, not with {places} first")
    # The sides of a join need watermarks of their own.
    is_merged = not any(isinstance(each, flow.Join) for each in recording.dataflow.vertices)
    if is_merged and answer.needed is not None and vertex in {"count", "again"}:
        wrong += wrong_below(judge, answer, at_ms, places)
    if told & also:
        wrong.append(f"{at_ms}: one that sets the watermark is among the others: {told & also}")
    return wrong


def test_explain_names_first_who_sets_the_watermark(count: Any) -> None:
    wrong, moments = [], 0
    for seed in range(RUNS):
        rules = "design" if seed % 3 == 0 else "sound"
        recording, rng = shaped(seed).with_rules(rules).record(), Random(seed)
        for at_ms in sorted(rng.randrange(200, END_MS) for _ in range(4)):
            moments += 1
            vertex = rng.choice(("count", "count", recording.dataflow.vertices[-1].name))
            wrong += [f"seed {seed}: {vertex} {text}" for text in differences(recording, at_ms, vertex)]
        on_beats = with_stall(on_a_beat(seed), seed) if seed % 2 else on_a_beat(seed)
        recording = on_beats.with_rules(rules).record()
        for at_ms in rng.sample(beats_of(on_beats), 4):
            moments += 1
            wrong += [f"beat {seed}: {text}" for text in differences(recording, at_ms)]
    count(moments, "moments of dataflows by two judges")
    assert wrong == []


def test_what_waits_behind_a_barrier_is_on_the_queue_that_the_tables_name(count: Any) -> None:
    """What a source has sent is not taken before the barrier of the one that stands still has come."""
    wrong, moments, on_queues = [], 0, 0
    for seed in range(RUNS):
        dataflow, rng = with_barriers(on_a_beat(seed), seed), Random(seed)
        recording = dataflow.record()
        for at_ms in (beat + 250 for beat in rng.sample(beats_of(dataflow)[:-1], 2)):
            judge, answer = DataflowOracle(recording), recording.explain(at_ms=at_ms, vertex="count")
            places = judge.holders("count", answer.instance, answer.key, at_ms)
            names, causes = (several(answer.facts.get(label)) for label in ("holder", "cause"))
            watermark = LOWEST if answer.watermark is None else answer.watermark
            moments += 1
            if {*names} != judge.names_of(places):
                wrong.append(f"seed {seed} at {at_ms}: held by {names}, not by {places}")
            since = dict(zip(names, several(answer.facts.get("waits since"), len(names)), strict=True))
            on_queue = [name for name, cause in zip(names, causes, strict=True) if cause == "on queue"]
            truths = {
                name: judge.on_queues(place, answer.key, at_ms, watermark)
                for place in places
                for name in judge.names_of([place])
                if name in on_queue
            }
            on_queues += len(truths)
            takers = {taker for each in truths.values() for taker, _ in each}
            if {*several(answer.facts.get("taken by"))} != takers:
                wrong.append(f"seed {seed} at {at_ms}: to be taken by {answer.facts.get('taken by')}, not {takers}")
            for name, truth in truths.items():
                if since[name] not in {since_ms for _, since_ms in truth}:
                    wrong.append(f"seed {seed} at {at_ms}: waits since {since[name]}, not {truth}")
    count(moments, "moments of dataflows by two judges")
    assert wrong == []
    assert on_queues > 10


def test_a_whole_run_says_how_long_each_source_held_the_watermark(count: Any) -> None:
    """A source holds it while it counts; its partitions share that time, or hold it together."""
    wrong, runs = [], 0
    for seed in range(RUNS):
        recording = random_dataflow(seed).record()
        names = [vertex.name for vertex in recording.dataflow.vertices if isinstance(vertex, flow.Source)]
        if len(names) < 2:
            continue
        runs += 1
        held_ms = DataflowOracle(recording).held_ms("both", 0, 0, END_MS)
        answer = recording.explain(vertex="both")
        for edge, name in enumerate(names):
            mine = [row.held_ms for row in answer if row.who.endswith(f" of {name}") and row.why != "idle"]
            if not max(mine, default=0) - SAMPLED_MS <= held_ms[edge] <= sum(mine) + SAMPLED_MS:
                wrong.append(f"seed {seed}: {name} {mine}, not {held_ms[edge]}")
    count(runs, "runs of dataflows by two judges")
    assert wrong == []


@pytest.fixture(scope="module")
def clicks_and_adds() -> Recording:
    """Three partitions that lag by 0.4 s, and one that lags by 0.9 s."""
    clicks = flow.Source(
        "clicks",
        columns=["t", "user"],
        rows=[(t, n % 3) for n, t in enumerate(range(0, 20_000, 250))],
        arrival="t",
        times=[flow.EventTime("t", lag_ms=400)],
        partitions=3,
        partition_by="user",
    )
    adds = flow.Source(
        "adds",
        columns=["t", "user"],
        rows=[(t, 0) for t in range(0, 20_000, 1_000)],
        arrival="t",
        times=[flow.EventTime("t", lag_ms=900)],
    )
    window = flow.Window("count", "5 s", column="t", by=["user"], aggregates={"n": "count()"})
    return flow.Dataflow(
        "clicks and adds",
        vertices=[clicks, adds, flow.Merge("both"), window, flow.Sink("out")],
        edges=["clicks -> both -> count -> out", "adds -> both"],
        duration_ms="20 s",
        jitter_ms=0.0,
    ).record()


def test_the_input_that_sets_the_watermark_is_first_and_the_others_follow_with_theirs(
    clicks_and_adds: Any,
) -> None:
    answer = clicks_and_adds.explain(at_ms="4900 ms")
    assert answer.watermark == 3_100
    assert (
        answer.headline == "The watermark of key 0 at count is 3.1 s since 4.0 s, held by partition 0 of adds (slow)."
    )
    assert answer.facts["also below"] == tuple(f"partition {number} of clicks" for number in (2, 0, 1))
    assert answer.facts["watermark also below"] == (3_850, 4_100, 4_350)
    assert [holder.marks[-1] for holder in answer.holders] == [3_100, 3_850, 4_100, 4_350]


def test_the_one_input_that_is_left_when_the_other_is_idle_is_named() -> None:
    web = flow.Source("web", columns=["t"], rows=[[t] for t in range(0, 9_000, 500)], arrival="t", times="t")
    app = flow.Source("app", columns=["t"], rows=[[100]], arrival="t", times="t", idle_timeout_ms=1_000)
    window = flow.Window("count", "5 s", column="t", aggregates={"n": "count()"})
    recording = flow.Dataflow(
        "an idle app",
        vertices=[web, app, flow.Merge("both"), window, flow.Sink("out")],
        edges=["web -> both -> count -> out", "app -> both"],
        duration_ms="10 s",
        jitter_ms=0.0,
    ).record()
    assert "was held longest by partition 0 of web (slow)" in recording.explain(vertex="both").headline
    assert recording.explain(at_ms="6 s", vertex="both").facts["holder"] == "partition 0 of web"
    chart = wm.dataflow.chart.coalescing(recording, vertex="both")
    assert chart.sentence == "The last watermark at both was 8.5 s."


def test_of_two_inputs_the_way_of_the_first_one_is_told() -> None:
    sources = [
        flow.Source(name, columns=["t"], rows=[[100], [200]], arrival="t", times="t", idle_timeout_ms=1_000)
        for name in ("web", "app")
    ]
    window = flow.Window("count", "5 s", column="t", aggregates={"n": "count()"})
    recording = flow.Dataflow(
        "two ways",
        vertices=[*sources, flow.Map("same", select={"t": "t"}), flow.Merge("both"), window, flow.Sink("out")],
        edges=["web -> same -> both -> count -> out", "app -> both"],
        duration_ms="10 s",
    ).record()
    facts = recording.explain(at_ms="6 s", vertex="count").facts
    assert facts["holder"] == ("partition 0 of web", "partition 0 of app")
    assert facts["through"] == ("same", "both")


def test_of_several_instances_the_lowest_watermark_is_told_or_that_of_the_one_asked_for() -> None:
    source = flow.Source("web", columns=["t"], rows=[[t] for t in range(0, 9_000, 500)], arrival="t", times="t")
    recording = flow.Dataflow(
        "two instances",
        vertices=[source, flow.Merge("both", parallelism=2), flow.Sink("out", parallelism=1)],
        edges=["web -> both -> out"],
        duration_ms="10 s",
    ).record()
    asked = {"vertex": "both"}, {"vertex": "both", "instance": 1}, {"vertex": "out"}
    bounds = [recording.explain(**each).facts["bound"] for each in asked]
    assert bounds == ["lowest watermark at both", "watermark at both[1]", "watermark at out"]


def test_of_two_times_of_a_side_the_one_that_raised_the_limit_of_a_join_furthest_is_needed() -> None:
    left = flow.Source("left", columns=["t"], rows=[[t] for t in range(0, 5_000, 250)], arrival="t", times="t")
    rows = [(t, t, t) for t in range(0, 3_001, 250)]
    times = [flow.EventTime("u", key=1), flow.EventTime("v", key=2)]
    right = flow.Source("right", columns=["u", "v", "at"], rows=rows, arrival="at", times=times)
    condition = "left.t <= right.u and right.u <= left.t + 1000 and left.t <= right.v and right.v <= left.t + 200"
    recording = flow.Dataflow(
        "two bounds",
        vertices=[left, right, flow.Join("both", condition), flow.Sink("out")],
        edges=["left -> both -> out", "right -> both"],
        duration_ms="5 s",
        jitter_ms=0.0,
    ).record()
    facts = recording.explain(at_ms="4900 ms", vertex="both", key=0).facts
    # A limit of 2.8 s is by `v`, and one of 2 s by `u`.
    assert (facts["watermark"], facts["holder"], facts["row of"]) == (2_800, "partition 0 of right", 3_001)


def test_all_instances_are_named_that_have_to_take_what_waits() -> None:
    """What `b` sent waits for a barrier on the queues to both instances of the merge."""
    dataflow = with_barriers(on_a_beat(6), 6)
    vertices = [replace(each, parallelism=2) if each.name == "both" else each for each in dataflow.vertices]
    recording, at_ms = dataflow.replace(vertices=vertices).record(), 8_250
    behind = {q["queue"]: q["target_instance"] for q in recording.table("queues").to_pylist() if q["source"] == "b"}
    waiting = {
        f"both[{behind[item['queue']]}]"
        for item in recording.table("items").to_pylist()
        if item["queue"] in behind and item["kind"] == "watermark" and item["put_ms"] <= at_ms < item["taken_ms"]
    }
    answer = recording.explain(at_ms=at_ms)
    assert waiting == {"both[0]", "both[1]"}
    assert ({*several(answer.facts["taken by"])}, answer.facts["holder"]) == (waiting, "b")
