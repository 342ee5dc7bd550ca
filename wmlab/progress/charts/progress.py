"""Charts of progress by origin, sequence and chunk: who holds time back, and the gap that a prefix waits at."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from wmlab.core.charts.axis import Axis, Numbers, duration_unit, time_axis, time_words
from wmlab.core.charts.chart import Chart
from wmlab.core.charts.rows import one_value, plain_columns, whole
from wmlab.core.charts.scene import Between, Dots, Panel, Scene, Steps, joined
from wmlab.core.charts.steps import Standstill, Value, standstills, thin, thinned
from wmlab.core.errors import ChartError
from wmlab.core.words import counted, is_instant, listed, rounded
from wmlab.progress.answers.progress import arrived
from wmlab.progress.model.tracker import holding

_CAP: Final = 600
"""Points drawn at most of each curve, about."""
_HEIGHT: Final = 320.0
_NUMBERS: Final = (
    "arrival", "arrived_ms", "origin", "sequence", "watermark", "prefix", "local_watermark", "global_watermark",
)  # fmt: skip
_NAMES: Final = ("stream", "operator", "emitter")
_UNKNOWN: Final = ("local_watermark", "global_watermark")
_COLUMNS: Final = {
    "at_ms": "arrived_ms",
    "emitter": "emitter",
    "sequence": "sequence",
    "prefix": "prefix",
    "local": "local_watermark",
    "overall": "global_watermark",
}
"""The lists of a `ProgressTable`, each with its column."""


def progress(progressed: Any, *, title: str | None = None) -> Chart:
    """Draw the local watermark of every origin under the global one.

    `progressed` is a pandas or Spark DataFrame as `wmlab.progress.checks.progress` gives it, of one query and operator;
    it needs stream, operator, arrival, arrived_ms, origin, emitter, sequence, watermark, prefix, local_watermark and
    global_watermark. The origin that held the global watermark the longest is drawn in its own colour. Raises
    `ChartError` for a missing column, no rows, or several queries or operators.
    """
    table = _read_progress(progressed)
    sentence = _describe_progress(table)
    held = _stragglers(table, _longest(table))
    curves = [_local(table, emitter, "upper" if [emitter] == held else "perfect") for emitter in table.emitters]
    xs, ys = thinned(table.at_ms, table.overall, _CAP)
    curves.append(Steps(name="global", role="lower", xs=xs, ys=ys))
    watermarks = [value for curve in curves for value in curve.ys]
    scene = Scene(
        title=title or f"What is the watermark at {table.operator} of {table.stream}, and who holds it?",
        subtitle=sentence,
        across=_clock(table.at_ms),
        panels=[Panel(up=time_axis("watermark", watermarks, pad_percent=4), layers=joined(curves), height=_HEIGHT)],
    )
    data: dict[str, list[Any]] = {
        "at_ms": table.at_ms,
        "emitter": table.emitter,
        "local_watermark": table.local,
        "global_watermark": table.overall,
    }
    return Chart(sentence=sentence, data=data, scene=scene)


def sequence_prefix(progressed: Any, *, emitter: str | None = None, title: str | None = None) -> Chart:
    """Draw the longest complete prefix of one origin, the buffers that come, and the gap they wait behind.

    `progressed` is as for `progress`; `emitter` names the origin and may be left out if there is only one.
    Raises `ChartError` as `progress`, and for an origin that is not there.
    """
    table = _read_progress(progressed)
    chosen = _chosen(table, emitter)
    mine = table.of(chosen)
    sentence = _describe_prefix(mine, chosen, time_words(table.at_ms))
    at_ms, sequences = mine.at_ms, mine.sequence
    reached: list[Value] = [*mine.prefix]
    highest: list[Value] = [*itertools.accumulate(sequences, max)]
    kept = thin([reached, highest], _CAP)
    xs, below, above = [at_ms[i] for i in kept], [reached[i] for i in kept], [highest[i] for i in kept]
    scene = Scene(
        title=title or f"How long is the complete prefix of {chosen}?",
        subtitle=sentence,
        across=_clock(at_ms),
        panels=[
            Panel(
                up=Numbers("sequence number", 0, max(sequences) + 1),
                height=_HEIGHT,
                layers=[
                    Between(xs=xs, lows=below, highs=above),
                    Steps(name="highest seen", role="perfect", xs=xs, ys=above),
                    Steps(name="prefix", role="lower", xs=xs, ys=below),
                    Dots(name="arrival", role="upper", shape="circle", xs=at_ms, ys=sequences, size=2.2),
                ],
            )
        ],
    )
    return Chart(sentence=sentence, data={"at_ms": at_ms, "sequence": sequences, "prefix": reached}, scene=scene)


def _chosen(table: ProgressTable, emitter: str | None) -> str:
    if emitter is None and len(table.emitters) == 1:
        return table.emitters[0]
    if emitter not in table.emitters:
        named = "none is named" if emitter is None else f"{emitter!r} is none of them"
        raise ChartError(
            f"The table has the origins {', '.join(table.emitters)}; {named}.",
            remedy=f"Name one, for example emitter={table.emitters[0]!r}.",
        )
    return emitter


def _local(table: ProgressTable, emitter: str, role: str) -> Steps:
    """An origin's local watermark; it holds to the end of the table."""
    mine = table.of(emitter)
    xs, ys = thinned(mine.at_ms, mine.local, _CAP)
    return Steps(name=emitter, role=role, xs=[*xs, table.at_ms[-1]], ys=[*ys, mine.local[-1]])


