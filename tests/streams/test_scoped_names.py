"""A stream may have its scope in its name: no file, table, answer or chart depends on the slash in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import wmlab as wm
from wmlab.__main__ import main
from wmlab.core.errors import RecordingError
from wmlab.core.values import Problems
from wmlab.streams.recording import StreamRecording

BANK, SHOP = "bank/orders", "shop/orders"


def scenario(first: str, second: str) -> wm.Scenario:
    """Two streams that one group reads; one is scaled, the other deleted and created again."""
    return wm.Scenario(
        name="scopes",
        streams=[wm.Stream(first, segments=2), wm.Stream(second)],
        writers=[
            wm.EventWriter("a", rate_per_s=20, stream=first),
            wm.TransactionalWriter("t", rate_per_s=20, stream=second),
        ],
        readers=[wm.ReaderGroup("both", streams=[first, second]), wm.ReaderGroup("one", stream=first, readers=2)],
        controllers=wm.Controllers(period_ms=1_000),
        network=wm.script.network.Network(keep_messages=True),
        script=[
            wm.script.Scale(at_ms=4_000, stream=first, seal=["0@0"], into=2),
            wm.script.TakeStreamCut(at_ms=6_000, group="one", name="noon"),
            wm.script.DeleteStream(at_ms=9_000, stream=second, recreate_after_ms=1_000),
        ],
        duration_ms=14_000,
    )


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> StreamRecording:
    """Written to a file as YAML, recorded on disk from there, and read again."""
    folder: Path = tmp_path_factory.mktemp("scopes")
    scenario(BANK, SHOP).save(folder / "scopes.yaml")
    assert wm.trace.load_scenario(folder / "scopes.yaml") == scenario(BANK, SHOP)
    assert main(["record", str(folder / "scopes.yaml"), str(folder / "run")]) == 0
    recording = wm.load(folder / "run")
    assert isinstance(recording, StreamRecording)
    return recording


def renamed(value: Any) -> Any:
    """A value with the plain names in place of the scoped ones."""
    if isinstance(value, str):
        return value.replace(BANK, "bank").replace(SHOP, "shop")
    if isinstance(value, dict):
        return {name: renamed(entry) for name, entry in value.items()}
    return [renamed(entry) for entry in value] if isinstance(value, list) else value


def without_buckets(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All but the messages that name a bucket, which is that of another name."""
    return [row for row in rows if row.get("kind") != "bucket changed"]


def test_everything_that_is_recorded_is_the_same_but_for_the_names(stored: StreamRecording) -> None:
    plain = scenario("bank", "shop").record(progress=False)
    assert stored.counts["events"] > 300
    assert f"{SHOP}#2" in stored.table("segments")["stream"].to_pylist()
    for table in stored.schemas:
        columns = [name for name in stored.schemas[table].names if name != "bytes"]
        rows, expected = (run.table(table).select(columns).to_pylist() for run in (stored, plain))
        assert renamed(without_buckets(rows)) == renamed(without_buckets(expected)), table


def test_answers_charts_and_the_command_line_take_the_name(
    stored: StreamRecording, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(RecordingError, match=f"{BANK}.*{SHOP}"):
        stored.explain()
    assert stored.stream_cut_at(5_000, stream=BANK)
    assert stored.path is not None
    assert main(["explain", str(stored.path), "--stream", BANK]) == 0
    assert BANK in capsys.readouterr().out
    assert {row.stream for row in stored.time_bounds(spark).select("stream").distinct().collect()} == {BANK, SHOP}
    assert not stored.check("I1", "I7").violated
    assert stored.replay(spark, stream=BANK).count() == len(stored.to_pandas("watermarks").query("stream == @BANK"))
    assert BANK in wm.chart.topology(stored).mermaid
    for chart in (wm.chart.key_space(stored, stream=BANK), wm.chart.lag(stored, stream=BANK)):
        assert chart.save(tmp_path / "chart.svg").read_text().startswith("<svg")
    assert "writer a noted 3.9 s" in repr(stored.scrub(at_ms=5_000, stream=BANK))


@pytest.mark.parametrize("name", ["../x", "x/..", "./x", "/x", "x/", "x//y", "a/b/c", "", "a b/c", "a\\b", ".."])
def test_a_name_that_is_no_stream_of_a_scope_is_refused_in_words(name: str) -> None:
    with pytest.raises(Problems, match=r"give a name of letters.*scope/stream|at least 1 character"):
        wm.Stream(name)
    with pytest.raises(Problems, match=r"give a name of letters.*scope/stream|at least 1 character"):
        wm.EventWriter("w", rate_per_s=1, stream=name)


def test_a_name_without_a_scope_is_in_one() -> None:
    with pytest.raises(Problems, match=r"without a scope is in 'scope', and another is called 'scope/orders'"):
        scenario("orders", "scope/orders")
