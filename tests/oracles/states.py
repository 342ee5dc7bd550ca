"""What has befallen the parties of a run, from the incidents that its script made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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
    "abort": "without a commit",
}
"""The kinds of incidents that begin a state."""
_BY_THEMSELVES: Final = {"paused", "unavailable", "missing", "without an owner", "idle", "silent", "cut off"}
"""States that end when the script says so; the others end with an act, such as a restart."""
_PARTIES: Final = {"writer", "reader", "controller", "store", "marks segment", "bucket", "network"}


@dataclass(frozen=True, slots=True)
class Befallen:
    """A state of a party from `since_ms` until before `ended_ms`; `until_ms` is its planned end (clock, ms).

    It is told from `told_ms` on, where that is later.
    """

    party: str
    state: str
    since_ms: int
    until_ms: int | None
    ended_ms: int | None
    stream: str
    subject: str
    apart_from: tuple[str, ...] = ()
    told_ms: int | None = None

    def is_on(self, at_ms: int) -> bool:
        """Whether the party is told to be in that state at a moment."""
        return max(self.since_ms, self.told_ms or 0) <= at_ms and (self.ended_ms is None or at_ms < self.ended_ms)

    def until(self, at_ms: int) -> Befallen:
        """The same, over at a moment at the latest."""
        return replace(self, ended_ms=at_ms if self.ended_ms is None else min(at_ms, self.ended_ms))

    def keeps_from(self, *nodes: str) -> bool:
        """Whether the party cannot use one of these nodes: a partition only if it is on the other side."""
        return self.state != "cut off" or bool(set(nodes) & set(self.apart_from))


def befallen(
    incidents: Iterable[Row],
    marks: Iterable[Row],
    transactions: Sequence[Row],
    restarting: Callable[[str], list[str]],
) -> list[Befallen]:
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
        if kind == "hold":
            found += _held(row, transactions)
        if kind in _BEGIN and row["subject"] in _PARTIES:
            if kind == "crash":
                found = _ended(found, [target], {"paused", "without a session", "in a transaction"}, at_ms)
            found += _of(row)
        elif kind in ("restart", "join"):
            found = _ended(found, [target], {"down", "shut down", "gone"}, at_ms)
        elif kind == "create":
            found = _ended(found, restarting(target), {"down", "shut down", "paused", "gone"}, at_ms)
    return [_until_next_note(each, marks) for each in found]


def _held(row: Row, transactions: Sequence[Row]) -> list[Befallen]:
    """The transaction that a writer is made to hold: its oldest open one, until it asks to commit or abort it."""
    at_ms, target = row["at_ms"], row["target"]
    for txn in sorted(transactions, key=lambda each: each["begun_ms"]):
        ends_ms = (txn["commit_requested_ms"], txn["aborted_ms"])
        ended_ms = min((each_ms for each_ms in ends_ms if each_ms is not None), default=None)
        is_open = txn["begun_ms"] <= at_ms and (ended_ms is None or at_ms < ended_ms)
        if (txn["writer"], txn["stream"]) == (target, row["stream"]) and is_open:
            state = ("in a transaction", txn["begun_ms"], None, ended_ms, row["stream"], "writer")
            return [Befallen(target, *state, told_ms=at_ms)]
    return []


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
    if each.state != "without a commit":
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
