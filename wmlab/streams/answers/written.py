"""What writers wrote: which silent writer goes on noting.

A writer that replays a log goes on noting the clock while its log has no events, as it knows of none that is open. Then
it does not hold the lower bound, although by its events it is furthest behind: that is what `wm.spark.stragglers` tells
of the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wmlab.core.recording import Recording
from wmlab.streams.answers import history as recorded
from wmlab.streams.answers.run_state import RunState
from wmlab.streams.scenario.checks import clients_of
from wmlab.streams.scenario.scenario import StreamScenario

_COLUMNS: Final = ("writer", "append_ms", "event_time")


class _Sent(NamedTuple):
    """What a writer had sent by each append: when that was (clock, ms), its newest event time, its longest pause."""

    at_ms: npt.NDArray[np.int64]
    newest: npt.NDArray[np.int64]
    longest_pause_ms: npt.NDArray[np.int64]


class Written:
    """The events of one stream of a recording, as explanations ask for them; they are read when asked, and once."""

    def __init__(self, recording: Recording, stream: str) -> None:
        self._recording = recording
        self._stream = stream

    def silent_at(self, state: RunState) -> str | None:
        """The imported writer with the least newest event time of all, if it is silent and the bound is beyond that.

        Silent is who has sent nothing for longer than ever before, and has noted times beyond its newest event.
        """
        counts = {name: int(sent.at_ms.searchsorted(state.at_ms, side="right")) for name, sent in self._sent.items()}
        newest = {name: int(self._sent[name].newest[count - 1]) for name, count in counts.items() if count}
        if not newest or state.lower is None:
            return None
        name = min(newest, key=lambda writer: (newest[writer], writer))
        noted = state.on_record.get(name)
        if newest[name] >= state.lower or noted is None or noted.time <= newest[name]:
            return None
        sent, last = self._sent[name], counts[name] - 1
        return name if state.at_ms - sent.at_ms[last] > sent.longest_pause_ms[last] else None

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
    def _sent(self) -> Mapping[str, _Sent]:
        """What each imported writer sent, by the id of its marks."""
        found: dict[str, _Sent] = {}
        if not self._ids:
            return found
        chunks = recorded.events_of(self._recording, self._stream, *_COLUMNS)
        imported = pa.array(self._ids, pa.string())
        events = pa.concat_tables(chunk.filter(pc.is_in(chunk["writer"], imported)) for chunk in chunks)
        events = events.sort_by("append_ms")
        for writer, note_id in self._ids.items():
            of_writer = events.filter(pc.equal(events["writer"], writer))
            at_ms, time = (of_writer[name].to_numpy() for name in _COLUMNS[1:])
            pauses_ms = np.diff(at_ms, prepend=at_ms[:1])
            found[note_id] = _Sent(at_ms, np.maximum.accumulate(time), np.maximum.accumulate(pauses_ms))
        return found
