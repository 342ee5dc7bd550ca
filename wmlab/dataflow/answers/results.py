"""The results of a dataflow, as rows with their columns."""

from __future__ import annotations

import json
import warnings
from typing import Any

from wmlab.core.errors import RecordingError
from wmlab.core.recording import Recording, the_only
from wmlab.dataflow.answers.sentences import failure_of


class JobFailedWarning(UserWarning):
    """The job of a recording failed, so that what came out of it may not be all."""


def results(recording: Recording, *, sink: str | None = None) -> Any:
    """The rows of a sink as a pandas DataFrame, in the order in which they came out: their columns, then `at_ms`.

    `at_ms` is when a row came out (clock, ms). Rows that a restart took back are included; the column `committed` of
    the table `sunk` marks them. `sink` is needed when several sinks have rows. Raises `RecordingError` for a sink
    without rows, and for rows that have a column `at_ms` themselves. If the job failed, so that rows may be missing, it
    warns with `JobFailedWarning`.
    """
    import pandas as pd

    if failure := failure_of(recording):
        warnings.warn(f"{failure} Results may be missing.", JobFailedWarning, stacklevel=2)
    sunk = recording.to_pandas("sunk")
    if len(sunk) or sink is not None:
        name = the_only(recording, sink, sorted(sunk.vertex.unique()), "sink", "sinks", option="sink")
        sunk = sunk[sunk.vertex == name]
    rows = pd.DataFrame(map(json.loads, sunk.row))
    if "at_ms" in rows:
        raise RecordingError("The rows have a column 'at_ms' of their own.", remedy="read the table sunk.")
    return rows.assign(at_ms=sunk.at_ms.tolist())
