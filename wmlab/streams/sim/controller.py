"""A controller: it serves writers, and runs the watermark cycle of the streams whose buckets it owns.

A process that may crash, pause, and go on as a leader that has been replaced: what it believes to own and what the
coordination service says are two things. Only the inactivity clocks live in its memory; all else is in the stores.

The rules of a cycle are in `wmlab.streams.model.cycle`; here is the order of their effects. Between any two steps the
controller may be stopped, another leader may be at work, and a writer may note a time.

Source: PDP-33, "Controller Changes" and "Periodic Watermark Workflow"; upstream `BucketService`,
`PeriodicWatermarking` and `ControllerServiceImpl`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import simpy

from wmlab.core.clock import Timer, generator
from wmlab.streams.model import cycle
from wmlab.streams.model.coordination import Session
from wmlab.streams.model.cycle import CycleState
from wmlab.streams.model.log import LeaderView, NoSuchLogError, TruncatedError, Watermark
from wmlab.streams.model.marks import StoreOutcome, WriterMark
from wmlab.streams.scenario.parts import Clock
from wmlab.streams.scenario.units import COORDINATOR, METADATA_STORE, SEGMENT_STORE, controller_name
from wmlab.streams.sim.load import LocalClock
from wmlab.streams.sim.store import UnavailableError

if TYPE_CHECKING:
    from wmlab.streams.sim.stream import StreamWorld
    from wmlab.streams.sim.world import World


T = TypeVar("T")
Job = Generator[simpy.Event | int | None, None, T]
"""Work in steps: it yields the moment to go on at, as an event or in how many ms.

