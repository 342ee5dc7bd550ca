"""Who held the lower bound of a stream over a whole run.

At every moment of the run one cause holds the bound (`wmlab.streams.answers.explain`). It is taken from the last cycle;
what the bound would have been without its writers is taken from the times the others had noted by that cycle.

Source: PDP-33, Periodic Watermark Workflow; upstream class `PeriodicWatermarking`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow.compute as pc

from wmlab.core.answers.stragglers import Stragglers, Stretch, stragglers_from
from wmlab.core.recording import Recording
from wmlab.streams.answers.explain import Cause, CauseKind, causes
from wmlab.streams.answers.history import RunHistory, of_stream, the_stream

_WHO = {
    CauseKind.NO_MARK: "nobody had noted a time",
    CauseKind.FIRST_CYCLE: "the first cycle had not run",
    CauseKind.NOBODY_LEFT: "no active writer was left",
}


def stragglers_of(recording: Recording, *, stream: str | None = None) -> Stragglers:
    """The stragglers of the stream's lower bound from the stream's creation to the end of the run, or its deletion.

    A run ends when its scenario does; one of the outside world, or one that was stopped, with the last thing recorded.

    Raises `RecordingError` for a stream that the recording does not have, or when it has several and none is named.
    """
    name = the_stream(recording, stream)
    start_ms, end_ms = _run(recording, name)
    return stragglers_from(_stretches(recording, name, start_ms, end_ms), stream=name, run_ms=end_ms - start_ms)


def _run(recording: Recording, stream: str) -> tuple[int, int]:
    """From the creation of the stream to its deletion, or else the end of the run."""
    times: list[int] = []
    for name, when in _TIMED.items():
        found = of_stream(recording.table(name), stream, when)[when]
        times += [pc.min(found).as_py(), pc.max(found).as_py()] if len(found) else []
    faults = of_stream(recording.table("incidents"), stream, "at_ms")
    deleted_ms = pc.max(faults.filter(pc.equal(faults["kind"], "delete"))["at_ms"]).as_py()
    ends = (deleted_ms, _planned_end_ms(recording), max(times, default=0))
    return min(times, default=0), next(at for at in ends if at is not None)


def _planned_end_ms(recording: Recording) -> int | None:
    """When the scenario of a finished run ends; None when the run was stopped or has no scenario."""
    scenario = recording.scenario
    if scenario is None or "duration_ms" not in scenario or not recording.manifest.finished:
        return None
    return int(scenario.get("start_ms", 0)) + int(scenario["duration_ms"])


_TIMED = {
    "segments": "created_ms",
    "writer_marks": "received_ms",
    "cycles": "at_ms",
    "events": "append_ms",
    "positions": "at_ms",
    "windows": "at_ms",
}


def _stretches(recording: Recording, stream: str, start_ms: int, end_ms: int) -> Iterator[Stretch]:
    for from_ms, to_ms, history, cause in causes(recording, stream, start_ms=start_ms, end_ms=end_ms):
        who = _who(history, cause)
        yield Stretch(who, cause.kind.value, from_ms, to_ms, cause.by_ms, len(who))


def _who(history: RunHistory, cause: Cause) -> tuple[str, ...]:
    if cause.writers:
        return cause.writers
    if cause.kind is CauseKind.FAILED:
        return (history.cycle["reason"] or "the watermark was not appended",) if history.cycle is not None else ()
    return (_WHO[cause.kind],)
