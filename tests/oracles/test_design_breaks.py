"""What random runs by `design` break comes of an option of the log whose sentence is the document's."""

from __future__ import annotations

from tests.oracles.runs import drawn_run
from tests.repetitions import Count, repetitions
from wmlab.streams.api import Scenario

RUNS = repetitions(12, long=220)
SENTENCES = {
    "cut_algorithm": "sound",
    "forgets": "behind",
    "timeout_from": "first_behind",
    "first_barrier": "none",
}
"""Options whose sentences contradict others, with their values by sound rules; readers keep those of `design`."""


def broken_by(scenario: Scenario) -> set[str]:
    return {row.invariant for row in scenario.record(progress=False).check() if row.verdict == "violated"}


def test_what_the_design_breaks_is_the_sentence_of_an_option_and_never_a_window_that_goes_back(count: Count) -> None:
    all_broken: set[str] = set()
    for seed in range(RUNS):
        by_design = drawn_run(seed).with_rules("design")
        broken = broken_by(by_design)
        all_broken |= broken
        if broken:
            assert broken_by(by_design.with_rules(**SENTENCES)) == set(), (seed, broken)
    assert all_broken, "some runs break the promise of an option"
    assert not all_broken & {"I1", "I4", "I5", "I7", "I8", "I9"}
    count(RUNS, "runs by design with what they break")
