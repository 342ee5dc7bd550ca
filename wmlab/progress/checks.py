"""The check of progress by origin, sequence and chunk: one verdict for each invariant, from tables alone, in memory.

What an operator believed after each buffer is recorded (`completed`, `reached_prefix`, `reached_local`, `reached`) and
compared with what the buffers themselves say: N1, N3, N6. N10 is about chunks, N12 is about a run at rest. Each is a
rule over the rows of one query; there is one finding per buffer or sequence. A scan decides nothing by what it believes
and is not judged. A recording that was made under a literal rule is found out here.

What else a tracker has to keep follows from N1 and N3: that a gap blocks (N2), and that a complete sequence counts with
the largest watermark of its chunks (N5). The local watermark lies between that of the last complete sequence and the
largest (N7). Those numbers are not given again, nor N4, which compared two rules of the model. N8, N9 and N11 compared
the windows of a run with the model that had run them.

Source: "Watermarking and Progress"; wmlab's own list of what it guarantees; upstream classes
`MultiOriginWatermarkProcessor` and `ChunkCollector`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from wmlab.core.grouping import rows_by
from wmlab.core.invariants import (
    Derived,
    Evidence,
    Finding,
    Invariant,
    TableRow,
    TableRows,
    Verdicts,
    chosen_of,
    invariant,
    name_text,
    of_one_stream,
    time_text,
    verdicts_of,
)
from wmlab.core.recording import Recording
from wmlab.progress.model.chunks import CompletenessRule
from wmlab.progress.model.numbers import stamp_of
from wmlab.progress.model.tracker import LocalRule, ProgressRules, Reached, follow_buffers, guessed_origins
from wmlab.progress.scenario import SCAN, ProgressScenario

_IDENTIFIERS: Final = ("stream", "operator", "arrival", "origin", "sequence", "chunk", "last", "watermark")


class Tracked(NamedTuple):
    """A row of `buffers`, and what a tracker reaches with it."""

    row: TableRow
    reached: Reached


def tracked(buffers: TableRows, local: LocalRule) -> list[Tracked]:
    """The arrivals at each operator of one query in their order, followed by a tracker that goes by the set of chunks.

    `local` is the recording's rule. By the literal sentence of the document, a watermark counts before its sequence is
    complete; that is judged as what it should have been, the watermark of the last complete sequence.
    """
    followed: list[Tracked] = []
    for arrivals in _by_operator(buffers, "arrival"):
        first = arrivals[0]
        rules = ProgressRules(chunk_base=first["chunk_base"], local="head" if local == "literal" else local)
        origins = guessed_origins((row["origin"] for row in arrivals), first["origins"])
        followed += map(Tracked, arrivals, follow_buffers(map(stamp_of, arrivals), origins, rules))
    return followed


def _by_operator(rows: TableRows, order: str) -> list[TableRows]:
    """The rows of each operator, in the order of a column."""
    by_operator = rows_by(rows, itemgetter("operator"))
    return [sorted(rows_of_one, key=itemgetter(order)) for rows_of_one in by_operator.values()]


@invariant("prefix and local watermark are those of the longest complete prefix")
def prefix_decides(tracked: Sequence[Tracked]) -> Iterator[Finding]:
    """N1: prefix and local watermark are those of the longest consecutive sequence of complete sequences."""
    for row, reached in tracked:
        if (row["reached_prefix"], row["reached_local"]) == (reached.prefix, reached.local_watermark):
            yield Finding(True)
        else:
            what = (
                f"{name_text(row['emitter'])} was taken to be complete up to sequence {row['reached_prefix']} "
                f"(watermark {time_text(row['reached_local'])}), but is up to {reached.prefix} (watermark "
                f"{time_text(reached.local_watermark)})"
            )
            yield _broken_at(row, what, "reached_prefix", "reached_local")


@invariant("a sequence is complete exactly when all its chunks have come")
def complete_by_the_set(tracked: Sequence[Tracked], complete: CompletenessRule) -> Iterator[Finding]:
    """N3: an arrival completes its sequence exactly when it is the last of all chunks to come.

    `complete` is the rule of the recording, which a finding names if it is another one.
    """
    by_rule = "" if complete == "set" else f" (rule {complete!r})"
    for row, reached in tracked:
        if row["completed"] == reached.completes:
            yield Finding(True)
        else:
            wrong = "complete too early" if row["completed"] else "complete unnoticed"
            what = f"sequence {row['sequence']} of {name_text(row['emitter'])} was {wrong}{by_rule}"
            yield _broken_at(row, what, "completed")


@invariant("the global watermark is the smallest local one, unknown while an origin has none")
def smallest_of_the_origins(buffers: TableRows) -> Iterator[Finding]:
    """N6: the global watermark is the smallest of the recorded local ones, unknown while a declared origin has none."""
    for arrivals in _by_operator(buffers, "arrival"):
        local: dict[int, int | None] = {}
        for row in arrivals:
            local[row["origin"]] = row["reached_local"]
            known = [value for value in local.values() if value is not None]
            smallest = min(known) if len(known) == row["origins"] == len(local) else None
            if row["reached"] == smallest:
                yield Finding(True)
            else:
                reached = time_text(row["reached"])
                what = f"the global watermark is {reached}; the smallest local one is {time_text(smallest)}"
                yield _broken_at(row, what, "reached_local", "reached")


def _broken_at(row: TableRow, what: str, *columns: str) -> Finding:
    """A broken promise at an arrival, with some columns besides those that identify it."""
    where = f"after arrival {row['arrival']} at {name_text(row['operator'])} of {name_text(row['stream'])}"
    return Finding(False, row["arrived_ms"], f"{where}, {what}", [Evidence.of("buffers", row, *_IDENTIFIERS, *columns)])


@invariant("no chunk comes twice, and only the one with the highest number is the last")
def chunks_in_order(buffers: TableRows) -> Iterator[Finding]:
    """N10: no chunk of a sequence comes twice, one at most is the last, and none has a higher number."""
    for arrivals in rows_by(buffers, itemgetter("operator", "origin", "sequence")).values():
        chunks = sorted(row["chunk"] for row in arrivals)
        lasts = [row["chunk"] for row in arrivals if row["last"]]
        if len(set(chunks)) == len(chunks) and lasts in ([], [chunks[-1]]):
            yield Finding(True)
            continue
        row, listed = arrivals[0], ", ".join(map(str, chunks))
        what = (
            f"sequence {row['sequence']} of {name_text(row['emitter'])} at {name_text(row['operator'])} has the chunks "
            f"{listed} and {len(lasts)} last flags"
        )
        others = {"chunks": chunks, "last_chunk": max(lasts, default=None)}
        proof = Evidence.of("buffers", row, "stream", "operator", "origin", "sequence", **others)
        yield Finding(False, max(row["arrived_ms"] for row in arrivals), what, [proof])


@invariant("at rest each origin has passed all sequences up to the first one that has not come whole")
def comes_to_rest(buffers: TableRows) -> Iterator[Finding]:
    """N12: after the last arrival of an origin, the sequence behind its prefix has not come, or not whole.

    One finding per operator and origin. The chunks decide, whatever rule the operator went by.
    """
    for arrivals in _by_operator(buffers, "arrival"):
        chunks: dict[tuple[int, int], dict[int, bool]] = {}
        for row in arrivals:
            chunks.setdefault((row["origin"], row["sequence"]), {})[row["chunk"]] = row["last"]
        latest = {row["origin"]: row for row in arrivals}
        for origin, row in sorted(latest.items()):
            behind = chunks.get((origin, row["reached_prefix"] + 1), {})
            lasts = [number for number, last in behind.items() if last]
            if not lasts or len(behind) <= max(lasts) - row["chunk_base"]:
                yield Finding(True)
            else:
                sequence = row["reached_prefix"] + 1
                what = (
                    f"emitter {name_text(row['emitter'])} stands still before sequence {sequence}, which has come whole"
                )
                yield _broken_at(row, what, "reached_prefix", "reached_local")


INVARIANTS: Final[Mapping[str, Invariant]] = {
    "N1": prefix_decides,
    "N3": complete_by_the_set,
    "N6": smallest_of_the_origins,
    "N10": chunks_in_order,
}
"""What progress in a recording has to keep, by name."""
LIVENESS: Final[Mapping[str, Invariant]] = {"N12": comes_to_rest}
"""What it has to keep once everything has come to rest; judged when it is named, for most runs end before that."""


def inputs_of(rules: ProgressRules) -> dict[str, Any]:
    """What the invariants take besides `buffers`, for the rules under which a recording was made."""
    return {"local": rules.local, "complete": rules.complete, "tracked": Derived(tracked)}


def in_memory(recording: Recording, *only: str) -> Verdicts:
    """One verdict per invariant with the rows that prove a violation, from the table `buffers`.

    `only` names those that are judged; without names, all of `INVARIANTS` are. Raises `ModelError` for a name that is
    none.
    """
    chosen = chosen_of(INVARIANTS, LIVENESS, only)
    scenario = recording.scenario_as(ProgressScenario)
    inputs = inputs_of(ProgressRules() if scenario is None else scenario.rules.trackers)
    buffers: pa.Table = recording.table("buffers")
    buffers = buffers.filter(pc.not_equal(buffers["operator"], SCAN))
    queries = pc.unique(buffers["stream"]).to_pylist()
    tables = ((query, of_one_stream({"buffers": buffers}, query)) for query in queries)
    return verdicts_of(recording.name, chosen, tables, inputs)
