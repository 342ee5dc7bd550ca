"""The answers of a run with dates are sentences: a capital, a full stop, one "UTC", a minus that is one, no latency."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import wmlab as wm

_HYPHEN_MINUS = re.compile(r"(?<![\w-])-\d")
_LATENCY = re.compile(r"\d\.\d{3} UTC|\d\.00\d s\b|:\d\d\.\d{3}\b")
_MOMENTS = ("5 s", "12 s", "26 s", "33 s", "40 s", "48 s")
_CHARTS = (
    "key_space",
    "writer_marks",
    "watermark_cycles",
    "lag",
    "event_vs_arrival",
    "generations",
    "lineage",
    "topology",
)


@pytest.fixture(scope="module")
def run() -> Any:
    return wm.Scenario.load("first_bounds").replace(start_ms="2013-07-15").record()


@pytest.fixture(scope="module")
def plan() -> Any:
    return wm.progress.PlanScenario.load("progress_flights").record()


def complaints(text: str, names: set[str]) -> list[str]:
    """What is wrong with the sentences of an answer; they may begin with one of the names."""
    first = text.split(maxsplit=1)[0].rstrip(":,")
    wrong = {
        "no capital": not re.match(r"[A-Z0-9'‘“]", text) and first not in names,
        "no full stop": not text.rstrip().endswith("."),
        "UTC more than once": text.count("UTC") > 1,
        "a hyphen for a minus": _HYPHEN_MINUS.search(text),
        "a latency": _LATENCY.search(text),
    }
    return [name for name, is_wrong in wrong.items() if is_wrong]


def test_what_explain_says_of_a_stream(run: Any) -> None:
    names = {"w1", "w2", "readers-0"}
    for at_ms in _MOMENTS:
        for asked in ({}, {"reader": "readers-0"}, {"bound": "upper"}):
            sentence = run.explain(at_ms, **asked).sentence
            assert complaints(sentence, names) == [], sentence
    for answer in (run.explain(), run.timeline(), run.check(), run.measures()):
        assert complaints(answer.sentence, names) == [], answer.sentence


@pytest.mark.parametrize("chart", _CHARTS)
def test_what_charts_say_of_a_stream(run: Any, chart: str) -> None:
    sentence = getattr(wm.chart, chart)(run).sentence
    assert complaints(sentence, {"w1", "w2"}) == [], sentence


def test_what_is_said_of_a_query_plan(plan: Any) -> None:
    for answer in (plan.explain(), plan.explain("2013-07-15 12:00"), plan.check(), plan.measures()):
        assert complaints(answer.sentence, set()) == [], answer.sentence


def test_what_is_said_of_a_dataflow() -> None:
    run = wm.dataflow.Dataflow.load("jet_1746").record()
    for answer in (*(run.explain(f"{at} s") for at in (5, 45, 70)), run.explain(), run.check(), run.measures()):
        assert complaints(answer.sentence, {"count"}) == [], answer.sentence


@pytest.mark.parametrize("log", ["flink/healthy", "flink/other_silent", "flink/all_idle", "spark/one_source_silent"])
def test_what_is_said_of_a_job(log: str) -> None:
    answer = wm.engine.read(wm.engine.DIRECTORY / f"{log}.jsonl").explain()
    text = repr(answer)
    assert complaints(text, {str(answer.operator)}) == [], text


ABOUT_LOGS: dict[str, Callable[[Any], Any]] = {
    "profile": wm.trace.profile,
    "advise": lambda log: wm.strategy.advise(log, 0.05),
    "lateness curve": wm.strategy.lateness_curve,
}


@pytest.mark.parametrize("ask", ABOUT_LOGS)
def test_what_is_said_of_a_log(ask: str) -> None:
    answer = ABOUT_LOGS[ask](wm.trace.load("quakes"))
    assert complaints(answer.sentence, set()) == [], answer.sentence


def test_a_sentence_that_is_none_is_found() -> None:
    wrong = "it was -5 s at 2013-07-15 00:00:01.005 UTC, 2013-07-15 00:00:02 UTC"
    assert complaints(wrong, {"w1"}) == [
        "no capital",
        "no full stop",
        "UTC more than once",
        "a hyphen for a minus",
        "a latency",
    ]
    assert complaints("w1 waits until 31.0 s.", {"w1"}) == []
