"""The measures of a run of streams: the lower bound of a stream, and further numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wmlab.core.late import Late
from wmlab.core.recording import Recording
from wmlab.core.run_measures import RunMeasures
from wmlab.core.scenario_words import words_of
from wmlab.core.times import Int64Array
from wmlab.streams.answers.history import deleted_ms, late_events, of_stream, rows_of_stream, the_stream, without_ends
from wmlab.streams.answers.lag import lag_spread, seen_windows
from wmlab.streams.answers.measures import Measures, bounds_of, lags
from wmlab.streams.scenario.options import WORDS
from wmlab.streams.scenario.scenario import StreamScenario
from wmlab.streams.tables import end_ms

if TYPE_CHECKING:
    from wmlab.streams.checks import LateReads

MEASURES: Final = {
    "events": "events",
    "watermarks": "watermarks",
    "stalls": "cycles that were held",
    "refused": "refused marks",
    "lag_ms": "mean lag of the lower bound (ms)",
    "worst_lag_ms": "worst lag of the lower bound (ms)",
    "seen_worst_lag_ms": "worst lag of the lower bound that readers saw (ms)",
    "uncertainty_ms": "mean upper − lower (ms)",
}
"""The measures of a run besides what is late, and how they are written. Lag is clock minus lower bound of the newest
watermark. It is averaged over the time in which a bound is known, up to the end of the run or the deletion of the
stream; upper minus lower is averaged over the same time. What readers saw is behind that by what they had still to
read. Add the time that reading takes, and that between two of their looks; it is the lag that `wm.chart.lag` draws.
"""


class EventsInLog:
    """The events of one stream against the lower bounds of its log, while they pass by part by part.

    `marks` are the watermarks of the log and `bounds` what they gave; `count` is how many events have passed, and
    `late_count` how many of them were appended below a bound.
    """

    def __init__(self, recording: Recording, stream: str) -> None:
        self.stream = stream
        self.marks = without_ends(rows_of_stream(recording, "watermarks", stream))
        self.bounds = bounds_of(self.marks, deleted_ms(recording, stream) or end_ms(recording) or 0)
        known = [(at, lower, to) for (at, lower, _), (to, _, _) in pairwise(self.bounds) if lower is not None]
        self._from_ms, self._lowers, self._to_ms = np.array(known, np.int64).reshape(-1, 3).T
        self._last_below_ms = self._from_ms
        self.count = self.late_count = self._at_most_ms = 0

    def passing(self, parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """The same parts of the events of all streams, of which those of this one are looked at."""
        for part in parts:
            events = of_stream(part, self.stream)
            below = late_events(events, self.marks)
            self.count += events.num_rows
            self.late_count += below.num_rows
            self._at_most_ms = max(self._at_most_ms, pc.max(below["below_ms"]).as_py() or 0)
            self._last_below_ms = np.maximum(self._last_below_ms, _last_below_ms(below, self._lowers))
            yield part

    def late(self, reads: LateReads) -> Late:
        """What is late of those that have passed, with the late reads."""
        late_for_ms = np.maximum(np.minimum(self._last_below_ms, self._to_ms) - self._from_ms, 0)
        return Late.of(
            "events",
            "the lower bound in the log",
            late=self.late_count,
            at_most_ms=self._at_most_ms or None,
            for_ms=int(late_for_ms.sum()),
            read=reads.read,
            left_out=reads.left_out,
        )


def measured(recording: Recording, in_log: EventsInLog) -> Measures:
    """The measures of one stream of a recording by the keys of `MEASURES`; its events have passed by its log."""
    outcomes = of_stream(recording.table("writer_marks"), in_log.stream)["outcome"].to_pylist()
    seen = lag_spread(seen_windows(recording, in_log.stream))
    return {
        "events": in_log.count,
        "watermarks": len(in_log.marks),
        "stalls": sum(row["outcome"] != "emitted" for row in rows_of_stream(recording, "cycles", in_log.stream)),
        "refused": sum(outcome != "success" for outcome in outcomes),
        **lags(in_log.bounds),
        "seen_worst_lag_ms": None if seen is None else seen.largest,
    }


def _last_below_ms(events: pa.Table, lowers: Int64Array) -> Int64Array:
    """For each lower bound when the last of these events below it was appended; the smallest number if none was."""
    event_time, append_ms = (events[name].to_numpy() for name in ("event_time", "append_ms"))
    order = np.argsort(event_time)
    # With the smallest number before, for the bounds that no event is below.
    last_ms = np.maximum.accumulate(np.append(np.iinfo(np.int64).min, append_ms[order]))
    last_below_ms: Int64Array = last_ms[np.searchsorted(event_time[order], lowers)]
    return last_below_ms


def measures(recording: Recording, stream: str | None = None) -> RunMeasures:
    """The measures of the run: the lower bound of a stream over the clock, its lag, events, watermarks and late events.

    `stream` is needed when there are several. Raises `RecordingError` for one that is not there.
    """
    from wmlab.streams.checks import late_reads_of

    in_log = EventsInLog(recording, the_stream(recording, stream))
    late = in_log.late(late_reads_of(recording, in_log))
    figures = measured(recording, in_log)
    scenario = recording.scenario_as(StreamScenario)
    return RunMeasures(
        name=in_log.stream,
        bound="lower bound",
        steps=tuple((at_ms, lower) for at_ms, lower, _ in in_log.bounds),
        lag_ms=figures["lag_ms"],
        width_ms=figures["uncertainty_ms"],
        scenario=None if scenario is None else words_of(scenario, WORDS),
        late=late,
        measures={words: figures[name] for name, words in MEASURES.items()} | late.measures,
    )
