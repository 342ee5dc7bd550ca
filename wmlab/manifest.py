"""What a recording says about itself, as kept in its `recording.json`.

A manifest holds no clock time and no name of a machine: two runs of one scenario with one seed have equal
manifests, and a manifest has one spelling as JSON.
"""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from wmlab.errors import RecordingError
from wmlab.tables import SCHEMA_VERSION, TABLES

MANIFEST_FILE: Final = "recording.json"
"""The file that makes a directory a recording."""

Source = Literal["simulation", "trace"]
"""Where the events came from: wmlab's own clock, or a log of the outside world."""

_FORMAT: Final = "wmlab recording"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What was run and what came of it.

    `scenario_json` is the scenario as JSON text, None if there was none; `rows` is the row count of every table,
    in the order of `wmlab.tables.TABLES`; `finished` is False if the run was stopped before its end;
    `wmlab_version` is None when an uninstalled wmlab recorded it.
    """

    name: str
    source: Source
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
                ("source", self.source, self.source in get_args(Source), "'simulation' or 'trace'"),
                ("seed", self.seed, self.seed is None or type(self.seed) is int, "an integer or null"),
                ("finished", self.finished, type(self.finished) is bool, "true or false"),
                ("wmlab_version", self.wmlab_version, _text_or_none(self.wmlab_version), "a text or null"),
                ("rows", dict(self.rows), _counts_all_tables(dict(self.rows)), f"a count for each of {list(TABLES)}"),
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
        content = {
            "format": _FORMAT,
            "schema_version": self.schema_version,
            "wmlab_version": self.wmlab_version,
            "name": self.name,
            "source": self.source,
            "seed": self.seed,
            "finished": self.finished,
            "rows": dict(self.rows),
            "scenario": self.scenario,
        }
        return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str, *, where: str) -> Manifest:
        """Parse `recording.json`; `where` names the file in errors.

        Raises `RecordingError`: broken JSON, foreign file, other schema version, or fields that are wrong.
        """
        content = cls.require_ours(text, where=where)
        version = content.get("schema_version")
        if version != SCHEMA_VERSION:
            raise _other_version(version, where)
        missing = [key for key in ("wmlab_version", "name", "source", "seed", "finished", "rows") if key not in content]
        if missing or not isinstance(content.get("scenario"), dict | None):
            wrong = f"it lacks {', '.join(missing)}" if missing else "its scenario is not an object"
            raise RecordingError(f"{where} is damaged: {wrong}.", remedy="record or copy the whole directory again.")
        rows = content["rows"] if isinstance(content["rows"], dict) else {}
        try:
            return cls(
                name=content["name"],
                source=content["source"],
                scenario_json=scenario_text(content.get("scenario")),
                seed=content["seed"],
                finished=content["finished"],
                rows=_in_table_order(rows),
                wmlab_version=content["wmlab_version"],
            )
        except RecordingError as wrong:
            raise RecordingError(
                f"{where} is damaged: {wrong.problem}", remedy="record or copy the whole directory again."
            ) from wrong

    @staticmethod
    def require_ours(text: str, *, where: str) -> dict[str, Any]:
        """The content of a manifest of any schema version; raises `RecordingError` if it is broken or foreign."""
        try:
            content = json.loads(text)
        except json.JSONDecodeError as broken:
            raise RecordingError(
                f"{where} is broken JSON: {broken}.", remedy="record or copy the whole directory again."
            ) from broken
        if not isinstance(content, dict) or content.get("format") != _FORMAT:
            raise RecordingError(
                f"{where} was not written by wmlab.", remedy="give a directory that Recording.save wrote."
            )
        return content


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
        return RecordingError(
            f"{where} is damaged: schema_version is {version!r}, expected an integer.",
            remedy="record or copy the whole directory again.",
        )
    if version > SCHEMA_VERSION:
        return RecordingError(
            f"{where} has schema version {version}, newer than {SCHEMA_VERSION}, the newest this wmlab reads.",
            remedy="install a newer wmlab.",
        )
    return RecordingError(
        f"{where} has schema version {version}, older than {SCHEMA_VERSION}, the one this wmlab reads.",
        remedy="record its scenario again.",
    )


def _in_table_order(rows: Mapping[str, Any]) -> tuple[tuple[str, int], ...]:
    known = [name for name in TABLES if name in rows]
    return tuple((name, rows[name]) for name in [*known, *(name for name in rows if name not in TABLES)])


def _counts_all_tables(rows: Mapping[str, Any]) -> bool:
    return list(rows) == list(TABLES) and all(type(count) is int and count >= 0 for count in rows.values())


def _text_or_none(value: object) -> bool:
    return value is None or isinstance(value, str)
