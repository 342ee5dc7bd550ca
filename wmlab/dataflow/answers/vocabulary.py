"""The words of answers about dataflows: their labels, and why rows are lost, in one table each.

Source: "Keyed watermark support", WM generation, Description of current behavior and Handling of keyed idle messages.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from wmlab.core.facts import Kind, vocabulary


class LostBecause(StrEnum):
    """Why the watermark had passed a row that was dropped."""

    IDLE = "idle"
    """The partition of the row was idle, so nothing waited for it."""
    OWN_ROWS = "own rows"
    """Rows of the same partition, or its clock, had brought the watermark of the partition that far."""
    NOT_THERE = "not there"
    """The partition was added later."""
    RESTART = "restart"
    """The watermark is that of an earlier execution, whose snapshot it was saved in."""
    NOT_KNOWN = "not known"
    """The tables do not tell which row of a source it was, or what let the watermark pass."""


LABELS: Final = vocabulary(
    ("stream", Kind.NAME, "the dataflow"),
    ("failed at", Kind.MOMENT, "when the job failed"),
    ("failure", Kind.NAME, "why it failed"),
    ("dropped", Kind.COUNT, "how many rows were dropped"),
    ("idle when passed", Kind.COUNT, "how many of them were lost since their partition was idle"),
    ("row", Kind.NAME, "the row, as the vertex got it"),
    ("dropped by", Kind.NAME, "the vertex that dropped the row"),
    ("rule", Kind.WORD, "the rule by which it did"),
    ("dropped at", Kind.MOMENT, "when it did"),
    ("key", Kind.COUNT, "key of the watermark that is meant"),
    ("time", Kind.MOMENT, "the event time of the row"),
    ("lowest taken", Kind.MOMENT, "the lowest event time that the vertex still took then"),
    ("late by", Kind.LENGTH, "by how much the time of the row is below that"),
    ("passed at", Kind.MOMENT, "when the watermark had come by which that time was the lowest"),
    ("lost because", Kind.WORD, "what had let the watermark pass: idle, own rows, not there, restart or not known"),
    ("partition", Kind.NAME, "the partition of the source that the row is from"),
    ("watermark of partition", Kind.MOMENT, "its own watermark when the row was read"),
    ("lag", Kind.LENGTH, "how far a watermark of the source is behind the rows"),
    ("row before at", Kind.MOMENT, "when the partition last had a row, or began, before the watermark passed"),
    ("idle since", Kind.MOMENT, "from when on it was idle, and did not count"),
    ("idle timeout", Kind.LENGTH, "after how long without a row a partition of the source is idle"),
    ("kept with timeout", Kind.LENGTH, "the least idle timeout of the source with which the row would have been kept"),
)
LATE: Final = (
    "Row ({row}) was dropped by the {rule} rule of {dropped by}: its time {time} is {late by} below {lowest taken}."
)
BECAUSE: Final = {
    LostBecause.IDLE: "Nothing waited for {partition}, idle since {idle since}; {kept with timeout} as timeout keep it.",
    LostBecause.OWN_ROWS: "The watermark of {partition} itself was {watermark of partition}, with a lag of {lag}.",
    LostBecause.NOT_THERE: "The watermark had passed it before {partition} was added.",
    LostBecause.RESTART: "The watermark is that of an earlier execution.",
    LostBecause.NOT_KNOWN: "Why the watermark had passed it is not known.",
}
"""The second sentence about a lost row; the first is `LATE`."""
FAILED: Final = ("The job failed at {failed at}: {failure}.", "The job failed at {failed at}.")
DROPS: Final = (
    "Rows of {stream} that were dropped: {dropped}, late by at most {late by}.",
    "No row of {stream} was dropped.",
)
IDLE_WHEN_PASSED: Final = (
    "Nothing waited for {partition} when {idle when passed} of them were passed; {kept with timeout} as "
    "timeout keep these.",
)
