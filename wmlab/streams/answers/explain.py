"""Why a stream's lower bound stands where it does at a moment.

The cause is taken from what was known by then; only the release is a prediction, by the rules, for the case that
nothing else happens.

Source: PDP-33, Periodic Watermark Workflow; upstream class `PeriodicWatermarking`.
"""

from __future__ import annotations

from wmlab.core.recording import Recording
from wmlab.streams.answers.cause import Cause, hold_of
from wmlab.streams.answers.explanation import Explanation, HoldingWriter
from wmlab.streams.answers.known import Known, known_at, of_stream, the_stream
from wmlab.streams.answers.rules import Rules
from wmlab.streams.answers.told import Case, sentence_of


def explain_log(
    recording: Recording, *, at_ms: int, rules: Rules | None = None, stream: str | None = None
) -> Explanation:
    """What holds the lower bound of the stream's marks log at `at_ms` (clock, ms).

    Without `rules` (a recording of the outside world) nothing is predicted. Raises `RecordingError` for a stream that
    the recording does not have, or when it has several and none is named.
    """
    name = the_stream(recording, stream)
    known = known_at(recording, name, at_ms)
    hold = hold_of(known)
    case = Case(
        known=known,
        hold=hold,
        writers=tuple(holding_writer(known, writer, rules, hold.cause) for writer in hold.writers),
        wrote=wrote_without_noting(recording, name, at_ms) if hold.cause is Cause.NO_MARK else (),
        rules=rules,
    )
    return Explanation(
        at_ms=at_ms,
        stream=name,
        lower=known.lower,
        cause=_named(known, hold.cause),
        writers=case.writers,
        since_ms=hold.since_ms,
        by_ms=hold.by_ms,
        release_ms=case.release_ms,
        sentence=sentence_of(case),
    )


def holding_writer(known: Known, name: str, rules: Rules | None, cause: Cause) -> HoldingWriter:
    """What is known of a writer that holds the bound; `rules` say when it is dropped."""
    noted = known.on_record.get(name)
    lagging = cause is Cause.LAGGING
    return HoldingWriter(
        writer=name,
        state=known.state_of(name),
        time=noted.time if noted else None,
        noted_ms=noted.noted_ms if noted else None,
        behind_since_ms=known.behind_since.get(name),
        dropped_ms=rules.drops_at_ms(known, name) if rules and lagging else None,
        refused=noted.refused if noted else None,
    )


def wrote_without_noting(recording: Recording, stream: str, at_ms: int) -> tuple[str, ...]:
    """Who had written by then, for a moment at which nobody had noted a time."""
    events = of_stream(recording.table("events"), stream, "append_ms", at_ms)
    return tuple(sorted(events["writer"].unique().to_pylist()))


def _named(known: Known, cause: Cause) -> str:
    return str(known.cycle["reason"]) if cause is Cause.FAILED and known.cycle is not None else cause.value
