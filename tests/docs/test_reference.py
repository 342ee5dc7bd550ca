"""Every public name is documented, and the page that lists them is as it would be made now."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from types import ModuleType

import pytest

import wmlab
from tests.conftest import module_of

ROOT = Path(__file__).parents[2]
TOOL = ROOT / "tools" / "reference.py"
DELAYS = {"LogNormal", "Uniform"}
"""How long something takes; the notebooks show a fixed one."""


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    return module_of(TOOL)


def test_the_page_is_as_it_would_be_made_now(reference: ModuleType) -> None:
    assert reference.PAGE.read_text() == reference.page(), "run: python tools/reference.py --write"


def offered_by(space: ModuleType) -> list[object]:
    """What a namespace offers: its `__all__`, or what is defined in it and the modules of its own package."""
    package = space.__name__.rpartition(".")[0]
    own = [name for name, value in vars(space).items() if getattr(value, "__module__", "") == space.__name__]
    own += [name for name, value in vars(space).items() if getattr(value, "__name__", "").startswith(f"{package}.")]
    return [getattr(space, name) for name in getattr(space, "__all__", own) if not name.startswith("_")]


def spaces() -> list[ModuleType]:
    """All namespaces: the modules among the names of `wmlab`, and the modules of `wmlab` that they offer in turn."""
    found = [getattr(wmlab, name) for name in wmlab.__all__ if isinstance(getattr(wmlab, name), ModuleType)]
    for space in found:
        found += [one for one in offered_by(space) if isinstance(one, ModuleType)]
    return found


def rows(text: str) -> dict[str, list[str]]:
    """The rows of the page by the name they begin with, and of a class the sentence that says what several inherit."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if begun := re.match(r"\| `([\w.]+)` \|", line):
            found.setdefault(begun[1], []).append(line)
        elif shared := re.match(r"From `\w+`: [^.]+\. Classes that have these: (.+)\.", line):
            for name in re.findall(r"\w+", shared[1]):
                found.setdefault(name, []).append(line)
    return found


def test_every_name_of_every_namespace_is_listed(reference: ModuleType) -> None:
    listed = rows(reference.PAGE.read_text())
    missing = [
        f"{space.__name__}.{name}"
        for space in [wmlab, *spaces()]
        for name in reference.public(space)
        if name not in listed and not isinstance(getattr(space, name), ModuleType)
    ]
    assert missing == []


def public_classes() -> list[type]:
    """The classes of the namespaces, and those of recordings."""
    offered = [value for space in [wmlab, *spaces()] for value in offered_by(space)]
    classes = [made for made in [*offered, *wmlab.trace.Recording.__subclasses__()] if inspect.isclass(made)]
    return [made for made in dict.fromkeys(classes) if made.__module__.startswith("wmlab.")]


@pytest.mark.parametrize("made", public_classes(), ids=lambda made: made.__name__)
def test_every_method_attribute_and_field_stands_with_its_class(reference: ModuleType, made: type) -> None:
    listed = rows(reference.PAGE.read_text())
    own = "\n".join(listed[made.__name__])
    homes = [base for base in made.__mro__ if base.__module__.startswith("wmlab.")]
    for name in {name for base in homes for name in vars(base) if not name.startswith("_")}:
        assert f"{made.__name__}.{name}" in listed or f"`{name}`" in own, name
    for base, names in re.findall(r"From `(\w+)`: ([^.]+)\.", own):
        told = "\n".join(listed[base])
        assert [name for name in re.findall(r"\w+", names) if f"{base}.{name}" not in listed and name not in told] == []


def test_what_an_application_calls_on_a_recording_is_a_method_and_what_it_reads_is_an_attribute() -> None:
    listed = rows((ROOT / "docs" / "reference.md").read_text())
    verbs = (
        "explain stream_cut_at time_at group_windows read_sides timeline scrub check time_bounds replay bytes_between"
    )
    assert [name for name in verbs.split() if " | method | " not in listed[f"StreamRecording.{name}"][0]] == []
    assert " | attribute | " in listed["Recording.name"][0]
    assert {"EarliestOpen", "Network", "Retry"} <= listed.keys()


