"""Everything of Spark on a cluster of this machine: `python -m tests.clusters local-cluster|standalone|connect`.

The answers are those of Spark embedded. On a cluster with executors of its own, one of them is then killed in the
middle of bounds, of a replay and of a sweep, which changes nothing either. On a Connect server the tutorials that use
Spark most are executed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

from pyspark.sql import DataFrame, functions as F

from tests.clusters import surface
from tests.clusters.targets import TARGETS
from tools.notebooks import NotebookError, execute
from wmlab.core.spark.session import VARIABLE
from wmlab.spark import Configuration, log_path, replay, spark_session, time_bounds

STREAMS, WRITERS, SECONDS = 200, 10, 60
EVERY_S = 0.05
FOLDER = Path(__file__).parents[2] / "notebooks" / "tutorials"
TUTORIALS = [FOLDER / f"{name}.ipynb" for name in ("00_first_bounds", "09_which_watermark", "11_live")]
TRIES = 5


def main(target: str) -> int:
    """Compare the answers, then kill; returns how many differ."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        surface.make(folder)
        expected = embedded(folder)
        with TARGETS[target]() as master:
            spark = spark_session(master)
            found = surface.answers(spark, folder)
            differ = [name for name in expected if found[name] != expected[name]]
            print(
                f"{target}: {len(found) - len(differ)} of {len(expected)} answers are those of Spark embedded",
                flush=True,
            )
            for name in differ:
                alone = sorted(set(found[name]) ^ set(expected[name]))
                print(f"{name} differs: {len(found[name])} rows, not {len(expected[name])}", *alone[:2], sep="\n")
            if target != "connect":
                differ += [name for name, question in questions(spark).items() if not survives(spark, name, question)]
            spark.stop()
            if target == "connect":
                differ += [path.stem for path in TUTORIALS if not runs(path, master)]
    if differ:
        print(f"different: {', '.join(differ)}")
    return len(differ)


def embedded(folder: Path) -> dict[str, list[str]]:
    """The answers of Spark embedded, from a process of its own."""
    command = [sys.executable, "-m", "tests.clusters.surface", "local[2]", str(folder)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout))


def runs(notebook: Path, master: str) -> bool:
    """Whether every cell of a notebook runs with `WMLAB_SPARK=master`; nothing is stored."""
    os.environ[VARIABLE] = master
    try:
        execute(notebook)
    except NotebookError as failure:
        print(f"{failure}", flush=True)
        return False
    finally:
        del os.environ[VARIABLE]
    print(f"{notebook.name}: every cell runs", flush=True)
    return True


def questions(spark: Any) -> dict[str, Callable[[], Any]]:
    """What takes long enough that an executor can be killed in the middle of it."""
    numbers = spark.range(STREAMS * WRITERS * SECONDS, numPartitions=8)
    stream = F.concat(F.lit("s"), F.col("id") % STREAMS)
    second = F.expr(f"id div {STREAMS * WRITERS}")
    at_ms = second * 1_000 + F.expr("id * 7919 % 1000")
    marks = numbers.select(
        stream.alias("stream"),
        F.expr(f"concat('w', id div {STREAMS} % {WRITERS})").alias("writer"),
        at_ms.alias("time"),
        F.create_map(F.lit(0).cast("long"), at_ms * 10).alias("position"),
        at_ms.alias("received_ms"),
    )
    segments = spark.range(STREAMS).select(
        stream.alias("stream"), F.expr("0L as segment_id"), F.expr("'0..1' as keys"), F.expr("0L as created_ms"),
        F.expr("0D as low"), F.expr("1D as high"),
    )  # fmt: skip
    configs = {f"{seconds} s": Configuration(timeout_ms=1_000 * seconds) for seconds in (5, 10, 60)}
    watermarks = spark.range(1_000).select(
        F.lit("s0").alias("stream"), F.col("id").alias("seq"), (F.col("id") * 1_000).alias("lower"),
        (F.col("id") * 1_000 + 500).alias("upper"), (F.col("id") * 1_000).alias("emitted_ms"),
        F.create_map(F.lit(0).cast("long"), F.col("id") * 40).alias("cut"),
        F.create_map(F.lit("w"), F.col("id") * 1_000).alias("writers"),
    )  # fmt: skip
    positions = spark.range(5_000_000, numPartitions=8).select(
        F.lit("s0").alias("stream"), F.expr("0L as segment_id"), F.expr("id * 7919 % 50000").alias("offset")
    )
    return {
        "bounds": lambda: total(time_bounds(positions, watermarks, segments), "lower", "upper", "lower_seq"),
        "replay": lambda: total(replay(marks, segments, configs), "lower", "upper", "emitted_ms"),
        "sweep": lambda: surface._texts(surface.SCENARIO.sweep(spark, seeds=range(40))),
    }


def total(frame: DataFrame, *names: str) -> Any:
    """A number that changes with any value of any row."""
    return frame.agg(F.count("*"), F.sum(F.xxhash64(*names).cast("decimal(38, 0)"))).first()


def survives(spark: Any, name: str, question: Callable[[], Any]) -> bool:
    """Whether the answer is the same when an executor is killed under a running task."""
    expected = question()
    for after in range(1, 2 * TRIES, 2):
        lost_before = lost()
        found: list[Any] = []
        asking = Thread(target=lambda answers=found: answers.append(question()))
        asking.start()
        killed = kill_a_busy_executor(spark, asking, after)
        asking.join()
        if found != [expected]:
            print(f"{name}: ANOTHER answer after executor {killed} was killed", flush=True)
            return False
        if lost() > lost_before:
            print(f"{name}: the same answer after executor {killed} was killed in the middle", flush=True)
            return True
    print(f"{name}: no executor could be killed under a task in {TRIES} runs", flush=True)
    return False


def kill_a_busy_executor(spark: Any, asking: Thread, after: int) -> int | None:
    """End an executor of this session at once, when tasks were seen running that often; returns its process."""
    status, seen = spark.sparkContext.statusTracker(), 0
    while asking.is_alive():
        time.sleep(EVERY_S)
        stages = [status.getStageInfo(stage) for stage in status.getActiveStageIds()]
        mine = executors(spark)
        seen += len(mine) == 2 and any(stage is not None and stage.numActiveTasks >= 2 for stage in stages)
        if seen >= after:
            os.kill(mine[0], signal.SIGKILL)
            return mine[0]
    return None


def executors(spark: Any) -> list[int]:
    """The processes of the executors of this session."""
    driver = f"@127.0.0.1:{spark.conf.get('spark.driver.port')}"
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "cmdline").read_text().split("\0")
        except OSError:
            continue
        if "org.apache.spark.executor.CoarseGrainedExecutorBackend" in words and any(driver in w for w in words):
            found.append(int(place.name))
    return sorted(found)


def lost() -> int:
    """How many tasks have been lost with their executor so far."""
    log = log_path()
    return 0 if log is None else log.read_text("utf-8", "replace").count("ExecutorLostFailure")


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in TARGETS:
        sys.exit(f"python -m tests.clusters {'|'.join(TARGETS)}")
    sys.exit(main(sys.argv[1]))
