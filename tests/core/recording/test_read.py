"""Reading says plainly what is wrong, one sentence per kind of damage."""

from __future__ import annotations

import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.core.recording.samples import events, recording
from wmlab.core.errors import RecordingError
from wmlab.core.recording import Recording
from wmlab.core.storage import SCHEMA_VERSION
from wmlab.streams.recording import StreamRecording
from wmlab.streams.tables import TABLES


@pytest.fixture
def saved(tmp_path):
    return recording().save(tmp_path / "r").path


def problem_of(path, **options):
    with pytest.raises(RecordingError) as raised:
        Recording.read(path, **options)
    assert raised.value.remedy
    return raised.value.problem


def changed(change):
    """What makes of the bytes of a Parquet file those of the changed table."""

    def rewritten(whole):
        written = pa.BufferOutputStream()
        pq.write_table(change(pq.read_table(pa.BufferReader(whole))), written)
        return written.getvalue()

    return rewritten


@pytest.mark.parametrize(
    "made", [recording(), StreamRecording.from_tables({}, name="r")], ids=["whole", "without scenario"]
)
def test_what_was_saved_is_read_back(tmp_path, made):
    path = made.save(tmp_path / "r").path
    read = Recording.read(str(path))
    assert (read, read.path) == (made, path)
    assert all(read.table(name).schema.equals(TABLES[name], check_metadata=True) for name in TABLES)


def test_rows_are_read_when_a_table_is_first_used(saved, monkeypatch):
    opened = []
    genuine = pq.ParquetFile.read_row_group

    def counted(self, *given):
        opened.append(1)
        return genuine(self, *given)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", counted)
    read = Recording.read(saved)
    assert (opened, read.counts["events"]) == ([], 4)
    assert read.table("events") is read.table("events")
    assert opened == [1]


def test_a_path_that_is_missing_or_no_recording(tmp_path):
    (tmp_path / "file").write_text("x")
    assert "there is no recording at" in problem_of(tmp_path / "nothing")
    assert "is not a recording: it has no recording.json" in problem_of(tmp_path)
    assert "is not a recording: it is a file" in problem_of(tmp_path / "file")


NEWER = SCHEMA_VERSION + 1


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"schema_version": NEWER, "name": None}, f"schema version {NEWER}, newer than {SCHEMA_VERSION}"),
        ({"schema_version": SCHEMA_VERSION - 1}, "was recorded by an older wmlab"),
        ({"schema_version": 1, "kind": None}, f"it has schema version 1, this one reads {SCHEMA_VERSION}"),
        ({"schema_version": "1"}, "is damaged: schema_version is '1', which is not a whole number"),
        ({"name": None}, "is damaged: name: input should be a valid string (got None)"),
        ({"seed": "7"}, "is damaged: seed: input should be a valid integer (got '7')"),
        ({"wmlab_version": 3}, "is damaged: wmlab_version: input should be a valid string (got 3)"),
        ({"rows": {"events": 4}}, "is damaged: rows is {'events': 4}"),
        ({"rows": None}, "is damaged: its rows or its scenario are not an object"),
        ({"rows": dict.fromkeys(TABLES, -1)}, "is damaged: rows[0][1]: input should be greater than or equal to 0"),
        ({"rows": dict.fromkeys([*TABLES, "more"], 0)}, "'more': 0"),
        ({"scenario": [1]}, "is damaged: its rows or its scenario are not an object"),
    ],
)
def test_a_manifest_with_a_wrong_version_or_field(saved, changes, said):
    file = saved / "recording.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))
    assert said in problem_of(saved)


EVENTS, MESSAGES = (f"{table}/part-0.parquet" for table in ("events", "messages"))
BARE = {"format": "wmlab recording", "schema_version": SCHEMA_VERSION, "name": "r"}
FLOATS = [column.with_type(pa.float64()) if column.name == "offset" else column for column in TABLES["events"]]


@pytest.mark.parametrize(
    ("file", "damaged", "said"),
    [
        ("recording.json", lambda _: b'{"format": "something else"}', "was not written by wmlab"),
        ("recording.json", lambda _: b"[1]", "was not written by wmlab"),
        ("recording.json", lambda whole: whole[: len(whole) // 2], "is broken JSON"),
        ("recording.json", lambda _: b"\xff\xfe\x00", "cannot be read"),
        (
            "recording.json",
            lambda _: json.dumps(BARE).encode(),
            "lacks wmlab_version, kind, seed, rows, scenario",
        ),
        (EVENTS, lambda whole: whole[:-20], "table 'events' is truncated or not Parquet"),
        (EVENTS, lambda _: b"", "table 'events' is truncated or not Parquet"),
        (EVENTS, changed(lambda table: table[1:]), "table 'events' has 3 rows where recording.json counts 4"),
        (EVENTS, changed(lambda table: table.drop_columns("writer")), "table 'events' has wrong columns"),
        (EVENTS, changed(lambda table: table.cast(pa.schema(FLOATS))), "table 'events' has wrong columns"),
        (MESSAGES, changed(lambda table: table.drop_columns("bytes")), "table 'messages' has wrong columns"),
    ],
)
def test_a_damaged_file_is_named_with_its_damage(saved, file, damaged, said):
    (saved / file).write_bytes(damaged((saved / file).read_bytes()))
    assert said in problem_of(saved)


def test_a_second_part_that_spark_would_read_as_well(saved):
    shutil.copy(saved / EVENTS, saved / "events" / "part-1.parquet")
    assert "table 'events' holds files besides part-0.parquet: part-1.parquet" in problem_of(saved)
    (saved / "events" / "part-1.parquet").rename(saved / "events" / ".part-1.parquet.crc")
    assert Recording.read(saved) == recording()


def test_the_damage_of_all_tables_is_gathered(saved):
    shutil.rmtree(saved / "writer_marks")
    (saved / EVENTS).write_bytes(b"no")
    problem = problem_of(saved)
    assert "'writer_marks' is missing" in problem
    assert "'events' is truncated" in problem


def test_damage_inside_a_file_is_found_or_harmless(tmp_path):
    genuine = StreamRecording.from_tables({"events": events(1_000)}, name="r").save(tmp_path / "r")
    file = genuine.path / "events" / "part-0.parquet"
    whole = file.read_bytes()
    column = pq.ParquetFile(file).metadata.row_group(0).column(4)
    places = range(column.data_page_offset, column.data_page_offset + column.total_compressed_size)
    found = 0
    for place in places:
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        try:
            assert Recording.read(genuine.path).table("events") == genuine.table("events")
        except RecordingError:
            found += 1
    assert found > len(places) // 3


def test_a_recording_that_is_gone_after_it_was_read_is_noticed(saved):
    read = Recording.read(saved)
    shutil.rmtree(saved)
    with pytest.raises(RecordingError, match="table 'events' cannot be read"):
        read.table("events")
