"""Every requirement of the documents has a row in docs/seeds.md, and what the row names exists, shows it and tests it.

A row quotes names of wmlab: a class with options, an action, a verb of a recording, a chart, a table or `table.column`,
an invariant, a rule as `path::name`, a scenario file. All of them must exist. The code of the notebooks, with the
scenario files that they load, must use all of them but two kinds. An invariant must stand in the stored outputs, and so
must a text in quotation marks. A rule is used only if it is a public name as well, `flow.AGAIN`. The source of each
test, with what it uses of its own file, must have at least one of the names.
"""

from __future__ import annotations

import functools
import json
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.docs.names import (
    INVARIANT,
    ROOT,
    Row,
    exists,
    in_backticks,
    mentions,
    parsed,
    public_names,
    rows,
    source_of_test,
)

ROWS = rows((ROOT / "docs" / "seeds.md").read_text())


def document_of(row: Row) -> str:
    return row.heading.partition(":")[0]


def mistakes(row: Row) -> list[str]:
    """What is wrong with a row."""
    if len(row.cells) != 5 or not all(row.cells) or not in_backticks(row.cells[4]):
        return ["a row has requirement, section, name in wmlab, notebook and test"]
    _, _, names, notebooks, tests = row.cells
    quoted = in_backticks(names)
    wrong = [f"there is no {name}" for name in quoted if not exists(document_of(row), name)]
    if not quoted:
        wrong.append("it names nothing in wmlab")
    outputs = outputs_of_notebooks(notebooks)
    texts = re.findall(r'"([^"]+)"', re.sub(r"`[^`]*`", "", names))
    wrong += [f"the outputs of notebook {notebooks} have no {text!r}" for text in texts if text not in outputs]
    return [*wrong, *not_shown(notebooks, quoted), *not_tested(in_backticks(tests), quoted)]


def not_shown(notebooks: str, quoted: list[str]) -> list[str]:
    code = code_of_notebooks(notebooks)
    if code is None:
        return [f"there is no notebook {notebooks}"]
    outputs = outputs_of_notebooks(notebooks)
    to_show = {name: code for name in quoted if "::" not in name or is_public(name)}
    to_show |= {name: outputs for name in quoted if INVARIANT.fullmatch(name)}
    return [f"notebook {notebooks} has no {name}" for name, text in to_show.items() if not mentions(text, name)]


def is_public(rule: str) -> bool:
    """Whether a user can write the name of a rule, as that of a member of a namespace."""
    file, name, _ = parsed(rule)
    value = vars(import_module(file.removesuffix(".py").replace("/", "."))).get(name)
    return value is not None and any(
        public is value for dotted, public in public_names().items() if dotted.endswith(f".{name}")
    )


def not_tested(tests: list[str], quoted: list[str]) -> list[str]:
    wrong = []
    for test in tests:
        source = source_of_test(test)
        if source is None:
            wrong.append(f"there is no test {test}")
        elif not any(mentions(source, name) for name in quoted):
            wrong.append(f"{test} has none of {', '.join(quoted)}")
    return wrong


@functools.cache
def notebooks_named(named: str) -> tuple[Path, ...] | None:
    """The notebooks given by number, name or link; None: one is missing."""
    files = []
    for name in named.split(", "):
        link = re.search(r"\]\(\.\./([^)]+)\)", name)
        pattern = f"notebooks/tutorials/{name}_*.ipynb" if name.isdigit() else f"notebooks/*/{name}.ipynb"
        matching = list(ROOT.glob(link[1] if link else pattern))
        if not matching:
            return None
        files.append(matching[0])
    return tuple(files)


def code_cells(file: Path) -> list[dict[str, Any]]:
    return [cell for cell in json.loads(file.read_text())["cells"] if cell["cell_type"] == "code"]


@functools.cache
def code_of_notebooks(named: str) -> str | None:
    """The code of notebooks, and the scenarios that it loads; None: a notebook is missing."""
    notebooks = notebooks_named(named)
    if notebooks is None:
        return None
    code = "\n".join("".join(cell["source"]) for file in notebooks for cell in code_cells(file))
    words = {word for quoted in re.findall(r"\"([^\"]+)\"", code) for word in re.findall(r"\w+", quoted)}
    files = [file for file in ROOT.glob("data/scenarios/**/*.yaml") if ".load(" in code and file.stem in words]
    return "\n".join([code, *(file.read_text() for file in files)])


@functools.cache
def outputs_of_notebooks(named: str) -> str:
    """What notebooks have printed and shown as text."""
    outputs = [
        output for file in notebooks_named(named) or () for cell in code_cells(file) for output in cell["outputs"]
    ]
    return "\n".join("".join(output.get("text") or output.get("data", {}).get("text/plain", "")) for output in outputs)


