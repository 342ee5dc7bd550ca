"""Why a lower bound stands where it does: the stream's own, or a reader's; or who held it over the whole run.

Source: PDP-33, Periodic Watermark Workflow and Watermarking in the Reader.
"""

from __future__ import annotations

from dataclasses import replace

from wmlab.core.answers import Stragglers
from wmlab.core.arguments import the_moment
from wmlab.core.errors import RecordingError
from wmlab.core.recording import Recording
from wmlab.core.words import moment
from wmlab.streams.answers.history import PredictionRules, recorded_rules, rows_of_stream, scenario_span, the_stream
from wmlab.streams.answers.reader_bound import explain_reader
from wmlab.streams.answers.stragglers import stragglers_of
from wmlab.streams.answers.stream_bound import BoundExplanation, explain_stream
from wmlab.streams.answers.together import streams_apart
from wmlab.streams.tables import NEVER_CAME


def explain(
    recording: Recording,
    at_ms: int | str | None = None,
    *,
    reader: str | None = None,
    stream: str | None = None,
    rules: PredictionRules | None = None,
) -> BoundExplanation | Stragglers:
    """What holds the lower bound at `at_ms` (clock, ms), of the stream or as `reader` sees it; or who held it in all.

    Without `at_ms` the answer is a table over the whole run: `Stragglers`. `stream` is needed when there are several;
    `rules`, for predictions, are by default those of the recorded scenario. Raises `RecordingError` for a stream or
    reader that the recording does not have, for a reader without a moment, and for a moment that is not a whole number
    or outside the run of a scenario. Over the whole run it also says if a group reads the stream together with others
    whose event times do not overlap, and which acts of the script waited for a moment that never came.
    """
    name = the_stream(recording, stream)
    rules = rules or recorded_rules(recording, name)
    if at_ms is None:
        if reader is not None:
            raise RecordingError(
                f"Reader {reader!r} is named, but no moment.", remedy="give at_ms=..., or leave the reader out."
            )
        stragglers, apart = stragglers_of(recording, name, rules), streams_apart(recording).values()
        notes = [sentence for streams, sentence in apart if name in streams]
        incidents = rows_of_stream(recording, "incidents", name)
        notes += [
            f"{row['detail'][:1].upper()}{row['detail'][1:]}." for row in incidents if row["outcome"] == NEVER_CAME
        ]
        return replace(stragglers, notes=(*stragglers.notes, *notes))
    at_ms = the_moment(at_ms, start_ms=recording.start_ms)
    planned = scenario_span(recording)
    if planned is not None and not planned[0] <= at_ms <= planned[1]:
        raise RecordingError(
            f"{moment(at_ms)} is outside the run, which lasts from {moment(planned[0])} to {moment(planned[1])}.",
            remedy="give a moment of the run.",
        )
    if reader is None:
        return explain_stream(recording, name, at_ms=at_ms, rules=rules)
    return explain_reader(recording, name, at_ms=at_ms, reader=reader, rules=rules)
