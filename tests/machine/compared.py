"""The windows of readers against the time bounds of their groups: which groups are compared, and why not the others.

Compared are the windows of a group that shares its positions and whose readers know of them, and of the watermarks, at
once. Of the others no table says when they knew what:

- readers that work on what they see in the background (`tracker_ms`), read over a network (`read_latency_ms`), or learn
  later of the state of the group (`state_latency_ms`, or the delay of the scenario's network);
- readers of a stream whose marks segment could not be read for a time or was truncated, and of a group that was taken
  back to a checkpoint without key ranges.

The windows of readers that share a map of times (`read_side` "document") are not compared where these read over a
network, learn later of the state, or may look at what they knew before (`publish_timer` "pravega" or `enters_time`
"on_passing", and a script in which a reader gives a segment back).

`known_by_time_bounds` is what `recording.time_bounds` says that a group may know, for `judge.windows_are_bounds`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Final

import pyarrow as pa

from tests.machine.judge import KnownOverTime, Row, Rows
from wmlab.core.recording import Recording
from wmlab.core.simulation import Fixed
from wmlab.streams.bounds.groups import bounds_of_group
from wmlab.streams.bounds.log_by_segment import ranges_of, watermark_columns
from wmlab.streams.bounds.maps import groups_with_map
from wmlab.streams.scenario import script
from wmlab.streams.scenario.parts import ReaderGroup
from wmlab.streams.scenario.scenario import StreamScenario
from wmlab.streams.tables import TABLES

COMPARED: Final = pa.schema(
    [("stream", pa.string()), ("group", pa.string()), ("why_not", pa.string()), ("with_map", pa.bool_())]
)
"""The groups that have windows: why these are not compared; null: they are. `with_map`: with the map of times."""

_NO_SCENARIO: Final = "no scenario says how its readers look"
_UNREADABLE: Final = "its marks could not be read for a time"


def compared_groups(recording: Recording) -> pa.Table:
    """The groups of a recording that have windows, by stream, and why the windows of some are not compared."""
    rows = recording.table("windows").select(["stream", "group"]).group_by(["stream", "group"]).aggregate([])
    scenario, with_map = recording.scenario_as(StreamScenario), set(groups_with_map(recording))
    groups = []
    for stream, group in sorted((row["stream"], row["group"]) for row in rows.to_pylist()):
        why_not = _why_not(scenario, stream, group)
        groups.append({"stream": stream, "group": group, "why_not": why_not, "with_map": (stream, group) in with_map})
    return pa.Table.from_pylist(groups, COMPARED)


def _why_not(scenario: StreamScenario | None, stream: str, group: str) -> str | None:
    """Why no table says what the readers of a group could see at the moments at which they looked; None: tables do."""
    whole = None if scenario is None else scenario.resolved
    part = None if whole is None else next((part for part in whole.groups if part.name == group), None)
    if whole is None or part is None:
        return _NO_SCENARIO
    if whole.rules.read_side == "document" or not part.time_windows:
        return next(_of_map(whole, part), None)
    return next(chain(_of_options(whole, part), _of_script(whole, stream, group)), None)


def _of_map(scenario: StreamScenario, part: ReaderGroup) -> Iterator[str]:
    if part.time_windows:
        yield from _of_latency(scenario, part)
        options = {"publish_timer": "pravega", "enters_time": "on_passing"}
        between = next(
            (f"{name} is {option!r}" for name, option in options.items() if getattr(scenario.rules, name) == option), ""
        )
        if between and any(isinstance(act, script.ReleaseSegment) for act in scenario.script):
            yield f"a reader gave a segment back, and may have looked at what it knew then ({between})"


def _of_options(scenario: StreamScenario, part: ReaderGroup) -> Iterator[str]:
    if part.tracker_ms:
        yield "its readers work on marks in the background (tracker_ms)"
    yield from _of_latency(scenario, part)


def _of_latency(scenario: StreamScenario, part: ReaderGroup) -> Iterator[str]:
    network = scenario.network
    delay = Fixed(scenario.latency_ms) if network.delay is None else network.delay
    if part.state_latency_ms or (part.state_latency_ms is None and (delay != Fixed(0) or network.loss)):
        yield "its readers learn later of the group's state (state_latency_ms)"
    if part.reads_over_network(network):
        yield "its readers learn later what there is to read (read_latency_ms)"


def _of_script(scenario: StreamScenario, stream: str, group: str) -> Iterator[str]:
    name = stream.partition("#")[0]
    for action in scenario.script:
        match action:
            case script.LoseMarksSegment() if action.stream in (None, name):
                yield _UNREADABLE
            case script.StoreUnavailable(store="marks_segment"):
                yield _UNREADABLE
            case script.TruncateMarks() if action.stream in (None, name):
                yield "its marks were truncated"
            case script.ResetToCheckpoint(ranges=False) if action.group in (None, group):
                yield "it was taken back to a checkpoint without key ranges"


def known_by_time_bounds(rows: Rows, group: str, _: Mapping[int, set[int]], *, late: bool) -> KnownOverTime:
    """When a group knows which bounds by `bounds_of_group`; with `late` marks come after the positions of their ms.

    Times are doubled, so that of a mark and a position of one ms one comes first.
    """
    changes = [row | {"at_ms": 2 * row["at_ms"] + (not late)} for row in rows["positions"] if row["group"] == group]
    if not changes:
        return
    marks = [row | {"emitted_ms": 2 * row["emitted_ms"] + late} for row in rows["watermarks"]]
    log = watermark_columns(_table("watermarks", marks)), ranges_of(_table("segments", rows["segments"]))
    states = bounds_of_group(_table("positions", changes), *log, then=True, until_ms=None)
    for state in states.select(["at_ms", "lower", "upper"]).to_pylist():
        yield state["at_ms"] // 2, (state["lower"], state["upper"])


def _table(name: str, rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, TABLES[name])
