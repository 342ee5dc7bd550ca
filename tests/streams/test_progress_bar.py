"""The progress bar of a long run is for a person who looks on; a clock of its own makes every run a long one."""

from __future__ import annotations

import itertools
import sys

import pytest
import tqdm.std

import wmlab as wm

SCENARIO = wm.Scenario("slow", writers=[wm.EventWriter("w1", rate_per_s=1)], duration_ms=1_000)


@pytest.mark.parametrize(
    ("terminal", "progress", "shown"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_outside_it_is_shown_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], terminal: bool, progress: bool, shown: bool
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
    monkeypatch.setattr(tqdm.std, "time", itertools.count(step=60).__next__)
    SCENARIO.record(progress=progress)
    assert ("slow: " in capsys.readouterr().err) is shown
