"""The space-time chart of a dataflow: a lane for every instance, items as lines from where they were put to where they
were taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from wmlab.core.charts.axis import Number, time_axis
from wmlab.core.charts.chart import Chart
from wmlab.core.charts.rows import columns_of
from wmlab.core.charts.scene import Dots, Layer, Path, Scene, lanes
from wmlab.core.errors import ChartError
from wmlab.core.recording import Recording, the_moment, the_names
from wmlab.core.words import counted, grouped, moment, rounded, span
from wmlab.dataflow.answers.run import Row, listing, read
from wmlab.dataflow.charts.facts import clock_of, run_of

_MOST: Final = 400
_COLUMNS: Final = ("queue", "put_ms", "taken_ms", "kind", "key", "value", "time")
_ROLES: Final = {"event": "perfect", "watermark": "lower", "idle": "third", "barrier": "upper", "done": "fourth"}
_NAMES: Final = {"event": "row", "done": "end", "idle": "idle message"}
Ends = Mapping[int, tuple[int, int]]
"""The lanes that each queue goes from and to."""


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
    run = run_of(recording)
    asked = run.vertices if vertices is None else the_names(vertices, "vertices", ChartError)
    wanted = [str(run.vertex(name, ChartError)["vertex"]) for name in asked]
    begun, ended = clock_of(run)
    low = begun if from_ms is None else the_moment(from_ms, ChartError, name="from_ms")
    high = ended if to_ms is None else the_moment(to_ms, ChartError, name="to_ms")
    routes = {row["queue"]: row for row in run.queues if row["source"] in wanted and row["target"] in wanted}
    items = [
        row
        for row in run.rows("items")
        if row["queue"] in routes and row["put_ms"] <= high and (row["taken_ms"] is None or row["taken_ms"] >= low)
    ]
    if not items:
        raise ChartError(
            f"No item was on a queue between {moment(low)} and {moment(high)}.",
            remedy="Choose another stretch, or more vertices.",
        )
    shown = sorted(items, key=lambda row: (row["put_ms"], row["queue"], row["sequence"]))[:_MOST]
    sentence = _sentence(items, routes)
    less = f" Drawn are the first {_MOST} of {grouped(len(items))} items." if len(items) > _MOST else ""
    if to_ms is None or len(items) > _MOST:
        high = max(row["put_ms"] if row["taken_ms"] is None else row["taken_ms"] for row in shown)
    span = low, max(high, low + 1)
    instances = [(name, number) for name in wanted for number in range(run.vertices[name]["parallelism"])]
    lane = {instance: index for index, instance in enumerate(instances)}
    ends = {
        queue: (lane[row["source"], row["source_instance"]], lane[row["target"], row["target_instance"]])
        for queue, row in routes.items()
    }
    names = [name if run.vertices[name]["parallelism"] == 1 else f"{name}[{number}]" for name, number in instances]
    scene = Scene(
        title=title or f"What was on the queues of {run.stream}?",
        subtitle=sentence + less,
        across=time_axis("clock", span),
        panels=[lanes(names, _layers(shown, ends, span))],
    )
    return Chart(sentence=sentence, data=columns_of(items, _COLUMNS), scene=scene)


def _layers(items: Sequence[Row], ends: Ends, span: tuple[int, int]) -> list[Layer]:
    """Lines by kind, the points where items were taken, and crosses for those that were not; all within `span`."""
    layers: list[Layer] = []
    for kind, role in _ROLES.items():
        mine = [row for row in items if row["kind"] == kind]
        points = [point for row in mine for point in (*_course(row, *ends[row["queue"]], span), (None, None))]
        if mine:
            xs, ys = [x for x, _ in points], [y for _, y in points]
            layers.append(Path(name=_NAMES.get(kind, kind), role=role, xs=xs, ys=ys))
        taken = [row for row in mine if row["taken_ms"] is not None and row["taken_ms"] <= span[1]]
        layers.append(
            Dots(
                name="taken",
                role=role,
                shape="circle",
                xs=[row["taken_ms"] for row in taken],
                ys=[ends[row["queue"]][1] for row in taken],
                hover=[_hover(row) for row in taken],
                size=2.5,
                legend=False,
            )
        )
    left = [row for row in items if row["taken_ms"] is None]
    crosses = Dots(
        name="not taken",
        role="alarm",
        shape="cross",
        xs=[span[1] for _ in left],
        ys=[sum(ends[row["queue"]]) / 2 for row in left],
        hover=[_hover(row) for row in left],
    )
    return [*layers, crosses]


def _course(
    row: Row, begin: int, end: int, span: tuple[int, int]
) -> tuple[tuple[Number, Number], tuple[Number, Number]]:
    """The part of an item's line within `span`; of one that was not taken, half of the way."""
    put, taken = row["put_ms"], row["taken_ms"]
    if taken is None:
        return (max(put, span[0]), begin), (span[1], begin + (end - begin) / 2)

    def at(x: int, lane: int) -> tuple[Number, Number]:
        inside = min(max(x, span[0]), span[1])
        return (x, lane) if inside == x else (inside, begin + (end - begin) * (inside - put) / (taken - put))

    return at(put, begin), at(taken, end)


def _hover(row: Row) -> str:
    waited = "" if row["taken_ms"] is None else f", {span(row['taken_ms'] - row['put_ms'])} on the queue"
    if row["kind"] == "event":
        return listing(read(row["row"])) + waited
    what = {"watermark": f"watermark {row['key']}:{row['value']}", "barrier": f"barrier {row['value']}"}
    return what.get(row["kind"], _NAMES.get(row["kind"], str(row["kind"]))) + waited


def _overtaking(items: Sequence[Row], routes: Mapping[int, Row]) -> int:
    """How many items were taken from behind a barrier while an instance still waited for it on another queue."""
    complete: dict[tuple[Any, ...], int] = {}
    behind: dict[tuple[int, int], list[tuple[int, tuple[Any, ...]]]] = {}
    for row in items:
        if row["kind"] == "barrier" and row["taken"] is not None:
            route = routes[row["queue"]]
            barrier = (row["execution"], route["target"], route["target_instance"], row["value"])
            complete[barrier] = max(complete.get(barrier, 0), row["taken"])
            behind.setdefault((row["execution"], row["queue"]), []).append((row["sequence"], barrier))
    return sum(
        row["taken"] is not None and row["sequence"] > sequence and row["taken"] < complete[barrier]
        for row in items
        for sequence, barrier in behind.get((row["execution"], row["queue"]), ())
    )


def _sentence(items: Sequence[Row], routes: Mapping[int, Row]) -> str:
    counts = {kind: sum(row["kind"] == kind for row in items) for kind in _ROLES}
    parts = [counted(count, _NAMES.get(kind, kind)) for kind, count in counts.items() if count]
    taken = [row for row in items if row["taken_ms"] is not None]
    left, overtook = len(items) - len(taken), _overtaking(items, routes)
    text = f"{', '.join(parts)} were on the queues"
    if taken:
        slow = max(taken, key=lambda row: row["taken_ms"] - row["put_ms"])
        route = routes[slow["queue"]]
        wait = rounded(slow["taken_ms"] - slow["put_ms"])
        text += f"; the longest wait was {wait}, from {route['source']} to {route['target']}"
    text += f"; {grouped(left)} were not taken" if left else ""
    text += f"; {grouped(overtook)} were taken from behind a barrier before it was complete" if overtook else ""
    return f"{text}."
