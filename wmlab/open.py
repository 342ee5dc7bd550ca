"""Open what was saved: recordings, scenario files and the logs of `wm.trace`, of any kind; and decode segment ids.

Each kind has a line here, and only here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from wmlab.core import namespace
from wmlab.core.recording import Recording, as_streams
from wmlab.core.scenario_file import parse_scenario, read_scenario_text
from wmlab.core.traces import DIRECTORY, TRACE_SCHEMA, Trace, TraceEvent, load, names
from wmlab.dataflow.recording import Dataflow
from wmlab.progress.recording import PlanScenario
from wmlab.strategies.log_profile import Profile, profile
from wmlab.streams.api import Scenario
from wmlab.streams.model.segment import as_segment_id as segment_id, segment_name

__all__ = [
    "DIRECTORY",
    "TRACE_SCHEMA",
    "Profile",
    "Recording",
    "Trace",
    "TraceEvent",
    "as_streams",
    "load",
    "names",
    "profile",
    "segment_id",
    "segment_name",
]
namespace(__name__)

_OTHERS: Final[tuple[Any, ...]] = (
    Dataflow,
    PlanScenario,
)
"""The scenarios that are not of streams."""


def load_scenario(path: str | Path) -> Any:
    """The scenario in a YAML file, or one that comes with wmlab by its name: of query plans if it has queries, of a
    dataflow if it has vertices, else of streams.

    Raises `ScenarioError` with every mistake, its location and line.
    """
    text, source = read_scenario_text(path), str(path)
    data, _ = parse_scenario(text, source)
    made = next((other for other in _OTHERS if other.only_field in data), Scenario)
    return made.from_yaml(text, source=source)


def load_recording(path: str | Path) -> Any:
    """Open the recording that was saved at `path`, as the class of its kind: `wm.load("runs/first")`.

    Raises `RecordingError` as `Recording.read` does.
    """
    return Recording.read(path)
