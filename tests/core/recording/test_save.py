"""A recording is on disk whole or not at all, with the same bytes each time."""

from __future__ import annotations

import json
import os
import stat

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.core.recording.samples import SCENARIO, events, recording
from wmlab.core import storage
from wmlab.core.errors import RecordingError
from wmlab.core.recording import Recording
from wmlab.core.storage import SCHEMA_VERSION
from wmlab.streams.recording import StreamRecording
from wmlab.streams.tables import TABLES


def files_of(directory):
    return {str(p.relative_to(directory)): p.read_bytes() for p in sorted(directory.rglob("*")) if p.is_file()}


def test_a_recording_is_a_manifest_and_one_dataset_per_table(tmp_path):
    saved = recording().save(tmp_path / "runs" / "r")
    assert saved.path == tmp_path / "runs" / "r"
    assert set(files_of(saved.path)) == {"recording.json"} | {f"{name}/part-0.parquet" for name in TABLES}
    manifest = json.loads((saved.path / "recording.json").read_text())
    assert isinstance(manifest.pop("wmlab_version"), str)
    told = {"name": "split under load", "scenario": SCENARIO, "seed": 7}
    form = {"format": "wmlab recording", "schema_version": SCHEMA_VERSION, "kind": "streams"}
    assert manifest == form | told | {"rows": recording().counts}


def test_a_dataset_is_plain_parquet_with_text_as_text(tmp_path):
    file = recording().save(tmp_path / "r").path / "events" / "part-0.parquet"
    columns = pq.ParquetFile(file).metadata.row_group(0)
    by_name = {columns.column(i).path_in_schema: columns.column(i) for i in range(columns.num_columns)}
    assert "RLE_DICTIONARY" in by_name["writer"].encodings
    assert "DELTA_BINARY_PACKED" in by_name["append_ms"].encodings
    assert pq.read_schema(file).field("writer").type == pa.string()
    assert str(pq.ParquetFile(file).schema.column(5).logical_type) == "String"


def test_equal_recordings_give_equal_bytes_however_they_were_chunked(tmp_path):
    rows = events(50_000)
    whole = StreamRecording.from_tables({"events": rows}, name="r").save(tmp_path / "whole")
    table = whole.table("events")
    pieces = pa.concat_tables([table.slice(0, 7), table.slice(7, 30_000), table.slice(30_007)])
    coded = pieces.set_column(5, "writer", pieces["writer"].dictionary_encode())
    chunked = StreamRecording.from_tables({"events": coded}, name="r").save(tmp_path / "chunked")
    again = Recording.read(whole.path).save(tmp_path / "again")
    assert files_of(whole.path) == files_of(chunked.path) == files_of(again.path)


def test_others_may_read_what_was_saved_as_the_umask_says(tmp_path):
    saved = recording().save(tmp_path / "r")
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(saved.path.stat().st_mode) == 0o777 & ~umask


FULL = OSError(28, "No space left on device")
KILLED = [(table, KeyboardInterrupt(), KeyboardInterrupt, "^$") for table in range(len(TABLES))]


@pytest.mark.parametrize(
    ("failing", "failure", "raised", "said"),
    [*KILLED, (len(TABLES), FULL, RecordingError, "cannot be written.*No space left")],
)
def test_a_save_that_is_killed_or_that_the_disk_refuses_leaves_nothing(
    tmp_path, monkeypatch, failing, failure, raised, said
):
    calls = iter(range(len(TABLES) + 1))

    def to_disk(file):
        if next(calls) == failing:
            raise failure

    monkeypatch.setattr(storage, "_to_disk", to_disk)
    with pytest.raises(raised, match=said):
        recording().save(tmp_path / "r")
    assert list(tmp_path.iterdir()) == []


def test_a_parent_that_is_a_file_is_a_recording_error(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(RecordingError, match="cannot be written"):
        recording().save(tmp_path / "file" / "r")


@pytest.mark.parametrize("content", ["recording", "file", "folder"])
def test_nothing_that_exists_is_overwritten(tmp_path, content):
    if content == "recording":
        recording().save(tmp_path / "r")
    elif content == "file":
        (tmp_path / "r").write_text("mine")
    else:
        (tmp_path / "r").mkdir()
    before = files_of(tmp_path)
    with pytest.raises(RecordingError, match="exists already"):
        recording(seed=8).save(tmp_path / "r")
    assert files_of(tmp_path) == before
