"""What was known of a stream's lower bound at a moment of a run: marks, cycles, watermarks, faults and owners by then.

`RunState` is a machine that takes the rows of a recording in their order; `RunWalk` drives it. Rows of one millisecond
belong together: incidents first, then marks, then the cycle that read them, then what it appended. Rows of `incidents`
come in pairs that begin and end a state: crash and restart, pause and resume. `ActiveFaults` goes through them in
order. It knows at each moment who is down, paused, silent or cut off, since when, and until when by the script.

Source: PDP-33, Periodic Watermark Workflow, and PDP-33, Config Changes; upstream class `PeriodicWatermarking`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, get_args

from wmlab.core.invariants import TableRow
from wmlab.streams.answers.history import CLOCKS, StreamTables, owners_of, recorded_configuration
from wmlab.streams.answers.vocabulary import State
from wmlab.streams.model.cycle import NO_MARKS_SEGMENT, HeldBy, unavailable
from wmlab.streams.scenario.parts import SERVICES
from wmlab.streams.scenario.scenario import StreamScenario
from wmlab.streams.scenario.script import Store
from wmlab.streams.tables import TOOK_PLACE, Subject

_BEGINS: Final[Mapping[tuple[Subject, str], State]] = {
    ("writer", "crash"): State.DOWN,
    ("writer", "shut_down"): State.SHUT_DOWN,
    ("writer", "idle"): State.IDLE,
    ("writer", "silence"): State.SILENT,
    ("writer", "hold"): State.IN_TRANSACTION,
    ("writer", "abort"): State.WITHOUT_COMMIT,
    ("reader", "crash"): State.DOWN,
    ("reader", "leave"): State.GONE,
    ("reader", "pause"): State.PAUSED,
    ("controller", "crash"): State.DOWN,
    ("controller", "leave"): State.GONE,
    ("controller", "pause"): State.PAUSED,
    ("controller", "expire"): State.SESSION_LOST,
    ("bucket", "unowned"): State.UNOWNED,
    ("marks segment", "lose"): State.MISSING,
    ("store", "unavailable"): State.UNAVAILABLE,
    ("network", "partition"): State.CUT_OFF,
}
"""What begins a state, by subject and kind of the incident."""
_ENDS: Final[Mapping[tuple[Subject, str], tuple[State, ...]]] = {
    ("writer", "restart"): (State.DOWN, State.SHUT_DOWN),
    ("writer", "active"): (State.IDLE,),
    ("writer", "speak"): (State.SILENT,),
    ("writer", "release"): (State.IN_TRANSACTION,),
    ("reader", "restart"): (State.DOWN,),
    ("reader", "join"): (State.DOWN, State.GONE),
    ("reader", "resume"): (State.PAUSED,),
    ("controller", "restart"): (State.DOWN, State.PAUSED, State.SESSION_LOST),
    ("controller", "resume"): (State.PAUSED,),
    ("bucket", "ownable"): (State.UNOWNED,),
    ("marks segment", "find"): (State.MISSING,),
    ("store", "available"): (State.UNAVAILABLE,),
    ("network", "heal"): (State.CUT_OFF,),
}
"""Which states are over after an incident."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A state of `party` since `since_ms`, by the script until `until_ms` (clock, ms; None: not known, or for good).

    `apart_from` are the nodes that a partition separates the party from.
    """

    kind: State
    party: str
    since_ms: int
    until_ms: int | None = None
    apart_from: tuple[str, ...] = ()


@dataclass(slots=True)
class ActiveFaults:
    """The faults that last at a moment, by subject, party and kind; `step` takes the incidents in order."""

    _active: dict[tuple[Subject, str], dict[State, Fault]] = field(default_factory=dict)
    _ended_ms: dict[str, int] = field(default_factory=dict)
    _partitions: dict[str, tuple[int, int | None, tuple[tuple[str, ...], ...]]] = field(default_factory=dict)

    def step(self, row: TableRow) -> None:
        """Take one more incident; one that changed nothing is left out."""
        if row["outcome"] != TOOK_PLACE:
            return
        subject, kind, party = row["subject"], str(row["kind"]), str(row["target"])
        begun, ended = _BEGINS.get((subject, kind)), _ENDS.get((subject, kind), ())
        if subject == "network":
            sides = self._partitions.pop(party, (0, None, ()))[2]
            for one, other in zip(sides, sides[::-1], strict=True):
                if set(other) & set(SERVICES):
                    self._ended_ms |= dict.fromkeys(one, int(row["at_ms"]))
            if begun is not None:
                self._partitions[party] = row["at_ms"], row.get("until_ms"), tuple(map(tuple, row.get("sides") or ()))
            return
        of_party = self._active.setdefault((subject, party), {})
        if of_party.keys() & set(ended):
            self._ended_ms[party] = row["at_ms"]
        # A process that crashes is paused no more; a writer stays silent or idle when it is started again.
        for over in (*ended, *((State.PAUSED, State.IN_TRANSACTION) if begun is State.DOWN else ())):
            of_party.pop(over, None)
        # No incident says that a session that was lost is there again.
        if begun is not None and (begun not in of_party or begun is State.SESSION_LOST):
            since_ms = row.get("since_ms", row["at_ms"])
            of_party[begun] = Fault(kind=begun, party=party, since_ms=since_ms, until_ms=row.get("until_ms"))

    def heard(self, writer: str) -> None:
        """A mark of a writer was accepted."""
        self._active.get(("writer", writer), {}).pop(State.WITHOUT_COMMIT, None)

    def of(self, subject: Subject, *parties: str, at_ms: int, needs: Collection[str] = ()) -> Fault | None:
        """The fault of these parties that is named at `at_ms`; None: there is none.

        With `needs` a partition counts only if it separates a party from one of these nodes.
        """
        faults = [
            fault
            for party in parties
            for fault in self._all_of(subject, party, at_ms)
            if not needs or not fault.apart_from or set(needs) & set(fault.apart_from)
        ]
        return min(faults, key=lambda fault: list(State).index(fault.kind), default=None)

    def apart(self, party: str, node: str) -> Fault | None:
        """The first partition that lasts between a party and a node; None: there is none."""
        partitions = (fault for fault in self._partitions_of(party) if node in fault.apart_from)
        return next(partitions, None)

    def of_marks_segment(self, *, at_ms: int) -> Fault | None:
        """Why nobody can read or write the marks segment at `at_ms`; None: it is there."""
        unavailable = self.of("store", MARKS_SEGMENT, at_ms=at_ms)
        return unavailable or self.of("marks segment", MARKS_SEGMENT, at_ms=at_ms)

    def ended_ms(self, subject: Subject, party: str, *, at_ms: int) -> int | None:
        """When the last fault of a party that kept it from working ended (clock, ms); None: none has."""
        sessions = (fault.until_ms for fault in self._active.get((subject, party), {}).values())
        noticed = (until_ms for until_ms in sessions if until_ms is not None and until_ms <= at_ms)
        ended = [self._ended_ms[party]] if party in self._ended_ms else []
        return max([*noticed, *ended], default=None)

    def _all_of(self, subject: Subject, party: str, at_ms: int) -> Iterator[Fault]:
        for fault in self._active.get((subject, party), {}).values():
            # A controller that has noticed the end of its session opens another one; no incident says so.
            is_noticed = fault.kind is State.SESSION_LOST and fault.until_ms is not None and fault.until_ms <= at_ms
            if not is_noticed:
                yield fault
        yield from self._partitions_of(party)

    def _partitions_of(self, party: str) -> Iterator[Fault]:
        for since_ms, until_ms, sides in self._partitions.values():
            for side, other in zip(sides, sides[::-1], strict=True):
                if party in side:
                    yield Fault(kind=State.CUT_OFF, party=party, since_ms=since_ms, until_ms=until_ms, apart_from=other)


MARKS_SEGMENT: Final = "marks segment"
"""Where readers learn of watermarks, as incidents call it."""
_NO_MARKS_SEGMENT: Final = f"{HeldBy.FAILED}: {NO_MARKS_SEGMENT}"
_STORES: Final[Mapping[str, str]] = {
    f"{HeldBy.FAILED}: {unavailable(store)}": store
    for store in (*(name.replace("_", " ") for name in get_args(Store)), *(name.replace("-", " ") for name in SERVICES))
}
"""The store, as incidents call it, of the cycles that failed for want of it, by their reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A time (ms) that a writer noted, with its position: the acknowledged offset in each segment (bytes).

    `noted_ms` is when it noted it, `received_ms` when a controller judged that (clock, ms), and `outcome` is "success"
    or why it was refused.
    """

    time: int
    noted_ms: int
    received_ms: int
    outcome: str
    position: Mapping[int, int]

    @property
    def accepted(self) -> bool:
        """Whether it counts."""
        return self.outcome == "success"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a reader of a group saw when it last looked (`looked_ms`): bounds (event time, ms; None: unknown).

    It has seen this lower bound since `since_ms` (clock, ms).
    """

    group: str
    lower: int | None
    upper: int | None
    looked_ms: int
    since_ms: int


