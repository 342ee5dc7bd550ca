"""Pravega's two bounds as a strategy over one log, by the rules of `streams`.

The lower bound is exclusive, as the watermarks of all strategies are. The simulator adds the network, failures and
readers; here records are known as they arrive.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from wmlab.strategies.model.strategy import END, UNKNOWN, Input, NotNegativeMs, PositiveMs, Record, Strategy, now_of
from wmlab.streams.model.cycle import (
    Append,
    CycleRules,
    CycleState,
    Decision,
    Observe,
    RemovalDone,
    RemoveWriter,
    step as cycle_step,
)
from wmlab.streams.model.history import StreamHistory
from wmlab.streams.model.log import Watermark as Bounds
from wmlab.streams.model.marks import MarkTable
from wmlab.streams.model.position import Position

_HISTORY: Final = StreamHistory.create(1)
_POSITION: Final = Position({_HISTORY.epochs[0].ids[0]: 0})


@dataclass(slots=True)
class PravegaState:
    """The state of Pravega: what the store and the leader know, and what writers have noted since the last cycle.

    `notes` has for each writer the largest event time, `unnoted` that and when its last record came.
    """

    table: MarkTable = field(default_factory=MarkTable)
    leader: CycleState = field(default_factory=CycleState)
    bounds: Bounds | None = None
    cycle_ms: int | None = None
    notes: dict[str, int] = field(default_factory=dict)
    unnoted: dict[str, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PravegaWatermark(Strategy[PravegaState]):
    """X = the lower bound of the last watermark that a cycle emitted; native is the pair (lower, upper), or None.

    A writer notes the largest event time that it has sent: with each record, or at each multiple of `note_every_ms`. A
    cycle runs each `period_ms` from the first input on. `timeout_ms` is that of a writer behind the previous lower
    bound. Arrival time is the clock. The stream is one segment, all notes are at its begin. See `streams.model.cycle`.
    """

    period_ms: PositiveMs = 10_000
    timeout_ms: NotNegativeMs = 60_000
    note_every_ms: PositiveMs | None = None

    def start(self) -> PravegaState:
        return PravegaState()

    def step(self, state: PravegaState, item: Input) -> tuple[PravegaState, int, tuple[int, int] | None]:
        self._cycles(state, now_of(item))
        if isinstance(item, Record):
            self._note(state, item)
        _, native = self.at_end(state)
        return state, UNKNOWN if native is None else native[0], native

    def at_end(self, state: PravegaState) -> tuple[int, tuple[int, int] | None]:
        return END, None if state.bounds is None else (state.bounds.lower, state.bounds.upper)

    def _note(self, state: PravegaState, record: Record) -> None:
        time, writer, at_ms = record.event_time, record.writer, record.arrival_ms
        if self.note_every_ms is not None:
            largest, last_ms = state.unnoted.get(writer, (time, at_ms))
            if last_ms // self.note_every_ms < at_ms // self.note_every_ms:
                state.notes[writer] = largest
            state.unnoted[writer] = max(time, largest), at_ms
        # Of the notes between two cycles the one with the largest time counts: the store refuses a smaller one.
        else:
            state.notes[writer] = max(time, state.notes.get(writer, time))

    def _cycles(self, state: PravegaState, now_ms: int) -> None:
        if state.cycle_ms is None:
            state.cycle_ms = now_ms
        while state.cycle_ms + self.period_ms <= now_ms:
            state.cycle_ms += self.period_ms
            if not self._cycle(state, state.cycle_ms) and not state.unnoted:
                # Without a writer that counts or is waited for, nothing changes before the next note.
                state.cycle_ms += (now_ms - state.cycle_ms) // self.period_ms * self.period_ms

    def _cycle(self, state: PravegaState, now_ms: int) -> bool:
        """Run one cycle: whether a writer counted or was waited for."""
        if self.note_every_ms is not None:
            timer = now_ms // self.note_every_ms
            due = [writer for writer, note in state.unnoted.items() if note[1] // self.note_every_ms < timer]
            state.notes.update((writer, state.unnoted.pop(writer)[0]) for writer in due)
        for writer, time in state.notes.items():
            state.table, _ = state.table.note(writer, time, _POSITION)
        state.notes.clear()
        rules = CycleRules(timeout_ms=self.timeout_ms)
        seen = Observe(now_ms=now_ms, marks=state.table.marks, previous=state.bounds, history=_HISTORY)
        state.leader, effects = cycle_step(state.leader, seen, rules)
        alive = True
        for effect in effects:
            if isinstance(effect, RemoveWriter):
                state.table, _ = state.table.remove(effect.writer, effect.mark)
                state.leader, _ = cycle_step(state.leader, RemovalDone(effect.writer, removed=True), rules)
            elif isinstance(effect, Append):
                state.bounds = effect.watermark
            elif isinstance(effect, Decision):
                alive = bool(effect.participating or effect.lagging)
        return alive
