"""The chart of lower and upper time bounds: what the log says at the position of a group, and what its readers saw.

The main panel has the clock to the right and event time upwards. There both bounds rise along the diagonal and their
distance is hard to see, so a panel below shows it: bound minus perfect watermark, or bound minus clock if the perfect
watermark is not known and both are measured alike. Between the two a strip shows the exceptions: where there is no
lower bound, where there is an upper one, and where the lower bound is above the perfect watermark.

What the bounds mean, and what is said of them, is in `wmlab.streams.answers.bounds_table`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import compress
from typing import Any, Final

from wmlab.core.charts.axis import Axis, Piece, duration_unit, held, shown_range, sloping, time_axis, time_words
from wmlab.core.charts.chart import (
    Chart,
    drawn_words,
    one_value,
    plain_columns,
    rules_of,
    share_of,
    the_recording,
    whole,
)
from wmlab.core.charts.scene import (
    Between,
    Blocks,
    Box,
    Dots,
    Layer,
    Panel,
    Path,
    Scene,
    Shape,
    Steps,
    Value,
    behind_clock,
    dots,
    known_spans,
    lanes,
    minus,
    thin,
    thinned,
    unknown_spans,
)
from wmlab.core.errors import ChartError
from wmlab.core.recording import Recording
from wmlab.streams.answers.bounds_table import (
    BoundsTable,
    Incident,
    bounds_head,
)
from wmlab.streams.answers.cause import held_by, longest_cause
from wmlab.streams.answers.curves import LOG, Curve, Curves
from wmlab.streams.answers.explain import explain_curve
from wmlab.streams.answers.head_labels import asked
from wmlab.streams.answers.history import the_stream
from wmlab.streams.answers.lag import SeenWindows, seen_windows

CAP: Final = 800
"""Rows drawn at most, about: more than a notebook is wide in pixels, and few enough to store."""

_MOST_POLLS: Final = 200
"""Polls of each reader drawn at most, of those with a known bound."""
_STRIP: Final = 16.0
_REQUIRED: Final = ("stream", "at_ms", "lower", "upper")
_OPTIONAL: Final = (
    "group",
    "reader",
    "segment_id",
    "version",
    "perfect_watermark",
    "incidents",
    "visible",
)
_BOUNDS: Final = ("lower", "upper", "perfect_watermark")


def time_bounds(
    bounds: Any, *, recording: Recording | None = None, group: str | None = None, title: str | None = None
) -> Chart:
    """Draw the lower and upper bound at the position of a group over the clock, with the perfect watermark between.

    `bounds` is a pandas or Spark DataFrame with the columns `stream`, `at_ms` (clock, ms), `lower` and `upper` (event
    time in ms, null if unknown); a row holds until the next one. It may have `perfect_watermark` (the smallest event
    time still to come, null if nothing is) and `incidents` (a list of structs `at_ms`, `kind`, `what`, drawn as
    vertical lines; `what` is a sentence such as "w2 crashes"), and `reader` (then the bounds are those that this reader
    saw). With `visible` of "all" title and sentence say that the bounds are
    those of the complete log. Rows are sorted by `at_ms` and, if there, by `version`. Times from 1973 on, in ms since
    1970, are written as dates in UTC, and with such a clock all event times; smaller ones as durations.

    With the `recording` of the bounds the sentence names what held the curve while it stopped for longest, dots show
    the bounds that the readers of the group saw at their polls, and a click on the chart, while a kernel runs, shows
    what `explain` says of that curve at that moment. `group` chooses one of several groups. The lower panel shows each
    bound minus the perfect watermark, or minus the clock if that is not known. `title` replaces the question above the
    chart; the sentence under it is the answer, computed from all rows and the time for which each is valid. The lower
    bound decides the range of the axes, without distant values that it has only for a short time; the other curves are
    drawn as far as they are in this range.

    Raises `ChartError` for a missing column, no rows, a time that is not an integer, or rows of several streams, groups
    or segments.
    """
    return draw_bounds(read_bounds(bounds, group=group), recording=recording, title=title)


def draw_bounds(table: BoundsTable, *, recording: Recording | None = None, title: str | None = None) -> Chart:
    """The chart of bounds that were read; with the `recording` that they are of, one that answers clicks.

    Raises `ChartError` if there are no rows.
    """
    _require_rows(table.at_ms)
    curves, curve = None, LOG
    if recording is not None:
        recording = the_recording(recording, "watermarks", "cycles")
        curves = Curves(recording, the_stream(recording, table.stream))
        # Bounds at the positions of events, and those in hindsight, are not a curve of a group.
        if not table.complete_log and (table.reader is not None or table.group in curves.tables.groups):
            curve = Curve(group=table.group, reader=table.reader)
        end_ms = None if table.reader is None else curves.reader_until_ms(table.reader)
        table = table if end_ms is None else table.until(end_ms)
        table = replace(table, seen=_seen_by(curves, recording, table))
    head = (
        bounds_head(table)
        if curves is None or table.complete_log
        else bounds_head(table, partial(_held_by, curves, curve))
    )
    data: dict[str, list[Any]] = {"at_ms": table.at_ms, "lower": table.lower, "upper": table.upper}
    if table.perfect_watermark is not None:
        data["perfect_watermark"] = table.perfect_watermark
    data["incidents"] = [{"at_ms": row.at_ms, "kind": row.kind, "what": row.what} for row in table.incidents]
    scene = _compose(table, head.headline, title)
    drawn: dict[str, Any] = {"sentence": head.headline, "facts": head.facts, "data": data, "scene": scene}
    if curves is None:
        return Chart(**drawn)
    from wmlab.core.charts.clicked import AnsweringChart  # widgets take half a second to load

    return AnsweringChart(**drawn, answer=lambda at_ms: explain_curve(curves, curve, table.stream, at_ms))


def _seen_by(curves: Curves, recording: Recording, table: BoundsTable) -> SeenWindows:
    """What the readers of the group saw at their polls; nothing where the bounds themselves are those of a reader."""
    if table.reader is not None or table.group is None:
        return {}
    windows = seen_windows(recording, table.stream)
    return {reader: seen for reader, seen in windows.items() if curves.group_of(reader) == table.group}


def read_bounds(frame: Any, *, group: str | None = None) -> BoundsTable:
    """Read a table of bounds as `time_bounds` takes it, and raise as it does."""
    cells = plain_columns(
        frame, _REQUIRED, _OPTIONAL, chart="A chart of time bounds", example="recording.time_bounds(spark)"
    )
    if group is not None and "group" in cells:
        chosen = [name == group for name in cells["group"]]
        cells = {name: list(compress(values, chosen)) for name, values in cells.items()}
    _require_rows(cells["at_ms"])
    for name in ("stream", "group", "reader", "segment_id", "visible"):
        one_value(name, cells.get(name, []))
    clock = [whole("at_ms", value) for value in cells["at_ms"]]
    versions = cells.get("version", clock)
    nothing = [None] * len(clock)
    times = [[whole(name, value, unknown=True) for value in cells.get(name, nothing)] for name in _BOUNDS]
    # By clock, then version; rows that still tie are ordered by what they hold, so there is one order.
    rows = sorted(zip(clock, versions, *times, strict=True), key=lambda row: [(v is not None, v or 0) for v in row])
    at_ms, _, lower, upper, perfect = map(list, zip(*rows, strict=True))
    group, reader = (cells.get(name, [None])[0] for name in ("group", "reader"))
    return BoundsTable(
        stream=str(cells["stream"][0]),
        group=None if group is None else str(group),
        reader=None if reader is None else str(reader),
        at_ms=at_ms,
        lower=lower,
        upper=upper,
        perfect_watermark=perfect if "perfect_watermark" in cells else None,
        incidents=sorted(
            {_incident(entry) for cell in cells.get("incidents", []) if cell is not None for entry in cell}
        ),
        complete_log=cells.get("visible", [""])[0] == "all",
    )


def _require_rows(at_ms: Sequence[Any]) -> None:
    if not at_ms:
        raise ChartError(
            "The table of bounds has no rows.",
            remedy="Draw a recording in which a reader read something, or loosen the filter.",
        )


def _incident(entry: Any) -> Incident:
    fields = entry.asDict() if hasattr(entry, "asDict") else entry
    if not isinstance(fields, Mapping) or not {"at_ms", "kind", "what"} <= fields.keys():
        raise ChartError(
            f"Column 'incidents' holds {entry!r}.",
            remedy="Give each cell as a list of structs with at_ms, kind and what, or null.",
        )
    kind, what = (str(fields[name] or "") for name in ("kind", "what"))
    return Incident(whole("at_ms", fields["at_ms"]) or 0, kind, what)


def _held_by(curves: Curves, curve: Curve, from_ms: int, to_ms: int) -> tuple[str, ...]:
    """What held a curve for longest from one moment to another (clock, ms)."""
    longest = longest_cause(list(curves.spans(curve, start_ms=from_ms, end_ms=to_ms)))
    return () if longest is None else held_by(longest[0])


def _compose(table: BoundsTable, sentence: str, title: str | None) -> Scene:
    excess = minus(table.lower, table.perfect)
    above = minus(table.upper, table.perfect)
    rows = thin([table.lower, table.upper, table.perfect, excess, above], CAP, xs=table.at_ms)
    at_ms = [table.at_ms[i] for i in rows]
    curves = {role: [values[i] for i in rows] for role, values in _curves(table).items() if values is not None}
    clock = time_axis("clock", [*table.at_ms, *(incident.at_ms for incident in table.incidents)])
    every = [held(table.at_ms, values) for values in reversed(_curves(table).values()) if values is not None]
    event = time_axis("event time", _range(every, clock), pad_percent=4, clock=table.at_ms)
    unit = duration_unit(max(clock.high - clock.low, event.high - event.low))
    clock, event = replace(clock, unit=unit), replace(event, unit=unit)
    names = _names(table)
    main: list[Layer] = [Between(xs=at_ms, lows=curves["lower"], highs=curves["upper"])]
    main += [Steps(name=names[role], role=role, xs=at_ms, ys=values) for role, values in curves.items()]
    main += _polls(table)
    note = "" if any(every) else "no bound is known"
    fewer = drawn_words((len(rows), len(table.at_ms), "rows"))
    distances = _distance(table, at_ms, curves, clock, event)
    asking = "time bounds" if table.reader is None else "bounds seen"
    return Scene(
        title=title or asked(asking, stream=table.stream, whose=table.whose, reader=table.reader or ""),
        subtitle=sentence,
        note=fewer,
        across=clock,
        panels=[Panel(up=event, layers=main, height=290.0, note=note), *_exceptions(table), *distances],
        rules=rules_of((row.at_ms, row.kind, row.what) for row in table.incidents),
        together=True,
    )


def _curves(table: BoundsTable) -> dict[str, list[Value] | None]:
    """The curves of the main panel by their role, the topmost last; None: there is none."""
    return {"upper": table.upper, "perfect": table.perfect_watermark, "lower": table.lower}


def _names(table: BoundsTable) -> dict[str, str]:
    """What the legend calls the curves."""
    whose = " seen" if table.reader is not None else " at the position" if table.group is not None else ""
    return {"upper": f"upper bound{whose}", "perfect": "perfect watermark", "lower": f"lower bound{whose}"}


def _polls(table: BoundsTable) -> list[Dots]:
    """The bounds that readers saw, as dots at their polls; of many an even share."""
    words = time_words(table.at_ms)

    def layer(side: str, role: str, shape: Shape, number: int) -> Dots:
        points = []
        for reader, seen in table.seen.items():
            known = [(at, bound) for at, bound in zip(seen[0], seen[number], strict=True) if bound is not None]
            shown = share_of(known, _MOST_POLLS)
            points += [(at, bound, f"{reader} saw {words(bound)} at {words(at)}") for at, bound in shown]
        return dots(f"{side} bound seen by a reader", role, shape, points, size=2.5)

    return [layer("lower", "third", "circle", 1), layer("upper", "fourth", "diamond", 2)]


def _range(curves: Sequence[Sequence[Piece]], clock: Axis) -> tuple[int, int]:
    """From where to where an axis over the curves goes, of which the first is that of the lower bound."""
    return shown_range(curves[:1], curves[1:], least_ms=clock.high - clock.low)


def _exceptions(table: BoundsTable) -> list[Panel]:
    """A strip with the stretches without a lower bound, with an upper one, and above the perfect watermark.

    What is so all the time is no exception.
    """
    whole = [(table.at_ms[0], table.at_ms[-1])]
    spans = {
        ("lower", "no lower bound"): unknown_spans(table.at_ms, table.lower),
        ("upper", "an upper bound"): known_spans(table.at_ms, table.upper),
        ("alarm", "above perfect"): known_spans(table.at_ms, [1 if above else None for above in table.is_above]),
    }
    drawn = [(role, words, intervals) for (role, words), intervals in spans.items() if intervals not in ([], whole)]
    if not drawn:
        return []
    layers = [
        Blocks(
            name=words,
            role=role,
            boxes=[Box(begin, end, row - 0.3, row + 0.3, "", words) for begin, end in intervals],
            opacity=0.5,
            legend=False,
            outlined=role == "alarm",  # so that a short one is seen
        )
        for row, (role, words, intervals) in enumerate(drawn)
    ]
    return [lanes([words for _, words, _ in drawn], layers, height=_STRIP)]


def _distance(
    table: BoundsTable,
    at_ms: list[int],
    curves: dict[str, list[Value]],
    clock: Axis,
    event: Axis,
) -> list[Panel]:
    """Each bound minus the reference, which is the line at 0; nothing if there is no reference or no known bound."""
    if any(value is not None for value in table.perfect):
        return _to_perfect(table, at_ms, curves, clock)
    return _to_clock(table, clock) if clock.instants == event.instants else []


def _to_perfect(table: BoundsTable, at_ms: list[int], curves: dict[str, list[Value]], clock: Axis) -> list[Panel]:
    """Each bound minus the perfect watermark: both hold until the next row, and so does the difference."""
    drawn = [role for role in curves if role != "perfect"]
    differences = {role: minus(curves[role], curves["perfect"]) for role in drawn}
    layers: list[Layer] = [
        Between(xs=at_ms, lows=differences["lower"], highs=differences["upper"]),
        _reference("perfect watermark", clock),
    ]
    layers += [
        Steps(name=f"{role} − perfect watermark", role=role, xs=at_ms, ys=values, legend=False)
        for role, values in differences.items()
    ]
    every = [
        held(table.at_ms, minus(values, table.perfect))
        for role, values in reversed(_curves(table).items())
        if role != "perfect" and values is not None
    ]
    return _distances("bound − perfect", every, layers, clock)


def _to_clock(table: BoundsTable, clock: Axis) -> list[Panel]:
    """Each bound minus the clock: it falls with the clock while the bound stands still."""
    lines, every = list[Layer](), list[list[Piece]]()
    for role, values in (("lower", table.lower), ("upper", table.upper)):
        xs, behind = behind_clock(table.at_ms, values)
        ahead: list[Value] = [None if value is None else -value for value in behind]
        every.append(sloping(xs, ahead))
        xs, ahead = thinned(xs, ahead, CAP)
        lines.append(Path(name=f"{role} − clock", role=role, xs=xs, ys=ahead, legend=False))
    return _distances("bound − clock", every, [_reference("clock", clock), *reversed(lines)], clock)


def _reference(name: str, clock: Axis) -> Path:
    return Path(name=name, role="perfect", xs=[clock.low, clock.high], ys=[0, 0])


def _distances(title: str, curves: Sequence[Sequence[Piece]], layers: Sequence[Layer], clock: Axis) -> list[Panel]:
    """A panel of distances, if any is known."""
    if not any(curves):
        return []
    return [Panel(up=time_axis(title, [*_range(curves, clock), 0], pad_percent=8), layers=layers, height=130.0)]
