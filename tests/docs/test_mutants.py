"""A row of docs/seeds.md is true if its tests need all that it names, and each of them something; another one is found.

The mutants are forked from a process of their own, since this one may have threads.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.docs.names import ROOT

TRUE = """
from tests.docs.mutants import Mutant, failed_tests, mistakes, page
from tests.docs.names import in_backticks

chosen = [row for row in page() if "closest=True" in row.cells[2] or "committer" in row.cells[2]]
tests = [test for row in chosen for test in in_backticks(row.cells[4])]
assert len(chosen) == 2, chosen
assert failed_tests(Mutant("nothing", lambda: None, ""), tests) == frozenset(), "they pass as wmlab is"
assert mistakes(chosen) == {}
"""
NEEDLESS = """
from tests.docs.mutants import mistakes
from tests.docs.names import Row

test = "streams/model/test_marks_and_positions_of_writers.py::test_after_a_stored_mark"
names = [
    'ReaderGroup(rebalance="time")',
    "script.Scale",
    "chart.generations",
    "recording.explain",
    "Never",
    "I6",
    "watermarks",
    "watermarks.lower",
    "wmlab/streams/model/cut.py::stream_cut",
    "wmlab/dataflow/model/transform.py::AGAIN",
    "wmlab/progress/model/tracker.py::prefix",
    "data/scenarios/progress_diagram.yaml",
]
row = Row("Pravega", ("required", "Section", ", ".join(f"`{name}`" for name in names), "05", f"`{test}`"))
without = ["ReaderGroup(rebalance is 'segments')", *names[1:]]
expected = [f"{test} needs nothing of the row", *(f"no test fails without {name}" for name in without)]
assert mistakes([row]) == {"required": expected}, mistakes([row])
"""


def run(*arguments: str) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("program", [TRUE, NEEDLESS], ids=["true", "needless"])
def test_a_row_is_true_if_its_tests_need_what_it_names(program: str) -> None:
    run("-c", program)


@pytest.mark.long
def test_the_tests_of_each_row_need_all_that_the_row_names() -> None:
    run("-m", "tests.docs.mutants")
