"""Charts of what a dataflow holds: items on their way between instances, and the state of a vertex over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Final

from wmlab.core.arguments import the_moment, the_names
from wmlab.core.charts.axis import Coordinate, Numbers, time_axis
from wmlab.core.charts.chart import SERIES, Chart, chart_of, columns, columns_of, drawn_words
from wmlab.core.charts.scene import Dots, Layer, Panel, Path, Rule, Steps, lanes, thinned
from wmlab.core.errors import ChartError
from wmlab.core.facts import Head
from wmlab.core.grouping import rows_by
from wmlab.core.holders import FAILED
from wmlab.core.recording import Recording
from wmlab.core.words import counted, grouped, joined, moment, rounded
from wmlab.dataflow.answers.cause_facts import dataflow_facts, of_failure
from wmlab.dataflow.answers.run import DataflowRun, RecordedRow, read
from wmlab.dataflow.answers.sentences import failure_sentence, row_words
from wmlab.dataflow.answers.vocabulary import AT_THE_END, STATE
from wmlab.dataflow.charts.levels import POINTS_DRAWN, dataflow_run_of

_ITEMS_DRAWN: Final = 400
_COLUMNS: Final = ("queue", "put_ms", "taken_ms", "kind", "key", "value", "time")
_ROLES: Final = {"event": "perfect", "watermark": "lower", "idle": "third", "barrier": "upper", "done": "fourth"}
_NAMES: Final = {"event": "row", "done": "end", "idle": "idle message"}
_LANE: Final = 56.0
_item: Final = itemgetter("execution", "queue", "sequence")
_SPREAD: Final = 0.5
"""The part of a lane over which items are spread that go together."""
ItemEnds = Mapping[tuple[int, int, int], tuple[Coordinate, Coordinate]]
"""The heights between which each item is drawn, by execution, queue and number."""


def queue_diagram(
    recording: Recording,
    *,
    from_ms: int | None = None,
    to_ms: int | None = None,
    vertices: Sequence[str] | None = None,
    title: str | None = None,
) -> Chart:
    """Draw the items on the queues between two moments (clock, ms), by default over the whole run.

    `vertices` chooses the lanes; a line begins at the lane of the instance that put the item and ends at the instance
    that took it, or in a cross if no instance has taken it by then; items that travel together are side by side. Of
    more than 400 items the first are drawn. Raises `ChartError` for a vertex that is not there, or when nothing was on
    a queue.
    """
    run = dataflow_run_of(recording)
    wanted = [
        str(run.vertex(name, ChartError)["vertex"])
        for name in (run.vertices if vertices is None else the_names(vertices, "vertices", ChartError))
    ]
    begun, ended = run.clock_ms()
    low = begun if from_ms is None else the_moment(from_ms, ChartError, name="from_ms", start_ms=recording.start_ms)
    high = ended if to_ms is None else the_moment(to_ms, ChartError, name="to_ms", start_ms=recording.start_ms)
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
    drawn = sorted(items, key=lambda row: (row["put_ms"], row["queue"], row["sequence"]))[:_ITEMS_DRAWN]
    sentence = joined(failure_sentence(run), _sentence_of_items(items))
    fewer = drawn_words((_ITEMS_DRAWN, len(items), "items, the first"))
    if to_ms is None or len(items) > _ITEMS_DRAWN:
        high = max(row["put_ms"] if row["taken_ms"] is None else row["taken_ms"] for row in drawn)
    shown_ms = low, max(high, low + 1)
    instances = [(name, number) for name in wanted for number in range(run.vertices[name]["parallelism"])]
    lane = {instance: index for index, instance in enumerate(instances)}
    ends = {
        queue: (lane[row["source"], row["source_instance"]], lane[row["target"], row["target_instance"]])
        for queue, row in routes.items()
    }
    names = [run.instance_name(name, number) for name, number in instances]
    return chart_of(
        sentence,
        columns_of(items, _COLUMNS),
        title=title or f"What was on the queues of {run.stream}?",
        note=fewer,
        across=time_axis("clock", shown_ms),
        panels=[lanes(names, _layers(drawn, _item_ends(drawn, ends), shown_ms), height=_LANE)],
    )


def _item_ends(items: Sequence[RecordedRow], lanes_of: Mapping[int, tuple[int, int]]) -> ItemEnds:
    """From where to where each item goes: side by side those that go together, the first of them on top."""
    together = rows_by(items, itemgetter("execution", "queue", "put_ms", "taken_ms"))
    ends: dict[tuple[int, int, int], tuple[Coordinate, Coordinate]] = {}
    for (_, queue, _, _), together_items in together.items():
        for number, row in enumerate(together_items):
            beside = _SPREAD * ((number + 0.5) / len(together_items) - 0.5)
            begin, end = lanes_of[queue]
            ends[_item(row)] = begin + beside, end + beside
    return ends


def _layers(items: Sequence[RecordedRow], ends: ItemEnds, span: tuple[int, int]) -> list[Layer]:
    """Lines by kind, the points where items were taken, and crosses for those that were not; all within `span`."""
    layers: list[Layer] = []
    for kind, role in _ROLES.items():
        mine = [row for row in items if row["kind"] == kind]
        points = [point for row in mine for point in (*_course(row, *ends[_item(row)], span), (None, None))]
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
                ys=[ends[_item(row)][1] for row in taken],
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
        ys=[sum(ends[_item(row)]) / 2 for row in left],
        hover=[_hover(row) for row in left],
    )
    return [*layers, crosses]


def _course(
    row: RecordedRow, begin: Coordinate, end: Coordinate, span: tuple[int, int]
) -> tuple[tuple[Coordinate, Coordinate], tuple[Coordinate, Coordinate]]:
    """The part of an item's line within `span`; of one that was not taken, half of the way."""
    put, taken = row["put_ms"], row["taken_ms"]
    if taken is None:
        return (max(put, span[0]), begin), (span[1], begin + (end - begin) / 2)

    def at(x: int, lane: Coordinate) -> tuple[Coordinate, Coordinate]:
        inside = min(max(x, span[0]), span[1])
        return (x, lane) if inside == x else (inside, begin + (end - begin) * (inside - put) / (taken - put))

    return at(put, begin), at(taken, end)


