"""Charts of merging at one vertex: the watermarks of its inputs under the merged one, and what each input was when."""

from __future__ import annotations

from itertools import cycle
from typing import Any, Final

from wmlab.core.charts.axis import time_axis
from wmlab.core.charts.chart import Chart
from wmlab.core.charts.rows import columns
from wmlab.core.charts.scene import Blocks, Box, Dots, Layer, Panel, Scene, Steps, lanes
from wmlab.core.charts.steps import Value, thinned
from wmlab.core.errors import ChartError
from wmlab.core.recording import Recording
from wmlab.core.words import bare, moment, rounded
from wmlab.dataflow.answers.run import Row, listing, read
from wmlab.dataflow.charts.facts import LevelHistory, State, level_of

_ROLES: Final = ("upper", "third", "fourth", "perfect")
_MOST_ROWS: Final = 400
_LOOKS: Final[dict[State, tuple[str, str, float]]] = {
    "active": ("counts", "lower", 0.18),
    "idle": ("idle, left out", "unknown", 0.4),
    "done": ("has ended", "third", 0.25),
}


def coalescing(
    recording: Recording,
    *,
    vertex: str | None = None,
    key: int | None = None,
    instance: int = 0,
    title: str | None = None,
) -> Chart:
    """Draw the watermarks of one key on every input of a vertex, the merged one under them, and who was left out.

    Inputs are the input edges, the queues of a single edge, or the partitions of a source. `vertex` is by default the
    first that merges several, `key` its lowest. Rows that were dropped there are crosses. Of several executions the
    last is shown. Raises `ChartError` for a vertex, instance or key that is not there.
    """
    level = level_of(recording, vertex, instance)
    if not level.keys:
        remedy = "Choose a vertex that watermarks have reached."
        raise ChartError(f"No watermark came to {level.vertex!r}.", remedy=remedy)
    chosen = level.keys[0] if key is None else key
    if chosen not in level.keys:
        known = ", ".join(map(str, level.keys))
        raise ChartError(f"No watermark of key {key} came to {level.vertex!r}.", remedy=f"Choose one of: {known}.")
    curves, rows = list[Steps](), list[tuple[Any, ...]]()
    for (number, name), role in zip(level.names.items(), cycle(_ROLES), strict=False):
        points = level.marks(number, chosen)
        xs, ys = thinned(*points, _MOST_ROWS)
        curves.append(Steps(name=name, role=role, xs=xs, ys=ys))
        rows += [(name, at, y) for at, y in zip(*points, strict=True)]
    xs, ys = level.merged(chosen)
    curves.append(Steps(name="merged", role="lower", xs=xs, ys=ys))
    rows += [("merged", at, y) for at, y in zip(xs, ys, strict=True)]
    late = [row for row in level.drops if row["key"] == chosen]
    values = [y for curve in curves for y in curve.ys] + [row["time"] for row in late]
    sentence = _sentence(level, chosen, len(late))
    scene = Scene(
        title=title or f"Who holds the watermark of key {chosen} at {level.vertex}?",
        subtitle=sentence,
        across=time_axis("clock", [level.begun_ms, level.end_ms]),
        panels=[
            Panel(up=time_axis("watermark", values, pad_percent=5), layers=[*curves, _dropped(late)]),
            lanes(level.names.values(), _activity(level)),
        ],
    )
    return Chart(sentence=sentence, data=columns(rows, "input", "at_ms", "watermark"), scene=scene)


def input_activity(
    recording: Recording, *, vertex: str | None = None, instance: int = 0, title: str | None = None
) -> Chart:
    """Draw when each input of a vertex counted, was left out as idle, or had ended, and what that let through.

    The inputs are those of `coalescing`. Raises `ChartError` for a vertex or instance that is not there.
    """
    level = level_of(recording, vertex, instance)
    released = _released(level)
    sentence = _activity_sentence(level, len(released.xs))
    scene = Scene(
        title=title or f"Which inputs of {level.vertex} counted, and when?",
        subtitle=sentence,
        across=time_axis("clock", [level.begun_ms, level.end_ms]),
        panels=[lanes(level.names.values(), [*_activity(level), released])],
    )
    rows = [(name, *stretch) for number, name in level.names.items() for stretch in level.stretches(number)]
    return Chart(sentence=sentence, data=columns(rows, "input", "from_ms", "to_ms", "state"), scene=scene)


