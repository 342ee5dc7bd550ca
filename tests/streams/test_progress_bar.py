"""The progress bar of a long run is for a person who looks on; a clock of its own makes every run a long one."""

from __future__ import annotations

import itertools
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import tqdm.std

import wmlab as wm
from wmlab.core import interactive as front_end

SCENARIO = wm.Scenario("slow", writers=[wm.EventWriter("w1", rate_per_s=1)], duration_ms=1_000)


def frontend(content: dict[str, Any] | None) -> Any:
    """What `get_ipython()` gives in a kernel that runs a cell sent with this content."""
    parent = {} if content is None else {"content": content}
    return SimpleNamespace(kernel=SimpleNamespace(get_parent=lambda: parent))


@pytest.mark.parametrize(
    ("shell", "interactive"),
    [
        (frontend({"allow_stdin": True}), True),
        (frontend({"allow_stdin": False}), False),
        (frontend({}), False),
        (frontend(None), False),
    ],
    ids=["JupyterLab", "nbclient and nbval", "unknown", "no cell"],
)
def test_in_a_notebook_it_is_shown_where_input_can_be_asked_for(
    monkeypatch: pytest.MonkeyPatch, shell: Any, interactive: bool
) -> None:
    monkeypatch.setattr(front_end, "get_ipython", lambda: shell)
    assert front_end.is_interactive() is interactive


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
