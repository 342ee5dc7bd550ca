"""A profile: what it says of each kind of dirt, of the log that has it alone, and of the export that has all of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import wmlab as wm
from tests.conftest import module_of
from tests.strategies.logs import START_MS, Times, changed, kept, ordered, sent, shifted, times
from wmlab.core.errors import ModelError, TraceError
from wmlab.core.traces import Trace, load
from wmlab.strategies.advice import advise
from wmlab.strategies.charts import writers as chart_of_writers
from wmlab.strategies.comparison import compare
from wmlab.strategies.log_profile import Profile, profile
from wmlab.strategies.model.bounded import BoundedOutOfOrderness
from wmlab.strategies.model.writers import PerWriterMinimum

ROOT = Path(__file__).parents[2]
EXPORT = ROOT / "data" / "exports" / "presses.csv"
COLUMNS = {"event_time": "taken_at", "arrival": "received_at", "writer": "device"}


def steady(writers: int = 5, rounds: int = 400) -> Trace:
    """Each writer sends a record a second, which takes from 100 to 500 ms."""

    def delay(_: Any, number: Times) -> Times:
        return 100 + (37 * (number // writers) + 61 * (number % writers)) % 400

    return sent(writers * rounds, delay, writers=writers, every_ms=1_000 // writers)


def only(found: Profile, *kinds: str) -> None:
    assert [finding.kind for finding in found.findings] == list(kinds)


@pytest.fixture(scope="module")
def presses() -> Profile:
    return profile(EXPORT, **COLUMNS)


def test_the_export_is_what_its_script_makes() -> None:
    made = module_of(ROOT / "data" / "exports" / "build.py").text()
    assert EXPORT.read_text() == made


def test_a_raw_export_is_read_and_all_its_dirt_is_named(presses: Profile) -> None:
    only(presses, "bad rows", "wrong times", "copies", "silent")
    by_kind = {finding.kind: finding for finding in presses.findings}
    assert presses.log.refused["row"].to_pylist() == [2_001, 3_501, presses.log.rows + 3]
    assert (by_kind["bad rows"].count, by_kind["bad rows"].facts["first row"]) == (3, 2_001)
    wrong = by_kind["wrong times"]
    assert (wrong.writers, wrong.count, len(wrong.rows)) == (("press-04", "press-07"), 771, 771)
    assert (wrong.facts["ahead"], wrong.facts["older"]) == (768, 3)
    assert "The constant bound is 13 min 7.817 s with them, and " in str(wrong)
    assert presses["wrong times"] is wrong
    with pytest.raises(TraceError, match="Ask for one of its kinds: bad rows, wrong times, copies and silent"):
        presses["early"]
    assert (by_kind["copies"].writers, len(by_kind["copies"].rows)) == (("press-02",), 40)
    assert by_kind["silent"].writers == ("press-05",)
    assert "25 min 1.7 s" in repr(by_kind["silent"].facts)
    assert "07:05:00" in repr(by_kind["silent"].facts)


def test_the_log_without_the_dirt_has_no_dirt_that_can_be_left_out(presses: Profile) -> None:
    rest = presses.without()
    assert rest.rows == presses.log.rows - len(presses.row_numbers) == presses.log.rows - 768 - 43
    again = profile(rest)
    only(again, "bad rows", "silent")
    assert again.row_numbers == ()
    assert again.next_calls[0] == "log = profile.log"
    assert rest.refused.num_rows == 3, "the rows that were left out are not forgotten"


def test_the_calls_that_are_proposed_run_and_answer(presses: Profile) -> None:
    names: dict[str, Any] = {"profile": presses, "wm": wm}
    assert presses.next_calls[0] == "log = profile.without()  # without 811 records"
    exec(presses.next_calls[0], names)
    answers = [eval(call, names) for call in presses.next_calls[1:]]
    assert (answers[0].target, [doubt.kind for doubt in answers[0].doubts]) == (presses.late_share, ["few records"])
    assert len(answers[1]) == answers[0].whole.late
    assert "taken_at" in answers[0].settings["Flink SQL"].code, "the column of the file, after rows were left out"


def test_a_profile_is_text_html_a_table_and_json(presses: Profile) -> None:
    shown, page = repr(presses), presses._repr_html_()
    for text in ("press-04", "  silent", "  ahead", "13 min 7.817 s", presses.next_calls[1]):
        assert text in shown.replace("\n", " ")
    assert all(max(map(len, block.split("\n"))) <= 100 for block in [presses.sentence.replace("\n", " ")[:100]])
    assert page.split("</table>")[0].count("<tr>") == 8
    assert "<pre><code>log = profile.without()" in page
    assert "<summary>What the columns say</summary>" in page
    assert 'title="records that repeat an earlier one' in page
    assert isinstance(presses.writers, pd.DataFrame)
    frame = presses.to_pandas()
    assert frame["rows"].sum() == presses.log.rows
    assert frame.set_index("writer")["copies"].to_dict()["press-02"] == 40
    assert frame.set_index("writer")["first_event_time"].isna().to_dict()["press-04"]
    assert json.loads(presses.to_json())["next_calls"] == list(presses.next_calls)
    assert len(presses) == 7
    assert next(iter(presses)).writer == "press-04"


def test_every_source_of_a_log_gives_the_same_profile(presses: Profile) -> None:
    polars = pytest.importorskip("polars")
    frame = pd.DataFrame({name: presses.log.table[name].to_pylist() for name in presses.log.table.column_names})
    text = pd.read_csv(EXPORT, dtype=str, keep_default_na=False)
    assert profile(text, **COLUMNS)["copies"] == presses["copies"]
    for source, columns in (
        (presses.log, {}),
        (presses.log.table, {}),
        (frame, {}),
        (polars.from_pandas(frame), {}),
        (str(EXPORT), COLUMNS),
        (text, COLUMNS),
    ):
        found = profile(source, **columns)
        assert found.log == presses.log or found.log.table == presses.log.table
        # A trace has no other columns that could tell a copy from another record of one moment.
        pd.testing.assert_frame_equal(found.writers.drop(columns="copies"), presses.writers.drop(columns="copies"))
    with pytest.raises(TraceError, match="writer cannot name others"):
        profile(presses.log, writer="device")
    with pytest.raises(TraceError, match="3 bad rows"):
        profile(EXPORT, **COLUMNS, bad_rows="refuse")
    with pytest.raises(TraceError, match=r"event_time='taken_at', arrival='received_at', writer='device'"):
        profile(EXPORT)


def test_nothing_is_said_of_a_clean_log_and_of_one_record() -> None:
    clean = profile(steady())
    only(clean)
    assert clean.sentence.endswith("Nothing in it is seen to be dirty.")
    assert clean.next_calls[0] == "log = profile.log"
    one = profile(ordered([START_MS], [START_MS + 5], ["w"]))
    only(one)
    assert one.chart().sentence.startswith("Nothing is seen to be wrong: ")
    only(profile("dengue"))


def test_a_clock_that_is_a_little_ahead_is_found_by_its_early_records() -> None:
    found = profile(shifted(steady(), 600, "w3"))
    only(found, "early")
    (finding,) = found.findings
    assert (finding.writers, finding.count, finding.leave_out) == (("w3",), 400, True)
    assert finding.facts["clock off"] == pytest.approx(600, abs=50)
    assert finding.facts["early share"] == pytest.approx(0.2, abs=0.001)
    assert found.without().writer_names == ("w0", "w1", "w2", "w4")


def test_where_all_clocks_are_early_no_writer_is_left_out() -> None:
    log = steady()
    found = profile(shifted(log, 900, *log.writer_names))
    only(found, "early")
    assert found.row_numbers == ()
    assert found.findings[0].remedy.startswith("Name the zone of these times, or correct the clocks: ")


def test_a_clock_that_is_behind_is_named_and_stays() -> None:
    found = profile(shifted(steady(), -60_000, "w1"))
    only(found, "behind")
    assert found.findings[0].facts["clock off"] == pytest.approx(-60_000, abs=300)
    assert found.findings[0].rows
    assert found.without() == found.log


def silent(log: Trace, writer: str, from_ms: int, until_ms: int) -> Trace:
    """The log without what a writer sends in a stretch of time since its beginning."""
    since_start = times(log)[0] - START_MS
    return kept(
        log, ~((log.table["writer"].to_numpy() == writer) & (from_ms <= since_start) & (since_start < until_ms))
    )


@pytest.mark.parametrize(("silent_s", "is_silent"), [(19, False), (20, True)])
def test_a_writer_is_silent_after_more_than_a_twentieth_of_the_log(silent_s: int, is_silent: bool) -> None:
    """Of 400 s; its usual gap is at most 1.4 s."""
    log = silent(steady(), "w2", 100_000, 100_000 + 1_000 * silent_s)
    found = profile(log)
    only(found, *(["silent"] if is_silent else []))
    if is_silent:
        of_w2 = found.writers.set_index("writer").loc["w2"]
        ((begin, end),) = of_w2["silences"]
        mine = times(log.writers("w2"))[1].tolist()
        assert (mine.index(begin) + 1, end - begin) == (mine.index(end), of_w2["silent_ms"])


def test_ten_usual_gaps_are_needed_for_a_silence() -> None:
    """A writer of a record a minute in a log of 500 s is never silent, whatever share of the log a minute is."""
    rare = ((START_MS + 60_000 * n, START_MS + 60_000 * n + 200, "rare", "rare") for n in range(7))
    only(profile(ordered(*zip(*steady().events(), *rare, strict=True))))


def test_of_a_clock_that_is_mostly_wrong_all_records_are_left_out() -> None:
    """Two records in three of one writer are a day ahead, or of 1970; its others are left out with them."""
    log = steady()
    event, mine = times(log)[0], log.table["writer"].to_numpy() == "w2"
    most = mine & (np.arange(log.rows) % 3 > 0)
    for wrong, clock in ((event + 86_400_000, "ahead"), (np.full(log.rows, 86_400_000), "older than the log")):
        found = profile(changed(log, event_time=np.where(most, wrong, event)))
        assert found["wrong times"].count == mine.sum() > most.sum()
        assert found.writers.set_index("writer").loc["w2", "clock"] == clock


def test_a_unit_that_makes_times_of_1970_is_doubted() -> None:
    event, arrival = times(steady())
    in_seconds = changed(steady(), event_time=event // 1_000, arrival_ms=arrival // 1_000)
    assert profile(in_seconds).findings[0].kind == "unit"


def test_the_chart_shows_each_writer_its_silences_and_its_marks(presses: Profile) -> None:
    chart = presses.chart()
    assert chart.sentence == "Wrong times: 771 of press-04 and press-07."
    labels = ("writers", "records", "silent", "copy", "copy of")
    assert [chart.facts[label] for label in labels] == [7, 5_210, "press-05", 40, "press-02"]
    assert len(chart.data["row"]) == 811
    assert chart.data["writer"] == ["press-05"]
    silence = presses.writers.set_index("writer").loc["press-05", "silences"][0]
    assert (chart.data["silent_from_ms"], chart.data["silent_to_ms"]) == ([silence[0]], [silence[1]])
    marks = {layer.name: layer for layer in chart.scene.layers if hasattr(layer, "shape")}
    assert len(marks["wrong time"].xs) == 60 + 3, "at most so many of a writer, and none is without"
    assert len(marks["copy"].xs) == 40
    assert "63 of 771 marks 'wrong time'" in chart.scene.note
    assert "press-04" in chart.svg
    boxes = [box for layer in chart.scene.layers if layer.name == "sends" for box in layer.boxes]
    assert len(boxes) == 8
    assert all(box.x_low <= box.x_high for box in boxes)
    # Three rows of 1970 do not move the axis, which is of arrivals.
    first, last = presses.log.span_ms
    assert (chart.scene.across.low, chart.scene.across.high) == (first, last)


def test_of_many_writers_the_dirty_ones_are_drawn_and_listed_first() -> None:
    found = profile(silent(steady(writers=30), "w17", 200_000, 400_000))
    chart = chart_of_writers(found.log)
    assert chart.scene.panels[0].up.ticks(1)[0].label == "w17"
    assert "Drawn are 20 of 30 writers." in chart.scene.note
    assert "and 10 more" in repr(found)
    assert found.findings[0].writers == ("w17",)


def test_what_is_no_log_is_refused() -> None:
    with pytest.raises(ModelError, match="is not a trace"):
        chart_of_writers("presses")  # type: ignore[arg-type]
    with pytest.raises(TraceError, match="there is no file"):
        profile("nowhere.csv")


def test_a_frame_with_the_columns_of_a_trace_is_taken_by_every_answer() -> None:
    log = steady()
    frame = log.table.to_pandas()
    strategies = [BoundedOutOfOrderness(100)]
    assert compare(frame, strategies).outcomes == compare(log, strategies).outcomes
    assert profile(frame).bound_ms == profile(log).bound_ms
    assert advise(frame, 0.1).strategy == advise(log, 0.1).strategy
    assert wm.strategy.lateness_curve(log.table).bound_ms(0.01) == wm.strategy.lateness_curve(log).bound_ms(0.01)
    with pytest.raises(TraceError, match="no column 'event_time'"):
        compare(frame.rename(columns={"event_time": "at"}), strategies)


def test_a_saved_trace_is_the_log_of_a_scenario(tmp_path: Path) -> None:
    log = steady(writers=2, rounds=20)
    path = log.save(tmp_path / "log.parquet")
    assert load(path).table == log.table
    scenario = wm.Scenario(
        "log",
        writers=[wm.EventWriter(name, trace=str(path)) for name in log.writer_names],
        start_ms=log.span_ms[0],
        duration_ms=30_000,
    )
    assert scenario.record().counts["events"] == log.rows
    with pytest.raises(TraceError, match=r"ends in \.parquet"):
        log.save(tmp_path / "log.csv")
    with pytest.raises(TraceError, match="cannot be written"):
        log.save(tmp_path / "none" / "log.parquet")


def test_what_is_left_out_of_a_trace_keeps_what_it_knows(presses: Profile) -> None:
    parts: list[Trace] = [presses.log.without("press-01"), presses.log.writers("press-01"), presses.without()]
    assert [(part.event_time_column, part.refused.num_rows) for part in parts] == [("taken_at", 3)] * 3


def rows_of(rows: list[tuple[Any, ...]], *more: str) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["event_time", "arrival_ms", "writer", *more])


@pytest.mark.parametrize("writers", [2, 3, 4, 5, 20])
@pytest.mark.parametrize("zone_ms", [18_000_000, 3_600_000, 20_700_000])
def test_a_clock_in_another_time_zone_is_found_at_any_share_up_to_one_half(writers: int, zone_ms: int) -> None:
    rows = [
        (START_MS - zone_ms * (n % writers == 0) + 10_000 * n, START_MS + 10_000 * n + 500, f"d{n % writers}")
        for n in range(1_200)
    ]
    found = profile(rows_of(rows))
    only(found, "behind")
    (finding,) = found.findings
    assert finding.writers == ("d0",)
    assert finding.facts["clock off"] == -zone_ms
    assert found.without().writer_names == tuple(sorted(f"d{n}" for n in range(1, writers)))
    assert (finding.bound_ms or 0) > zone_ms - 10_001
    assert (finding.without_ms, finding.doubt) == (0, True)
    assert "behind" in [doubt.kind for doubt in advise(rows_of(rows), 0.01).doubts]


def test_where_all_clocks_are_off_one_sentence_says_by_how_much() -> None:
    rows = [(START_MS + 7_200_000 + 10_000 * n, START_MS + 10_000 * n + 500, f"d{n % 3}") for n in range(600)]
    (finding,) = profile(rows_of(rows)).findings
    assert (finding.facts["early share"], finding.facts["early by"]) == (1, 7_199_500)
    assert (finding.kind, finding.rows) == ("early", ())


def sessions(count: int = 60) -> pd.DataFrame:
    rows = [
        (START_MS + 60_000 * u + 2_000 * k, START_MS + 60_000 * u + 2_000 * k + 50)
        for u in range(count)
        for k in range(4)
    ]
    return rows_of([(*row, f"session-{n // 4}") for n, row in enumerate(rows)])


def test_writers_that_come_and_go_are_not_dirty_and_waiting_for_them_is_judged_like_all_else() -> None:
    only(profile(sessions()))
    advice = advise(sessions(), 0.1)
    assert [outcome for outcome in advice.judged if isinstance(outcome.strategy, PerWriterMinimum)]
    assert not isinstance(advice.strategy, PerWriterMinimum)
    assert [doubt.kind for doubt in advice.doubts] == ["few records"]


def test_rows_of_one_moment_that_differ_are_no_copies() -> None:
    rows = [(START_MS + 60_000 * n, START_MS + 60_000 * n + 600_000, "north", n) for n in range(30)]
    rows[11] = (rows[10][0], rows[10][1] + 137_000, "north", 11)
    only(profile(rows_of(rows, "trip")))
    only(profile(rows_of(rows, "trip"), id="trip"))
    unseen = profile(load(rows_of(rows, "trip")))
    only(unseen)
    assert unseen.facts["copies are known"] is False
    assert [row[7] for row in unseen._rows()] == ["–"]
    rows[11] = (*rows[11][:3], 10)
    for found in (profile(rows_of(rows, "trip")), profile(rows_of(rows, "trip"), id="trip")):
        only(found, "copies")
        assert found["copies"].rows == (13,)
        assert found.facts["copies are known"] is True
    only(profile(load(rows_of(rows, "trip"), key="trip")), "copies")


def test_a_column_in_another_unit_is_found() -> None:
    rows = [(1_700_000_000 + 10 * n, 1_700_000_000_650 + 10_000 * n, "a") for n in range(20)]
    (finding,) = profile(rows_of(rows)).findings
    assert finding.kind == "unit"
    assert finding.headline.startswith("Its events are 53 years before their arrival, in the median: one of the two ")
    assert not advise(rows_of(rows), 0.1).supported


def test_an_export_that_comes_with_wmlab_is_profiled_by_its_name(presses: Profile) -> None:
    named = profile("presses", event_time="taken_at", arrival="received_at", writer="device")
    assert named.findings == presses.findings
    assert set(named.log.refused["file"].to_pylist()) == {"presses"}
