"""A watermark before 1973 is a date where the clock of the queries has dates, and a duration where it begins at 0."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.progress.sim.plans import query, scenario, source
from wmlab.progress.recording import ProgressRecording

START_MS = 1_388_757_600_000


@pytest.mark.parametrize(
    ("at_ms", "watermark", "said"),
    [
        (START_MS, 0, "it has been 1970-01-01 00:00:00 since 2014-01-03 14:00:00."),
        (START_MS, -2_082_844_800_000, "it has been 1904-01-01 00:00:00 since 2014-01-03 14:00:00."),
        (9_000, 0, "it has been 0 s since 9.0 s."),
    ],
)
def test_the_clock_says_whether_a_watermark_is_a_date(at_ms: int, watermark: int, said: str) -> None:
    buffers = scenario(queries=[query(source("a", times_ms=[5]))]).record().table("buffers")
    (row,) = (row for row in buffers.to_pylist() if row["operator"] == "build")
    row |= {"arrived_ms": at_ms, "watermark": watermark}
    table = pa.Table.from_pylist([row], schema=buffers.schema)
    bare = ProgressRecording.from_tables({"buffers": table}, name="bare")
    assert said in bare.explain(at_ms=at_ms).sentence.replace(" UTC", "")
