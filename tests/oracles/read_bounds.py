"""Which lower bounds of a group were above an event that it had still to read: from `reads`, `events` and `windows`.

An event is read when a reader has gone beyond it, published or not, or has found it truncated. What a group has read
counts until it is reset. Then it begins at the checkpoint, and a reader that has not heard of that reads on without
effect.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

Row = Mapping[str, Any]
Place = tuple[int, int]
"""A segment, and the offset at which an event ends there."""


@dataclass(frozen=True)
class GroupReads:
    """What one group read of one stream in a run; `tables` has the rows of each table of that stream."""

    tables: Mapping[str, list[Row]]
    group: str

    def unsafe(self, at_ms: int, lower: int | None) -> bool:
        """Whether an event with an earlier time than `lower` was still to be read, after everything of `at_ms`."""
        earliest = self.earliest_unread(at_ms)
        return lower is not None and earliest is not None and earliest < lower

    @cached_property
    def windows(self) -> list[Row]:
        """The windows that readers of the group saw."""
        return [row for row in self.tables["windows"] if row["group"] == self.group]

    def earliest_unread(self, at_ms: int) -> int | None:
        """The least time of the events that the group had still to read, after everything of `at_ms`."""
        read_ms = self._read_ms[bisect_right(self._begins, at_ms)]
        unread = (
            event["event_time"]
            for event in self.tables["events"]
            if read_ms.get((event["segment_id"], event["offset"]), _NEVER) > at_ms
        )
        return min(unread, default=None)

    @cached_property
    def _begins(self) -> list[int]:
        """When the group was reset."""
        rows = self.tables["positions"]
        return sorted({row["at_ms"] for row in rows if row["group"] == self.group and row["reset"]})

    @cached_property
    def _read_ms(self) -> list[dict[Place, float]]:
        """For each life of the group, when it first had read each event."""
        return [self._life(number, since_ms) for number, since_ms in enumerate((-1, *self._begins))]

    def _life(self, number: int, since_ms: int) -> dict[Place, float]:
        until_ms = self._begins[number] if number < len(self._begins) else _NEVER
        found: dict[Place, float] = {}
        start = self._start(since_ms)
        for event in self.tables["events"]:
            segment, end = event["segment_id"], event["offset"]
            if (segment < min(start) and segment not in start) or end <= start.get(segment, 0):
                found[segment, end] = since_ms
        read = [(row["at_ms"], row["segment_id"], row["to_offset"]) for row in self._reads(since_ms, until_ms)]
        for at_ms, segment, reached in sorted([*read, *self._published(since_ms, until_ms)]):
            for end in self._ends_of.get(segment, []):
                if end <= reached:
                    found.setdefault((segment, end), at_ms)
        return found

    def _published(self, since_ms: int, until_ms: float) -> Iterator[tuple[int, int, int]]:
        """When somebody published which offset of a segment: beyond what was truncated nothing is read."""
        for row in self.tables["positions"]:
            if row["group"] == self.group and since_ms <= row["at_ms"] < until_ms and not row["finished"]:
                yield row["at_ms"], row["segment_id"], row["offset"]

    def _start(self, since_ms: int) -> dict[int, int]:
        """Where the group began in each segment."""
        rows = [row for row in self.tables["positions"] if row["group"] == self.group and not row["finished"]]
        version = min(row["version"] for row in rows if row["at_ms"] >= since_ms and (since_ms < 0 or row["reset"]))
        return {row["segment_id"]: row["offset"] for row in rows if row["version"] == version}

    def _reads(self, since_ms: int, until_ms: float) -> Iterator[Row]:
        """What was read in one life, without that of readers that had not heard of its beginning."""
        heard = defaultdict(list)
        for row in self.tables["incidents"]:
            if row["kind"] == "start over":
                heard[row["target"]].append(row["at_ms"])
        reached = self._start(since_ms)
        for row in sorted(self.tables["reads"], key=lambda row: (row["at_ms"], row["from_offset"])):
            if row["group"] != self.group or not since_ms <= row["at_ms"] < until_ms:
                continue
            began_ms = min((at_ms for at_ms in heard[row["reader"]] if at_ms >= since_ms >= 0), default=since_ms)
            goes_on = row["from_offset"] <= reached.get(row["segment_id"], 0)
            if row["at_ms"] > began_ms or (row["at_ms"] == began_ms and goes_on):
                reached[row["segment_id"]] = max(row["to_offset"], reached.get(row["segment_id"], 0))
                yield row

    @cached_property
    def _ends_of(self) -> dict[int, list[int]]:
        ends = defaultdict(list)
        for event in self.tables["events"]:
            ends[event["segment_id"]].append(event["offset"])
        return ends


_NEVER = float("inf")
