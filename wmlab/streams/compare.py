"""Where runs meet: several recordings in, one comparison out."""

from __future__ import annotations

from collections.abc import Sequence

from wmlab.core.errors import RecordingError
from wmlab.core.recording import Recording
from wmlab.streams.answers.compare import MEASURES, differences, run_of
from wmlab.streams.charts.comparison import Comparison, draw_comparison


def compare(*recordings: Recording, labels: Sequence[str] | None = None, stream: str | None = None) -> Comparison:
    """Two or more runs on one axis: their lower bounds, what differs in their scenarios, and what in their results.

    `labels` names the runs, by default as their scenarios are named, numbered where names repeat. `stream` chooses one
    of several streams. Raises `RecordingError` for fewer than two recordings, labels that do not fit, a recording
    without scenario, or a stream that one of them does not have.
    """
    if len(recordings) < 2:
        raise RecordingError(
            f"{len(recordings)} recordings cannot be compared.", remedy="give two or more, as in compare(one, other)."
        )
    names = _labels(recordings, labels)
    runs = [run_of(recording, name, stream) for recording, name in zip(recordings, names, strict=True)]
    results = [(words, tuple(run.measures[key] for run in runs)) for key, words in MEASURES.items()]
    return Comparison(
        labels=names,
        differs=tuple((entry.path, entry.values) for entry in differences(recordings) if entry.path != "name"),
        results=tuple(row for row in results if len(set(row[1])) > 1),
        chart=draw_comparison(
            {run.label: run.bounds for run in runs}, {run.label: run.measures["mean_lag_ms"] for run in runs}
        ),
    )


def _labels(recordings: Sequence[Recording], labels: Sequence[str] | None) -> tuple[str, ...]:
    if labels is None:
        names = [recording.name for recording in recordings]
        return tuple(f"{name} ({n})" if names.count(name) > 1 else name for n, name in enumerate(names, start=1))
    if len(labels) != len(recordings) or len(set(labels)) != len(labels):
        raise RecordingError(
            f"the labels {', '.join(map(repr, labels)) or 'given'} do not name {len(recordings)} recordings.",
            remedy="give every recording a label of its own.",
        )
    return tuple(labels)