def test_what_classes_have_in_common_is_described_once() -> None:
    listed = rows((ROOT / "docs" / "reference.md").read_text())
    strategies = [made for made in public_classes() if issubclass(made, wmlab.strategy.Strategy)]
    assert [made.__name__ for made in strategies if f"{made.__name__}.step" in listed] == ["Strategy"]
    assert "ScenarioFile.load" in listed
    assert "Scenario.load" not in listed
    inherited = [line for made in strategies for line in listed[made.__name__] if "From `Strategy`: " in line]
    assert len(set(inherited)) == 2, "one sentence for all but the class that defines a verb of its own"


def test_every_column_of_every_table_has_its_type_unit_and_meaning() -> None:
    text = (ROOT / "docs" / "reference.md").read_text()
    kinds = [made for made in public_classes() if issubclass(made, wmlab.trace.Recording) and made.kind]
    assert len(kinds) >= 3
    for kind in kinds:
        for table, schema in kind.schemas.items():
            title = f"## Table {table} of a recording of {kind.kind}\n"
            section = text.partition(title)[2].partition("\n## ")[0]
            for field in schema:
                row = next(line for line in section.splitlines() if line.startswith(f"| `{field.name}` |"))
                assert field.metadata[b"about"].decode() in row
                assert field.metadata.get(b"unit", b"").decode() in row


def test_a_name_without_documentation_is_refused(reference: ModuleType) -> None:
    with pytest.raises(LookupError, match="no docstring"):
        reference._sentence(lambda: None)


def public_paths(reference: ModuleType) -> set[str]:
    """Every dotted name that a user can write: those of the namespaces, and of the attributes of their classes."""
    paths = {"wmlab", *(title for title, _ in reference.namespaces())}
    for title, names in reference.namespaces():
        for name, value in names.items():
            paths.add(f"{title}.{name}")
            paths |= {f"{title}.{name}.{attribute}" for attribute in dir(value)} if inspect.isclass(value) else set()
    return paths


def documented(reference: ModuleType) -> dict[str, str]:
    """The docstrings that a user meets: of public names, of the classes they return, and of what these have."""
    offered = {f"{title}.{name}": value for title, names in reference.namespaces() for name, value in names.items()}
    offered |= {made.__name__: made for made in [*reference.public_classes(), *reference.errors()]}
    texts = {name: inspect.getdoc(value) or "" for name, value in offered.items() if callable(value)}
    for name, made in offered.items():
        if inspect.isclass(made):
            members = reference.members(made).items()
            texts |= {f"{name}.{member}": inspect.getdoc(value) or "" for member, value in members}
    return texts


def test_no_docstring_of_a_public_name_sends_to_a_path_that_is_not_public(reference: ModuleType) -> None:
    public, texts = public_paths(reference), documented(reference)
    assert "StreamRecording.time_bounds" in texts
    sent = {
        name: re.findall(r"(?<![/\w.])wmlab(?:\.\w+)+", re.sub(r"(?m)^\s*>>>.*", "", texts[name])) for name in texts
    }
    assert {name: paths for name, paths in sent.items() if set(paths) - public} == {}


@pytest.mark.parametrize(
    "space",
    [
        *(wmlab.script, wmlab.chart, wmlab.dataflow, wmlab.dataflow.chart),
        *(wmlab.progress, wmlab.progress.chart, wmlab.engine.chart),
    ],
    ids=lambda space: space.__name__,
)
def test_every_action_part_and_chart_is_shown_in_a_notebook(reference: ModuleType, space: ModuleType) -> None:
    notebooks = [json.loads(path.read_text()) for path in ROOT.glob("notebooks/*/*.ipynb")]
    shown = [line for notebook in notebooks for cell in notebook["cells"] for line in cell["source"]]
    shown += [path.read_text() for path in ROOT.glob("data/scenarios/**/*.yaml")]
    words = set(re.findall(r"\w+", "\n".join(shown)))
    names = {name for name in reference.public(space) if not isinstance(getattr(space, name), ModuleType)} - DELAYS
    kinds = {name: re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower() for name in names}
    assert [name for name in sorted(names) if not {name, kinds[name]} & words] == []
