"""One round of a processor instance while it goes on: the working copy behind `Runtime.step`.

Source: "Keyed watermark support", Processor API; upstream class `ProcessorTasklet`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from wmlab.core.errors import ModelError
from wmlab.dataflow.model.intake import Intake, at
from wmlab.dataflow.model.items import DONE, IDLE, MIN, Barrier, Item, Watermark
from wmlab.dataflow.model.processor import (
    Answer,
    Call,
    Complete,
    CountsRetries,
    Drop,
    EdgeDone,
    EdgeWatermark,
    GlobalWatermark,
    InputIdle,
    JobFailedError,
    Reason,
    Row,
    Stimulus,
)
from wmlab.dataflow.model.turn import Phase, RuntimeState, Snapshot, Turn

if TYPE_CHECKING:
    from wmlab.dataflow.model.runtime import Runtime

S = TypeVar("S")


class Round(Generic[S]):
    """A state while a round changes it. Source: as the module."""

    def __init__(
        self, runtime: Runtime[S], state: RuntimeState[S], *, room: int | None = None, rows: int | None = None
    ) -> None:
        self.runtime, self.deviations = runtime, runtime.deviations
        self.before = state
        self.room, self.rows = room, rows
        self.processor = state.processor
        self.intake = Intake.of(state, runtime.deviations)
        self.current, self.completing = state.current, state.completing
        self.inbox, self.retry = state.inbox, state.retry
        self.edge_callbacks, self.global_callbacks = state.edge_callbacks, state.global_callbacks
        self.forwarded = dict(state.forwarded)
        self.phase = state.phase
        self.progress = False
        self.out: list[Item] = []
        self.drops: list[Drop] = []
        self.calls: list[Call] = []
        self.snapshot: Snapshot[S] | None = None

    def run(self) -> Turn[S]:
        """Everything the round does. Source: as the module."""
        try:
            self._go()
        except ModelError as error:
            raise at(self.runtime.name, error) from None
        return self._turn()

    def answer(self, answer: Answer) -> Turn[S]:
        """The processor gets the answer of a call. Source: as the module."""
        try:
            self._offer(answer)
        except ModelError as error:
            raise at(self.runtime.name, error) from None
        return self._turn()

    def _turn(self) -> Turn[S]:
        if not self.progress:
            return Turn(state=self.before)
        intake = self.intake
        state = RuntimeState(
            processor=self.processor,
            edges=tuple(intake.edges),
            keyed=intake.keyed,
            groups=intake.groups,
            cursor=intake.cursor,
            current=self.current,
            inbox=self.inbox,
            retry=self.retry,
            completing=self.completing,
            edge_callbacks=self.edge_callbacks,
            global_callbacks=self.global_callbacks,
            waiting=intake.waiting,
            marked=intake.marked,
            barrier=intake.barrier,
            forwarded=tuple(self.forwarded.items()),
            phase=self.phase,
        )
        return Turn(
            state=state,
            progress=True,
            out=tuple(self.out),
            taken=tuple(intake.taken),
            drops=tuple(self.drops),
            calls=tuple(self.calls),
            merges=tuple(intake.merges),
            snapshot=self.snapshot,
        )

    def _has_room(self) -> bool:
        return self.room is None or len(self.out) < self.room

    def _go(self) -> None:
        if self.phase in (Phase.FINISHED, Phase.STOPPED):
            return
        drained = False
        while self._pending_done():
            barrier = self.intake.barrier
            if barrier is not None and self.intake.barrier_complete:
                if not self._take_snapshot(barrier):
                    return
            elif not self.intake.groups:
                self._complete()
                return
            elif drained or not self._has_room():
                return
            else:
                drained = True
                if not self._fill():
                    return

    def _pending_done(self) -> bool:
        """Offer all that is pending, in order; false if something of it is left."""
        return self._rows() and self._edge_done() and self._edge_watermarks() and self._global_watermarks()

    def _rows(self) -> bool:
        while self.inbox and self.current is not None:
            if not self._has_room() or self.rows == 0:
                return False
            event, before = self.inbox[0], len(self.out)
            if not self._offer(Row(self.current, event, self.retry)):
                return False
            if self._fits(before) or self.retry:
                self.inbox, self.retry = self.inbox[1:], False
            else:
                self.retry = True
            self.rows = self.rows and self.rows - 1
        return True

    def _fits(self, before: int) -> bool:
        """Whether what a row left went out in one go; if not, it may have to be offered again."""
        if self.room is None or len(self.out) <= max(self.room, before):
            return True
        return not (self.deviations.retry_counts_as_row and isinstance(self.runtime.processor, CountsRetries))

    def _edge_done(self) -> bool:
        if self.completing is None:
            return True
        if not self._has_room() or not self._offer(EdgeDone(self.completing)):
            return False
        self.completing = None
        return True

    def _edge_watermarks(self) -> bool:
        while self.edge_callbacks and self.current is not None:
            if not self._has_room() or not self._offer(EdgeWatermark(self.current, self.edge_callbacks[0])):
                return False
            self.edge_callbacks = self.edge_callbacks[1:]
        return True

    def _global_watermarks(self) -> bool:
        while self.global_callbacks:
            first = self.global_callbacks[0]
            if not self._has_room():
                return False
            if isinstance(first, Watermark):
                taken = self._offer(GlobalWatermark(first))
            elif self.deviations.idle_overtakes:
                taken = self.progress = True
                self._emit((IDLE,))
            else:
                taken = self._offer(InputIdle())
            if not taken:
                return False
            self.global_callbacks = self.global_callbacks[1:]
        return True

    def _offer(self, stimulus: Stimulus) -> bool:
        """Hand a stimulus to the processor; false if it was refused."""
        reply = self.runtime.processor.step(self.processor, stimulus)
        if reply.accepted or reply.out or reply.calls or reply.state != self.processor:
            self.progress = True
        self.processor = reply.state
        self.drops += reply.drops
        self.calls += reply.calls
        self._emit(reply.out)
        return reply.accepted

    def _emit(self, items: tuple[Item, ...]) -> None:
        for item in items:
            if type(item) is Watermark:
                last = self.forwarded.get(item.key, MIN)
                if item.value <= last and not self.deviations.emission_unchecked:
                    raise JobFailedError(
                        Reason.NON_MONOTONIC,
                        f"watermark {item.value} of key {item.key} is emitted behind {last}",
                        remedy="Let the processor emit each watermark of a key above the one before.",
                    )
                self.forwarded[item.key] = item.value
        self.out += items

    def _fill(self) -> bool:
        """Take the next batch; false if there is none."""
        batch = self.intake.fill()
        if batch is None:
            return False
        self.progress = True
        self.current, self.inbox = batch.edge, batch.events
        self.edge_callbacks, self.global_callbacks = batch.edge_watermarks, batch.merged
        self.completing = batch.edge if batch.ended else None
        if not self.intake.groups:
            self.phase = Phase.COMPLETING
        return True

    def _take_snapshot(self, barrier: Barrier) -> bool:
        if not self._has_room() or not self.runtime.processor.may_snapshot(self.processor):
            return False
        self.progress = True
        self.snapshot = Snapshot(barrier, self.processor)
        self._emit((barrier,))
        self.intake.barrier_passed()
        if barrier.terminal:
            self.phase = Phase.STOPPED
        return not barrier.terminal

    def _complete(self) -> None:
        if self._has_room() and self._offer(Complete()):
            self._emit((DONE,))
            self.phase = Phase.FINISHED
