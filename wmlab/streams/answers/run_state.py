"""What was known of a stream's lower bound at a moment of a run: marks, cycles, watermarks, faults and owners by then.

`RunState` is a machine that takes the rows of a recording in their order; `RunWalk` drives it. Rows of one millisecond
belong together: incidents first, then marks, then the cycle that read them, then what it appended.

Source: PDP-33, Periodic Watermark Workflow, and PDP-33, Config Changes; upstream class `PeriodicWatermarking`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from wmlab.core.invariants import TableRow
from wmlab.streams.answers.faults import ActiveFaults, Fault
from wmlab.streams.answers.history import CLOCKS, owners_of
from wmlab.streams.answers.stream_tables import StreamTables
from wmlab.streams.model.cycle import HeldBy
from wmlab.streams.scenario.parts import METADATA_STORE, SEGMENT_STORE
from wmlab.streams.tables import TOOK_PLACE

_STORES: Final = ("writer marks", "segment metadata", "marks segment")
"""What a cycle reads and writes, as incidents call it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterOnRecord:
    """A writer on record: the time it last had accepted, when it noted it, and when that arrived (clock, ms).

    `refused` is the outcome of a later note that was not accepted, None if there was none.
    """

    time: int
    noted_ms: int
    received_ms: int
    refused: str | None = None


