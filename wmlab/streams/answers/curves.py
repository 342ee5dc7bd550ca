"""The curves of one stream in a recording, and what holds each of them at a moment, or over a stretch of time.

Three curves have a lower bound: that of the log, the one at the position of a reader group, which is what a tracker has
passed that follows its positions, and the one that a reader saw at its last poll.

Source: PDP-33, Periodic Watermark Workflow and Watermarking in the Reader.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import NamedTuple

from wmlab.core.errors import RecordingError
from wmlab.core.invariants import TableRow
from wmlab.core.recording import Recording, planned_span
from wmlab.streams.answers.cause import (
    NOT_OF_WRITERS,
    Cause,
    CauseSpan,
    GroupState,
    Party,
    cause_of_group,
    cause_of_log,
    cause_of_reader,
    due_ms_of,
    overdue_for,
)
from wmlab.streams.answers.history import GroupHistory, StreamTables, deleted_ms, group_states
from wmlab.streams.answers.run_state import Fault, RunState, RunWalk
from wmlab.streams.answers.vocabulary import CauseKind, State
from wmlab.streams.answers.written import Written
from wmlab.streams.model.log import Watermark
from wmlab.streams.model.position import Position
from wmlab.streams.model.segment import segment_name
from wmlab.streams.model.window import Followed, compare_with_cut
from wmlab.streams.scenario.scenario import StreamScenario
from wmlab.streams.tables import marks_read_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Which lower bound is meant: that seen by a `reader`, at the position of a `group`; neither: that in the log."""

    group: str | None = None
    reader: str | None = None


LOG = Curve()
"""The lower bound of the log of watermarks."""


class Hindrance(NamedTuple):
    """Parties that kept cycles from running or storing, of which one was due at `planned_ms` or before (clock, ms).

    One that is back keeps none.
    """

    from_ms: int
    to_ms: int
    parties: tuple[Party, ...]
    planned_ms: int


