"""The state of a moment is what the tables say; they are read here once more, row by row."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from tests.streams.answers.runs import fault, mark, segment, written
from tests.streams.everything import LENGTH_MS, everything, unread
from wmlab.core.errors import RecordingError
from wmlab.core.invariants import Evidence, Verdict, Verdicts
from wmlab.streams.answers.history import StreamTables
from wmlab.streams.answers.moment import read_states, violations
from wmlab.streams.answers.run_state import RunWalk
from wmlab.streams.api import Scenario
from wmlab.streams.recording import StreamRecording
from wmlab.streams.scenario import script
from wmlab.streams.scenario.parts import Controllers, EventWriter, ReaderGroup, Stream

STATES = read_states(everything(), "orders")
CHANGES = sorted(
    {0, LENGTH_MS}
    | {
        row[clock] + earlier_ms
        for table, clock in (("watermarks", "emitted_ms"), ("windows", "at_ms"), ("writer_marks", "received_ms"))
        for row in everything().table(table).to_pylist()
        for earlier_ms in (0, -1)
        if row[clock] + earlier_ms <= LENGTH_MS
    }
)
MOMENTS = st.one_of(st.integers(0, LENGTH_MS), st.sampled_from(CHANGES))


def rows(table: str, clock: str, at_ms: int) -> list[dict[str, Any]]:
    found = everything().table(table).to_pylist(maps_as_pydicts="strict")
    return [row for row in found if row[clock] is not None and row[clock] <= at_ms]


def group_state(at_ms: int) -> dict[int, tuple[str | None, int]]:
    """Reader and offset of each segment in the group's position."""
    state: dict[int, tuple[str | None, int]] = {}
    for row in rows("positions", "at_ms", at_ms):
        if row["finished"]:
            state.pop(row["segment_id"], None)
        else:
            state[row["segment_id"]] = row["reader"], row["offset"]
    return state


def sealed_by(at_ms: int) -> set[int]:
    return {row["segment_id"] for row in rows("segments", "sealed_ms", at_ms)}


def test_until_its_seal_arrives_a_segment_is_open_next_to_its_successors() -> None:
    scale_ms = 8_000
    assert 0 not in rows("epochs", "at_ms", scale_ms)[-1]["segment_ids"]
    assert 0 not in sealed_by(scale_ms)
    (first,) = (state for state in STATES.at(scale_ms).segments if state.segment_id == 0)
    assert first.sealed_ms is None
    assert sealed_by(scale_ms + 20) == {0}


@settings(max_examples=60)
@given(MOMENTS)
def test_the_segments_are_those_created_with_what_was_in_them_and_who_reads_them(at_ms: int) -> None:
    states = {state.segment_id: state for state in STATES.at(at_ms).segments}
    assert states.keys() == {row["segment_id"] for row in rows("segments", "created_ms", at_ms)}
    is_open = {segment for segment, state in states.items() if state.sealed_ms is None}
    active = set(rows("epochs", "at_ms", at_ms)[-1]["segment_ids"])
    # The seal arrives one message after the epoch, so for a moment a segment and its successors are open.
    seals_under_way = {row["segment_id"] for row in rows("segments", "created_ms", at_ms)} - active - sealed_by(at_ms)
    assert is_open == active | seals_under_way
    position = group_state(at_ms)
    read = {segment: (state.reader, state.offset) for segment, state in states.items() if state.offset is not None}
    assert read == position
    for segment_id, state in states.items():
        ends = [row["offset"] for row in rows("events", "append_ms", at_ms) if row["segment_id"] == segment_id]
        assert state.length == max([0, *ends, position.get(segment_id, ("", 0))[1]])


@settings(max_examples=60)
@given(MOMENTS)
def test_the_newest_watermark_is_the_last_one_emitted(at_ms: int) -> None:
    log, newest = rows("watermarks", "emitted_ms", at_ms), STATES.at(at_ms).watermark
    if newest is None:
        assert not log
    else:
        known = {name: newest[name] for name in ("seq", "lower", "upper", "cut", "emitted_ms")}
        assert known == {name: log[-1][name] for name in known}


