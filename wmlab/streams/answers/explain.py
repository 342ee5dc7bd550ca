"""What holds a time bound at a moment: of the log, of a reader group or of a reader; or who held it over the whole run.

Source: PDP-33, Periodic Watermark Workflow and Watermarking in the Reader.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from wmlab.core.answers import Answer, Stragglers
from wmlab.core.arguments import the_choice
from wmlab.core.errors import RecordingError
from wmlab.core.recording import Recording, moment_of_run, planned_span
from wmlab.core.words import clock_words, moment
from wmlab.streams.answers.cause import Cause, longest_cause
from wmlab.streams.answers.curves import LOG, Curve, Curves
from wmlab.streams.answers.history import rows_of_stream, the_stream
from wmlab.streams.answers.sentences import GROUP, because, log_sentences, reader_sentences, upper_sentences
from wmlab.streams.answers.stragglers import stragglers_of
from wmlab.streams.answers.together import streams_apart
from wmlab.streams.answers.written import SilentWriter
from wmlab.streams.scenario.scenario import StreamScenario
from wmlab.streams.tables import NEVER_CAME

Bound = Literal["lower", "upper"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class BoundExplanation(Answer):
    """What holds a bound of `stream` at `at_ms` (clock): of its log, or as a `group` or `reader` knows it.

    `value` is the bound (event time, ms; None: unknown) and `cause` what holds the lower one. `silent` is the imported
    writer whose newest event is furthest below the bound, if it is silent and goes on noting times.
    """

    at_ms: int
    stream: str
    group: str | None = None
    reader: str | None = None
    bound: Bound = "lower"
    value: int | None
    cause: Cause
    silent: SilentWriter | None = None
    sentence: str


def explain(
    recording: Recording,
    at_ms: int | str | None = None,
    *,
    reader: str | None = None,
    group: str | None = None,
    bound: Bound = "lower",
    stream: str | None = None,
) -> BoundExplanation | Stragglers:
    """What holds a time bound at `at_ms` (clock, ms); or, without it, who held the lower bound over the whole run.

    The bound is that of the stream's log, of what a reader `group` knows, or of what a `reader` saw when it last
    looked; the `upper` one is the latest time that the counted writers had noted. Without `at_ms` the answer is a
    table: `Stragglers`. `stream` is needed when there are several. Raises `RecordingError` for a stream, group or
    reader that the recording does not have, for any of them without a moment, and for a moment that is not a whole
    number or outside the run of a scenario. Over the whole run it also says if a group reads the stream together with
    others whose event times do not overlap, and which acts of the script waited for a moment that never came.
    """
    name = the_stream(recording, stream)
    recording.scenario_as(StreamScenario)  # a damaged scenario is refused before its times are read
    the_choice(bound, "bound", ("lower", "upper"), RecordingError)
    if at_ms is None:
        if reader is not None or group is not None or bound == "upper":
            asked = f"Reader {reader!r}" if reader is not None else f"Group {group!r}" if group else "The upper bound"
            raise RecordingError(
                f"{asked} is named, but no moment.", remedy="give at_ms=..., or leave it out for the whole run."
            )
        incidents = rows_of_stream(recording, "incidents", name)
        notes = [sentence for streams, sentence in streams_apart(recording).values() if name in streams]
        planned = planned_span(recording)
        if planned is not None and not rows_of_stream(recording, "cycles", name):
            notes.append(f"No watermark cycle ran before the run ended at {moment(planned[1])}.")
        notes += [
            f"{row['detail'][:1].upper()}{row['detail'][1:]}." for row in incidents if row["outcome"] == NEVER_CAME
        ]
        return stragglers_of(recording, name, notes=notes)
    at_ms = moment_of_run(recording, at_ms)
    curve = Curve(group=group, reader=reader) if reader is not None or group is not None else LOG
    return explain_curve(Curves(recording, name), curve, name, at_ms, bound=bound)


def explain_curve(curves: Curves, curve: Curve, stream: str, at_ms: int, *, bound: Bound = "lower") -> BoundExplanation:
    """What holds a curve of one stream at `at_ms` (clock, ms); for many moments of the same `curves`."""
    cause = curves.cause(curve, at_ms)
    value, silent = cause.bound, None
    who = None if curve == LOG else curve.reader or GROUP
    if bound == "upper":
        value, writers = curves.upper(curve, at_ms)
        sentence = upper_sentences(cause, value, writers, who)
    elif who is not None:
        sentence = reader_sentences(cause, who)
    else:
        sentence = log_sentences(cause)
        silent = curves.written.silent_at(curves.state_at(at_ms))
        silent = None if silent is None or silent.writer in cause.names else silent
        sentence += _silent(silent, at_ms)
    return BoundExplanation(
        at_ms=at_ms,
        stream=stream,
        group=curve.group,
        reader=curve.reader,
        bound=bound,
        value=value,
        cause=cause,
        silent=silent,
        sentence=sentence,
    )


def stretch_words(curves: Curves, curve: Curve, from_ms: int, to_ms: int) -> str:
    """What held a curve from one moment to another (clock, ms), as a clause: "w2 was down"; "" if it is not known."""
    longest = longest_cause(list(curves.spans(curve, start_ms=from_ms, end_ms=to_ms)))
    return "" if longest is None else because(longest.cause)


def _silent(silent: SilentWriter | None, at_ms: int) -> str:
    """The imported writer that has sent nothing above the bound for longest, though it goes on noting times."""
    if silent is None:
        return ""
    return (
        f" {silent.writer} is furthest behind by its events: its newest has the time "
        f"{clock_words(silent.newest, clock_ms=at_ms)}. It has sent nothing since {clock_words(silent.sent_ms)}, but "
        "goes on noting times."
    )