def _hover(row: RecordedRow) -> str:
    waited = "" if row["taken_ms"] is None else f", {rounded(row['taken_ms'] - row['put_ms'])} on the queue"
    if row["kind"] == "event":
        return row_words(read(row["row"])) + waited
    what = {"watermark": f"watermark {row['key']}:{row['value']}", "barrier": f"barrier {row['value']}"}
    return what.get(row["kind"], _NAMES.get(row["kind"], str(row["kind"]))) + waited


def _sentence_of_items(items: Sequence[RecordedRow]) -> str:
    counts = {kind: sum(row["kind"] == kind for row in items) for kind in _ROLES}
    parts = [counted(count, _NAMES.get(kind, kind)) for kind, count in counts.items() if count]
    left = sum(row["taken_ms"] is None for row in items)
    return f"Items on the queues: {', '.join(parts)}; not taken: {grouped(left)}."


def state_size(
    recording: Recording,
    *others: Recording,
    vertex: str | None = None,
    labels: Sequence[str] | None = None,
    title: str | None = None,
) -> Chart:
    """Draw the state size of one vertex in each of up to four runs, for all its instances together.

    `vertex` is by default the one with the largest state; `labels` name the runs. A limit is a line where the vertex
    has one instance. Raises `ChartError` for more runs, a vertex that is not there, one that held nothing in any of
    them, or labels that do not fit.
    """
    recordings = (recording, *others)
    if len(recordings) > len(SERIES):
        raise ChartError(f"{len(recordings)} runs are too many for one chart.", remedy=f"Draw at most {len(SERIES)}.")
    runs = [dataflow_run_of(entry) for entry in recordings]
    names = _labels(recordings, labels)
    name = _the_vertex(runs, vertex)
    ends = [run.clock_ms() for run in runs]
    begin, end = min(begun for begun, _ in ends), max(end for _, end in ends)
    curves, layers = list[tuple[list[int], list[int]]](), list[Layer]()
    rules, drawn = list[Rule](), 0
    for run, label, role, (begun_ms, end_ms) in zip(runs, names, SERIES, ends, strict=False):
        curves.append(_sizes(run, name, begun_ms, end_ms))
        xs, ys = thinned(*curves[-1], POINTS_DRAWN)
        drawn += len(xs)
        layers.append(Steps(name=label, role=role, xs=xs, ys=ys))
        fails = f"{label} fails" if others else "the job fails"
        rules += [Rule(row["ended_ms"], fails, "cross") for row in run.executions if row["outcome"] == "failed"]
    # A limit is that of one instance, so that it says nothing of several together.
    ruled = [run.rules.results[name] for run in runs if name in run.rules.results]
    alone = runs[0].vertices[name]["parallelism"] == 1
    limits = [result.limit for result in ruled if alone and result.limit is not None][:1]
    layers += [Path(name=f"limit {grouped(y)}", role="alarm", xs=[begin, end], ys=[y, y]) for y in limits]
    most = max(1, *limits, *(size for _, sizes in curves for size in sizes))
    head = _head(name, names, runs, [sizes for _, sizes in curves])
    rows = [(label, at, y) for label, curve in zip(names, curves, strict=True) for at, y in zip(*curve, strict=True)]
    return chart_of(
        head.sentence,
        columns(rows, "run", "at_ms", "size"),
        facts=head.facts,
        title=title or f"How much does {name} hold?",
        note=drawn_words((drawn, sum(len(xs) for xs, _ in curves), "steps")),
        across=time_axis("clock", [begin, end]),
        panels=[Panel(up=Numbers("rows or accumulators held", 0, most + max(most // 12, 1)), layers=layers)],
        rules=sorted(rules, key=lambda rule: rule.x),
    )


def _labels(runs: Sequence[Recording], labels: Sequence[str] | None) -> list[str]:
    if labels is None:
        known = [run.name for run in runs]
        return known if len(set(known)) == len(known) else [f"run {number}" for number in range(1, len(runs) + 1)]
    labels = the_names(labels, "labels", ChartError)
    if len(labels) != len(runs):
        raise ChartError(f"There are {len(labels)} labels for {len(runs)} runs.", remedy="Give each run one label.")
    return list(labels)


def _the_vertex(runs: Sequence[DataflowRun], vertex: str | None) -> str:
    """The vertex asked for, or the one that held most in any of the runs."""
    if vertex is not None:
        return str(runs[0].vertex(vertex, ChartError)["vertex"])
    peaks: dict[str, int] = {}
    for row in (row for run in runs for row in run.rows("state") if row["buffer"] == "all"):
        peaks[row["vertex"]] = max(peaks.get(row["vertex"], 0), row["size"])
    if not peaks:
        raise ChartError("No vertex of the dataflow held anything.", remedy="Choose one with windows, joins or calls.")
    return max(peaks, key=lambda name: peaks[name])


def _sizes(run: DataflowRun, vertex: str, begun_ms: int, end_ms: int) -> tuple[list[int], list[int]]:
    """The size of all instances together over the clock; a restart begins from what it finds."""
    totals = {begun_ms: 0}
    rows = (row for row in run.rows("state") if (row["vertex"], row["buffer"]) == (vertex, "all"))
    for _, of_execution in groupby(sorted(rows, key=itemgetter("execution", "at_ms")), key=itemgetter("execution")):
        sizes: dict[int, int] = {}
        for row in of_execution:
            sizes[row["instance"]] = row["size"]
            totals[row["at_ms"]] = sum(sizes.values())
    return [*totals, end_ms], [*totals.values(), list(totals.values())[-1]]


def _head(
    vertex: str,
    names: Sequence[str],
    runs: Sequence[DataflowRun],
    sizes: Sequence[Sequence[int]],
) -> Head:
    """What the vertex held in each run, at most and at the end; of a single one how the job failed."""
    facts = dataflow_facts(
        runs[0],
        {
            **(of_failure(runs[0].end_at()) if len(runs) == 1 else {}),
            "run": tuple(names),
            "vertex": vertex,
            "held at most": tuple(map(max, sizes)),
            "held": tuple(of_run[-1] for of_run in sizes),
        },
    )
    return Head(facts=facts, templates=facts.chosen(FAILED, STATE, AT_THE_END))
