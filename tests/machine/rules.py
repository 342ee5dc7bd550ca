"""What a machine may do, by topic: each rule adds a party to the scenario, or something that happens to one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.machine import actions, parts
from tests.machine.base import GAPS_MS, Machine
from wmlab.streams.model.history import StreamHistory
from wmlab.streams.scenario import script
from wmlab.streams.scenario.parts import SEGMENT_STORE, SERVICES, EventWriter, TransactionalWriter

MOST_WRITERS = 4
MOST_GROUPS = 2
TO_COMPLETE_MS = 900


class Writers(Machine):
    """Writers come, crash, fall silent, say goodbye; a second process takes over."""

    @precondition(lambda self: len(self.writers) < MOST_WRITERS)
    @rule(gap_ms=GAPS_MS, data=st.data())
    def add_event_writer(self, gap_ms: int, data: st.DataObject) -> None:
        given = {"name": self.name("w"), "stream": self.a_stream(data), "starts_ms": self.after(gap_ms)}
        self.writers.append(data.draw(parts.event_writers())(**given))

    @rule(gap_ms=GAPS_MS, data=st.data())
    def befall_writer(self, gap_ms: int, data: st.DataObject) -> None:
        process = self.a_process(data, EventWriter, TransactionalWriter)
        self.happens(data.draw(actions.on_writer(process))(at_ms=self.after(gap_ms)))

    @precondition(lambda self: self.has(EventWriter))
    @rule(gap_ms=GAPS_MS, data=st.data(), load=st.sampled_from(["moves", "copied"]))
    def duplicate_writer(self, gap_ms: int, data: st.DataObject, load: str) -> None:
        names = [writer.name for writer in self.writers if isinstance(writer, EventWriter)]
        writer = data.draw(st.sampled_from(names))
        self.happens(script.DuplicateWriter(at_ms=self.after(gap_ms), writer=writer, load=load))


class Notes(Machine):
    """Writers note times and positions of all kinds."""

    @precondition(lambda self: self.has(EventWriter))
    @rule(gap_ms=GAPS_MS, data=st.data())
    def note_time(self, gap_ms: int, data: st.DataObject) -> None:
        process = self.a_process(data, EventWriter)
        stream = next(writer.stream for writer in self.writers if writer.name == process.split("/")[0])
        history = self.histories[stream or self.streams[0].name]
        at_ms = self.after(gap_ms)
        self.happens(data.draw(actions.notes(at_ms, process, history))(at_ms=at_ms))


class Transactions(Machine):
    """Transactional writers come; their transactions are committed, aborted, held up, and tried again."""

    @precondition(lambda self: len(self.writers) < MOST_WRITERS)
    @rule(gap_ms=GAPS_MS, data=st.data())
    def add_transactional_writer(self, gap_ms: int, data: st.DataObject) -> None:
        given = {"name": self.name("t"), "stream": self.a_stream(data), "starts_ms": self.after(gap_ms)}
        self.writers.append(data.draw(parts.transactional_writers())(**given))

    @precondition(lambda self: self.has(TransactionalWriter))
    @rule(gap_ms=GAPS_MS, data=st.data())
    def befall_transactions(self, gap_ms: int, data: st.DataObject) -> None:
        writer = self.a_process(data, TransactionalWriter)
        at_ms = self.after(gap_ms)
        drawn = actions.on_transactions(at_ms, writer, self.a_stream(data))
        self.happens(data.draw(drawn)(at_ms=at_ms))


class Scales(Machine):
    """Streams are scaled."""

    @rule(gap_ms=GAPS_MS, data=st.data())
    def scale(self, gap_ms: int, data: st.DataObject) -> None:
        """Split, merge, or replace one segment or two neighbours, sealed at once or one after the other."""
        stream = self.a_stream(data)
        if stream in self.closed:
            return
        active = sorted(self.histories[stream].active.segments, key=lambda segment: segment.keys)
        first = data.draw(st.integers(0, len(active) - 1))
        sealed = [segment.name for segment in active[first : first + data.draw(st.integers(1, 2))]]
        into = data.draw(st.sampled_from([2, 1, 3]))
        self.histories[stream] = self.histories[stream].scale(sealed, into)
        given = {"seal": data.draw(st.permutations(sealed)), "into": into, "stream": stream}
        every_ms = data.draw(st.sampled_from([None, None, 0, 150, 900]))
        self.happens(script.Scale(at_ms=self.after(gap_ms), **given, seal_every_ms=every_ms))


class Endings(Machine):
    """Streams are truncated, sealed, deleted, and created again."""

    @rule(gap_ms=GAPS_MS, data=st.data(), what=st.sampled_from(["truncate", "seal", "delete", "recreate", "create"]))
    def end_stream(self, gap_ms: int, data: st.DataObject, what: str) -> None:
        stream = self.a_stream(data)
        if stream in self.closed:
            return
        at_ms = self.after(gap_ms)
        if what == "truncate":
            self.happens(script.TruncateStream(at_ms=at_ms, stream=stream))
            return
        self.closed.add(stream)
        if what == "seal":
            self.happens(script.SealStream(at_ms=at_ms, stream=stream))
            return
        again_ms = 300 if what == "recreate" else None
        self.happens(script.DeleteStream(at_ms=at_ms, recreate_after_ms=again_ms, stream=stream))
        if what == "create":
            again_ms = 400
            self.happens(script.CreateStream(at_ms=at_ms + again_ms, stream=stream))
        if again_ms is not None:
            self._created_again(stream, again_ms)

    def _created_again(self, stream: str, after_ms: int) -> None:
        number = 1 + max(segment.number for segment in self.histories[stream].segments.values())
        segments = next(part.segments for part in self.streams if part.name == stream)
        self.histories[stream] = StreamHistory.create(segments, first_number=number)
        self.now_ms += after_ms + 1
        self.closed.discard(stream)


class Troubles(Machine):
    """Controllers, stores, the network and clocks fail."""

    @rule(gap_ms=GAPS_MS, data=st.data())
    def befall_controller(self, gap_ms: int, data: st.DataObject) -> None:
        drawn = actions.on_controllers(self.a_stream(data), self.controller_names, inside_a_cycle=self.slow)
        self.happens(data.draw(drawn)(at_ms=self.after(gap_ms)))

    @rule(gap_ms=GAPS_MS, data=st.data())
    def befall_stores(self, gap_ms: int, data: st.DataObject) -> None:
        self.happens(data.draw(actions.on_stores(self.a_stream(data)))(at_ms=self.after(gap_ms)))

    @rule(gap_ms=GAPS_MS, data=st.data())
    def befall_network(self, gap_ms: int, data: st.DataObject) -> None:
        controllers, processes = self.controller_names, self.all_processes
        clocks = [*(writer.name for writer in self.writers), *(controllers if self.slow else ())]
        controllers = ["controllers", *controllers]
        sides = [(writer, other) for writer in ("writers", *processes) for other in (SEGMENT_STORE, *controllers)]
        sides += [(controller, service) for controller in controllers for service in SERVICES]
        readers = ["readers", *self.reader_names] if self.reader_names else []
        sides += [(reader, SEGMENT_STORE) for reader in readers]
        self.happens(data.draw(actions.on_network(sides, clocks))(at_ms=self.after(gap_ms)))


class Readers(Machine):
    """Reader groups come; their readers crash, pause, join, leave, release, and go back to a checkpoint."""

    @precondition(lambda self: len(self.groups) < MOST_GROUPS)
    @rule(data=st.data())
    def add_group(self, data: st.DataObject) -> None:
        self.join_group(data)

    @precondition(lambda self: bool(self.groups))
    @rule(gap_ms=GAPS_MS, data=st.data())
    def befall_readers(self, gap_ms: int, data: st.DataObject) -> None:
        group = data.draw(st.sampled_from(self.groups))
        stream = data.draw(st.sampled_from(group.streams or (group.stream or self.streams[0].name,)))
        segment = data.draw(st.sampled_from([segment.name for segment in self.histories[stream].active.segments]))
        others = {name for other in self.groups if other.name != group.name for name in other.reader_names()}
        others |= {a.reader for a in self.script if isinstance(a, script.AddReader) and a.group != group.name}
        members = [name for name in self.reader_names if name not in others]
        drawn = actions.on_readers(group.name, self.reader_names, members, self.name("new-"), segment, stream)
        self.happens(data.draw(drawn)(at_ms=self.after(gap_ms)))

    @precondition(lambda self: bool(self.groups))
    @rule(gap_ms=GAPS_MS, data=st.data(), ranges=st.booleans())
    def go_back(self, gap_ms: int, data: st.DataObject, ranges: bool) -> None:
        """A checkpoint, and the reset to it after the readers had time to complete it."""
        group, checkpoint = data.draw(st.sampled_from(self.groups)).name, self.name("checkpoint-")
        self.happens(script.Checkpoint(at_ms=self.after(gap_ms), name=checkpoint, group=group))
        at_ms = self.after(TO_COMPLETE_MS)
        self.happens(script.ResetToCheckpoint(at_ms=at_ms, checkpoint=checkpoint, ranges=ranges, group=group))


class Everything(Writers, Notes, Transactions, Scales, Endings, Troubles, Readers):
    """All rules: whatever happens, the promises are kept, or so we claim.

    Counted from the last note, a timeout may never come: a writer that goes on noting old times is waited for as long.
    Without a writer that is forgotten while it is ahead the upper bound falls below what it noted.
    """

    faults: ClassVar[Mapping[str, Any]] = {"timeout_from": "first_behind", "forgets": "behind"}
