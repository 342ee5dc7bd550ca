"""While nothing is read, bounds go on: what tables, charts and comparisons say of a run is what its readers saw."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from tests.machine.batch import given_of, judged_by_checks
from tests.machine.judge import violated
from wmlab.core.charts.scene import constant_spans
from wmlab.core.recording import Recording
from wmlab.core.run_comparison import compare
from wmlab.core.words import rounded
from wmlab.streams import charts
from wmlab.streams.api import Scenario
from wmlab.streams.charts.bounds import read_bounds
from wmlab.streams.run_measures import EventsInLog, measured
from wmlab.streams.scenario import script
from wmlab.streams.scenario.parts import Controllers, EventWriter, ReaderGroup, Stream
from wmlab.streams.scenario.rules import Rules

START_MS = 1_500_000_000_000
DAYS = ("merge_and_split", "lagging_reader", "many_streams", "as_pdp_33_is_written")


def quiet(folder: Path, rules: Rules | str = "sound", **group: Any) -> Scenario:
    """Events at 0 to 9 s and at 110 s, each arriving 100 ms later; the writer notes every second all the time."""
    seconds = [*range(10), 110]
    times = [START_MS + 1_000 * second for second in seconds]
    log = pd.DataFrame({"event_time": times, "arrival_ms": [time + 100 for time in times], "key": "k", "writer": "w1"})
    log.to_csv(folder / "quiet.csv", index=False)
    return Scenario(
        "a quiet stretch",
        writers=[EventWriter("w1", trace=str(folder / "quiet.csv"), note_every_ms=1_000)],
        readers=ReaderGroup(readers=1, publish_every_ms=1_000, **group),
        rules=rules,
        controllers=Controllers(period_ms=2_000),
        start_ms=START_MS,
        duration_ms=115_000,
    )


def went_back() -> Scenario:
    """The readers are taken back to a checkpoint, far behind, and start again."""
    return Scenario(
        "taken back",
        stream=Stream("orders", segments=2),
        writers=[EventWriter("w1", rate_per_s=40), EventWriter("w2", rate_per_s=40, delay_mean_ms=300)],
        readers=ReaderGroup(readers=2, publish_every_ms=500, rate_per_s=60.0),
        controllers=Controllers(period_ms=1_000),
        script=[
            script.Checkpoint(at_ms=6_000, name="early"),
            script.ResetToCheckpoint(at_ms=15_000, checkpoint="early"),
        ],
        duration_ms=30_000,
    )


def falls_behind(name: str, group: str, rules: Rules) -> Scenario:
    """Readers fall behind and are taken back, and the stream is deleted."""
    return Scenario(
        name,
        stream=Stream("orders", segments=3),
        writers=[EventWriter("w1", rate_per_s=40), EventWriter("w2", rate_per_s=40, delay_mean_ms=300)],
        readers=ReaderGroup(group, readers=2, publish_every_ms=500, rate_per_s=60.0),
        rules=rules,
        controllers=Controllers(period_ms=1_000),
        script=[
            script.Checkpoint(at_ms=6_000, name="early"),
            script.ResetToCheckpoint(at_ms=15_000, checkpoint="early"),
            script.DeleteStream(at_ms=26_700, recreate_after_ms=2_000),
        ],
        duration_ms=40_000,
    )


def runs(folder: Path) -> Iterator[Recording]:
    yield quiet(folder).record(progress=False)
    yield went_back().record(progress=False)
    yield falls_behind("times are shared", "map", Rules(read_side="document")).record(progress=False)
    yield falls_behind("offsets are shared", "offsets", Rules()).record(progress=False)
    yield Scenario.load("data/scenarios/first_bounds.yaml").record(progress=False)
    for path in sorted(Path("data/scenarios/days").glob("*.yaml")):
        if path.stem in DAYS:
            yield Scenario.load(path).record(progress=False)


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Recording]:
    return {run.name: run for run in runs(tmp_path_factory.mktemp("logs"))}


@pytest.fixture(scope="module")
def bounds(spark: SparkSession, recordings: dict[str, Recording]) -> dict[str, pd.DataFrame]:
    """The time bounds of each recording in the order of its versions, as Spark gives them."""
    return {name: run.time_bounds(spark).orderBy("version", "at_ms").toPandas() for name, run in recordings.items()}


@pytest.fixture(scope="module")
def hindsight(spark: SparkSession, recordings: dict[str, Recording]) -> pd.DataFrame:
    """The time bounds of the run whose readers share times, by its complete log."""
    return recordings["times are shared"].time_bounds(spark, visible="all").toPandas()


def streams_of(run: Recording) -> list[str]:
    return sorted(set(run.table("windows")["stream"].to_pylist()))


def windows_of(run: Recording, stream: str) -> pd.DataFrame:
    """What readers saw, in plain pandas, each until the reader looks again."""
    seen = run.to_pandas("windows").query("stream == @stream").sort_values(["group", "reader", "at_ms"])
    until = seen.groupby(["group", "reader"])["at_ms"].shift(-1)
    return seen.assign(until_ms=until.fillna(seen["at_ms"]).astype("int64"))


def longest_standstill_ms(seen: pd.DataFrame) -> int:
    """How long the lower bound that one reader saw stood still, at most."""
    lower = seen["lower"].astype("float64")
    moved = (lower != lower.shift()) & ~(lower.isna() & lower.shift().isna())
    stretches = seen.assign(stretch=moved.cumsum())[lower.notna()].groupby("stretch")
    begins, ends = stretches["at_ms"].min(), stretches["until_ms"].max()
    return int((ends - begins).max())


def test_while_nothing_is_read_the_bounds_of_a_group_move(
    recordings: dict[str, Recording], bounds: dict[str, pd.DataFrame]
) -> None:
    run = recordings["a quiet stretch"]
    rows = list(bounds[run.name].itertuples())
    quietly = [row for row in rows if START_MS + 12_000 < row.at_ms < START_MS + 110_000]
    assert {row.change for row in quietly} == {"watermark"}
    assert {row.version for row in quietly} == {10}
    assert {row.perfect_watermark for row in quietly} == {START_MS + 110_000}
    assert [row.lower - START_MS for row in quietly] == list(range(12_000, 110_000, 2_000))
    assert (rows[-1].change, rows[-1].at_ms) == ("end", START_MS + 115_000)
    seen = windows_of(run, "stream")
    assert longest_standstill_ms(seen) == 2_000
    assert charts.time_bounds(bounds[run.name]).facts["longest stop"] == 2_000
    worst_ms = int((seen["until_ms"] - seen["lower"]).max())
    assert worst_ms == 4_000
    assert "and 4.0 s at worst" in charts.lag(run).sentence


def test_every_window_is_the_bounds_of_its_group_at_that_moment(
    recordings: dict[str, Recording], bounds: dict[str, pd.DataFrame]
) -> None:
    judged = 0
    for run in recordings.values():
        emitted = set(run.table("watermarks")["emitted_ms"].to_pylist())
        shared = run.to_pandas("group_updates").dropna(subset=["lower", "upper"], how="all")
        for (stream, group), seen in run.to_pandas("windows").groupby(["stream", "group"]):
            states, of_map = (
                rows[(rows["stream"] == stream) & (rows["group"] == group)] for rows in (bounds[run.name], shared)
            )
            times, pairs = states["at_ms"].tolist(), _pairs(states)
            # A map of times may change several times in a millisecond; a reader looks in between.
            updates = list(zip(of_map["at_ms"].tolist(), _pairs(of_map), strict=True))
            for at_ms, window in zip(seen["at_ms"].tolist(), _pairs(seen), strict=True):
                # In the millisecond of a watermark no table says what came first.
                if at_ms not in emitted:
                    before = bisect_left(times, at_ms)
                    possible = pairs[max(0, before - 1) : bisect_right(times, at_ms)]
                    possible += [pair for update_ms, pair in updates if update_ms == at_ms]
                    judged += 1
                    assert window in possible, (run.name, stream, group, at_ms)
    assert judged > 300


def _pairs(rows: pd.DataFrame) -> list[tuple[int | None, int | None]]:
    pairs = zip(rows["lower"].astype("Int64"), rows["upper"].astype("Int64"), strict=True)
    return [tuple(None if pd.isna(value) else int(value) for value in pair) for pair in pairs]  # type: ignore[misc]


def test_charts_say_how_long_the_bound_stood_still_for_readers(
    recordings: dict[str, Recording], bounds: dict[str, pd.DataFrame]
) -> None:
    """A reader learns of a change when it looks, so each end of a stretch is up to one such period later for it."""
    compared = 0
    for run in recordings.values():
        for (stream, group), frame in bounds[run.name].groupby(["stream", "group"]):
            table = read_bounds(frame)
            stretches = [s for s in constant_spans(table.at_ms, table.lower) if s.value is not None]
            longest = max(stretches, key=lambda stretch: stretch.length_ms).length_ms
            assert rounded(longest) in charts.time_bounds(frame).sentence
            seen = windows_of(run, stream).query("group == @group")
            for _, mine in seen.groupby("reader"):
                period_ms = int(mine["at_ms"].diff().max())
                assert abs(longest_standstill_ms(mine) - longest) <= period_ms, (run.name, stream, group)
                compared += 1
    assert compared > 8


def test_lag_and_comparison_say_the_worst_lag_that_readers_saw(recordings: dict[str, Recording]) -> None:
    for run in recordings.values():
        for stream in streams_of(run):
            seen = windows_of(run, stream)
            worst_ms = int((seen["until_ms"] - seen["lower"]).max())
            assert f"and {rounded(worst_ms)} at worst" in charts.lag(run, stream=stream).sentence
            measures = measured(run, EventsInLog(run, stream))
            assert measures["seen_worst_lag_ms"] == worst_ms
            # The newest watermark is never behind what a reader knows. After the last look only the clock goes on.
            rest_ms = int(
                run.scenario_as(Scenario).duration_ms + run.scenario_as(Scenario).start_ms - seen["at_ms"].max()
            )  # type: ignore[union-attr]
            assert measures["worst_lag_ms"] <= worst_ms + rest_ms
    quiet_run, other = recordings["a quiet stretch"], recordings["taken back"]
    results = dict(compare(quiet_run, other).results)
    assert results["worst lag of the lower bound that readers saw (ms)"][0] == 4_000


def test_a_group_that_is_taken_back_begins_anew(
    recordings: dict[str, Recording], bounds: dict[str, pd.DataFrame]
) -> None:
    run = recordings["taken back"]
    rows = bounds[run.name]
    known = rows.dropna(subset="lower")
    (back,) = known[known["lower"].diff() < 0]["at_ms"]
    assert back == 15_000
    assert not (rows["lower"] > rows["perfect_watermark"]).any()
    assert charts.time_bounds(rows).facts["above perfect for"] == 0
    assert "windows" not in violated(judged_by_checks(given_of(run)))


def test_readers_that_share_times_have_the_bounds_of_their_map(
    recordings: dict[str, Recording], bounds: dict[str, pd.DataFrame], hindsight: pd.DataFrame
) -> None:
    run = recordings["times are shared"]
    rows = bounds[run.name].query("stream == 'orders' and group == 'map'")
    assert rows[["lower_seq", "upper_seq"]].isna().all(axis=None)
    assert rows["lower"].notna().sum() > 20
    updates = run.to_pandas("group_updates").query("stream == 'orders' and group == 'map' and outcome == 'applied'")
    in_force = updates.sort_values("revision").drop_duplicates("at_ms", keep="last")
    assert len(in_force) > 40
    for update in in_force[in_force["at_ms"] <= 26_700].itertuples():
        since = rows[rows["at_ms"] <= update.at_ms].tail(1)
        assert _pairs(since) == _pairs(in_force.loc[[update.Index]])
    assert not (rows["lower"] > rows["perfect_watermark"]).any()
    complete = hindsight.query("stream == 'orders' and group == 'map'")
    assert set(complete["change"]) == {"position", "end"}
    assert complete["upper_seq"].notna().any()


def test_while_nothing_is_read_the_map_of_times_moves(spark: SparkSession, tmp_path: Path) -> None:
    run = quiet(tmp_path, Rules(read_side="document")).record(progress=False)
    rows = run.time_bounds(spark).orderBy("version", "at_ms").toPandas()
    quietly = [row for row in rows.itertuples() if START_MS + 12_000 < row.at_ms < START_MS + 110_000]
    assert {row.change for row in quietly} == {"times"}
    assert {row.perfect_watermark for row in quietly} == {START_MS + 110_000}
    assert [row.lower - START_MS for row in quietly] == list(range(12_000, 108_000, 2_000))
    assert (rows["change"].iloc[-1], rows["at_ms"].iloc[-1]) == ("end", START_MS + 115_000)
    assert charts.time_bounds(rows).facts["longest stop"] == 2_000
    assert "windows" not in violated(judged_by_checks(given_of(run)))


def test_readers_that_look_at_no_marks_have_no_bounds(spark: SparkSession, tmp_path: Path) -> None:
    run = quiet(tmp_path, time_windows=False).record(progress=False)
    rows = run.time_bounds(spark).toPandas()
    assert set(rows["change"]) == {"position", "end"}
    assert rows[["lower", "upper"]].isna().all(axis=None)
    assert rows["perfect_watermark"].notna().any()
    sentence = charts.time_bounds(rows).sentence
    assert sentence == "The lower bound at the position of readers is unknown all the time."


@pytest.mark.parametrize("visible", ["then", "all"])
def test_the_bounds_of_a_stream_end_when_it_is_deleted(
    bounds: dict[str, pd.DataFrame], hindsight: pd.DataFrame, visible: Literal["then", "all"]
) -> None:
    then = [bounds["times are shared"], bounds["offsets are shared"]]
    for rows in then if visible == "then" else [hindsight]:
        assert rows.groupby("stream")["at_ms"].max().to_dict() == {"orders": 26_700, "orders#2": 40_000}
        assert rows[rows["change"] == "end"].groupby("stream").size().eq(1).all()
