"""Who owned the buckets of streams: how evenly they were spread over the controllers, and when nobody owned one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from wmlab.core.answers.answer import Answer
from wmlab.core.errors import RecordingError
from wmlab.core.recording import Recording
from wmlab.core.words import counted, moment, span
from wmlab.streams.answers.history import Row, recorded_scenario
from wmlab.streams.model.coordination import fairness
from wmlab.streams.scenario.checks import controllers_of


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Ownership(Answer):
    """Of each controller the share of all ownership, in bucket milliseconds, and the gaps between two owners.

    `fairness` is from 1 / n (one of n controllers had everything) to 1 (all had as much). A gap is (bucket, from, to),
    in ms of the clock; a bucket in a gap runs no cycle, so the bounds of its streams stand still.
    """

    buckets: int
    share: Mapping[str, float]
    fairness: float
    gaps: tuple[tuple[int, int, int], ...]

    @property
    def sentence(self) -> str:
        """The answer in one sentence."""
        shares = ", ".join(f"{controller} {share:.0%}" for controller, share in self.share.items())
        were = "was" if self.buckets == 1 else "were"
        text = f"{counted(self.buckets, 'bucket')} {were} owned by {shares} (fairness {self.fairness:.2f})"
        if not self.gaps:
            return f"{text}; no bucket was without an owner once it had one."
        bucket, begin, end = max(self.gaps, key=lambda gap: gap[2] - gap[1])
        were = "was" if len(self.gaps) == 1 else "were"
        longest = f"{span(end - begin)} for bucket {bucket} from {moment(begin)}"
        return f"{text}; between owners there {were} {counted(len(self.gaps), 'gap')}, the longest {longest}."


def ownership(recording: Recording) -> Ownership:
    """How the buckets of streams were spread over the controllers, by the word of the coordination service.

    Raises `RecordingError` if one controller owned everything all the time, which is not recorded.
    """
    rows = owner_rows(recording)
    if not rows:
        raise RecordingError(
            f"Recording {recording.name!r} has no ownership of buckets: one controller ran everything.",
            remedy="record a scenario with several controllers.",
        )
    end_ms, scenario = last_ms(recording, rows), recorded_scenario(recording)
    controllers = set(controllers_of(scenario) if scenario else ()) | {row["controller"] for row in rows}
    held_ms = dict.fromkeys(sorted(controllers), 0)
    for row in rows:
        held_ms[row["controller"]] += (end_ms if row["to_ms"] is None else row["to_ms"]) - row["from_ms"]
    total_ms = sum(held_ms.values()) or 1
    return Ownership(
        buckets=len({row["bucket"] for row in rows}),
        share={controller: ms / total_ms for controller, ms in held_ms.items()},
        fairness=fairness(held_ms.values()),
        gaps=tuple(
            (bucket, before["to_ms"], after["from_ms"])
            for bucket, of in groupby(rows, key=lambda row: row["bucket"])
            for before, after in pairwise([*of, {"from_ms": end_ms}])
            if before["to_ms"] is not None and before["to_ms"] < after["from_ms"]
        ),
    )


def owner_rows(recording: Recording) -> list[Row]:
    """The rows of the table `ownership` by bucket and time."""
    return sorted(recording.table("ownership").to_pylist(), key=lambda row: (row["bucket"], row["from_ms"]))


def last_ms(recording: Recording, rows: Sequence[Row]) -> int:
    """The last moment on record at which a cycle ran or an owner changed."""
    moments: list[int] = recording.table("cycles")["at_ms"].to_pylist()
    moments += [row["to_ms"] or row["from_ms"] for row in rows]
    return max(moments)
