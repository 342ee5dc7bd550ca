"""What is to be said of the bound at the position of a group, and of what a reader saw, at a moment."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tests.oracles.log_facts import (
    WITHOUT_PARTY,
    Fact,
    cause_of_log,
    delay_facts,
    log_facts,
    parties_of_log,
    set_by,
    state_facts,
)
from tests.oracles.positions import Keys, Reading, before_cut, followed, value_of
from tests.oracles.states import Befallen, state_of
from tests.oracles.tables import Row, Run
from wmlab.streams.model.segment import segment_name

_KEEPS_FROM_READING = ("down", "gone", "paused")
_OF_READER = ("reader", "store", "next look", "other position", "not started")


def beside_log(run: Run, stream: str, at_ms: int, cause: str) -> Iterator[Fact]:
    """What is said of the log beside another curve: all, if that has reached it, and else who holds it."""
    if cause == "newest":
        yield from log_facts(run, stream, at_ms)
    else:
        yield "log holder", parties_of_log(run, stream, at_ms)


def _order(lower: int | None) -> tuple[bool, int]:
    return lower is not None, lower or 0


@dataclass
class Group:
    """A reader group of a run, in one of its streams."""

    run: Run
    stream: str
    name: str

    @cached_property
    def readings(self) -> list[Reading]:
        """The group after every change."""
        return followed(self.run, self.stream, self.name)

    @cached_property
    def keys(self) -> Keys:
        """The key ranges of the segments."""
        return self.run.keys(self.stream)

    def at(self, at_ms: int) -> Reading | None:
        """The group by then; None: it has published no position."""
        place = bisect_right(self.readings, at_ms, key=lambda reading: reading.at_ms)
        return self.readings[place - 1] if place else None

    def windows(self, at_ms: int) -> dict[str, list[Row]]:
        """What each reader has seen by then, by name of the reader."""
        found: dict[str, list[Row]] = {}
        for row in self.run.by_then("windows", self.stream, at_ms):
            if row["group"] == self.name:
                found.setdefault(row["reader"], []).append(row)
        return dict(sorted(found.items()))

    @cached_property
    def map_steps(self) -> list[tuple[int, int | None, dict[str, int | None]]]:
        """From when on the map of times of the group has which least time, and the entry of each reader."""
        return [
            (row["at_ms"], row["lower"], row["lowers"])
            for row in self.run.all_rows("group_updates", self.stream)
            if row["group"] == self.name and row["lowers"] is not None and row["outcome"] == "applied"
        ]

    def steps(self) -> list[tuple[int, int | None]]:
        """From when on the bound at the position has which value."""
        if self.map_steps:
            return [(at_ms, lower) for at_ms, lower, _ in self.map_steps]
        marks = sorted(self.run.all_rows("watermarks", self.stream), key=lambda row: row["seq"])
        return [(reading.at_ms, value_of(reading, marks)) for reading in self.readings]

    def bound(self, at_ms: int) -> int | None:
        """The bound at the position."""
        return self.bound_since(at_ms)[0]

    def bound_since(self, at_ms: int) -> tuple[int | None, int | None]:
        """The bound at the position, and since when it has that value."""
        value: int | None = None
        since_ms: int | None = None
        for step_ms, step in self.steps():
            if step_ms > at_ms:
                break
            if step != value:
                value, since_ms = step, step_ms
        return value, None if value is None else since_ms

    def following(self, at_ms: int) -> Row | None:
        """The oldest watermark that the position has not passed."""
        reading, marks = self.at(at_ms), self.run.watermarks(self.stream, at_ms)
        seq = 0 if reading is None else _place(reading.passed) + 1
        if seq >= len(marks):
            return None
        return marks[reading.ahead[0] if reading is not None and reading.ahead else seq]

    def unpassed(self, at_ms: int) -> list[int]:
        """The segments of the position before the next cut, ascending."""
        reading, following = self.at(at_ms), self.following(at_ms)
        return [] if reading is None or following is None else before_cut(reading.rows, following, self.keys)

    def read_up_to(self, segment: int, at_ms: int) -> int:
        """How far anybody of the group has read a segment, since it was last reset."""
        rows = self.run.by_then("reads", self.stream, at_ms)
        return max(
            (row["to_offset"] for row in rows if (row["group"], row["segment_id"]) == (self.name, segment)), default=0
        )

    def is_unread(self, segment: int, at_ms: int) -> bool:
        """Whether a segment is not read up to the next cut; None there is the end of the segment."""
        following, reading = self.following(at_ms), self.at(at_ms)
        assert following is not None
        assert reading is not None
        end = following["cut"].get(segment)
        if end is None:
            return not reading.rows[segment]["waits"]
        return self.read_up_to(segment, at_ms) < end

    def is_released(self, segment: int, at_ms: int) -> bool:
        """Whether a segment lost its reader, and nobody has read it since; who acquires one writes no row of it."""
        key = (self.name, segment)
        positions, reads = (
            [row for row in self.run.by_then(table, self.stream, at_ms) if (row["group"], row["segment_id"]) == key]
            for table in ("positions", "reads")
        )
        newest = positions[-1]
        had_reader = any(row["reader"] is not None for row in positions)
        return newest["reader"] is None and had_reader and all(row["at_ms"] <= newest["at_ms"] for row in reads)

    def kept_from_reading(self, reader: str, at_ms: int) -> Befallen | None:
        """What keeps a reader from reading, if anything does."""
        return kept_from_reading(self.run.states_of(self.stream), reader, at_ms)

    def cause(self, at_ms: int) -> str:
        """Why the bound at the position is not higher."""
        reading = self.at(at_ms)
        if not self.run.watermarks(self.stream, at_ms):
            return cause_of_log(self.run, self.stream, at_ms)
        if reading is not None and self.has_newest(at_ms):
            return "newest"
        if self.deleted_ms(at_ms) is not None:
            return "deleted"
        if reading is None:
            return "not started"
        behind = self.unpassed(at_ms)
        if self.map_steps or self.away(at_ms):
            return "reader"
        if any(self.is_released(segment, at_ms) for segment in behind):
            return "assignment"
        return "unread" if any(self.is_unread(segment, at_ms) for segment in behind) else "publication"

    def deleted_ms(self, at_ms: int) -> int | None:
        """When the stream was deleted, if by then: nobody reads it from then on."""
        return self.run.incident(self.stream, "delete", at_ms)

    def has_newest(self, at_ms: int) -> bool:
        """Whether the position, or each entry of the map of times, has passed the newest watermark."""
        if self.map_steps:
            past = [lowers for step_ms, _, lowers in self.map_steps if step_ms <= at_ms]
            entries = past[-1].values() if past else ()
            if self.run.lower(self.stream, at_ms) is None:
                return self.following(at_ms) is None
            return bool(entries) and min(entries, key=_order) == self.run.lower(self.stream, at_ms)
        return self.following(at_ms) is None

    def away(self, at_ms: int) -> list[str]:
        """The owners of what is before the next cut that are kept from reading, by name."""
        reading = self.at(at_ms)
        if reading is None:
            return []
        owners = {reading.rows[segment]["reader"] for segment in self.unpassed(at_ms)} - {None}
        return sorted(name for name in owners if self.kept_from_reading(name, at_ms))

    def without_time(self, at_ms: int) -> list[str]:
        """Of a group with a map of times that lacks the newest watermark, the readers with the least entry or none."""
        past = [lowers for step_ms, _, lowers in self.map_steps if step_ms <= at_ms]
        if not past or not past[-1] or self.has_newest(at_ms):
            return []
        least = min(past[-1].values(), key=_order)
        return sorted(name for name, lower in past[-1].items() if lower == least)

    def holders(self, at_ms: int) -> list[str]:
        """Who holds the bound at the position."""
        cause, reading = self.cause(at_ms), self.at(at_ms)
        if cause == "reader":
            return self.without_time(at_ms) if self.map_steps else self.away(at_ms)
        if cause not in ("assignment", "unread", "publication") or reading is None:
            return []
        named = "read before by" if cause == "assignment" else "read by"
        return sorted({name for name in dict(self.segment_facts(at_ms, cause))[named] if name is not None})

    def parties(self, at_ms: int) -> tuple[str, ...]:
        """Who holds the bound at the position, beside what a reader saw, or words where no party does."""
        cause = self.cause(at_ms)
        if cause == "newest":
            return parties_of_log(self.run, self.stream, at_ms)
        return tuple(self.holders(at_ms)) or (WITHOUT_PARTY[cause],)

    def facts(self, at_ms: int) -> Iterator[Fact]:
        """Each label with its value, or with a tuple of values."""
        run, cause = self.run, self.cause(at_ms)
        reading, marks = self.at(at_ms), run.watermarks(self.stream, at_ms)
        if not marks:
            yield from log_facts(run, self.stream, at_ms)
            return
        yield from beside_log(run, self.stream, at_ms, cause)
        if cause != "newest":
            yield "cause", cause
        yield "group", self.name
        yield "at position", self.bound(at_ms)
        yield "newest watermark", run.lower(self.stream, at_ms)
        passed = None if reading is None or reading.passed is None else marks[reading.passed]
        if self.map_steps:
            value = self.bound(at_ms)
            passed = next((mark for mark in marks[::-1] if mark["lower"] == value and mark["writers"]), None)
        if cause != "newest":
            yield from set_by(run, self.stream, passed, at_ms)
            yield from delay_facts(run, self.stream, passed if passed and passed["writers"] else None, at_ms)
        yield from self.reader_facts(at_ms)
        yield "deleted at", self.deleted_ms(at_ms)
        if cause == "not started":
            yield "starts at", self.starts_at(at_ms)
        if cause != "newest":
            yield from self.holder_facts(at_ms, cause)

    def holder_facts(self, at_ms: int, cause: str) -> Iterator[Fact]:
        """Who holds the bound at the position, and what is to be read."""
        holders = self.holders(at_ms) if cause == "reader" else []
        yield "holder", tuple(holders)
        yield from state_facts(
            "holder", [state_of(self.run.states_of(self.stream), name, at_ms) for name in holders], until=True
        )
        if cause in ("assignment", "unread", "publication"):
            yield from self.segment_facts(at_ms, cause)

    def starts_at(self, at_ms: int) -> int | None:
        """When the group begins by the scenario, if that is later than the moment."""
        part = next((part for part in self.run.scenario.groups if part.name == self.name), None)
        start_ms = None if part is None else self.run.scenario.start_ms + part.starts_ms
        return start_ms if start_ms is not None and start_ms > at_ms else None

    def reader_facts(self, at_ms: int) -> Iterator[Fact]:
        """What each reader saw at its last poll."""
        last = {reader: rows[-1] for reader, rows in self.windows(at_ms).items()}
        yield "seen by", tuple(last)
        yield "saw", tuple(row["lower"] for row in last.values())
        yield "polled at", tuple(row["at_ms"] for row in last.values())
        yield from state_facts("reader", [state_of(self.run.states_of(self.stream), reader, at_ms) for reader in last])

    def segment_facts(self, at_ms: int, cause: str) -> Iterator[Fact]:
        """What is to be read up to the next cut, and by whom."""
        reading, following = self.at(at_ms), self.following(at_ms)
        if reading is None or following is None:
            return
        rows, behind = reading.rows, self.unpassed(at_ms)
        if cause == "reader":
            holders = self.away(at_ms)
            behind = [segment for segment in behind if rows[segment]["reader"] in holders]
        elif cause == "assignment":
            behind = [segment for segment in behind if self.is_released(segment, at_ms)]
        elif cause == "unread":
            behind = [segment for segment in behind if self.is_unread(segment, at_ms)]
        ends = [following["cut"].get(segment) for segment in behind]
        yield "segment", tuple(map(segment_name, behind))
        yield "read by", tuple(rows[segment]["reader"] for segment in behind)
        yield (
            "bytes left",
            tuple(
                (0 if rows[segment]["waits"] else None) if end is None else end - (rows[segment]["offset"] or 0)
                for segment, end in zip(behind, ends, strict=True)
            ),
        )
        yield "read before by", tuple(self.read_before(segment, reading, at_ms) for segment in behind)

    def read_before(self, segment: int, reading: Reading, at_ms: int) -> str | None:
        """The last other owner of a segment, if nobody owns it, or if that one is down or gone."""
        owner = reading.rows[segment]["reader"]
        rows = (
            row
            for row in self.run.by_then("positions", self.stream, at_ms)[::-1]
            if (row["group"], row["segment_id"]) == (self.name, segment)
        )
        before = next((row["reader"] for row in rows if row["reader"] not in (None, owner)), None)
        if owner is None:
            return before if self.is_released(segment, at_ms) else None
        if before is None:
            return None
        state = state_of(self.run.states_of(self.stream), before, at_ms)
        return before if state is not None and state.state in ("down", "gone") else None


def kept_from_reading(states: list[Befallen], reader: str, at_ms: int) -> Befallen | None:
    """The crash, the leaving, the pause, or the partition from the segment store that keeps a reader from reading."""
    keeping = [each for each in states if each.state in (*_KEEPS_FROM_READING, "cut off")]
    return state_of([each for each in keeping if each.keeps_from("segment-store")], reader, at_ms)


@dataclass
class Reader:
    """A reader of a group, in one of the group's streams."""

    group: Group
    name: str

    def rows(self, at_ms: int) -> list[Row]:
        """What it saw by then, poll by poll."""
        return self.group.windows(at_ms).get(self.name, [])

    def follows(self, at_ms: int) -> bool:
        """Whether it saw the bound at the position of its group, and is neither down nor gone."""
        state = state_of(self.group.run.states_of(self.group.stream), self.name, at_ms)
        rows = self.rows(at_ms)
        is_away = state is not None and state.state in ("down", "gone")
        return bool(rows) and rows[-1]["lower"] == self.group.bound(at_ms) and not is_away

    def cause(self, at_ms: int) -> str:
        """Why the bound that it saw is not higher."""
        run, stream, rows = self.group.run, self.group.stream, self.rows(at_ms)
        if not run.watermarks(stream, at_ms):
            return cause_of_log(run, stream, at_ms)
        if self.follows(at_ms):
            return self.group.cause(at_ms)
        if self.group.deleted_ms(at_ms) is not None:
            return "deleted"
        if not rows:
            return "not started"
        if kept_from_reading(run.states_of(stream), self.name, at_ms):
            return "reader"
        if state_of(run.marks_segment(stream), "marks segment", at_ms) is not None:
            return "store"
        since_ms = self.group.bound_since(at_ms)[1]
        return "next look" if since_ms is not None and rows[-1]["at_ms"] <= since_ms else "other position"

    def facts(self, at_ms: int) -> Iterator[Fact]:
        """Each label with its value, or with a tuple of values."""
        run, group, rows = self.group.run, self.group, self.rows(at_ms)
        stream = group.stream
        cause, marks = self.cause(at_ms), run.watermarks(group.stream, at_ms)
        if not marks:
            yield from log_facts(run, stream, at_ms)
            return
        saw = rows[-1]["lower"] if rows else None
        yield from beside_log(run, group.stream, at_ms, cause)
        if cause != "newest":
            yield "cause", cause
        yield "reader", self.name
        yield "group", group.name
        yield "saw", saw
        yield "saw first at", first_of_row(rows)
        yield "polled at", rows[-1]["at_ms"] if rows else None
        yield "at position", group.bound(at_ms)
        yield "newest watermark", run.lower(group.stream, at_ms)
        yield "deleted at", group.deleted_ms(at_ms)
        if cause != "newest":
            mark = None if saw is None else self.mark_seen(saw, marks)
            yield from set_by(run, stream, mark, at_ms)
            yield from delay_facts(run, stream, mark, at_ms)
        yield from state_facts("reader", [state_of(run.states_of(stream), self.name, at_ms)])
        if cause == "not started":
            yield "starts at", self.starts_at(at_ms)
        if cause == "store":
            yield "holder", "marks segment"
            states = run.marks_segment(group.stream)
            yield from state_facts("holder", [state_of(states, "marks segment", at_ms)], until=True)
        elif cause == "reader" and not self.follows(at_ms):
            yield "holder", self.name
            yield from state_facts("holder", [state_of(run.states_of(stream), self.name, at_ms)], until=True)
        elif cause not in (*_OF_READER, "newest") or (self.follows(at_ms) and cause != "newest"):
            yield from group.holder_facts(at_ms, cause)
        if cause != "newest":
            yield "position holder", group.parties(at_ms)

    def starts_at(self, at_ms: int) -> int | None:
        """When the script adds the reader, or else its group begins, if that is later than the moment."""
        script: tuple[Any, ...] = tuple(self.group.run.scenario.script)
        joins = [act.at_ms for act in script if act.kind == "add_reader" and act.reader == self.name]
        start_ms = self.group.run.scenario.start_ms
        return next((start_ms + join for join in joins if start_ms + join > at_ms), self.group.starts_at(at_ms))

    def mark_seen(self, saw: int, marks: list[Row]) -> Row | None:
        """The newest watermark with the value that the reader saw."""
        return next((mark for mark in marks[::-1] if mark["lower"] == saw and mark["writers"]), None)