def _clock(at_ms: Sequence[int]) -> Axis:
    low, high = min(at_ms), max(at_ms)
    high = high if low < high else high + 1_000
    return Axis("clock", low, high, is_instant(at_ms), duration_unit(high - low))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressTable:
    """The arrivals at one operator; all lists have one entry per arrival, None is unknown."""

    stream: str
    operator: str
    emitters: list[str]
    """The origins' names, in the order of their ids."""
    at_ms: list[int]
    emitter: list[str]
    sequence: list[int]
    prefix: list[int]
    local: list[Value]
    overall: list[Value]

    def of(self, emitter: str) -> ProgressTable:
        """The arrivals of one origin."""
        rows = [row for row, name in enumerate(self.emitter) if name == emitter]
        columns: dict[str, Any] = {name: [getattr(self, name)[row] for row in rows] for name in _COLUMNS}
        return replace(self, **columns)


def _read_progress(frame: Any) -> ProgressTable:
    """Read what `wmlab.progress.checks.progress` gives of a recording's buffers, as a pandas or Spark DataFrame.

    Raises `ChartError` for a missing column, no rows, several queries or operators, and a number that is none.
    """
    example = "what progress() makes of the table 'buffers' of a recording"
    cells = plain_columns(frame, (*_NAMES, *_NUMBERS), chart="A chart of progress", example=example)
    if not cells["arrival"]:
        raise ChartError("The table of progress has no rows.", remedy="Choose a query and an operator that has some.")
    for name in ("stream", "operator"):
        one_value(name, cells[name])
    columns: dict[str, list[Any]] = {
        name: [whole(name, value, unknown=name in _UNKNOWN) for value in cells[name]] for name in _NUMBERS
    }
    columns["emitter"] = [str(name) for name in cells["emitter"]]
    order = sorted(range(len(cells["arrival"])), key=lambda row: columns["arrival"][row])
    ids = {columns["emitter"][row]: columns["origin"][row] for row in order}
    return ProgressTable(
        stream=str(cells["stream"][0]),
        operator=str(cells["operator"][0]),
        emitters=sorted(ids, key=lambda name: ids[name]),
        **{name: [columns[column][row] for row in order] for name, column in _COLUMNS.items()},
    )


def _longest(table: ProgressTable) -> Standstill:
    """The longest standstill of the global watermark; the first one of several."""
    return max(standstills(table.at_ms, table.overall), key=lambda stretch: stretch.length_ms)


def _stragglers(table: ProgressTable, stretch: Standstill) -> list[str]:
    """The origins whose local watermark was the global one all through a stretch; without one, those unheard of."""
    last: dict[str, Value] = dict.fromkeys(table.emitters)
    for row in range(stretch.rows.stop):
        last[table.emitter[row]] = table.local[row]
    return holding(last, stretch.value)


def _describe_progress(table: ProgressTable) -> str:
    """The sentence of the chart of watermarks."""
    when = time_words(table.at_ms)
    stretch = _longest(table)
    known = [value for value in table.overall if value is not None]
    if not known:
        silent = _stragglers(table, stretch)
        names = listed(silent, most=3)
        who = f"; nothing complete came from {names}" if names else ", for a declared origin sent nothing"
        return f"The global watermark is unknown throughout{who}."
    value = "was unknown" if stretch.value is None else f"stood at {time_words(known)(stretch.value)}"
    end = "" if stretch.ended else ", the end of the table"
    by = listed(_stragglers(table, stretch), most=3) or "an origin that had not sent"
    back = sum(a > b for a, b in itertools.pairwise(known))
    falls = f" It went back {back} times." if back > 1 else " It went back once." if back else ""
    return (
        f"The global watermark {value} for {rounded(stretch.length_ms)} (from {when(stretch.from_ms)} to "
        f"{when(stretch.to_ms)}{end}), held by {by}.{falls}"
    )


def _describe_prefix(mine: ProgressTable, emitter: str, when: Callable[[int], str]) -> str:
    """The sentence of the chart of one origin's prefix, from its arrivals."""
    at_ms, prefix = mine.at_ms, mine.prefix
    waiting = _waiting(mine.sequence, prefix)
    most = max(waiting)
    if not most:
        every = f"All {len(prefix)} buffers" if len(prefix) > 1 else "The only buffer"
        return f"{every} of {emitter} came in order; its prefix never waited."
    # A gap is a stretch in which the prefix stands while something waits behind it.
    gapped: list[Value] = [p if w else None for p, w in zip(prefix, waiting, strict=True)]
    at_most = waiting.index(most)
    begin = next(place for place in range(at_most, -1, -1) if place == 0 or gapped[place - 1] != gapped[at_most])
    end = next((place for place in range(at_most, len(prefix)) if prefix[place] != prefix[at_most]), None)
    lacking = f"The prefix of {emitter} stood at {prefix[at_most]} for want of sequence {prefix[at_most] + 1}"
    later = counted(most, "later number")
    if end is None:
        return f"{lacking} from {when(at_ms[begin])} to the end; {later} {'waits' if most == 1 else 'wait'} behind it."
    jump = f"then the prefix jumped to {prefix[end]}"
    lasted = rounded(at_ms[end] - at_ms[begin])
    return f"{lacking} for {lasted} (from {when(at_ms[begin])}), with {later} behind it; {jump}."


def _waiting(sequences: Sequence[int], prefix: Sequence[int]) -> list[int]:
    """Of how many sequence numbers beyond the prefix something has come, after each arrival."""
    pending: set[int] = set()
    found, reached = [], 0
    for sequence, length in zip(sequences, prefix, strict=True):
        arrived(pending, sequence, reached, length)
        reached = length
        found.append(len(pending))
    return found