def test_what_a_row_names_exists_is_shown_and_is_tested() -> None:
    assert {row.cells: wrong for row in ROWS if (wrong := mistakes(row))} == {}


def test_all_five_documents_are_there() -> None:
    assert len(ROWS) > 120
    assert {document_of(row) for row in ROWS} == {"Pravega", "Hazelcast Jet", "NebulaStream"}


SIM, MODEL = "streams/sim/test_", "streams/model/test_"
POSITION = SIM + "writers.py::test_a_position_covers_only_what_is_acknowledged"
CUT = MODEL + "a_sound_cut_is_at_or_beyond_every_writer.py::test_"
COMMIT = SIM + "transactions.py::test_the_mark_of_a_commit_names_its_transaction_and_covers_every_segment"
ITEMS = "dataflow/model/test_coalescer.py::test_the_five_items_of_the_document"
NUMBERS = "progress/model/test_identifiers_are_numbered_as_documented.py::test_a_number_that_is_never_given_is_refused"
PLAN = "progress/sim/test_operators_of_a_plan.py::test_"
WRONG = [
    ("Pravega", "`notes`", "01", POSITION, "there is no notes"),
    ("Pravega", "`reads.upper`", "05", POSITION, "there is no reads.upper"),
    ("Pravega", "`Stream(no_such_option=...)`", "01", POSITION, "there is no Stream"),
    ("Pravega", "`recording.no_such_verb`", "01", POSITION, "there is no recording.no_such_verb"),
    ("Pravega", "`chart.plan`", "08", POSITION, "there is no chart.plan"),
    ("NebulaStream", "`chart.plan`", "07", POSITION, "notebook 07 has no"),
    ("Pravega", "`wmlab/streams/model/cycle.py::no_such_rule`", "03", POSITION, "there is no wmlab"),
    ("Pravega", "table watermarks", "01", POSITION, "it names nothing"),
    (
        "Pravega",
        "`Stream(visit_order=...)`",
        "02",
        CUT + "the_order_of_the_visits_decides_about_the_cut",
        "notebook 02 has no",
    ),
    (
        "Pravega",
        "`Stream(visit_order=...)`",
        "06",
        CUT + "only_the_cut_of_the_document_forgets_the_previous_one",
        "none of",
    ),
    ("Pravega", "`TransactionalWriter(commit_latency_ms=...)`", "04", COMMIT, "none of"),
    ("Hazelcast Jet", "`Watermark`", "07", "conformance/test_vectors.py", "there is no test"),
    ("Hazelcast Jet", "`Watermark`", "07", "conformance/test_vectors.py::no such case", "there is no test"),
    ("Hazelcast Jet", "`I6`", "07", ITEMS, "there is no I6"),
    ("NebulaStream", "`buffers.sequence`", "08", NUMBERS, "none of"),
    ("NebulaStream", "`Join`", "08", PLAN + "no_such_test", "there is no test"),
    ("NebulaStream", "`Join`", "99", PLAN + "a_join_fires_once_both_sides_allow", "there is no notebook"),
    ("NebulaStream", "`Source(disorder_ms=...)`", "07", NUMBERS, "notebook 07 has no"),
    ("Pravega", "`I7`", "05", SIM + "noting.py", "notebook 05 has no I7"),
    ("Hazelcast Jet", "`wmlab/dataflow/model/transform.py::AGAIN`", "08", ITEMS, "notebook 08 has no wmlab"),
    ("Pravega", '`script.DuplicateWriter` "write conflict"', "06", SIM + "noting.py", "the outputs of notebook 06"),
]
"""Rows as the page once had them, or nearly, and what is wrong with each."""


@pytest.mark.parametrize(("document", "names", "notebook", "test", "expected"), WRONG)
def test_a_row_that_does_not_hold_is_found(document: str, names: str, notebook: str, test: str, expected: str) -> None:
    wrong = mistakes(Row(document, ("it is required", "Section", names, notebook, f"`{test}`")))
    assert any(expected in mistake for mistake in wrong), wrong


@pytest.mark.parametrize(
    "cells", [("it is required", "Section", "`Stream`", "01"), ("it is required", "Section", "`Stream`", "01", "none")]
)
def test_a_row_without_a_test_is_found(cells: tuple[str, ...]) -> None:
    (wrong,) = mistakes(Row("Pravega", cells))
    assert wrong.startswith("a row has requirement")


def test_a_case_of_the_vectors_is_a_test_by_its_name() -> None:
    cases = json.loads((ROOT / "tests" / "conformance" / "vectors" / "hazelcast.json").read_text())["cases"]
    assert source_of_test(f"conformance/test_vectors.py::{cases[0]['id']}") == json.dumps(cases[0])
