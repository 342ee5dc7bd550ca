"""Charts of what controllers did: when each ran the watermark cycle, and which buckets of streams it owned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain, repeat
from typing import Final

from wmlab.core.charts.axis import time_axis
from wmlab.core.charts.chart import Chart
from wmlab.core.charts.rows import SERIES, SHAPES, columns_of, faults, one_stream, share_of, stream_rows
from wmlab.core.charts.scene import Blocks, Box, Dots, Panel, Rule, Scene, Steps, lanes
from wmlab.core.recording import Recording
from wmlab.core.words import counted, grouped, moment
from wmlab.streams.answers.explain import causes, longest_stall
from wmlab.streams.answers.history import Row
from wmlab.streams.answers.ownership import last_ms, owner_rows, ownership

_MOST_CYCLES: Final = 600
_MOST_BUCKETS: Final = 30


def watermark_cycles(recording: Recording, *, stream: str | None = None, title: str | None = None) -> Chart:
    """Draw each run of the watermark cycle in the lane of its controller, above the previous watermark's lower bound.

    A cycle emits when every writer that it waits for has passed it. Raises `ChartError` if there are several streams
    and none is chosen, or no cycles.
    """
    name = one_stream(recording, stream, "cycles")
    cycles = stream_rows(recording, "cycles", name, by="at_ms")
    controllers = sorted({row["controller"] for row in cycles})
    shown = share_of(cycles, _MOST_CYCLES)
    held = causes(recording, name, start_ms=cycles[0]["at_ms"], end_ms=cycles[-1]["at_ms"])
    sentence = f"{_describe_cycles(name, cycles)}{longest_stall(held)}."
    fewer = f" Drawn are {grouped(len(shown))} of {grouped(len(cycles))} cycles." if len(shown) < len(cycles) else ""
    times = [row["previous_lower"] for row in cycles]
    times += [mark["lower"] for mark in stream_rows(recording, "watermarks", name)]
    bound = Steps(
        name="previous lower bound",
        role="perfect",
        xs=[row["at_ms"] for row in shown],
        ys=[row["previous_lower"] for row in shown],
    )
    scene = Scene(
        title=title or f"When did the watermark cycle of {name} emit, and why not?",
        subtitle=sentence + fewer,
        across=time_axis("clock", [cycles[0]["at_ms"], cycles[-1]["at_ms"]], pad_percent=2),
        panels=[
            lanes(controllers, [_cycles(emitted, shown, controllers) for emitted in (True, False)]),
            Panel(up=time_axis("event time", times, pad_percent=5), height=200.0, layers=[bound]),
        ],
        rules=faults(recording, name),
    )
    columns = ("controller", "at_ms", "previous_lower", "lagging", "removed", "outcome", "reason")
    return Chart(sentence=sentence, data=columns_of(cycles, columns), scene=scene)


def _cycles(emitted: bool, shown: Sequence[Row], controllers: Sequence[str]) -> Dots:
    cycles = [row for row in shown if (row["outcome"] == "emitted") is emitted]
    return Dots(
        name="emitted" if emitted else "held",
        role="lower" if emitted else "upper",
        shape="circle" if emitted else "cross",
        xs=[row["at_ms"] for row in cycles],
        ys=[controllers.index(row["controller"]) for row in cycles],
        hover=[_cycle_in_words(row) for row in cycles],
        size=3.0 if emitted else 4.0,
    )


def _cycle_in_words(row: Row) -> str:
    removed = f"; dropped {', '.join(row['removed'])}" if row["removed"] else ""
    return f"{moment(row['at_ms'])}, {row['controller']}: {row['reason'] or row['outcome']}{removed}"


def _describe_cycles(name: str, cycles: Sequence[Row]) -> str:
    held = [row for row in cycles if row["outcome"] != "emitted"]
    emitted = grouped(len(cycles) - len(held))
    text = f"{counted(len(cycles), 'cycle')} ran for {name}, {emitted} of them emitted a watermark"
    if not held:
        return f"{text}; none was held"
    waited = Counter(writer for row in held for writer in row["lagging"])
    reasons = waited or Counter(row["reason"] for row in held)
    cause, count = min(reasons.items(), key=lambda pair: (-pair[1], pair[0]))
    all_of_them = {1: "the other one", 2: "both others"}.get(len(held), f"all {grouped(len(held))} others")
    others = all_of_them if count == len(held) else f"{grouped(count)} of the {grouped(len(held))} others"
    were = "was" if count == 1 else "were"
    return f"{text}; {others} {f'waited for {cause}' if waited else f'{were} held because: {cause}'}"


def bucket_ownership(recording: Recording, *, title: str | None = None) -> Chart:
    """Draw who owned each bucket of streams over time, by the word of the coordination service.

    A bucket without an owner runs no cycle, so the bounds of its streams stand still. Buckets without streams are left
    out, and those beyond the first 30. Raises `RecordingError` if one
    controller owned everything all the time, which is not recorded.
    """
    found, rows = ownership(recording), owner_rows(recording)
    end_ms = last_ms(recording, rows)
    every = sorted({row["bucket"] for row in rows})
    buckets = [bucket for bucket in every if any(row["streams"] for row in rows if row["bucket"] == bucket)]
    buckets = (buckets or every)[:_MOST_BUCKETS]
    fewer = f" Drawn are {len(buckets)} of {len(every)} buckets, those with streams." if buckets != every else ""
    controllers = sorted({row["controller"] for row in rows})
    roles = chain(SERIES, repeat("unknown"))
    layers = [_owned(controller, next(roles), rows, buckets, end_ms) for controller in controllers]
    layers.append(_nobody(found.gaps, buckets))
    scene = Scene(
        title=title or "Who owned which bucket of streams?",
        subtitle=found.sentence + fewer,
        across=time_axis("clock", [min(row["from_ms"] for row in rows), end_ms]),
        panels=[lanes([_lane(bucket, rows) for bucket in buckets], layers)],
        rules=_crashes(recording, controllers),
    )
    data = columns_of(rows, ("bucket", "controller", "streams", "from_ms", "to_ms"))
    return Chart(sentence=found.sentence, data=data, scene=scene)


def _lane(bucket: int, rows: Sequence[Row]) -> str:
    streams = next(row["streams"] for row in rows if row["bucket"] == bucket)
    shown = ", ".join(streams[:2]) + (", …" if len(streams) > 2 else "")
    return f"bucket {bucket}: {shown or 'no stream'}"


def _owned(controller: str, role: str, rows: Sequence[Row], buckets: Sequence[int], end_ms: int) -> Blocks:
    boxes = []
    for row in rows:
        if row["controller"] == controller and row["bucket"] in buckets:
            to_ms = end_ms if row["to_ms"] is None else row["to_ms"]
            lane = buckets.index(row["bucket"])
            words = f"bucket {row['bucket']}: {controller} from {moment(row['from_ms'])} to {moment(to_ms)}"
            boxes.append(Box(row["from_ms"], to_ms, lane - 0.36, lane + 0.36, controller, words))
    return Blocks(name=controller, role=role, boxes=boxes)


def _nobody(orphaned: Sequence[tuple[int, int, int]], buckets: Sequence[int]) -> Blocks:
    boxes = [
        Box(begin, end, buckets.index(bucket) - 0.1, buckets.index(bucket) + 0.1, "", f"bucket {bucket}: no owner")
        for bucket, begin, end in orphaned
        if bucket in buckets
    ]
    return Blocks(name="no owner", role="alarm", boxes=boxes, opacity=0.5)


def _crashes(recording: Recording, controllers: Sequence[str]) -> list[Rule]:
    incidents = [row for row in recording.table("incidents").to_pylist() if row["target"] in controllers]
    shapes = {(row["at_ms"], row["detail"]): SHAPES.get(row["kind"], "circle") for row in incidents}
    return [Rule(at_ms, detail, shape) for (at_ms, detail), shape in sorted(shapes.items())]
