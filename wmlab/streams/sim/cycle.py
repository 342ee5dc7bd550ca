"""One watermark cycle of one controller, step by step: what it reads, decides, removes and appends, and in which order.

The rules are in `wmlab.streams.model.cycle`; this is the order of their effects and what may come between them. Between
any two steps the controller may be stopped, another leader may be at work, and a writer may note a time.

Source: PDP-33, "Periodic Watermark Workflow"; upstream `PeriodicWatermarking`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wmlab.streams.model import cycle
from wmlab.streams.model.log import LeaderView, NoSuchLogError, TruncatedError, Watermark
from wmlab.streams.model.marks import StoreOutcome, WriterMark
from wmlab.streams.scenario.units import METADATA_STORE, SEGMENT_STORE
from wmlab.streams.sim.metadata import UnavailableError

if TYPE_CHECKING:
    from wmlab.streams.sim.controller import Controller, Job
    from wmlab.streams.sim.stream import StreamWorld

FAILED = "cycle failed: "
"""How the reason of a cycle that could not be carried out begins."""


def watermark_cycle(controller: Controller, stream: StreamWorld) -> Job[None]:
    """Run one cycle; whatever goes wrong is written down and swallowed, the next period tries again."""
    began_ms = stream.now_ms
    try:
        yield from _Cycle(controller, stream, began_ms).run()
    except UnavailableError as error:
        _write(controller, stream, began_ms, cycle.Decision(barrier=None, outcome="held", reason=FAILED + error.reason))
    except TruncatedError:
        reason = FAILED + "mark pointer before the start of the marks segment"
        _write(controller, stream, began_ms, cycle.Decision(barrier=None, outcome="held", reason=reason))
    except NoSuchLogError:
        # The cached client is dropped and built anew next time; its inactivity clocks go with it.
        controller.memory.pop(stream.name, None)
        reason = FAILED + "no such marks segment"
        _write(controller, stream, began_ms, cycle.Decision(barrier=None, outcome="held", reason=reason))


class _Cycle:
    def __init__(self, controller: Controller, stream: StreamWorld, began_ms: int) -> None:
        self.controller = controller
        self.stream = stream
        self.began_ms = began_ms
        self.memory = controller.memory.get(stream.name) or stream.new_memory()
        controller.memory[stream.name] = self.memory

    def run(self) -> Job[None]:
        """Read the marks, then the log, decide, and carry the decision out."""
        controller, stream = self.controller, self.stream
        marks, noted_ms = yield from self._marks()
        yield from controller.reach("after_marks", stream.name)
        view = yield from controller.ask(
            SEGMENT_STORE, stream, "read log", lambda: stream.open_cycle(self.memory.log_number, controller.name)
        )
        yield from controller.reach("after_log", stream.name)
        history = yield from controller.ask(METADATA_STORE, stream, "read epochs", stream.read_history)
        observation = cycle.Observe(
            now_ms=controller.clock.read(stream.now_ms),
            marks=marks,
            previous=None if view.previous is None else view.previous[1],
            history=history,
            noted_ms=noted_ms,
        )
        self.memory.state, effects = cycle.step(self.memory.state, observation, stream.rules)
        yield from self._carry_out(view, effects)

    def _marks(self) -> Job[tuple[dict[str, WriterMark], dict[str, int]]]:
        """All marks of the stream: at once, or one after the other, so that they are of different moments."""
        controller, stream = self.controller, self.stream
        metadata, span_ms = stream.world.metadata, stream.scenario.controllers.marks_read_ms

        def all_now() -> tuple[dict[str, WriterMark], dict[str, int]]:
            record = metadata.record(stream.name)
            return ({}, {}) if record is None else (dict(record.marks.marks), dict(record.noted_ms))

        marks, noted_ms = yield from controller.ask(METADATA_STORE, stream, "read marks", all_now)
        if not span_ms or not marks:
            return marks, noted_ms
        found: dict[str, WriterMark] = {}
        for place, writer in enumerate(list(marks)):
            wait_ms = span_ms * (place + 1) // len(marks) - span_ms * place // len(marks)
            if wait_ms:
                yield stream.env.timeout(wait_ms)
            now, noted_now = all_now()
            if writer in now:
                found[writer], noted_ms[writer] = now[writer], noted_now[writer]
        return found, noted_ms

    def _carry_out(self, view: LeaderView[Watermark], effects: tuple[cycle.Effect, ...]) -> Job[None]:
        controller, stream = self.controller, self.stream
        removed: list[str] = []
        decision: cycle.Decision | None = None
        for effect in effects:
            match effect:
                case cycle.RemoveWriter():
                    yield from controller.reach("before_removal", stream.name)
                    if (yield from self._remove(effect)):
                        removed.append(effect.writer)
                case cycle.Decision():
                    decision = effect
                case cycle.Append(watermark=watermark):
                    decision = yield from self._append(view, watermark, decision)
                case cycle.LeaveBucket():
                    yield from controller.reach("before_leave", stream.name)
                    yield from controller.ask(METADATA_STORE, stream, "leave bucket", self._leave)
        if decision is not None:
            _write(controller, stream, self.began_ms, decision, removed)

    def _leave(self) -> None:
        self.stream.world.metadata.leave(self.stream.name)

    def _remove(self, effect: cycle.RemoveWriter) -> Job[bool]:
        """Remove a writer if its mark is unchanged; its inactivity clock is forgotten only then."""
        stream = self.stream
        outcome = yield from self.controller.ask(
            METADATA_STORE,
            stream,
            "remove writer",
            lambda: stream.world.metadata.remove(stream.name, effect.writer, effect.mark),
        )
        removed = outcome is StoreOutcome.OK
        done = cycle.RemovalDone(effect.writer, removed)
        self.memory.state, _ = cycle.step(self.memory.state, done, stream.rules)
        return removed

    def _append(
        self, view: LeaderView[Watermark], watermark: Watermark, decision: cycle.Decision | None
    ) -> Job[cycle.Decision | None]:
        """Append if nobody else has; then to the index; then move the mark pointer, whose outcome does not matter."""
        controller, stream = self.controller, self.stream
        yield from controller.reach("before_append", stream.name)
        revision = yield from controller.ask(
            SEGMENT_STORE, stream, "append", lambda: stream.append_mark(view, watermark, controller.name)
        )
        if revision is None and decision is not None:
            return stream.lost_race(decision)
        yield from controller.reach("after_append", stream.name)
        yield from controller.ask(
            SEGMENT_STORE, stream, "append to index", lambda: stream.write_index(controller.name, watermark)
        )
        yield from controller.ask(SEGMENT_STORE, stream, "move pointer", lambda: stream.settle(view))
        return decision


def _write(
    controller: Controller, stream: StreamWorld, at_ms: int, decision: cycle.Decision, removed: list[str] | None = None
) -> None:
    stream.journal.write(
        "cycles",
        controller=controller.name,
        at_ms=at_ms,
        barrier=decision.barrier,
        participating=list(decision.participating),
        lagging=list(decision.lagging),
        removed=list(removed or ()),
        outcome=decision.outcome,
        reason=decision.reason,
    )
