"""One cause: chart, click and `explain` name the same; without it the bound is higher at that moment."""

from __future__ import annotations

from collections import Counter

import pandas as pd
import pytest

from tests.repetitions import Count, repetitions
from tests.streams.answers.fault_runs import CURVES, GROUP, Reruns, moments_of
from wmlab.streams.answers.cause import Cause
from wmlab.streams.answers.curves import LOG, Curves
from wmlab.streams.answers.explain import explain_curve
from wmlab.streams.answers.stops import longest_stop
from wmlab.streams.answers.vocabulary import CauseKind
from wmlab.streams.bounds.groups import bounds_of_group
from wmlab.streams.bounds.log_by_segment import ranges_of, watermark_columns
from wmlab.streams.charts.bounds import time_bounds
from wmlab.streams.recording import StreamRecording

SHARDS = repetitions(4, long=40)
RUNS = repetitions(25, long=50)
"""Runs of a shard; many short shards let two processes end together."""
EVERY = repetitions(3, long=2)
"""Of the moments of a run, every so many are tried without the cause."""
LEAST_CONFIRMED = 0.95


def bounds_of(recording: StreamRecording) -> pd.DataFrame:
    """The rows of `time_bounds` of the only group, in memory."""
    watermarks, ranges = watermark_columns(recording.table("watermarks")), ranges_of(recording.table("segments"))
    return bounds_of_group(recording.table("positions"), watermarks, ranges, then=True, until_ms=None).to_pandas(
        integer_object_nulls=True
    )


@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_cause_is_one_everywhere_and_without_it_the_bound_is_higher(shard: int, count: Count) -> None:
    confirmed, kinds = Counter[bool](), Counter[CauseKind]()
    unconfirmed: list[str] = []
    named = 0
    for seed in range(shard * RUNS, (shard + 1) * RUNS):
        runs = Reruns.of(seed)
        recording = runs.recording
        curves = Curves(recording, "orders")
        rows = bounds_of(recording)
        chart = time_bounds(rows, recording=recording)
        stop = longest_stop(curves, GROUP, *curves.at_position("readers"), int(rows["at_ms"].iloc[-1]))
        if stop is not None:
            named += 1
            held_by = chart.facts["held by"]
            assert {*stop.held_by} == {*(held_by if isinstance(held_by, tuple) else [held_by])}, f"seed {seed}"
        for number, at_ms in enumerate(moments_of(seed)):
            drawn = rows[rows["at_ms"] <= at_ms].tail(1)
            lower = None if drawn.empty or drawn["lower"].iloc[0] is None else int(drawn["lower"].iloc[0])
            for curve in CURVES:
                cause = curves.cause(curve, at_ms)
                kinds[cause.kind] += 1
                explained = recording.explain(at_ms, group=curve.group)
                assert explained.cause == cause
                if curve == GROUP:
                    assert cause.bound == lower, f"seed {seed} at {at_ms}: the chart draws another value"
                    assert str(chart.answer(at_ms)) == str(explained)
                held = runs.is_confirmed(cause, curve) if number % EVERY == 0 else None
                if held is not None:
                    confirmed[held] += 1
                    unconfirmed += [] if held else [f"seed {seed} at {at_ms} ms: {explained.sentence}"]
    assert named, "no head names a stop"
    share = confirmed[True] / confirmed.total()
    assert share >= LEAST_CONFIRMED, "\n".join(unconfirmed)
    assert kinds.keys() >= {
        CauseKind.LAGGING,
        CauseKind.SLOWEST,
        CauseKind.PERIOD,
        CauseKind.STORE,
        CauseKind.READER,
        CauseKind.UNREAD,
        CauseKind.NEWEST,
    }
    count(RUNS, "runs with faults, explained at 20 moments")
    count(named, "stops named in the head of a chart")
    count(confirmed.total(), "causes removed from a run")
    count(confirmed[False], "causes without which the bound was no higher")


@pytest.mark.parametrize("shard", range(SHARDS))
def test_nothing_that_is_said_of_the_future_is_falsified_by_the_run(shard: int, count: Count) -> None:
    forecasts = Counter[str]()
    for seed in range(shard * RUNS, (shard + 1) * RUNS):
        recording = Reruns.of(seed).recording
        curves = Curves(recording, "orders")
        for at_ms in moments_of(seed):
            for curve in CURVES:
                cause = curves.cause(curve, at_ms)
                forecasts += _forecasts(recording, cause.log if cause.kind is CauseKind.NEWEST and cause.log else cause)
    assert set(forecasts) == {"given up", "end of a fault"}
    for what, number in forecasts.items():
        count(number, f"forecasts ({what})")


def _forecasts(recording: StreamRecording, cause: Cause) -> Counter[str]:
    """The forecasts of a cause, each checked against the rest of the run."""
    made, at_ms = Counter[str](), cause.at_ms
    cycles = [row for row in recording.table("cycles").to_pylist() if row["at_ms"] > at_ms]
    incidents = recording.table("incidents").to_pylist()
    given_up = [party.given_up_ms for party in cause.parties if party.given_up_ms is not None]
    if cause.kind is CauseKind.LAGGING and len(given_up) == len(cause.parties):
        made["given up"] += 1
        early = [row for row in cycles if row["at_ms"] < max(given_up)]
        assert not any(len(set(cause.names) & set(row["removed"])) == len(cause.names) for row in early)
    for party in cause.parties:
        if party.fault is not None and party.fault.until_ms is not None:
            made["end of a fault"] += 1
            ends = {"restart", "speak", "resume", "heal", "available", "find", "active"}
            between = [row for row in incidents if at_ms < row["at_ms"] < party.fault.until_ms and row["kind"] in ends]
            assert not any(row["target"] == party.name for row in between)
    return made


def test_a_walk_back_gives_the_same_causes() -> None:
    recording = Reruns.of(3).recording
    curves = Curves(recording, "orders")
    moments = moments_of(3)
    there = [explain_curve(curves, LOG, "orders", at_ms) for at_ms in moments]
    assert there == [explain_curve(curves, LOG, "orders", at_ms) for at_ms in reversed(moments)][::-1]
