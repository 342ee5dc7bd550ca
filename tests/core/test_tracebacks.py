"""In a notebook an error of wmlab shows the lines of the user and the message; any other error shows all its lines."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Final

from jupyter_client.manager import start_new_kernel

CELLS: Final = {
    "a field": "import wmlab as wm\nwm.EventWriter('w', rate=5)",
    "a function of the user": "def changed(scenario):\n    return scenario.replace(duration='5 s')\n"
    "changed(wm.Scenario.load('first_bounds'))",
    "a name": "wm.dataflow.Sorce",
    "an internal fault": "from wmlab.core import words\nwords.listed(None)",
}


def tracebacks() -> dict[str, list[str]]:
    """The lines that a kernel sends for each cell, without colours."""
    manager, client = start_new_kernel(kernel_name="python3")
    try:
        return {
            name: re.sub(r"\x1b\[[\d;]*m", "", "\n".join(reply["content"]["traceback"])).splitlines()
            for name, cell in CELLS.items()
            if (reply := client.execute_interactive(cell, timeout=60, output_hook=lambda _: None))
        }
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def test_a_kernel_shows_the_lines_of_the_user_and_the_message() -> None:
    shown = tracebacks()
    assert shown["a field"][2:] == [
        "Cell In[1], line 2",
        "      1 import wmlab as wm",
        "----> 2 wm.EventWriter('w', rate=5)",
        "",
        "Problems: EventWriter 'w' has 1 mistake:",
        "  rate: no such field, did you mean rate_per_s?",
        "To repair it: correct the named fields; nothing was run.",
    ]
    inner = [line for line in shown["a function of the user"] if line.startswith(("Cell", "File", "Problems:"))]
    assert inner == [
        "Cell In[2], line 3",
        "Cell In[2], line 2, in changed(scenario)",
        "Problems: Scenario 'a split and a dead writer' has 1 mistake:",
    ]
    assert len(shown["a name"]) == 7
    assert any(line.startswith("File ") and "words.py" in line for line in shown["an internal fault"])


def test_outside_of_a_notebook_python_shows_all_lines() -> None:
    script = "import wmlab as wm\nwm.Scenario.load('first_bounds').replace(duration='5 s')\n"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stderr.startswith("Traceback (most recent call last):")
    assert "scenario_file.py" in done.stderr
    assert "did you mean duration_ms?" in done.stderr
