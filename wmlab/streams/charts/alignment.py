"""The chart of several lower bounds side by side: of streams that are joined, of readers of a group, of several runs.

What may use all of them is the smallest one; how far they are apart is for how long the ones ahead have to be kept.

Source: PDP-33, Applications reading from multiple streams; PDP-33, Client Changes (the least time of all readers).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from wmlab.core.charts.axis import OverTime, bulk_of_curves, time_axis
from wmlab.core.charts.chart import SERIES, Chart, faults, plain_columns, when, whole
from wmlab.core.charts.scene import Between, Panel, Rule, Scene, Steps, Value, at_rim, merge_equal, thin
from wmlab.core.errors import ChartError
from wmlab.core.recording import Recording
from wmlab.core.words import counted, listed, rounded
from wmlab.streams.charts.intervals import lengths_ms

_MOST: Final = 600
"""Points drawn of each curve at most, about."""
_Curve = Mapping[int, Value]
"""A lower bound by the clock time from which on it holds, ascending."""


def alignment(table: Any, *, by: str = "stream", title: str | None = None) -> Chart:
    """Draw a lower bound for each value of the column `by` over the clock, and how far apart they are.

    `table` is a recording of streams, whose windows are drawn, or a pandas or Spark DataFrame with the columns at_ms
    (clock, ms), lower (event time in ms, null if unknown) and the one that `by` names: "stream", "reader", or one that
    says from which run a row is. A row holds until the next one of its value; of a value that several readers have in a
    column `reader`, the smallest bound of them counts. The smallest of all is known where each one is. Raises
    `ChartError` for anything else, for a missing column, fewer than two values or more than four, or when all are never
    known at once.
    """
    optional = ["reader"] if by != "reader" else []
    columns = plain_columns(
        table,
        ["at_ms", "lower", by],
        optional,
        chart="A chart of aligned bounds",
        example="recording.to_pandas('windows')",
        recorded="windows",
    )
    bounds = _bounds(columns, by)
    if not 2 <= len(bounds) <= len(SERIES):
        raise ChartError(
            f"A chart of aligned bounds shows two to four values of {by!r}; the table has {len(bounds)}.",
            remedy="Choose the column with by=..., or keep some of its values.",
        )
    at_ms = sorted({at for curve in bounds.values() for at in curve})
    lowers = {name: _held(curve, at_ms) for name, curve in bounds.items()}
    rows = [[bound for bound in row if bound is not None] for row in zip(*lowers.values(), strict=True)]
    aligned = [min(known) if len(known) == len(lowers) else None for known in rows]
    furthest = [max(known) if len(known) == len(lowers) else None for known in rows]
    apart = [None if low is None or high is None else high - low for low, high in zip(aligned, furthest, strict=True)]
    sentence = _sentence(by, at_ms, lowers, apart)
    data: dict[str, list[Any]] = {"at_ms": at_ms} | {f"lower of {name}": lower for name, lower in lowers.items()}
    scene = _scene(by, title, sentence, at_ms, lowers, (aligned, furthest, apart), _rules(table))
    return Chart(sentence=sentence, data=data | {"aligned": aligned, "apart_ms": apart}, scene=scene)


def _bounds(columns: Mapping[str, list[Any]], by: str) -> dict[str, _Curve]:
    """The lower bound of each value: the smallest of those that its readers have."""
    curves_by_value: dict[str, dict[Any, dict[int, Value]]] = {}
    readers = columns.get("reader", [None] * len(columns["at_ms"]))
    cells = zip(columns["at_ms"], columns["lower"], columns[by], readers, strict=True)
    rows = [
        (whole("at_ms", at) or 0, whole("lower", lower, unknown=True), name, reader)
        for at, lower, name, reader in cells
    ]
    for at, lower, name, reader in sorted(rows, key=lambda row: row[0]):
        curves_by_value.setdefault(str(name), {}).setdefault(reader, {})[at] = lower
    return {name: _smallest([*curves.values()]) for name, curves in sorted(curves_by_value.items())}


def _smallest(curves: Sequence[_Curve]) -> _Curve:
    """The smallest of curves, each from its first row on; unknown while one of them is."""
    at_ms = sorted({at for curve in curves for at in curve})
    lowers = [_held(curve, at_ms) for curve in curves]
    begins = [min(curve) for curve in curves]
    smallest: dict[int, Value] = {}
    for at, *row in zip(at_ms, *lowers, strict=True):
        begun = [lower for lower, begin in zip(row, begins, strict=True) if at >= begin]
        known = [lower for lower in begun if lower is not None]
        smallest[at] = min(known) if len(known) == len(begun) else None
    return smallest


def _held(curve: _Curve, at_ms: Iterable[int]) -> list[Value]:
    """Its value at each of these times, which include its own."""
    lower: Value = None
    values = []
    for at in at_ms:
        lower = curve.get(at, lower)
        values.append(lower)
    return values


def _scene(
    by: str,
    title: str | None,
    sentence: str,
    at_ms: Sequence[int],
    lowers: Mapping[str, list[Value]],
    together: tuple[list[Value], list[Value], list[Value]],
    rules: Sequence[Rule],
) -> Scene:
    aligned, furthest, apart = together
    rows = thin([*lowers.values(), aligned, apart], _MOST, xs=at_ms)
    xs = [at_ms[row] for row in rows]

    def drawn(ys: Sequence[Value]) -> list[Value]:
        return [ys[row] for row in rows]

    curves = [
        Steps(name=name, role=role, xs=xs, ys=drawn(lower))
        for (name, lower), role in zip(lowers.items(), ("upper", "third", "fourth", "lower"), strict=False)
    ]
    band = Between(xs=xs, lows=drawn(aligned), highs=drawn(furthest))
    times = {f"the bound of {name}": OverTime.steps(at_ms, lower) for name, lower in lowers.items()}
    ends = bulk_of_curves(times.values(), times.values(), least_ms=at_ms[-1] - at_ms[0])
    up = time_axis("lower bound", ends, pad_percent=5, clock=at_ms)
    width = {"the distance": OverTime.steps(at_ms, apart)}
    below = time_axis("apart by", [0, *bulk_of_curves(width.values())], pad_percent=12)
    said = [text for text in (up.said_beyond(times), below.said_beyond(width)) if text]
    return Scene(
        title=title or f"Which {by} held the others back, and how far apart were they?",
        subtitle=" ".join([sentence, *said]),
        across=time_axis("clock", at_ms),
        panels=[
            Panel(up=up, layers=at_rim(up, [band, *merge_equal(curves)]), height=230.0),
            Panel(
                up=below,
                layers=at_rim(below, [Steps(name="distance", role="perfect", xs=xs, ys=drawn(apart))]),
                height=110.0,
            ),
        ],
        rules=rules,
    )


def _rules(table: Any) -> list[Rule]:
    """What happened to the streams of a recording; a table says nothing of that."""
    if not isinstance(table, Recording):
        return []
    streams = sorted({*table.table("windows")["stream"].to_pylist()})
    return list(dict.fromkeys(rule for stream in streams for rule in faults(table, stream)))


def _sentence(by: str, at_ms: Sequence[int], lowers: Mapping[str, list[Value]], apart: Sequence[Value]) -> str:
    """The answer: which value was last for how long, and how far apart they were."""
    known = [(row, length) for row, length in enumerate(lengths_ms(at_ms)) if apart[row] is not None]
    total_ms = sum(length for _, length in known)
    if not known:
        raise ChartError(
            f"The lower bounds of {listed([*lowers])} are never all known at once.",
            remedy="Ask recording.explain() what held them back, or keep the values whose bounds are known.",
        )
    last = dict.fromkeys(lowers, 0)
    mean = 0
    for row, length in known:
        width = apart[row] or 0
        mean += width * length
        for name, lower in lowers.items():
            last[name] += length if width and lower[row] == min(other[row] or 0 for other in lowers.values()) else 0
    name = max(last, key=lambda each: last[each])
    widest = max((row for row, _ in known), key=lambda row: apart[row] or 0)
    text = f"{counted(len(lowers), by)} had a lower bound for {rounded(total_ms)}"
    if not apart[widest]:
        return f"{text}, and it was the same one all the time."
    apart_ms, at = rounded(round(mean / max(total_ms, 1))), when(at_ms[widest], span_ms=at_ms[-1] - at_ms[0])
    return (
        f"{text}; {name} had the smallest one for {rounded(last[name])}. They were {apart_ms} apart on average, and "
        f"{rounded(apart[widest] or 0)} at most, at {at}."
    )
