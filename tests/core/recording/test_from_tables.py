"""A recording as a value: what tables make one, what is said when they do not, equality, reprs, pandas, and Spark."""

from __future__ import annotations

import dataclasses
import pickle

import pyarrow as pa
import pytest

from tests.core.recording.samples import SCENARIO, events, recording, segments, watermarks
from wmlab.core.errors import RecordingError
from wmlab.core.recording import Recording
from wmlab.streams.recording import StreamRecording
from wmlab.streams.tables import TABLES


def problem_of(tables, **settings):
    with pytest.raises(RecordingError) as raised:
        StreamRecording.from_tables(tables, **({"name": "r"} | settings))
    assert raised.value.remedy
    return raised.value.problem


def events_table(**columns):
    return pa.table({name: [row[name] for row in events()] for name in TABLES["events"].names} | columns)


def test_every_table_is_there_and_those_not_given_are_empty():
    made = recording()
    assert list(made.tables) == list(TABLES)
    assert len(made.tables) == len(TABLES)
    assert {name: made.table(name).schema.equals(schema, check_metadata=True) for name, schema in TABLES.items()} == (
        dict.fromkeys(TABLES, True)
    )
    assert made.counts == dict.fromkeys(TABLES, 0) | {"segments": 2, "events": 4, "watermarks": 1}


def test_a_column_that_admits_nulls_may_be_left_out_and_is_null():
    sent = {"sender": "a", "receiver": "b", "kind": "note", "content": "", "sent_ms": 1}
    unknown = dict.fromkeys(("stream", "received_ms", "bytes"))
    for rows in ([sent], pa.Table.from_pylist([sent])):
        made = StreamRecording.from_tables({"messages": rows}, name="r")
        assert made.table("messages").to_pylist() == [sent | unknown]


def test_the_scenario_cannot_be_changed_through_what_is_handed_out():
    made = recording()
    made.scenario["name"] = "other"
    assert made.scenario == SCENARIO


WRITERS = pa.chunked_array([["w0", "w1"], ["w2", "w0"]])


@pytest.mark.parametrize(
    "columns",
    [
        {},
        {"writer": WRITERS.cast(pa.dictionary(pa.int32(), pa.string()))},
        {"writer": WRITERS.cast(pa.large_string())},
        {"offset": pa.array([100, 200, 300, 400], pa.int32())},
    ],
    ids=["as it is", "coded text", "large text", "narrow integers"],
)
def test_an_arrow_table_makes_the_recording_of_its_rows_whatever_its_order_and_spelling(columns):
    backwards = events_table(**columns).select(TABLES["events"].names[::-1])
    as_rows = StreamRecording.from_tables({"events": events()}, name="r")
    assert StreamRecording.from_tables({"events": backwards}, name="r") == as_rows


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({"event": []}, "there is no table 'event', did you mean 'events'"),
        ({"events": 5}, "table 'events': it is neither a pyarrow.Table nor a list of dicts"),
        ({"events": [e | {"offset": "7"} for e in events()]}, "table 'events': column 'offset': Could not convert '7'"),
        ({"events": [e | {"offset": 1.5} for e in events()]}, "column 'offset' holds 1.5, which is not of type int64"),
        (
            {"events": [e | {"offset": True} for e in events()]},
            "table 'events': column 'offset': Expected integer, got bool",
        ),
        (
            {"events": [e | {"offset": 2**63} for e in events()]},
            "table 'events': column 'offset': Python int too large",
        ),
        ({"events": [e | {"writer": None} for e in events()]}, "'writer' with null values to non-nullable"),
        ({"events": [e | {"tag": 1} for e in events()]}, "it has an unknown column 'tag'"),
        ({"events": [{k: v for k, v in e.items() if k != "writer"} for e in events()]}, "'writer' with null values"),
        (
            {"watermarks": [w | {"cut": {0: 0.5}} for w in watermarks()]},
            "column 'cut' holds {0: 0.5}, which is not of type",
        ),
        (
            {"segments": [s | {"low": float("nan")} for s in segments()]},
            "column 'low' holds nan, which is not a finite",
        ),
        ({"events": events_table(offset=pa.array([1.5, 2.0, 3.0, 4.0]))}, "was truncated converting to int64"),
        ({"events": events_table(offset=pa.array([1, 2, 3, 2**63], pa.uint64()))}, "9223372036854775808 not in range"),
        ({"events": events_table(writer=pa.nulls(4))}, "'writer' with null values to non-nullable"),
        ({"events": events_table(tag=pa.nulls(4))}, "it has an unknown column 'tag'"),
        ({"events": events_table().drop_columns("stream")}, '"stream" does not exist'),
    ],
)
def test_a_table_that_does_not_fit_is_refused(tables, said):
    assert said in problem_of(tables)


