"""The invariants of watermarks and idle messages: rules over the rows of one dataflow.

Source: "Keyed watermark support", Description of current behavior, WM rules, Coalescing of WMs with different keys,
Handling of keyed idle messages; `wmlab.dataflow.model.coalescer`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from itertools import pairwise
from operator import itemgetter
from typing import Any, Final

from wmlab.core.grouping import rows_by
from wmlab.core.invariants import Evidence, Finding, TableRow, TableRows, invariant, name_text, time_text
from wmlab.dataflow.checks.channels import Channels
from wmlab.dataflow.checks.rows import NONE_SO_FAR, HighestSoFar
from wmlab.dataflow.checks.steps import COALESCER
from wmlab.dataflow.model.items import FrameGrid

FORWARDING: Final = (
    "map", "filter", "flat map", "merge", "late drop", "stateful map", "window", "session window", "hash join",
)  # fmt: skip
"""Kinds of vertices that forward every watermark of the keys that can leave them."""
_INSTANCE: Final = ("execution", "vertex", "instance")
_STEP: Final = ("vertex", "instance", "level", "edge", "step", "at_ms", "input", "stimulus", "key", "value")


@invariant(
    "the watermarks of a key strictly increase on every queue",
    title="watermarks increase",
)
def watermarks_increase(specials: TableRows, queues: TableRows) -> Iterator[Finding]:
    """K1: on every queue each watermark of a key is above the one before; one finding per pair of neighbours."""
    ends = {queue["queue"]: {name: queue[name] for name in ("source", "target")} for queue in queues}
    sent = sorted((item for item in specials if item["kind"] == "watermark"), key=itemgetter("sequence"))
    watermarks = ({**item, **ends[item["queue"]]} for item in sent)
    for along in rows_by(watermarks, itemgetter("execution", "queue", "key")).values():
        for before, item in pairwise(along):
            if item["value"] > before["value"]:
                yield Finding(True, item["put_ms"])
                continue
            what = (
                f"watermark {item['value']} of key {item['key']} from {name_text(item['source'])} to "
                f"{name_text(item['target'])} is not above {before['value']}, which came before it"
            )
            columns = ("execution", "queue", "source", "target", "key", "sequence", "put_ms", "value")
            proof = [Evidence.of("items", row, *columns) for row in (before, item)]
            yield Finding(False, item["put_ms"], what, proof)


@invariant(
    "coalescing lets the lowest watermark of the active inputs through, and never goes back",
    title="the lowest watermark",
)
def watermarks_coalesced(steps: TableRows, due: TableRows) -> Iterator[Finding]:
    """K3: coalescing lets through the lowest watermark of the inputs that count, and never goes back.

    One finding per step. `due` is what `coalesced_steps` makes of the items, by sound rules.
    """
    for step, designed in _recorded_and_due(steps, due):
        if step["emitted"] == designed["emitted"]:
            yield Finding(True, step["at_ms"])
            continue
        what = f"{_at(step)} let {_text(step['emitted'])} through, where coalescing gives {_text(designed['emitted'])}"
        proof = [Evidence.of("coalescing", step, *_STEP, "active", "idle", "done", "emitted")]
        yield Finding(False, step["at_ms"], what, proof)


@invariant(
    "coalescing says idle when its last active input is idle or ends, and only then",
    title="idle when all inputs are",
)
def idle_when_all_are(steps: TableRows, due: TableRows) -> Iterator[Finding]:
    """K4: coalescing says idle when the last input that counts is idle or ends, and only then; one finding per step."""
    for step, designed in _recorded_and_due(steps, due):
        if step["emitted_idle"] == designed["emitted_idle"]:
            yield Finding(True, step["at_ms"])
            continue
        early = "says that it is idle where it is not to"
        wrong = early if step["emitted_idle"] else "does not say that all its inputs are idle"
        proof = [Evidence.of("coalescing", step, *_STEP, "active", "idle", "done", "emitted_idle")]
        yield Finding(False, step["at_ms"], f"{_at(step)} {wrong}", proof)


def emitted_watermarks(steps: TableRows, level: str) -> list[dict[str, Any]]:
    """Each watermark that a level let through, with the columns of its step."""
    return [
        {**step, "key": key, "value": value}
        for step in steps
        if step["level"] == level
        for key, value in step["emitted"].items()
    ]


def on_grids(coalesced: Iterable[dict[str, Any]], vertices: TableRows) -> list[dict[str, Any]]:
    """Coalesced watermarks with the value that may leave their vertex, which is the last one of its grid."""
    grids = {row["vertex"]: FrameGrid(row["grid"]) for row in vertices if row.get("grid") is not None}
    return [
        {**entry, "value": grids[entry["vertex"]].floor(entry["value"])} if entry["vertex"] in grids else entry
        for entry in coalesced
    ]


def _of_queues_and_edges(steps: TableRows) -> Iterator[TableRow]:
    return (step for step in steps if step["level"] != "partition")


def _recorded_and_due(steps: TableRows, due: TableRows) -> Iterator[tuple[TableRow, TableRow]]:
    """The recorded steps at which a watermark, idle message or end came, each with what it should do."""
    designed = {
        (*(step[name] for name in COALESCER), step["place"]): step for step in due if step["stimulus"] != "event"
    }
    for step in _of_queues_and_edges(steps):
        position = step["taken"] - 1 if step["level"] == "edge" else step["step"]
        known = designed.get((*(step[name] for name in COALESCER), position))
        if step["stimulus"] != "event" and known is not None:
            yield step, known


def _text(watermarks: Mapping[int, int]) -> str:
    """Watermarks by key as one reads them: "20 of key 0"."""
    return ", ".join(f"{value} of key {key}" for key, value in sorted(watermarks.items())) or "no watermark"


def _at(step: TableRow) -> str:
    instance = f"instance {name_text(step['vertex'])}[{step['instance']}]"
    return f"input edge {step['edge']} of {instance}" if step["level"] == "edge" else instance


@invariant(
    "a coalesced watermark leaves at once where no row is held back",
    title="watermarks leave at once",
)
def leaves_at_once(
    steps: TableRows,
    specials: TableRows,
    channels: Channels,
    queue_loads: TableRows,
    queues: TableRows,
    vertices: TableRows,
    executions: TableRows,
) -> Iterator[Finding]:
    """K15: where nothing is held back, a coalesced watermark, or a higher one, leaves in the turn that coalesced it.

    One finding per watermark, behind which there was another step or the execution came to its end. Left out are
    asynchronous steps and joins, which hold rows, custom processors that get the watermarks of each input, and
    instances that wrote to a queue which was full at some time.
    """
    completed = {row["execution"]: row["outcome"] == "completed" for row in executions}
    capacity = {queue["queue"]: queue["capacity"] for queue in queues}
    blocked = {
        (load["execution"], *channels.source[load["queue"]])
        for load in queue_loads
        if load["most"] >= capacity[load["queue"]]
    }
    keys = keys_forwarded(vertices, {*FORWARDING, "custom"})
    last: dict[tuple[Any, ...], int] = {}
    for step in steps:
        if step["level"] == "global":
            instance = tuple(step[name] for name in _INSTANCE)
            last[instance] = max(last.get(instance, step["step"]), step["step"])
    departures: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
    for instance, items in channels.sent(specials, "watermark").items():
        for item in items:
            departures.setdefault((*instance, item["key"]), []).append((-item["value"], -item["put_ms"]))
    # The highest of the negative moments up to a negative watermark: when the first one left that is not below it.
    earliest = {where: HighestSoFar(sent) for where, sent in departures.items()}
    for entry in on_grids(emitted_watermarks(steps, "global"), vertices):
        instance = tuple(entry[name] for name in _INSTANCE)
        forwarded = entry["key"] in keys.get(entry["vertex"], ()) and instance not in blocked
        if not forwarded or entry["execution"] not in completed:
            continue
        known = earliest.get((*instance, entry["key"]), NONE_SO_FAR).before(-entry["value"], with_equal=True)
        left_ms = None if known is None else -known
        if completed[entry["execution"]] or entry["step"] < last[instance] or left_ms is not None:
            yield _left_at_once(entry, left_ms)


def _left_at_once(entry: TableRow, left_ms: int | None) -> Finding:
    """Whether a coalesced watermark, or a higher one, left in the millisecond in which it was coalesced."""
    if left_ms is not None and left_ms <= entry["at_ms"]:
        return Finding(True, entry["at_ms"])
    late = "never left" if left_ms is None else f"left at {time_text(left_ms)} only"
    what = (
        f"watermark {entry['value']} of key {entry['key']}, coalesced by {name_text(entry['vertex'])}"
        f"[{entry['instance']}] at {time_text(entry['at_ms'])}, {late}"
    )
    columns = ("vertex", "instance", "step", "at_ms", "key", "value")
    return Finding(False, entry["at_ms"], what, [Evidence.of("coalescing", entry, *columns, left_ms=left_ms)])


def keys_forwarded(vertices: TableRows, kinds: Set[str]) -> dict[str, set[int]]:
    """The keys whose watermarks vertices of these kinds forward at once; a window holds grouped times."""
    return {
        row["vertex"]: {key for key, column in row["keys"].items() if column == "end" or "window" not in row["kind"]}
        for row in vertices
        if row["kind"] in kinds
    }
