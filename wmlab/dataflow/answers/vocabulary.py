"""The words of answers about dataflows: labels, why rows are lost, and templates, in one table each.

A *holder* is what keeps a watermark from a higher value: a partition of a source, or an instance; those that set the
watermark are first, the lowest at the front. What each cause means: `stragglers.MEANINGS`.

Source: "Keyed watermark support", WM generation, Description of current behavior and Handling of keyed idle messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from wmlab.core.facts import Kind, Vocabulary, vocabulary
from wmlab.core.holders import FAILED, RUN_LABELS, TIMES_APART


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


_OF_A_MOMENT: Final = vocabulary(
    ("stream", Kind.NAME, "the dataflow"),
    ("complete at", Kind.MOMENT, "when the job was complete"),
    ("vertex", Kind.NAME, "vertex or instance"),
    ("key", Kind.COUNT, "watermark key"),
    ("watermark", Kind.EVENT_TIME, "the last there"),
    ("since", Kind.MOMENT, "when that came"),
    ("restarted at", Kind.MOMENT, "when the job began again last"),
    ("window from", Kind.EVENT_TIME, "where it begins"),
    ("window to", Kind.EVENT_TIME, "where it ends"),
    ("rows", Kind.COUNT, "rows in it"),
    ("part at", Kind.NAME, "instances with them"),
    ("rows of part", Kind.COUNT, "rows in each"),
    ("needed", Kind.NEEDED_TIME, "the lowest watermark that is high enough"),
    ("came out at", Kind.MOMENT, "when the last of its results left"),
    ("results", Kind.COUNT, "how many results of it have left"),
    ("let out by", Kind.NAME, "the input whose message raised the watermark so that it was closed"),
    ("message", Kind.WORD, "that message: watermark, idle or done"),
    ("on a queue", Kind.COUNT, "how many rows of its time wait to be taken"),
    ("lost rows", Kind.COUNT, "how many rows of its time were dropped"),
    ("holder", Kind.NAME, "what keeps the watermark where it is"),
    ("cause", Kind.WORD, "why each does"),
    ("watermark of holder", Kind.EVENT_TIME, "that of each"),
    ("through", Kind.NAME, "the vertices between the first holder and the vertex"),
    ("waits since", Kind.MOMENT, "since when something that has come waits at each holder"),
    ("taken by", Kind.NAME, "the instance that has to take it"),
    ("next watermark", Kind.EVENT_TIME, "the next watermark that a source with frames lets through"),
    ("fault", Kind.WORD, "what the script does to each holder"),
    ("fault from", Kind.MOMENT, "from when on"),
    ("fault until", Kind.MOMENT, "until when"),
    ("also below", Kind.NAME, "further inputs that are below the watermark that is needed"),
    ("watermark also below", Kind.EVENT_TIME, "that of each"),
    ("not waited for", Kind.NAME, "partitions with a lower watermark, which do not count since they are idle"),
    ("not waited for since", Kind.MOMENT, "when each became so"),
    ("goes on at", Kind.MOMENT, "when the last one goes on that stands still, or of which the script lets no row come"),
    ("row in each of", Kind.NAME, "the partitions in each of which a row is needed"),
    ("row in any of", Kind.NAME, "the partitions in one of which a row is enough"),
    ("row of", Kind.NEEDED_TIME, "the lowest event time that is enough for a row in each of them"),
    ("released at", Kind.MOMENT, "when it is released if no row comes: by the clock, or by idleness"),
    ("run ends", Kind.MOMENT, "when the run ends, if that is before"),
    ("end of", Kind.NAME, "the inputs whose end releases it"),
    ("run", Kind.NAME, "the run"),
    ("held", Kind.COUNT, "how many rows or accumulators a vertex held at the end, in each run"),
    ("held at most", Kind.COUNT, "the most that it held, in each run"),
    ("dropped", Kind.COUNT, "all dropped rows"),
    ("idle when passed", Kind.COUNT, "how many of them were lost since their partition was idle"),
    ("row", Kind.NAME, "the dropped row, or the one asked for"),
    ("dropped by", Kind.NAME, "the vertex"),
    ("rule", Kind.WORD, "by which rule"),
    ("dropped at", Kind.MOMENT, "when it did"),
    ("time", Kind.EVENT_TIME, "its event time"),
    ("lowest taken", Kind.EVENT_TIME, "the lowest event time that the vertex still took then"),
    ("late by", Kind.LENGTH, "by how much the time of the row is below that"),
    ("passed at", Kind.MOMENT, "when the watermark had come by which that time was the lowest"),
    ("lost because", Kind.WORD, "what had let the watermark pass: idle, own rows, not there or not known"),
    ("partition", Kind.NAME, "the partition of the source that the row is from"),
    ("watermark of partition", Kind.NEEDED_TIME, "its own watermark when the row was read"),
    ("lag", Kind.LENGTH, "how far a watermark of the source is behind the rows"),
    ("row before at", Kind.MOMENT, "when the partition last had a row, or began, before the watermark passed"),
    ("idle since", Kind.MOMENT, "from when on a partition was idle, and did not count"),
    ("idle timeout", Kind.LENGTH, "after how long without a row a partition of the source is idle"),
    ("kept with timeout", Kind.BOUND, "an idle timeout of the source that keeps the row; exact if jitter_ms=0"),
)
LABELS: Final[Vocabulary] = {
    **{name: RUN_LABELS[name] for name in ("failed at", "failure", "inputs apart")},
    **_OF_A_MOMENT,
}
AT_A_MOMENT: Final = (
    *FAILED,
    "The job was complete at {complete at}.",
    "The watermark of key {key} at {vertex} is {watermark} since {since}, held by {holder} ({cause}).",
    "The watermark of key {key} at {vertex} is {watermark} since {since}, held by {holder}.",
    "Nothing holds the watermark of key {key} at {vertex}: {watermark} since {since}.",
    "Since the restart at {restarted at} no watermark of key {key} has come at {vertex}; it is held by {holder}.",
    "Since the restart at {restarted at} no watermark of key {key} has come at {vertex}.",
    "No watermark of key {key} has come at {vertex}; it is held by {holder} ({cause}).",
    "No watermark of key {key} has come at {vertex}; it is held by {holder}.",
    "No watermark of key {key} has come at {vertex}.",
)
ENDED: Final = (
    "The last watermark of key {key} at {vertex} was {watermark}, from {since} on.",
    "No watermark of key {key} had come at {vertex}.",
)
RELEASE: Final = (
    TIMES_APART,
    "Nothing waits for {not waited for}, idle since {not waited for since}.",
    "Nothing waits for {not waited for}: idle.",
    "It is not released before {goes on at}.",
    "It waits for {taken by} to take it.",
    "A row of {row of} or later in {row in each of} releases it.",
    "A row of {row of} or later in any of {row in any of} releases it.",
    "It needs a row in {row in each of}.",
    "It needs a row in any of {row in any of}.",
    "Without a row it is released at {released at}; the run ends at {run ends}.",
    "Without a row it is released at {released at}.",
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
    "No row ({row}) of {stream} was dropped.",
    "No row of {stream} was dropped.",
)
IDLE_WHEN_PASSED: Final = (
    "Nothing waited for {partition} when {idle when passed} of them were passed; a timeout "
    "of {kept with timeout} keeps these.",
)
