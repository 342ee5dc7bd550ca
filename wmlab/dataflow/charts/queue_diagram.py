"""The space-time chart of a dataflow: a lane for every instance, items as lines from where they were put to where they
were taken."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from wmlab.core.charts.axis import Number, format_duration, time_axis
from wmlab.core.charts.chart import Chart
from wmlab.core.charts.rows import stream_rows
from wmlab.core.charts.scene import Dots, Layer, Path, Scene, lanes
from wmlab.core.errors import ChartError
from wmlab.core.recording import Recording
from wmlab.dataflow.charts.facts import chosen, clock_of, the_dataflow

Row = Mapping[str, Any]
_MOST: Final = 400
_COLUMNS: Final = ("queue", "put_ms", "taken_ms", "kind", "key", "value", "time")
_ROLES: Final = {"event": "perfect", "watermark": "lower", "idle": "third", "barrier": "upper", "done": "fourth"}
_NAMES: Final = {"event": "row", "done": "end", "idle": "idle message"}


def queue_diagram(
    recording: Recording,
    *,
    from_ms: int | None = None,
    to_ms: int | None = None,
    vertices: Sequence[str] | None = None,
    title: str | None = None,
) -> Chart:
    """Draw the items on the queues between two moments (clock, ms), by default over the whole run.

    `vertices` chooses the lanes; a line leaves the lane of the instance that put the item and ends at the one that took
    it, in a cross where nobody has by then. Of more than 400 items the first are drawn. Raises `ChartError` for a
    vertex that is not there, or when nothing was on a queue.
    """
    stream = the_dataflow(recording)
    known = {row["vertex"]: row for row in stream_rows(recording, "vertices", stream)}
    wanted = [chosen(known, name) for name in vertices] if vertices is not None else list(known)
    begun, ended = clock_of(recording, stream)
    low, high = begun if from_ms is None else from_ms, ended if to_ms is None else to_ms
    routes = {
        row["queue"]: row
        for row in stream_rows(recording, "queues", stream)
        if row["source"] in wanted and row["target"] in wanted
    }
    items = [
        row for row in stream_rows(recording, "items", stream) if row["queue"] in routes and _within(row, low, high)
    ]
    if not items:
        raise ChartError(
            f"No item was on a queue between {low:,} and {high:,} ms.",
            remedy="Choose another stretch, or more vertices.",
        )
    shown = sorted(items, key=lambda row: (row["put_ms"], row["queue"], row["sequence"]))[:_MOST]
    sentence = _sentence(items, routes, _overtaking(items, routes))
    less = f" Drawn are the first {_MOST} of {len(items):,} items." if len(items) > _MOST else ""
    names = _lanes(wanted, known)
    if to_ms is None or len(items) > _MOST:
        high = max(row["put_ms"] if row["taken_ms"] is None else row["taken_ms"] for row in shown)
    scene = Scene(
        title=title or f"What was on the queues of {stream}?",
        subtitle=sentence + less,
        across=time_axis("clock", [low, max(high, low + 1)]),
        panels=[lanes(names, _layers(shown, routes, names, known, (low, max(high, low + 1))))],
    )
    data: dict[str, list[Any]] = {name: [row[name] for row in items] for name in _COLUMNS}
    return Chart(sentence=sentence, data=data, scene=scene)


def _within(row: Row, low: int, high: int) -> bool:
    return bool(row["put_ms"] <= high and (row["taken_ms"] is None or row["taken_ms"] >= low))


def _lane(name: str, number: int, parallelism: int) -> str:
    return name if parallelism == 1 else f"{name}[{number}]"


def _lanes(wanted: Sequence[str], known: Mapping[str, Row]) -> list[str]:
    copies = {name: int(known[name]["parallelism"]) for name in wanted}
    return [_lane(name, number, copies[name]) for name in wanted for number in range(copies[name])]


def _layers(
    items: Sequence[Row],
    routes: Mapping[int, Row],
    names: Sequence[str],
    known: Mapping[str, Row],
    span: tuple[int, int],
) -> list[Layer]:
    """Lines by kind, the points where items were taken, and crosses for those that were not; all within `span`."""
    layers: list[Layer] = []
    for kind, role in _ROLES.items():
        mine = [row for row in items if row["kind"] == kind]
        xs: list[Number | None] = []
        ys: list[Number | None] = []
        for row in mine:
            (x_from, y_from), (x_to, y_to) = _course(row, _ends(routes[row["queue"]], names, known), span)
            xs += [x_from, x_to, None]
            ys += [y_from, y_to, None]
        taken = [row for row in mine if row["taken_ms"] is not None and row["taken_ms"] <= span[1]]
        if mine:
            layers.append(Path(name=_NAMES.get(kind, kind), role=role, xs=xs, ys=ys))
        layers.append(_points(taken, routes, names, known, role))
    return [*layers, _waiting([row for row in items if row["taken_ms"] is None], routes, names, known, span[1])]


def _course(
    row: Row, lanes_: tuple[int, int], span: tuple[int, int]
) -> tuple[tuple[float, float], tuple[float, float]]:
    """The part of an item's line within `span`; of one that was not taken, half of the way."""
    begin, end = lanes_
    if row["taken_ms"] is None:
        return (max(row["put_ms"], span[0]), begin), (span[1], begin + (end - begin) / 2)
    put, taken = row["put_ms"], row["taken_ms"]

    def at(x: float, lane: int) -> tuple[float, float]:
        inside = min(max(x, span[0]), span[1])
        return (x, lane) if inside == x else (inside, begin + (end - begin) * (inside - put) / (taken - put))

    return at(put, begin), at(taken, end)


