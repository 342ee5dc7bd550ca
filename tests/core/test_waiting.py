"""What a person who waits is told, at a terminal and in a notebook; nothing of it is stored."""

from __future__ import annotations

import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from wmlab.core import waiting


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
def test_in_a_notebook_a_person_looks_on_where_input_can_be_asked_for(
    monkeypatch: pytest.MonkeyPatch, shell: Any, interactive: bool
) -> None:
    monkeypatch.setattr(waiting, "get_ipython", lambda: shell)
    assert waiting.is_interactive() is interactive


class Display:
    """Stands in for IPython's handle of one output and keeps what a front end would be sent."""

    def __init__(self, sent: list[dict[str, str]], appeared: threading.Event) -> None:
        self.sent, self.appeared = sent, appeared

    def display(self, data: dict[str, str], *, raw: bool) -> None:
        self.sent.append(data)
        self.appeared.set()

    def update(self, data: dict[str, str], *, raw: bool) -> None:
        self.sent.append(data)


def test_a_notebook_says_what_is_waited_for_and_takes_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[dict[str, str]] = []
    appeared = threading.Event()
    monkeypatch.setattr(waiting, "get_ipython", lambda: frontend({"allow_stdin": True}))
    monkeypatch.setattr(waiting, "DisplayHandle", lambda: Display(sent, appeared))
    monkeypatch.setattr(waiting, "SAID_AFTER_S", 0)
    with waiting.waiting_for("Spark judges 13 invariants"):
        assert appeared.wait(60)
        with waiting.waiting_for("Starting Spark"):
            pass  # one line at a time: the outer one stands
    assert [data["text/plain"] for data in sent] == ["Spark judges 13 invariants ...", ""]
    appeared.clear()

    def fail() -> None:
        with waiting.waiting_for("Starting Spark"):
            assert appeared.wait(60)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert [data["text/plain"] for data in sent[2:]] == ["Starting Spark ...", ""]


def test_what_is_quick_and_what_nobody_sees_says_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(waiting, "SAID_AFTER_S", 3_600)
    with waiting.waiting_for("Starting Spark"):
        pass
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)
    monkeypatch.setattr(waiting, "SAID_AFTER_S", 0)
    with waiting.waiting_for("Starting Spark"):
        assert threading.active_count() == 1 or not any(isinstance(t, threading.Timer) for t in threading.enumerate())
    assert capsys.readouterr().err == ""


def test_a_terminal_says_it_in_one_line_and_clears_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(waiting, "SAID_AFTER_S", 0)
    said = ""
    with waiting.waiting_for("Starting Spark"):
        while not said:
            said = capsys.readouterr().err
    assert said == "Starting Spark ..."
    assert capsys.readouterr().err == "\r\033[K"
