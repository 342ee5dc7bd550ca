"""PDP-33, Periodic Watermark Workflow: what holds of the log and of every reader, however the parties interleave."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, strategies as st

from tests.streams.model.leaders import Led
from tests.streams.model.strategies import histories, positions
from tests.streams.model.test_a_sound_cut_is_at_or_beyond_every_writer import covers
from wmlab.streams.model import cycle
from wmlab.streams.model.history import StreamHistory
from wmlab.streams.model.log import MarksLog, Watermark
from wmlab.streams.model.position import Position
from wmlab.streams.model.window import Tracker


class TwoLeaders(Led):
    """A stream with two leaders, each of which decides and appends in two separate steps."""

    def __init__(self, history: StreamHistory) -> None:
        super().__init__(history, cycle.CycleRules(timeout_ms=20))
        self.states = [cycle.CycleState(), cycle.CycleState()]
        self.decided = [None, None]

    def decide_as(self, leader: int) -> None:
        self.states[leader], *self.decided[leader] = self.decide(self.states[leader])
        for effect in self.decided[leader][1]:
            if isinstance(effect, cycle.RemoveWriter):
                self.marks, _ = self.marks.remove(effect.writer, effect.mark)

    def append_as(self, leader: int) -> None:
        if self.decided[leader] is not None:
            self.emit(*self.decided[leader])
        self.decided[leader] = None


@st.composite
def logs(draw: st.DrawFn) -> tuple[StreamHistory, MarksLog[Watermark]]:
    """The log that some writers and two leaders leave."""
    stream = TwoLeaders(draw(histories(max_changes=3)))
    for _ in range(draw(st.integers(1, 25))):
        stream.now_ms += draw(st.integers(0, 10))
        match draw(st.sampled_from(["note", "note", "decide", "append", "shut down"])):
            case "note":
                writer, position = draw(st.sampled_from("abc")), draw(positions(stream.history))
                stream.marks, _ = stream.marks.note(writer, draw(st.integers(0, 50)), position)
            case "decide":
                stream.decide_as(draw(st.integers(0, 1)))
            case "append":
                stream.append_as(draw(st.integers(0, 1)))
            case _:
                stream.marks, _ = stream.marks.shutdown(draw(st.sampled_from("abc")))
    for leader in (0, 1):
        stream.decide_as(leader)
        stream.append_as(leader)
    return stream.history, stream.log


@given(logs())
def test_lower_bounds_and_cuts_only_move_forward_and_bounds_are_those_of_the_counted(made) -> None:
    history, log = made
    watermarks = [watermark for _, watermark in log.entries]
    assert all(earlier.lower < later.lower for earlier, later in pairwise(watermarks))
    assert all(covers(later.cut, earlier.cut, history) for earlier, later in pairwise(watermarks))
    assert all(min(w.writers.values()) == w.lower and max(w.writers.values()) == w.upper for w in watermarks)


@given(logs(), st.data())
def test_the_window_of_a_reader_never_moves_back(made, data: st.DataObject) -> None:
    history, log = made
    tracker = Tracker()
    for _ in range(4):
        read = data.draw(positions(history))
        position = Position({segment: 2**63 - 1 if offset is None else offset for segment, offset in read.items()})
        later = tracker.advance(position, log, history.segments)
        assert (tracker.passed is None) or (later.passed is not None and later.passed >= tracker.passed)
        assert (later.cursor or 0) >= (tracker.cursor or 0)
        if later.lower_seq is not None:
            assert log.entries[later.lower_seq][1].lower == later.passed
        if later.upper_seq is not None:
            assert log.entries[later.upper_seq][1].upper == later.window.upper
        tracker = later
