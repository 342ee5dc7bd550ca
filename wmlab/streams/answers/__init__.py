"""Answers from a recording: verdicts, what held the bounds, what each straggler cost, and what happened."""

from __future__ import annotations

from wmlab.core.answers.stragglers import Stragglers
from wmlab.core.errors import RecordingError
from wmlab.core.recording import Recording, the_moment
from wmlab.core.words import moment
from wmlab.streams.answers.explain import Explanation, explain_log, scenario_span, stragglers_of
from wmlab.streams.answers.history import UNPREDICTED, Rules
from wmlab.streams.answers.reader import explain_reader


def explain(
    recording: Recording,
    *,
    at_ms: int | None = None,
    reader: str | None = None,
    stream: str | None = None,
    rules: Rules = UNPREDICTED,
) -> Explanation | Stragglers:
    """What holds the lower bound at `at_ms` (clock, ms), of the stream or as `reader` sees it; or who held it in all.

    Without `at_ms` the answer is a table over the whole run: `Stragglers`. `stream` is needed when there are several,
    `rules` for predictions. Raises `RecordingError` for a stream or reader that the recording does not have, for a
    reader without a moment, and for a moment that is not a whole number or outside the run of a scenario.
    """
    if at_ms is None:
        if reader is not None:
            raise RecordingError(
                f"Reader {reader!r} is named, but no moment.", remedy="give at_ms=..., or leave the reader out."
            )
        return stragglers_of(recording, stream=stream, rules=rules)
    at_ms = the_moment(at_ms)
    planned = scenario_span(recording)
    if planned is not None and not planned[0] <= at_ms <= planned[1]:
        raise RecordingError(
            f"{moment(at_ms)} is outside the run, which lasts from {moment(planned[0])} to {moment(planned[1])}.",
            remedy="give a moment of the run.",
        )
    if reader is None:
        return explain_log(recording, at_ms=at_ms, rules=rules, stream=stream)
    return explain_reader(recording, at_ms=at_ms, reader=reader, rules=rules, stream=stream)
