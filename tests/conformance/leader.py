"""What a leader remembers and reads: the previous lower bound, the mark pointer, a stream that was created again."""

from __future__ import annotations

from typing import Any

from tests.conformance.fields import Fields, UnknownFormatError, each, expect, matched, position_of
from tests.streams.model.leaders import Led, emit
from wmlab.streams.model import cycle
from wmlab.streams.model.cut import CutAlgorithm
from wmlab.streams.model.history import StreamHistory
from wmlab.streams.model.log import MarksLog, NoSuchLogError, Watermark, open_view
from wmlab.streams.model.marks import MarkTable, WriterMark
from wmlab.streams.model.position import Position
from wmlab.streams.model.segment import segment_name

RECREATE = (
    r"delete the stream and its mark stream, create both again \((?P<count>\d+) segments, numbering continues at "
    r"(?P<names>\d+@0(?:,\d+@0)*); mark stream segment number (?P<number>\d+)\)"
)


def run_barrier(inputs: Fields, expected: Fields, algorithm: CutAlgorithm) -> None:
    """One leader over many iterations: what it reads, whom it counts, what it emits."""
    inputs.take("note", None)
    leader = Leader(StreamHistory.create(1), cycle.CycleRules())
    for fields in each(inputs.take("iterations"), "iteration"):
        leader.iterate(fields)


class Leader(Led):
    """A leader with one writer, its clock, its memory and the log."""

    state = cycle.CycleState()

    def iterate(self, fields: Fields) -> None:
        what = f"iteration {fields.take('i')}"
        self.log, view = open_view(self.log)
        previous_lower = view.previous[1].lower if view.previous else None
        with Fields(fields.take("expect"), what) as expected:
            skipped = sum(revision <= view.pointer for revision, _ in self.log.entries)
            expect(f"{what}: mark", skipped, expected.take("mark"))
            expect(f"{what}: log length", len(self.log.entries), expected.take("log_length"))
            expect(f"{what}: previous lower", previous_lower, expected.take("previous_lower"))
        for query in each(fields.take("queries"), f"{what}: query"):
            self.answer(query, previous_lower)
        bounds = fields.take("emit")
        if bounds is not None:
            self.log, revision = emit(self.log, view, Watermark(*bounds, Position()))
            assert revision is not None, f"{what}: the append was refused"

    def answer(self, query: Fields, previous_lower: int | None) -> None:
        if "sleep_ms" in query:
            self.now_ms += query.take("sleep_ms")
        elif "participating" in query:
            mark = WriterMark(query.take("participating"), Position())
            found = cycle.classify(mark, previous_lower, 0, 0) is cycle.WriterStatus.PARTICIPATING
            expect("participating", found, query.take("expect"))
        else:
            self.rules = cycle.CycleRules(timeout_ms=query.take("timeout"))
            self.marks, _ = MarkTable().create("writer", WriterMark(query.take("active"), Position()))
            self.state, _, effects = self.decide(self.state)
            (decision,) = (effect for effect in effects if isinstance(effect, cycle.Decision))
            expect("active", "writer" in (*decision.participating, *decision.lagging), query.take("expect"))
            tracked = "writer" in self.state.behind_since
            expect("tracked", tracked, query.take("tracked_after", tracked))


def run_recreate(inputs: Fields, expected: Fields, algorithm: CutAlgorithm) -> None:
    """A stream is deleted and created again under a leader that remembers the old marks segment."""
    with Fields(inputs.take("create"), "create") as created:
        count, first = created.take("segments"), created.take("first_segment_number")
        stream = Recreated(StreamHistory.create(count, first_number=first), cycle.CycleRules(algorithm=algorithm))
    stream.note(inputs.take("first"))
    check_cycle(stream.cycle(), expected.take("after_first_cycle"))
    stream.recreate(inputs.take("then"))
    stream.note(inputs.take("second"))
    for number, record in enumerate(expected.take("after_recreate"), start=1):
        check_cycle(stream.cycle() | {"cycle": number}, record)


class Recreated(Led):
    """A stream and a leader that keeps the number of the marks segment it uses."""

    known_number: int | None = None

    def note(self, record: dict[str, Any]) -> None:
        with Fields(record, "note") as fields:
            writer, time, position = fields.take("writer"), fields.take("time"), fields.take("position")
        self.marks, outcome = self.marks.note(writer, time, position_of(position))
        expect("note", outcome.value, "success")

    def recreate(self, text: str) -> None:
        match = matched("then", text, RECREATE)
        first = max(segment.number for segment in self.history.segments.values()) + 1
        self.history = StreamHistory.create(int(match["count"]), first_number=first)
        expect("new segments", [segment_name(i) for i in self.history.active.ids], match["names"].split(","))
        self.marks = MarkTable()
        self.log = MarksLog(number=self.log.number + 1)
        expect("mark segment", self.log.number, int(match["number"]))

    def cycle(self) -> dict[str, Any]:
        try:
            _, view, effects = self.decide(cycle.CycleState(), number=self.known_number)
        except NoSuchLogError:
            self.known_number = None
            return {"emitted": 0, "cached_client_dropped": True, "log_length": len(self.log.entries)}
        self.known_number = self.log.number
        emitted = self.emit(view, effects)
        found = {"emitted": len(emitted), "cached_client_dropped": False, "log_length": len(self.log.entries)}
        return found | ({"lower": emitted[-1].lower} if emitted else {})


def check_cycle(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """Compare what the case lists of one cycle."""
    for name, value in expected.items():
        if name not in found:
            raise UnknownFormatError(f"unknown field {name!r}, or the cycle emitted nothing")
        expect(name, found[name], value)
