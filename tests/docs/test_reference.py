"""Every public name is documented, and stands in the reference with its signature, its fields and its columns."""

from __future__ import annotations

import inspect
import json
import re
from types import ModuleType
from typing import Final

import pytest

import wmlab
from tests.docs.names import ROOT, in_backticks, members, public_names, rows
from tools import api_pages, public_names as walk
from wmlab.core.scenario_words import sentences

PAGES: Final = api_pages.pages()
DELAYS = {"LogNormal", "Uniform"}
"""How long something takes; the notebooks show a fixed one."""
_CLASS: Final = re.compile(r"^`{6}\{py:class\} (\w+)(.*?)^`{6}$", re.MULTILINE | re.DOTALL)
_MEMBER: Final = re.compile(r"^`{5}\{py:(\w+)\} (\w+)", re.MULTILINE)
_NAME: Final = re.compile(r"^`{6}\{py:\w+\} (\w+)", re.MULTILINE)
_FIELD: Final = re.compile(r"^\| `(\w+)` \| (.*?) \| (.*?) \| (.*) \|$", re.MULTILINE)


def texts_by_name() -> dict[str, str]:
    """What the pages say of each class; of two with one name the texts of both."""
    texts: dict[str, str] = {}
    for found in (found for text in PAGES.values() for found in _CLASS.finditer(text)):
        texts[found[1]] = texts.get(found[1], "") + found[2]
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


def test_every_name_of_every_namespace_is_on_its_page() -> None:
    listed = {f"{title}.{name}" for title in NAMESPACES for name in _NAME.findall(PAGES[title])}
    assert listed == {f"{title}.{name}" for title, name, _ in OFFERED}
    assert len(listed) > 200


def test_every_method_attribute_and_field_stands_with_its_class_or_with_one_that_this_names() -> None:
    missing = []
    for made in CLASSES:
        text = TEXTS[made.__name__]
        own = {name for _, name in _MEMBER.findall(text)} | {row[0] for row in _FIELD.findall(text)} | {"kind"}
        inherited = re.findall(r"^From `(\w+)`: (.+)\.$", text, re.MULTILINE)
        own |= {name for _, names in inherited for name in in_backticks(names)}
        own |= {
            name for _, names in re.findall(r"^(One of): (.+)\.$", text, re.MULTILINE) for name in in_backticks(names)
        }
        bases = [base for base in made.__mro__ if base.__module__.startswith("wmlab.")]
        missing += [(made, name) for base in bases for name in vars(base) if name[0] != "_" and name not in own]
        for base, names in inherited:
            described = {name for _, name in _MEMBER.findall(TEXTS[base])}
            missing += [(base, name) for name in in_backticks(names) if name not in described]
    assert missing == []


def test_what_an_application_calls_on_a_recording_is_a_method_and_what_it_reads_is_a_property() -> None:
    verbs = (
        "explain stream_cut_at time_at group_windows most_recent_watermark read_sides timeline scrub check time_bounds "
        "replay bytes_between"
    )
    kinds = {name: kind for kind, name in _MEMBER.findall(TEXTS["StreamRecording"])}
    assert [name for name in verbs.split() if kinds.get(name) != "method"] == []
    assert ("property", "name") in _MEMBER.findall(TEXTS["Recording"])
    assert {"EarliestOpen", "Network", "Uniform"} <= TEXTS.keys()


def test_what_classes_have_in_common_is_described_once() -> None:
    strategies = [made for made in CLASSES if issubclass(made, wmlab.strategy.Strategy)]
    members_of = {made.__name__: {name for _, name in _MEMBER.findall(TEXTS[made.__name__])} for made in strategies}
    assert [name for name, described in members_of.items() if "step" in described] == ["Strategy"]
    assert ("method", "load") in _MEMBER.findall(TEXTS["ScenarioFile"])
    assert ("method", "load") not in _MEMBER.findall(TEXTS["Scenario"])


def test_a_field_has_its_type_its_default_and_its_meaning() -> None:
    fields = {row[0]: row[1:] for row in _FIELD.findall(TEXTS["EventWriter"])}
    assert fields["note_every_ms"][:2] == ("`int \\| None`", "`1000`")
    assert fields["note_every_ms"][2].startswith("`note_every_ms`: how often the application notes it")
    assert fields["rate_per_s"][2].startswith("`rate_per_s`: how many events happen each second")
    assert "kind" not in {row[0] for row in _FIELD.findall(TEXTS["Scale"])}


def test_the_meaning_of_a_field_is_the_sentence_that_begins_with_it() -> None:
    assert sentences("The `a` is x. `a` is\nwhat counts; `b`: y.") == (
        "The `a` is x.",
        "`a` is what counts;",
        "`b`: y.",
    )
    assert api_pages.meaning_of(wmlab.Rules, "forgets").startswith("`forgets`: which writers are dropped")
    assert api_pages.meaning_of(wmlab.TransactionalWriter, "keys") == api_pages.meaning_of(wmlab.EventWriter, "keys")


def test_a_name_has_its_signature_an_example_and_links_to_its_chart_and_to_tutorials() -> None:
    text = PAGES["wmlab.chart"]
    assert "{py:function} time_bounds(bounds: Any, *, recording: Recording | None = None" in text
    assert "[the chart `wm.chart.time_bounds`](../gallery.md#wmcharttime_bounds)" in text
    assert "[00_first_bounds](../../notebooks/tutorials/00_first_bounds.ipynb)" in TEXTS["Controllers"]
    assert "```python\nwm.script.Scale(" in TEXTS["Scale"] or "Scale(at_ms=" in TEXTS["Scale"]
    with_example = [f"{title}.{name}" for title, name, _ in OFFERED if api_pages.uses().get(f"{title}.{name}")]
    assert len(with_example) > 0.7 * len(OFFERED)


def test_no_page_has_an_address_in_memory() -> None:
    assert [title for title, text in PAGES.items() if " at 0x" in text] == []


def test_markup_of_a_docstring_is_kept_and_all_else_stands_as_it_is() -> None:
    assert api_pages.markdown("A * b < `x * y`, w_1.\n\n    code()\n\n- one\n- two") == (
        "A \\* b \\< `x * y`, w\\_1.\n\n```\ncode()\n```\n\n- one\n- two"
    )
    assert api_pages.markdown(">>> 1 + 1\n2") == "```pycon\n>>> 1 + 1\n2\n```"


def test_every_column_of_every_table_has_its_type_unit_and_meaning() -> None:
    kinds = [made for made in CLASSES if issubclass(made, wmlab.trace.Recording) and made.kind]
    assert len(kinds) >= 3
    columns = {(row.heading, *in_backticks(row.cells[0])): row.cells for row in rows(PAGES["tables"])}
    for kind in kinds:
        for table, schema in kind.schemas.items():
            for field in schema:
                _, column_type, unit, about = columns[f"Table {table} of a recording of {kind.kind}", field.name]
                assert column_type
                assert unit == field.metadata.get(b"unit", b"").decode()
                assert re.sub(r"\\(.)", r"\1", about) == field.metadata[b"about"].decode()


def test_a_name_without_documentation_is_refused() -> None:
    with pytest.raises(LookupError, match="no docstring"):
        api_pages.docstring(lambda: None)


def documented() -> dict[str, str]:
    """The docstrings that a user meets: of public names, of the classes they return, and of what these have."""
    offered = public_names() | {made.__name__: made for made in [*walk.public_classes(), *walk.errors()]}
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
