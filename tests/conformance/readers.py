"""Reader groups and the background worker of a reader (kinds reader_group, latest_item)."""

from __future__ import annotations

import pickle
import re
from collections.abc import Mapping
from typing import Any

from tests.conformance.fields import Fields, UnknownFormatError, expect, interpreted, known, matched
from wmlab.streams.model.cut import CutAlgorithm
from wmlab.streams.model.group import GroupState, StreamReading, StreamSegment
from wmlab.streams.model.segment import KeyRange, parse_segment, segment_id, segment_name
from wmlab.streams.model.window import LatestItem

SUCCESSORS = r"([\w/@]+), successors? ((?:\d+@\d+(?:, )?)+) with predecessors \[([\d, ]*)\]"
AFTER = re.compile(r"(\w+)_after_(\w+)")
PLAIN_VERBS = {"acquires": "acquire", "publishes": "publish", "releases": "release", "completes": "complete"}
ONE = "stream"
"""The stream of a group that reads only one."""
ORDINALS = {"first": 1, "second": 2, "third": 3}


def run_group(inputs: Fields, expected: Fields, algorithm: CutAlgorithm) -> None:
    """A reader group goes through its operations."""
    if "ops" in inputs:
        run_operations(inputs, expected)
    elif "successors" in inputs:
        run_completions(inputs, expected)
    else:
        run_compaction(inputs, expected)


def run_operations(inputs: Fields, expected: Fields) -> None:
    """Operations as text, over several streams."""
    streams = Streams(inputs.take("initial"))
    snapshots = {"before": streams.offsets()}
    for text in inputs.take("ops"):
        operation = streams.do(text)
        snapshots[operation] = snapshots["after"] = snapshots["final"] = streams.offsets()
    for name, value in expected.rest().items():
        if match := AFTER.fullmatch(name):
            expect(name, streams.short(snapshots[f"{match[2]} {match[1]}"][match[1]]), value)
        elif name in ("before", "after", "final"):
            for stream, listed in value.items():
                found = snapshots[name][stream]
                expect(f"{name} {stream}", found if isinstance(listed, dict) else streams.short(found), listed)
        else:
            raise UnknownFormatError(f"expected {name!r}")


class Streams:
    """A group over streams named S1, S2 and so on."""

    def __init__(self, initial: Mapping[str, Mapping[str, int]]) -> None:
        self.state = GroupState(
            {
                stream: StreamReading.begin({parse_segment(s): offset for s, offset in offsets.items()})
                for stream, offsets in initial.items()
            }
        )

    def do(self, text: str) -> str:
        """Run one operation; answers "publish S1" or the like."""
        return interpreted(
            "operation",
            text,
            {
                r"add reader (\w+)": self.add,
                r"remove reader (\w+)": self.remove,
                r"(\w+) crashes": self.remove,
                r"(\w+) (acquires|publishes|releases|completes) (.+)": self.act,
            },
        )

    def add(self, reader: str) -> str:
        self.state.add_reader(reader)
        return "add"

    def remove(self, reader: str) -> str:
        self.state.remove_reader(reader)
        return "remove"

    def act(self, reader: str, verb: str, rest: str) -> str:
        if reader not in self.state.readers:
            self.state.add_reader(reader)
        parts = list(self.state.streams) if rest == "both" else [rest] if verb == "completes" else rest.split(" and ")
        names = [getattr(self, verb)(reader, part) for part in parts]
        return f"{PLAIN_VERBS[verb]} {names[-1]}"

    def acquires(self, reader: str, part: str) -> str:
        segment = self.locate(part)
        self.state.acquire(reader, segment)
        return segment[0]

    def publishes(self, reader: str, part: str) -> str:
        name, _, offset = part.partition("=")
        segment = self.locate(name)
        self.state.publish(reader, {segment: int(offset)})
        return segment[0]

    def releases(self, reader: str, part: str) -> str:
        name, _, offset = part.partition(" at ")
        segment = self.locate(name)
        self.state.release(reader, segment, int(offset))
        return segment[0]

    def completes(self, reader: str, part: str) -> str:
        match = matched("completion", part, SUCCESSORS)
        segment = self.locate(match[1])
        predecessors = frozenset(segment_id(int(number), 0) for number in match[3].split(","))
        successors = {parse_segment(name): predecessors for name in match[2].split(", ")}
        end = self.state.streams[segment[0]].offsets[segment[1]]
        self.state.complete(reader, segment, successors, end=end)
        return segment[0]

    def locate(self, name: str) -> StreamSegment:
        """ "S1/0" or, for a stream with one segment, "S1"."""
        stream, _, number = name.partition("/")
        known("stream", stream, self.state.streams)
        if number:
            return stream, segment_id(int(number), 0)
        (segment,) = self.state.streams[stream].offsets
        return stream, segment

    def offsets(self) -> dict[str, dict[str, int]]:
        """The last-read offsets by stream and segment."""
        return {stream: named(reading.offsets) for stream, reading in self.state.streams.items()}

    @staticmethod
    def short(offsets: Mapping[str, int]) -> int:
        """The offset in a stream with one segment."""
        (offset,) = offsets.values()
        return offset