class Curves:
    """The curves of one stream of a recording; tables are read when they are needed, and once."""

    def __init__(self, recording: Recording, stream: str) -> None:
        self.tables = StreamTables(recording, stream)
        self._written = Written(recording, stream)
        self._groups: dict[str, _Group] = {}

    @cached_property
    def _walk(self) -> RunWalk:
        return RunWalk(self.tables)

    @cached_property
    def _scenario(self) -> StreamScenario | None:
        return self.tables.recording.scenario_as(StreamScenario)

    def state_at(self, at_ms: int) -> RunState:
        """The machine of the log in its state at `at_ms`."""
        return self._walk.at(at_ms)

    def group_of(self, reader: str, group: str | None = None) -> str:
        """The group of a reader; raises `RecordingError` for one that never looked at a window of the stream.

        Also for one that is not in `group`, if that is given.
        """
        looks = self.tables.windows.get(reader)
        if looks is None:
            known = ", ".join(sorted(self.tables.windows)) or "none"
            raise RecordingError(
                f"The recording {self.tables.recording.name!r} has no reader {reader!r} of {self.tables.stream}; "
                f"its readers: {known}.",
                remedy="name one of them, or leave the reader out to explain the stream's own bound.",
            )
        if group not in {None, looks[0]["group"]}:
            raise RecordingError(
                f"Reader {reader!r} is not in group {group!r}, but in {looks[0]['group']!r}.",
                remedy="leave one of them out.",
            )
        return str(looks[0]["group"])

    def cause(self, curve: Curve, at_ms: int) -> Cause:
        """What holds the curve at `at_ms` (clock, ms)."""
        hindrances = self._hindrances
        state = self._walk.at(at_ms)
        log, silent = cause_of_log(state), self._written.silent_at(state)
        kept = delayed(hindrances, state, log, len(state.watermarks))
        log = replace(log, delayed=kept, silent=None if silent in log.names else silent)
        if curve == LOG:
            return log
        group = self._group(curve.group if curve.reader is None else self.group_of(curve.reader, curve.group))
        known = group.at(at_ms, state.lower)
        if curve.reader is None:
            cause = cause_of_group(state, known, log)
        else:
            cause = cause_of_reader(state, known, curve.reader, log)
        if cause.kind is CauseKind.NOT_STARTED:
            cause = replace(cause, starts_ms=self._joins_ms(curve, at_ms))
        return replace(cause, delayed=delayed(hindrances, state, log, state.index_after(cause.bound)))

    def reader_until_ms(self, reader: str) -> int | None:
        """When a reader left its group for good, its stream was deleted, or the run ends (clock, ms).

        None: that is not known.
        """
        rows = self.tables.rows("incidents")
        moves = [row for row in rows if row["target"] == reader and row["kind"] in ("join", "leave")]
        left_ms = [int(row["at_ms"]) for row in moves[-1:] if row["kind"] == "leave"]
        ends_ms = (*left_ms, deleted_ms(self.tables.recording, self.tables.stream))
        return min((at_ms for at_ms in ends_ms if at_ms is not None), default=self._end_ms)

    def at_position(self, group: str) -> tuple[list[int], list[int | None]]:
        """The lower bounds at the position of a group (event time, ms; None: unknown), each from its moment on."""
        return self._group(group).bounds()

    def _joins_ms(self, curve: Curve, at_ms: int) -> int | None:
        """When a reader that is not there at `at_ms` joins, or the readers of a group begin; None: they are there."""
        joins = [
            int(row["at_ms"])
            for row in self.tables.rows("incidents")
            if (row["subject"], row["kind"], row["target"]) == ("reader", "join", curve.reader)
        ]
        group = curve.group if curve.reader is None else self.group_of(curve.reader, curve.group)
        parts = () if self._scenario is None else self._scenario.groups
        starts = [self._scenario.start_ms + part.starts_ms for part in parts if self._scenario and part.name == group]
        return next((joins_ms for joins_ms in joins or starts if joins_ms > at_ms), None)

    @cached_property
    def _end_ms(self) -> int | None:
        """When the run of the scenario ends."""
        planned = planned_span(self.tables.recording)
        return None if planned is None else planned[1]

    def upper(self, curve: Curve, at_ms: int) -> int | None:
        """The upper bound of a curve (event time, ms); None: unknown."""
        state = self._walk.at(at_ms)
        if curve.reader is not None:
            return state.seen[curve.reader].upper if curve.reader in state.seen else None
        row = state.bound if curve.group is None else self._group(curve.group).ahead(at_ms)
        return None if row is None or not row["writers"] else int(row["upper"])

    def spans(self, curve: Curve, *, start_ms: int, end_ms: int) -> Iterator[CauseSpan]:
        """What held the curve from `start_ms` to `end_ms` (clock), cause by cause.

        Up to the first cycle after parties came back that kept cycles from running, they do, where no writer does.
        """
        times = set(self._walk.times) | self._overdue_from
        if curve.group is not None or curve.reader is not None:
            times |= set(self._group(curve.group or self.group_of(str(curve.reader))).times)
            times |= {row["at_ms"] for row in self.tables.windows.get(curve.reader or "", ())}
        before: CauseSpan | None = None
        moments = [start_ms, *sorted(time for time in times if start_ms < time < end_ms), end_ms]
        for from_ms, to_ms in pairwise(moments):
            cause = self._up_to_a_cycle(self.cause(curve, from_ms))
            if before is not None and _same(before.cause, cause):
                before = replace(before, to_ms=to_ms)
                continue
            if before is not None:
                yield before
            before = CauseSpan(from_ms, to_ms, cause)
        if before is not None and before.from_ms < before.to_ms:
            yield before

    def _up_to_a_cycle(self, cause: Cause) -> Cause:
        """The cause, or those that kept cycles from running, if none has begun since they are back."""
        log, until_ms = cause.of_log, max(cause.of_log.delayed.values(), default=0)
        if log.kind is not CauseKind.PERIOD or any(until_ms <= begun_ms <= log.at_ms for begun_ms in self._begun_ms):
            return cause
        over = [kept.parties for kept in self._hindrances if kept.to_ms == until_ms]
        parties = tuple(replace(party, fault=None) for party in over[-1]) if over else ()
        late = replace(log, kind=CauseKind.CONTROLLER, parties=parties) if parties else log
        return late if cause is log else replace(cause, parties=late.parties, log=late)

    @cached_property
    def _begun_ms(self) -> list[int]:
        """When each cycle began (clock, ms)."""
        begun = [row["at_ms"] for row in self.tables.rows("cycles")]
        return begun + [marks_read_ms(row) for row in self.tables.rows("watermarks")]

    @cached_property
    def _hindrances(self) -> list[Hindrance]:
        """What kept cycles from running or storing: the causes that are no writers.

        So does a bucket without an owner before a cycle of the last owner is overdue, if none begins up to then.
        """
        changes = self._overdue_from.union(self._walk.turns)
        times = sorted({at_ms for change in changes for at_ms in (change - 1, change)})
        found: list[Hindrance] = []
        for begin, end in pairwise(times):
            state = self._walk.at(begin)
            cause, due_ms = cause_of_log(state), due_ms_of(state)
            if cause.kind in NOT_OF_WRITERS:
                parties = tuple(party for party in cause.parties if party.back_ms is None)
                found.append(Hindrance(begin, end, parties, begin))
            elif state.unowned is None or due_ms is None:
                continue
            elif not any(begin < at <= due_ms for at in self._begun_ms):
                found.append(Hindrance(begin, end, overdue_for(state), due_ms))
        return found

    @cached_property
    def _overdue_from(self) -> set[int]:
        """From when on each planned cycle is overdue, if it does not run (clock, ms)."""
        planned = (due_ms_of(self._walk.at(at_ms)) for at_ms in self._walk.times)
        return {due_ms + 1 for due_ms in planned if due_ms is not None}

    def _group(self, name: str | None) -> _Group:
        names = self.tables.groups
        if name is None or name not in names:
            raise RecordingError(
                f"The recording {self.tables.recording.name!r} has no reader group {name!r} of {self.tables.stream}; "
                f"its groups: {', '.join(names) or 'none'}.",
                remedy="name one of them, or leave the group out to explain the stream's own bound.",
            )
        if name not in self._groups:
            self._groups[name] = _Group(self.tables.of_group(name))
        return self._groups[name]


