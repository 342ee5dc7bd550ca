"""What writers wrote: which silent writer goes on noting.

A writer that replays a log goes on noting the clock while its log has no events, as it knows of none that is open. Then
it does not hold the lower bound, although by its events it is furthest behind: that is what `wm.spark.stragglers` tells
of the log.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from functools import cached_property
from heapq import heappop, heappush
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from wmlab.core.recording import Recording
from wmlab.streams.answers import history as recorded
from wmlab.streams.answers.run_state import RunState
from wmlab.streams.scenario.checks import clients_of
from wmlab.streams.scenario.scenario import StreamScenario


class _FurthestBehind(NamedTuple):
    """From `at_ms` on, of the imported writers, that with the least newest event time, when it last sent something, and
    its longest pause by then (ms).
    """

    at_ms: int
    newest: int
    writer: str
    sent_ms: int
    longest_pause_ms: int


class Written:
    """The events of one stream of a recording, as explanations ask for them; they are read when asked, and once."""

    def __init__(self, recording: Recording, stream: str) -> None:
        self._recording = recording
        self._stream = stream

    def silent_at(self, state: RunState) -> str | None:
        """The imported writer with the least newest event time of all, if it is silent and the bound is beyond that.

        Silent is who has sent nothing for longer than ever before, and has noted times beyond its newest event.
        """
        index = bisect_right(self._furthest_behind, state.at_ms, key=lambda entry: entry.at_ms) - 1
        if index < 0 or state.lower is None:
            return None
        _, newest, writer_id, sent_ms, longest_pause_ms = self._furthest_behind[index]
        noted = state.on_record.get(writer_id)
        if newest >= state.lower or noted is None or noted.time <= newest:
            return None
        return writer_id if state.at_ms - sent_ms > longest_pause_ms else None

    @cached_property
    def _ids(self) -> Mapping[str, str]:
        """The writers that replay a log to the stream and note times, each with the id of its marks."""
        scenario = self._recording.scenario_as(StreamScenario)
        name = self._stream.partition("#")[0]
        return {
            client.name: client.id
            for part in (() if scenario is None else scenario.resolved.writers)
            if scenario is not None and part.trace is not None and scenario.stream_titled(part.stream).name == name
            for _, client in clients_of(part, part.name, scenario.script)
            if client.id is not None
        }

    @cached_property
    def _furthest_behind(self) -> list[_FurthestBehind]:
        """Which imported writer is furthest behind by its events, from each moment on at which that changes."""
        ids = self._ids
        newest: dict[tuple[int, str], int] = {}
        columns = ("writer", "append_ms", "event_time")
        for chunk in recorded.events_of(self._recording, self._stream, *columns) if ids else ():
            events = chunk.filter(pc.is_in(chunk["writer"], pa.array(ids, pa.string())))
            for row in events.group_by(["writer", "append_ms"]).aggregate([("event_time", "max")]).to_pylist():
                append, time = (row["append_ms"], ids[row["writer"]]), row["event_time_max"]
                newest[append] = max(time, newest.get(append, time))
        latest: dict[str, _FurthestBehind] = {}
        heap: list[tuple[int, str]] = []
        changes: list[_FurthestBehind] = []
        for (at_ms, writer), time in sorted(newest.items()):
            before = latest.get(writer, _FurthestBehind(at_ms, time, writer, at_ms, 0))
            pause_ms = max(before.longest_pause_ms, at_ms - before.sent_ms)
            latest[writer] = _FurthestBehind(at_ms, max(before.newest, time), writer, at_ms, pause_ms)
            heappush(heap, (latest[writer].newest, writer))
            # An entry of the heap is out of date once its writer has a newer event.
            while heap[0][0] < latest[heap[0][1]].newest:
                heappop(heap)
            least = latest[heap[0][1]]
            if not changes or changes[-1][1:] != least[1:]:
                changes.append(least._replace(at_ms=at_ms))
        return changes
