"""Reader groups and the background worker of a reader (kinds reader_group, latest_item)."""

from __future__ import annotations

import pickle
import re
from collections.abc import Mapping
from typing import Any

from tests.conformance.fields import Fields, UnknownFormatError, expect, known
from wmlab.streams.model.cut import CutAlgorithm
from wmlab.streams.model.group import GroupState
from wmlab.streams.model.segment import KeyRange, parse_segment, segment_id, segment_name
from wmlab.streams.model.window import LatestItem

ADD = re.compile(r"add reader (\w+)")
REMOVE = re.compile(r"remove reader (\w+)|(\w+) crashes")
VERB = re.compile(r"(\w+) (acquires|publishes|releases|completes) (.+)")
SUCCESSORS = re.compile(r"([\w/@]+), successors? ((?:\d+@\d+(?:, )?)+) with predecessors \[([\d, ]*)\]")
AFTER = re.compile(r"(\w+)_after_(\w+)")
PLAIN_VERBS = {"acquires": "acquire", "publishes": "publish", "releases": "release", "completes": "complete"}
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
    """Operations as text, over several streams with a group state each."""
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
    """One group state for each stream, named S1, S2 and so on."""

    def __init__(self, initial: Mapping[str, Mapping[str, int]]) -> None:
        self.groups = {
            stream: GroupState.create({parse_segment(s): offset for s, offset in offsets.items()})
            for stream, offsets in initial.items()
        }

    def do(self, text: str) -> str:
        """Run one operation; answers "publish S1" or the like."""
        if match := ADD.fullmatch(text):
            self.groups = {stream: group.add_reader(match[1]) for stream, group in self.groups.items()}
            return "add"
        if match := REMOVE.fullmatch(text):
            reader = match[1] or match[2]
            self.groups = {stream: group.remove_reader(reader) for stream, group in self.groups.items()}
            return "remove"
        match = VERB.fullmatch(text)
        if match is None:
            raise UnknownFormatError(f"operation {text!r}")
        reader, verb, rest = match.groups()
        for stream, group in self.groups.items():
            if reader not in group.readers:
                self.groups[stream] = group.add_reader(reader)
        parts = list(self.groups) if rest == "both" else [rest] if verb == "completes" else rest.split(" and ")
        names = [getattr(self, verb)(reader, part) for part in parts]
        return f"{PLAIN_VERBS[verb]} {names[-1]}"

    def acquires(self, reader: str, part: str) -> str:
        stream, segment = self.locate(part)
        self.groups[stream] = self.groups[stream].acquire(reader, segment)
        return stream

    def publishes(self, reader: str, part: str) -> str:
        name, _, offset = part.partition("=")
        stream, segment = self.locate(name)
        self.groups[stream] = self.groups[stream].publish(reader, {segment: int(offset)})
        return stream

    def releases(self, reader: str, part: str) -> str:
        name, _, offset = part.partition(" at ")
        stream, segment = self.locate(name)
        self.groups[stream] = self.groups[stream].release(reader, segment, int(offset))
        return stream

    def completes(self, reader: str, part: str) -> str:
        match = SUCCESSORS.fullmatch(part)
        if match is None:
            raise UnknownFormatError(f"completion {part!r}")
        stream, segment = self.locate(match[1])
        predecessors = frozenset(segment_id(int(number), 0) for number in match[3].split(","))
        successors = {parse_segment(name): predecessors for name in match[2].split(", ")}
        self.groups[stream] = self.groups[stream].complete(reader, segment, successors)
        return stream

    def locate(self, name: str) -> tuple[str, int]:
        """ "S1/0" or, for a stream with one segment, "S1"."""
        stream, _, number = name.partition("/")
        known("stream", stream, self.groups)
        if number:
            return stream, segment_id(int(number), 0)
        (segment,) = self.groups[stream].offsets
        return stream, segment

    def offsets(self) -> dict[str, dict[str, int]]:
        """The last-read offsets by stream and segment."""
        return {stream: named(group.position.offsets) for stream, group in self.groups.items()}

    @staticmethod
    def short(offsets: Mapping[str, int]) -> int:
        """The offset in a stream with one segment."""
        (offset,) = offsets.values()
        return offset


def run_completions(inputs: Fields, expected: Fields) -> None:
    """Segments complete one after the other; what can be acquired then is asserted after each of them."""
    group = numbered_group(inputs)
    predecessors = {int(successor): frozenset(before) for successor, before in inputs.take("successors").items()}
    order = inputs.take("complete_in_order") if "complete_in_order" in inputs else [inputs.take("complete")]
    appeared: list[dict[str, int]] = []
    for number in map(int, order):
        group = group.acquire("r", number)
        before = group.offsets
        group = group.complete("r", number, {s: p for s, p in predecessors.items() if number in p})
        assert all(group.owners[s] is None for s in group.offsets if s not in before), "a new segment is owned"
        appeared.append({str(s): offset for s, offset in group.offsets.items() if s not in before})
    for name, value in expected.rest().items():
        ordinal = name.removeprefix("acquired_after").removeprefix("_")
        if not name.startswith("acquired_after") or ordinal not in ("", *ORDINALS):
            raise UnknownFormatError(f"expected {name!r}")
        expect(name, appeared[ORDINALS.get(ordinal, len(appeared)) - 1], value)


def run_compaction(inputs: Fields, expected: Fields) -> None:
    """The state is written as a whole and read again while segments change hands."""
    group = numbered_group(inputs).add_reader("other")
    for reader in ("r", "other", "r"):
        for segment in tuple(group.offsets):
            group = group.acquire(reader, segment)
        group = pickle.loads(pickle.dumps(group))
        for segment, offset in tuple(group.offsets.items()):
            group = group.release(reader, segment, offset)
    found = {str(segment): offset for segment, offset in group.position.offsets.items()}
    expect("positions", found, expected.take("last_read_positions_after_compactions_and_moves"))


def numbered_group(inputs: Fields) -> GroupState:
    """A group over segments that are written by number only, with their ranges."""
    for bounds in inputs.take("ranges").values():
        KeyRange.of(*bounds)
    return GroupState.create({int(s): offset for s, offset in inputs.take("initial").items()}).add_reader("r")


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