@dataclass(slots=True)
class RunState:
    """What is known at `at_ms`: `bound` is the last watermark, `cycle` the last cycle, as rows of their tables.

    `on_record` are the writers that a cycle would read, `processes` those that noted under each id; `refused` the
    outcomes of notes of writers that are not on record. `expected_since_ms` is the first of the present run of cycles
    that waited for expected writers, and `cycle_fault` what kept the last cycle from its stores. `owner` owns the
    stream's bucket, None while nobody does, and `last_owner` is the last one that did; `owners_known` says whether the
    recording has owners. `deleted_ms` is when the stream was deleted.
    """

    at_ms: int = 0
    bound: TableRow | None = None
    cycle: TableRow | None = None
    on_record: dict[str, WriterOnRecord] = field(default_factory=dict)
    processes: dict[str, set[str]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    faults: ActiveFaults = field(default_factory=ActiveFaults)
    expected_since_ms: int | None = None
    cycle_fault: Fault | None = None
    owner: str | None = None
    last_owner: str | None = None
    owners_known: bool = False
    deleted_ms: int | None = None

    @property
    def lower(self) -> int | None:
        """The lower bound of the last watermark; None where that is an end of known time."""
        return None if self.bound is None or not self.bound["writers"] else int(self.bound["lower"])

    @property
    def leader(self) -> str | None:
        """The controller that ought to run the cycles: the owner of the bucket, or who ran the last one; None: none."""
        if self.owners_known:
            return self.owner
        return None if self.cycle is None else str(self.cycle["controller"])

    def fault_of_writer(self, writer: str) -> Fault | None:
        """What befell a writer and lasts; of several processes that note under its id, if it befell all of them."""
        processes = sorted(self.processes.get(writer, ())) or [writer]
        faults = [
            self.faults.of("writer", *{process, writer} if len(processes) == 1 else {process}, at_ms=self.at_ms)
            for process in processes
        ]
        return faults[0] if all(fault is not None for fault in faults) else None

    def is_beyond(self, writer: str) -> bool:
        """Whether a writer on record has noted a time beyond the bound."""
        return self.lower is None or self.on_record[writer].time > self.lower

    def step(self, table: str, row: TableRow) -> None:
        """Take one more row of a table."""
        {
            "incidents": self._incident,
            "ownership": self._ownership,
            "writer_marks": self._mark,
            "cycles": self._cycle,
            "watermarks": self._watermark,
        }[table](row)

    def _incident(self, row: TableRow) -> None:
        self.faults.step(row)
        if row["kind"] == "duplicate" and row["outcome"] == TOOK_PLACE:
            # The second process is called after the first: "w1/2".
            first = str(row["target"]).rpartition("/")[0]
            self.processes.setdefault(first, {first}).add(row["target"])
        if (row["subject"], row["kind"], row["outcome"]) == ("stream", "delete", TOOK_PLACE):
            self.deleted_ms = row["at_ms"]

    def _ownership(self, row: TableRow) -> None:
        self.owners_known, self.owner = True, row["controller"]
        self.last_owner = self.owner or self.last_owner

    def _mark(self, row: TableRow) -> None:
        writer = row["writer"]
        if row["process"]:
            self.processes.setdefault(writer, set()).add(row["process"])
        before = self.on_record.get(writer)
        if row["outcome"] == "success":
            times = {name: row[name] for name in ("time", "noted_ms", "received_ms")}
            self.on_record[writer] = WriterOnRecord(**times)
            for process in (writer, *self.processes.get(writer, ())):
                self.faults.heard(process)
        elif before is None:
            self.refused[writer] = row["outcome"]
        else:
            self.on_record[writer] = WriterOnRecord(
                time=before.time, noted_ms=before.noted_ms, received_ms=before.received_ms, refused=row["outcome"]
            )

    def _cycle(self, row: TableRow) -> None:
        self.cycle = row
        if row["cause"] != HeldBy.EXPECTED:
            self.expected_since_ms = None
        elif self.expected_since_ms is None:
            self.expected_since_ms = row["at_ms"]
        for writer in row["removed"]:
            # A mark is removed unchanged, so one that arrived in the same millisecond came later and stays.
            if writer in self.on_record and self.on_record[writer].received_ms < row["at_ms"]:
                del self.on_record[writer]
        self.cycle_fault = self._fault_of_stores(str(row["controller"]))

    def _fault_of_stores(self, controller: str) -> Fault | None:
        """What keeps a controller from its stores."""
        fault = self.faults.of("store", *_STORES, at_ms=self.at_ms)
        fault = fault or self.faults.of("marks segment", "marks segment", at_ms=self.at_ms)
        if fault is not None:
            return fault
        fault = self.faults.of("controller", controller, at_ms=self.at_ms, needs=(METADATA_STORE, SEGMENT_STORE))
        return fault if fault is not None and fault.apart_from else None

    def _watermark(self, row: TableRow) -> None:
        self.bound = row


_ORDER: Final = ("incidents", "ownership", "writer_marks", "cycles", "watermarks")
"""The tables that make a state; rows of one ms in this order."""


class RunWalk:
    """Goes through the tables of one stream: `at` gives the one machine in its state at a moment.

    Moments may be asked in any order; ascending ones cost one pass in all. `times` are those of the changes.
    """

    def __init__(self, tables: StreamTables) -> None:
        rows: list[tuple[int, int, str, TableRow]] = [
            (row[CLOCKS[table]], order, table, row)
            for order, table in enumerate(_ORDER)
            if table != "ownership"
            for row in tables.rows(table)
        ]
        for row in owners_of(tables.recording, tables.stream):
            for at_ms, owner in ((row["from_ms"], row["controller"]), (row["to_ms"], None)):
                if at_ms is not None:
                    rows.append((at_ms, 1, "ownership", {"at_ms": at_ms, "controller": owner}))
        self._rows = sorted(rows, key=lambda entry: entry[:2])
        self._taken = 0
        self._state = RunState()

    @property
    def times(self) -> list[int]:
        """The moments at which something became known (clock, ms), ascending."""
        return sorted({at_ms for at_ms, *_ in self._rows})

    def at(self, at_ms: int) -> RunState:
        """The machine in its state at `at_ms`; it goes on, or back, with the next call."""
        if at_ms < self._state.at_ms:
            self._taken, self._state = 0, RunState()
        while self._taken < len(self._rows) and self._rows[self._taken][0] <= at_ms:
            row_ms, _, table, row = self._rows[self._taken]
            self._state.at_ms = row_ms
            self._state.step(table, row)
            self._taken += 1
        self._state.at_ms = at_ms
        return self._state
