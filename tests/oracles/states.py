"""What has befallen the parties of a run, from the incidents that its script made."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

Row = dict[str, Any]

ORDER: Final = (
    "down",
    "shut down",
    "gone",
    "paused",
    "unavailable",
    "missing",
    "without an owner",
    "without a session",
    "idle",
    "silent",
    "cut off",
    "in a transaction",
    "without a commit",
)
"""The states, the strongest first."""
_BEGIN: Final = {
    "crash": "down",
    "shut_down": "shut down",
    "leave": "gone",
    "pause": "paused",
    "unavailable": "unavailable",
    "lose": "missing",
    "unowned": "without an owner",
    "expire": "without a session",
    "idle": "idle",
    "silence": "silent",
    "partition": "cut off",
    "hold": "in a transaction",
    "abort": "without a commit",
}
"""The kinds of incidents that begin a state."""
_BY_THEMSELVES: Final = {"paused", "unavailable", "missing", "without an owner", "idle", "silent", "cut off"}
"""States that end when the script says so; the others end with an act, such as a restart."""
_PARTIES: Final = {"writer", "reader", "controller", "store", "marks segment", "bucket", "network"}


@dataclass(frozen=True, slots=True)
class Befallen:
    """A state of a party from `since_ms` until before `ended_ms`; `until_ms` is its planned end (clock, ms)."""

    party: str
    state: str
    since_ms: int
    until_ms: int | None
    ended_ms: int | None
    stream: str
    subject: str
    apart_from: tuple[str, ...] = ()

    def is_on(self, at_ms: int) -> bool:
        """Whether the party is in that state at a moment."""
        return self.since_ms <= at_ms and (self.ended_ms is None or at_ms < self.ended_ms)

    def until(self, at_ms: int) -> Befallen:
        """The same, over at a moment at the latest."""
        return replace(self, ended_ms=at_ms if self.ended_ms is None else min(at_ms, self.ended_ms))

    def keeps_from(self, *nodes: str) -> bool:
        """Whether the party cannot use one of these nodes: a partition only if it is on the other side."""
        return self.state != "cut off" or bool(set(nodes) & set(self.apart_from))


def befallen(incidents: Iterable[Row], marks: Iterable[Row], restarting: Callable[[str], list[str]]) -> list[Befallen]:
    """All states of a run; `restarting` are those that start again when a stream is created again."""
    found: list[Befallen] = []
    seen: set[tuple[Any, ...]] = set()
    for row in sorted((row for row in incidents if row["outcome"] == "done"), key=lambda row: row["at_ms"]):
        is_of_stream = row["subject"] == "marks segment"
        key = (row["at_ms"], row["kind"], row["target"], row["detail"], row["stream"] if is_of_stream else None)
        if key in seen:
            continue
        seen.add(key)
        at_ms, kind, target = row["at_ms"], row["kind"], row["target"]
        if kind in _BEGIN and row["subject"] in _PARTIES:
            if kind == "crash":
                found = _ended(found, [target], {"paused", "without a session"}, at_ms)
            found += _of(row)
        elif kind in ("restart", "join"):
            found = _ended(found, [target], {"down", "shut down", "gone"}, at_ms)
        elif kind == "create":
            found = _ended(found, restarting(target), {"down", "shut down", "paused", "gone"}, at_ms)
    return [_until_next_note(each, marks) for each in found]


def _of(row: Row) -> list[Befallen]:
    state = _BEGIN[row["kind"]]
    until_ms = row["until_ms"]
    ended_ms = until_ms if state in _BY_THEMSELVES or state == "without a session" else None
    common = (state, row["at_ms"], until_ms, ended_ms, row["stream"], row["subject"])
    if row["sides"]:
        one, other = row["sides"]
        return [Befallen(party, *common, tuple(other)) for party in one] + [
            Befallen(party, *common, tuple(one)) for party in other
        ]
    return [Befallen(row["target"], *common)]


def _ended(found: list[Befallen], parties: list[str], states: set[str], at_ms: int) -> list[Befallen]:
    """The states with the end of some of them, if they are on then."""
    return [
        replace(each, ended_ms=at_ms) if each.party in parties and each.state in states and each.is_on(at_ms) else each
        for each in found
    ]


def _until_next_note(each: Befallen, marks: Iterable[Row]) -> Befallen:
    if each.state not in ("in a transaction", "without a commit"):
        return each
    notes = (
        row["received_ms"]
        for row in marks
        if row["writer"] == each.party and row["outcome"] == "success" and row["received_ms"] > each.since_ms
    )
    return replace(each, ended_ms=min(notes, default=None))


def state_of(states: Iterable[Befallen], party: str | None, at_ms: int) -> Befallen | None:
    """The strongest state of a party at a moment, of equal ones the first; None: nothing has befallen it."""
    on = [each for each in states if each.party == party and each.is_on(at_ms)]
    return min(on, key=lambda each: (ORDER.index(each.state), each.since_ms), default=None)
