"""`python -m tests.machine` says what it does, and leaves a scenario that `python -m wmlab record` can run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.machine.__main__ import main
from tests.machine.batch import given_of
from tests.machine.judge import judge, violated
from wmlab.__main__ import main as wmlab
from wmlab.core.recording import Recording


def test_a_longer_run_that_keeps_every_promise(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--runs", "5", "--seed", "10", "--processes", "1"]) == 0
    first, counted, last = capsys.readouterr().out.splitlines()
    assert first == "5 runs of the machine 'sound' from seed 10"
    assert counted.startswith("5 runs; judged I1")
    assert last == "every promise was kept, and both judges say so"


def test_a_broken_promise_leaves_the_smallest_scenario(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "smallest.yaml"
    arguments = ["--machine", "bug_6510", "--runs", "5", "--processes", "1", "--output", str(file)]
    assert main(arguments) == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert "I3" in last.partition("violated: ")[2].partition(";")[0]
    assert wmlab(["record", str(file), str(tmp_path / "again")]) == 0
    recording = Recording.read(tmp_path / "again")
    assert "I3" in violated(judge(given_of(recording)))
