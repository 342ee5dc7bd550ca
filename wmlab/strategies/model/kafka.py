"""Kafka Streams: which partition is read next, and when a window is closed; Quix Streams, which has a time a key.

Stream time is the largest time of the records that were processed; nothing else moves it.
Source: `PartitionGroup` and `KStreamWindowAggregate` of Kafka 4; Quix Streams 3, windows.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from wmlab.core.errors import ModelError
from wmlab.strategies.model.strategy import UNKNOWN, Input, NotNegative, Record, Strategy, minus


class PartitionGroup(NamedTuple):
    """The records of a task's partitions that wait, each partition in its order, and the stream time."""

    waiting: dict[Hashable, tuple[int, ...]]
    stream_time: int = UNKNOWN

    def add(self, partition: Hashable, *times: int) -> PartitionGroup:
        """The group with more records at the end of a partition."""
        return self._replace(waiting={**self.waiting, partition: (*self.waiting.get(partition, ()), *times)})

    def poll(self) -> tuple[PartitionGroup, int, int]:
        """The group without the record that is processed next, its time, and by how much it is late.

        It is the first of the partition whose first record is the earliest. Raises ModelError if none waits.
        """
        heads = {partition: times[0] for partition, times in self.waiting.items() if times}
        if not heads:
            raise ModelError("No record waits in any partition.", remedy="Add records before you poll.")
        chosen = min(heads, key=heads.__getitem__)
        time = heads[chosen]
        waiting = {**self.waiting, chosen: self.waiting[chosen][1:]}
        stream_time = max(self.stream_time, time)
        return PartitionGroup(waiting, stream_time), time, stream_time - time

    def restored(self, partition_time: int) -> PartitionGroup:
        """The group with a partition that had come to a time when the task last ran."""
        return self._replace(stream_time=max(self.stream_time, partition_time))


def is_open(end: int, stream_time: int, grace: int) -> bool:
    """Whether a window takes records; one that does not has its final result.

    >>> is_open(15, 105, 90), is_open(16, 105, 90)
    (False, True)
    """
    return end > minus(stream_time, grace)


@dataclass(frozen=True, slots=True)
class Quix(Strategy[dict[str, int]]):
    """X = m - `grace` with m the largest time of each key; native is m.

    A window closes with the first record of its key at or after its end and grace. The state holds m by key. Source:
    Quix Streams 3; its closing by partition is this over a log whose keys are the partitions.
    """

    keyed: ClassVar[bool] = True
    grace: NotNegative

    def start(self) -> dict[str, int]:
        return {}

    def met(self, state: dict[str, int], x: int, record: Record) -> int:
        return minus(state.get(record.key, UNKNOWN), self.grace)

    def step(self, state: dict[str, int], given: Input) -> tuple[dict[str, int], int, int]:
        if isinstance(given, Record):
            largest = state[given.key] = max(state.get(given.key, UNKNOWN), given.event_time)
            return state, minus(largest, self.grace), largest
        return state, *self.at_end(state)

    def at_end(self, state: dict[str, int]) -> tuple[int, int]:
        largest = min(state.values(), default=UNKNOWN)
        return minus(largest, self.grace), largest