None is to go on at once, unless the controller is stopped right now.
"""


@dataclass(slots=True)
class Memory:
    """What a controller remembers of a stream between two cycles: its clocks, and the marks segment it knew."""

    log_number: int
    state: CycleState = field(default_factory=CycleState)


class Controller:
    """One controller process; `life` numbers its incarnations."""

    def __init__(self, world: World, name: str, clock: LocalClock) -> None:
        self.world = world
        self.name = name
        self.clock = clock
        self.life = 0
        self.session: Session | None = None
        self.buckets: set[int] = set()
        self.memory: dict[str, Memory] = {}
        self.armed: list[tuple[str, str, Callable[[], None]]] = []
        self._running = False
        self._resumed: simpy.Event | None = None
        self._work: dict[str, int] = {}
        self._open: dict[int, Callable[[Any], None]] = {}
        self._calls = 0
        self._entries = 0
        self._sessions = 0
        self._jitter = generator(world.scenario.seed, f"jitter of {name}")

    @property
    def is_running(self) -> bool:
        """Whether the process runs, paused or not."""
        return self._running

    @property
    def is_working(self) -> bool:
        """Whether the process runs and is not paused."""
        return self._running and self._resumed is None

    def start(self) -> None:
        """Begin a life without memory and buckets, and open a session."""
        self.life += 1
        self._running = True
        self._forget()
        self._sessions += 1
        self.session = Session(self.name, self._sessions)
        self.world.coordinator.open(self.session)

    def _forget(self) -> None:
        """A life has ended: what was in memory is lost, and the connections break."""
        self.buckets, self.memory, self._work = set(), {}, {}
        broken, self._open = self._open, {}
        for answer in broken.values():
            answer(None)

    def crash(self) -> None:
        """End the life at once; the session lives on until it times out."""
        session = self._end()
        if session is not None:
            self.world.after(self.world.scenario.controllers.session_timeout_ms, self.world.coordinator.close, session)

    def leave(self) -> None:
        """End the life in good order: the session ends with it, and so do its nodes."""
        session = self._end()
        if session is not None:
            self.world.coordinator.close(session)

    def _end(self) -> Session | None:
        session, self.session = self.session, None
        self.life += 1
        self._running, self._resumed = False, None
        self._forget()
        return session

    def pause(self, for_ms: int) -> None:
        """Freeze for a while; the session may end meanwhile, which the controller learns after it has gone on."""
        if not self.is_working:
            return
        self._resumed = self.world.env.event()
        life, session = self.life, self.session
        timeout_ms = self.world.scenario.controllers.session_timeout_ms
        if for_ms > timeout_ms and session is not None:
            self.world.after(timeout_ms, self.world.coordinator.close, session)
        self.world.after(for_ms, self._resume, life)

    def _resume(self, life: int) -> None:
        if life != self.life or self._resumed is None:
            return
        resumed, self._resumed = self._resumed, None
        resumed.succeed()
        self.world.coordinator.plan()
        if self.session not in self.world.coordinator.state.sessions:
            self.world.later(self.notice_expiry, life)

    def notice_expiry(self, life: int) -> None:
        """The process learns that its session has ended, and starts its services again."""
        if life != self.life or not self._running:
            return
        if self._resumed is not None:
            self._resumed.callbacks.append(lambda _: self.notice_expiry(life))
            return
        self.start()

    def serve(self, job: Job[T], answer: Callable[[T | None], None]) -> None:
        """Do a job for a caller on a connection and answer with its result.

        None when this controller is down or goes down meanwhile, since that breaks the connection, and when a store
        cannot be reached.
        """
        if not self._running:
            answer(None)
            return
        self._calls += 1
        self._open[self._calls] = answer
        self.drive(self._served(self._calls, job))

    def _served(self, call: int, job: Job[T]) -> Job[None]:
        found: T | None = None
        try:
            found = yield from job
        except UnavailableError:
            found = None
        self._open.pop(call)(found)

    def check_alive(self) -> Job[bool]:
        """Look something up: not while this controller is down, and later while it is paused."""
        yield None
        return True

    def rebalance_buckets(self) -> None:
        """Give up buckets that are another's now, and try to take those that ought to be this controller's."""
        if not self._running:
            return
        if self._resumed is not None:
            self._resumed.callbacks.append(lambda _: self.rebalance_buckets())
            return
        coordinator = self.world.coordinator
        session = self.session
        if session is None or session not in coordinator.state.sessions:
            return
        share = coordinator.state.share(self.name)
        for bucket in sorted(self.buckets - share):
            self.release_bucket(bucket)
            coordinator.release(bucket, session)
        for bucket in sorted(share - self.buckets):
            if coordinator.take(bucket, session):
                self.world.network.internal_delay_ms(None, self.name, COORDINATOR, "take bucket", bucket)
                self.buckets.add(bucket)
                for stream in self.world.metadata.members(bucket):
                    self.add_work(stream)

    def release_bucket(self, bucket: int) -> None:
        """Stop working on a bucket; the clocks of its streams are lost."""
        self.buckets.discard(bucket)
        for stream in self.world.metadata.members(bucket):
            self.drop_work(stream)
            self.memory.pop(stream, None)

    def add_work(self, stream: str) -> None:
        """A stream has come into one of the buckets: its first cycle runs after the intentional delay."""
        if stream not in self._work and self._running:
            self._entries += 1
            self._work[stream] = self._entries
            self._enqueue(stream, self._entries, self.world.scenario.controllers.first_cycle_ms)

    def drop_work(self, stream: str) -> None:
        """A stream has left: no further cycle."""
        self._work.pop(stream, None)

    def _enqueue(self, stream: str, entry: int, delay_ms: int) -> None:
        jitter_ms = self.world.scenario.controllers.period_jitter_ms
        if jitter_ms:
            delay_ms += int(self._jitter.integers(jitter_ms + 1))
        self.world.after(delay_ms, self._run, stream, entry, self.life)

    def _run(self, stream: str, entry: int, life: int) -> None:
        if life == self.life and self._is_current(stream, entry):
            self.drive(self._work_once(stream, entry))

    def _work_once(self, stream: str, entry: int) -> Job[None]:
        yield from watermark_cycle(self, self.world.streams[stream])
        # With the fault, the entry goes back into the queue before the news that the stream has left arrives.
        if self._is_current(stream, entry) or self.world.scenario.controllers.double_work_entry:
            self._enqueue(stream, entry, self.world.scenario.controllers.period_ms)

    def _is_current(self, stream: str, entry: int) -> bool:
        doubled = self.world.scenario.controllers.double_work_entry
        return stream in self._work if doubled else self._work.get(stream) == entry

    def ask(self, party: str, stream: StreamWorld, what: str, act: Callable[[], T]) -> Job[T]:
        """Go to a store, do `act` there, and come back with its result. Raises `UnavailableError`."""
        network = self.world.network
        if network.is_cut(self.name, party):
            raise UnavailableError(party.replace("-", " "))
        delay_ms = network.internal_delay_ms(stream.title, self.name, party, what)
        if delay_ms:
            yield delay_ms
            if network.is_cut(self.name, party):
                raise UnavailableError(party.replace("-", " "))
        found = act()
        delay_ms = network.internal_delay_ms(stream.title, party, self.name, f"{what}: answer")
        if delay_ms:
            yield delay_ms
        return found

    def failpoint(self, point: str, stream: str) -> Job[None]:
        """A place in the cycle where the script may stop this controller."""
        while (armed := next((entry for entry in self.armed if entry[:2] == (point, stream)), None)) is not None:
            # Another job of this controller may come to the same place before this one goes on.
            self.armed.remove(armed)
            armed[2]()
            yield None

    def drive(self, job: Job[Any]) -> None:
        """Do a job step by step in simulated time, as long as this life lasts, and not while it is paused."""
        self._drive(job, self.life)

    def _drive(self, job: Job[Any], life: int, _: simpy.Event | None = None) -> None:
        while life == self.life:
            if self._resumed is not None:
                self._resumed.callbacks.append(partial(self._drive, job, life))
                return
            try:
                moment = next(job)
            except StopIteration:
                return
            if isinstance(moment, int):
                Timer(self.world.env, moment, self._drive, (job, life))
                return
            if moment is not None:
                moment.callbacks.append(partial(self._drive, job, life))
                return
        job.close()


FAILED = "cycle failed: "
"""How the reason of a cycle that could not be carried out begins."""


def watermark_cycle(controller: Controller, stream: StreamWorld) -> Job[None]:
    """Run one cycle; whatever goes wrong is written down and swallowed, the next period tries again."""
    began_ms = stream.now_ms
    try:
        yield from _Cycle(controller, stream, began_ms).run()
    except UnavailableError as error:
        _write(
            controller,
            stream,
            began_ms,
            cycle.Decision(previous_lower=None, outcome="held", reason=FAILED + error.reason),
        )
    except TruncatedError:
        reason = FAILED + "mark pointer before the start of the marks segment"
        _write(controller, stream, began_ms, cycle.Decision(previous_lower=None, outcome="held", reason=reason))
    except NoSuchLogError:
        # The cached client is dropped and built anew next time; its inactivity clocks go with it.
        controller.memory.pop(stream.name, None)
        reason = FAILED + "no such marks segment"
        _write(controller, stream, began_ms, cycle.Decision(previous_lower=None, outcome="held", reason=reason))


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
        yield from controller.failpoint("after_marks", stream.name)
        view = yield from controller.ask(
            SEGMENT_STORE, stream, "read log", lambda: stream.open_cycle(self.memory.log_number, controller.name)
        )
        yield from controller.failpoint("after_log", stream.name)
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
                    yield from controller.failpoint("before_removal", stream.name)
                    if (yield from self._remove(effect)):
                        removed.append(effect.writer)
                case cycle.Decision():
                    decision = effect
                case cycle.Append(watermark=watermark):
                    decision = yield from self._append(view, watermark, decision)
                case cycle.LeaveBucket():
                    yield from controller.failpoint("before_leave", stream.name)
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
        yield from controller.failpoint("before_append", stream.name)
        revision = yield from controller.ask(
            SEGMENT_STORE, stream, "append", lambda: stream.append_mark(view, watermark, controller.name)
        )
        if revision is None and decision is not None:
            return stream.lost_race(decision)
        yield from controller.failpoint("after_append", stream.name)
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
        previous_lower=decision.previous_lower,
        participating=list(decision.participating),
        lagging=list(decision.lagging),
        removed=list(removed or ()),
        outcome=decision.outcome,
        reason=decision.reason,
    )


class Fleet:
    """The controllers: `members` are those that writers know of and call, running or not."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._all: dict[str, Controller] = {}
        self.members: list[Controller] = []
        for _ in range(world.scenario.controllers.count):
            self._new()

    def _new(self) -> Controller:
        index = len(self._all)
        name, clocks = controller_name(index), self._world.scenario.controllers.clocks
        clock = LocalClock.of(self._world.scenario, name, clocks[index] if index < len(clocks) else Clock())
        made = Controller(self._world, name, clock)
        self._all[name] = made
        self.members.append(made)
        return made

    def start(self) -> None:
        """Start those that are there from the beginning."""
        for controller in self.members:
            controller.start()

    def add(self) -> Controller:
        """One more controller joins."""
        made = self._new()
        made.start()
        return made

    def remove(self, controller: Controller) -> None:
        """A controller leaves for good, in good order; writers stop calling it."""
        if controller in self.members and len(self.members) > 1:
            self.members.remove(controller)
        controller.leave()

    def __getitem__(self, name: str) -> Controller:
        return self._all[name]

    def leader(self, stream: str) -> Controller | None:
        """The owner of a stream's bucket, None while nobody owns it."""
        owner = self._world.coordinator.state.nodes.get(self._world.metadata.bucket(stream))
        return None if owner is None else self._all[owner.controller]

    def find(self, role: str, stream: str) -> Controller | None:
        """The controller of a name or role; None when nobody has the role right now."""
        if role == "leader":
            return self.leader(stream)
        if role == "committer":
            return self._world.streams[stream].transactions.handler.committer()
        if role == "distributor":
            elected = self._world.coordinator.state.distributor
            return None if elected is None else self._all[elected.controller]
        return self._all.get(role)
