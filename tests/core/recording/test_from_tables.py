"""A recording as a value: what tables make one, what is said when they do not, equality, reprs, pandas, and Spark."""

from __future__ import annotations

import dataclasses
import pickle

import pyarrow as pa
import pytest

from tests.core.recording.samples import SCENARIO, events, recording, segments, watermarks
from wmlab.core.errors import RecordingError, WmlabError
from wmlab.core.recording import Recording
from wmlab.core.schemas import SCHEMA_VERSION
from wmlab.core.storage import Tables
from wmlab.streams.tables import TABLES


def problem_of(tables, **settings):
    with pytest.raises(RecordingError) as raised:
        Recording.from_tables(tables, **({"name": "r"} | settings))
    assert raised.value.remedy
    return raised.value.problem


def events_table(**columns):
    return pa.table({name: [row[name] for row in events()] for name in TABLES["events"].names} | columns)


def test_every_table_is_there_and_those_not_given_are_empty():
    made = recording()
    assert list(made.tables) == list(TABLES)
    assert {name: made.table(name).schema.equals(schema, check_metadata=True) for name, schema in TABLES.items()} == (
        dict.fromkeys(TABLES, True)
    )
    assert made.counts == dict.fromkeys(TABLES, 0) | {"segments": 2, "events": 4, "watermarks": 1}


def test_the_manifest_says_what_was_run():
    made = recording()
    assert (made.name, made.scenario, made.seed, made.path) == ("split under load", SCENARIO, 7, None)
    assert made.manifest.schema_version == SCHEMA_VERSION
    assert made.manifest.source == "simulation"
    assert made.manifest.finished is True
    assert isinstance(made.manifest.wmlab_version, str)


def test_the_scenario_cannot_be_changed_through_what_is_handed_out():
    made = recording()
    made.scenario["name"] = "other"
    assert made.scenario == SCENARIO


def test_an_arrow_table_and_its_rows_make_the_same_recording():
    as_rows = Recording.from_tables({"events": events()}, name="r")
    assert Recording.from_tables({"events": events_table()}, name="r") == as_rows


def test_columns_are_taken_by_name_and_put_in_order():
    backwards = events_table().select(TABLES["events"].names[::-1])
    assert Recording.from_tables({"events": backwards}, name="r").table("events").column_names == TABLES["events"].names


@pytest.mark.parametrize("kind", [pa.dictionary(pa.int32(), pa.string()), pa.large_string()])
def test_other_spellings_of_text_become_text(kind):
    writers = pa.chunked_array([["w0", "w1"], ["w2", "w0"]]).cast(kind)
    made = Recording.from_tables({"events": events_table(writer=writers)}, name="r")
    assert made.table("events")["writer"].type == pa.string()
    assert made.table("events")["writer"].to_pylist() == ["w0", "w1", "w2", "w0"]


def test_narrow_integers_become_64_bit():
    made = Recording.from_tables({"events": events_table(offset=pa.array([1, 2, 3, 4], pa.int32()))}, name="r")
    assert made.table("events")["offset"].to_pylist() == [1, 2, 3, 4]


def test_maps_keep_an_unknown_offset():
    assert recording().table("watermarks")["cut"].to_pylist() == [[(0, 100), (1, None)]]


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({"event": []}, "there is no table 'event', did you mean 'events'"),
        ({"events": 5}, "events is a int, expected a pyarrow.Table or a list of dicts"),
        ({"events": [1]}, "events is a list, expected"),
        ({"events": [e | {"offset": "7"} for e in events()]}, "events.offset is not int64"),
        ({"events": [e | {"offset": 1.5} for e in events()]}, "events.offset is not int64: it holds floating-point"),
        ({"events": [e | {"offset": True} for e in events()]}, "events.offset is not int64"),
        ({"events": [e | {"offset": 2**63} for e in events()]}, "events.offset is not int64"),
        ({"events": [e | {"writer": 7} for e in events()]}, "events.writer is not string"),
        ({"events": [e | {"writer": None} for e in events()]}, "events.writer has 4 nulls; it admits none"),
        ({"events": [e | {"tag": 1} for e in events()]}, "events has an unknown column 'tag'"),
        ({"events": [{k: v for k, v in e.items() if k != "writer"} for e in events()]}, "no column 'writer'"),
        (
            {"events": [events()[0], {k: v for k, v in events()[1].items() if k != "writer"}]},
            "lacks 'writer' in 1 of 2",
        ),
        ({"watermarks": [w | {"cut": {0: 0.5}} for w in watermarks()]}, "watermarks.cut is not map<int64, int64>"),
        ({"segments": [s | {"low": float("nan")} for s in segments()]}, "segments.low has a number that is not finite"),
        ({"segments": [s | {"high": float("inf")} for s in segments()]}, "segments.high has a number that is not"),
        ({"events": events_table(offset=pa.array([1.0, 2.0, 3.0, 4.0]))}, "events.offset is not int64: it is double"),
        ({"events": events_table(offset=pa.array([1, 2, 3, 2**63], pa.uint64()))}, "events.offset is not int64"),
        ({"events": events_table(writer=pa.nulls(4))}, "events.writer has 4 nulls"),
        ({"events": events_table().drop_columns("stream")}, "events has no column 'stream'"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(tables, said):
    assert said in problem_of(tables)


def test_all_mistakes_are_named_at_once():
    problem = problem_of({"evnts": [], "events": [e | {"offset": "7", "writer": None} for e in events()]})
    assert "did you mean 'events'" in problem
    assert "events.offset is not int64" in problem
    assert "events.writer has 4 nulls" in problem


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"name": ""}, "name is ''"),
        ({"seed": 1.5}, "seed is 1.5"),
        ({"seed": True}, "seed is True"),
        ({"source": "log"}, "source is 'log'"),
        ({"finished": None}, "finished is None"),
        ({"scenario": {"rate": float("nan")}}, "the scenario is not plain data"),
        ({"scenario": {"rate": {1, 2}}}, "the scenario is not plain data"),
        ({"scenario": "text"}, "the scenario is not plain data: it is a str"),
    ],
)
def test_a_setting_that_does_not_fit_is_refused(settings, said):
    assert said in problem_of({}, **settings)


def test_recording_errors_are_caught_as_errors_of_wmlab():
    assert issubclass(RecordingError, WmlabError)


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
