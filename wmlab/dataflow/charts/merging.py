"""Charts of merging at one vertex: the watermarks of its inputs under the merged one, and what each input was when."""

from __future__ import annotations

import json
from typing import Any, Final

from wmlab.core.charts.axis import format_duration, time_axis
from wmlab.core.charts.chart import Chart
from wmlab.core.charts.scene import Blocks, Box, Dots, Layer, Panel, Scene, Steps, lanes
from wmlab.core.charts.steps import Value, thin
from wmlab.core.errors import ChartError
from wmlab.core.recording import Recording
from wmlab.dataflow.charts.facts import Level, State, level_of

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
    chosen = level.keys[0] if key is None and level.keys else key
    if chosen not in level.keys:
        known = ", ".join(map(str, level.keys)) or "none"
        raise ChartError(f"No watermark of key {key} came to {level.vertex!r}.", remedy=f"Choose one of: {known}.")
    curves = [_curve(level, place, name, chosen) for place, name in level.names.items()]
    xs, ys = level.merged(chosen)
    merged = Steps(name="merged", role="lower", xs=xs, ys=ys)
    late = [row for row in level.drops if row["key"] == chosen]
    values = [y for curve in (*curves, merged) for y in curve.ys] + [row["time"] for row in late]
    sentence = _sentence(level, chosen, len(late))
    scene = Scene(
        title=title or f"Who holds the watermark of key {chosen} at {level.vertex}?",
        subtitle=sentence,
        across=time_axis("clock", [level.begun_ms, level.end_ms]),
        panels=[
            Panel(up=time_axis("watermark", values, pad_percent=5), layers=[*curves, merged, _dropped(late)]),
            lanes(level.names.values(), _activity(level)),
        ],
    )
    rows = [
        (name, at, y) for place, name in level.names.items() for at, y in zip(*level.marks(place, chosen), strict=True)
    ]
    rows += [("merged", at, y) for at, y in zip(xs, ys, strict=True)]
    data: dict[str, list[Any]] = {n: [row[i] for row in rows] for i, n in enumerate(("input", "at_ms", "watermark"))}
    return Chart(sentence=sentence, data=data, scene=scene)


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
    rows = [(name, *stretch) for place, name in level.names.items() for stretch in level.stretches(place)]
    data: dict[str, list[Any]] = {
        n: [row[i] for row in rows] for i, n in enumerate(("input", "from_ms", "to_ms", "state"))
    }
    return Chart(sentence=sentence, data=data, scene=scene)


def _curve(level: Level, place: int, name: str, key: int) -> Steps:
    xs, ys = level.marks(place, key)
    kept = thin([ys], _MOST_ROWS)
    return Steps(
        name=name,
        role=_ROLES[list(level.names).index(place) % len(_ROLES)],
        xs=[xs[i] for i in kept],
        ys=[ys[i] for i in kept],
    )


def _dropped(late: list[Any]) -> Dots:
    return Dots(
        name="dropped row",
        role="alarm",
        shape="cross",
        xs=[row["at_ms"] for row in late],
        ys=[row["time"] for row in late],
        hover=[f"{row['rule']}: {_row(row['row'])}, {row['margin']:,} below {row['limit']:,}" for row in late],
    )


def _row(text: str) -> str:
    return ", ".join(f"{name} {value}" for name, value in json.loads(text).items())


def _activity(level: Level) -> list[Layer]:
    """A block for every stretch of an input, by what it was."""
    boxes: dict[State, list[Box]] = {"active": [], "idle": [], "done": []}
    for lane, (place, name) in enumerate(level.names.items()):
        for from_ms, to_ms, state in level.stretches(place):
            told = f"{name}: {_LOOKS[state][0]} from {from_ms:,} to {to_ms:,} ms"
            boxes[state].append(Box(from_ms, to_ms, lane - 0.32, lane + 0.32, state, told))
    return [
        Blocks(name=name, role=role, boxes=boxes[state], opacity=opacity)
        for state, (name, role, opacity) in _LOOKS.items()
    ]


def _released(level: Level) -> Dots:
    """The steps at which an input that became idle or ended let a watermark through."""
    steps = [row for row in level.steps if row["stimulus"] in {"idle", "done", "tick"} and row["emitted"]]
    lane = {place: number for number, place in enumerate(level.names)}
    return Dots(
        name="let a watermark through",
        role="upper",
        shape="diamond",
        xs=[row["at_ms"] for row in steps],
        ys=[lane.get(row["input"], 0) for row in steps],
        hover=[", ".join(f"key {k}: {v:,}" for k, v in row["emitted"]) for row in steps],
        size=5.0,
    )


def held_ms(level: Level, key: int) -> dict[int, int]:
    """For how long each input held: counted, with the lowest watermark of `key`, while another one was further."""
    marks: dict[int, Value] = dict.fromkeys(level.names)
    active = set(level.names)
    held = dict.fromkeys(level.names, 0)
    since = level.begun_ms
    for row in [*level.steps, None]:
        until = level.end_ms if row is None else row["at_ms"]
        for place in _holding({place: marks[place] for place in active if place in marks}):
            held[place] += until - since
        since = until
        if row is not None:
            active = set(row["active"])
            if row["key"] == key and row["input"] in marks and row["value"] is not None:
                marks[row["input"]] = row["value"]
    return held


def _holding(marks: dict[int, Value]) -> list[int]:
    if len(set(marks.values())) < 2:
        return []
    if None in marks.values():
        return [place for place, mark in marks.items() if mark is None]
    low = min(mark for mark in marks.values() if mark is not None)
    return [place for place, mark in marks.items() if mark == low]


def _sentence(level: Level, key: int, late: int) -> str:
    run_ms = level.end_ms - level.begun_ms
    held = held_ms(level, key)
    most = max(held, key=lambda place: held[place])
    last = level.merged(key)[1][-1]
    where = "has no watermark" if last is None else f"ended at {last:,} ms"
    dropped = (
        f"; {late} rows that came below it were dropped" if late > 1 else "; a row below it was dropped" if late else ""
    )
    if not held[most]:
        return f"No input of {level.vertex} held the others back; the merged watermark of key {key} {where}{dropped}."
    return (
        f"{level.names[most]} held the watermark of key {key} at {level.vertex} longest, {format_duration(held[most])} "
        f"of {format_duration(run_ms)}; the merged one {where}{dropped}."
    )


def _activity_sentence(level: Level, released: int) -> str:
    idle = {
        place: sum(to - begin for begin, to, state in level.stretches(place) if state == "idle")
        for place in level.names
    }
    most = max(idle, key=lambda place: idle[place])
    if not idle[most]:
        return f"No input of {level.vertex} was ever left out as idle."
    count = sum(1 for length in idle.values() if length)
    let = {0: "that let no watermark through", 1: "that let a watermark through once"}.get(
        released, f"that let a watermark through {released} times"
    )
    return (
        f"{count} of {len(level.names)} inputs of {level.vertex} {'was' if count == 1 else 'were'} idle at some time, "
        f"{level.names[most]} longest "
        f"({format_duration(idle[most])}); {let}."
    )