def _dropped(late: list[Row]) -> Dots:
    return Dots(
        name="dropped row",
        role="alarm",
        shape="cross",
        xs=[row["at_ms"] for row in late],
        ys=[row["time"] for row in late],
        hover=[
            f"{row['rule']}: {listing(read(row['row']))}, {bare(row['margin'])} below {bare(row['limit'])}"
            for row in late
        ],
    )


def _activity(level: LevelHistory) -> list[Layer]:
    """A block for every stretch of an input, by what it was."""
    boxes: dict[State, list[Box]] = {state: [] for state in _LOOKS}
    for lane, (number, name) in enumerate(level.names.items()):
        for from_ms, to_ms, state in level.stretches(number):
            hover = f"{name}: {_LOOKS[state][0]} from {moment(from_ms)} to {moment(to_ms)}"
            boxes[state].append(Box(from_ms, to_ms, lane - 0.32, lane + 0.32, state, hover))
    return [
        Blocks(name=name, role=role, boxes=boxes[state], opacity=opacity)
        for state, (name, role, opacity) in _LOOKS.items()
    ]


def _released(level: LevelHistory) -> Dots:
    """The steps at which an input that became idle or ended let a watermark through."""
    steps = [row for row in level.steps if row["stimulus"] in {"idle", "done", "tick"} and row["emitted"]]
    lane = {number: index for index, number in enumerate(level.names)}
    return Dots(
        name="let a watermark through",
        role="upper",
        shape="diamond",
        xs=[row["at_ms"] for row in steps],
        ys=[lane.get(row["input"], 0) for row in steps],
        hover=[", ".join(f"key {k}: {bare(v)}" for k, v in row["emitted"]) for row in steps],
        size=5.0,
    )


def held_ms(level: LevelHistory, key: int) -> dict[int, int]:
    """For how long each input held: counted, with the lowest watermark of `key`, while another one was further.

    What keeps the merged watermark from a value at one moment is another question, see `answers.search.Level.holding`:
    inputs that stand level hold it together, and here none of them holds another back.
    """
    marks: dict[int, Value] = dict.fromkeys(level.names)
    active = set(level.names)
    held = dict.fromkeys(level.names, 0)
    since = level.begun_ms
    for row in [*level.steps, None]:
        until = level.end_ms if row is None else row["at_ms"]
        counting = {number: mark for number, mark in marks.items() if number in active}
        if len(set(counting.values())) > 1:
            low = None if None in counting.values() else min(mark for mark in counting.values() if mark is not None)
            for number, mark in counting.items():
                held[number] += until - since if mark == low else 0
        since = until
        if row is not None:
            active = set(row["active"])
            if row["key"] == key and row["input"] in marks and row["value"] is not None:
                marks[row["input"]] = row["value"]
    return held


def _sentence(level: LevelHistory, key: int, late: int) -> str:
    held = held_ms(level, key)
    most = max(held, key=lambda number: held[number])
    last = level.merged(key)[1][-1]
    where = "has no watermark" if last is None else f"ended at {moment(last)}"
    those = "a row below it was" if late == 1 else f"{late} rows that came below it were"
    dropped = f"; {those} dropped" if late else ""
    if not held[most]:
        return f"No input of {level.vertex} held the others back; the merged watermark of key {key} {where}{dropped}."
    return (
        f"{level.names[most]} held the watermark of key {key} at {level.vertex} longest, {rounded(held[most])} "
        f"of {rounded(level.end_ms - level.begun_ms)}; the merged one {where}{dropped}."
    )


def _activity_sentence(level: LevelHistory, released: int) -> str:
    idle = {
        number: sum(to - begin for begin, to, state in level.stretches(number) if state == "idle")
        for number in level.names
    }
    most = max(idle, key=lambda number: idle[number])
    if not idle[most]:
        return f"No input of {level.vertex} was ever left out as idle."
    count = sum(length > 0 for length in idle.values())
    times = {0: "no watermark through", 1: "a watermark through once"}.get(
        released, f"a watermark through {released} times"
    )
    return (
        f"{count} of {len(level.names)} inputs of {level.vertex} {'was' if count == 1 else 'were'} idle at some time, "
        f"{level.names[most]} longest ({rounded(idle[most])}); that let {times}."
    )
