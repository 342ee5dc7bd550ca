"""What an instance writes down of its turns: steps of merging, drops, and how much it holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from wmlab.dataflow.model.coalescer import Keyed, Merge
from wmlab.dataflow.model.items import Event, Item, Watermark
from wmlab.dataflow.model.join import JoinState
from wmlab.dataflow.model.processor import Drop
from wmlab.dataflow.sim.ledger import Written, described

if TYPE_CHECKING:
    from wmlab.dataflow.sim.party import Party

Numbers = Mapping[int, int]
"""Queue of an edge to the number of items that its instance had taken, the one that matters included."""
_Lists = tuple[list[int], list[int], list[int]]


class Notes:
    """The notes of one instance; `read` has how the rows of each input edge are written."""

    def __init__(self, party: Party, read: Sequence[Written]) -> None:
        self._party = party
        self._read = read
        self._steps = 0
        self._taken = 0
        self._sizes: dict[str, int] = {}
        self._inputs: dict[int | None, tuple[frozenset[int], frozenset[int], _Lists]] = {}

    def merge(self, merge: Merge, events: Numbers, specials: Numbers) -> None:
        """A step of merging, caused by the last row or by the special item that was taken from a queue."""
        edge = merge.edge if merge.level == "edge" else None
        if edge is not None:
            self._taken = (events if isinstance(merge.item, Event) else specials)[merge.place]
        kind, key, value = described(merge.item)
        active, idle, done = self._lists(edge, merge.after)
        self._party.write(
            "coalescing",
            step=self._steps,
            at_ms=self._party.world.now_ms,
            taken=self._taken,
            level=merge.level,
            edge=edge,
            input=merge.place,
            stimulus=kind,
            key=key,
            value=value,
            active=active,
            idle=idle,
            done=done,
            **emitted(merge.emitted),
        )
        self._steps += 1

    def _lists(self, edge: int | None, after: Keyed) -> _Lists:
        """The inputs that count, are idle, and have ended; they change far less often than watermarks do."""
        known = self._inputs.get(edge)
        if known is None or known[0] != after.idle or known[1] != after.done:
            lists = (sorted(after.active), sorted(after.idle - after.done), sorted(after.done))
            known = self._inputs[edge] = (after.idle, after.done, lists)
        return known[2]

    def drop(self, drop: Drop) -> None:
        """A row that was left out."""
        self._party.write(
            "drops",
            at_ms=self._party.world.now_ms,
            edge=drop.edge,
            rule=drop.rule,
            key=drop.key,
            time=drop.time,
            limit=drop.limit,
            margin=drop.margin,
            row=self._read[drop.edge].text(drop.event.values),
        )

    def size(self, size: int, state: Any) -> None:
        """How much the processor holds, if that has changed; a join tells it by side too."""
        sizes = {"all": size}
        if isinstance(state, JoinState):
            sizes |= {"left": len(state.buffers[0]), "right": len(state.buffers[1])}
        if sizes == self._sizes:
            return
        for buffer, now in sizes.items():
            if now != self._sizes.get(buffer, 0):
                self._party.write("state", at_ms=self._party.world.now_ms, buffer=buffer, size=now)
        self._sizes = sizes


def emitted(items: Sequence[Item]) -> dict[str, object]:
    """What a step of merging let through, as the columns of the table `coalescing`."""
    found = [(item.key, item.value) for item in items if isinstance(item, Watermark)]
    return {"emitted": found, "emitted_idle": len(found) < len(items)}
