"""Values, fields and faults of a scenario in words, as the panel writes them."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from wmlab.core.durations import GivenDuration
from wmlab.core.words import exactly, grouped

NONE_IN_WORDS: Final = {
    "note_every_ms": "never",
    "restart_after_ms": "never",
    "offline_after_ms": "never",
    "recreate_after_ms": "never",
    "for_ms": "to the end",
    "rate_per_s": "no limit",
    "point": "at once",
    "seal_every_ms": "all at once",
    "open_ms": "until the next one",
    "start_delay_ms": "as the controllers",
    "transaction": "the oldest open one",
    "checkpoint": "the last one",
    "stream": "the first one",
    "group": "the only one",
    "position": "its own",
    "cut": "all that is written",
}
"""What None means in a field; elsewhere it is "none"."""
_UNITS: Final = ("_per_s", "_ms", "_bytes")
_SUBJECTS: Final = ("writer", "reader", "controller", "party", "a", "b", "checkpoint", "name")
"""The fields of an action that say to whom it happens."""


def spaced(name: str) -> str:
    """A name of code as words."""
    return name.replace("_", " ").replace(".", " ")


def field_in_words(name: str) -> str:
    """A name of a field in words, without its unit."""
    return spaced(next((name.removesuffix(unit) for unit in _UNITS if name.endswith(unit)), name))


def duration_in_words(ms: float) -> str:
    """A duration exactly, as a field reads it: "400 ms", "1.5 s", "12 h 5 s"; one that was given as text as it was."""
    if isinstance(ms, GivenDuration):
        return ms.given
    if ms != int(ms):
        return f"{ms:g} ms"
    return exactly(int(ms)) if ms else "0 s"


def value_in_words(name: str, content: Any) -> str:
    """What a field of this name holds, in words: "15 s", "no limit", "first behind"."""
    if content is None:
        return NONE_IN_WORDS.get(name, "none")
    if isinstance(content, bool):
        return "yes" if content else "no"
    if name.endswith("_ms") and isinstance(content, int | float):
        return duration_in_words(content)
    if isinstance(content, tuple | list):
        return " ".join(map(str, content))
    return grouped(content) if isinstance(content, int) else spaced(str(content))


def fault_in_words(action: Any) -> str:
    """A fault, or another action of a script, in words: "crash writer w2 at 30 s, restart after 5 s"."""
    subjects = [str(getattr(action, name)) for name in _SUBJECTS if hasattr(action, name)]
    between = " and ".join(filter(None, subjects))
    said = {*_SUBJECTS, "kind", "at_ms"}
    others = [
        f"{field_in_words(field.name)} {value_in_words(field.name, getattr(action, field.name))}"
        for field in dataclasses.fields(action)
        if field.name not in said and getattr(action, field.name) not in (None, field.default)
    ]
    start = " ".join(filter(None, (field_in_words(action.kind), between, f"at {duration_in_words(action.at_ms)}")))
    return ", ".join([start, *others])