def run_completions(inputs: Fields, expected: Fields) -> None:
    """Segments complete one after the other; what can be acquired then is asserted after each of them."""
    group = numbered_group(inputs)
    reading = group.streams[ONE]
    predecessors = {int(successor): frozenset(before) for successor, before in inputs.take("successors").items()}
    order = inputs.take("complete_in_order") if "complete_in_order" in inputs else [inputs.take("complete")]
    appeared: list[dict[str, int]] = []
    for number in map(int, order):
        group.acquire("r", (ONE, number))
        before = set(reading.offsets)
        following = {s: p for s, p in predecessors.items() if number in p}
        group.complete("r", (ONE, number), following, end=reading.offsets[number])
        assert all(reading.owners[s] is None for s in reading.offsets if s not in before), "a new segment is owned"
        appeared.append({str(s): offset for s, offset in reading.offsets.items() if s not in before})
    for name, value in expected.rest().items():
        ordinal = name.removeprefix("acquired_after").removeprefix("_")
        if not name.startswith("acquired_after") or ordinal not in ("", *ORDINALS):
            raise UnknownFormatError(f"expected {name!r}")
        expect(name, appeared[ORDINALS.get(ordinal, len(appeared)) - 1], value)


def run_compaction(inputs: Fields, expected: Fields) -> None:
    """The state is written as a whole and read again while segments change hands."""
    group = numbered_group(inputs)
    group.add_reader("other")
    for reader in ("r", "other", "r"):
        for segment in group.unassigned:
            group.acquire(reader, segment)
        group = pickle.loads(pickle.dumps(group))
        for segment, offset in tuple(group.streams[ONE].offsets.items()):
            group.release(reader, (ONE, segment), offset)
    offsets = {str(segment): offset for segment, offset in group.streams[ONE].offsets.items()}
    expect("positions", offsets, expected.take("last_read_positions_after_compactions_and_moves"))


def numbered_group(inputs: Fields) -> GroupState:
    """A group over segments that are written by number only, with their ranges."""
    for bounds in inputs.take("ranges").values():
        KeyRange.of(*bounds)
    offsets = {int(s): offset for s, offset in inputs.take("initial").items()}
    group = GroupState({ONE: StreamReading.begin(offsets)})
    group.add_reader("r")
    return group


def run_latest(inputs: Fields, expected: Fields, algorithm: CutAlgorithm) -> None:
    """Items that arrive while the first one is worked on."""
    worker: LatestItem[str] = LatestItem()
    for item in inputs.take("updates_while_first_is_running"):
        worker = worker.offer(item)
    processed: list[Any] = []
    while worker.working_on:
        processed += worker.working_on
        worker = worker.done()
    expect("processed", processed, expected.take("processed"))


def named(offsets: Mapping[int, int]) -> dict[str, int]:
    """Offsets by "n@e"."""
    return {segment_name(segment): offset for segment, offset in offsets.items()}
