"""Several runs as one recording, so that one query or one check answers for all of them."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from wmlab.core.errors import RecordingError
from wmlab.core.recording import Recording, of_one_kind


def as_streams(recordings: Mapping[str, Recording], *, name: str) -> Recording:
    """Several recordings as one of that name: each is a stream of it, called as the mapping calls the recording.

    It has every table that names the stream of each row, whole; rows about no stream are left out, and it has no
    scenario. Raises `RecordingError` for no recordings, for recordings of different kinds, and for one of several
    streams.
    """
    remedy = "give one or more recordings of streams, of dataflows or of query plans, by their names."
    made = of_one_kind(recordings.values(), remedy=remedy)
    tables = {
        table: pa.concat_tables([_renamed(recording, table, stream) for stream, recording in recordings.items()])
        for table, schema in made.schemas.items()
        if "stream" in schema.names
    }
    return made.from_tables(tables, name=name)


def _renamed(recording: Recording, table: str, stream: str) -> pa.Table:
    """The rows of a table that are about the stream of a recording, under another name of the stream."""
    rows = recording.table(table)
    rows = rows.filter(pc.is_valid(rows["stream"]))
    if len(names := sorted(rows["stream"].unique().to_pylist())) > 1:
        raise RecordingError(
            f"The recording {recording.name!r} has several streams: {', '.join(names)}.",
            remedy="give recordings of one stream each.",
        )
    index = rows.schema.get_field_index("stream")
    return rows.set_column(index, rows.schema.field(index), pa.array([stream] * rows.num_rows, pa.string()))
