"""A controller in motion: it serves writers, and runs the cycle of the streams whose buckets it owns.

A process that may crash, pause, and go on as a leader that has been replaced: what it believes to own and what the
coordination service says are two things. Only the inactivity clocks live in its memory; all else is in the stores.

Source: PDP-33, "Controller Changes"; upstream `BucketService`, `PeriodicWatermarking` and `ControllerServiceImpl`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import simpy

from wmlab.core.clock import Timer, generator
from wmlab.streams.model.coordination import Session
from wmlab.streams.model.cycle import CycleState
from wmlab.streams.scenario.units import COORDINATOR
from wmlab.streams.sim.clock import LocalClock
from wmlab.streams.sim.cycle import watermark_cycle
from wmlab.streams.sim.metadata import UnavailableError

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

    def look_up(self) -> Job[bool]:
        """Look something up: not while this controller is down, and later while it is paused."""
        yield None
        return True

    def meet_share(self) -> None:
        """Give up buckets that are another's now, and try to take those that ought to be this controller's."""
        if not self._running:
            return
        if self._resumed is not None:
            self._resumed.callbacks.append(lambda _: self.meet_share())
            return
        coordinator = self.world.coordinator
        session = self.session
        if session is None or session not in coordinator.state.sessions:
            return
        share = coordinator.state.share(self.name)
        for bucket in sorted(self.buckets - share):
            self.give_up(bucket)
            coordinator.release(bucket, session)
        for bucket in sorted(share - self.buckets):
            if coordinator.take(bucket, session):
                self.world.network.inside(None, self.name, COORDINATOR, "take bucket", bucket)
                self.buckets.add(bucket)
                for stream in self.world.metadata.members(bucket):
                    self.add_work(stream)

    def give_up(self, bucket: int) -> None:
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
            part = self.world.scenario.controllers
            self._enqueue(stream, self._entries, part.period_ms if part.start_delay_ms is None else part.start_delay_ms)

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
        delay_ms = network.inside(stream.title, self.name, party, what)
        if delay_ms:
            yield delay_ms
            if network.is_cut(self.name, party):
                raise UnavailableError(party.replace("-", " "))
        found = act()
        delay_ms = network.inside(stream.title, party, self.name, f"{what}: answer")
        if delay_ms:
            yield delay_ms
        return found

    def reach(self, point: str, stream: str) -> Job[None]:
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
