"""Writer marks: versions, positions, transactions, records (writer_mark_cas, writer_position, txn_mark, ...)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from uuid import UUID

from tests.conformance.fields import (
    Fields,
    accepted,
    constant,
    expect,
    expect_if,
    history_of,
    known,
    lookup,
    position_of,
    written,
)
from wmlab.streams.model.cut import CutAlgorithm
from wmlab.streams.model.log import Watermark
from wmlab.streams.model.marks import (
    MarkTable,
    NoteOutcome,
    Versioned,
    WriterMark,
    acknowledge,
    add_segments,
    automatic_notes_ms,
    refuse_explicit_note,
)
from wmlab.streams.model.position import Position
from wmlab.streams.model.segment import KeyRange, parse_segment, segment_name
from wmlab.streams.model.txn import CommittedTxn, marks_of, txn_epoch
from wmlab.streams.scenario.parts import EventWriter

NOTE = r"note writer t=(-?\d+) \{(\d+):(\d+)\}"


def run_cas(inputs: Fields, expected: Fields, algorithm: CutAlgorithm) -> None:
    """Compare-and-set of one writer's record, step by step."""
    store = Store()
    found = [store.do(step) for step in inputs.take("steps")]
    expect("results", found, expected.take("results"))


class Store:
    """The store of marks with one writer, and what was last written and read."""

    def __init__(self) -> None:
        self.table = MarkTable()
        self.mark = WriterMark(0, Position())
        self.read: Versioned | None = None
        self.operations: dict[str, Callable[[], NoteOutcome | str]] = {
            "note again same t and position": self.note,
            "create same writer": lambda: self.put(self.table.create("w", self.mark)),
            "update with current version": self.update_current,
            "update again with the same (now stale) version": self.update_stale,
            "remove with the exact stored mark": lambda: self.put(self.table.remove("w", self.mark)),
            "update the removed writer": self.update_stale,
            "create; a note whose read missed the record then tries to create": self.note_blindly,
        }

    def do(self, step: str) -> str:
        """The step's result in the words of the cases."""
        if match := re.fullmatch(NOTE, step):
            self.mark = WriterMark(int(match[1]), Position({int(match[2]): int(match[3])}))
            return self.note()
        before = len(self.table.records)
        outcome = lookup("step", step, self.operations)()
        if not isinstance(outcome, NoteOutcome):
            return outcome
        text = "ok" if outcome is NoteOutcome.OK else constant(outcome.value)
        after = len(self.table.records)
        return text if before == after else f"{text} ({after} records)"

    def note(self) -> str:
        before = self.table.records.get("w")
        self.table, outcome = self.table.note("w", self.mark.time, self.mark.position)
        expect("note", outcome, NoteOutcome.SUCCESS)
        count = len(self.table.records)
        if before is None:
            return f"created ({count} record)"
        changed = "changes" if self.table.records["w"].version != before.version else "stays"
        return f"updated (version {changed}, still {count} record)"

    def put(self, result: tuple[MarkTable, NoteOutcome]) -> NoteOutcome:
        self.table, outcome = result
        return outcome

    def update_current(self) -> NoteOutcome:
        self.read = self.table.records["w"]
        return self.update_stale()

    def update_stale(self) -> NoteOutcome:
        assert self.read is not None, "nothing was read before"
        return self.put(self.table.update("w", self.mark, self.read.version))

    def note_blindly(self) -> str:
        self.put(self.table.create("w", self.mark))
        _, stored = self.table.create("w", self.mark)
        self.table, outcome = self.table.note("w", self.mark.time, self.mark.position, read=None)
        return f"{constant(outcome.value)} ({constant(stored.value)} is translated)"


def run_position(inputs: Fields, expected: Fields, algorithm: CutAlgorithm) -> None:
    """The position that a writer sends with a time, and the automatic mode."""
    position = Position()
    for name, record in inputs.take("segments").items():
        position = add_segments(position, [parse_segment(name)])
        with Fields(record, name) as fields:
            position = acknowledge(position, parse_segment(name), fields.take("last_acked_offset"))
    table, _ = MarkTable().note("w", inputs.take("note_time"), position)
    mark = table.marks["w"]
    expect("position", written(mark.position), expected.take("position"))
    expect("time", mark.time, expected.take("time"))
    expect_if(expected, auto_mode=automatic_mode())


