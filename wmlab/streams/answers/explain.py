"""What holds a time bound at a moment: in the log, at a group's position, or seen; or who held it over the whole run.

Source: PDP-33, Periodic Watermark Workflow and Watermarking in the Reader.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from wmlab.core.arguments import the_choice
from wmlab.core.errors import RecordingError
from wmlab.core.facts import FactAnswer, Facts
from wmlab.core.holders import Holders
from wmlab.core.recording import Recording, moment_of_run
from wmlab.streams.answers.cause import Cause
from wmlab.streams.answers.cause_facts import of_cause, of_upper
from wmlab.streams.answers.curves import LOG, Curve, Curves
from wmlab.streams.answers.history import the_stream
from wmlab.streams.answers.stragglers import stragglers_of
from wmlab.streams.scenario.scenario import StreamScenario

Bound = Literal["lower", "upper"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class BoundExplanation(FactAnswer):
    """What holds a bound of `stream` at `at_ms` (clock): that in its log, at the position of a `group`, or that a
    `reader` saw.

    `value` is the bound (event time, ms; None: unknown) and `cause` what holds the lower one. `facts.label(name)` has
    the meaning of each label.
    """

    at_ms: int
    stream: str
    group: str | None = None
    reader: str | None = None
    bound: Bound = "lower"
    value: int | None
    cause: Cause
    facts: Facts
    templates: tuple[str, ...]


def explain(
    recording: Recording,
    at_ms: int | str | None = None,
    *,
    reader: str | None = None,
    group: str | None = None,
    bound: Bound = "lower",
    stream: str | None = None,
) -> BoundExplanation | Holders:
    """Explain what holds a time bound at `at_ms` (clock, ms); without it, what held the lower bound over the whole run.

    The bound is the one in the stream's log, at the position of a reader `group`, or the one that a `reader` saw at its
    last poll; the `upper` one is the latest time that the counted writers had noted. Without `at_ms` the answer is a
    table: `Holders`. `stream` is needed when there are several. Raises `RecordingError` for a stream, group or
    reader that the recording does not have, for any of them without a moment, and for a moment that is not a whole
    number or outside the run of a scenario. `answer.facts` has everything that is known as typed values. Over the
    whole run that is the longest stop of any curve, refused notes, whether a group reads the stream together with
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
        return stragglers_of(recording, name)
    at_ms = moment_of_run(recording, at_ms)
    curve = Curve(group=group, reader=reader) if reader is not None or group is not None else LOG
    return explain_curve(Curves(recording, name), curve, name, at_ms, bound=bound)


def explain_curve(curves: Curves, curve: Curve, stream: str, at_ms: int, *, bound: Bound = "lower") -> BoundExplanation:
    """What holds a curve of one stream at `at_ms` (clock, ms); for many moments of the same `curves`."""
    cause = curves.cause(curve, at_ms)
    value, (facts, templates) = cause.bound, of_cause(cause)
    if bound == "upper":
        value = curves.upper(curve, at_ms)
        facts, templates = of_upper(cause, value)
    return BoundExplanation(
        at_ms=at_ms,
        stream=stream,
        group=curve.group,
        reader=curve.reader,
        bound=bound,
        value=value,
        cause=cause,
        facts=facts,
        templates=templates,
    )
