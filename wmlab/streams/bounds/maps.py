"""The time bounds of reader groups whose readers see the window of a map of times, at every moment at which it changes.

In the design of the document (`read_side` "document") readers compare for themselves, and share the times that they
have passed: each sees the window of the map in the shared state of the group, which may be behind the position of the
group. The table `group_updates` has that window after every update. A group whose readers look at no watermarks
(`time_windows` False) has an empty map, and they know nothing.

A reader that enters its time as soon as it has passed a cut (`enters_time` "on_passing") has read more than it has
published. So what is still to come after a window of the map is what the readers have not read, published or not.

Source: PDP-33, Client Changes; `wmlab.streams.model.group.StreamReading.window`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from wmlab.streams.bounds.groups import POSITION, ROWS, RunEnds, until_of
from wmlab.streams.model.window import Move, position_moves

if TYPE_CHECKING:
    from wmlab.core.recording import Recording

TIMES: Final = "times"
"""What a row begins with when the map of times has changed and the position of the group has not."""
_WITHOUT_POSITION: Final = ("time", "acquire")
"""Operations of a reader that leave the position as it is."""
MapWindow = tuple[int | None, int | None]


def groups_with_map(recording: Recording) -> list[tuple[str, str]]:
    """The groups, by stream and name, whose readers see the window of a map of times, as the scenario says.

    Without a scenario those are the groups with a bound in `group_updates`.
    """
    from wmlab.streams.scenario.scenario import StreamScenario  # which an executor does without

    scenario = recording.scenario_as(StreamScenario)
    updates = recording.table("group_updates")
    if scenario is None:
        return _groups_of(updates.filter(pc.or_(pc.is_valid(updates["lower"]), pc.is_valid(updates["upper"]))))
    # Who looks at no marks sees the window of the map as well, which is empty then.
    has_map = scenario.resolved.rules.read_side == "document"
    sharing = {part.name for part in scenario.groups if has_map or not part.time_windows}
    groups = {*_groups_of(updates), *_groups_of(recording.table("windows"))}
    return sorted((stream, group) for stream, group in groups if group in sharing)


def _groups_of(rows: pa.Table) -> list[tuple[str, str]]:
    """The groups in a table, by stream and name."""
    groups = rows.group_by(["stream", "group"]).aggregate([]).to_pylist()
    return sorted((row["stream"], row["group"]) for row in groups)


def map_bounds_of_group(changes: pa.Table, updates: pa.Table, until_ms: RunEnds) -> pa.Table:
    """The window of the map of times of one group at every change of it and of the position, as `ROWS`.

    `changes` are the rows of its positions, `updates` its rows in `group_updates`, of which those count that were
    applied. The map does not say which watermarks its times come from, so `lower_seq` and `upper_seq` are null.
    `change` is `position`, `times` when only the map has changed, and `end`, as in `group_time_bounds`. A row has the
    window after the last update of its millisecond; of several versions in one millisecond, those before the last have
    the window after the update that made them. No row is later than `until_ms`.
    """
    key = {name: changes[name][0].as_py() for name in ("stream", "group")}
    versions = _by_time(_Version(*row) for row in _versions(changes))
    applied = updates.filter(pc.equal(updates["outcome"], "applied"))
    ordered = applied.sort_by("revision").select(_Update._fields).to_pylist()
    rows = _followed(versions, _by_time(_Update(**row) for row in ordered), until_of(until_ms, key["stream"]))
    return pa.Table.from_pylist([key | row for row in rows], ROWS)


class _Version(NamedTuple):
    at_ms: int
    number: int
    reader: str | None


class _Update(NamedTuple):
    at_ms: int
    reader: str | None
    operation: str
    lower: int | None
    upper: int | None


class _Read(NamedTuple):
    at_ms: int
    segment_id: int
    from_offset: int
    to_offset: int


def read_positions(changes: pa.Table, reads: pa.Table) -> Iterator[tuple[int, int, Mapping[int, int]]]:
    """Where the readers of a group are, published or not: (version, at_ms, offset by open segment).

    `changes` are the rows of its positions, `reads` those of its table `reads`. There is one at every version and
    whenever somebody reads, with all reads of its millisecond. What was read counts until the group is reset. From then
    on it counts where it goes on from the position: a reader that has not heard of the reset reads elsewhere.
    """
    moves = _by_time(position_moves(changes.select(POSITION).to_pylist()))
    ordered = reads.select(_Read._fields).sort_by([("at_ms", "ascending"), ("from_offset", "ascending")]).to_pylist()
    read = _by_time(_Read(**row) for row in ordered)
    reached: dict[int, int] = {}
    was_reset, latest = False, list[Move]()
    for at_ms in sorted(moves.keys() | read.keys()):
        for move in moves.get(at_ms, latest):
            was_reset |= move.is_reset
            before = {} if move.is_reset else reached
            reached = {segment: max(offset or 0, before.get(segment, 0)) for segment, offset in move.position.items()}
            for _, segment, start, end in read.get(at_ms, ()):
                if segment in reached and (start <= reached[segment] or not was_reset):
                    reached[segment] = max(end, reached[segment])
            yield move.version, at_ms, reached
            latest = [move._replace(is_reset=False)]


AtMoment = TypeVar("AtMoment", _Version, _Update, _Read, Move)


def _by_time(rows: Iterable[AtMoment]) -> dict[int, list[AtMoment]]:
    by_time: dict[int, list[AtMoment]] = {}
    for row in rows:
        by_time.setdefault(row.at_ms, []).append(row)
    return by_time


def _versions(changes: pa.Table) -> Iterator[tuple[int, int, str | None]]:
    """The versions of a group in order: when, its number, and the reader that made it, if any did."""
    rows = sorted(changes.select(["version", "at_ms", "reader"]).to_pylist(), key=itemgetter("version"))
    for version, of_version in groupby(rows, key=itemgetter("version")):
        same = list(of_version)
        reader = next((row["reader"] for row in same if row["reader"] is not None), None)
        yield max(row["at_ms"] for row in same), version, reader


def _followed(
    versions: Mapping[int, Sequence[_Version]], updates: Mapping[int, Sequence[_Update]], until_ms: int | None
) -> Iterator[dict[str, Any]]:
    """The rows of one group from its versions and the updates of its state, both by time and in their order."""
    window: MapWindow = (None, None)
    last: dict[str, Any] | None = None
    for at_ms in sorted(versions.keys() | updates.keys()):
        if until_ms is not None and at_ms > until_ms:
            break
        before, made = window, versions.get(at_ms, ())
        windows = _windows_of(made, updates.get(at_ms, ()), window)
        for version, (lower, upper) in zip(made, windows, strict=False):
            last = {"at_ms": at_ms, "version": version.number, "change": "position", "lower": lower, "upper": upper}
            yield last
        window = windows[-1]
        if not made and last is not None and window != before:
            last = last | {"at_ms": at_ms, "change": TIMES, "lower": window[0], "upper": window[1]}
            yield last
    if last is not None and until_ms is not None and until_ms > last["at_ms"]:
        yield last | {"at_ms": until_ms, "change": "end"}


def _windows_of(versions: Sequence[_Version], updates: Sequence[_Update], window: MapWindow) -> list[MapWindow]:
    """The window at each version of one millisecond, the last one being that at its end; without versions only that."""
    windows, remaining = [], deque(updates)
    for version in versions[:-1]:
        moved = False
        while remaining and not moved:
            update = remaining.popleft()
            window = update.lower, update.upper
            moved = update.reader == version.reader and update.operation not in _WITHOUT_POSITION
        windows.append(window)
    return [*windows, (remaining[-1].lower, remaining[-1].upper) if remaining else window]
