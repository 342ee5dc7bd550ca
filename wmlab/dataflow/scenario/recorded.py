"""The dataflow that a recording is one of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from wmlab.core.errors import RecordingError
from wmlab.core.recording import Recording
from wmlab.core.values import Problems
from wmlab.dataflow.scenario.dataflow import DataflowScenario

T = TypeVar("T", bound=DataflowScenario)


def dataflow_of(recording: Recording, made: type[T], *, stand_ins: bool = False) -> T:
    """The dataflow that was recorded, as a value of class `made`.

    With `stand_ins` its Python functions are replaced by one that is never called. Raises `RecordingError` if it was
    no dataflow, or had Python functions.
    """
    scenario = recording.scenario
    if scenario is None or "vertices" not in scenario:
        raise RecordingError(
            f"{recording.name!r} is no recording of a dataflow.",
            remedy="ask a recording that Dataflow.record made.",
        )
    if stand_ins:
        scenario = {**scenario, "vertices": [_with_stand_ins(vertex) for vertex in scenario["vertices"]]}
    try:
        return TypeAdapter(made).validate_python(scenario)
    except (ValidationError, Problems):
        raise RecordingError(
            f"the dataflow of {recording.name!r} has Python functions, which a recording does not keep.",
            remedy="keep the dataflow itself, or write its functions as expressions.",
        ) from None


def _with_stand_ins(vertex: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _stand_in if name in ("function", "where") and str(part).startswith("function ") else part
        for name, part in vertex.items()
    }


def _stand_in(row: dict[str, Any]) -> dict[str, Any]:
    raise NotImplementedError("A recording does not keep the Python functions of its dataflow.")
