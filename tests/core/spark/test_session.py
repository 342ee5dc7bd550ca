"""One Spark session serves all threads of a process; in a process of its own, what `PYSPARK_SUBMIT_ARGS` sets stands,
and nothing listens beyond this machine.

A local cluster has servers of its own: master, worker, executor. After it, another session begins in the same process.
Tests that start a JVM of their own are long ones.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import wmlab as wm
from wmlab.core.errors import SessionError
from wmlab.core.spark import session
from wmlab.core.spark.session import spark_session, the_session
from wmlab.dataflow.recording import DataflowRecording
from wmlab.streams.recording import StreamRecording

SPAWNED: Final = get_context("spawn")


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
    assert {session.HUGE_METHODS, *session.SECOND_COMPILER_LATER.split()} <= set(arguments)
    assert (f"-XX:SharedArchiveFile={session.CLASSES}" in arguments) is session.CLASSES.is_file()


def test_the_driver_listens_on_loopback(spark: SparkSession) -> None:
    """`make test-long` looks at the sockets of a whole local cluster."""
    settings = spark.sparkContext.getConf()
    assert {settings.get(f"spark.driver.{name}") for name in ("host", "bindAddress")} == {"127.0.0.1"}


def test_bounds_are_computed_by_the_session_that_is_there(spark: SparkSession) -> None:
    assert StreamRecording.from_tables({}, name="empty").time_bounds().count() == 0


ONE_SECOND = wm.Scenario("s", writers=[wm.EventWriter("w", rate_per_s=1)], duration_ms=1_000)
OF_STREAMS = ONE_SECOND.record(progress=False)
OF_A_DATAFLOW = DataflowRecording.from_tables({}, name="d")
VERBS: dict[str, Callable[[Any], Any]] = {
    "time_bounds": OF_STREAMS.time_bounds,
    "replay": OF_STREAMS.replay,
    "spark": lambda given: OF_STREAMS.spark(given, "events"),
    "coalesced": OF_A_DATAFLOW.coalesced,
    "dataframe": lambda given: wm.spark.dataframe(given, OF_STREAMS.table("events")),
    "sweep": lambda given: ONE_SECOND.sweep(given, seeds=[1]),
}


@pytest.mark.parametrize("verb", VERBS)
def test_what_is_no_session_is_refused_with_what_to_give(verb: str, spark: SparkSession) -> None:
    frame = spark.range(1)
    pandas = frame.toPandas()
    connect = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe", "__getattr__": lambda *_: frame})()
    for given, named in [(frame, "a DataFrame"), (pandas, "a DataFrame"), (connect, "a DataFrame"), ("I1", "'I1'"),
                         ({"10 s": {}}, "{'10 s': {}}"), (0, "0"), (spark.sparkContext, "a SparkContext")]:  # fmt: skip
        with pytest.raises(SessionError, match=r"spark_session\(\), or nothing") as refused:
            VERBS[verb](given)
        assert f"{named} is given as the Spark session, and is none." in refused.value.problem


def test_a_wrong_column_is_one_error_without_the_stack_of_the_jvm(
    spark: SparkSession, capfd: pytest.CaptureFixture[str]
) -> None:
    frame = spark.range(1)
    for wrong in (lambda: frame.select("foo"), lambda: spark.sql("select foo from range(1)")):
        with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
            wrong()
    assert capfd.readouterr() == ("", "")


def test_a_session_of_spark_connect_is_one_though_of_another_class(spark: SparkSession) -> None:
    connect = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    assert the_session(connect) is connect
    assert the_session(spark) is the_session() is spark


@pytest.mark.skipif(sys.platform != "linux", reason="only there are Python workers forked from wmlab's process")
def test_what_python_workers_are_forked_from_starts_no_thread_and_leaves_no_garbage(spark: SparkSession) -> None:
    threads = "import wmlab.core.spark.daemon, os; print(len(os.listdir('/proc/self/task')))"
    assert subprocess.run([sys.executable, "-c", threads], capture_output=True, text=True, check=True).stdout == "1\n"

    def frozen(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from (pa.record_batch({"id": [gc.get_freeze_count()]}) for _ in batches)

    (row,) = spark.range(1).mapInArrow(frozen, "id long").collect()
    assert row["id"] > 10_000


def test_an_executor_takes_the_rules_of_time_bounds_without_recordings_and_scenarios() -> None:
    """Every Python worker imports them for itself, while somebody waits."""
    code = "import sys, wmlab.streams.bounds.recorded; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert "wmlab.streams.model.position" in loaded
    assert [name for name in loaded if name in ("pydantic", "wmlab.core.recording", "wmlab.streams.scenario")] == []


ROOT = Path(__file__).resolve().parents[3]

PROBE = """
import os, re
from pathlib import Path
from wmlab.core.spark.session import log_path, spark_session