@settings(max_examples=60)
@given(MOMENTS)
def test_the_notes_of_a_writer_are_its_marks_and_a_cycle_awaits_whom_it_names(at_ms: int) -> None:
    cycles = rows("cycles", "at_ms", at_ms)
    for state in STATES.at(at_ms).writers:
        marks = [row for row in rows("writer_marks", "received_ms", at_ms) if row["writer"] == state.name]
        assert [(note.time, note.outcome) for note in state.notes] == [(row["time"], row["outcome"]) for row in marks]
        accepted = [row for row in marks if row["outcome"] == "success"]
        newest = None if state.newest is None else (state.newest.time, dict(state.newest.position))
        assert newest == ((accepted[-1]["time"], accepted[-1]["position"]) if accepted else None)
        assert state.awaited == (bool(cycles) and state.name in cycles[-1]["lagging"])
        assert (state.state == "down") == (state.name == "w2" and 12_000 <= at_ms < 22_000)
        removed_ms = [row["at_ms"] for row in cycles if state.name in row["removed"]]
        assert state.dropped == bool(removed_ms and accepted[-1]["received_ms"] <= removed_ms[-1])


@settings(max_examples=60)
@given(MOMENTS)
def test_the_windows_are_those_that_each_reader_saw(at_ms: int) -> None:
    for state in STATES.at(at_ms).readers:
        seen = [row for row in rows("windows", "at_ms", at_ms) if row["reader"] == state.name]
        expected = (seen[-1]["lower"], seen[-1]["upper"], seen[-1]["at_ms"]) if seen else (None, None, None)
        assert (state.lower, state.upper, state.looked_ms) == expected


def test_all_facts_are_known_at_some_moment() -> None:
    states = [STATES.at(at_ms) for at_ms in CHANGES]
    assert any(reader.upper is not None for state in states for reader in state.readers)
    assert any(writer.awaited for state in states for writer in state.writers)
    assert any(writer.dropped for state in states for writer in state.writers)
    assert {reader.name for reader in states[0].readers} == {"billing-0", "billing-1"}


@pytest.mark.parametrize(
    ("faults", "expected"),
    [
        ([("crash", ""), ("note", "w is not running"), ("restart", "")], ["down", "down", ""]),
        ([("silence", ""), ("write", "w writes in t-1"), ("speak", "")], ["silent", "silent", ""]),
        ([("shut_down", ""), ("restart", "")], ["shut down", ""]),
        ([("idle", ""), ("commit", "w commits t-1"), ("active", "")], ["idle", "idle", ""]),
        ([("silence", ""), ("crash", ""), ("speak", "")], ["silent", "down", "down"]),
    ],
)
def test_what_befell_a_writer_is_what_explain_says(faults: list[tuple[str, str]], expected: list[str]) -> None:
    happened = [fault(kind, "w", 100 * n, detail) for n, (kind, detail) in enumerate(faults, start=1)]
    recording = written(incidents=happened, writer_marks=[mark("w", 7, 50)])
    states = read_states(recording, "orders")
    moments = [100 * n for n in range(1, len(faults) + 1)]
    assert [states.at(at_ms).writers[0].state for at_ms in moments] == expected
    walk = RunWalk(StreamTables(recording, "orders"))
    faults = [walk.at(at_ms).faults.of("writer", "w", at_ms=at_ms) for at_ms in moments]
    assert ["" if active is None else active.kind for active in faults] == expected


def late_reader() -> StreamRecording:
    """Reader "a" joins at 6 s, the first by name; z-0 has read from the start, and pauses for a second at 7 s."""
    return Scenario(
        "late",
        stream=Stream("orders", segments=2),
        writers=[EventWriter("w", rate_per_s=40), EventWriter("v", rate_per_s=20)],
        readers=ReaderGroup("z", readers=1),
        controllers=Controllers(period_ms=1_000),
        script=[
            script.AddReader(at_ms=6_000, reader="a"),
            script.PauseReader(at_ms=7_000, reader="z-0", for_ms=1_000),
            script.CrashReader(at_ms=9_000, reader="a"),
        ],
        duration_ms=10_000,
        seed=2,
    ).record(progress=False)


def test_a_reader_is_there_from_when_it_joins_and_has_the_state_of_its_last_incident() -> None:
    states = read_states(late_reader(), "orders")
    at = {at_ms: {r.name: r.state for r in states.at(at_ms).readers} for at_ms in (5_999, 6_000, 7_500, 8_000, 9_500)}
    assert at[5_999] == {"z-0": ""}
    assert at[6_000] == at[8_000] == {"a": "", "z-0": ""}
    assert at[7_500] == {"a": "", "z-0": "paused"}
    assert at[9_500] == {"a": "down", "z-0": ""}


