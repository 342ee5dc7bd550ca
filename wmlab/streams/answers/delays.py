"""Where the lower bound of a reader loses time: on the way into the log, into the group's state, and to the reader.

The three parts follow each other. The log: from the clock down to the newest watermark. The group: from there to the
lower bound of the group, which waits until all its positions are beyond a watermark. The poll: from there to what the
readers saw when they last looked.

Source: PDP-33, Client Changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from statistics import fmean

from wmlab.core.answers import Answer
from wmlab.core.arguments import the_moment
from wmlab.core.errors import RecordingError
from wmlab.core.recording import Recording, the_only
from wmlab.core.words import span
from wmlab.streams.answers.history import rows_of_stream, scenario_span, the_stream
from wmlab.streams.positions import group_windows

LowerSteps = Sequence[tuple[int, int | None]]
"""A lower bound over the clock: from when on (ms), and its value; None: unknown."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Delays(Answer):
    """How old the lower bound of a group's readers was on average over the time [from_ms, to_ms), in ms, by part.

    `watermark_ms` is from the clock down to the newest watermark, `publish_ms` from there to the lower bound of the
    group, `poll_ms` from there to what its readers saw, on average over them. `age_ms` is the sum.
    """

    stream: str
    group: str
    from_ms: int
    to_ms: int
    watermark_ms: int
    publish_ms: int
    poll_ms: int

    @property
    def age_ms(self) -> int:
        """The sum of the three parts."""
        return self.watermark_ms + self.publish_ms + self.poll_ms

    @property
    def sentence(self) -> str:
        """How late the bound was known, and the parts."""
        return (
            f"Group {self.group} knew the time of {self.stream} {span(self.age_ms)} late on average: "
            f"{span(self.watermark_ms)} until there was a watermark, {span(self.publish_ms)} until the group's "
            f"positions were beyond it, {span(self.poll_ms)} until a reader looked."
        )


def delays(
    recording: Recording, *, stream: str | None = None, group: str | None = None, from_ms: int | str | None = None
) -> Delays:
    """How late the readers of a group knew the lower bound of a stream, and which part of it comes from where.

    The averages are over time, from `from_ms` (clock, ms; by default when all of them knew a bound) to the end of the
    run. `stream` and `group` are needed when there are several. Raises `RecordingError` for a log without scenario and
    where some reader knew no bound in that time.
    """
    name, lasted_ms = the_stream(recording, stream), scenario_span(recording)
    if lasted_ms is None:
        raise RecordingError("a log has no readers that look at a time window.", remedy="ask the recording of a run.")
    windows = group_windows(recording, stream=name)
    group = the_only(recording, group, sorted(windows), "reader group", "reader groups", option="group")
    rows = sorted(rows_of_stream(recording, "windows", name), key=lambda row: (row["reader"], row["at_ms"]))
    by_reader = groupby((row for row in rows if row["group"] == group), key=lambda row: row["reader"])
    seen = {reader: [(row["at_ms"], row["lower"]) for row in of_reader] for reader, of_reader in by_reader}
    log = [(row["emitted_ms"], row["lower"]) for row in rows_of_stream(recording, "watermarks", name)]
    positions = [(at_ms, window.lower) for at_ms, window in windows[group]]
    known_ms = max((_known_from(steps) for steps in (log, positions, *seen.values())), default=lasted_ms[1])
    begin_ms = known_ms if from_ms is None else the_moment(from_ms, name="from_ms", start_ms=lasted_ms[0])
    if not known_ms <= begin_ms < lasted_ms[1] or not seen:
        raise RecordingError(
            f"not all readers of {group} knew a lower bound at {begin_ms} ms.",
            remedy=f"give a from_ms from {known_ms} to {lasted_ms[1]}, or another group.",
        )
    newest, at_positions = (_mean(steps, begin_ms, lasted_ms[1]) for steps in (log, positions))
    seen_on_average = fmean(_mean(steps, begin_ms, lasted_ms[1]) for steps in seen.values())
    return Delays(
        stream=name,
        group=group,
        from_ms=begin_ms,
        to_ms=lasted_ms[1],
        watermark_ms=round((begin_ms + lasted_ms[1]) / 2 - newest),
        publish_ms=round(newest - at_positions),
        poll_ms=round(at_positions - seen_on_average),
    )


def _known_from(steps: LowerSteps) -> int:
    """From when on a bound is known for good; a moment after all others for one that is not."""
    unknown = [n for n, (_, lower) in enumerate(steps) if lower is None]
    known = steps[unknown[-1] + 1 :] if unknown else steps
    return known[0][0] if known else 2**63


def _mean(steps: LowerSteps, from_ms: int, to_ms: int) -> float:
    """The mean of a bound over the time from `from_ms` to `to_ms`, in which it is known."""
    area = sum(
        (min(until_ms, to_ms) - max(at_ms, from_ms)) * lower
        for (at_ms, lower), (until_ms, _) in pairwise([*steps, (to_ms, None)])
        if lower is not None and at_ms < to_ms and until_ms > from_ms
    )
    return area / (to_ms - from_ms)
