"""Replay: the watermarks that another configuration would have produced from the same notes.

The rules are those of notes (`wmlab.streams.model.marks`) and of the cycle (`wmlab.streams.model.cycle`); here is when
the cycles run if nothing fails: the first one a delay after the note that brought the stream into its bucket, every
other a period after the one before, until one finds nobody and the stream leaves. With unconditional cycles the stream
is in its bucket from its creation on. A cycle sees what was received before its millisecond, and one without a delay
also the note that brought the stream in.

Source: PDP-33, Distributing Streams Across Controller Instances and Periodic Watermark Workflow; upstream class
`BucketService`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from wmlab.streams.model import cycle
from wmlab.streams.model.cycle import CycleRules, CycleState
from wmlab.streams.model.history import StreamHistory
from wmlab.streams.model.log import Watermark
from wmlab.streams.model.marks import NoteOutcome, NoteRule, WriterMark, judge_note
from wmlab.streams.model.position import Position


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration(CycleRules):
    """The rules of a cycle, and when cycles run, how notes are judged, and the ids of the writers to leave out.

    `period_ms` is the time between two cycles, `start_delay_ms` that before the first one (None: one period).
    """

    period_ms: int = 10_000
    start_delay_ms: int | None = None
    note_rule: NoteRule = "implementation"
    """Which notes are accepted, as `note_rule` of a stream."""
    without: tuple[str, ...] = ()
    """Writers whose marks are left out."""

    @property
    def delay_ms(self) -> int:
        """How long after the stream has come into its bucket the first cycle runs."""
        return self.period_ms if self.start_delay_ms is None else self.start_delay_ms


class Received(NamedTuple):
    """What the store received about a writer: a noted time with its position, or without a time a shutdown.

    `mark` is what the note stores if it is accepted, as it is after the mark `follows` by the rule "implementation",
    whatever the configuration: so that a note is judged once for many of them. None: not known.
    """

    received_ms: int
    writer: str
    time: int | None
    position: Position
    mark: WriterMark | None = None
    follows: WriterMark | None = None


def received_of(rows: Iterable[tuple[int, str, int | None, Any]]) -> list[Received]:
    """What was received, in order: of what came in one ms notes come before shutdowns, the smallest time first.

    A row has the fields of `Received`; a position is one of all forms that `dict` takes, or None.
    """
    before: dict[str, WriterMark] = {}
    received = []
    for at_ms, writer, time, offsets in sorted(rows, key=lambda row: (row[0], row[2] is None, row[2] or 0)):
        position, mark, follows = Position(dict(offsets or ())), None, None
        if time is not None:
            mark, stored = WriterMark(time, position), before.get(writer)
            if stored is not None and judge_note(stored, time, position) is NoteOutcome.SUCCESS:
                follows = stored
            before[writer] = mark
        received.append(Received(at_ms, writer, time, position, mark, follows))
    return received


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a replay has come: the marks, the leader's memory, the last watermark, and when the next cycle is due.

    `due_ms` is None while the stream is in no bucket; the next cycle sees what was received before `seen_ms` (clock);
    `waiting` is what no cycle has seen yet.
    """

    due_ms: int | None
    seen_ms: int
    state: CycleState = field(default_factory=CycleState)
    previous: Watermark | None = None
    marks: Mapping[str, WriterMark] = field(default_factory=dict)
    noted_ms: Mapping[str, int] = field(default_factory=dict)
    waiting: tuple[Received, ...] = ()


def begin(config: Configuration, created_ms: int) -> Progress:
    """The replay of a stream created at `created_ms` (clock), before anything was received."""
    due_ms = None if config.leaves_bucket else created_ms + config.delay_ms
    return Progress(due_ms, due_ms or 0)


def advance(
    progress: Progress, received: Iterable[Received], history: StreamHistory, config: Configuration, *, until_ms: int
) -> tuple[Progress, list[tuple[int, Watermark]]]:
    """The replay after all cycles before `until_ms`, and their watermarks, each with the clock time of its cycle.

    `received` is ascending by `received_ms` and has what was received before `until_ms` and not given before. Notes
    are judged again, so those that were refused belong to it. `history` may have later epochs: a cut depends only on
    those up to its newest segment.
    """
    marks, noted_ms = dict(progress.marks), dict(progress.noted_ms)
    state, previous = progress.state, progress.previous
    due_ms, seen_ms = progress.due_ms, progress.seen_ms
    arrived = [*progress.waiting, *(entry for entry in received if entry.writer not in config.without)]
    emitted: list[tuple[int, Watermark]] = []
    taken = 0
    while True:
        if due_ms is None:
            entering = next((entry for entry in arrived[taken:] if entry.time is not None), None)
            if entering is None:
                break
            due_ms = entering.received_ms + config.delay_ms
            seen_ms = due_ms + (config.delay_ms == 0)
        if due_ms >= until_ms:
            break
        while taken < len(arrived) and arrived[taken].received_ms < seen_ms:
            _take(arrived[taken], marks, noted_ms, history, config)
            taken += 1
        observed = cycle.Observe(now_ms=due_ms, marks=marks, previous=previous, history=history, noted_ms=noted_ms)
        state, effects = cycle.step(state, observed, config)
        now_ms, due_ms = due_ms, due_ms + config.period_ms
        seen_ms = due_ms
        for effect in effects:
            if isinstance(effect, cycle.RemoveWriter):
                del marks[effect.writer]
                state, _ = cycle.step(state, cycle.RemovalDone(effect.writer, removed=True), config)
            elif isinstance(effect, cycle.Append):
                previous = effect.watermark
                emitted.append((now_ms, previous))
            elif isinstance(effect, cycle.LeaveBucket):
                due_ms = None
    return Progress(due_ms, seen_ms, state, previous, marks, noted_ms, tuple(arrived[taken:])), emitted


def replayed_watermarks(
    received: Sequence[Received], history: StreamHistory, config: Configuration, *, created_ms: int, until_ms: int
) -> list[tuple[int, Watermark]]:
    """The watermarks of all cycles before `until_ms`, each with the clock time of its cycle; see `advance`."""
    return advance(begin(config, created_ms), received, history, config, until_ms=until_ms)[1]


def _take(
    entry: Received,
    marks: dict[str, WriterMark],
    noted_ms: dict[str, int],
    history: StreamHistory,
    config: Configuration,
) -> None:
    """Judge a note against the mark of its writer, or mark the writer as no longer alive."""
    stored = marks.get(entry.writer)
    if entry.time is None:
        if stored is not None:
            marks[entry.writer] = replace(stored, alive=False)
        return
    is_judged = config.note_rule == "implementation" and stored is not None and stored is entry.follows
    if not is_judged:
        outcome = judge_note(stored, entry.time, entry.position, rule=config.note_rule, segments=history.segments)
        if outcome is not NoteOutcome.SUCCESS:
            return
    marks[entry.writer] = entry.mark or WriterMark(entry.time, entry.position)
    noted_ms[entry.writer] = entry.received_ms
