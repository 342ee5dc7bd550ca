"""The description of a recording: the columns of its tables, and its `recording.json`.

A manifest holds no clock time and no name of a machine: two runs of one scenario with one seed have equal
manifests, and a manifest has one spelling as JSON.
"""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, get_args

import pyarrow as pa

from wmlab.core.errors import RecordingError

LONG: Final = pa.int64()
TEXT: Final = pa.string()
REAL: Final = pa.float64()
FLAG: Final = pa.bool_()
OFFSETS: Final = pa.map_(LONG, LONG)
ROW_GROUP = 1_048_576
"""How many rows of a table are written to disk at once; no more are held of one that leaves memory as it grows."""


def column(name: str, kind: pa.DataType, about: str, *, unit: str = "", nullable: bool = False) -> pa.Field:
    """A field whose metadata carries `about` and, if it has one, its `unit`."""
    return pa.field(name, kind, nullable=nullable, metadata={"about": about} | ({"unit": unit} if unit else {}))


def table(*columns: pa.Field) -> pa.Schema:
    """The schema of a table of these columns."""
    return pa.schema(columns)


INCIDENTS: Final = table(
    column("stream", TEXT, "the stream's name"),
    column("at_ms", LONG, "when it happened", unit="ms"),
    column("kind", TEXT, "what happened, in one word: scale, crash, restart, silence, speak and so on"),
    column("target", TEXT, "what it happened to: a node or process, the sealed segments, a store"),
    column("detail", TEXT, "one short phrase for a chart, for example '0@0 → 2@1, 3@1'"),
)
"""The table `incidents`, which recordings of all kinds have."""


MANIFEST_FILE: Final = "recording.json"
"""The file that makes a directory a recording."""

MOST_BYTES: Final = 64 * 2**20
"""How large that file may be."""

Origin = Literal["simulation", "trace"]
"""Where the events came from: wmlab's own clock, or a log of the outside world."""

SCHEMA_VERSION: Final = 6
"""Raised whenever a table has other columns, or a column changes meaning, type or name."""