spark = spark_session("local-cluster[1,1,1024]")
assert spark.range(10).repartition(2).count() == 10
print(spark.conf.get("spark.sql.shuffle.partitions"), spark.conf.get("spark.sql.session.timeZone"))
parents = {}
for stat in Path("/proc").glob("[0-9]*/stat"):
    try:
        parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    except OSError:
        pass
family = {os.getpid()}
while more := {pid for pid, parent in parents.items() if parent in family} - family:
    family |= more
sockets = {}
for pid in family:
    for entry in Path(f"/proc/{pid}/fd").glob("*"):
        try:
            if found := re.match(r"socket:\\[(\\d+)\\]", os.readlink(entry)):
                sockets[found[1]] = Path(f"/proc/{pid}/cmdline").read_text().split("\\0")
        except OSError:
            pass
for table in ("tcp", "tcp6"):
    for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and fields[9] in sockets:
            words = sockets[fields[9]]
            who = next((w.rpartition(".")[2] for w in words if w.startswith("org.apache.spark.")), words[0])
            print(fields[1].partition(":")[0], who)

def again():
    spark = spark_session("local[1]")
    print(spark, spark.range(3).count(), log_path().is_file())
    return spark

spark.stop()
again().sparkContext.stop()
again()
"""
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
"""127.0.0.1, the same as an IPv6 address, and ::1, as the kernel writes them."""


@pytest.fixture(scope="module")
def told() -> list[str]:
    """The lines of the probe: two settings, then an address and a server in each line."""
    given = {"PYSPARK_SUBMIT_ARGS": "--conf spark.sql.shuffle.partitions=3 pyspark-shell"}
    command = [sys.executable, "-c", PROBE]
    run = subprocess.run(command, cwd=ROOT, env=os.environ | given, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


@pytest.mark.long
def test_what_the_user_sets_stands_beside_the_settings_of_wmlab(told: list[str]) -> None:
    assert told[0] == "3 UTC"


@pytest.mark.long
def test_every_server_of_a_local_cluster_listens_on_loopback_only(told: list[str]) -> None:
    listening = [line.split(" ", 1) for line in told[1:-2]]
    assert any("Executor" in who for _, who in listening)
    assert any("SparkSubmit" in who for _, who in listening)
    assert [(address, who) for address, who in listening if address not in LOOPBACK] == []


@pytest.mark.long
def test_another_session_can_be_started_after_one_was_stopped(told: list[str]) -> None:
    assert [line.partition(" on ")[2] for line in told[-2:]] == ["local[1] 3 True"] * 2


def _make_folder(ends: Connection) -> None:
    """Make a scratch folder, say which, and end when asked to."""
    ends.send(session._scratch_folder()[0])
    ends.recv()


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_folder_goes_with_the_process_that_made_it_or_with_the_next_one(
    is_killed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    ours, theirs = SPAWNED.Pipe()
    process = SPAWNED.Process(target=_make_folder, args=(theirs,))
    process.start()
    home = ours.recv()
    (home / ".socket").touch()
    session.remove_abandoned_folders()
    assert sorted(path.name for path in home.iterdir()) == [".socket", "spark.log"], "it lives"
    if is_killed:
        process.kill()
    else:
        ours.send("end")
    process.join()
    assert home.exists() == is_killed
    session.remove_abandoned_folders()
    assert not home.exists()


def test_the_folders_of_jvms_that_are_gone_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session.tempfile, "tempdir", str(tmp_path))
    (tmp_path / "wmlab-other").mkdir()
    (tmp_path / "wmlab-other" / "spark.log").touch()
    (tmp_path / "wmlab-scratch-without-log").mkdir()
    home, log = session._scratch_folder()
    with log:
        jvm = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stdout=log)
    session.remove_abandoned_folders()
    left = ["wmlab-other", "wmlab-scratch-without-log"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*left, home.name])
    jvm.communicate(b"\n")
    session.remove_abandoned_folders()
    assert sorted(path.name for path in tmp_path.iterdir()) == left


def test_a_folder_that_a_jvm_writes_to_while_it_is_removed_is_removed_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session.tempfile, "tempdir", str(tmp_path))
    home, log = session._scratch_folder()
    with monkeypatch.context() as socket_comes:
        socket_comes.setattr(session.shutil, "rmtree", lambda *_, **__: None)
        session._remove_folder(home, log)
    assert home.exists()
    session.remove_abandoned_folders()
    assert list(tmp_path.iterdir()) == []