@dataclass(slots=True)
class RunState:
    """What is known at `at_ms`: `bound` is the last watermark, `cycle` the last cycle, as rows of their tables.

    `watermarks` are all of them, `notes` those of each writer, and `seen` is what each reader last saw. `on_record` has
    the last accepted note of each writer that a cycle would read, `departed` those of them that have shut down or
    marked themselves idle since, `newest` the one that each noted last, whatever became of it, and `processes` who
    noted under each id. `cycle_fault` is what kept the last cycle from its stores. `owner` owns the stream's bucket,
    None while nobody does, and `last_owner` is the last one that did. It has been so since `owned_since_ms`. `plans`
    has when each controller is to run cycles: as its rows say, or a first delay after it came. `has_left` says that the
    last cycle took the stream out of its bucket, as no writer was active, and nobody has noted since. `unowned` says
    since when the bucket is without an owner that had one, and `owners_known` whether the recording has owners.
    `created_ms`, `deleted_ms` and `sealed_ms` are when the stream was created, deleted and sealed.
    """

    at_ms: int = 0
    bound: TableRow | None = None
    cycle: TableRow | None = None
    watermarks: list[TableRow] = field(default_factory=list)
    notes: dict[str, list[Note]] = field(default_factory=dict)
    seen: dict[str, Seen] = field(default_factory=dict)
    on_record: dict[str, Note] = field(default_factory=dict)
    departed: set[str] = field(default_factory=set)
    processes: dict[str, set[str]] = field(default_factory=dict)
    newest: dict[str, Note] = field(default_factory=dict)
    faults: ActiveFaults = field(default_factory=ActiveFaults)
    cycle_fault: Fault | None = None
    owner: str | None = None
    last_owner: str | None = None
    owned_since_ms: int = 0
    plans: dict[str, set[int]] = field(default_factory=dict)
    has_left: bool = False
    unowned: Fault | None = None
    owners_known: bool = False
    created_ms: int | None = None
    deleted_ms: int | None = None
    sealed_ms: int | None = None

    @property
    def lower(self) -> int | None:
        """The lower bound of the last watermark; None where that is an end of known time."""
        return None if self.bound is None or not self.bound["writers"] else int(self.bound["lower"])

    def index_after(self, lower: int | None) -> int:
        """The index in the log after that of the newest watermark with a lower bound; 0 for None."""
        indices = (index for index, row in enumerate(self.watermarks, 1) if row["lower"] == lower and row["writers"])
        return max(indices, default=0)

    @property
    def refused(self) -> dict[str, str]:
        """The outcome of the newest note of each writer whose newest note was refused, by name."""
        return {name: note.outcome for name, note in sorted(self.newest.items()) if not note.accepted}

    @property
    def leader(self) -> str | None:
        """The controller that ought to run the cycles: the owner of the bucket, or who ran the last one; None: none."""
        if self.owners_known:
            return self.owner
        return None if self.cycle is None else str(self.cycle["controller"])

    @property
    def is_there(self) -> bool:
        """Whether the stream has been created."""
        return self.created_ms is None or self.created_ms <= self.at_ms

    def fault_of_writer(self, writer: str) -> Fault | None:
        """What befell a writer and lasts; of several processes that note under its id, if it befell all of them."""
        processes = sorted(self.processes.get(writer, ())) or [writer]
        faults = [
            self.faults.of("writer", *{process, writer} if len(processes) == 1 else {process}, at_ms=self.at_ms)
            for process in processes
        ]
        return faults[0] if all(fault is not None for fault in faults) else None

    @property
    def behind(self) -> list[str]:
        """The writers on record with no accepted time beyond the last watermark, known or not; smallest times first.

        The next cycle waits for none that has shut down or marked itself idle: it drops them.
        """
        lower = -math.inf if self.bound is None else self.bound["lower"]
        behind = {name: note.time for name, note in self.on_record.items() if note.time <= lower}
        return sorted(behind.keys() - self.departed, key=lambda name: (behind[name], name))

    def step(self, table: str, row: TableRow) -> None:
        """Take one more row of a table."""
        {
            "incidents": self._incident,
            "ownership": self._ownership,
            "writer_marks": self._mark,
            "writer_shutdowns": self._shutdown,
            "cycles": self._cycle,
            "watermarks": self._watermark,
            "windows": self._window,
        }[table](row)

    def _incident(self, row: TableRow) -> None:
        self.faults.step(row)
        if row["kind"] == "duplicate" and row["outcome"] == TOOK_PLACE:
            # The second process is called after the first: "w1/2".
            first = str(row["target"]).rpartition("/")[0]
            self.processes.setdefault(first, {first}).add(row["target"])
        if (row["subject"], row["outcome"]) == ("stream", TOOK_PLACE):
            self.deleted_ms = row["at_ms"] if row["kind"] == "delete" else self.deleted_ms
            self.sealed_ms = row["at_ms"] if row["kind"] == "seal" else self.sealed_ms
        if self.deleted_ms is not None:
            self.faults = ActiveFaults()  # nobody does anything for this stream any more

    def _ownership(self, row: TableRow) -> None:
        self.owners_known, self.owner, self.owned_since_ms = True, row["controller"], row["at_ms"]
        self.unowned = None
        if self.owner is None:
            self.unowned = Fault(kind=State.UNOWNED, party=row["bucket"], since_ms=row["at_ms"])
        else:
            self.last_owner = self.owner
            is_known = row["first_due_ms"] is not None and not self.has_left
            self.plans[self.owner] = {row["first_due_ms"]} if is_known else set()

    def _mark(self, row: TableRow) -> None:
        writer, self.has_left = row["writer"], False
        if row["process"]:
            self.processes.setdefault(writer, set()).add(row["process"])
        columns = {name: row[name] for name in ("time", "noted_ms", "received_ms", "outcome")}
        written = {segment: offset or 0 for segment, offset in row["position"].items()}  # None: nothing yet
        note = Note(**columns, position=written)
        self.notes.setdefault(writer, []).append(note)
        if note.noted_ms >= self.newest.setdefault(writer, note).noted_ms:  # one that is tried again may be older
            self.newest[writer] = note
        if not note.accepted:
            return
        self.on_record[writer] = note
        self.departed.discard(writer)
        for process in (writer, *self.processes.get(writer, ())):
            self.faults.heard(process)

    def _shutdown(self, row: TableRow) -> None:
        if row["outcome"] == "ok":
            self.departed.add(row["writer"])

    def _cycle(self, row: TableRow) -> None:
        self.cycle = row
        self._plan(row["controller"], row["at_ms"], row.get("due_ms"))
        self.has_left = row["cause"] == HeldBy.NO_ACTIVE_WRITER and row.get("due_ms") is None
        for writer in row["removed"]:
            # A mark is removed unchanged, so one that arrived in the same millisecond came later and stays.
            if writer in self.on_record and self.on_record[writer].received_ms < row["at_ms"]:
                del self.on_record[writer]
        self.cycle_fault = self.fault_of_stores()

    def fault_of_stores(self) -> Fault | None:
        """What keeps the controller of the last cycle from its stores now."""
        if self.cycle is None:
            return None
        if self.cycle["reason"] == _NO_MARKS_SEGMENT:
            return self.faults.of("marks segment", MARKS_SEGMENT, at_ms=self.at_ms)
        named = _STORES.get(self.cycle["reason"], "")
        apart = self.faults.apart(str(self.cycle["controller"]), named.replace(" ", "-"))
        return self.faults.of("store", named, at_ms=self.at_ms) or apart

    def _watermark(self, row: TableRow) -> None:
        self.bound = row
        self.watermarks.append(row)
        # A controller that appended and then died has left no row.
        at_ms, cycle, plans = row["emitted_ms"], self.cycle, self.plans.get(str(row.get("controller")))
        if plans and min(plans) <= at_ms and cycle is not None and cycle["due_ms"] is not None:
            self._plan(row["controller"], at_ms, at_ms + cycle["due_ms"] - cycle["at_ms"])

    def _plan(self, controller: str, begun_ms: int, due_ms: int | None) -> None:
        """A controller began a cycle, and runs the next one then."""
        pending = {planned_ms for planned_ms in self.plans.get(controller, ()) if planned_ms > begun_ms}
        self.plans[controller] = pending if due_ms is None else pending | {due_ms}

    def _window(self, row: TableRow) -> None:
        before, at_ms = self.seen.get(row["reader"]), row["at_ms"]
        since_ms = before.since_ms if before is not None and before.lower == row["lower"] else at_ms
        lower, upper = row["lower"], row["upper"]
        seen = Seen(group=row["group"], lower=lower, upper=upper, looked_ms=at_ms, since_ms=since_ms)
        self.seen[row["reader"]] = seen