_FORMAT: Final = "wmlab recording"
_FIELDS: Final = ("wmlab_version", "kind", "name", "source", "seed", "finished")
"""The fields that the file has as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The description of a recording.

    `kind` is its model, for example "streams"; `scenario_json` is the scenario as JSON text, None if there was none;
    `rows` is the row count of every table of that kind; `finished` is False if the run was stopped before its end;
    `wmlab_version` is None when an uninstalled wmlab recorded it.
    """

    name: str
    kind: str
    source: Origin
    scenario_json: str | None
    seed: int | None
    finished: bool
    rows: tuple[tuple[str, int], ...]
    wmlab_version: str | None
    schema_version: int = SCHEMA_VERSION

    def __post_init__(self) -> None:
        mistakes = [
            f"{key} is {value!r}, expected {words}"
            for key, value, admitted, words in (
                ("name", self.name, isinstance(self.name, str) and bool(self.name), "a text that is not empty"),
                ("kind", self.kind, isinstance(self.kind, str) and bool(self.kind), "the name of a model"),
                ("source", self.source, self.source in get_args(Origin), "'simulation' or 'trace'"),
                ("seed", self.seed, self.seed is None or type(self.seed) is int, "an integer or null"),
                ("finished", self.finished, type(self.finished) is bool, "true or false"),
                ("wmlab_version", self.wmlab_version, isinstance(self.wmlab_version, str | None), "a text or null"),
                ("rows", dict(self.rows), _are_counts(dict(self.rows)), "a count for each table"),
            )
            if not admitted
        ]
        if mistakes:
            raise RecordingError("; ".join(mistakes) + ".", remedy="correct the values named above.")

    @property
    def scenario(self) -> dict[str, Any] | None:
        """The scenario as plain data, a fresh copy at each call; None if there was none."""
        return None if self.scenario_json is None else json.loads(self.scenario_json)

    def to_json(self) -> str:
        """The text of `recording.json`."""
        fields = {name: getattr(self, name) for name in ("schema_version", *_FIELDS)}
        content = {"format": _FORMAT, **fields, "rows": dict(self.rows), "scenario": self.scenario}
        return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str, *, where: str) -> Manifest:
        """Parse `recording.json`; `where` names the file in errors.

        Raises `RecordingError`: broken JSON, foreign file, other schema version, or fields that are wrong.
        """
        content = cls.require_ours(text, where=where)
        if content.get("schema_version") != SCHEMA_VERSION:
            raise _other_version(content.get("schema_version"), where)
        missing = [key for key in (*_FIELDS, "rows") if key not in content]
        if missing or not isinstance(content.get("scenario"), dict | None):
            wrong = f"it lacks {', '.join(missing)}" if missing else "its scenario is not an object"
            raise damaged(f"{where} is damaged: {wrong}.")
        rows = content["rows"] if isinstance(content["rows"], dict) else {}
        try:
            fields = {name: content[name] for name in _FIELDS}
            scenario_json = scenario_text(content.get("scenario"))
            return cls(scenario_json=scenario_json, rows=tuple(rows.items()), **fields)
        except RecordingError as wrong:
            raise damaged(f"{where} is damaged: {wrong.problem}") from wrong

    def of_tables(self, names: Collection[str], *, where: str) -> Manifest:
        """The manifest with the counts of these tables, in this order; `where` names the file in errors.

        Raises `RecordingError` if the count of one is missing, or there is another.
        """
        counts = dict(self.rows)
        if counts.keys() != set(names):
            wrong = f"rows is {counts!r}, expected a count for each of {list(names)}"
            raise damaged(f"{where} is damaged: {wrong}.")
        return replace(self, rows=tuple((name, counts[name]) for name in names))

    @staticmethod
    def require_ours(text: str, *, where: str) -> dict[str, Any]:
        """The content of a manifest of any schema version; raises `RecordingError` if it is broken or foreign."""
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as broken:
            raise damaged(f"{where} is broken JSON: {broken}.") from broken
        if not isinstance(content, dict) or content.get("format") != _FORMAT:
            raise RecordingError(
                f"{where} was not written by wmlab.", remedy="give a directory that Recording.save wrote."
            )
        return content


def damaged(problem: str) -> RecordingError:
    """The error of a recording that is not as it was written."""
    return RecordingError(problem, remedy="record or copy the whole directory again.")


def scenario_text(scenario: Mapping[str, Any] | None) -> str | None:
    """A scenario as canonical JSON text; raises `RecordingError` if it is not plain JSON data."""
    if scenario is None:
        return None
    try:
        if not isinstance(scenario, Mapping):
            raise TypeError(f"it is a {type(scenario).__name__}")
        return json.dumps(dict(scenario), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as wrong:
        raise RecordingError(
            f"the scenario is not plain data: {wrong}.",
            remedy="give a dict of texts, numbers, booleans, None, lists and dicts.",
        ) from wrong


def installed_version() -> str | None:
    """The version of wmlab that is running; None when it runs from a directory without being installed."""
    try:
        return importlib.metadata.version("wmlab")
    except importlib.metadata.PackageNotFoundError:
        return None


def _other_version(version: object, where: str) -> RecordingError:
    if type(version) is not int:
        return damaged(f"{where} is damaged: schema_version is {version!r}, expected an integer.")
    if version > SCHEMA_VERSION:
        return RecordingError(
            f"{where} has schema version {version}, newer than {SCHEMA_VERSION}, the newest this wmlab reads.",
            remedy="install a newer wmlab.",
        )
    return RecordingError(
        f"{where} was recorded by an older wmlab: it has schema version {version}, this one reads {SCHEMA_VERSION}.",
        remedy="record its scenario again.",
    )


def _are_counts(rows: Mapping[str, Any]) -> bool:
    return bool(rows) and all(type(count) is int and count >= 0 for count in rows.values())
