"""A controller: it judges what writers note, and runs the watermark cycle of the streams whose buckets it owns.

A process that may crash, pause, and go on as a leader that has been replaced: what it believes to own and what the
coordination service says are two things. Only the inactivity clocks live in its memory; all else is in the stores.

It judges a call in three steps: it lets the stream join its bucket, reads the writer's mark, and stores a new one by
compare-and-set. Notes of transactions by the controller that commits them go the same way.

The rules of a cycle are in `wmlab.streams.model.cycle`; here is the order of their effects. Between any two steps the
controller may be stopped, another leader may be at work, and a writer may note a time.

Source: PDP-33, "Controller Changes" and "Periodic Watermark Workflow"; upstream `BucketService`,
`PeriodicWatermarking`, `ControllerServiceImpl` and `PersistentStreamBase`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import simpy

from wmlab.core.simulation import JournalRow, generator
from wmlab.streams.model import cycle
from wmlab.streams.model.coordination import Session
from wmlab.streams.model.cycle import CycleState
from wmlab.streams.model.history import StreamHistory
from wmlab.streams.model.log import LeaderView, NoSuchLogError, TruncatedError, Watermark
from wmlab.streams.model.marks import NoteOutcome
from wmlab.streams.model.wire import Leave, Lengths, Note
from wmlab.streams.scenario.clocks import LocalClock
from wmlab.streams.scenario.parts import COORDINATOR, METADATA_STORE, SEGMENT_STORE, Clock, controller_name
from wmlab.streams.sim.coordinator import Coordinator
from wmlab.streams.sim.network import Message, Way
from wmlab.streams.sim.stores import MetadataStore, StreamWorld, WriterMarks
from wmlab.streams.sim.world import UNAVAILABLE, Answer, Node, Reply, Result, Steps, UnavailableError, World

_CONTEST_MS: Final = 10
"""How long a controller takes in a contest to try for one bucket."""


@dataclass(slots=True)
class StreamMemory:
    """What a controller remembers of a stream between two cycles: its clocks, and the marks segment it knew."""

    log_number: int
    state: CycleState = field(default_factory=CycleState)


class Controller(Node):
    """One controller process, and the two services that it works with."""

    def __init__(
        self, world: World, metadata: MetadataStore, coordinator: Coordinator, name: str, clock: LocalClock
    ) -> None:
        super().__init__(world, name)
        self.metadata = metadata
        self.coordinator = coordinator
        self.clock = clock
        self.is_running = False
        self.session: Session | None = None
        self.buckets: set[int] = set()
        self.memory: dict[str, StreamMemory] = {}
        self._contested: list[int] = []
        self.armed: list[tuple[str, str, Callable[[], None]]] = []
        self._part = world.scenario.controllers
        self._work: dict[str, int] = {}
        self._entries = 0
        self._sessions = 0
        self._jitter = generator(world.scenario.seed, f"jitter of {name}")
        self._order = generator(world.scenario.seed, f"contest of {name}")

    @property
    def is_working(self) -> bool:
        """Whether the process runs and is not paused."""
        return self.is_running and self._resumed is None

    def start(self) -> None:
        """Begin without memory and buckets, and open a session; what was being done before ends."""
        self.crash()
        self.is_running = True
        self._sessions += 1
        self.session = Session(self.name, self._sessions)
        self.coordinator.open(self.session)

    def crash(self) -> None:
        """End everything: what was in memory is lost, and the connections break."""
        super().crash()
        self.buckets, self.memory, self._work, self._contested = set(), {}, {}, []

    def stop(self, *, crashed: bool) -> None:
        """End the process; the session ends with it, and so do its nodes, or after a crash when it times out."""
        session, self.session = self.session, None
        self.is_running = False
        self.crash()
        if session is not None and crashed:
            self.world.after(self._part.session_timeout_ms, self.coordinator.close, session)
        elif session is not None:
            self.coordinator.close(session)

    def pause_for(self, for_ms: int) -> None:
        """Freeze for a while; the session may end meanwhile, which the controller learns after it has gone on."""
        if not self.is_working:
            return
        self.pause()
        if for_ms > self._part.session_timeout_ms and self.session is not None:
            self.world.after(self._part.session_timeout_ms, self.coordinator.close, self.session)
        self.do(self._pausing(for_ms))

    def _pausing(self, for_ms: int) -> Steps[None]:
        yield self.world.env.timeout(for_ms)
        self.resume()
        self.coordinator.plan()
        if self.session not in self.coordinator.state.sessions:
            self.notice_expiry(self.world.scenario.latency_ms)

    def notice_expiry(self, after_ms: int) -> None:
        """The process learns that its session has ended, and starts its services again."""
        self.do(self._restarting(after_ms))

    def _restarting(self, after_ms: int) -> Steps[None]:
        yield self.world.env.timeout(after_ms)
        yield from self.ready()
        self.start()

    def serve(self, steps: Steps[Result], answer: Callable[[Result | None], None]) -> None:
        """Do something for a caller on a connection and answer with its result.

        None when this controller is down or goes down meanwhile, since that breaks the connection, and when a store
        cannot be reached.
        """
        if self.is_running:
            self.do(self._served(steps, answer))
        else:
            answer(None)

    def _served(self, steps: Steps[Result], answer: Callable[[Result | None], None]) -> Steps[None]:
        result: Result | None = None
        with suppress(UnavailableError, simpy.Interrupt):
            yield from self.ready()
            result = yield from steps
        answer(result)

    def receive(self, message: Note | Leave, answer: Answer) -> None:
        """Judge a call and answer; a controller that is down refuses the connection."""
        if self.is_running:
            self.do(self._answered(message, answer))
        else:
            answer(Reply("answer", UNAVAILABLE, UNAVAILABLE))

    def _answered(self, message: Note | Leave, answer: Answer) -> Steps[None]:
        yield from self.ready()
        outcome = yield from self.judge(message)
        answer(Reply("answer", outcome, outcome))

    def judge(self, message: Note | Leave) -> Steps[str]:
        """The stream of a note joins its bucket, the mark is read, the call judged, and stored by compare-and-set.

        A note counts as judged at the moment of the compare-and-set, from which on cycles find it. That a writer
        leaves, which marks it as no longer alive, counts as received when it was heard (upstream `removeWriter`).
        """
        world, metadata, heard_ms = self.world, self.metadata, self.world.now_ms
        stream = metadata.streams[message.stream]
        leaves = isinstance(message, Leave)

        def judged(outcome: str) -> str:
            row = message._asdict() | {
                "controller": self.name,
                "received_ms": heard_ms if leaves else world.now_ms,
                "outcome": outcome,
            }
            del row["stream"]
            stream.journal.write("writer_shutdowns" if leaves else "writer_marks", **row)
            return outcome

        try:
            if not leaves:
                yield from self.ask_at(METADATA_STORE, stream, "join bucket", lambda: metadata.join(message.stream))
            read = yield from self.ask_at(
                METADATA_STORE, stream, "read mark", lambda: metadata.read(message.stream, message.writer)
            )
            clock_ms = self.clock.read(world.now_ms)

            def store() -> str:
                """The row is written where the mark is stored: this controller may not live to read the answer."""
                if isinstance(message, Leave):
                    return judged(metadata.shut_down(message.stream, message.writer, read))
                return judged(metadata.note(message, read, clock_ms))

            return (yield from self.ask_at(METADATA_STORE, stream, "write mark", store))
        except UnavailableError:
            return judged(UNAVAILABLE)

    def check_alive(self) -> Steps[bool]:
        """Look something up: not while this controller is down, and later while it is paused."""
        yield from self.ready()
        return True

    def rebalance_buckets(self) -> None:
        """Give up buckets that are another's now, and try to take those that ought to be this controller's."""
        if self.is_working:
            self._rebalance()
        elif self.is_running:
            self.do(self._rebalancing())

    def _rebalancing(self) -> Steps[None]:
        yield from self.ready()
        self._rebalance()

    def _rebalance(self) -> None:
        coordinator, session = self.coordinator, self.session
        if session is None or session not in coordinator.state.sessions:
            return
        if self.world.rules.distribution == "contest":
            self._contest_for(coordinator.state.free)
            return
        share = coordinator.state.share(self.name)
        for bucket in sorted(self.buckets - share):
            self.release_bucket(bucket)
            coordinator.release(bucket, session)
        for bucket in sorted(share - self.buckets):
            self._take(bucket, session)

    def _take(self, bucket: int, session: Session) -> None:
        """Try to take a bucket; with it come the cycles of its streams, and the commits that a leader makes."""
        if self.coordinator.take(bucket, session):
            message = Message(None, self.name, COORDINATOR, "take bucket", bucket)
            self.world.network.carry(message, lambda: None, way=Way.INSIDE)
            self.buckets.add(bucket)
            for stream in self.metadata.members(bucket):
                self.add_work(stream)
            self.coordinator.wake_committers(of_leaders=True)

    def _contest_for(self, free: Iterable[int]) -> None:
        """Try to take these buckets, one after the other in an order of its own, behind those it is trying already."""
        more = [bucket for bucket in free if bucket not in self._contested]
        idle, ordered = not self._contested, [more[index] for index in self._order.permutation(len(more))]
        self._contested += ordered
        if idle and ordered:
            self.do(self._contest())

    def _contest(self) -> Steps[None]:
        while self._contested:
            yield from self.sleep(_CONTEST_MS)
            bucket = self._contested.pop(0)
            if self.session is not None and not self.world.network.is_separated(self.name, COORDINATOR):
                self._take(bucket, self.session)

    def release_bucket(self, bucket: int) -> None:
        """Stop working on a bucket; the clocks of its streams are lost."""
        self.buckets.discard(bucket)
        for stream in self.metadata.members(bucket):
            self.drop_work(stream)
            self.memory.pop(stream, None)

    def add_work(self, stream: str) -> None:
        """A stream has come into one of the buckets: its first cycle runs after the intentional delay."""
        if stream not in self._work and self.is_running:
            self._entries += 1
            self._work[stream] = self._entries
            self.do(self._cycles(stream, self._entries))

    def drop_work(self, stream: str) -> None:
        """A stream has left: no further cycle."""
        self._work.pop(stream, None)

    def _cycles(self, stream: str, entry: int) -> Steps[None]:
        """Run the cycles of a stream, as long as it is in one of the buckets."""
        wait_ms = self.metadata.streams[stream].cycles.delay_ms
        last_cycle: JournalRow = {}
        # With the fault, the entry goes back into the queue before the news that the stream has left arrives.
        while self._is_current(stream, entry) or self.world.rules.double_work_entry:
            if self._part.period_jitter_ms:
                wait_ms += int(self._jitter.integers(self._part.period_jitter_ms + 1))
            last_cycle["due_ms"] = self.world.now_ms + wait_ms
            yield self.world.env.timeout(wait_ms)
            if not self._is_current(stream, entry):
                return
            yield from self.ready()
            last_cycle = yield from watermark_cycle(self, self.metadata.streams[stream])
            wait_ms = self._part.period_ms

    def _is_current(self, stream: str, entry: int) -> bool:
        return stream in self._work if self.world.rules.double_work_entry else self._work.get(stream) == entry

    def ask_at(
        self, store: str, stream: StreamWorld, kind: str, act: Callable[[], Result], content: object = ""
    ) -> Steps[Result]:
        """Go to a store, do `act` there, and come back with its result. Raises `UnavailableError`.

        `kind` names the request and `content` is what it says; the result is what the answer says, if the request says
        something.
        """
        network = self.world.network
        if network.is_immediate:
            return act()
        if network.is_separated(self.name, store):
            raise UnavailableError(store.replace("-", " "))
        request = Message(stream.title, self.name, store, kind, content)
        yield from self.go(request, way=Way.INSIDE)
        if network.is_separated(self.name, store):
            raise UnavailableError(store.replace("-", " "))
        result = act()
        yield from self.go(request.reply(f"{kind}: answer", content and result), way=Way.INSIDE)
        return result

    def failpoint(self, point: str, stream: str) -> Steps[None]:
        """A point in the cycle where the script may stop this controller."""
        while (armed := next((entry for entry in self.armed if entry[:2] == (point, stream)), None)) is not None:
            # Another coroutine of this controller may come to the same point before this one goes on.
            self.armed.remove(armed)
            armed[2]()
            yield from self.ready()


def watermark_cycle(controller: Controller, stream: StreamWorld) -> Steps[JournalRow]:
    """Run one cycle and give its row; what goes wrong is written down and swallowed, the next period tries again."""
    run = _Cycle(controller, stream)
    try:
        return (yield from run.steps())
    except UnavailableError as error:
        reason = error.reason
    except TruncatedError:
        reason = "mark pointer before the start of the marks segment"
    except NoSuchLogError:
        # The cached client is dropped and built again next time; its inactivity clocks go with it.
        controller.memory.pop(stream.name, None)
        reason = cycle.NO_MARKS_SEGMENT
    failed = cycle.HeldBy.FAILED
    return run.write(cycle.Decision(previous_lower=None, outcome="held", cause=failed, reason=f"{failed}: {reason}"))


class _Cycle:
    def __init__(self, controller: Controller, stream: StreamWorld) -> None:
        self.controller = controller
        self.stream = stream
        self.began_ms = stream.world.now_ms
        self.removed: list[str] = []
        self.marks = WriterMarks()
        self.memory = controller.memory.setdefault(stream.name, StreamMemory(stream.log.number))

    def _ask(self, store: str, kind: str, act: Callable[[], Result]) -> Steps[Result]:
        return self.controller.ask_at(store, self.stream, kind, act)

    def _failpoint(self, point: str) -> Steps[None]:
        return self.controller.failpoint(point, self.stream.name)

    def steps(self) -> Steps[JournalRow]:
        """Read the marks, then the log, decide, and carry the decision out."""
        stream, metadata = self.stream, self.controller.metadata
        self.marks = yield from self._ask(METADATA_STORE, "read marks", self._read_marks)
        yield from self._failpoint("after_marks")
        view = yield from self._ask(SEGMENT_STORE, "read log", self._open_log)
        yield from self._failpoint("after_log")
        history = yield from self._ask(METADATA_STORE, "read epochs", stream.read_history)
        observation = cycle.Observe(
            now_ms=self.controller.clock.read(stream.world.now_ms),
            marks=dict(self.marks.table.marks),
            previous=None if view.previous is None else view.previous[1],
            history=history,
            noted_ms=self.marks.noted_ms,
        )
        self.memory.state, effects = cycle.step(self.memory.state, observation, stream.cycles)
        decision = next(effect for effect in effects if isinstance(effect, cycle.Decision))
        for effect in effects:
            match effect:
                case cycle.RemoveWriter():
                    yield from self._failpoint("before_removal")
                    yield from self._remove(effect)
                case cycle.Append(watermark=watermark):
                    if not watermark.known:
                        watermark = cycle.ending_at(watermark, (yield from self._lengths(history)).offsets)
                    appended = yield from self._append(view, watermark)
                    if not appended:
                        lost = "conflict: another leader appended first"
                        conflict = cycle.HeldBy.CONFLICT
                        decision = replace(decision, outcome="held", cause=conflict, reason=lost)
                case cycle.LeaveBucket():
                    yield from self._failpoint("before_leave")
                    yield from self._ask(METADATA_STORE, "leave bucket", lambda: metadata.leave(stream.name))
        return self.write(decision)

    def _open_log(self) -> LeaderView[Watermark]:
        """What a cycle reads of the marks segment; what the index lacks is written in passing."""
        view = self.stream.open_log(self.memory.log_number)
        self.stream.write_index(self.controller.name)
        return view

    def _lengths(self, history: StreamHistory) -> Steps[Lengths]:
        """How long the segments of the active epoch are."""
        ids, asked = history.active.ids, Lengths(dict.fromkeys(history.active.ids))
        return self.controller.ask_at(
            SEGMENT_STORE, self.stream, "get lengths", partial(self.stream.lengths, ids), asked
        )

    def _read_marks(self) -> WriterMarks:
        """All marks of the stream, as they are now."""
        marks = self.controller.metadata.marks(self.stream.name)
        return WriterMarks() if marks is None else marks.copy()

    def _remove(self, effect: cycle.RemoveWriter) -> Steps[None]:
        """Remove a writer if its mark is unchanged; its inactivity clock is forgotten only then."""
        stream = self.stream
        outcome = yield from self._ask(
            METADATA_STORE,
            "remove writer",
            lambda: self.controller.metadata.remove(stream.name, effect.writer, effect.mark),
        )
        done = cycle.RemovalDone(effect.writer, outcome is NoteOutcome.OK)
        self.memory.state, _ = cycle.step(self.memory.state, done, stream.cycles)
        if done.removed:
            self.removed.append(effect.writer)

    def _append(self, view: LeaderView[Watermark], watermark: Watermark) -> Steps[bool]:
        """Append if nobody else has; then to the index; then move the mark pointer, whose outcome does not matter."""
        name, stream = self.controller.name, self.stream
        append = partial(
            stream.append_watermark,
            view,
            watermark,
            controller=name,
            cycle_ms=self.began_ms,
            received_ms=self.marks.received_ms,
        )
        yield from self._failpoint("before_append")
        if not (yield from self._ask(SEGMENT_STORE, "append", append)):
            return False
        yield from self._failpoint("after_append")
        yield from self._ask(SEGMENT_STORE, "append to index", lambda: stream.write_index(name, watermark))
        yield from self._ask(SEGMENT_STORE, "move pointer", lambda: stream.advance_mark_pointer(view))
        return True

    def _behind_since_ms(self, writers: Iterable[str]) -> dict[str, int]:
        """From when the timeout of each of these writers counts; the memory has it on the controller's own clock."""
        now_ms, rules = self.controller.world.now_ms, self.stream.cycles
        ahead_ms = self.controller.clock.ahead_ms(now_ms)
        since_ms = partial(
            cycle.inactive_since,
            self.memory.state,
            now_ms=now_ms + ahead_ms,
            timeout_from=rules.timeout_from,
            noted_ms=self.marks.noted_ms,
        )
        return {writer: since_ms(writer) - ahead_ms for writer in writers}

    def write(self, decision: cycle.Decision) -> JournalRow:
        """Write the outcome of the cycle down."""
        return self.stream.journal.write(
            "cycles",
            controller=self.controller.name,
            at_ms=self.began_ms,
            removed=self.removed,
            participating=list(decision.participating),
            lagging=list(decision.lagging),
            timeout_ms=self.stream.cycles.timeout_ms,
            behind_since_ms=self._behind_since_ms(decision.lagging),
            **{name: getattr(decision, name) for name in ("previous_lower", "outcome", "cause", "reason")},
        )


class Controllers:
    """The controllers: `members` are those that writers know of and call, running or not; others left for good."""

    def __init__(self, world: World, metadata: MetadataStore, coordinator: Coordinator) -> None:
        self._world = world
        self._metadata = metadata
        self.coordinator = coordinator
        self._all: dict[str, Controller] = {}
        self.members: list[Controller] = []
        metadata.owners = coordinator.owners = self.members
        for _ in range(world.scenario.controllers.count):
            self.add()

    def add(self) -> Controller:
        """One more controller, which is not started yet."""
        index = len(self._all)
        name, clocks = controller_name(index), self._world.scenario.controllers.clocks
        clock = LocalClock.of(self._world.scenario, name, clocks[index] if index < len(clocks) else Clock())
        self._all[name] = Controller(self._world, self._metadata, self.coordinator, name, clock)
        self.members.append(self._all[name])
        return self._all[name]

    def __getitem__(self, name: str) -> Controller:
        return self._all[name]

    def find(self, name: str) -> Controller | None:
        """The controller of that name; None if there never was one."""
        return self._all.get(name)
