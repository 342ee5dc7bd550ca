"""A replay of what the store received gives the watermarks of the simulator, whatever the configuration."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings, strategies as st

from tests.overlaps import without_overlaps
from tests.streams.sim.worlds import Run, drawn, noted, run
from wmlab.streams.model.cycle import ending_at
from wmlab.streams.model.history import StreamHistory
from wmlab.streams.model.position import Position
from wmlab.streams.model.replay import Received, advance, begin
from wmlab.streams.scenario import script
from wmlab.streams.scenario.parts import Controllers, EventWriter, Stream, TransactionalWriter
from wmlab.streams.scenario.rules import Rules, configuration

JUDGED = ("success", "invalid time", "invalid position")


def received(world: Run) -> list[Received]:
    """What the store judged, in the order in which it did."""
    notes = [
        Received(row["received_ms"], row["writer"], row["time"], Position(row["position"]))
        for row in world.rows("writer_marks")
        if row["outcome"] in JUDGED
    ]
    leaves = [
        Received(row["received_ms"], row["writer"], None, Position())
        for row in world.rows("writer_shutdowns", outcome="ok")
    ]
    return sorted(notes + leaves, key=lambda entry: entry.received_ms)


def replayed(world: Run) -> list[tuple[Any, ...]]:
    """Time, bounds, cut and writers of the watermarks of a replay.

    Notes do not say how long segments are, so a replay cannot know from where on no time is known: each end of known
    time that both have made goes on with the cut of the run, which `assert_ends_where_the_stream_did` judges.
    """
    config = configuration(world.stream().part, world.scenario.controllers, world.scenario.rules)
    history = StreamHistory.of(world.stream().history.segments.values())
    cuts = {row["emitted_ms"]: row["cut"] for row in world.rows("watermarks") if not row["writers"]}
    progress, entries, found = begin(config, world.world.start_ms), received(world), []
    begin_ms = world.world.start_ms
    for until_ms in (*(at_ms + 1 for at_ms in sorted(cuts)), world.world.end_ms):
        new = [entry for entry in entries if begin_ms <= entry.received_ms < until_ms]
        progress, emitted = advance(progress, new, history, config, until_ms=until_ms)
        found += emitted
        begin_ms = until_ms
        if found and found[-1][0] == until_ms - 1 and not found[-1][1].known:
            end = ending_at(found[-1][1], cuts[until_ms - 1])
            found[-1] = (until_ms - 1, end)
            progress = replace(progress, previous=end)
    return [(at_ms, w.lower, w.upper, dict(w.cut), dict(w.writers)) for at_ms, w in found]


def assert_ends_where_the_stream_did(world: Run) -> None:
    """An end of known time is where the segments of the active epoch ended when the last writer was forgotten."""
    events, history = world.events, world.stream().history
    for row in world.rows("watermarks"):
        if row["writers"]:
            continue
        cut, at_ms = row["cut"], row["emitted_ms"]
        assert tuple(sorted(cut)) in {epoch.ids for epoch in history.epochs}
        passed = {ancestor.id for segment in cut for ancestor in history.ancestors(segment)}
        assert set(events.segment_id[events.append_ms < at_ms].tolist()) <= passed | cut.keys()
        for segment, end in cut.items():
            here = events.segment_id == segment
            before, until = (
                max(events.offset[here & appended].tolist(), default=0)
                for appended in (events.append_ms < at_ms, events.append_ms <= at_ms)
            )
            assert before <= end <= until


def simulated(world: Run) -> list[tuple[Any, ...]]:
    names = ("emitted_ms", "lower", "upper", "cut", "writers")
    return [tuple(row[name] for name in names) for row in world.rows("watermarks")]


AT, A_OR_B = st.integers(0, 5_000), st.sampled_from("ab")
PLANS = st.fixed_dictionaries(
    {
        "rules": drawn(
            Rules,
            base=["sound", "implementation", "design"],
            cut_algorithm=[None, "pravega", "document"],
            double_work_entry=False,
            distribution="even",
        ),
        "stream": drawn(
            Stream,
            segments=st.integers(1, 3),
            timestamp_aggregation_timeout_ms=[0, 300, 1_500, 60_000],
            start_delay_ms=[None, 0, 700],
            expected_writers=st.integers(1, 4),
        ),
        "controllers": drawn(Controllers, period_ms=[200, 500, 1_300]),
        "writers": st.tuples(
            drawn(EventWriter, name="a", rate_per_s=20, note_every_ms=[100, 900, None]),
            drawn(EventWriter, name="b", rate_per_s=20, delay_mean_ms=300.0, processes=st.integers(1, 2)),
            drawn(TransactionalWriter, name="t", rate_per_s=[0, 20], every_ms=700, commit_latency_ms=150),
        ),
        "script": st.lists(
            st.one_of(
                drawn(
                    noted,
                    at_ms=AT,
                    writer=A_OR_B,
                    time=st.integers(-500, 6_000),
                    position=[{}, {"0@0": 0}, {"0@0": 3_000}],
                ),
                drawn(script.CrashWriter, at_ms=AT, writer=A_OR_B, restart_after_ms=[None, 1_500]),
                drawn(script.ShutDownWriter, at_ms=AT, writer=A_OR_B),
                drawn(script.MarkIdle, at_ms=AT, writer=A_OR_B),
                drawn(script.SilenceWriter, at_ms=AT, writer=A_OR_B, for_ms=[500, 3_000]),
            ),
            max_size=6,
        ).map(lambda drawn: (script.Scale(at_ms=3_000, seal=["0@0"]), *without_overlaps(drawn))),
        "seed": st.integers(0, 99),
    }
)


@settings(max_examples=60)
@given(PLANS)
def test_the_watermarks_of_a_run_are_those_of_its_replay(plan: dict[str, Any]) -> None:
    world = run(readers=None, duration_ms=6_000, **plan)
    assert replayed(world) == simulated(world)
    assert_ends_where_the_stream_did(world)