def _ends(route: Row, names: Sequence[str], known: Mapping[str, Row]) -> tuple[int, int]:
    source = _lane(route["source"], route["source_instance"], known[route["source"]]["parallelism"])
    target = _lane(route["target"], route["target_instance"], known[route["target"]]["parallelism"])
    return names.index(source), names.index(target)


def _points(
    taken: Sequence[Row], routes: Mapping[int, Row], names: Sequence[str], known: Mapping[str, Row], role: str
) -> Dots:
    return Dots(
        name="taken",
        role=role,
        shape="circle",
        xs=[row["taken_ms"] for row in taken],
        ys=[_ends(routes[row["queue"]], names, known)[1] for row in taken],
        hover=[_told(row) for row in taken],
        size=2.5,
        legend=False,
    )


def _waiting(
    left: Sequence[Row], routes: Mapping[int, Row], names: Sequence[str], known: Mapping[str, Row], high: int
) -> Dots:
    ends = [_ends(routes[row["queue"]], names, known) for row in left]
    return Dots(
        name="not taken",
        role="alarm",
        shape="cross",
        xs=[high for _ in left],
        ys=[begin + (end - begin) * 0.5 for begin, end in ends],
        hover=[_told(row) for row in left],
    )


def _told(row: Row) -> str:
    waited = "" if row["taken_ms"] is None else f", {row['taken_ms'] - row['put_ms']:,} ms on the queue"
    if row["kind"] == "event":
        return ", ".join(f"{name} {value}" for name, value in json.loads(row["row"]).items()) + waited
    what = {"watermark": f"watermark {row['key']}:{row['value']}", "barrier": f"barrier {row['value']}"}
    return what.get(row["kind"], _NAMES.get(row["kind"], str(row["kind"]))) + waited


def _overtaking(items: Sequence[Row], routes: Mapping[int, Row]) -> int:
    """How many items were taken from behind a barrier while an instance still waited for it on another queue."""
    complete: dict[tuple[Any, ...], int] = {}
    behind: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for row in items:
        if row["kind"] == "barrier" and row["taken"] is not None:
            route = routes[row["queue"]]
            place = (row["execution"], route["target"], route["target_instance"], row["value"])
            complete[place] = max(complete.get(place, 0), row["taken"])
            behind.setdefault((row["execution"], row["queue"]), []).append((row["sequence"], row["value"]))
    count = 0
    for row in items:
        for sequence, number in behind.get((row["execution"], row["queue"]), ()):
            route = routes[row["queue"]]
            place = (row["execution"], route["target"], route["target_instance"], number)
            count += row["taken"] is not None and row["sequence"] > sequence and row["taken"] < complete[place]
    return count


def _sentence(items: Sequence[Row], routes: Mapping[int, Row], overtook: int) -> str:
    counts = {kind: sum(row["kind"] == kind for row in items) for kind in _ROLES}
    parts = [
        f"{count:,} {_NAMES.get(kind, kind)}{'' if count == 1 else 's'}" for kind, count in counts.items() if count
    ]
    taken = [row for row in items if row["taken_ms"] is not None]
    left = len(items) - len(taken)
    text = f"{', '.join(parts)} were on the queues"
    if taken:
        slow = max(taken, key=lambda row: row["taken_ms"] - row["put_ms"])
        route = routes[slow["queue"]]
        wait = format_duration(slow["taken_ms"] - slow["put_ms"])
        text += f"; the longest wait was {wait}, from {route['source']} to {route['target']}"
    text += f"; {left:,} were not taken" if left else ""
    text += f"; {overtook:,} were taken from behind a barrier before it was complete" if overtook else ""
    return f"{text}."
