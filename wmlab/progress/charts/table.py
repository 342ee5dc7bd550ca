"""From a table of progress, pandas or Spark, to plain lists in the order of arrival, with every mistake named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from wmlab.core.charts.steps import Value
from wmlab.core.errors import ChartError

NUMBERS: Final = (
    "arrival", "arrived_ms", "origin", "sequence", "watermark", "prefix", "local_watermark", "global_watermark",
)  # fmt: skip
NAMES: Final = ("stream", "operator", "emitter")
_UNKNOWN: Final = ("local_watermark", "global_watermark")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressTable:
    """The arrivals at one operator; all lists have one entry per arrival, None is unknown."""

    stream: str
    operator: str
    at_ms: list[int]
    emitter: list[str]
    emitters: list[str]
    """The origins' names, in the order of their ids."""
    sequence: list[int]
    watermark: list[int]
    prefix: list[int]
    local: list[Value]
    overall: list[Value]

    def of(self, emitter: str) -> list[int]:
        """The places of one origin's arrivals."""
        return [place for place, name in enumerate(self.emitter) if name == emitter]


def read_progress(frame: Any) -> ProgressTable:
    """Read what `wmlab.progress.checks.progress` gives of a recording's buffers, as a pandas or Spark DataFrame.

    Raises `ChartError` for a missing column, no rows, several queries or operators, and a number that is none.
    """
    columns = [str(name) for name in getattr(frame, "columns", ())]
    missing = [name for name in (*NAMES, *NUMBERS) if name not in columns]
    if missing:
        raise ChartError(
            f"The table of progress has no column {', '.join(map(repr, missing))}.",
            remedy="Pass what progress() makes of the table 'buffers' of a recording.",
        )
    cells = _cells(frame[[*NAMES, *NUMBERS]])
    if not cells["arrival"]:
        raise ChartError("The table of progress has no rows.", remedy="Choose a query and an operator that has some.")
    for name in ("stream", "operator"):
        _require_one(name, cells[name])
    numbers = {name: [_whole(name, value) for value in cells[name]] for name in NUMBERS}
    order = sorted(range(len(cells["arrival"])), key=lambda place: numbers["arrival"][place] or 0)
    ids = {str(cells["emitter"][place]): numbers["origin"][place] or 0 for place in order}
    made = {name: [numbers[name][place] for place in order] for name in NUMBERS}
    return ProgressTable(
        stream=str(cells["stream"][0]),
        operator=str(cells["operator"][0]),
        at_ms=_known(made["arrived_ms"]),
        emitter=[str(cells["emitter"][place]) for place in order],
        emitters=sorted(ids, key=lambda name: ids[name]),
        sequence=_known(made["sequence"]),
        watermark=_known(made["watermark"]),
        prefix=_known(made["prefix"]),
        local=made["local_watermark"],
        overall=made["global_watermark"],
    )


def _cells(frame: Any) -> dict[str, list[Any]]:
    if hasattr(frame, "toArrow"):
        table = frame.toArrow()
        return {name: table[name].to_pylist() for name in table.column_names}
    found = {}
    for name in frame.columns:
        unknown = frame[name].isna().tolist()
        found[str(name)] = [None if gone else v for v, gone in zip(frame[name].tolist(), unknown, strict=True)]
    return found


def _require_one(name: str, values: Sequence[Any]) -> None:
    found = sorted({str(value) for value in values})
    if len(found) > 1:
        raise ChartError(
            f"One chart shows one {name}, but the table has {len(found)}: {', '.join(found[:6])}.",
            remedy=f"Keep one of them, for example with frame[frame[{name!r}] == {found[0]!r}].",
        )


def _whole(name: str, value: Any) -> Value:
    if value is None and name in _UNKNOWN:
        return None
    if isinstance(value, bool | str) or value is None or int(value) != value:
        raise ChartError(f"Column {name!r} holds {value!r}.", remedy="Give whole numbers.")
    return int(value)


def _known(values: Sequence[Value]) -> list[int]:
    return [value for value in values if value is not None]