def first_of_row(rows: list[Row]) -> int | None:
    """The first of the last polls in a row at which a reader saw the same lower bound."""
    first = None
    for row in rows[::-1]:
        if row["lower"] is None or row["lower"] != rows[-1]["lower"]:
            break
        first = row["at_ms"]
    return first


def _place(passed: int | None) -> int:
    return -1 if passed is None else passed


def upper_facts(run: Run, stream: str, at_ms: int, group: Group | None, reader: str | None) -> Iterator[Fact]:
    """The upper bound in the log, at the position of a group, or seen by a reader, and who had noted it."""
    marks = run.watermarks(stream, at_ms)
    mark: Row | None = None
    if group is None:
        mark = marks[-1] if marks and marks[-1]["writers"] else None
    elif reader is not None:
        rows = Reader(group, reader).rows(at_ms)
        mark = marks[rows[-1]["upper_seq"]] if rows and rows[-1]["upper_seq"] is not None else None
    else:
        reading = group.at(at_ms)
        # Beyond an end of known time there is no upper bound.
        if reading is not None and reading.ahead:
            newer = [
                seq for seq in (reading.passed, *reading.ahead) if seq is not None and seq >= _place(reading.passed)
            ]
            mark = marks[reading.ahead[-1]] if all(marks[seq]["writers"] for seq in newer) else None
    yield "upper bound", None if mark is None else mark["upper"]
    yield "newest watermark", run.lower(stream, at_ms)
    yield "deleted at", run.incident(stream, "delete", at_ms)
    if group is not None:
        yield "group", group.name
    if group is not None and reader is not None:
        rows = Reader(group, reader).rows(at_ms)
        yield "reader", reader
        yield "polled at", rows[-1]["at_ms"] if rows else None
        yield from state_facts("reader", [state_of(run.states_of(stream), reader, at_ms)])
