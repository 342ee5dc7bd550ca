"""Streams that a reader group reads together although their event times do not overlap.

Source: PDP-33, Applications reading from multiple streams.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import pyarrow.compute as pc

from wmlab.core.overlap import TimeRange, apart_text, without_common_times
from wmlab.core.recording import Recording
from wmlab.core.words import listed
from wmlab.streams.answers.history import events_of

REMEDY_FOR_GROUPS = (
    "give the writers of these streams times of one epoch with event_time=..., or each stream a group of its own"
)


def streams_apart(recording: Recording) -> dict[str, tuple[tuple[str, ...], str]]:
    """By reader group, the streams that it reads together although their times do not overlap, and a sentence of them.

    Streams count whose events were appended at the same time. A group of one stream is never among them.
    """
    streams: dict[str, set[str]] = defaultdict(set)
    for chunk in recording.chunks("positions", "stream", "group"):
        for row in chunk.group_by(["stream", "group"]).aggregate([]).to_pylist():
            streams[row["group"]].add(row["stream"])
    together = {group: sorted(names) for group, names in sorted(streams.items()) if len(names) > 1}
    ranges = _ranges(recording, {name for names in together.values() for name in names})
    answers = {}
    for group, names in together.items():
        if apart := without_common_times(ranges[name] for name in names if name in ranges):
            inputs = f"{listed([times.name for times in apart])}, which group {group} reads together,"
            answers[group] = (tuple(names), apart_text(inputs, apart))
    return answers


def _ranges(recording: Recording, streams: set[str]) -> Mapping[str, TimeRange]:
    """The event times of each stream that has events, and when they were appended."""
    ranges: dict[str, TimeRange] = {}
    for stream in sorted(streams):
        times, clock = list[int](), list[int]()
        for chunk in events_of(recording, stream, "event_time", "append_ms"):
            if chunk.num_rows:
                times += pc.min_max(chunk["event_time"]).as_py().values()
                clock += pc.min_max(chunk["append_ms"]).as_py().values()
        if times:
            ranges[stream] = TimeRange(stream, min(times), max(times), min(clock), max(clock))
    return ranges
