"""Step lists: writers note, leaders run cycles, readers advance (kinds workflow, reader_*, writer_mark)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.conformance.fields import (
    Fields,
    Operations,
    UnknownFormatError,
    answer_to,
    constant,
    each,
    epoch_of,
    expect,
    lookup,
    position_of,
    reader_position_of,
    written,
)
from tests.streams.model.leaders import Led
from wmlab.streams.model import cycle, window
from wmlab.streams.model.cut import CutAlgorithm, VisitOrder
from wmlab.streams.model.history import Epoch, StreamHistory
from wmlab.streams.model.log import Watermark
from wmlab.streams.model.marks import NoteOutcome, positions_ordered
from wmlab.streams.model.segment import Segment

VISIT_ORDERS: dict[str, VisitOrder] = {"order": "as_noted"}


def run(inputs: Fields, expected: Fields, algorithm: CutAlgorithm) -> None:
    """Run every step of the case and compare what it lists."""
    steps = inputs.take("steps")
    rules = cycle.CycleRules(
        timeout_ms=inputs.take("timeout_ms"),
        algorithm=algorithm,
        visit_order=lookup("model", inputs.take("model", "order"), VISIT_ORDERS),
        bug_6510=notes_unacknowledged(steps) and (algorithm == "pravega" or not recommends(steps)),
    )
    World([epoch_of(record) for record in inputs.take("epochs")], rules).run(steps)


def notes_unacknowledged(steps: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a writer notes a segment without acknowledgement, which only bug 6510 keeps in a cut."""
    return any(
        notes_unacknowledged(step.get("before_write", ()))
        or (step.get("op") == "note" and any(offset < 0 for offset in step.get("position", {}).values()))
        for step in steps
    )


def recommends(steps: Sequence[Mapping[str, Any]]) -> bool:
    """Whether some step tells the recommended answer from the real one."""
    return any("expect_real" in step or recommends(step.get("before_write", ())) for step in steps)


