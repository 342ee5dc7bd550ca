"""One Spark session serves all threads of a process."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from wmlab.core.spark import session
from wmlab.core.spark.session import spark_session
from wmlab.streams.recording import StreamRecording


def in_a_thread() -> SparkSession:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(spark_session).result()


def test_a_thread_has_the_session_of_the_process(spark: SparkSession) -> None:
    assert in_a_thread() is spark
    assert spark_session() is spark
    assert spark.range(3).count() == 3


def test_a_session_that_the_caller_has_started_serves_threads_too(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "_session", None)
    assert in_a_thread().range(3).count() == 3
    assert spark_session().range(3).count() == 3


def test_java_compiles_large_methods_and_takes_the_classes_that_are_kept(spark: SparkSession) -> None:
    management = spark.sparkContext._jvm.java.lang.management.ManagementFactory  # type: ignore[union-attr]
    arguments = list(management.getRuntimeMXBean().getInputArguments())
    assert session.HUGE_METHODS in arguments
    assert (f"-XX:SharedArchiveFile={session.CLASSES}" in arguments) is session.CLASSES.is_file()


def test_a_recording_is_checked_by_the_session_that_is_there(spark: SparkSession) -> None:
    empty = StreamRecording.from_tables({}, name="empty")
    assert len(empty.check()) == len(empty.check(spark))
    assert empty.time_bounds().count() == 0


@pytest.mark.skipif(sys.platform != "linux", reason="only there are Python workers forked from wmlab's process")
def test_what_python_workers_are_forked_from_starts_no_thread_and_leaves_no_garbage(spark: SparkSession) -> None:
    threads = "import wmlab.core.spark.daemon, os; print(len(os.listdir('/proc/self/task')))"
    assert subprocess.run([sys.executable, "-c", threads], capture_output=True, text=True, check=True).stdout == "1\n"

    def frozen(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from (pa.record_batch({"id": [gc.get_freeze_count()]}) for _ in batches)

    (row,) = spark.range(1).mapInArrow(frozen, "id long").collect()
    assert row["id"] > 10_000