_ORDER: Final = ("incidents", "ownership", "writer_marks", "writer_shutdowns", "cycles", "watermarks", "windows")
"""The tables that make a state; rows of one ms in this order."""


class RunWalk:
    """Goes through the tables of one stream: `at` gives the one machine in its state at a moment.

    Moments may be asked in any order; ascending ones cost one pass in all. `times` are those at which something about
    the log changed.
    """

    def __init__(self, tables: StreamTables) -> None:
        rules = recorded_configuration(tables.recording, tables.stream)
        scenario = tables.recording.scenario_as(StreamScenario)
        is_known = scenario is not None and not scenario.controllers.period_jitter_ms
        rows: list[tuple[int, int, str, TableRow]] = [
            (row[CLOCKS[table]], order, table, row)
            for order, table in enumerate(_ORDER)
            if table != "ownership"
            for row in tables.rows(table)
            if row.get("kind") != "hold"
        ]
        rows += ((row["at_ms"], 0, "incidents", row) for row in _held(tables))
        # What befell a service before the stream was there stands with the other streams.
        for row in tables.recording.table("incidents").to_pylist():
            if row["subject"] in ("controller", "store", "network") and row["stream"] != tables.stream:
                rows.append((row["at_ms"], 0, "incidents", row))
        for row in owners_of(tables.recording, tables.stream):
            for at_ms, owner in ((row["from_ms"], row["controller"]), (row["to_ms"], None)):
                if at_ms is not None:
                    due_ms = at_ms + rules.delay_ms if rules is not None and is_known else None
                    change = {"at_ms": at_ms, "controller": owner, "bucket": f"bucket {row['bucket']}"}
                    rows.append((at_ms, 1, "ownership", {**change, "first_due_ms": due_ms}))
        self._rows = sorted(rows, key=lambda entry: entry[:2])
        # A session that expired ends without a row of its own.
        ends = (row.get("until_ms") for _, _, table, row in rows if table == "incidents")
        self._ends = {end_ms for end_ms in ends if end_ms is not None}
        self._created_ms = min((row["created_ms"] for row in tables.rows("segments")), default=None)
        self._taken, self._state = 0, RunState(created_ms=self._created_ms)

    @property
    def times(self) -> list[int]:
        """The moments at which something became known or ended (clock, ms), ascending."""
        return sorted(self._ends.union(at_ms for at_ms, _, table, _ in self._rows if table != "windows"))

    @property
    def turns(self) -> set[int]:
        """The moments at which a cycle ran, or may have begun or ceased to be kept from running (clock, ms)."""
        return self._ends.union(
            at for at, _, table, _ in self._rows if table not in ("windows", "writer_marks", "writer_shutdowns")
        )

    def at(self, at_ms: int) -> RunState:
        """The machine in its state at `at_ms`; it goes on, or back, with the next call."""
        if at_ms < self._state.at_ms:
            self._taken, self._state = 0, RunState(created_ms=self._created_ms)
        while self._taken < len(self._rows) and self._rows[self._taken][0] <= at_ms:
            row_ms, _, table, row = self._rows[self._taken]
            self._state.at_ms = row_ms
            self._state.step(table, row)
            self._taken += 1
        self._state.at_ms = at_ms
        return self._state


def _held(tables: StreamTables) -> Iterator[TableRow]:
    """From when until when a writer holds a transaction that it was told to hold: its oldest one, begun before."""
    transactions = sorted(tables.rows("transactions"), key=lambda txn: int(txn["begun_ms"]))
    for hold in tables.rows("incidents"):
        for txn in transactions if hold["kind"] == "hold" else ():
            asked = [txn[name] for name in ("commit_requested_ms", "aborted_ms") if txn[name] is not None]
            is_open = txn["begun_ms"] <= hold["at_ms"] < min(asked, default=hold["at_ms"] + 1)
            if txn["writer"] == hold["target"] and is_open:
                yield {**hold, "since_ms": txn["begun_ms"]}
                yield from ({**hold, "kind": "release", "at_ms": at_ms} for at_ms in asked)
                break
