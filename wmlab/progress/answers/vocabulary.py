"""The words of all answers about query plans: what befalls a missing buffer, labels, and sentences, in one table each.

A *holder* is an origin whose local watermark is the global one. An operator that has put out all it could is none: what
holds the watermark there holds this one, too. What a holder lacks is the sequence behind its longest complete prefix.

Source: "Watermarking and Progress", Reasoning about progress.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from wmlab.core.facts import Kind, Vocabulary, vocabulary
from wmlab.core.holders import RUN_LABELS


class State(StrEnum):
    """What has become of the sequence that a holder lacks. The first one here that is true is said."""

    NOT_COMPLETE = "not complete by the rule"
    LOST = "lost"
    DELAYED = "delayed"
    STALLED = "held by a worker"
    ON_ITS_WAY = "on its way"
    SILENT = "silent"
    ENDED = "ended"
    NOT_SENT = "not sent yet"
    MISSING = "missing"


MEANINGS: Final[Mapping[State, str]] = {
    State.NOT_COMPLETE: "all chunks of the sequence had come, and it was not complete by the rule of the scenario",
    State.DELAYED: "the script delayed the buffer, or a chunk of it",
    State.STALLED: "a worker that stood still had the buffer in hand",
    State.ON_ITS_WAY: "the buffer had been sent, and waited for workers or was with one",
    State.SILENT: "the source received nothing any more, and never sends the sequence",
    State.MISSING: "the sequence had not come, and no script tells why",
}
"""What each state means whose name does not say it."""

_OF_PLANS: Final = vocabulary(
    # A moment.
    ("moment", Kind.MOMENT, "the explained one"),
    ("query", Kind.NAME, "the query"),
    ("operator", Kind.NAME, "the operator"),
    ("watermark", Kind.MOMENT, "the smallest local watermark of its origins; absent while one of them has none"),
    ("watermark since", Kind.MOMENT, "when it last changed"),
    (
        "holder",
        Kind.NAME,
        "the origins that hold it, in the order declared; of an operator that waits those that it has",
    ),
    ("holder state", Kind.WORD, "what has become of the sequence that each of them lacks"),
    ("holder since", Kind.MOMENT, "since when; absent if it is not known"),
    ("holder until", Kind.MOMENT, "until when, by the script"),
    ("worker", Kind.COUNT, "number of the worker that stands still"),
    ("missing at", Kind.NAME, "the operator where the sequence of each holder is missing"),
    ("missing sequence", Kind.COUNT, "number of the first sequence that is not complete there"),
    ("missing chunks", Kind.NAME, "those of its chunks that are known to be missing, ten at most"),
    ("waiting behind", Kind.COUNT, "how many buffers of later sequences have come there"),
    ("rule", Kind.WORD, "the rule by which the sequence is not complete"),
    ("others", Kind.NAME, "the other origins of the operator that have a local watermark, the lowest first"),
    ("others at", Kind.MOMENT, "their local watermarks"),
    # The head of a chart.
    ("to", Kind.MOMENT, "when the longest stop ended, or the run; of a table alone, the last arrival"),
    ("held by", Kind.NAME, "who held it for longest in that stop; a table alone does not tell"),
    ("unknown for", Kind.LENGTH, "for how long the watermark was unknown"),
    ("unheard of", Kind.NAME, "the origins without a local watermark, where the global one was never known"),
    ("steps back", Kind.COUNT, "how often the watermark became smaller"),
    ("emitter", Kind.NAME, "the origin whose prefix is drawn"),
    ("waited for", Kind.COUNT, "the sequence behind its prefix for which later ones waited longest"),
    ("waited from", Kind.MOMENT, "when the first of them had come"),
    ("waited to", Kind.MOMENT, "when the missing sequence was complete; absent if it was not until the end"),
    ("windows", Kind.COUNT, "fired windows"),
    ("fired at the end", Kind.COUNT, "how many of them fired only at the end of the stream"),
    ("longest without", Kind.LENGTH, "longest time between two windows that follow each other"),
)
LABELS: Final[Vocabulary] = {**{name: RUN_LABELS[name] for name in ("longest stop", "at", "from")}, **_OF_PLANS}
"""All labels of answers about a moment of a plan, and of the heads of charts.

A label with several values has them in the order of `holder`, or of `others`.
"""

Templates = tuple[str, ...]
_WAITS: Final = "The watermark waits for sequence {missing sequence} of {holder}"
_SEVERAL: Final = "The watermark waits for {holder}."
OF_STATE: Final[Mapping[State, Templates]] = {
    State.NOT_COMPLETE: (_WAITS + ", which has come and is not complete by the rule '{rule}'.", _SEVERAL),
    State.LOST: (_WAITS + ", which was lost at {holder since} and never comes.", _SEVERAL),
    State.DELAYED: (_WAITS + ", which is delayed until {holder until}.", _SEVERAL),
    State.STALLED: (_WAITS + ", which worker {worker} holds, until {holder until} at least.", _SEVERAL),
    State.ON_ITS_WAY: (_WAITS + ", which has been on its way since {holder since}.", _SEVERAL),
    State.SILENT: ("The watermark waits for {holder}, which has been silent since {holder since}.", _SEVERAL),
    State.ENDED: ("The watermark waits for {holder}, which ended at {holder since}.", _SEVERAL),
    State.NOT_SENT: (_WAITS + ", which has not been sent yet.", _SEVERAL),
    State.MISSING: (_WAITS + ".", _SEVERAL),
}
"""Headlines by the state of what the first holder lacks; of several holders the last one, which names them all."""
OF_WATERMARK: Final[Templates] = (
    "At {operator} of {query} it has been {watermark} since {watermark since}.",
    "At {operator} of {query} it is unknown.",
)
"""The sentence after the headline."""
OF_PROGRESS: Final[Templates] = (
    "The global watermark stood at {at} for {longest stop}, held by {held by}.",
    "The global watermark stood at {at} for {longest stop}.",
    "The global watermark is unknown throughout; nothing complete came from {unheard of}.",
    "The global watermark is unknown throughout.",
)
OF_PREFIX: Final[Templates] = (
    "Sequences of {emitter} waited for sequence {waited for} from {waited from} to {waited to}.",
    "Sequences of {emitter} waited for sequence {waited for} from {waited from} to the end.",
    "No sequence of {emitter} waited for an earlier one.",
)
OF_WINDOWS: Final[Templates] = (
    "Windows of {query} that fired: {windows}, only at the end of the stream: {fired at the end}.",
)
"""The headlines of the charts: the first one whose labels are all there."""