def delayed(hindrances: Iterable[Hindrance], state: RunState, log: Cause, index: int) -> Mapping[str, int]:
    """Until when (clock, ms) those kept cycles from making the watermark at that index of the log who no longer do."""
    marks = state.watermarks
    is_made = index < len(marks)
    since_ms = marks[index - 1]["emitted_ms"] if index else 0
    until_ms = marks[index]["emitted_ms"] if is_made else state.at_ms
    still = () if is_made or log.kind not in NOT_OF_WRITERS else log.who
    ends = {
        party.name: to_ms  # a watermark ends whatever kept it
        for from_ms, to_ms, parties, planned_ms in hindrances
        if max(from_ms, planned_ms) < until_ms and to_ms > since_ms
        for party in parties
        if party.name not in still
    }
    return dict(sorted(ends.items()))


def _same(before: Cause, cause: Cause) -> bool:
    """Whether two causes of a curve are one, with the same value."""

    def key(cause: Cause) -> tuple[object, ...]:
        log = cause.log
        inner = () if log is None else (log.kind, log.names, log.faults)
        return cause.kind, cause.names, cause.who, cause.faults, cause.bound, cause.since_ms, *inner

    return key(before) == key(cause)


class _Group:
    """What one reader group knew over time, from its positions and the watermarks, or from its map of times."""

    def __init__(self, history: GroupHistory) -> None:
        self._name = history.name
        self._watermarks = [row for row, _ in history.tables.log]
        self._segments = history.tables.segments
        self._followed = history.followed()
        self._since_ms = list(
            accumulate(
                self._followed[1:],
                lambda since, known: (
                    since if known.tracker.lower_seq == since[1] else (known.at_ms, known.tracker.lower_seq)
                ),
                initial=(self._followed[0].at_ms, self._followed[0].tracker.lower_seq) if self._followed else None,
            )
        )
        self._owners, self._map = list(group_states(history.rows("positions"), waiting=True)), history.maps
        self._read: dict[int, tuple[list[int], list[int]]] = {}
        for row in sorted(history.rows("reads"), key=lambda row: int(row["at_ms"])):
            times, ends = self._read.setdefault(row["segment_id"], ([], []))
            times.append(row["at_ms"])
            ends.append(max(row["to_offset"], ends[-1] if ends else 0))

    @property
    def times(self) -> Iterator[int]:
        """When what the group knew, or how far it had read, changed."""
        yield from (known.at_ms for known in self._followed)
        yield from (row["at_ms"] for row in self._map)
        for times, _ in self._read.values():
            yield from times

    def bounds(self) -> tuple[list[int], list[int | None]]:
        """What the group knew, each lower bound from its moment on."""
        if self._map:
            return [int(row["at_ms"]) for row in self._map], [row["lower"] for row in self._map]
        return [known.at_ms for known in self._followed], [known.tracker.passed for known in self._followed]

    def at(self, at_ms: int, newest: int | None) -> GroupState:
        """The group at `at_ms`; `newest` is the lower bound of the log then."""
        index = bisect_right(self._followed, at_ms, key=lambda known: known.at_ms) - 1
        if index < 0:
            return GroupState(
                name=self._name,
                lower=None,
                since_ms=None,
                newest=newest,
                has_next=newest is not None,
                has_started=False,
            )
        known = self._followed[index]
        made = sum(row["emitted_ms"] <= at_ms for row in self._watermarks)
        # Where the last watermark was passed at once, older ones may still wait.
        waiting = () if known.tracker.passed_seq == made - 1 else known.tracker.pending
        following = waiting[0][1] if waiting else None
        behind = () if following is None else self._behind(known, following, at_ms)
        since = self._since_ms[index]
        state = GroupState(
            name=self._name,
            lower=known.tracker.passed,
            since_ms=since[0] if since is not None and known.tracker.passed is not None else None,
            newest=newest,
            behind=behind,
            has_next=following is not None,
            read_up_to={segment_name(segment): self._read_at(segment, at_ms) for segment in self._read},
        )
        return self._by_map(state, at_ms) if self._map else state

    def ahead(self, at_ms: int) -> TableRow | None:
        """The watermark that gives the group its upper bound; None: none is ahead of it."""
        index = bisect_right(self._followed, at_ms, key=lambda known: known.at_ms) - 1
        seq = self._followed[index].tracker.upper_seq if index >= 0 else None
        return None if seq is None else self._watermarks[seq]

    def _read_at(self, segment: int, at_ms: int) -> int:
        times, ends = self._read[segment]
        index = bisect_right(times, at_ms) - 1
        return ends[index] if index >= 0 else 0

    def _behind(self, known: Followed, following: Watermark, at_ms: int) -> tuple[Party, ...]:
        """The segments of the group's position before a cut, ascending."""
        index = bisect_right(self._owners, at_ms, key=lambda entry: entry[0]) - 1
        rows = self._owners[index][1] if index >= 0 else {}
        offsets, ends = known.move.position.offsets, following.cut.offsets
        # None in a cut is the end of a segment, which one that waits for its successors has reached.
        needed = {
            segment: offset if ends.get(segment) is None and rows.get(segment, {}).get("waits") else ends.get(segment)
            for segment, offset in offsets.items()
        }
        return tuple(
            Party(
                name=segment_name(segment),
                subject="segments",
                offset=offset,
                needed=needed[segment],
                reader=rows[segment]["reader"] if segment in rows else None,
                fault=self._released(rows[segment], at_ms) if segment in rows else None,
                taken_from=self._owner_before(rows[segment]) if segment in rows else None,
            )
            for segment, offset in sorted(offsets.items())
            if compare_with_cut(Position({segment: offset}), following.cut, self._segments) < 1
        )

    def _released(self, row: TableRow, at_ms: int) -> Fault | None:
        """Since when a segment that a reader had published in has no owner; None: that is not so, or not known.

        Nothing is recorded of who takes a segment until he reads it, or publishes in it.
        """
        before = self._owner_before(row)
        reads, _ = self._read.get(row["segment_id"], ((), ()))
        if row["reader"] is not None or before is None or any(row["at_ms"] < read_ms <= at_ms for read_ms in reads):
            return None
        return Fault(kind=State.UNOWNED, party=before, since_ms=row["at_ms"])

    def _owner_before(self, row: TableRow) -> str | None:
        """The last other reader that published in a segment before a row of its positions; None: there was none."""
        published = (rows.get(row["segment_id"]) for at_ms, rows in self._owners if at_ms <= row["at_ms"])
        readers = [before["reader"] for before in published if before is not None]
        return next((reader for reader in reversed(readers) if reader not in (None, row["reader"])), None)

    def _by_map(self, state: GroupState, at_ms: int) -> GroupState:
        """The group that shares a map of times: its bound is the least of the map, of readers that have entered it."""
        index = bisect_right(self._map, at_ms, key=lambda row: int(row["at_ms"])) - 1
        if index < 0:
            has_next = state.has_next or state.newest is not None
            return replace(state, lower=None, since_ms=None, behind=(), has_next=has_next, has_map=True)
        row = self._map[index]
        lower = row["lower"]
        while index > 0 and self._map[index - 1]["lower"] == lower:
            index -= 1
        entries = row["lowers"].values()
        # The bound of the row may be unknown although its entries are known: then it lacks an upper bound.
        least = None if None in entries else min(entries, default=None)
        holding = [reader for reader, time in row["lowers"].items() if time == least]
        behind = tuple(
            Party(name=reader, subject="reader", reader=reader, offset=0, needed=0) for reader in sorted(holding)
        )
        # An end of known time has no bound that an entry could be: there the published position counts.
        has_next = state.has_next if state.newest is None else least is None or state.newest > least
        since_ms = None if lower is None else int(self._map[index]["at_ms"])
        return replace(state, lower=lower, since_ms=since_ms, behind=behind, has_next=has_next, has_map=True)
