"""Scenarios in words: their settings and faults, in what several differ, and what their runs are called for it."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from typing import Any, Final

from wmlab.core.durations import GivenDuration
from wmlab.core.rules import RuleSet
from wmlab.core.scenario_file import ScenarioFile
from wmlab.core.values import fields_in_use, is_default, without_functions
from wmlab.core.words import counted, exactly, grouped, is_instant, listed, moment

FAULTS: Final = "Faults"
"""What the row of the faults is called."""
ABSENT: Final = "–"
_FAULT_FIELDS: Final = frozenset({"script", "faults"})
"""The fields of scenarios that have what happens in the run."""
_UNITS: Final = ("_per_s", "_ms", "_bytes")
_SUBJECTS: Final = (
    "writer",
    "reader",
    "controller",
    "party",
    "source",
    "vertex",
    "worker",
    "a",
    "b",
    "checkpoint",
    "name",
)
"""The fields of a fault that say to whom it happens."""
_CODE_NAME: Final = re.compile(r"[a-z]+(_[a-z0-9]+)+")
_MOST_DIFFERENCES: Final = 3
"""So many differences name a run; of more, how many there are."""
_MOST_ENTRIES: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """The words of a kind of scenarios, where the names of fields do not say them.

    `labels` has what fields are called, by class and field, dotted if it is in an inner value; `empty` what None means
    in a field of that name; `untitled` the fields whose part there is only one of, so that nobody has to name it.
    """

    labels: Mapping[type, Mapping[str, str]] = field(default_factory=dict)
    empty: Mapping[str, str] = field(default_factory=dict)
    untitled: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioWords:
    """A scenario in words.

    `settings` has the label and the value in words of each setting, by path, with all that is left to the rules;
    `given` are the paths of those that the scenario itself gives. `faults` are what happens in its run, each in words.
    """

    name: str
    settings: Mapping[str, tuple[str, str]]
    given: frozenset[str]
    faults: tuple[str, ...]


def words_of(scenario: ScenarioFile, vocabulary: Vocabulary) -> ScenarioWords:
    """A scenario in words."""
    faults = [entry for name in sorted(_FAULT_FIELDS) for entry in getattr(scenario, name, ())]
    given = frozenset(path for path, _, _ in _settings(scenario, vocabulary, only_given=True))
    return ScenarioWords(
        name=scenario.name,
        settings={path: (label, words) for path, label, words in _settings(scenario.resolved, vocabulary)},
        given=given,
        faults=tuple(fault_in_words(entry, vocabulary) for entry in faults),
    )


def differences(scenarios: Sequence[ScenarioWords]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """In what the scenarios differ: a label, as "Timeout" or "w2: Noting", and the value of each in words.

    A setting that none of them gives follows from those that they give, and is left out. The last row may be "Faults",
    with those that not all of them have. What only some have is "–" for the others.
    """
    given = frozenset[str]().union(*(scenario.given for scenario in scenarios))
    labels = {path: label for one in scenarios for path, (label, _) in one.settings.items() if path in given}
    values = ((label, [one.settings.get(path, ("", ABSENT)) for one in scenarios]) for path, label in labels.items())
    rows = [(label, tuple(words for _, words in of_runs)) for label, of_runs in values]
    shared = [fault for fault in scenarios[0].faults if all(fault in other.faults for other in scenarios)]
    own = tuple("; ".join(fault for fault in one.faults if fault not in shared) or ABSENT for one in scenarios)
    return tuple(row for row in (*rows, (FAULTS, own)) if len(set(row[1])) > 1)


def names_of_runs(scenarios: Sequence[ScenarioWords]) -> tuple[str, ...]:
    """A name for the run of each scenario by what differs: "timeout 15 s", "without crash writer w2 at 30 s".

    Runs of scenarios of several names begin with theirs, and differ from those of the same name. No name is there
    twice.
    """
    by_name = {scenario.name: [other for other in scenarios if other.name == scenario.name] for scenario in scenarios}
    names: list[str] = []
    for scenario in scenarios:
        alike = by_name[scenario.name]
        phrases = [_phrase(label, values, alike.index(scenario)) for label, values in differences(alike)]
        more = [f"{counted(len(phrases) - _MOST_DIFFERENCES, 'other difference')}"]
        differing = ", ".join([*phrases[:_MOST_DIFFERENCES], *(more if len(phrases) > _MOST_DIFFERENCES else [])])
        name = ": ".join(filter(None, [scenario.name if len(by_name) > 1 or not phrases else "", differing]))
        taken = sum(other == name or other.startswith(f"{name} (") for other in names)
        names.append(f"{name} ({taken + 1})" if taken else name)
    return tuple(names)


def spaced(name: str) -> str:
    """A name of code as words."""
    return name.replace("_", " ").replace(".", " ")


def field_in_words(name: str) -> str:
    """A name of a field in words, without its unit."""
    return spaced(next((name.removesuffix(unit) for unit in _UNITS if name.endswith(unit)), name))


def sentence_about(field: str, described: Iterable[object]) -> str:
    """What the docstrings of some values say about a field; "" if they do not name it.

    That is the first sentence that begins with the field, else the first that names it.
    """
    texts = [text for value in described for text in sentences(inspect.getdoc(value) or "")]
    about = [text for text in texts if re.search(rf"`{field}[`=]", text)]
    return next((text for text in about if text.startswith(f"`{field}")), next(iter(about), ""))


@cache
def sentences(text: str) -> tuple[str, ...]:
    """The sentences of a docstring, each in one line."""
    paragraphs = (" ".join(block.split()) for block in re.split(r"\n\s*\n", text))
    return tuple(
        sentence for block in paragraphs for sentence in re.split(r"(?<=[.:;])\s+(?=[A-Z`])(?<!: )", block) if sentence
    )


def duration_in_words(ms: float) -> str:
    """A duration exactly, as a field reads it: "400 ms", "1.5 s", "12 h 5 s"; one that was given as text as it was."""
    if isinstance(ms, GivenDuration):
        return ms.given
    if ms != int(ms):
        return f"{ms:g} ms"
    return exactly(int(ms)) if ms else "0 s"


def value_in_words(name: str, content: Any, vocabulary: Vocabulary) -> str:
    """What a field of this name holds, in words: "15 s", "no limit", "first behind"."""
    if content is None:
        return vocabulary.empty.get(name, "none")
    if isinstance(content, bool):
        return "yes" if content else "no"
    if name.endswith("_ms") and isinstance(content, int | float):
        return moment(content) if isinstance(content, int) and is_instant([content]) else duration_in_words(content)
    if isinstance(content, tuple | list):
        return listed([value_in_words(name, entry, vocabulary) for entry in content], most=_MOST_ENTRIES) or "none"
    if isinstance(content, int | float):
        return grouped(content)
    text = str(without_functions(content))
    return spaced(text) if _CODE_NAME.fullmatch(text) else text


def fault_in_words(fault: Any, vocabulary: Vocabulary) -> str:
    """A fault, or another action of a script, in words: "crash writer w2 at 30 s, restart after 5 s"."""
    subjects = [str(getattr(fault, name)) for name in _SUBJECTS if hasattr(fault, name)]
    others = [
        f"{field_in_words(entry.name)} {value_in_words(entry.name, getattr(fault, entry.name), vocabulary)}"
        for entry in dataclasses.fields(fault)
        if entry.name not in {*_SUBJECTS, "kind", "at_ms"}
        and getattr(fault, entry.name) is not None
        and not is_default(entry, getattr(fault, entry.name))
    ]
    at = f"at {duration_in_words(fault.at_ms)}" if hasattr(fault, "at_ms") else ""
    start = " ".join(filter(None, (field_in_words(fault.kind), " and ".join(filter(None, subjects)), at)))
    return ", ".join([start, *others])


def _phrase(label: str, values: Sequence[str], index: int) -> str:
    if label != FAULTS:
        return f"{label[:1].lower()}{label[1:]} {values[index]}" if ": " not in label else f"{label} {values[index]}"
    if values[index] != ABSENT:
        return values[index]
    others = [value for value in dict.fromkeys(values) if value != ABSENT]
    return f"without {others[0]}" if len(others) == 1 else f"without {counted(len(others), 'other fault')}"


@dataclass(frozen=True, slots=True)
class _Owner:
    """A value around a setting: its class, and the dotted path from it to what it holds."""

    made: type
    path: str

    def inside(self, name: str) -> _Owner:
        return _Owner(self.made, f"{self.path}.{name}" if self.path else name)


def _settings(
    part: Any,
    vocabulary: Vocabulary,
    *,
    only_given: bool = False,
    path: str = "",
    title: str = "",
    around: tuple[_Owner, ...] = (),
) -> Iterator[tuple[str, str, str]]:
    """Each setting of a part and of all parts in it, but faults and names: its path, its label, its value in words."""
    owners = (*around, _Owner(type(part), ""))
    for entry in fields_in_use(part):
        content = getattr(part, entry.name)
        # A list finds its entries by their names, which are in the path.
        is_found_by_it = entry.name == "name" and (not path or path.endswith("]"))
        if (
            entry.name in _FAULT_FIELDS
            or is_found_by_it
            or (only_given and entry.name != "kind" and is_default(entry, content))
        ):
            continue
        if entry.name == "kind":
            of_kind = around or (_Owner(type(part), "kind"),)
            yield f"{path}.kind", _label(of_kind, title, vocabulary), value_in_words("kind", content, vocabulary)
            continue
        inner_path = f"{path}.{entry.name}" if path else entry.name
        inside = tuple(owner.inside(entry.name) for owner in owners)
        for key, called, inner in _parts_in(entry.name, content, vocabulary):
            yield from _settings(
                inner,
                vocabulary,
                only_given=only_given,
                path=f"{inner_path}{key}",
                title=", ".join(filter(None, (title, called))),
                # An option of the rules is called by its name alone.
                around=() if called or isinstance(inner, RuleSet) else inside,
            )
        if not _has_parts(content):
            yield inner_path, _label(inside, title, vocabulary), value_in_words(entry.name, content, vocabulary)


def _has_parts(content: Any) -> bool:
    entries = content if isinstance(content, tuple | list) else (content,)
    return any(dataclasses.is_dataclass(entry) for entry in entries)


def _parts_in(name: str, content: Any, vocabulary: Vocabulary) -> Iterator[tuple[str, str, Any]]:
    """The values in a field that have fields of their own, each with its key and its title.

    Entries of a list are found by their names, so order does not matter; those without one by their numbers.
    """
    if dataclasses.is_dataclass(content):
        yield "", "" if name in vocabulary.untitled else getattr(content, "name", ""), content
    elif _has_parts(content):
        names = [getattr(entry, "name", None) for entry in content]
        for number, entry, called in zip(count(1), content, names, strict=False):
            title = f"{field_in_words(name)} {number}" if called is None or names.count(called) > 1 else str(called)
            yield f"[{title}]", title, entry


def _label(owners: tuple[_Owner, ...], title: str, vocabulary: Vocabulary) -> str:
    """What a setting is called: by the outermost owner that has a word for it, or else by the names of fields."""
    known = (vocabulary.labels.get(owner.made, {}).get(owner.path) for owner in owners)
    label = next(filter(None, known), None)
    if label is None:
        # Of the run only the setting itself is named, of any other value also what it is in.
        owner = owners[0]
        label = field_in_words("rules" if owner.path == "base" and issubclass(owner.made, RuleSet) else owner.path)
        label = f"{label[:1].upper()}{label[1:]}"
    return f"{title}: {label}" if title else label
