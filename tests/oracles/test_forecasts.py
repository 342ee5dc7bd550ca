"""What an answer says of the time to come: the run that goes on, and the table `source_rows`, bear it out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

from tests.oracles.dataflow import DataflowOracle
from tests.oracles.random_dataflows import random_dataflow
from tests.repetitions import repetitions
from wmlab import dataflow as flow

RUNS = repetitions(40, long=1_000)
SHORT_MS = 12_000
LONG_MS = 90_000
"""Longer than any idle timeout: so much of the run is known, whatever an answer about the short one says."""


def patient(seed: int) -> flow.Dataflow:
    """A short dataflow whose sources wait up to a minute for a row."""
    rng, dataflow = Random(seed), random_dataflow(seed).replace(jitter_ms=0)
    vertices = [
        replace(vertex, idle_timeout_ms=rng.choice((vertex.idle_timeout_ms, 3_000, 20_000)))
        if isinstance(vertex, flow.Source)
        else vertex
        for vertex in dataflow.vertices
    ]
    return dataflow.replace(vertices=vertices)


class Forecasts:
    """When the watermark of the window of a run that goes on rises, when rows come, and which faults end when."""

    def __init__(self, dataflow: flow.Dataflow) -> None:
        recording = dataflow.replace(duration_ms=LONG_MS).record()
        steps = DataflowOracle(recording).history("count", 0, 0)
        self._watermarks = [(at_ms, coalesced.watermark) for at_ms, coalesced, _ in steps]
        self._come_ms = [row["at_ms"] for row in recording.table("source_rows").to_pylist()]
        silent = (fault for fault in dataflow.faults if isinstance(fault, flow.SilentPartition))
        self._silent = [(fault.at_ms, fault.at_ms + fault.for_ms) for fault in silent]

    def wrong(self, answer: Any, at_ms: int, said: Counter[str]) -> Iterator[str]:
        """What is false of what an answer about a moment says of the time to come; counts what it says."""
        facts = answer.facts
        released_ms = next((ms for ms, watermark in self._watermarks if watermark >= answer.needed), LONG_MS)
        said.update(facts.keys() & {"goes on at", "released at", "run ends"})
        if facts.get("goes on at", 0) > released_ms:
            yield f"{at_ms}: not before {facts['goes on at']}, but at {released_ms}"
        if ("goes on at" in facts) > any(since <= at_ms < until for since, until in self._silent):
            yield f"{at_ms}: nothing stands still or is silent, but goes on at {facts['goes on at']}"
        if (forecast_ms := facts.get("released at")) is None:
            return
        has_come = any(at_ms < ms <= min(forecast_ms, released_ms) for ms in self._come_ms)
        if released_ms != forecast_ms and not has_come:
            yield f"{at_ms}: without a row released at {released_ms}, not {forecast_ms}"
        untils_ms = facts.get("fault until", ())
        for until_ms in untils_ms if isinstance(untils_ms, tuple) else (untils_ms,):
            if until_ms is not None and len(answer.holders) == 1 and until_ms < forecast_ms:
                yield f"{at_ms}: rows come from {until_ms} on, but released at {forecast_ms}"
        if ("run ends" in facts) != (forecast_ms > SHORT_MS):
            yield f"{at_ms}: the end of the run is told {facts.get('run ends')} beside {forecast_ms}"


def test_a_watermark_is_released_when_it_is_said_or_a_row_comes_before(count: Any) -> None:
    said, wrong = Counter[str](), []
    for seed in range(RUNS):
        dataflow, rng = patient(seed), Random(seed)
        recording, judge = dataflow.record(), Forecasts(dataflow)
        for at_ms in sorted(rng.sample(range(200, SHORT_MS), 8)):
            answer = recording.explain(at_ms=at_ms, vertex="count")
            if answer.needed is not None:
                wrong += [f"seed {seed}, {text}" for text in judge.wrong(answer, at_ms, said)]
    count(said.total(), "forecasts of dataflows by the run that goes on")
    assert wrong == []
    assert min(said[label] for label in ("goes on at", "released at", "run ends")) > 10
