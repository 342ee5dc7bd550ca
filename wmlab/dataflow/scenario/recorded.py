"""The dataflow that a recording is one of."""

from __future__ import annotations

from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from wmlab.core.errors import RecordingError
from wmlab.core.recording import Recording
from wmlab.core.values import Problems
from wmlab.dataflow.scenario.dataflow import DataflowScenario

T = TypeVar("T", bound=DataflowScenario)


def dataflow_of(recording: Recording, made: type[T]) -> T:
    """The dataflow that was recorded, as a value of class `made`.

    Raises `RecordingError` if it was none, or had Python functions.
    """
    told = recording.scenario
    if told is None or "vertices" not in told:
        raise not_a_dataflow(recording)
    try:
        return TypeAdapter(made).validate_python(told)
    except (ValidationError, Problems):
        raise RecordingError(
            f"the dataflow of {recording.name!r} has Python functions, which a recording does not keep.",
            remedy="keep the dataflow itself, or write its functions as expressions.",
        ) from None


def not_a_dataflow(recording: Recording) -> RecordingError:
    """The error about a recording that does not say which dataflow was run."""
    return RecordingError(
        f"{recording.name!r} is no recording of a dataflow.",
        remedy="ask a recording that Dataflow.record made.",
    )
