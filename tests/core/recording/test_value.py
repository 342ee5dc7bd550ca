"""A recording as a value: equality, reprs, pandas, and the door to Spark."""

from __future__ import annotations

import dataclasses
import pickle

import pytest

from tests.core.recording.samples import events, recording, watermarks
from wmlab.core.errors import RecordingError
from wmlab.core.recording import Recording
from wmlab.core.storage import Tables
from wmlab.streams.tables import TABLES


def test_equal_content_is_equal_wherever_it_lies(tmp_path):
    saved = recording().save(tmp_path / "r")
    assert recording() == saved == Recording.read(tmp_path / "r")
    assert len({recording(), saved, Recording.read(tmp_path / "r")}) == 1


@pytest.mark.parametrize("changes", [{"seed": 8}, {"name": "other"}, {"scenario": None}, {"source": "trace"}])
def test_another_manifest_is_another_recording(changes):
    assert recording(**changes) != recording()


def test_other_rows_make_another_recording():
    fewer = Recording.from_tables({"events": events(3)}, name="r")
    late = Recording.from_tables({"events": [e | {"append_ms": 99} for e in events(3)]}, name="r")
    assert len({fewer, late}) == 2


def test_a_recording_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        recording().path = None
    with pytest.raises(TypeError):
        recording().tables["events"] = None


def test_a_recording_survives_pickling(tmp_path):
    read = Recording.read(recording().save(tmp_path / "r").path)
    assert pickle.loads(pickle.dumps(read)) == read == pickle.loads(pickle.dumps(recording()))


def test_the_repr_counts_rows():
    assert repr(recording()) == (
        "Recording 'split under load' (simulation, seed 7): segments 2, events 4, watermarks 1"
    )
    empty = Recording.from_tables({}, name="r", source="trace", finished=False)
    assert repr(empty) == "Recording 'r' (trace, unfinished): all tables empty"
    assert repr(recording().tables).startswith("Tables(segments, epochs, events")


def test_the_html_repr_is_a_table_of_counts_with_names_escaped():
    shown = recording(name="<b>")._repr_html_()
    assert "&lt;b&gt;" in shown
    assert "<td style='text-align:left'>events</td><td>4</td>" in shown
    assert "0x" not in shown


def test_pandas_gets_maps_as_dicts_and_keeps_nulls_and_large_integers():
    frame = recording().to_pandas("watermarks")
    assert frame["cut"].tolist() == [watermarks()[0]["cut"]]
    assert frame["writers"].tolist() == [watermarks()[0]["writers"]]
    sealed = recording().to_pandas("segments")["sealed_ms"]
    assert str(sealed.dtype) == "Int64"
    assert sealed.iloc[0] == 2**53 + 1
    assert sealed.isna().tolist() == [False, True]
    assert str(recording().to_pandas("events")["offset"].dtype) == "int64"


@pytest.mark.parametrize("ask", [Recording.table, Recording.chunks, Recording.to_pandas])
def test_an_unknown_table_is_refused_with_a_suggestion(ask):
    with pytest.raises(RecordingError, match="there is no table 'watermark', did you mean 'watermarks'"):
        ask(recording(), "watermark")
    with pytest.raises(RecordingError, match=r"there is no table \['events'\]"):
        ask(recording(), ["events"])


def test_an_unknown_column_is_refused():
    with pytest.raises(RecordingError, match=r"events has no column 'time'(?s:.*)event_time"):
        recording().chunks("events", "stream", "time")


def test_tables_behave_as_a_mapping(tmp_path):
    tables = Recording.read(recording().save(tmp_path / "r").path).tables
    assert isinstance(tables, Tables)
    assert len(tables) == len(list(tables)) == len(TABLES)
    with pytest.raises(KeyError):
        tables["nothing"]


def test_a_recording_without_values_says_what_is_missing():
    with pytest.raises(AttributeError, match="no attribute"):
        repr(Recording.__new__(Recording))
