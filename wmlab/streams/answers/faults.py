"""What befell the parties of a run and lasts: since when, and until when by the script.

Rows of `incidents` come in pairs that begin and end a state: crash and restart, pause and resume. `ActiveFaults` goes
through them in order and knows at each moment who is down, paused, silent or cut off.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from wmlab.core.invariants import TableRow
from wmlab.streams.tables import TOOK_PLACE, Subject


class FaultKind(StrEnum):
    """A state that lasts; of several of one party the first one here is named."""

    CRASHED = "crashed"
    SHUT_DOWN = "shut down"
    LEFT = "left"
    PAUSED = "paused"
    UNAVAILABLE = "unavailable"
    MISSING = "missing"
    UNOWNED = "unowned"
    SESSION_LOST = "session lost"
    IDLE = "idle"
    SILENT = "silent"
    CUT_OFF = "cut off"
    TRANSACTION_OPEN = "transaction open"
    ABORTED = "transaction aborted"
    CLOCK_SET = "clock set"


_BEGINS: Final[Mapping[tuple[Subject, str], FaultKind]] = {
    ("writer", "crash"): FaultKind.CRASHED,
    ("writer", "shut_down"): FaultKind.SHUT_DOWN,
    ("writer", "idle"): FaultKind.IDLE,
    ("writer", "silence"): FaultKind.SILENT,
    ("writer", "hold"): FaultKind.TRANSACTION_OPEN,
    ("writer", "abort"): FaultKind.ABORTED,
    ("writer", "clock"): FaultKind.CLOCK_SET,
    ("reader", "crash"): FaultKind.CRASHED,
    ("reader", "leave"): FaultKind.LEFT,
    ("reader", "pause"): FaultKind.PAUSED,
    ("controller", "crash"): FaultKind.CRASHED,
    ("controller", "leave"): FaultKind.LEFT,
    ("controller", "pause"): FaultKind.PAUSED,
    ("controller", "expire"): FaultKind.SESSION_LOST,
    ("controller", "clock"): FaultKind.CLOCK_SET,
    ("bucket", "unowned"): FaultKind.UNOWNED,
    ("marks segment", "lose"): FaultKind.MISSING,
    ("store", "unavailable"): FaultKind.UNAVAILABLE,
    ("network", "partition"): FaultKind.CUT_OFF,
}
"""What begins a state, by subject and kind of the incident."""
_ENDS: Final[Mapping[tuple[Subject, str], tuple[FaultKind, ...]]] = {
    ("writer", "restart"): (FaultKind.CRASHED, FaultKind.SHUT_DOWN),
    ("writer", "active"): (FaultKind.IDLE,),
    ("writer", "speak"): (FaultKind.SILENT,),
    ("reader", "restart"): (FaultKind.CRASHED,),
    ("reader", "join"): (FaultKind.CRASHED, FaultKind.LEFT),
    ("reader", "resume"): (FaultKind.PAUSED,),
    ("controller", "restart"): (FaultKind.CRASHED, FaultKind.PAUSED, FaultKind.SESSION_LOST),
    ("controller", "resume"): (FaultKind.PAUSED,),
    ("bucket", "ownable"): (FaultKind.UNOWNED,),
    ("marks segment", "find"): (FaultKind.MISSING,),
    ("store", "available"): (FaultKind.UNAVAILABLE,),
    ("network", "heal"): (FaultKind.CUT_OFF,),
}
"""Which states are over after an incident."""
UNTIL_HEARD: Final = (FaultKind.TRANSACTION_OPEN, FaultKind.ABORTED)
"""These explain why a writer notes nothing, and end with its next mark."""
_WITH_THE_PROCESS: Final = (FaultKind.PAUSED, FaultKind.SILENT, FaultKind.IDLE)
"""What a crash ends together with the process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A state of `party` since `since_ms`, by the script until `until_ms` (clock, ms; None: not known, or for good).

    `apart_from` are the nodes that a partition separates the party from.
    """

    kind: FaultKind
    party: str
    since_ms: int
    until_ms: int | None = None
    apart_from: tuple[str, ...] = ()


@dataclass(slots=True)
class ActiveFaults:
    """The faults that last at a moment, by subject, party and kind; `step` takes the incidents in order."""

    _active: dict[tuple[Subject, str], dict[FaultKind, Fault]] = field(default_factory=dict)
    _ended_ms: dict[tuple[Subject, str], int] = field(default_factory=dict)
    _partitions: dict[str, tuple[int, int | None, tuple[tuple[str, ...], ...]]] = field(default_factory=dict)

    def step(self, row: TableRow) -> None:
        """Take one more incident; one that changed nothing is left out."""
        if row["outcome"] != TOOK_PLACE:
            return
        subject, kind, party = row["subject"], str(row["kind"]), str(row["target"])
        begun, ended = _BEGINS.get((subject, kind)), _ENDS.get((subject, kind), ())
        if subject == "network":
            self._partitions.pop(party, None)
            if begun is not None:
                self._partitions[party] = row["at_ms"], row.get("until_ms"), tuple(map(tuple, row.get("sides") or ()))
            return
        of_party = self._active.setdefault((subject, party), {})
        if of_party.keys() & set(ended):
            self._ended_ms[subject, party] = row["at_ms"]
        for over in (*ended, *(_WITH_THE_PROCESS if begun is FaultKind.CRASHED else ())):
            of_party.pop(over, None)
        if begun is not None:
            of_party[begun] = Fault(kind=begun, party=party, since_ms=row["at_ms"], until_ms=row.get("until_ms"))

    def heard(self, writer: str) -> None:
        """A mark of a writer was accepted."""
        for kind in UNTIL_HEARD:
            self._active.get(("writer", writer), {}).pop(kind, None)

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
        return min(faults, key=lambda fault: list(FaultKind).index(fault.kind), default=None)

    def ended_ms(self, subject: Subject, party: str) -> int | None:
        """When the last fault of a party ended (clock, ms); None: none has."""
        return self._ended_ms.get((subject, party))

    def _all_of(self, subject: Subject, party: str, at_ms: int) -> Iterator[Fault]:
        for fault in self._active.get((subject, party), {}).values():
            # A controller that has noticed the end of its session opens another one; no incident says so.
            is_noticed = fault.kind is FaultKind.SESSION_LOST and fault.until_ms is not None and fault.until_ms < at_ms
            if not is_noticed:
                yield fault
        for since_ms, until_ms, sides in self._partitions.values():
            for side, other in (sides, sides[::-1]) if len(sides) == 2 else ():
                if party in side:
                    yield Fault(
                        kind=FaultKind.CUT_OFF, party=party, since_ms=since_ms, until_ms=until_ms, apart_from=other
                    )
