"""Runs of a shape of their own: replays of a log, streams apart in time, left alone, sealed, or without an owner."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq

import wmlab as wm
from tests.oracles.runs import GROUP, LENGTH_MS, ORDERS, TRADES, drawn_run
from wmlab.streams.api import Scenario
from wmlab.streams.scenario import network, script


def replayed_run(seed: int) -> Scenario:
    """Three writers of a log, of which one sends nothing after a while, and goes on noting times."""
    draw = Random(f"replay {seed}")
    last_ms = draw.choice((9_000, 15_000))
    late_ms = draw.choice((100, 700))
    rows = [
        (at_ms - late_ms, at_ms, name)
        for at_ms in range(1_000, LENGTH_MS + 1_000, 1_000)
        for name in ("a", "b", "c")
        if name != "b" or at_ms <= last_ms
    ]
    path = _folder_of_logs() / f"log {seed}.parquet"
    times, arrivals, writers = (list(column) for column in zip(*rows, strict=True))
    pq.write_table(pa.table({"event_time": times, "arrival_ms": arrivals, "writer": writers, "key": writers}), path)
    return Scenario(
        f"replayed {seed}",
        stream=wm.Stream(ORDERS, segments=draw.choice((1, 2)), timestamp_aggregation_timeout_ms=60_000),
        writers=tuple(wm.EventWriter(name, trace=str(path)) for name in ("a", "b", "c")),
        readers=wm.ReaderGroup(GROUP, readers=1),
        controllers=wm.Controllers(period_ms=draw.choice((1_000, 10_000))),
        duration_ms=LENGTH_MS,
        seed=abs(seed),
    )


def apart_run(seed: int) -> Scenario:
    """Two streams that one group reads together, of which one is far ahead of the other."""
    draw = Random(f"apart {seed}")
    ahead = draw.choice((LENGTH_MS + 20_000, 1_000_000_000))
    return Scenario(
        f"apart {seed}",
        streams=(wm.Stream(ORDERS), wm.Stream(TRADES)),
        writers=(
            wm.EventWriter("w1", rate_per_s=20, stream=ORDERS),
            wm.EventWriter("v1", rate_per_s=20, stream=TRADES, event_time=f"clock + {ahead}"),
        ),
        readers=(wm.ReaderGroup(GROUP, streams=(ORDERS, TRADES)), wm.ReaderGroup("audit", stream=TRADES)),
        duration_ms=LENGTH_MS,
        seed=abs(seed),
    )


@cache
def _folder() -> TemporaryDirectory[str]:
    return TemporaryDirectory()


def _folder_of_logs() -> Path:
    """Where the logs are, until the end of the tests."""
    return Path(_folder().name)


def left_alone_run(seed: int) -> Scenario:
    """The marks segment is lost while a reader is paused, and later the only writer crashes for good."""
    return Scenario(
        f"left alone {seed}",
        stream=wm.Stream(ORDERS, segments=1, timestamp_aggregation_timeout_ms=4_000),
        writers=(wm.EventWriter("w1", rate_per_s=20),),
        readers=wm.ReaderGroup(GROUP, readers=2),
        controllers=wm.Controllers(period_ms=1_000),
        script=(
            script.PauseReader(at_ms=6_000, reader=f"{GROUP}-1", for_ms=10_000),
            script.LoseMarksSegment(at_ms=7_000, for_ms=10_000),
            script.CrashWriter(at_ms=20_000, writer="w1"),
        ),
        duration_ms=LENGTH_MS,
        seed=abs(seed),
    )


def sealed_run(seed: int) -> Scenario:
    """A stream that is sealed before its first watermark, so that the cut of each is the end of its segments."""
    return drawn_run(1171).replace(rules="implementation", name=f"sealed {seed}")


def unowned_run(seed: int) -> Scenario:
    """A bucket is without an owner twice, the second time with a controller that is down, while a reader is paused."""
    return Scenario(
        f"unowned {seed}",
        stream=wm.Stream(ORDERS, segments=1),
        writers=(wm.EventWriter("w1", rate_per_s=20),),
        readers=wm.ReaderGroup(GROUP, readers=1),
        controllers=wm.Controllers(period_ms=1_000, session_timeout_ms=4_000),
        script=(
            script.PauseReader(at_ms=9_000, reader=f"{GROUP}-0"),
            script.LoseBucketOwner(at_ms=8_000, for_ms=5_000),
            script.LoseBucketOwner(at_ms=16_000, for_ms=22_000),
            script.CrashController(at_ms=17_000, controller="controller-0"),
        ),
        duration_ms=LENGTH_MS,
        seed=abs(seed),
    )


def dying_cycles_run(seed: int) -> Scenario:
    """Cycles take seconds, and two of them die with their controller: between begin and crash nothing has befallen it.

    The first one follows a cycle in the very ms in which a pause ended, the second one is the first of a new session.
    """
    return Scenario(
        f"dying cycles {seed}",
        stream=wm.Stream(ORDERS, segments=1),
        writers=(wm.EventWriter("w1", rate_per_s=20),),
        readers=wm.ReaderGroup(GROUP, readers=1),
        controllers=wm.Controllers(period_ms=3_000, session_timeout_ms=4_000),
        network=network.Network(inside=network.Fixed(300)),
        script=(
            script.PauseController(at_ms=10_000, controller="controller-0", for_ms=2_500),
            script.CrashController(
                at_ms=17_000, controller="controller-0", point="before_append", restart_after_ms=2_000
            ),
            script.Partition(at_ms=25_500, a="w1", b="controllers", for_ms=1_000),
            script.CrashController(at_ms=26_000, controller="controller-0", point="before_append"),
        ),
        duration_ms=LENGTH_MS,
        seed=abs(seed),
    )


def former_owner_run(seed: int) -> Scenario:
    """A controller that lost its session makes a watermark while the new owner of the bucket is paused."""
    return Scenario(
        f"former owner {seed}",
        stream=wm.Stream(ORDERS, segments=1),
        writers=(wm.EventWriter("w1", rate_per_s=20),),
        readers=wm.ReaderGroup(GROUP, readers=1),
        controllers=wm.Controllers(2, period_ms=3_000, session_timeout_ms=8_000, start_delay_ms=500),
        script=(
            script.PauseReader(at_ms=9_900, reader=f"{GROUP}-0"),
            script.ExpireSession(at_ms=10_000, controller="leader"),
            script.PauseController(at_ms=10_100, controller="leader", for_ms=7_000),
        ),
        duration_ms=LENGTH_MS,
        seed=abs(seed),
    )


def taken_over_run(seed: int) -> Scenario:
    """The owner of the bucket crashes, and the next one runs its first cycle a period after it came.

    A writer that notes its clock by itself is asked to note a time, and refuses that.
    """
    return Scenario(
        f"taken over {seed}",
        stream=wm.Stream(ORDERS, segments=1),
        writers=(
            wm.EventWriter("w1", rate_per_s=20),
            wm.EventWriter("w2", rate_per_s=20, automatically_note_time=True, automatic_note_period_ms=500),
        ),
        readers=wm.ReaderGroup(GROUP, readers=1),
        controllers=wm.Controllers(2, period_ms=2_500, session_timeout_ms=5_000),
        script=(
            script.NoteTime(at_ms=12_000, writer="w2", time=5_000),
            script.CrashController(at_ms=20_000, controller="leader"),
        ),
        duration_ms=LENGTH_MS,
        seed=abs(seed),
    )


def struck_twice_run(seed: int) -> Scenario:
    """Parties crash while something else lasts, or it begins again; a partition separates a writer that no cycle needs.

    A writer that was silent or idle is so again after its restart, a reader that was paused is not.
    """
    return Scenario(
        f"struck twice {seed}",
        stream=wm.Stream(ORDERS, segments=1, timestamp_aggregation_timeout_ms=60_000),
        writers=tuple(wm.EventWriter(name, rate_per_s=20) for name in ("w1", "w2", "w3")),
        readers=wm.ReaderGroup(GROUP, readers=1),
        controllers=wm.Controllers(period_ms=1_000, session_timeout_ms=4_000),
        script=(
            script.MarkIdle(at_ms=2_000, writer="w3", for_ms=20_000),
            script.SilenceWriter(at_ms=3_000, writer="w1", for_ms=30_000),
            *(script.CrashWriter(at_ms=4_000, writer=name, restart_after_ms=1_000) for name in ("w1", "w3")),
            script.PauseReader(at_ms=5_000, reader=f"{GROUP}-0"),
            script.CrashReader(at_ms=7_000, reader=f"{GROUP}-0", restart_after_ms=2_000),
            script.ExpireSession(at_ms=10_000, controller="controller-0"),
            script.ExpireSession(at_ms=20_000, controller="controller-0"),
            script.Partition(at_ms=36_000, a="w1", b="controllers", for_ms=3_500),
        ),
        duration_ms=LENGTH_MS,
        seed=abs(seed),
    )


def expected_run(seed: int) -> Scenario:
    """Writers that are expected do not come, and another controller begins to wait for them.

    Of the two processes that note under one id, one is down from then on.
    """
    return Scenario(
        f"expected {seed}",
        stream=wm.Stream(ORDERS, segments=1, expected_writers=3, timestamp_aggregation_timeout_ms=9_000),
        writers=(wm.EventWriter("w1", rate_per_s=20, note_every_ms=3_000),),
        controllers=wm.Controllers(2, period_ms=1_000, session_timeout_ms=4_000),
        script=(
            script.DuplicateWriter(at_ms=5_000, writer="w1"),
            script.RemoveController(at_ms=8_000, controller="leader"),
            script.CrashWriter(at_ms=12_000, writer="w1"),
        ),
        duration_ms=LENGTH_MS,
        seed=abs(seed),
    )
