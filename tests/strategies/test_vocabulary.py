"""The words of answers about logs: every label, kind, headline and remedy is said of some log."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from tests.oracles.dirt import SPOILED, spoiled
from tests.oracles.test_logs import asked
from tests.strategies.logs import kept, sent, times
from wmlab.core.traces import Trace, load
from wmlab.strategies import charts, vocabulary as words
from wmlab.strategies.advice import Advice, advise
from wmlab.strategies.comparison import Comparison, compare
from wmlab.strategies.findings import Finding
from wmlab.strategies.idle_timeouts import idleness
from wmlab.strategies.lateness import lateness_curve
from wmlab.strategies.log_profile import profile
from wmlab.strategies.model.bounded import BoundedOutOfOrderness
from wmlab.strategies.model.engines import WallClock
from wmlab.strategies.model.pravega import PravegaWatermark
from wmlab.strategies.model.writers import PerWriterMinimum
from wmlab.strategies.vocabulary import FindingKind


def ends_without_one() -> Trace:
    """Two writers, each in order and one behind the other by waves; the second stops 15 s before the end."""
    number = np.arange(24_000)
    waves = np.where(number % 2, 1_000 * (1 + np.sin(number / 267)), 0)
    log = sent(len(number), lambda *_: waves, writers=2, every_ms=50, seed=3)
    rows = np.arange(log.rows)
    return kept(log, (log.table["writer"].to_numpy() == "w0") | (rows < 0.987 * log.rows))


@cache
def advices() -> tuple[Advice, ...]:
    asked_for = [asked(seed) for seed in (0, 1, 13, 26)]
    even = sent(24_000, lambda random, number: random.exponential(5_000, len(number)), every_ms=50, seed=3)
    of_windows = [advise(log, target, window_ms=window_ms) for log, target, window_ms in asked_for]
    return (*of_windows, advise(even, 0.01), advise(ends_without_one(), 0.01))


@cache
def findings() -> tuple[Finding, ...]:
    of_logs = [profile(spoiled(0, way).trace).findings for way in SPOILED]
    return tuple(finding for found in (*of_logs, *(each.findings for each in advices())) for finding in found)


@cache
def comparisons() -> tuple[Comparison, ...]:
    log, clock = spoiled(0, "ahead").trace, BoundedOutOfOrderness(0)
    rare = PerWriterMinimum(writers=("nobody",))
    early = [BoundedOutOfOrderness(n) for n in (0, 10**9)]
    first, last = log.span_ms
    slow = [WallClock(last - first), WallClock(0), WallClock(60_000)]
    return (
        compare(log, [*early, *slow, rare], window_ms=1_000),
        compare(spoiled(0).trace, [BoundedOutOfOrderness(n) for n in (7_000, 27_000)]),
        compare(spoiled(0).trace, [BoundedOutOfOrderness(7_000), slow[0]]),
        compare(log, [clock]),
    )


def said(answers: Any) -> tuple[set[str], set[str]]:
    """The labels and the templates of some answers."""
    return {label for each in answers for label in each.facts}, {text for each in answers for text in each.templates}


def test_every_finding_is_found_and_its_labels_are_known() -> None:
    labels, templates = said(findings())
    assert labels == set(words.FINDING_LABELS)
    assert {finding.kind for finding in findings()} == set(FindingKind) == {*words.HEADLINES} == {*words.REMEDIES}
    assert templates == {*words.HEADLINES.values(), words.EFFECT}
    for finding in findings():
        assert finding.sentence.endswith((".", "?"))
        assert finding.remedy.endswith((".", "().", "}."))
        assert "{" not in finding.sentence


def test_every_label_and_headline_of_an_advice_is_said() -> None:
    labels, templates = said(advices())
    assert labels == set(words.ADVICE_LABELS)
    assert templates == {*words.ADVICE_HEADLINES, *words.ADVICE_EXPECTED}


def test_every_label_and_headline_of_a_comparison_is_said() -> None:
    labels, templates = said(comparisons())
    assert labels == set(words.COMPARISON_LABELS)
    assert templates == {*words.COMPARISON_HEADLINES, *words.COMPARISON_NEXT}


def test_every_label_and_headline_of_the_other_answers_is_said() -> None:
    dirty, clean = spoiled(0, "ahead").trace, spoiled(0).trace
    short = Trace("short", clean.table.slice(0, 1))
    for answers, known, headlines in (
        ([profile(dirty), profile(clean)], words.PROFILE_LABELS, (words.PROFILE_HEADLINE, *words.PROFILE_NEXT)),
        (
            [lateness_curve(clean, "writer", window_ms=5), lateness_curve(clean)],
            words.CURVE_LABELS,
            (words.CURVE_HEADLINE,),
        ),
        ([idleness(load("presses", **PRESSES)), idleness(short)], words.IDLE_LABELS, words.IDLE_HEADLINES),
    ):
        assert said(answers) == (set(known), set(headlines))


PRESSES: dict[str, Any] = {
    "event_time": "taken_at",
    "arrival": "received_at",
    "writer": "device",
    "bad_rows": "drop",
}


def test_every_label_and_headline_of_a_chart_is_said() -> None:
    drawn = [charts.writers(spoiled(0, way).trace) for way in ("clean", "ahead", "copies", "pause", "early writer")]
    drawn += [charts.writers(load("presses", **PRESSES))]
    sure = charts.uncertainty(spoiled(0).trace, PravegaWatermark(5_000))
    assert {label for chart in (*drawn, sure) for label in chart.facts} == set(words.CHART_LABELS)
    heads = {sure.facts.fill(words.UNCERTAINTY_HEADLINE), *(chart.facts.fill(text) for chart in drawn for text in
        words.WRITERS_HEADLINES if chart.facts.chosen(words.WRITERS_HEADLINES) == (text,))}  # fmt: skip
    assert heads == {chart.sentence for chart in (*drawn, sure)}
    chosen = {template for chart in drawn for template in chart.facts.chosen(words.WRITERS_HEADLINES)}
    assert chosen == set(words.WRITERS_HEADLINES)


def test_a_writer_that_has_gone_is_said_of_a_watermark_that_waits_for_it() -> None:
    advice = advices()[-1]
    (gone,) = [finding for finding in advice.findings if finding.kind is FindingKind.SILENT_WRITER]
    arrival, writer = times(ends_without_one())[1], ends_without_one().table["writer"].to_numpy()
    assert gone.writers == ("w1",)
    assert gone.facts["silent for"] == arrival[-1] - arrival[writer == "w1"][-1]
