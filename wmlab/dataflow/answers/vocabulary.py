"""The words of answers about dataflows: labels, why rows are lost, and templates, in one table each.

A *holder* is what keeps a watermark from a higher value: a partition of a source, or an instance; those that set the
watermark are first, the lowest at the front. What each cause means: `stragglers.MEANINGS`.

Source: "Keyed watermark support", WM generation, Description of current behavior and Handling of keyed idle messages.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    NOT_KNOWN = "not known"
    """The tables do not tell which row of a source it was, or what let the watermark pass."""


LABELS: Final = vocabulary(
    ("stream", Kind.NAME, "the dataflow"),
    ("failed at", Kind.MOMENT, "when the job failed"),
    ("failure", Kind.NAME, "why it failed"),
    ("complete at", Kind.MOMENT, "when the job was complete"),
    ("vertex", Kind.NAME, "the vertex, or of several instances the one that is meant"),
    ("key", Kind.COUNT, "key of the watermark that is meant"),
    ("watermark", Kind.EVENT_TIME, "the last watermark there"),
    ("since", Kind.MOMENT, "when that came"),
    ("window from", Kind.EVENT_TIME, "the begin of the window that waits"),
    ("window to", Kind.EVENT_TIME, "its end"),
    ("rows", Kind.COUNT, "how many rows it holds"),
    ("part at", Kind.NAME, "the instances that hold them"),
    ("rows of part", Kind.COUNT, "how many each of them holds"),
    ("needed", Kind.NEEDED_TIME, "the lowest watermark that is high enough"),
    ("came out at", Kind.MOMENT, "when the last of its results left"),
    ("results", Kind.COUNT, "how many results of it have left"),
    ("let out by", Kind.NAME, "the input whose message raised the watermark so that it was closed"),
    ("message", Kind.WORD, "that message: watermark, idle or done"),
    ("on a queue", Kind.COUNT, "how many rows of its time wait to be taken"),
    ("lost rows", Kind.COUNT, "how many rows of its time were dropped"),
    ("holder", Kind.NAME, "what keeps the watermark where it is"),
    ("cause", Kind.WORD, "why each holder does"),
    ("watermark of holder", Kind.EVENT_TIME, "the watermark of each holder"),
    ("through", Kind.NAME, "the vertices between the first holder and the vertex"),
    ("last row at", Kind.MOMENT, "when each holder last had a row that its filter let pass"),
    ("rejected", Kind.COUNT, "how many rows the filter of each holder has rejected since"),
    ("waits since", Kind.MOMENT, "since when something that has come waits at each holder"),
    ("taken by", Kind.NAME, "the instance that has to take it"),
    ("items before", Kind.COUNT, "how many items are before it on its queue"),
    ("next watermark", Kind.EVENT_TIME, "the next watermark that a source with frames lets through"),
    ("fault", Kind.WORD, "what the script does to each holder"),
    ("fault from", Kind.MOMENT, "from when on"),
    ("fault until", Kind.MOMENT, "until when"),
    ("also below", Kind.NAME, "further inputs that are below the watermark that is needed"),
    ("watermark also below", Kind.EVENT_TIME, "the watermark of each of them"),
    ("not waited for", Kind.NAME, "partitions with a lower watermark, which do not count since they are idle"),
    ("not waited for since", Kind.MOMENT, "from when on each of them was idle"),
    ("goes on at", Kind.MOMENT, "when the last instance that stands still goes on"),
    ("row in each of", Kind.NAME, "the partitions in each of which a row is needed"),
    ("row in any of", Kind.NAME, "the partitions in one of which a row is enough"),
    ("row of", Kind.NEEDED_TIME, "the lowest event time that is enough for a row in each of them"),
    (
        "row after",
        Kind.NEEDED_TIME,
        "after when a row in each of them has to come if the clock moves the watermark",
    ),
    ("released at", Kind.MOMENT, "when it is released if nothing comes: by the clock, or by idleness"),
    ("end of", Kind.NAME, "the inputs whose end releases it"),
    ("run", Kind.NAME, "the run"),
    ("held", Kind.COUNT, "how many rows or accumulators a vertex held at the end, in each run"),
    ("held at most", Kind.COUNT, "the most that it held, in each run"),
    ("held at most since", Kind.MOMENT, "when it first held that much, in each run"),
    ("limit", Kind.COUNT, "how many it may hold"),
    ("inputs apart", Kind.NAME, "the join whose inputs have no event times in common"),
    ("dropped", Kind.COUNT, "how many rows were dropped"),
    ("idle when passed", Kind.COUNT, "how many of them were lost since their partition was idle"),
    ("row", Kind.NAME, "the row, as the vertex got it"),
    ("dropped by", Kind.NAME, "the vertex that dropped the row"),
    ("rule", Kind.WORD, "the rule by which it did"),
    ("dropped at", Kind.MOMENT, "when it did"),
    ("time", Kind.EVENT_TIME, "the event time of the row"),
    ("lowest taken", Kind.EVENT_TIME, "the lowest event time that the vertex still took then"),
    ("late by", Kind.LENGTH, "by how much the time of the row is below that"),
    ("passed at", Kind.MOMENT, "when the watermark had come by which that time was the lowest"),
    ("lost because", Kind.WORD, "what had let the watermark pass: idle, own rows, not there or not known"),
    ("partition", Kind.NAME, "the partition of the source that the row is from"),
    ("watermark of partition", Kind.EVENT_TIME, "its own watermark when the row was read"),
    ("lag", Kind.LENGTH, "how far a watermark of the source is behind the rows"),
    ("row before at", Kind.MOMENT, "when the partition last had a row, or began, before the watermark passed"),
    ("idle since", Kind.MOMENT, "from when on a partition was idle, and did not count"),
    ("idle timeout", Kind.LENGTH, "after how long without a row a partition of the source is idle"),
    ("kept with timeout", Kind.BOUND, "an idle timeout of the source that keeps the row; exact if jitter_ms=0"),
)
FAILED: Final = ("The job failed at {failed at}: {failure}.", "The job failed at {failed at}.")
AT_A_MOMENT: Final = (
    *FAILED,
    "The job was complete at {complete at}.",
    "The watermark of key {key} at {vertex} is {watermark} since {since}, held by {holder} ({cause}).",
    "The watermark of key {key} at {vertex} is {watermark} since {since}, held by {holder}.",
    "Nothing holds the watermark of key {key} at {vertex}: {watermark} since {since}.",
    "No watermark of key {key} has come at {vertex}; it is held by {holder} ({cause}).",
    "No watermark of key {key} has come at {vertex}; it is held by {holder}.",
    "No watermark of key {key} has come at {vertex}.",
)
ENDED: Final = (
    "The last watermark of key {key} at {vertex} was {watermark}, from {since} on.",
    "No watermark of key {key} had come at {vertex}.",
)
RELEASE: Final = (
    "The event times of the inputs of {inputs apart} do not overlap.",
    "Nothing waits for {not waited for}, idle since {not waited for since}.",
    "Nothing waits for {not waited for}: idle.",
    "It is not released before {goes on at}.",
    "It waits for {taken by} to take it.",
    "A row of {row of} or later in {row in each of} releases it.",
    "A row of {row of} or later in any of {row in any of} releases it.",
    "A row in {row in each of} after {row after} releases it.",
    "It needs a row in {row in each of}.",
    "It needs a row in any of {row in any of}.",
    "It is released at {released at}.",
    "The end of {end of} releases it.",
)
WAITING: Final = (
    "The window from {window from} to {window to} of {vertex} (rows: {rows}) waits for {needed}, "
    "held by {holder} ({cause}).",
    "The window from {window from} to {window to} of {vertex} (rows: {rows}) waits for {needed}, held by {holder}.",
    "The window from {window from} to {window to} of {vertex} (rows: {rows}) waits for {needed}.",
)
CAME_OUT: Final = (
    "The window from {window from} to {window to} of {vertex} came out at {came out at}; results: {results}."
)
LET_OUT: Final = ("Its last part was let out by {let out by}: {message}.", "It came out at the end of its inputs.")
EMPTY: Final = "The window from {window from} to {window to} of {vertex} holds no row."
NOT_IN_IT: Final = (
    "Rows of its time that wait on a queue: {on a queue}.",
    "Rows of its time that were dropped: {lost rows}.",
)
LAST: Final = ("The last watermark at {vertex} was {watermark}.", "There never was a watermark at {vertex}.")
LOST_ROWS: Final = "Rows that were dropped: {dropped}."
STATE: Final = ("The most that {vertex} held: {held at most}.",)
AT_THE_END: Final = ("At the end it held: {held}.",)
LATE: Final = (
    "Row ({row}) was dropped by the {rule} rule of {dropped by}: its time {time} is {late by} below {lowest taken}."
)
BECAUSE: Final[Mapping[LostBecause, tuple[str, ...]]] = {
    LostBecause.IDLE: (
        "Nothing waited for {partition}, idle since {idle since}; a timeout of {kept with timeout} keeps it.",
    ),
    LostBecause.OWN_ROWS: ("The watermark of {partition} itself was {watermark of partition}, with a lag of {lag}.",),
    LostBecause.NOT_THERE: ("The watermark had passed it before {partition} was added.",),
    LostBecause.NOT_KNOWN: (),
}
"""The second sentence about a lost row; the first is `LATE`."""
DROPS: Final = (
    "Rows of {stream} that were dropped: {dropped}, late by at most {late by}.",
    "No row of {stream} was dropped.",
)
IDLE_WHEN_PASSED: Final = (
    "Nothing waited for {partition} when {idle when passed} of them were passed; a timeout "
    "of {kept with timeout} keeps these.",
)