def automatic_mode() -> dict[str, Any]:
    """The automatic mode in the words of the cases."""
    period_ms = EventWriter("w", rate_per_s=1.0).automatic_note_period_ms
    first, second = automatic_notes_ms(0, 2 * period_ms, period_ms=period_ms)
    in_one_period = automatic_notes_ms(0, second - 1, period_ms=period_ms)
    answer = "accepted" if accepted(lambda: refuse_explicit_note(automatic=True)) else "IllegalStateException"
    return {
        "scheduled_tasks": len(in_one_period),
        "period_s": (second - first) // 1_000,
        "initial_delay_s": first // 1_000,
        "explicit_note_time": answer,
    }


def run_txn(inputs: Fields, expected: Fields, algorithm: CutAlgorithm) -> None:
    """Marks of committed transactions."""
    if "times_generated" in inputs:
        expect("time after each", times_of_repeats(inputs), expected.take("time_after_each"))
        return
    segments = history_of(inputs.take("epochs")).segments
    committed = [committed_txn(record) for record in inputs.take("txns")]
    assert all(segment in segments for txn in committed for segment in txn.position), "a segment is unknown"
    table = note_batch(MarkTable(), committed)
    found = {w: {"time": m.time, "position": written(m.position)} for w, m in table.marks.items()}
    expect("mark", found, expected.take("mark"))


def committed_txn(record: dict[str, Any]) -> CommittedTxn:
    """{"id": , "writer": , "commit_time": , "merge_offsets": }."""
    with Fields(record, "transaction") as fields:
        fields.take("id")
        writer, time = fields.take("writer"), fields.take("commit_time")
        return CommittedTxn(writer, time, position_of(fields.take("merge_offsets")))


def note_batch(table: MarkTable, committed: list[CommittedTxn]) -> MarkTable:
    """Note the marks of one batch as the commit does, which ignores refusals."""
    for writer, mark in ((committed[index].writer, mark) for index, mark in marks_of(committed)):
        table, _ = table.note(writer, mark.time, mark.position)
    return table


def times_of_repeats(inputs: Fields) -> list[int]:
    """The stored time after a mark was generated again and again; the third time its transaction is gone."""
    ((writer, record),) = inputs.take("mark").items()
    with Fields(record, "mark") as fields:
        committed = [CommittedTxn(writer, fields.take("time"), position_of(fields.take("position")))]
    known("third after", inputs.take("third_after"), {"the transaction record is gone"})
    table, times = MarkTable(), []
    for repeat in range(1, inputs.take("times_generated") + 1):
        table = note_batch(table, committed if repeat < 3 else [])
        times.append(table.marks[writer].time)
    return times


def run_segment_id(inputs: Fields, expected: Fields, algorithm: CutAlgorithm) -> None:
    """Ids of segments, and the epoch in a transaction's id."""
    expect("epoch", txn_epoch(UUID(inputs.take("txn_uuid"))), expected.take("txn_epoch"))
    for name, identifier in expected.take("derived_segment_ids").items():
        expect(f"id of {name}", parse_segment(name), identifier)
        expect(f"name of {identifier}", segment_name(identifier), name)


def run_validation(inputs: Fields, expected: Fields, algorithm: CutAlgorithm) -> None:
    """Which records are refused."""
    found = [
        accepted(lambda i=i, low=low, high=high: (segment_name(i), KeyRange.of(low, high)))
        for i, low, high in inputs.take("segment_with_range")
    ]
    expect("segments with range", found, expected.take("segment_with_range_ok"))
    bounds = [accepted(lambda pair=pair: Watermark(*pair, Position())) for pair in inputs.take("watermark_bounds")]
    expect("watermarks", bounds, expected.take("watermark_ok"))
