"""The table of verdicts: which line decides where facts of two lines hold."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path
from typing import Final

import pytest

from wmlab.engines.cause_table import CAUSES, candidates
from wmlab.engines.facts import WORDS, Fact
from wmlab.engines.verdicts import SEVERITY, VERDICTS, verdict_of

HIDDEN: Final = {
    # Nobody waits for a watermark, so that nobody is harmed by where it is.
    "needs none": {
        *("stands", "no split left", "newer rows", "no times", "none newer", "batch is due", "all silent"),
        *("far", "grows", "queue grows", "distance grows"),
    },
    # Two polls have no change that is one.
    "short log": {"far", "grows", "queue grows", "distance grows"},
}
"""Which facts of a fault are hidden by a fact of no fault, or of which nothing can be told, and why."""
GUIDE: Final = Path(__file__).parents[2] / "docs" / "how-to" / "explain_a_running_job.md"
PLACES: Final = [(number, verdict, name) for number, (verdict, names) in enumerate(VERDICTS) for name in names]


def table_of(*names: str) -> dict[str, Fact]:
    """The facts of which these hold, with values that nobody knows."""
    labels = {name: re.findall(r"{(\w+)}", template) for name, (template, _) in WORDS.items()}
    return {name: Fact(name, name in names, dict.fromkeys(labels[name])) for name in WORDS}


def test_each_fact_stands_in_one_line() -> None:
    names = [name for _, _, name in PLACES]
    assert len(set(names)) == len(names)
    assert set(names) <= WORDS.keys()
    assert {verdict for _, verdict, _ in PLACES} == set(SEVERITY)


def test_the_lines_are_those_of_the_guide() -> None:
    text = GUIDE.read_text()
    rows = text.partition("| verdict | a fact that holds |")[2].partition("\n\n")[0].splitlines()[2:]
    assert [row.split("|")[1].strip() for row in rows] == [verdict for verdict, _ in VERDICTS]


def test_of_every_two_facts_that_hold_the_one_of_the_line_above_decides() -> None:
    for (above, verdict, first), (below, _, second) in combinations(PLACES, 2):
        expected = (first, second) if above == below else (first,)
        assert verdict_of(table_of(first, second)) == (verdict, expected)


def test_no_fault_is_hidden_by_a_line_that_is_none_unless_it_is_stated() -> None:
    hidden: dict[str, set[str]] = {}
    for (above, verdict, first), (below, other, second) in combinations(PLACES, 2):
        if above < below and verdict in ("no fault", "cannot tell") and other in ("held", "rows lost", "not running"):
            hidden.setdefault(first, set()).add(second)
    assert hidden == HIDDEN


@pytest.mark.parametrize("fault", ["restarts on", "pending", "late", "failed"])
def test_where_nobody_waits_for_a_watermark_a_fault_of_the_job_itself_is_one(fault: str) -> None:
    assert verdict_of(table_of("needs none", fault))[0] != "no fault"


def test_without_a_fact_that_holds_nothing_is_told() -> None:
    assert verdict_of(table_of()) == ("cannot tell", ())


@pytest.mark.parametrize("beside", [("moves", "near"), ("moves", "near", "not due")])
def test_that_nothing_is_wrong_is_not_sure_where_another_cause_fits(beside: tuple[str, ...]) -> None:
    """For each way to a cause that a job without a fault may have: its facts, and those of a watermark that moves."""
    told = 0
    for row in CAUSES.values():
        for way in row.ways:
            table = table_of(*beside, *way.requires)
            verdict, because = verdict_of(table)
            if row.name == "no fault" or verdict != "no fault" or verdict not in way.verdicts or not way.fits(table):
                continue
            _, causes = candidates(table, verdict, because)
            assert row.name in [each.cause for each in causes], (row.name, way.requires)
            told += 1
    assert told >= 10
