"""A controller in motion: it judges noted times, keeps them, and runs the watermark cycle.

Source: PDP-33, "Controller Changes" and "Periodic Watermark Workflow"; upstream `PeriodicWatermarking`. The
stream is worked on only while somebody notes time: an accepted mark puts it into the work list, the first cycle
runs one period later, and a cycle that finds no active writer takes it out again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wmlab.model import cycle
from wmlab.model.log import LeaderView, MarksLog, Watermark, emit, open_view
from wmlab.model.marks import MarkTable, NoteOutcome, StoreOutcome
from wmlab.model.position import Position
from wmlab.sim.index import IndexSegment

if TYPE_CHECKING:
    from wmlab.sim.world import World

NAME = "controller-0"


class Controller:
    """One controller, the marks in its store, and the marks log of the stream."""

    def __init__(self, world: World) -> None:
        stream = world.scenario.stream
        self.world = world
        self.marks = MarkTable()
        self.log: MarksLog[Watermark] = MarksLog()
        self.index = IndexSegment(world.journal)
        self.takeover_after_ms: int | None = None
        self._down = False
        self._noted_ms: dict[str, int] = {}
        self._state = cycle.CycleState()
        self._scheduled = False
        self._rules = cycle.CycleRules(
            timeout_ms=stream.timestamp_aggregation_timeout_ms,
            timeout_from=stream.timeout_from,
            algorithm=stream.cut_algorithm,
            visit_order=stream.visit_order,
            bug_6510=stream.bug_6510,
        )

    def receive(self, writer: str, time: int, position: Position, noted_ms: int) -> None:
        """Judge a noted time and keep it if it is accepted."""
        now = self.world.now_ms
        rule = self.world.scenario.stream.note_rule
        self.marks, outcome = self.marks.note(writer, time, position, rule=rule, segments=self.world.history.segments)
        self.world.journal.write(
            "marks",
            writer=writer,
            time=time,
            position=dict(position),
            noted_ms=noted_ms,
            received_ms=now,
            controller=NAME,
            txn=None,
            outcome=outcome.value,
        )
        if outcome is NoteOutcome.SUCCESS:
            self._noted_ms[writer] = now
            if not self._scheduled:
                self._schedule()

    def _schedule(self) -> None:
        self._scheduled = True
        self.world.after(self.world.scenario.controllers.period_ms, self._run_cycle)

    def _run_cycle(self) -> None:
        """One cycle: read the marks, then the log, decide, and carry the decision out."""
        marks = self.marks.marks
        self.log, view = open_view(self.log)
        self.index.catch_up(self.log, NAME, self.world.now_ms, emitted=False)
        observation = cycle.Observe(
            now_ms=self.world.now_ms,
            marks=marks,
            previous=None if view.previous is None else view.previous[1],
            history=self.world.history,
            noted_ms=self._noted_ms,
        )
        self._state, effects = cycle.step(self._state, observation, self._rules)
        removed = [
            effect.writer for effect in effects if isinstance(effect, cycle.RemoveWriter) and self._remove(effect)
        ]
        for effect in effects:
            match effect:
                case cycle.Append(watermark=watermark):
                    self._emit(view, watermark)
                case cycle.Decision():
                    self._write_cycle(effect, removed)
        if self._down:
            return
        self._scheduled = False
        if cycle.LeaveBucket() not in effects:
            self._schedule()

    def _remove(self, effect: cycle.RemoveWriter) -> bool:
        """Remove a writer if its mark is unchanged; its inactivity clock is forgotten only then."""
        self.marks, outcome = self.marks.remove(effect.writer, effect.mark)
        removed = outcome is StoreOutcome.OK
        self._state, _ = cycle.step(self._state, cycle.RemovalDone(effect.writer, removed), self._rules)
        return removed

    def _emit(self, view: LeaderView[Watermark], watermark: Watermark) -> None:
        self.log, revision = emit(self.log, view, watermark)
        if revision is None:
            return
        self.world.journal.write(
            "watermarks",
            seq=len(self.log.entries) - 1,
            lower=watermark.lower,
            upper=watermark.upper,
            cut=dict(watermark.cut),
            writers=dict(watermark.writers),
            controller=NAME,
            emitted_ms=self.world.now_ms,
            revision=revision,
        )
        if self.takeover_after_ms is None:
            self.index.catch_up(self.log, NAME, self.world.now_ms, emitted=True)
        else:
            self._crash(self.takeover_after_ms)

    def _crash(self, takeover_after_ms: int) -> None:
        """Stop between the appends to log and index; later somebody without memory takes over."""
        detail = f"{NAME} stops between marks and index"
        self.world.journal.write(
            "faults", at_ms=self.world.now_ms, kind="crash_before_index_append", target=NAME, detail=detail
        )
        self.takeover_after_ms = None
        self._state = cycle.CycleState()
        self._down = True
        self.world.after(takeover_after_ms, self._take_over)

    def _take_over(self) -> None:
        self._down = False
        self._schedule()

    def _write_cycle(self, decision: cycle.Decision, removed: list[str]) -> None:
        self.world.journal.write(
            "cycles",
            controller=NAME,
            at_ms=self.world.now_ms,
            barrier=decision.barrier,
            participating=list(decision.participating),
            lagging=list(decision.lagging),
            removed=list(removed),
            outcome=decision.outcome,
            reason=decision.reason,
        )
