"""From a table of time bounds, pandas or Spark, to plain lists in the reader's order, with every mistake named."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from wmlab.core.charts.steps import Value
from wmlab.core.errors import ChartError

REQUIRED: Final[tuple[str, ...]] = ("stream", "at_ms", "lower", "upper")
_TIMES: Final[tuple[str, ...]] = ("at_ms", "lower", "upper", "perfect_watermark")
_KEYS: Final = ("stream", "group", "segment_id")
_OPTIONAL: Final[tuple[str, ...]] = ("group", "segment_id", "version", "perfect_watermark", "happened")
_VERBS: Final[dict[str, str]] = {
    "crash": "crashes",
    "restart": "restarts",
    "silence": "falls silent",
    "speak": "speaks again",
}


@dataclass(frozen=True, slots=True, order=True)
class Happening:
    """Something that happened to the stream: when, its kind (scale, crash, restart, silence, speak), and to what."""

    at_ms: int
    kind: str
    what: str

    @property
    def label(self) -> str:
        """What a chart writes beside its line: "w2 crashes", "scale 0@0 → 2@1, 3@1", "payments aborts"."""
        if self.kind in _VERBS and self.what:
            return f"{self.what} {_VERBS[self.kind]}"
        # Only of a scale the phrase is no sentence of its own.
        return f"{self.kind} {self.what}".strip() if self.kind == "scale" or not self.what else self.what


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundsTable:
    """The bounds that one reader or group saw, ascending by `at_ms`; None is unknown.

    `perfect_watermark` is None as a whole if the table has no such column.
    """

    stream: str
    group: str | None
    at_ms: list[int]
    lower: list[Value]
    upper: list[Value]
    perfect_watermark: list[Value] | None
    happened: list[Happening]


def read_bounds(frame: Any) -> BoundsTable:
    """Read a pandas DataFrame, or a Spark one (anything with `columns`, `[...]` and `toArrow()`).

    Needs `stream`, `at_ms`, `lower`, `upper`; uses `group`, `segment_id`, `version`, `perfect_watermark` and `happened`
    if they are there. Raises `ChartError` for a missing column, no rows, a time that is no integer, or rows of several
    streams, groups or segments.
    """
    columns = _columns(frame)
    _require(columns)
    wanted = [name for name in (*REQUIRED, *_OPTIONAL) if name in columns]
    cells = _cells(frame[wanted], wanted)
    if not cells["at_ms"]:
        raise ChartError(
            "The table of bounds has no rows.",
            remedy="Draw a recording in which a reader read something, or loosen the filter.",
        )
    _require_one_series(cells)
    times = {name: _integers(name, cells[name]) for name in _TIMES if name in cells}
    order = _order(times, cells)
    group = cells.get("group", [None])[0]
    return BoundsTable(
        stream=str(cells["stream"][0]),
        group=None if group is None else str(group),
        at_ms=[value for i in order if (value := times["at_ms"][i]) is not None],
        lower=[times["lower"][i] for i in order],
        upper=[times["upper"][i] for i in order],
        perfect_watermark=[times["perfect_watermark"][i] for i in order] if "perfect_watermark" in times else None,
        happened=_happenings(cells.get("happened", [])),
    )


def _columns(frame: Any) -> list[str]:
    columns = getattr(frame, "columns", None)
    if columns is None or not hasattr(frame, "__getitem__"):
        raise ChartError(
            f"A chart of time bounds cannot be drawn from a {type(frame).__name__}.",
            remedy="Pass a pandas or Spark DataFrame, for example recording.time_bounds(spark).",
        )
    return [str(name) for name in columns]


def _require(columns: list[str]) -> None:
    missing = [name for name in REQUIRED if name not in columns]
    if missing:
        raise ChartError(
            f"The table has no column {_and(missing)}; it has {_and(columns) if columns else 'no columns'}.",
            remedy=f"Pass a table with the columns {_and(REQUIRED)}, for example recording.time_bounds(spark).",
        )


def _require_one_series(cells: Mapping[str, list[Any]]) -> None:
    for name in _KEYS:
        values = sorted({str(value) for value in cells.get(name, [])})
        if len(values) > 1:
            shown = ", ".join(values[:6]) + (", …" if len(values) > 6 else "")
            example = next(value for value in cells[name] if value is not None)
            raise ChartError(
                f"One chart shows one {name.removesuffix('_id')}, but the table has {len(values)}: {shown}.",
                remedy=f"Keep one of them, for example with bounds[bounds[{name!r}] == {example!r}].",
            )


def _cells(frame: Any, names: Iterable[str]) -> dict[str, list[Any]]:
    """The values by column; from Spark by way of Arrow, since pandas turns whole numbers with unknowns into floats."""
    if hasattr(frame, "toArrow"):
        table = frame.toArrow()
        return {name: table[name].to_pylist() for name in names}
    return {name: _plain(frame[name]) for name in names}


def _plain(column: Any) -> list[Any]:
    unknown = column.isna().tolist()
    return [None if gone else value for value, gone in zip(column.tolist(), unknown, strict=True)]


def _integers(name: str, values: Iterable[Any]) -> list[Value]:
    return [_integer(name, value) for value in values]


def _integer(name: str, value: Any) -> Value:
    if value is None and name != "at_ms":
        return None
    try:
        whole = int(value)
    except (TypeError, ValueError, OverflowError):
        whole = None
    if whole is None or isinstance(value, str) or whole != value:
        raise ChartError(
            f"Column {name!r} holds {value!r}, which is no time.",
            remedy="Give times as whole milliseconds; an unknown bound is null, and at_ms is never unknown.",
        )
    return whole


def _order(times: Mapping[str, list[Value]], cells: Mapping[str, list[Any]]) -> list[int]:
    """Row numbers by clock, then by version; rows that still tie are ordered by what they say, so the result is one."""
    versions = cells.get("version") or [0] * len(times["at_ms"])
    names = [name for name in ("lower", "upper", "perfect_watermark") if name in times]

    def key(i: int) -> tuple[Any, ...]:
        said = [(value is not None, value or 0) for value in (times[name][i] for name in names)]
        return times["at_ms"][i], versions[i] if versions[i] is not None else -1, *said

    return sorted(range(len(times["at_ms"])), key=key)


def _happenings(cells: Iterable[Any]) -> list[Happening]:
    found = {_happening(entry) for cell in cells if cell is not None for entry in cell}
    return sorted(found)


def _happening(entry: Any) -> Happening:
    fields = entry.asDict() if hasattr(entry, "asDict") else entry
    if not isinstance(fields, Mapping) or not {"at_ms", "kind", "what"} <= fields.keys():
        raise ChartError(
            f"Column 'happened' holds {entry!r}.",
            remedy="Give each cell as a list of structs with at_ms, kind and what, or null.",
        )
    at_ms = _integer("at_ms", fields["at_ms"])
    kind, what = str(fields["kind"]), "" if fields["what"] is None else str(fields["what"])
    return Happening(at_ms or 0, kind, what.removesuffix(_VERBS.get(kind, "")).strip())


def _and(names: Iterable[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
