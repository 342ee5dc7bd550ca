"""What a run says of late events, rows and buffers, against the second computation: in `measures` and in `check`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import wmlab as wm
from tests.oracles import late, late_runs
from tests.repetitions import Count, repetitions
from wmlab.core.invariants import Verdicts
from wmlab.core.late import LABELS, Late

RUNS = repetitions(40, long=350)
MODELS: dict[str, tuple[Callable[[int], Any], Callable[[Any], late.Late], str, str]] = {
    "streams": (late_runs.streams, lambda run: late.late_events(run, "orders"), "orders", "events"),
    "dataflow": (late_runs.dataflows, late.late_rows, "", "rows"),
    "progress": (late_runs.plans, lambda run: late.late_buffers(run, "q"), "q", "buffers"),
}


def expected(found: late.Late, what: str) -> dict[str, Any]:
    """The facts that the answer has to have, but for the name of the bound."""
    reasons = sorted(found.left_out, key=lambda reason: (-found.left_out[reason], reason))
    facts = {
        "what": what,
        "late": found.late,
        "late at most by": found.at_most_ms,
        "late for": found.for_ms,
        "late for a reader": found.read,
        "left out": sum(found.left_out.values()),
        "left out because": reasons[0] if len(reasons) == 1 else reasons or None,
    }
    return {label: value for label, value in facts.items() if value is not None}


@pytest.mark.parametrize("model", MODELS)
def test_a_run_says_what_is_late_and_nothing_else_does(model: str, count: Count) -> None:
    make, ask, stream, what = MODELS[model]
    heads = {f"Late {what}": "late", "Late for a reader": "read"}
    late_ones, labels, before = 0, set[str](), None
    for seed in range(RUNS):
        scenario = make(seed)
        run = scenario.record(progress=False) if model == "streams" else scenario.record()
        found, measures, verdicts = ask(run), run.measures(stream or None), run.check()
        said = measures.late.facts.to_dict()
        bound = said.pop("bound")
        assert said == expected(found, what), (model, seed)
        assert verdicts.late == {stream or scenario.name: measures.late}, (model, seed)
        is_late = bool(found.late or found.read)
        late_ones += is_late
        if before is not None and all(wm_run.measures(stream or None).has_bound for wm_run in (before[0], run)):
            numbers = [(label, getattr(before[1], name), getattr(found, name)) for label, name in heads.items()]
            said_of_both = [f"{label}: {one} in a and {other} in b." for label, one, other in numbers if one or other]
            sentence = wm.compare(before[0], run, labels=["a", "b"], stream=stream or None).sentence
            assert [text for text in said_of_both if text in sentence] == said_of_both, sentence
            assert sentence.count(" in a and ") == len(said_of_both), sentence
        before = run, found
        labels |= {"bound", *said}
        assert measures.late.is_any == is_late
        assert measures.sentence.startswith(measures.late.sentence) == is_late, measures.sentence
        assert verdicts.sentence.endswith(measures.late.sentence) == is_late, verdicts.sentence
        assert f"{found.late}, below {bound} by at most" in measures.sentence or not found.late
        shown = {name: value for name, value in measures.measures.items() if name.startswith(("late", "left out"))}
        assert list(shown.values()) == [value for value in said.values() if isinstance(value, int)]
        if model == "streams":
            wrong = (found.read or 0) - sum(found.left_out.values())
            assert (verdicts["I6"].violations, verdicts["I6"].left_out) == (wrong, sum(found.left_out.values()))
    assert RUNS / 5 < late_ones < RUNS, "some runs have something late, others have not"
    assert labels == (set(LABELS) if model == "streams" else {*LABELS} - {"late for a reader"})
    count(RUNS, f"runs of {model} with what is late")


def test_one_run_has_one_verdict() -> None:
    """A writer notes a time far ahead: no reader is shown a bound that was wrong, but events come below the log's."""
    run = wm.Scenario(
        "ahead",
        stream=wm.Stream("orders", segments=2, timestamp_aggregation_timeout_ms="25 s"),
        writers=[
            wm.EventWriter("a", rate_per_s=60, delay_mean_ms=200),
            wm.EventWriter("b", rate_per_s=30, delay_mean_ms=400),
        ],
        readers=wm.ReaderGroup("g", readers=2),
        controllers=wm.Controllers(2, period_ms="2 s"),
        script=[wm.script.NoteTime(at_ms="30 s", writer="b", time=200_000)],
        duration_ms="100 s",
        seed=4,
    ).record(progress=False)
    found = late.late_events(run, "orders")
    assert (found.late, found.at_most_ms, found.read) == (6, 676, 0)
    late_events = "Late events: 6, below the lower bound in the log by at most 676 ms."
    assert run.check().sentence == f"12 invariants of 12 hold. {late_events}"
    assert run.check()["I6"].title == "no event below what a reader was shown"
    assert run.measures().sentence.startswith(f"{late_events} The lower bound of orders lags ")
    assert not run.check("I1").late, "it is asked for with I6"


def test_an_event_that_is_late_for_a_reader_alone_is_told() -> None:
    """It was in the log before the bound, but beyond its cut."""
    found = Late.of(
        "events", "the bound", late=0, at_most_ms=None, for_ms=0, read=3, left_out={"of a dropped writer": 2}
    )
    said = "No events came below the bound. Late for a reader: 3, of which left out: 2."
    assert (found.sentence, found.is_any) == (said, True)
    assert Verdicts("a run", (), late={"orders": found}).sentence.endswith(said)
    both = Verdicts("a run", (), late={"orders": found, "sales": found}).sentence
    assert both.endswith(f"orders: {said} sales: {said}")
    assert found.facts["left out because"] == "of a dropped writer"