class World(Led):
    """One stream with its marks, its log, leaders and readers; without cycles the epochs need not be a history."""

    def __init__(self, epochs: list[Epoch], rules: cycle.CycleRules) -> None:
        super().__init__(StreamHistory.create(1), rules)
        self.epochs = epochs
        self.leaders: dict[str, cycle.CycleState] = {}
        self.readers: dict[str, window.Tracker] = {}
        self.operations: Operations = {
            "note": self.note,
            "shutdown": self.shutdown,
            "epoch": self.epoch,
            "tick": self.tick,
            "cycle": self.cycle,
            "write_mark": self.write_mark,
            "reader_compare": self.reader_compare,
            "reader_advance": self.reader_advance,
            "reader_window": self.reader_window,
            "writers": self.writers,
            "compare_positions": self.compare_positions,
        }

    @property
    def segments(self) -> dict[int, Segment]:
        return {segment.id: segment for epoch in self.epochs for segment in epoch.segments}

    def run(self, steps: Sequence[Mapping[str, Any]]) -> None:
        """Run the steps in turn; of the two expectations the one for this algorithm counts."""
        for step in each(steps, "step"):
            answer = answer_to(step, self.operations)
            recommended = step.take("expect", {})
            real = step.take("expect_real", recommended)
            with Fields(real if self.rules.algorithm == "pravega" else recommended, step.what) as expected:
                self.check(step.what, answer, expected)

    def check(self, what: str, found: Mapping[str, Any], expected: Fields) -> None:
        for name, value in found.items():
            if name not in expected:
                continue
            listed = expected.take(name)
            if name == "emitted":
                expect(f"{what}: number of watermarks", len(value), len(listed))
                for watermark, fields in zip(value, listed, strict=True):
                    expect_part(f"{what}: watermark", watermark, fields)
            elif name == "writers":
                for writer, fields in listed.items():
                    assert writer in value, f"{what}: no mark of {writer}"
                    expect_part(f"{what}: mark of {writer}", value[writer], fields)
            else:
                expect(f"{what}: {name}", value, sorted(listed) if isinstance(listed, list) else listed)

    def note(self, step: Fields) -> dict[str, Any]:
        writer, time, position = step.take("writer"), step.take("time"), position_of(step.take("position"))
        self.marks, outcome = self.marks.note(writer, time, position)
        return {"result": constant(outcome.value)}

    def shutdown(self, step: Fields) -> dict[str, Any]:
        self.marks, outcome = self.marks.shutdown(step.take("writer"))
        return {"result": "SUCCESS" if outcome is NoteOutcome.OK else constant(outcome.value)}

    def epoch(self, step: Fields) -> dict[str, Any]:
        self.epochs.append(epoch_of(step.take("record")))
        return {}

    def tick(self, step: Fields) -> dict[str, Any]:
        self.now_ms += step.take("ms")
        return {}

    def cycle(self, step: Fields) -> dict[str, Any]:
        leader, before_write = step.take("leader", "A"), step.take("before_write", None)
        self.history = StreamHistory(tuple(self.epochs))
        self.leaders[leader], view, effects = self.decide(self.leaders.get(leader, cycle.CycleState()))
        removed = [e.writer for e in effects if isinstance(e, cycle.RemoveWriter) and self.remove(leader, e)]
        if before_write is not None:
            assert any(isinstance(e, cycle.Append) for e in effects), "the cycle did not come to its append"
            self.run(before_write)
        emitted = [as_fields(watermark) for watermark in self.emit(view, effects)]
        (decision,) = (effect for effect in effects if isinstance(effect, cycle.Decision))
        return {
            "emitted": emitted,
            "removed_writers": sorted(removed),
            "stream_removed_from_bucket": cycle.LeaveBucket() in effects,
            "error": "DID_NOT_TERMINATE" if decision.reason == "cut failed: did not terminate" else None,
        }

    def remove(self, leader: str, effect: cycle.RemoveWriter) -> bool:
        self.marks, outcome = self.marks.remove(effect.writer, effect.mark)
        removed = outcome is NoteOutcome.OK
        done = cycle.RemovalDone(effect.writer, removed)
        self.leaders[leader], _ = cycle.step(self.leaders[leader], done, self.rules)
        return removed

    def write_mark(self, step: Fields) -> dict[str, Any]:
        self.log, _ = self.log.append(watermark_of(step))
        return {}

    def reader_compare(self, step: Fields) -> dict[str, Any]:
        position = reader_position_of(step.take("position"))
        with Fields(step.take("watermark"), "watermark") as fields:
            watermark = watermark_of(fields)
        return {"result": window.compare_with_cut(position, watermark.cut, self.segments)}

    def reader_advance(self, step: Fields) -> dict[str, Any]:
        reader = step.take("reader", "")
        tracker = self.readers.get(reader, window.Tracker())
        self.readers[reader] = tracker.advance(reader_position_of(step.take("position")), self.log, self.segments)
        return self.window_of(reader)

    def reader_window(self, step: Fields) -> dict[str, Any]:
        return self.window_of(step.take("reader", ""))

    def window_of(self, reader: str) -> dict[str, Any]:
        bounds = self.readers.get(reader, window.Tracker()).window
        return {"lower": bounds.lower, "upper": bounds.upper}

    def writers(self, step: Fields) -> dict[str, Any]:
        marks = self.marks.marks.items()
        return {"writers": {w: {"time": m.time, "position": written(m.position), "alive": m.alive} for w, m in marks}}

    def compare_positions(self, step: Fields) -> dict[str, Any]:
        return {"result": positions_ordered(position_of(step.take("first")), position_of(step.take("second")))}


def watermark_of(fields: Fields) -> Watermark:
    """{"lower": , "upper": , "stream_cut": }."""
    return Watermark(fields.take("lower"), fields.take("upper"), position_of(fields.take("stream_cut")))


def as_fields(watermark: Watermark) -> dict[str, Any]:
    """A watermark as the cases write it."""
    return {"lower": watermark.lower, "upper": watermark.upper, "stream_cut": written(watermark.cut)}


def expect_part(what: str, found: Mapping[str, Any], listed: Mapping[str, Any]) -> None:
    """Compare the listed fields only; each of them has to be known."""
    for name, value in listed.items():
        if name not in found:
            raise UnknownFormatError(f"{what}: unknown field {name!r}")
        expect(f"{what}: {name}", found[name], value)
