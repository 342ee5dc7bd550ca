"""The actions of a script in a simulated run: a method for each kind, which also writes its row of `incidents`.

An action that finds nobody to act on, such as a writer that has crashed, writes that down and does nothing else. One
that waits for a moment, such as a point in a cycle, says so at the end of the run if that never came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar

from wmlab.core.errors import ScenarioError
from wmlab.core.schemas import NEVER_HAPPENED
from wmlab.core.simulation import Journal
from wmlab.core.words import counted, exactly, listed, moment
from wmlab.streams.model.coordination import Session
from wmlab.streams.model.position import Position, is_lineage_valid, is_valid_cut
from wmlab.streams.model.segment import parse_segment, segment_name, split_id
from wmlab.streams.scenario import script
from wmlab.streams.scenario.parts import COORDINATOR
from wmlab.streams.sim.controller import Controller
from wmlab.streams.sim.parties import Parties
from wmlab.streams.sim.reader import ReaderProcess, RunningGroup
from wmlab.streams.sim.stores import StreamWorld
from wmlab.streams.sim.transactions import SteppedScale
from wmlab.streams.sim.txn_writer import TxnWriter
from wmlab.streams.sim.world import Incident, Steps
from wmlab.streams.sim.writer import Writer, WriterProcess
from wmlab.streams.tables import NO_EFFECT, NOBODY_THERE, TOOK_PLACE

AnyWriter = TypeVar("AnyWriter", bound=WriterProcess)
_OLDEST = "its oldest transaction"
_MARKS_SEGMENT: Final = "marks segment"
_COMMIT_HANDLER: Final = "commit handler"


class _NoTargetError(Exception):
    """There is nobody to act on; that is written down already."""


class Actions:
    """Carries out the actions of a script: each method is called like the `kind` of its action."""

    def __init__(self, parties: Parties) -> None:
        self.parties = parties
        self.world = parties.world
        self._record = parties.world.record_incident
        self._pending: list[tuple[Incident, tuple[Journal, ...]]] = []

    def write_pending_actions(self) -> None:
        """Write down, at the end of the run, what waited for a moment that has not come."""
        for pending, journals in self._pending:
            detail = f"{pending.detail}, which never came"
            self._record(replace(pending, detail=detail, outcome=NEVER_HAPPENED), *journals)
        for stream in self.parties.all_streams():
            self.parties.transactions[stream.title].write_lost_replies()

    def _when_it_comes(self, to_do: Incident, act: Callable[[], None], *journals: Journal) -> Callable[[], None]:
        """What is to be called at the moment that an action waits for; the detail of `to_do` says for which."""
        pending = to_do, journals
        self._pending.append(pending)

        def come() -> None:
            self._pending.remove(pending)
            act()

        return come

    def plan(self, actions: Iterable[Any]) -> None:
        """Carry out all actions of a script, each at its time."""
        for action in actions:
            self.world.after(action.at_ms, self._do, action)

    def _do(self, action: Any) -> None:
        with suppress(_NoTargetError):
            getattr(self, action.kind)(action)

    def _span(self, begin: Incident, kind: str, detail: str, *journals: Journal) -> None:
        """Write down that something begins and, after its `for_ms`, if any, its end: an incident of that `kind`."""
        self._record(begin, *journals)
        if begin.for_ms is not None:
            ended = replace(begin, kind=kind, detail=detail, for_ms=None)
            self.world.after(begin.for_ms, self._record, ended, *journals)

    def _until(self, for_ms: int | None) -> float:
        return float("inf") if for_ms is None else self.world.now_ms + for_ms

    # Controllers, and the log they write.

    def _controller_named(self, role: str, stream: StreamWorld) -> Controller | None:
        """The controller of a name or role; None when nobody has the role right now."""
        parties, state = self.parties, self.parties.coordinator.state
        match role:
            case "committer":
                return parties.transactions[stream.title].committer()
            case "leader":
                session = state.nodes.get(stream.bucket)
            case "distributor":
                session = state.distributor
            case _:
                return parties.controllers.find(role)
        return None if session is None else parties.controllers[session.controller]

    def _controller(self, kind: str, role: str, stream: str | None = None) -> Controller:
        """The controller of that name or role; if there is none, an incident that says so, and `_NoTargetError`."""
        controller = self._controller_named(role, self.parties.stream(stream))
        if controller is None or (kind == "expire" and controller.session is None):
            self._record(Incident(kind, "controller", role, f"nobody is {role} now", outcome=NOBODY_THERE))
            raise _NoTargetError
        return controller

    def _at_point(
        self, kind: str, action: script.CrashController | script.PauseController, act: Callable[[Controller, str], None]
    ) -> None:
        """Act on a controller now, or at the failpoint of the action; `act` gets the words for that point."""
        controller = self._controller(kind, action.controller, action.stream)
        if action.point is None:
            act(controller, "")
        else:
            words = f" {action.point.replace('_', ' ')}"
            stream = self.parties.stream(action.stream).name
            to_do = Incident(kind, "controller", controller.name, f"{controller.name} was to {kind}{words}")
            come = self._when_it_comes(to_do, partial(act, controller, words))
            controller.armed.append((action.point, stream, come))

    def crash_controller(self, action: script.CrashController) -> None:
        """Crash a controller now, or when its cycle reaches a point."""

        def crash(controller: Controller, at: str) -> None:
            name, restart_ms = controller.name, action.restart_after_ms
            controller.stop(crashed=True)
            self._record(Incident("crash", "controller", name, f"{name} crashes{at}", for_ms=restart_ms))
            if restart_ms is not None:
                self.world.after(restart_ms, restart, controller)

        def restart(controller: Controller) -> None:
            if not controller.is_running and controller in self.parties.controllers.members:
                controller.start()
                self._record(Incident("restart", "controller", controller.name, f"{controller.name} restarts"))

        self._at_point("crash", action, crash)

    def pause_controller(self, action: script.PauseController) -> None:
        """Freeze a controller for a while, now or when its cycle reaches a point."""

        def pause(controller: Controller, at: str) -> None:
            name = controller.name
            controller.pause_for(action.for_ms)
            pause = Incident("pause", "controller", name, f"{name} pauses{at}", for_ms=action.for_ms)
            self._span(pause, "resume", f"{name} goes on")

        self._at_point("pause", action, pause)

    def expire_session(self, action: script.ExpireSession) -> None:
        """End a controller's session behind its back; one that has ended already cannot."""
        controller = self._controller("expire", action.controller, action.stream)
        name, session, coordinator = controller.name, controller.session, self.parties.coordinator
        if session is None or session not in coordinator.state.sessions:
            self._record(Incident("expire", "controller", name, f"{name} has no session", outcome=NO_EFFECT))
            return
        expires = f"session of {name} expires"
        self._record(Incident("expire", "controller", name, expires, for_ms=action.notice_after_ms))
        coordinator.close(session)
        controller.notice_expiry(action.notice_after_ms)

    def lose_bucket_owner(self, action: script.LoseBucketOwner) -> None:
        """Leave a stream's bucket without an owner for a while."""
        stream = self.parties.stream(action.stream)
        title = f"bucket {stream.bucket}"
        unowned = Incident("unowned", "bucket", title, f"nobody owns {title}", for_ms=action.for_ms)
        self._span(unowned, "ownable", f"{title} can be owned", stream.journal)
        self.parties.coordinator.hold_back(stream.bucket, action.for_ms)

    def add_controller(self, _: script.AddController) -> None:
        """One more controller."""
        controller = self.parties.controllers.add()
        controller.start()
        self._record(Incident("join", "controller", controller.name, f"{controller.name} joins"))

    def remove_controller(self, action: script.RemoveController) -> None:
        """A controller leaves in good order."""
        controller, members = self._controller("leave", action.controller), self.parties.controllers.members
        if controller in members and len(members) > 1:
            members.remove(controller)
        controller.stop(crashed=False)
        self._record(Incident("leave", "controller", controller.name, f"{controller.name} leaves"))

    def lose_marks_segment(self, action: script.LoseMarksSegment) -> None:
        """The marks segment cannot be found for a while."""
        stream = self.parties.stream(action.stream)
        stream.log_missing = True
        name = f"the {_MARKS_SEGMENT}"
        lost = Incident("lose", _MARKS_SEGMENT, _MARKS_SEGMENT, f"{name} is missing", for_ms=action.for_ms)
        self._span(lost, "find", f"{name} is back", stream.journal)
        self.world.after(action.for_ms, setattr, stream, "log_missing", False)

    def truncate_marks(self, action: script.TruncateMarks) -> None:
        """Only the newest entries of the marks segment stay."""
        stream = self.parties.stream(action.stream)
        entries = stream.log.entries
        if len(entries) > action.keep:
            stream.log = stream.log.truncate(entries[len(entries) - action.keep - 1][0])
        keeps = f"the {_MARKS_SEGMENT} keeps {counted(len(stream.log.entries), 'watermark')}"
        self._record(Incident("truncate", _MARKS_SEGMENT, _MARKS_SEGMENT, keeps), stream.journal)

    # The network, the stores and the clocks.

    def partition(self, action: script.Partition) -> None:
        """Separate two sides for a while; a controller without its coordinator loses its session after the timeout."""
        world, parties, sides = self.world, self.parties, f"{action.a} and {action.b}"
        nodes = world.scenario.nodes(action.a), world.scenario.nodes(action.b)
        partition = world.network.separate(*nodes, holds_calls=action.calls == "held")
        separated = tuple(sorted(nodes[0])), tuple(sorted(nodes[1]))
        begin = Incident("partition", "network", sides, f"{sides} are separated", for_ms=action.for_ms)
        self._record(replace(begin, sides=separated))
        alone = [member for member in parties.controllers.members if partition.separates(member.name, COORDINATOR)]

        def expire_if_alone(controller: Controller, session: Session | None) -> None:
            if (
                session is not None
                and session == controller.session
                and world.network.is_separated(controller.name, COORDINATOR)
            ):
                parties.coordinator.close(session)

        def heal() -> None:
            world.network.heal(partition)
            self._record(Incident("heal", "network", sides, f"{sides} are connected again"))
            for controller in alone:
                # It learns that its session has ended, or its share of the buckets.
                parties.coordinator.plan()
                if controller.session is not None and controller.session not in parties.coordinator.state.sessions:
                    controller.notice_expiry(world.scenario.latency_ms)
                else:
                    controller.rebalance_buckets()

        for controller in alone:
            world.after(world.scenario.controllers.session_timeout_ms, expire_if_alone, controller, controller.session)
        if action.for_ms is not None:
            world.after(action.for_ms, heal)

    def store_unavailable(self, action: script.StoreUnavailable) -> None:
        """Let a store refuse everything for a while."""
        self.world.refuse(action.store, action.for_ms)
        store = action.store.replace("_", " ")
        begin = Incident("unavailable", "store", store, f"{store} unavailable", for_ms=action.for_ms)
        self._span(begin, "available", f"{store} available again")

    def step_clock(self, action: script.StepClock) -> None:
        """The clocks follow the script by themselves; this writes it down."""
        direction = "forward" if action.by_ms >= 0 else "back"
        is_writer = any(writer.name == action.party for writer in self.world.scenario.writers)
        detail = f"clock of {action.party} set {direction} by {exactly(abs(action.by_ms))}"
        self._record(Incident("clock", "writer" if is_writer else "controller", action.party, detail))

    # Reader groups.

    def _group(self, name: str | None) -> RunningGroup:
        """The group called `name`, the only one for None.

        `_NoTargetError` if its streams were gone when it was to start, which is not an incident of a stream.
        """
        group = self.parties.groups.get(self.world.scenario.groups[0].name if name is None else name)
        if group is None:
            raise _NoTargetError
        return group

    def _reader(self, kind: str, name: str) -> ReaderProcess:
        """The running reader of that name; if there is none, an incident that says so, and `_NoTargetError`."""
        for group in self.parties.groups.values():
            reader = group.readers.get(name)
            if reader is not None and reader.is_running:
                return reader
            if reader is not None:
                self._record(
                    Incident(kind, "reader", name, f"{name} is not running", outcome=NOBODY_THERE), *group.journals
                )
        raise _NoTargetError

    def add_reader(self, action: script.AddReader) -> None:
        """One more reader."""
        group = self._group(action.group)
        group.balance.members_changed = True
        group.add(action.reader, join=True)
        self._record(Incident("join", "reader", action.reader, f"{action.reader} joins"), *group.journals)

    def remove_reader(self, action: script.RemoveReader) -> None:
        """A reader closes, and reports its position."""
        reader = self._reader("leave", action.reader)
        reader.crash()
        reader.do(reader.group.remove(reader, "leave", reader.offsets))
        self._record(Incident("leave", "reader", reader.name, f"{reader.name} leaves"), *reader.group.journals)

    def crash_reader(self, action: script.CrashReader) -> None:
        """Crash a reader; declare it offline and start it again if the script says so."""
        reader = self._reader("crash", action.reader)
        group = reader.group
        reader.crash()
        crash = Incident("crash", "reader", reader.name, f"{reader.name} crashes", for_ms=action.restart_after_ms)
        self._record(crash, *group.journals)

        def offline() -> Steps[None]:
            if not group.readers[action.reader].is_running:
                yield from group.remove(group.readers[action.reader], "offline")

        def restart() -> Steps[None]:
            yield from offline()
            group.add(action.reader, join=True)
            self._record(Incident("restart", "reader", action.reader, f"{action.reader} restarts"), *group.journals)

        for after_ms, steps in ((action.offline_after_ms, offline()), (action.restart_after_ms, restart())):
            if after_ms is not None:
                self.world.after(after_ms, group.do, steps)

    def pause_reader(self, action: script.PauseReader) -> None:
        """A reader does nothing for a while."""
        reader = self._reader("pause", action.reader)
        reader.paused_until = self._until(action.for_ms)
        begin = Incident("pause", "reader", reader.name, f"{reader.name} pauses", for_ms=action.for_ms)
        self._span(begin, "resume", f"{reader.name} goes on", *reader.group.journals)

    def release_segment(self, action: script.ReleaseSegment) -> None:
        """A reader gives a segment back, if it owns it."""
        reader = self._reader("release", action.reader)
        group = reader.group
        segment = (action.stream or next(iter(group.streams)), parse_segment(action.segment))
        owned = segment in reader.offsets
        if owned:
            group.balance.reserved_until_ms[segment] = self.world.now_ms + action.keep_free_ms
            reader.do(reader.give_back(segment))
        what, outcome = ("releases", TOOK_PLACE) if owned else ("does not own", NO_EFFECT)
        detail = f"{reader.name} {what} {action.segment}"
        self._record(Incident("release", "reader", reader.name, detail, outcome=outcome), *group.journals)

    def checkpoint(self, action: script.Checkpoint) -> None:
        """Ask a group for a checkpoint."""
        group = self._group(action.group)
        group.do(group.checkpoint(action.name))
        self._record(Incident("checkpoint", "group", group.part.name, f"checkpoint {action.name}"), *group.journals)

    def take_stream_cut(self, action: script.TakeStreamCut) -> None:
        """Take the stream cut that a group has published."""
        group = self._group(action.group)
        group.do(group.take_cut(action.name))
        self._record(Incident("stream_cut", "group", group.part.name, f"stream cut {action.name}"), *group.journals)

    def reset_to_checkpoint(self, action: script.ResetToCheckpoint) -> None:
        """Take a group back to a checkpoint, if it is complete."""
        group = self._group(action.group)
        completed = list(group.state.checkpoints)
        name = completed[-1] if action.checkpoint is None and completed else action.checkpoint
        if name in completed:
            group.do(group.reset(name, ranges=action.ranges))
            reset = Incident("reset", "group", group.part.name, f"back to checkpoint {name}")
        else:
            missing = "no checkpoint is complete" if name is None else f"checkpoint {name} is not complete"
            reset = Incident("reset", "group", group.part.name, missing, outcome=NO_EFFECT)
        self._record(reset, *group.journals)

    # Whole streams.

    def scale(self, action: script.Scale) -> None:
        """As soon as the commits in work are done, create the new segments, write the epoch, then seal the old ones.

        The seals arrive one message later, so that for a moment predecessors and successors are both open; in steps
        the first one is sent then. Source: upstream `ScaleOperationTask`.
        """
        stream = self.parties.stream(action.stream)
        transactions = self.parties.transactions[stream.title]
        to_seal = ", ".join(action.seal)
        waits = Incident(
            "scale", "segments", to_seal, f"the scale of {to_seal} was to begin when no commit was in work"
        )

        def never(why: str) -> None:
            self._record(replace(waits, detail=f"{waits.detail}, but {why}", outcome=NEVER_HAPPENED), stream.journal)

        def scale() -> None:
            if stream.deleted:
                never(f"{stream.name} was deleted")
                return
            active = stream.history.active.segments
            copies = {segment.number: segment.id for segment in active}
            numbers = {name: split_id(parse_segment(name))[0] for name in action.seal}
            if gone := [name for name, number in numbers.items() if number not in copies]:
                # What was to make it has not happened: a scale that waited, for one, when its stream was deleted.
                never(f"{listed(gone)} of {stream.name} {'is' if len(gone) == 1 else 'are'} not open then")
                return
            sealed = [copies[number] for number in numbers.values()]
            stream.history = stream.history.scale(sealed, action.ranges)
            created = [segment for segment in stream.history.active.segments if segment not in active]
            stream.open_epoch(created)
            if action.seal_every_ms is None:
                self.world.later(stream.seal, sealed)
            else:
                transactions.scale_in_steps(SteppedScale(tuple(sealed), action.seal_every_ms))
            names = ", ".join(segment_name(segment_id) for segment_id in sealed)
            change = f"{names} → {', '.join(segment.name for segment in created)}"
            self._record(Incident("scale", "segments", names, change), stream.journal)

        transactions.when_idle(self._when_it_comes(waits, scale, stream.journal))

    def truncate_stream(self, action: script.TruncateStream) -> None:
        """Drop what lies before a cut, once no scale in steps is in work; a new reader group starts there."""
        stream = self.parties.stream(action.stream)

        def truncate() -> None:
            if stream.deleted:
                return
            cut = (
                {segment.id: stream.store[segment.id].length for segment in stream.history.active.segments}
                if action.cut is None
                else {parse_segment(name): offset for name, offset in action.cut.items()}
            )
            if not is_valid_cut(cut, stream.history) or not is_lineage_valid(cut, stream.history):
                raise ScenarioError(
                    f"The cut {Position(cut)} that {stream.name} is to be truncated at is not a stream cut of it then.",
                    remedy="Name segments that cover the key space once, each readable when the others are.",
                )
            stream.truncate(cut)
            self._record(Incident("truncate", "stream", stream.name, f"{stream.name} is truncated"), stream.journal)

        name = stream.name
        waits = Incident("truncate", "stream", name, f"{name} was to be truncated when no scale was in work")
        self.parties.transactions[stream.title].after_scale(self._when_it_comes(waits, truncate, stream.journal))

    def seal_stream(self, action: script.SealStream) -> None:
        """Abort what is open, wait for what is to be committed, and seal all segments; nothing follows them."""
        stream = self.parties.stream(action.stream)

        def seal() -> None:
            # The seals arrive one message later, as those of a scale do.
            self.world.later(stream.seal, stream.history.active.ids)
            self._record(Incident("seal", "stream", stream.name, f"{stream.name} is sealed"), stream.journal)

        transactions = self.parties.transactions[stream.title]
        transactions.close()
        waits = Incident("seal", "stream", stream.name, f"{stream.name} was to be sealed when all was committed")
        transactions.when_idle(self._when_it_comes(waits, seal, stream.journal), drained=True)

    def delete_stream(self, action: script.DeleteStream) -> None:
        """Delete a stream; its writers and readers stop, and start again when it is created again."""
        parties, stream = self.parties, self.parties.stream(action.stream)
        self._record(Incident("delete", "stream", stream.name, f"{stream.name} is deleted"), stream.journal)
        for writer in parties.writers.values():
            if writer.stream is stream and writer.has_begun:
                writer.crash()
        parties.delete_stream(stream)
        if action.recreate_after_ms is not None:
            self.world.after(action.recreate_after_ms, self._create, stream.name)

    def create_stream(self, action: script.CreateStream) -> None:
        """Create a stream; its writers and readers start."""
        self._create(action.stream)

    def _create(self, name: str) -> None:
        parties, old = self.parties, self.parties.stream(name)
        new = parties.create_stream(name)
        again = " again" if old in parties.deleted_streams else ""
        self._record(Incident("create", "stream", name, f"{name} is created{again}"), new.journal)
        since_ms = self.world.now_ms - self.world.start_ms
        for writer in parties.writers.values():
            if writer.stream is old:
                writer.stream = new
                if writer.has_begun or writer.part.starts_ms < since_ms:
                    writer.restart("lost")
        for group in self.world.scenario.groups:
            if not group.streams and parties.stream(group.stream) is new and group.starts_ms < since_ms:
                parties.start_group(group)

    # Writers and their transactions.

    def _running(self, kind: str, name: str, of: type[AnyWriter]) -> AnyWriter:
        """The writer process of that name; when it is down or has not begun, an incident and `_NoTargetError`."""
        writer = self.parties.writers[name]
        if isinstance(writer, of) and writer.is_running and not writer.closed:
            return writer
        self._record(
            Incident(kind, "writer", name, f"{name} is not running", outcome=NOBODY_THERE), writer.stream.journal
        )
        raise _NoTargetError

    def _restart_later(self, action: script.CrashWriter | script.ShutDownWriter) -> None:
        def restart() -> None:
            writer = self.parties.writers[action.writer]
            writer.restart(action.backlog)
            self._record(
                Incident("restart", "writer", action.writer, f"{action.writer} restarts"), writer.stream.journal
            )

        if action.restart_after_ms is not None:
            self.world.after(action.restart_after_ms, restart)

    def crash_writer(self, action: script.CrashWriter) -> None:
        """Crash a writer, and start it again if the script says so."""
        writer = self.parties.writers[action.writer]
        writer.crash()
        crash = Incident("crash", "writer", action.writer, f"{action.writer} crashes", for_ms=action.restart_after_ms)
        self._record(crash, writer.stream.journal)
        self._restart_later(action)

    def silence_writer(self, action: script.SilenceWriter) -> None:
        """A writer notes nothing for a while."""
        writer = self._running("silence", action.writer, WriterProcess)
        writer.silent_until = self._until(action.for_ms)
        begin = Incident("silence", "writer", action.writer, f"{action.writer} falls silent", for_ms=action.for_ms)
        self._span(begin, "speak", f"{action.writer} speaks again", writer.stream.journal)

    def mark_idle(self, action: script.MarkIdle) -> None:
        """A writer says that it is idle, and notes nothing for a while."""
        writer = self._running("idle", action.writer, WriterProcess)
        writer.silent_until = self._until(action.for_ms)
        writer.leave("mark idle")
        begin = Incident("idle", "writer", action.writer, f"{action.writer} is idle", for_ms=action.for_ms)
        self._span(begin, "active", f"{action.writer} is active again", writer.stream.journal)

    def note_time(self, action: script.NoteTime) -> None:
        """The application notes a time."""
        writer = self._running("note", action.writer, Writer)
        detail = f"{action.writer} notes {moment(action.time, clock_ms=self.world.now_ms)}"
        self._record(Incident("note", "writer", action.writer, detail), writer.stream.journal)
        writer.note_explicitly(action.time, None if action.position is None else dict(action.position))

    def shut_down_writer(self, action: script.ShutDownWriter) -> None:
        """Close a writer in order, and start it again if the script says so."""
        writer = self._running("shut_down", action.writer, WriterProcess)
        name, journal = action.writer, writer.stream.journal
        begin = Incident("shut_down", "writer", name, f"{name} shuts down", for_ms=action.restart_after_ms)
        self._record(begin, journal)

        def leave() -> None:
            if action.backlog == "lost":
                writer.backlog.abandon(self.world.now_ms)
            if action.last_note and isinstance(writer, Writer):
                writer.note_chosen()
            writer.leave("shut down")

        def close(leave: Callable[[], None]) -> Steps[None]:
            yield from writer.close()
            leave()

        waits = Incident("shut_down", "writer", name, f"{name} was to leave when all that it wrote was acknowledged")
        writer.do(close(self._when_it_comes(waits, leave, journal)))
        self._restart_later(action)

    def upgrade_writer(self, action: script.UpgradeWriter) -> None:
        """Close a writer in order, and start it again with another client once all is acknowledged."""
        writer = self._running("upgrade", action.writer, WriterProcess)

        def upgrade() -> Steps[None]:
            yield from writer.close()
            writer.part = action.client(writer.part)
            writer.restart("kept")
            self._record(
                Incident("upgrade", "writer", action.writer, f"{action.writer} runs with another client"),
                writer.stream.journal,
            )

        writer.do(upgrade())

    def duplicate_writer(self, action: script.DuplicateWriter) -> None:
        """A second process under the same writer id, with a load of its own from now on."""
        writer = self.parties.writers[action.writer]
        if isinstance(writer, Writer):
            load = writer.backlog.from_now_on(self.world.now_ms, moves=action.load == "moves")
            number = 1 + sum(other.part.name == writer.part.name for other in self.parties.writers.values())
            second = Writer(writer.stream, writer.controllers, writer.part, writer.index, (load,), number)
            self.parties.writers[second.name] = second
            second.start()
            self._record(
                Incident("duplicate", "writer", second.name, f"{second.name} starts in addition to {writer.name}"),
                writer.stream.journal,
            )

    def _transacting(self, kind: str, writer: str, does: str) -> TxnWriter:
        """A running transactional writer; what it does is written down."""
        process = self._running(kind, writer, TxnWriter)
        self._record(Incident(kind, "writer", writer, f"{writer} {does}"), process.stream.journal)
        return process

    def commit_transaction(self, action: script.CommitTransaction) -> None:
        """Commit a transaction now."""
        writer = self._transacting("commit", action.writer, f"commits {action.transaction or _OLDEST}")
        writer.commit(action.transaction, action.time)

    def abort_transaction(self, action: script.AbortTransaction) -> None:
        """Abort a transaction now."""
        writer = self._transacting("abort", action.writer, f"aborts {action.transaction or _OLDEST}")
        writer.abort(action.transaction, action.backlog)

    def write_in_transaction(self, action: script.WriteInTransaction) -> None:
        """Write in a transaction now."""
        writer = self._transacting("write", action.writer, f"writes in {action.transaction or _OLDEST}")
        writer.write(action.transaction)

    def slow_transaction(self, action: script.SlowTransaction) -> None:
        """Hold a transaction open for longer."""
        writer = self._transacting("hold", action.writer, f"holds its transaction for {exactly(action.hold_ms)}")
        writer.hold(action.hold_ms)

    def lose_merge_reply(self, action: script.LoseMergeReply) -> None:
        """The next answers to merge requests are lost."""
        stream = self.parties.stream(action.stream)
        self.parties.transactions[stream.title].lost_replies += [action.noticed_after_ms] * action.count
        replies = "merge reply is" if action.count == 1 else f"{action.count} merge replies are"
        self._record(Incident("lose_merge_reply", "store", "segment store", f"the next {replies} lost"), stream.journal)

    def crash_commit_handler(self, action: script.CrashCommitHandler) -> None:
        """The commit handler fails when it reaches a point, and records it then."""
        stream, point = self.parties.stream(action.stream), action.point.replace("_", " ")
        name = f"the {_COMMIT_HANDLER}"
        crashes = Incident("crash_commit_handler", _COMMIT_HANDLER, _COMMIT_HANDLER, f"{name} crashes {point}")
        waits = replace(crashes, detail=f"{name} was to crash {point}")
        come = self._when_it_comes(waits, partial(self._record, crashes, stream.journal), stream.journal)
        self.parties.transactions[stream.title].armed.append((action, come))
