"""Tests that a row of docs/seeds.md names fail without what the row names; a row for which they do not is found.

The mutants are forked from a process of their own, since this one may have threads.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.docs.names import ROOT

TRUE = """
from tests.docs.mutants import Mutant, failed_tests, features, page, passing_without_features
from tests.docs.names import Row, in_backticks

chosen = [row for row in page() if "closest=True" in row.cells[2] or "committer" in row.cells[2]]
tests = [test for row in chosen for test in in_backticks(row.cells[4])]
assert len(chosen) == 2, chosen
assert failed_tests(Mutant("nothing", lambda: None), tests) == frozenset(), "they pass as wmlab is"
assert passing_without_features(chosen) == {}
"""
WEAK = """
from tests.docs.mutants import passing_without_features
from tests.docs.names import Row

test = "streams/sim/test_writers.py::test_a_position_covers_only_what_is_acknowledged"
row = Row("Pravega", ("required", "Section", "`ReaderGroup(rebalance=\\"time\\")`", "05", f"`{test}`"))
assert passing_without_features([row]) == {"required": [test]}
"""


def run(*arguments: str) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("program", [TRUE, WEAK])
def test_a_row_is_true_if_its_tests_need_what_it_names(program: str) -> None:
    run("-c", program)


@pytest.mark.long
def test_no_test_of_a_row_passes_without_what_the_row_names() -> None:
    run("-m", "tests.docs.mutants")
