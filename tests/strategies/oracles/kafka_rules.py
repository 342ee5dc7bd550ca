"""What a task of Kafka Streams does besides its stream time: the order of its records, and which windows take them.

Source: `PartitionGroup` and `KStreamWindowAggregate` of Kafka 4.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from wmlab.core.errors import ModelError
from wmlab.strategies.model.strategy import UNKNOWN, earlier


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
    """Whether a window takes records; one that does not has its final result."""
    return end > earlier(stream_time, grace)
