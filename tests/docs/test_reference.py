"""Every public name is documented, and the page that lists them is as it would be made now."""

from __future__ import annotations

import inspect
import json
import re
from types import ModuleType
from typing import Final

import pytest

import wmlab
from tests.conftest import module_of
from tests.docs.names import ROOT, in_backticks, members, public_names, rows

reference: Final = module_of(ROOT / "tools" / "reference.py")
PAGE: Final = reference.PAGE.read_text()
DELAYS = {"LogNormal", "Uniform"}
"""How long something takes; the notebooks show a fixed one."""


def texts_by_name() -> dict[str, str]:
    """The rows of public names, and of a class also the sentence that says what several classes inherit."""
    texts: dict[str, str] = {}
    for row in (row for row in rows(PAGE) if not row.heading.startswith(("Table ", "Columns of "))):
        (name,) = in_backticks(row.cells[0])
        texts[name] = "\n".join([*texts.get(name, "").splitlines(), " | ".join(row.cells)])
    for shared in re.finditer(r"^From `\w+`: [^.]+\. Classes that have these: (.+)\.", PAGE, re.MULTILINE):
        for name in in_backticks(shared[1]):
            texts[name] = f"{texts[name]}\n{shared[0]}"
    return texts


TEXTS: Final = texts_by_name()
NAMESPACES: Final = {title: space for title, space in public_names().items() if isinstance(space, ModuleType)}
OFFERED: Final = [
    (title, name, value)
    for title, space in NAMESPACES.items()
    for name, value in members(space, "").items()
    if not isinstance(value, ModuleType)
]
CLASSES: Final = {
    value
    for value in [*(value for *_, value in OFFERED), *wmlab.trace.Recording.__subclasses__()]
    if inspect.isclass(value) and value.__module__.startswith("wmlab.")
}
"""The classes of the namespaces, and those of recordings."""


def test_the_page_is_as_it_would_be_made_now() -> None:
    assert reference.page() == PAGE, "run: python tools/reference.py --write"


def test_every_name_of_every_namespace_is_listed() -> None:
    listed = {f"{row.heading}.{name}" for row in rows(PAGE) for name in in_backticks(row.cells[0])}
    assert {f"{title}.{name}" for title, name, _ in OFFERED} - listed == set()


def test_every_method_attribute_and_field_stands_with_its_class() -> None:
    missing = []
    for made in CLASSES:
        text = TEXTS[made.__name__]
        bases = [base for base in made.__mro__ if base.__module__.startswith("wmlab.")]
        names = {name for base in bases for name in vars(base) if not name.startswith("_")}
        missing += [
            (made, name) for name in names if f"{made.__name__}.{name}" not in TEXTS and f"`{name}`" not in text
        ]
        for base, inherited in re.findall(r"From `(\w+)`: ([^.]+)\.", text):
            own = re.findall(r"\w+", TEXTS[base])
            names = set(in_backticks(inherited))
            missing += [(base, name) for name in names if f"{base}.{name}" not in TEXTS and name not in own]
    assert missing == []


def test_what_an_application_calls_on_a_recording_is_a_method_and_what_it_reads_is_an_attribute() -> None:
    verbs = (
        "explain stream_cut_at time_at group_windows read_sides timeline scrub check time_bounds replay bytes_between"
    )
    assert [name for name in verbs.split() if " | method | " not in TEXTS[f"StreamRecording.{name}"]] == []
    assert " | attribute | " in TEXTS["Recording.name"]
    assert {"EarliestOpen", "Network", "Uniform"} <= TEXTS.keys()


def test_what_classes_have_in_common_is_described_once() -> None:
    strategies = [made for made in CLASSES if issubclass(made, wmlab.strategy.Strategy)]
    assert [made.__name__ for made in strategies if f"{made.__name__}.step" in TEXTS] == ["Strategy"]
    assert "ScenarioFile.load" in TEXTS
    assert "Scenario.load" not in TEXTS
    sentences = {
        line for made in strategies for line in TEXTS[made.__name__].splitlines() if "From `Strategy`: " in line
    }
    assert len(sentences) == 2, "one sentence for all but the class that defines a verb of its own"


def test_every_column_of_every_table_has_its_type_unit_and_meaning() -> None:
    kinds = [made for made in CLASSES if issubclass(made, wmlab.trace.Recording) and made.kind]
    assert len(kinds) >= 3
    columns = {(row.heading, *in_backticks(row.cells[0])): row.cells for row in rows(PAGE)}
    for kind in kinds:
        for table, schema in kind.schemas.items():
            for field in schema:
                _, column_type, unit, about = columns[f"Table {table} of a recording of {kind.kind}", field.name]
                assert column_type
                assert unit == field.metadata.get(b"unit", b"").decode()
                assert about == field.metadata[b"about"].decode()


def test_a_name_without_documentation_is_refused() -> None:
    with pytest.raises(LookupError, match="no docstring"):
        reference._sentence(lambda: None)


def documented() -> dict[str, str]:
    """The docstrings that a user meets: of public names, of the classes they return, and of what these have."""
    offered = public_names() | {made.__name__: made for made in [*reference.public_classes(), *reference.errors()]}
    for name, made in [*offered.items()]:
        offered |= members(made, f"{name}.") if inspect.isclass(made) else {}
    return {name: inspect.getdoc(value) or "" for name, value in offered.items() if not inspect.ismodule(value)}


def paths_that_are_not_public(text: str) -> list[str]:
    """The dotted names below `wmlab` in a docstring, but for its examples, that a user cannot write."""
    paths = re.findall(r"(?<![/\w.])wmlab(?:\.\w+)+", re.sub(r"(?m)^\s*>>>.*", "", text))
    return [path for path in paths if path not in public_names()]


def test_no_docstring_of_a_public_name_sends_to_a_path_that_is_not_public() -> None:
    texts = documented()
    assert "StreamRecording.time_bounds" in texts
    assert {name: paths for name, text in texts.items() if (paths := paths_that_are_not_public(text))} == {}


def test_a_path_that_is_not_public_is_found() -> None:
    public = "wmlab.chart.time_bounds, wmlab.Scenario.record, wmlab/streams/model.py\n>>> wmlab.streams.model\n"
    private = ["wmlab.streams.model.cut", "wmlab.chart.svg", "wmlab.Scenario._problems", "wmlab.script.Scale.no_method"]
    assert paths_that_are_not_public(public + ", ".join(private)) == private


def test_every_action_part_and_chart_is_shown_in_a_notebook() -> None:
    notebooks = [json.loads(path.read_text()) for path in ROOT.glob("notebooks/*/*.ipynb")]
    shown = [line for notebook in notebooks for cell in notebook["cells"] for line in cell["source"]]
    shown += [path.read_text() for path in ROOT.glob("data/scenarios/**/*.yaml")]
    words = set(re.findall(r"\w+", "\n".join(shown)))
    titles = {f"wmlab.{title}" for title in ("script", "dataflow", "progress")}
    titles |= {f"wmlab.{title}" for title in ("chart", "dataflow.chart", "progress.chart", "engine.chart")}
    names = {name for title, name, _ in OFFERED if title in titles} - DELAYS
    kinds = {name: re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower() for name in names}
    assert [name for name in sorted(names) if not {name, kinds[name]} & words] == []
