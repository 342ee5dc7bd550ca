"""K16, a dataflow at rest: sources report how far they have read, and coalescing has reached its inputs.

Source: "Keyed watermark support", Description of current behavior; hazelcast issue 20740.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Final

from wmlab.core.grouping import rows_by
from wmlab.core.invariants import Evidence, Finding, TableRow, TableRows, invariant, name_text, time_text
from wmlab.dataflow.checks.channels import Channels

_INSTANCE: Final = ("execution", "vertex", "instance")


@invariant(
    "at rest sources that have read rows have said how far, and coalescing stands where its inputs let it",
    title="everything comes to rest",
)
def comes_to_rest(
    source_rows: TableRows,
    specials: TableRows,
    steps: TableRows,
    vertices: TableRows,
    executions: TableRows,
    channels: Channels,
) -> Iterator[Finding]:
    """K16: a source that has read a row sends a watermark, says that it is idle, ends, or waits for a partition; and
    what coalesces inputs has let the lowest watermark of the active ones through, or of idle ones the highest.

    One finding per instance of a source whose rows have a time, and per coalescing and key for which no active input is
    silent, in each execution that was not cut short.
    """
    lasting = {row["execution"] for row in executions if row["outcome"] in ("running", "completed")}
    timed = {row["vertex"] for row in vertices if dict(row["keys"])}
    said = {
        (item["execution"], *channels.source[item["queue"]])
        for item in specials
        if item["kind"] in ("watermark", "idle", "done")
    }
    active = {
        tuple(row[name] for name in _INSTANCE): row["active"]
        for row in sorted(steps, key=itemgetter("step"))
        if row["level"] == "partition"
    }
    reads: dict[tuple[int, str, int], int] = {}
    for row in source_rows:
        instance = row["execution"], row["vertex"], row["instance"]
        reads[instance] = min(reads.get(instance, row["at_ms"]), row["at_ms"])
    for instance, at_ms in sorted(reads.items()):
        execution, vertex, number = instance
        if execution not in lasting or vertex not in timed:
            continue
        if instance in said or active.get(instance):
            yield Finding(True)
            continue
        what = (
            f"source {name_text(vertex)}[{number}] has read rows since {time_text(at_ms)}, and has sent neither a "
            "watermark nor an idle message; no partition of it is waited for"
        )
        proof = Evidence("source_rows", {"execution": execution, "instance": number, "at_ms": at_ms})
        yield Finding(False, at_ms, what, [proof])
    yield from _coalesced(row for row in steps if row["execution"] in lasting)


def _coalesced(steps: Iterable[TableRow]) -> Iterator[Finding]:
    """What was found about the last step of each coalescing."""
    of_queues = (row for row in steps if row["level"] != "partition")
    by_coalescer = rows_by(of_queues, lambda row: (*(row[name] for name in (*_INSTANCE, "level")), row["edge"] or 0))
    for _, rows in sorted(by_coalescer.items()):
        rows.sort(key=itemgetter("step"))
        last = rows[-1]
        marks: dict[tuple[int, int], int] = {}
        through: dict[int, int] = {}
        for row in rows:
            through |= dict(row["emitted"])
            if row["stimulus"] == "watermark":
                marks[row["key"], row["input"]] = row["value"]
        for key in sorted({key for key, _ in marks}):
            active = [marks[key, number] for number in last["active"] if (key, number) in marks]
            if len(active) < len(last["active"]) or not (active or last["idle"]):
                continue  # an input that has said nothing holds the key, or all inputs have ended
            # When nobody is left to wait for, the highest watermark is let through.
            due = min(active) if active else max(value for (of_key, _), value in marks.items() if of_key == key)
            if through.get(key, due - 1) >= due:
                yield Finding(True)
                continue
            where = f"instance {name_text(last['vertex'])}[{last['instance']}]"
            what = f"{where} stands at {through.get(key)} of key {key}, though its inputs let it come to {due}"
            columns = ("stream", *_INSTANCE, "step", "at_ms", "level", "edge", "active")
            yield Finding(False, last["at_ms"], what, [Evidence.of("coalescing", last, *columns)])
