"""Kept runs: the differences of their scenarios in words, and the names of the runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from wmlab.core.values import plain
from wmlab.core.words import counted
from wmlab.streams.panel.fields import Part, label_of, parts_of
from wmlab.streams.panel.options import SECTIONS
from wmlab.streams.panel.words import fault_in_words, value_in_words
from wmlab.streams.scenario.scenario import StreamScenario

FAULTS: Final = "Faults"
_APART: Final = frozenset({"name", "stream", "streams", "writers", "readers", "controllers", "script"})
"""The fields of a scenario that are parts of their own, and its name."""
_MOST: Final = 3
"""So many differences name a run; of more, how many there are."""


def differences(scenarios: Sequence[StreamScenario]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """In what the scenarios differ: a label, as "Timeout" or "w2: Noting", and the value of each in words.

    The last row may be "Faults", with the sentences of those that not all of them have. What only some have is "–".
    """
    settings = [_settings(scenario.resolved) for scenario in scenarios]
    labels = {key: label for one in settings for key, (label, _) in one.items()}
    rows = [(label, tuple(one.get(key, ("", "–"))[1] for one in settings)) for key, label in labels.items()]
    faults = [[fault_in_words(action) for action in scenario.script] for scenario in scenarios]
    shared = [fault for fault in faults[0] if all(fault in others for others in faults)]
    own = tuple("; ".join(fault for fault in one if fault not in shared) or "–" for one in faults)
    return tuple(row for row in (*rows, (FAULTS, own)) if len(set(row[1])) > 1)


def names_of_runs(scenarios: Sequence[StreamScenario]) -> tuple[str, ...]:
    """A name for the run of each scenario by what differs: "timeout 15 s", "without crash writer w2 at 30 s".

    Runs of scenarios of several names begin with theirs, and differ from those of the same name. No name is there
    twice.
    """
    called = {scenario.name: [other for other in scenarios if other.name == scenario.name] for scenario in scenarios}
    names: list[str] = []
    for scenario in scenarios:
        alike = called[scenario.name]
        phrases = [_phrase(label, values, alike.index(scenario)) for label, values in differences(alike)]
        more = [f"{counted(len(phrases) - _MOST, 'other difference')}"] if len(phrases) > _MOST else []
        differing = ", ".join([*phrases[:_MOST], *more])
        name = ": ".join(filter(None, [scenario.name if len(called) > 1 or not phrases else "", differing]))
        taken = sum(other == name or other.startswith(f"{name} (") for other in names)
        names.append(f"{name} ({taken + 1})" if taken else name)
    return tuple(names)


def _phrase(label: str, values: Sequence[str], index: int) -> str:
    if label != FAULTS:
        return f"{label[:1].lower()}{label[1:]} {values[index]}"
    if values[index] != "–":
        return values[index]
    others = [value for value in dict.fromkeys(values) if value != "–"]
    return f"without {others[0]}" if len(others) == 1 else f"without {counted(len(others), 'other fault')}"


def _settings(scenario: StreamScenario) -> dict[tuple[str, str, str], tuple[str, str]]:
    """Every setting of a scenario but its faults, by section, part and field: its label and its value in words."""
    settings = {}
    for section, name in SECTIONS.items():
        parts = parts_of(scenario, section) if name != "script" else ()
        for part in parts:
            title = part.title if len(parts) > 1 or name in ("writers", "readers") else ""
            for path, content in _contents(part, without=frozenset() if name else _APART):
                label = label_of(part.value, path.removesuffix(".kind"))
                words = value_in_words(path.rpartition(".")[2], content)
                settings[section, title, path] = (f"{title}: {label}" if title else label, words)
    return settings


def _contents(part: Part, *, without: frozenset[str]) -> Iterator[tuple[str, Any]]:
    """Each field of a part that holds no other values, dotted if it is in an inner one, and what it holds."""
    for field in dataclasses.fields(part.value):
        if field.name not in without:
            yield from _leaves(plain(getattr(part.value, field.name), defaults=True), field.name)


def _leaves(content: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(content, Mapping):
        for key, entry in content.items():
            yield from _leaves(entry, f"{path}.{key}")
    else:
        yield path, content
