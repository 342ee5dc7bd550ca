"""The chart of lower and upper time bounds: how far a reader has come in event time, and how sure that is."""

from __future__ import annotations

from typing import Any

from wmlab.core.charts.chart import Chart
from wmlab.streams.charts.bounds_facts import describe, find_facts
from wmlab.streams.charts.bounds_picture import compose
from wmlab.streams.charts.bounds_plotly import draw_plotly
from wmlab.streams.charts.bounds_svg import draw_svg
from wmlab.streams.charts.bounds_table import BoundsTable, read_bounds


def time_bounds(bounds: Any, *, title: str | None = None) -> Chart:
    """Draw the lower and upper bound of one reader or group over its clock, with the truth between them.

    `bounds` is a pandas or Spark DataFrame with the columns `stream`, `at_ms` (the reader's clock, ms), `lower` and
    `upper` (event time in ms, null if unknown), one row per position. It may have `perfect_watermark` (the smallest
    event time still to come, null if nothing is) and `happened` (a list of structs `at_ms`, `kind`, `what`, drawn as
    vertical lines; `what` names who crashed, or says it: "w2" or "w2 crashes"). Rows are sorted by `at_ms` and, if
    there, by `version`. Times from 1973 on, in ms since 1970, are written as dates in UTC; smaller ones as durations.

    The panel below shows each bound minus the perfect watermark, or minus the clock if the truth is not known. `title`
    replaces the question above the chart; the sentence under it is the answer, computed from all rows.

    Raises `ChartError` for a missing column, no rows, a time that is no integer, or rows of several streams, groups
    or segments.
    """
    table = read_bounds(bounds)
    facts = find_facts(table)
    sentence = describe(table, facts)
    picture = compose(table, facts, sentence, title)
    return Chart(sentence=sentence, data=_data(table), figure=draw_plotly(picture), svg=draw_svg(picture))


def _data(table: BoundsTable) -> dict[str, list[Any]]:
    data: dict[str, list[Any]] = {"at_ms": table.at_ms, "lower": table.lower, "upper": table.upper}
    if table.perfect_watermark is not None:
        data["perfect_watermark"] = table.perfect_watermark
    happened = [{"at_ms": h.at_ms, "kind": h.kind, "what": h.what} for h in table.happened]
    return data | {"happened": happened}
