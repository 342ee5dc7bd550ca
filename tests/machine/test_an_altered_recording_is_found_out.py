"""One row of a sound recording is altered, and both judges say which promise that breaks: no rule is unable to fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from tests.machine.batch import TABLES, Batch, differences, given_of, judged_by_checks, of_run
from tests.machine.judge import judge, violated
from wmlab.streams.api import Scenario
from wmlab.streams.scenario import script
from wmlab.streams.scenario.parts import Controllers, EventWriter, ReaderGroup, Stream
from wmlab.streams.tables import TABLES as SCHEMAS

Row = dict[str, Any]
Alter = Callable[[list[Row]], None]


@pytest.fixture(scope="module")
def sound() -> dict[str, pa.Table]:
    """A run with a scale, from the first watermark to windows with both bounds."""
    scenario = Scenario(
        "to be altered",
        stream=Stream("orders", segments=2),
        writers=[EventWriter("w1", rate_per_s=30, delay_mean_ms=200), EventWriter("w2", rate_per_s=30)],
        readers=ReaderGroup(publish_every_ms=300, rate_per_s=40.0),
        controllers=Controllers(period_ms=500),
        script=[script.Scale(at_ms=2_500, seal=["0@0"])],
        duration_ms=8_000,
        seed=4,
    )
    recording = scenario.record(progress=False)
    return given_of(recording)


def altered(tables: dict[str, pa.Table], table: str, alter: Alter) -> dict[str, pa.Table]:
    """The tables with some rows of one of them altered in place."""
    rows = tables[table].to_pylist(maps_as_pydicts="strict")
    alter(rows)
    listed = [{name: list(v.items()) if isinstance(v, dict) else v for name, v in row.items()} for row in rows]
    return tables | {table: pa.Table.from_pylist(listed, schema=SCHEMAS[table])}


def lower_stands_still(log: list[Row]) -> None:
    log[3]["lower"] = log[2]["lower"]


def upper_falls(log: list[Row]) -> None:
    log[3]["upper"] = log[2]["upper"] - 1


def cut_goes_back(log: list[Row]) -> None:
    log[-1]["cut"] = log[-1]["cut"] | {1: 0}


def cut_stays_behind(log: list[Row]) -> None:
    log[0]["cut"] = dict.fromkeys(log[0]["cut"], 0)


def cut_has_a_gap(log: list[Row]) -> None:
    del log[2]["cut"][1]


def window_promises_too_much(windows: list[Row]) -> None:
    windows[0]["lower"] = max(row["lower"] for row in windows if row["lower"] is not None)


def bounds_cross(log: list[Row]) -> None:
    log[0]["upper"] = log[0]["lower"] - 1


def revision_is_taken_twice(log: list[Row]) -> None:
    log[2]["revision"] = log[1]["revision"]


def window_goes_back(windows: list[Row]) -> None:
    known = [row for row in windows if row["lower"] is not None]
    known[-1]["lower"] = known[0]["lower"] - 1


def cycles_stop_emitting(cycles: list[Row]) -> None:
    for cycle in cycles[-4:]:
        cycle |= {"outcome": "held", "previous_lower": 7, "timeout_ms": 600}


def note_comes_earlier(marks: list[Row]) -> None:
    marks[0]["time"] = 10**9


def writer_is_left_out(log: list[Row]) -> None:
    del log[2]["writers"]["w1"]
    log[2]["lower"] = 10**9


def window_knows_more_than_its_group(windows: list[Row]) -> None:
    known = [row for row in windows if row["lower"] is not None]
    known[-1]["lower"] += 1


ALTERATIONS: dict[str, tuple[str, Alter]] = {
    "I1": ("watermarks", lower_stands_still),
    "I2": ("watermarks", upper_falls),
    "I3": ("watermarks", cut_goes_back),
    "I4": ("watermarks", cut_stays_behind),
    "I5": ("watermarks", cut_has_a_gap),
    "I6": ("windows", window_promises_too_much),
    "I7": ("watermarks", bounds_cross),
    "I8": ("watermarks", revision_is_taken_twice),
    "I9": ("windows", window_goes_back),
    "I10": ("cycles", cycles_stop_emitting),
    "I11": ("writer_marks", note_comes_earlier),
    "I12": ("watermarks", writer_is_left_out),
    "windows": ("windows", window_knows_more_than_its_group),
}


def test_nothing_is_found_before(sound: dict[str, pa.Table]) -> None:
    found = judge(sound)
    assert violated(found) == set()
    assert {invariant for _, invariant in found} == ALTERATIONS.keys()


@pytest.mark.parametrize("invariant", ALTERATIONS)
def test_the_second_judge_finds_the_altered_row(sound: dict[str, pa.Table], invariant: str) -> None:
    assert invariant in violated(judge(altered(sound, *ALTERATIONS[invariant])))


def test_a_writer_with_the_name_of_a_reader_begins_no_new_life_of_it(sound: dict[str, pa.Table]) -> None:
    """Nor does what nobody carried out; what befalls the reader itself does, so its window may go back."""
    tables = altered(sound, *ALTERATIONS["I9"])
    windows = tables["windows"].to_pylist()
    reader, at_ms = windows[-1]["reader"], max(row["at_ms"] for row in windows) - 1
    batch, told = Batch(), {}
    for name, subject, outcome in (
        ("writer", "writer", "done"),
        ("nobody", "reader", "nobody there"),
        ("reader", "reader", "done"),
    ):
        incident = {"stream": "orders", "at_ms": at_ms, "kind": "crash", "target": reader, "detail": "it crashes"}
        incident |= {"subject": subject, "outcome": outcome}
        again = altered(tables, "incidents", lambda rows, row=incident: rows.append(row))
        batch.add(name, again)
        told |= of_run(name, judge(again))
        assert ("I9" in violated(judge(again))) == (name != "reader"), name
    tables = {name: batch.table(name) for name in TABLES}
    assert list(differences(told, judged_by_checks(tables))) == []


def test_the_checks_find_the_altered_rows_too(sound: dict[str, pa.Table]) -> None:
    batch, told = Batch(), {}
    for invariant, alteration in ALTERATIONS.items():
        tables = altered(sound, *alteration)
        batch.add(invariant, tables)
        told |= of_run(invariant, judge(tables))
    found = judged_by_checks({name: batch.table(name) for name in TABLES})
    assert list(differences(told, found)) == []
    assert all(found[f"{invariant}/orders", invariant].broken for invariant in ALTERATIONS)
