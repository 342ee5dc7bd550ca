"""Rows out of nested documents, each value by its path: `a.b.c`, `rxInfo[0].time`, or `rxInfo[].time` for each element.

A path with `[]` makes one row of each element of that array: an uplink that three gateways received is three rows. All
paths of a log that have `[]` go through the same arrays, so `rxInfo[].time` and `rxInfo[].gatewayId` belong together;
what has no `[]` is repeated. An array that is empty or missing makes one row without those values, so that no document
is lost in silence. A key that has a dot in it is taken as it is written, before the path.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from wmlab.core.errors import TraceError

EACH: Final = None
"""The step into each element of an array."""
PathStep = str | int | None
PathSteps = tuple[PathStep, ...]

NO_DOCUMENT: Final = "is no JSON"
NESTED: Final = "holds a nested value; name the path to a value in it"
NOT_UTF8: Final = "holds bytes that are not of the encoding"
_decode: Final = json.JSONDecoder().decode
_STEP: Final = re.compile(r"\.?([^.\[\]]+)|\[(-?\d*)\]")
_MOST_PATHS: Final = 40
_TEXTS: Final = frozenset((str, type(None)))


class DocumentRow(NamedTuple):
    """The values of the paths as texts, None where there is none; and what is wrong, with the path or None."""

    values: tuple[str | None, ...]
    fault: tuple[str | None, str] | None


def steps_of(path: str) -> PathSteps:
    """A path as its steps: a key, the index of an element, or `EACH`; the whole text as a key if it is no path."""
    steps: list[PathStep] = []
    at = 0
    while at < len(path):
        match = _STEP.match(path, at)
        if match is None:
            return (path,)
        steps.append(match[1] or (int(match[2]) if match[2] and match[2] != "-" else EACH))
        at = match.end()
    return tuple(steps)


def is_nested(path: str) -> bool:
    """Whether a name leads into a column."""
    return len(steps_of(path)) > 1


def has_undecoded(text: str) -> bool:
    """Whether a text has bytes that its encoding does not know, as `errors="surrogateescape"` keeps them."""
    return not text.isascii() and any("\udc80" <= letter <= "\udcff" for letter in text)


class Reader:
    """Rows of documents by paths; raises `TraceError` for paths that go through different arrays."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = tuple(paths)
        self._steps = [steps_of(path) for path in paths]
        arrays = {steps[: at + 1] for steps in self._steps for at, step in enumerate(steps) if step is EACH}
        self._arrays = sorted(arrays, key=len)
        for outer, inner in zip(self._arrays, self._arrays[1:], strict=False):
            if inner[: len(outer)] != outer:
                raise TraceError(
                    f"{', '.join(path for path in paths if '[]' in path)} go through different arrays.",
                    remedy="let all paths with [] go through one array, or name one element of the other, as in [0].",
                )
        self._plain = not any(map(is_nested, paths))

    def rows(self, text: str) -> list[DocumentRow]:
        """The rows of one text: a document, or an array of documents; none of a text of blanks."""
        if not text or text.isspace():
            return []
        if has_undecoded(text):
            return [self._bad(NOT_UTF8)]
        try:
            parsed = _decode(text)
        except (ValueError, RecursionError):
            return [self._bad(NO_DOCUMENT)]
        documents = parsed if isinstance(parsed, list) else [parsed]
        return [row for document in documents for row in self.of_document(document)]

    def of_document(self, document: Any) -> list[DocumentRow]:
        """The rows of one document."""
        if not isinstance(document, dict):
            return [self._bad(NO_DOCUMENT)]
        if self._plain:
            return [self._row(tuple(map(document.get, self._paths)))]
        return [
            self._row(tuple(_value(context, steps) for steps in self._steps)) for context in self._contexts(document)
        ]

    def _contexts(self, document: Any) -> list[dict[PathSteps, Any]]:
        """For each row of a document, what stands at its beginning and at each of the arrays."""
        contexts: list[dict[PathSteps, Any]] = [{(): document}]
        for array in self._arrays:
            contexts = [
                context | {array: element} for context in contexts for element in _elements(_value(context, array[:-1]))
            ]
        return contexts

    def _row(self, values: tuple[Any, ...]) -> DocumentRow:
        if _TEXTS.issuperset(map(type, values)):
            return DocumentRow(values, None)
        nested = (path for path, value in zip(self._paths, values, strict=True) if isinstance(value, dict | list))
        column = next(nested, None)
        return DocumentRow(tuple(map(_text, values)), None if column is None else (column, NESTED))

    def _bad(self, fault: str) -> DocumentRow:
        return DocumentRow((None,) * len(self._paths), (None, fault))


def _elements(array: Any) -> list[Any]:
    return array if isinstance(array, list) and array else [None]


def _value(context: Mapping[PathSteps, Any], steps: PathSteps) -> Any:
    """The value at the end of a path, from the innermost array that the path goes through."""
    start = next(array for array in reversed(list(context)) if steps[: len(array)] == array)
    return _at(context[start], steps[len(start) :])


def _at(value: Any, steps: PathSteps) -> Any:
    for at, step in enumerate(steps):
        if isinstance(value, dict) and isinstance(step, str):
            rest = steps[at:]
            dotted = ".".join(map(str, rest))
            if len(rest) > 1 and dotted in value:
                return value[dotted]
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and -len(value) <= step < len(value):
            value = value[step]
        else:
            return None
    return value


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, default=str) if isinstance(value, dict | list | bool) else str(value)


def paths_in(documents: Iterable[Any]) -> list[str]:
    """The paths to the values in some documents, as a reader would name them, in the order of their occurrence."""
    paths: dict[str, None] = {}
    for document in documents:
        paths |= dict.fromkeys(_paths(document, ""))
    return list(paths)[:_MOST_PATHS]


def _paths(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _paths(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and any(isinstance(element, dict) for element in value):
        for element in value:
            yield from _paths(element, f"{path}[]")
    elif path:
        yield path