def test_all_mistakes_are_named_at_once():
    problem = problem_of({"evnts": [], "events": [e | {"offset": "7"} for e in events()], "segments": 5})
    assert "did you mean 'events'" in problem
    assert "table 'events': column 'offset': Could not convert '7'" in problem
    assert "table 'segments': it is neither a pyarrow.Table nor a list of dicts" in problem


@pytest.mark.parametrize("scenario", [{"rate": float("nan")}, {"rate": {1, 2}}])
def test_a_scenario_that_is_no_json_is_refused(scenario):
    assert "the scenario is not plain data" in problem_of({}, scenario=scenario)


def test_equal_content_is_equal_wherever_it_lies(tmp_path):
    saved = recording().save(tmp_path / "r")
    read = Recording.read(tmp_path / "r")
    assert recording().path is None
    assert recording() == saved == read == pickle.loads(pickle.dumps(read)) == pickle.loads(pickle.dumps(recording()))
    assert len({recording(), saved, read}) == 1


def test_another_manifest_or_row_makes_another_recording():
    changes = ({}, {"seed": 8}, {"name": "other"}, {"scenario": None})
    fewer = StreamRecording.from_tables({"events": events(3)}, name="r")
    late = StreamRecording.from_tables({"events": [e | {"append_ms": 99} for e in events(3)]}, name="r")
    assert len({*(recording(**change) for change in changes), fewer, late}) == 6


def test_a_recording_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        recording().path = None
    with pytest.raises(TypeError):
        recording().tables["events"] = None


def test_the_repr_counts_rows():
    assert repr(recording()) == (
        "Recording 'split under load' (simulation, seed 7): segments 2, events 4, watermarks 1"
    )
    assert repr(StreamRecording.from_tables({}, name="r")) == "Recording 'r' (simulation): all tables empty"
    assert repr(recording().tables).startswith("Tables(segments, epochs, events")


def test_the_html_repr_is_a_table_of_counts_with_names_escaped():
    shown = recording(name="<b>")._repr_html_()
    assert "&lt;b&gt;" in shown
    assert "<td style='text-align:left'>events</td><td style='white-space:nowrap'>4</td>" in shown
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


def to_spark(made, name):
    return made.spark(None, name)


@pytest.mark.parametrize("ask", [Recording.table, Recording.chunks, Recording.to_pandas, to_spark])
@pytest.mark.parametrize("saved", [False, True], ids=["in memory", "saved"])
def test_an_unknown_table_is_refused_with_a_suggestion(tmp_path, ask, saved):
    made = recording().save(tmp_path / "r") if saved else recording()
    with pytest.raises(RecordingError, match="there is no table 'watermark', did you mean 'watermarks'"):
        ask(made, "watermark")
    with pytest.raises(RecordingError, match=r"there is no table \['events'\]"):
        ask(made, ["events"])


def test_an_unknown_column_is_refused():
    with pytest.raises(RecordingError, match=r"events has no column 'time'(?s:.*)event_time"):
        recording().chunks("events", "stream", "time")


def test_a_recording_without_values_says_what_is_missing():
    with pytest.raises(AttributeError, match="no attribute"):
        repr(Recording.__new__(Recording))
