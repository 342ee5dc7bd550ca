"""The chart of several lower bounds side by side: of streams that are joined, of readers of a group, of several runs.

What may use all of them is the smallest one; how far they are apart is for how long the ones ahead have to be kept.

Source: PDP-33, Applications reading from multiple streams; PDP-33, Client Changes (the least time of all readers).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from wmlab.core.charts.axis import held, shown_range, time_axis
from wmlab.core.charts.chart import SERIES, Chart, faults, plain_columns, whole
from wmlab.core.charts.scene import Between, Panel, Rule, Scene, Steps, Value, merge_equal, thin
from wmlab.core.errors import ChartError
from wmlab.core.recording import Recording
from wmlab.streams.answers.alignment import Alignment, bounds_by

_MOST: Final = 600
"""Points drawn of each curve at most, about."""


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
    at_ms = [whole("at_ms", at) or 0 for at in columns["at_ms"]]
    lowers = [whole("lower", lower, unknown=True) for lower in columns["lower"]]
    bounds = bounds_by(columns[by], columns.get("reader", [None] * len(at_ms)), at_ms, lowers)
    if not 2 <= len(bounds) <= len(SERIES):
        raise ChartError(
            f"A chart of aligned bounds shows two to four values of {by!r}; the table has {len(bounds)}.",
            remedy="Choose the column with by=..., or keep some of its values.",
        )
    aligned = Alignment.of(bounds)
    sentence = aligned.sentences(by)
    data: dict[str, list[Any]] = {"at_ms": [*aligned.at_ms]}
    data |= {f"lower of {name}": [*lower] for name, lower in aligned.lowers.items()}
    data |= {"aligned": aligned.smallest, "apart_ms": aligned.apart_ms}
    scene = _scene(aligned, sentence, title or f"Which {by} held the others back, and how far apart were they?", table)
    return Chart(sentence=sentence, data=data, scene=scene)


def _scene(aligned: Alignment, sentence: str, title: str, table: Any) -> Scene:
    at_ms, lowers, apart = aligned.at_ms, aligned.lowers, aligned.apart_ms
    rows = thin([*lowers.values(), aligned.smallest, apart], _MOST, xs=at_ms)
    xs = [at_ms[row] for row in rows]

    def drawn(ys: Sequence[Value]) -> list[Value]:
        return [ys[row] for row in rows]

    curves = [
        Steps(name=name, role=role, xs=xs, ys=drawn(lower))
        for (name, lower), role in zip(lowers.items(), ("upper", "third", "fourth", "lower"), strict=False)
    ]
    band = Between(xs=xs, lows=drawn(aligned.smallest), highs=drawn(aligned.largest))
    ends = shown_range([held(at_ms, lower) for lower in lowers.values()], least_ms=at_ms[-1] - at_ms[0])
    up = time_axis("lower bound", ends, pad_percent=5, clock=at_ms)
    below = time_axis(
        "apart by", [0, *shown_range([held(at_ms, apart)], least_ms=at_ms[-1] - at_ms[0])], pad_percent=12
    )
    return Scene(
        title=title,
        subtitle=sentence,
        across=time_axis("clock", at_ms),
        panels=[
            Panel(up=up, layers=[band, *merge_equal(curves)], height=230.0),
            Panel(
                up=below,
                layers=[Steps(name="distance", role="perfect", xs=xs, ys=drawn(apart))],
                height=110.0,
            ),
        ],
        rules=_rules(table),
    )


def _rules(table: Any) -> list[Rule]:
    """What happened to the streams of a recording; a table says nothing of that."""
    if not isinstance(table, Recording):
        return []
    streams = sorted({*table.table("windows")["stream"].to_pylist()})
    return list(dict.fromkeys(rule for stream in streams for rule in faults(table, stream)))