@pytest.mark.parametrize(("scenario", "end_ms"), [({"start_ms": 0, "duration_ms": 1_000}, 1_000), (None, 700)])
def test_a_run_without_a_scenario_ends_with_the_last_row(scenario: dict[str, int] | None, end_ms: int) -> None:
    tables = {"segments": [segment()], "writer_marks": [mark("w", 7, 50), mark("w", 600, 700)]}
    recording = StreamRecording.from_tables(tables, name="by hand", scenario=scenario)
    assert read_states(recording, "orders").high_ms == end_ms


def test_after_an_end_of_known_time_the_newest_watermark_has_no_bounds() -> None:
    tables = {name: everything().table(name) for name in everything().counts}
    *before, last = tables["watermarks"].to_pylist(maps_as_pydicts="strict")
    ended = StreamRecording.from_tables(tables | {"watermarks": [*before, last | {"writers": {}}]}, name="ended")
    newest = read_states(ended, "orders").at(last["emitted_ms"]).watermark
    assert newest is not None
    assert (newest["seq"], newest["lower"], newest["upper"]) == (last["seq"], None, None)


def test_event_times_far_from_the_clock_are_not_on_its_scale() -> None:
    near = [mark("w", 1_000 * n - 300, 1_000 * n) for n in range(1, 10)]
    far = [mark("w", 10**12 + n, 1_000 * n) for n in range(1, 10)]
    segments = [segment()]
    assert read_states(written(writer_marks=near, segments=segments), "orders").shares_clock
    assert not read_states(written(writer_marks=far, segments=segments), "orders").shares_clock


def test_a_writer_that_had_written_nothing_into_a_segment_stood_at_its_begin() -> None:
    (writer,) = (
        read_states(written(writer_marks=[mark("w", n, 1_000 * n) | {"position": {0: None}} for n in (1, 2)]), "orders")
        .at(1_500)
        .writers
    )
    assert writer.newest is not None
    assert writer.newest.position == {0: 0}


def test_who_wrote_and_noted_nothing_is_a_writer_and_a_run_without_readers_has_no_group() -> None:
    tables = {name: unread().table(name) for name in unread().counts if name != "writer_marks"}
    states = read_states(StreamRecording.from_tables(tables, name="silent"), "orders")
    state = states.at(4_000)
    assert [(writer.name, writer.newest) for writer in state.writers] == [("w1", None)]
    assert (states.group, state.readers, state.position) == (None, (), {})


def test_a_group_that_did_not_read_and_a_stream_in_which_nothing_happened_are_refused() -> None:
    with pytest.raises(RecordingError, match=r"(?s)No reader group 'audit'.*billing"):
        read_states(everything(), "orders", group="audit")
    with pytest.raises(RecordingError, match="nobody read"):
        read_states(unread(), "orders", group="audit")
    with pytest.raises(RecordingError, match="Nothing happened in the stream 'orders'"):
        read_states(StreamRecording.from_tables({"segments": [segment()]}, name="empty"), "orders")


def verdict(invariant: str, *evidence: Evidence, outcome: str = "violated") -> Verdict:
    said = {"statement": "the cut never moves back", "judged": 3, "violations": 1, "what": "it moved back"}
    return Verdict(invariant=invariant, verdict=outcome, evidence=evidence, **said)  # type: ignore[arg-type]


def test_a_violation_is_at_the_last_row_of_its_evidence_in_the_stream() -> None:
    first = (
        Evidence("watermarks", {"stream": "orders", "seq": 1, "emitted_ms": 4_005}),
        Evidence("watermarks", {"stream": "orders", "seq": 2, "emitted_ms": 5_005}),
        Evidence("segments", {"stream": "orders", "segment_id": 0}),
    )
    elsewhere = Evidence("watermarks", {"stream": "payments", "emitted_ms": 4_005})
    without_clock = Evidence("segments", {"stream": "orders", "segment_id": 0})
    found = Verdicts(
        "everything",
        (
            verdict("I3", *first),
            verdict("I1", Evidence("cycles", {"stream": "orders", "at_ms": 2_000})),
            verdict("I4", elsewhere),
            verdict("I5", without_clock),
            verdict("I6", first[0], outcome="unknown"),
        ),
    )
    assert [(event.at_ms, f"{event.who} {event.what}") for event in violations(found, "orders")] == [
        (2_000, "I1 is violated: it moved back"),
        (5_005, "I3 is violated: it moved back"),
    ]
