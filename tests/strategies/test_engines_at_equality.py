"""The table of engines in "late is not lost": its example is what wmlab says, and the rules that are kept elsewhere."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from tests.strategies.model.logs import trace
from tests.strategies.oracles.beam_rules import takes_records
from wmlab.strategies.model.strategy import Record
from wmlab.strategies.replay import Log
from wmlab.strategies.windows import windows_of

PAGE = Path(__file__).parents[2] / "docs/how-to/late_and_lost.md"
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.count("|") == 7
]
HEAD, _, *TABLE = ROWS
TIME, SIZE, GAP, GRACE = 70, 60, 50, 5
STORED = json.loads((Path(__file__).parent / "oracles/beam_2_77_0.json").read_text(encoding="utf-8"))


def least_x(rule: str) -> int:
    """The least X at which the row is dropped, by the arguments that the table names."""
    record = Log.of(trace([Record(TIME, 0, "a")]))
    arguments = {name: int(value) for name, value in re.findall(r"(\w+_ms)=(\d+)", rule)}
    windows = windows_of(**arguments)
    assert (windows is None) == ("late" in rule.replace("lateness", "").replace("later", ""))
    dropped = [x > TIME if windows is None else bool(windows.lost(record, np.array([x]))[0]) for x in range(200)]
    assert dropped == sorted(dropped)
    return dropped.index(True) + ("1 ms later" in rule)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row[0]}, {row[1]}")
def test_the_example_is_what_wmlab_says(row: list[str]) -> None:
    engine, _, condition, w, x, rule = row
    assert HEAD[-1] == "in wmlab"
    assert int(x) == least_x(rule)
    # Flink prints X - 1; Kafka Streams and Quix a time that is ahead of X by the grace.
    ahead = {"Flink": -1, "Kafka Streams": GRACE, "Quix Streams": GRACE}.get(engine, 0)
    if engine == "Spark" and condition == "t ≤ W":
        ahead = -1
    assert int(w) == int(x) + ahead


@pytest.mark.parametrize("row", [row for row in TABLE if row[0] != "Jet" or "slides" not in row[1]])
def test_the_condition_holds_at_its_watermark_and_not_before(row: list[str]) -> None:
    _, what, condition, w, _, _ = row
    end = TIME + GAP if "session" in what and "," not in what else 2 * SIZE
    left, order, _ = re.split("(≤|<)", condition)
    late = GRACE if "grace" in left or "lateness" in left else 0
    value = (TIME if left.strip() == "t" else end) - (1 if "− 1" in left else 0) + late
    dropped = [value < at if order == "<" else value <= at for at in range(200)]
    assert dropped.index(True) == int(w)


def test_beam_drops_at_the_end_of_the_lateness_and_its_python_runner_after_it() -> None:
    end = 2 * SIZE
    for rule, watermark in (("fixed", 125), ("python_2_77", 126)):
        taken = [takes_records(end, at, GRACE, rule) for at in range(200)]
        assert taken.index(False) == watermark
    # What the runner answered: a record at the end of the lateness still makes a pane.
    assert STORED["witnesses"]["a record at the end of the lateness"] == [[15, 16], [[10, "late", [0]]]]
