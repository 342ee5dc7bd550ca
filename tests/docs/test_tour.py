"""The tour "Follow one watermark" of `docs/development.md` names the files that a watermark really passes.

One run of the first example is watched, from the first note to the chart. A watermark passes a file if a function of it
gets or returns the note, the mark that it becomes, the watermark, or the table or drawing that shows it.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import wmlab as wm
from wmlab.core.charts import scene
from wmlab.core.simulation import Journal
from wmlab.core.spark.grouped import Reduced
from wmlab.streams.bounds import recorded
from wmlab.streams.model.log import Watermark
from wmlab.streams.model.marks import Versioned, WriterMark
from wmlab.streams.model.position import Position
from wmlab.streams.model.window import TimeWindow
from wmlab.streams.model.wire import Note

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "wmlab"
MOST_FILES = 31

MAKERS = {"streams/sim/load.py", "streams/sim/writer.py"}
"""They choose the time and when to note it; what they hold is not a note yet, but a number."""
CARRIERS = (
    *(Position, Note, WriterMark, Versioned, Watermark, TimeWindow, Journal),
    *(
        kind
        for kind in vars(scene).values()
        if isinstance(kind, type) and kind.__module__ == scene.__name__ and kind is not scene.ConstantSpan
    ),
)
"""What the note is in the simulator, what keeps the rows of the run, and what a chart is drawn from.

A constant span is a fact about a curve, and no part of a drawing.
"""
DEPTH, LOOKED_AT = 3, 12


def carries(value: Any, depth: int = DEPTH) -> bool:
    """Whether a value is the note, what became of it, or has one among its first parts."""
    if isinstance(value, CARRIERS):
        return True
    if isinstance(value, pa.Table | pd.DataFrame | DataFrame):
        columns = set(value.schema.names if isinstance(value, pa.Table) else value.columns)
        # A table with readers in it is what they saw, which no chart of bounds is made from.
        return {"lower", "upper"} <= columns and "reader" not in columns
    if isinstance(value, dict) and "lower" in value:
        return True
    return depth > 0 and any(carries(part, depth - 1) for part in islice(parts_of(value), LOOKED_AT))


def parts_of(value: Any) -> Iterator[Any]:
    """The parts of a plain container; nothing else is opened, least of all what computes its parts."""
    if type(value) is dict:
        yield from value.values()
    elif isinstance(value, list | tuple):
        yield from value
    elif is_dataclass(value) and not isinstance(value, type | Reduced):
        yield from (getattr(value, field.name, None) for field in fields(value))


class Watch:
    """The files of wmlab of which a function was called, and those that a watermark passed."""

    def __init__(self) -> None:
        self.called: set[str] = set()
        self.passed: set[str] = set()

    def look(self, frame: FrameType, event: str, result: Any) -> None:
        """What Python calls whenever a function is called or returns."""
        path = frame.f_code.co_filename
        if event not in ("call", "return") or not path.startswith(f"{PACKAGE}/"):
            return
        name = path.removeprefix(f"{PACKAGE}/")
        self.called.add(name)
        if name not in self.passed:
            values = frame.f_locals.values() if event == "call" else [result]
            if any(carries(value) for value in values):
                self.passed.add(name)

    @contextmanager
    def on(self) -> Iterator[None]:
        """Look at all that runs inside, in this thread and in those that it starts."""
        before = sys.getprofile()
        threading.setprofile(self.look)
        sys.setprofile(self.look)
        try:
            yield
        finally:
            sys.setprofile(before)
            threading.setprofile(None)


def tour() -> list[str]:
    """The files that the numbered lines of the tour name, each as often as it is named."""
    text = (ROOT / "docs/development.md").read_text(encoding="utf-8")
    section = text.partition("## Follow one watermark\n")[2].partition("\n## ")[0]
    steps = re.findall(r"^\d+\. .*(?:\n   .*)*", section, re.MULTILINE)
    assert len(steps) == 10
    return [name for step in steps for name in re.findall(r"`([\w/]+\.py)`", step)]


@pytest.fixture(scope="module")
def watch(spark: SparkSession) -> Watch:
    """The run, with what an executor does called here: each table as Spark would bring it to the rule."""
    rules = []
    watch = Watch()

    def by_stream(session: SparkSession, tables: Any, rule: Any, schema: pa.Schema) -> DataFrame:
        rules.append((tables, rule))
        return distributed(session, tables, rule, schema)

    distributed, recorded.by_stream = recorded.by_stream, by_stream
    try:
        with watch.on():
            recording = wm.Scenario.load(ROOT / "data/scenarios/first_bounds.yaml").record(progress=False)
            bounds = recording.time_bounds(spark)
    finally:
        recorded.by_stream = distributed
    rows = bounds.toPandas()
    [(tables, rule)] = rules
    local = {name: table if isinstance(table, pa.Table) else reduced(table) for name, table in tables.items()}
    with watch.on():
        rule("stream", local)
        wm.chart.time_bounds(rows)._repr_mimebundle_()
    return watch


def reduced(table: Reduced) -> pa.Table:
    """A large table after its reduction, which was done here."""
    return pa.Table.from_batches(list(table.reduce(table.frame.toArrow().to_batches())), schema=table.schema)


def test_the_tour_names_the_files_that_a_watermark_passes(watch: Watch) -> None:
    named = tour()
    assert sorted(set(named)) == sorted(named), "a file is named twice"
    assert set(named) == watch.passed | MAKERS


def test_every_file_of_the_tour_is_there_and_is_called(watch: Watch) -> None:
    assert [name for name in tour() if not (PACKAGE / name).is_file()] == []
    assert [name for name in tour() if name not in watch.called] == []


def test_the_way_is_short() -> None:
    assert len(tour()) <= MOST_FILES


def test_what_carries_a_watermark_is_found_in_what_holds_it() -> None:
    watermark = Watermark(1, 2, Position({0: 3}), {"w": 1})
    for value in (watermark, [("x", {"y": watermark})], {"lower": None}, pa.table({"lower": [1], "upper": [2]})):
        assert carries(value)
    for value in ([[[[watermark]]]], {"time": 1}, Watermark, pa.table({"lower": [1], "upper": [2], "reader": ["r"]})):
        assert not carries(value)
