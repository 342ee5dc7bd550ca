"""One execution of a dataflow: its parties and queues, and the snapshots it takes. A restart makes the next one.

Source: upstream classes `MasterJobContext`, `MasterSnapshotContext`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wmlab.core.journal import Row
from wmlab.dataflow.model.items import Barrier
from wmlab.dataflow.model.tasklet import InputEdge, Tasklet
from wmlab.dataflow.sim.instance import Instance
from wmlab.dataflow.sim.layout import Node
from wmlab.dataflow.sim.ledger import Written
from wmlab.dataflow.sim.party import Party
from wmlab.dataflow.sim.processors import condition_of, processor_of
from wmlab.dataflow.sim.queue import Queue, Way
from wmlab.dataflow.sim.reading import Reader

if TYPE_CHECKING:
    from wmlab.dataflow.sim.world import DataflowWorld

Place = tuple[str, int]
"""A node's name and the number of an instance."""


@dataclass(frozen=True, slots=True)
class Saved:
    """A complete snapshot: its number, the state of every party, and how many rows each sink had by then."""

    number: int
    states: Mapping[Place, Any] = field(repr=False)
    sunk: Mapping[Place, int] = field(repr=False)


class Running:
    """The parties of one execution, begun from `snapshot` if there is one."""

    def __init__(self, world: DataflowWorld, snapshot: Saved | None) -> None:
        self.world = world
        self.snapshot = snapshot
        self._barrier: Barrier | None = None
        self._states: dict[Place, Any] = {}
        self._sunk: dict[Place, int] = {}
        self._rows: dict[Place, Row] = {}
        self._row = world.journal.write(
            "executions",
            started_ms=world.now_ms,
            snapshot=None if snapshot is None else snapshot.number,
            ended_ms=None,
            outcome="running",
            reason="",
        )
        nodes = {node.name: node for node in world.layout.nodes}
        self.queues = [
            Queue(lane, world.dataflow.queue_size, world.journal, Written(nodes[lane.link.source].output))
            for lane in world.layout.lanes
        ]
        self.parties: dict[Place, Party] = {
            (node.name, n): self._party(node, n) for node in world.layout.nodes for n in range(node.parallelism)
        }
        self._connect()

    def begin(self) -> None:
        """Everybody looks whether there is something to do."""
        for party in self.parties.values():
            party.begin()

    def end(self, outcome: str, reason: str = "") -> None:
        """The execution is over."""
        self._row.update(ended_ms=self.world.now_ms, outcome=outcome, reason=reason)

    @property
    def in_snapshot(self) -> bool:
        """Whether a snapshot is under way."""
        return self._barrier is not None

    def begin_snapshot(self, number: int, *, terminal: bool = False) -> None:
        """Send barriers; the snapshot is complete when every party has saved its state."""
        self._barrier = Barrier(number, terminal)
        self._states, self._sunk = {}, {}
        for (vertex, instance), party in self.parties.items():
            self._rows[vertex, instance] = party.write(
                "snapshots", snapshot=number, begun_ms=self.world.now_ms, saved_ms=None, completed_ms=None, size=None
            )
        for party in self.parties.values():
            party.begin_snapshot(self._barrier)

    def saved(self, party: Party, barrier: Barrier, state: Any, size: int) -> None:
        """The state of a party; with the last of them the snapshot is complete."""
        if barrier != self._barrier:
            return
        place = (party.node.name, party.number)
        self._states[place] = state
        if isinstance(party, Instance):
            self._sunk[place] = len(party.sunk)
        self._rows[place].update(saved_ms=self.world.now_ms, size=size)
        if len(self._states) < len(self.parties):
            return
        self._barrier = None
        for row in self._rows.values():
            row["completed_ms"] = self.world.now_ms
        self.world.snapshot_complete(Saved(barrier.snapshot, self._states, self._sunk), terminal=barrier.terminal)

    def ended(self, party: Party) -> None:  # noqa: ARG002
        """A party has sent its end; with the last of them the dataflow is complete."""
        if all(one.finished for one in self.parties.values()):
            self.world.completed()

    def take_back(self) -> None:
        """Rows that sinks put out behind the last complete snapshot are not committed."""
        snapshot = self.world.last_snapshot
        for place, party in self.parties.items():
            if isinstance(party, Instance):
                kept = snapshot.sunk.get(place, 0) if snapshot is not None and snapshot is not self.snapshot else 0
                for row in party.sunk[kept:]:
                    row["committed"] = False

    def _party(self, node: Node, number: int) -> Party:
        snapshots = None if self.snapshot is None else self._snapshots(self.snapshot, node, number)
        if node.kind == "source":
            return self._reader(node, number, None if snapshots is None else snapshots[0])
        links = self.world.layout.inputs(node.name)
        inputs = [
            queue
            for queue in self.queues
            if queue.lane.link.target == node.name and queue.lane.target_instance == number
        ]
        counts = [sum(queue.lane.link is link for queue in inputs) for link in links]
        dataflow = self.world.dataflow
        runtime = Tasklet(
            processor=processor_of(dataflow, self.world.plan, node, lambda: not self.world.swallows(node.name)),
            edges=tuple(InputEdge(count, link.priority) for count, link in zip(counts, links, strict=True)),
            guarantee=dataflow.guarantee,
            deviations=dataflow.rules,
            name=node.name if node.parallelism == 1 else f"{node.name}[{number}]",
        )
        return Instance(self, node, number, runtime, inputs, snapshots)

    def _reader(self, node: Node, number: int, position: Any) -> Reader:
        source, world = node.vertex, self.world
        where = None if source.where is None else condition_of(source.where, source.row_columns)

        def keep(values: tuple[Any, ...]) -> bool:
            return where is None or (not world.swallows(node.name) and bool(where(values)))

        return Reader(self, node, number, world.feeds[node.name][number], world.times[node.name], keep, position)

    def _snapshots(self, snapshot: Saved, node: Node, number: int) -> Sequence[Any]:
        own = snapshot.states[node.name, number]
        return [own, *(snapshot.states[node.name, n] for n in range(node.parallelism) if n != number)]

    def _connect(self) -> None:
        for (name, number), party in self.parties.items():
            for link in self.world.layout.links:
                if link.source == name:
                    mine = [q for q in self.queues if q.lane.link is link and q.lane.source_instance == number]
                    party.ways.append(Way(link, mine))
                    for queue in mine:
                        queue.producer = party
                        queue.consumer = self.parties[link.target, queue.lane.target_instance]
