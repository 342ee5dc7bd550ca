"""What the queues of a recorded dataflow connect, and how much was on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from operator import itemgetter
from typing import Any

from wmlab.core.grouping import rows_by
from wmlab.core.invariants import TableRow, TableRows

InstanceName = tuple[str, int]
"""A vertex and the number of one of its instances."""


def specials_of(items: TableRows) -> list[TableRow]:
    """The items that are not rows."""
    return [item for item in items if item["kind"] != "event"]


def loads_of(items: TableRows) -> list[dict[str, Any]]:
    """What was on each queue in each execution.

    most: the most items at one moment. events: how many rows were taken. taken_ms: when the last item was taken, of any
    kind; None: none was. Within a millisecond all is put before anything is taken: a queue that may have been full
    counts as full.
    """
    loads = []
    for (execution, queue), rows in rows_by(items, itemgetter("execution", "queue")).items():
        taken = [row["taken_ms"] for row in rows if row["taken_ms"] is not None]
        moves = sorted([(row["put_ms"], -1) for row in rows] + [(at_ms, 1) for at_ms in taken])
        loads.append(
            {
                "execution": execution,
                "queue": queue,
                "most": max(accumulate(-move for _, move in moves)),
                "events": sum(row["kind"] == "event" and row["taken"] is not None for row in rows),
                "taken_ms": max(taken, default=None),
            }
        )
    return loads


def time_key(queue: TableRow) -> int | None:
    """The key of the column that is the time of the rows on a queue; None: they have none."""
    return min((key for key, column in dict(queue["keys"]).items() if column is not None), default=None)


@dataclass(frozen=True, slots=True)
class Channels:
    """What the queues of a dataflow connect, by their numbers.

    `source` and `target` are the instances that put and that take, `edge` is the input edge of the target. `first` are
    queues that have, taken together, each item that an instance sent once: a vertex with several edges puts the same on
    each, and of a broadcast edge one queue has all rows, while of any other a row is on one of them.
    """

    source: Mapping[int, InstanceName]
    target: Mapping[int, InstanceName]
    edge: Mapping[int, int]
    first: frozenset[int]

    @classmethod
    def of(cls, queues: TableRows) -> Channels:
        """From the rows of the table of one dataflow."""
        edges: dict[InstanceName, tuple[str, int]] = {}
        for queue in queues:
            edge, sender = (queue["target"], queue["edge"]), (queue["source"], queue["source_instance"])
            edges[sender] = min(edges.get(sender, edge), edge)
        return cls(
            source={queue["queue"]: (queue["source"], queue["source_instance"]) for queue in queues},
            target={queue["queue"]: (queue["target"], queue["target_instance"]) for queue in queues},
            edge={queue["queue"]: queue["edge"] for queue in queues},
            first=frozenset(
                queue["queue"]
                for queue in queues
                if (queue["target"], queue["edge"]) == edges[queue["source"], queue["source_instance"]]
                and (queue["routing"] != "broadcast" or queue["target_instance"] == 0)
            ),
        )

    def sent(self, specials: TableRows, kind: str) -> dict[tuple[Any, ...], list[TableRow]]:
        """The items of a kind that each instance sent, each once, by execution, vertex and instance."""
        of_kind = (item for item in specials if item["kind"] == kind and item["queue"] in self.first)
        return rows_by(of_kind, lambda item: (item["execution"], *self.source[item["queue"]]))
