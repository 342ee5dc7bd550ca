"""The Spark session of a notebook: embedded and quiet by default, a cluster when `WMLAB_SPARK` says so.

The JVM and Spark's Python workers write to their own output, which ipykernel would show in the cell that happens to
run. So the embedded JVM is started with its output going to a log file. It listens on loopback only.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any, BinaryIO, Final, cast
from urllib.parse import urlsplit

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from wmlab.core.errors import SessionError
from wmlab.core.waiting import waiting_for
from wmlab.core.words import shown

try:
    import fcntl
except ImportError:  # Windows, where temporary files are cleared by the system
    fcntl = None  # type: ignore[assignment]

VARIABLE: Final = "WMLAB_SPARK"
"""Names the master: `local[2]`, `spark://host:7077`, or `sc://host:15002` for Spark Connect. Default `local[*]`."""

CLASSES: Final = Path(sys.prefix) / "spark_classes.jsa"
"""Spark's classes as `tools/spark_classes.py` keeps them; the embedded JVM starts in half the time with this file."""
HUGE_METHODS: Final = "-XX:-DontCompileHugeMethods"
"""Java leaves methods of more than 8,000 bytes uncompiled, and Spark generates such ones: bounds of positions that are
not summed but written take five times as long without this option."""
SECOND_COMPILER_LATER: Final = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 "
    "-XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)
"""Java gives its second, slow compiler what was called ten times as often as by default: while Spark starts and plans
its first query, that compiler takes a third of the processor time for code that hardly runs again. What runs for each
of a million rows still reaches it within milliseconds."""
_JAVA_OPTIONS: Final = f"{HUGE_METHODS} {SECOND_COMPILER_LATER}"
WITH_CLASSES: Final = {"spark.driver.defaultJavaOptions": f'{_JAVA_OPTIONS} "-XX:SharedArchiveFile={CLASSES}"'}
"""The setting of a driver that takes the kept classes."""

JAVA_AT_LEAST: Final = 17
_PORTS: Final = {"sc": 15_002, "spark": 7_077}
"""Where a server of each kind listens if its address names no port."""

_ANYWHERE: Final = {
    # Recordings hold times as whole numbers; whatever is shown as a timestamp is shown alike everywhere.
    "spark.sql.session.timeZone": "UTC",
    # The only one that takes `transformWithState`.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}
"""What every session has, wherever it runs."""
_DRIVER: Final = _ANYWHERE | {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.driver.memory": "4g",
    "spark.driver.defaultJavaOptions": _JAVA_OPTIONS,
    "spark.executor.defaultJavaOptions": HUGE_METHODS,
    # It records the line of each call of a function in Python, at three calls of the JVM a time.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
_ON_LOOPBACK: Final = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # Most tables that are shuffled are small; 200 partitions, Spark's default, would be 200 tiny tasks. A query of much
    # data begins with more, so that they are sorted in memory; adaptive planning joins those that turn out small.
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.adaptive.coalescePartitions.initialPartitionNum": "64",
    # Every sort, aggregation and join of a task begins with one page, which Java fills with zeros; Spark would take
    # 16 to 64 MB on a heap of this size, however few the rows. A task can have 8,192 pages.
    "spark.buffer.pageSize": "2m",
}
"""What a driver has besides if its executors run on this machine; from another one they could not reach it."""

_SOCKETS: Final = "spark.python.unix.domain.socket."
"""How the JVM and Spark's Python workers of this user talk. Over TCP every task waits 40 ms for an acknowledgement."""
_SOCKET_DIR_BYTES: Final = 60
"""The path of a socket has at most 103 bytes on macOS, of which the file takes 43."""

_SCRATCH: Final = "wmlab-scratch-"
"""How the name of a scratch folder begins."""
_LOG: Final = "spark.log"
_OF_A_JVM: Final = "PYSPARK_GATEWAY_PORT"
"""The variable by which PySpark finds a JVM that others have started; then none is started here, and it has no log."""

_LOOKED_UP: Final = ("functions", "PythonUtils", "PythonSQLUtils", "org.apache.spark.sql.functions")
"""Classes that PySpark looks up by name at each call, which searches all jars; they are kept instead."""

_REPEATING: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""Loggers of PySpark that print the stack of the JVM above an exception which says the same."""

_log_file: Path | None = None
_scratch: tuple[Path, BinaryIO] | None = None
"""The scratch folder of the JVM that this process uses, and its log."""
_session: SparkSession | None = None
_lock: Final = threading.Lock()


class QuietSession(SparkSession):
    """A Spark session whose repr has no address, port or path, so that a notebook stores the same text each time."""

    def __repr__(self) -> str:
        return f"Spark {self.version} on {self.conf.get('spark.master')}"

    def _repr_html_(self) -> str:
        return f"<b>Spark {self.version}</b> on {self.conf.get('spark.master')}"


def spark_session(master: str | None = None) -> SparkSession:
    """The Spark session of this process, started on first use; threads share it.

    `master` takes precedence over the environment variable `WMLAB_SPARK`, which takes precedence over `local[*]`.
    When a session is running already, it is returned. Raises `SessionError` when Java is missing or too old, and
    when a cluster cannot be reached.
    """
    with _lock:
        running = _running()
        if running is not None:
            return running
        with waiting_for("Starting Spark, which takes some seconds"):
            return _started(master)


def the_session(offered: object = None) -> SparkSession:
    """What was given as the Spark session, of Spark or of Spark Connect; for None that of the process.

    Raises `SessionError` for anything else, a DataFrame for one.
    """
    if offered is None:
        return spark_session()
    # By their names: the session of Spark Connect is another class, whose import needs packages of its own.
    kinds = [kind for kind in type(offered).__mro__ if kind.__module__.partition(".")[0] == "pyspark"]
    if any(kind.__name__ == "SparkSession" for kind in kinds):
        return cast("SparkSession", offered)
    # A frame would compute its rows for a repr.
    what = shown(offered) if isinstance(offered, _PLAIN) else f"a {type(offered).__name__}"
    raise SessionError(
        f"{what} is given as the Spark session, and is none.",
        remedy="Give wm.spark_session(), or nothing (None); a master such as 'local[2]' is named there.",
    )


_PLAIN: Final = (str, int, float, dict, list, tuple)


def _running() -> SparkSession | None:
    """The session that was started here if nobody has stopped it, or else the one that the caller started."""
    if _session is not None and not _is_stopped(_session):
        return _session
    # The active session is one of the thread; a context is one of the process.
    if SparkSession.getActiveSession() is None and SparkContext._active_spark_context is not None:
        return SparkSession.builder.getOrCreate()
    return SparkSession.getActiveSession()


def _is_stopped(session: SparkSession) -> bool:
    stopped = getattr(session, "is_stopped", None)  # of Spark Connect
    return session.sparkContext is not SparkContext._active_spark_context if stopped is None else bool(stopped)


def _started(master: str | None) -> SparkSession:
    global _session
    wanted = master or os.environ.get(VARIABLE) or "local[*]"
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for logger in _REPEATING:
        logging.getLogger(logger).setLevel(logging.CRITICAL)
    if not wanted.startswith("sc://"):
        _require_java()
    try:
        _require_server(wanted)
        if wanted.startswith("sc://"):
            _session = SparkSession.builder.remote(wanted).getOrCreate()
            # Its class is one of Spark Connect, which shows the address in memory.
            type(_session).__repr__ = QuietSession.__repr__  # type: ignore[method-assign, assignment]
            for name, setting in _ANYWHERE.items():
                _session.conf.set(name, setting)
        else:
            _session = _embedded(wanted)
        if not wanted.startswith("local["):
            _look_for_wmlab(_session, wanted)
    except Exception as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise SessionError(
            f"no Spark session on {wanted!r}: {reason}.",
            remedy=f"correct or unset {VARIABLE}; without it an embedded Spark is started.",
        ) from error
    return _session


def log_path() -> Path | None:
    """Where the embedded Spark of this process writes its log; None while there is none."""
    return _log_file


def _require_server(master: str) -> None:
    """Raise `OSError` within seconds where no server listens; Spark itself would try for minutes."""
    kind, _, servers = master.partition("://")
    refused = None
    # Of several masters one leads and the others stand by.
    for server in servers.partition("/")[0].split(",") if kind in _PORTS else ():
        address = urlsplit(f"//{server}")
        endpoint = address.hostname or "localhost", address.port or _PORTS[kind]
        try:
            socket.create_connection(endpoint, timeout=5).close()
        except OSError as error:
            refused = error
        else:
            return
    if refused:
        raise refused


def _look_for_wmlab(spark: SparkSession, master: str) -> None:
    """Warn of executors that cannot run the rules; functions that are pure SQL do without."""

    def unchanged(batches: Iterable[Any]) -> Iterator[Any]:
        import wmlab.core.errors  # noqa: F401

        yield from batches

    try:
        spark.range(1).mapInArrow(unchanged, "id long").collect()
    except Exception as error:
        messages = re.findall(r"^\w*Error: .*$", str(error), re.MULTILINE) or str(error).split("\n", 1)
        reason = messages[0].strip().removesuffix(".")
        warnings.warn(
            f"Rules in Python cannot run on the executors of {master!r}: {reason}. To repair it: install this wmlab "
            "into the Python that PYSPARK_PYTHON names there, or ship it with the session; see "
            "docs/how-to/go_to_a_cluster.md.",
            stacklevel=4,
        )


def _remove_folder(home: Path, log: BinaryIO) -> None:
    """Remove the scratch folder of this process, or mark it as abandoned: its JVM still ends, and may add a socket."""
    log.close()
    shutil.rmtree(home, ignore_errors=True)
    if home.exists():
        (home / _LOG).touch()


def remove_abandoned_folders() -> None:
    """Remove the scratch folders of processes and JVMs that are gone: one that is killed does not remove its own.

    Both hold a lock on the log in their folder as long as they live; a JVM may outlive the process that started it.
    """
    if fcntl is None:
        return
    for path in Path(tempfile.gettempdir()).glob(f"{_SCRATCH}*/{_LOG}"):
        with suppress(OSError), path.open("rb") as log:  # held, of another user, or just removed
            fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path.parent, ignore_errors=True)


def _scratch_folder() -> tuple[Path, BinaryIO]:
    """A new scratch folder, and its log with a lock, which a JVM inherits with its output.

    It goes with this process, also with one of `multiprocessing`, for which `atexit` does nothing.
    """
    remove_abandoned_folders()
    home = Path(tempfile.mkdtemp(prefix=_SCRATCH))
    path = home / "starting.log"
    log = path.open("wb")
    if fcntl is not None:
        fcntl.flock(log, fcntl.LOCK_SH)
    path.rename(home / _LOG)  # once it is locked, so that no other process takes it for abandoned
    Finalize(None, _remove_folder, (home, log), exitpriority=0)
    return home, log


def _embedded(master: str) -> SparkSession:
    """A session whose JVM, started here, sends all its output to a log file; after a stopped one, in the same JVM."""
    from pyspark.java_gateway import launch_gateway

    global _log_file, _scratch
    settings = dict(_DRIVER)
    gateway = SparkContext._gateway
    if gateway is None or _scratch is None:
        _scratch = _scratch_folder()
    home, log = _scratch
    if master.startswith("local") or urlsplit(master).hostname in ("localhost", "127.0.0.1"):
        # The servers of a local cluster would listen on all addresses.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        settings |= _ON_LOOPBACK
    if master.startswith("local") and hasattr(socket, "AF_UNIX") and len(os.fsencode(home)) <= _SOCKET_DIR_BYTES:
        settings |= {_SOCKETS + "enabled": "true", _SOCKETS + "dir": str(home)}
    if master.startswith("local[") and sys.platform == "linux" and os.environ["PYSPARK_PYTHON"] == sys.executable:
        settings["spark.python.daemon.module"] = "wmlab.core.spark.daemon"
    if CLASSES.is_file():
        settings |= WITH_CLASSES
    settings |= {"spark.sql.warehouse.dir": str(home / "warehouse"), "spark.local.dir": str(home)}
    conf = SparkConf().setAll(list(settings.items()))
    if gateway is None and _OF_A_JVM in os.environ:
        gateway = launch_gateway(conf=conf)  # type: ignore[no-untyped-call]
    elif gateway is None:
        _log_file = home / _LOG
        output = {"stdout": log, "stderr": log}
        gateway = launch_gateway(conf=conf, popen_kwargs=output)  # type: ignore[no-untyped-call]
    # What the JVM was started with, by PYSPARK_SUBMIT_ARGS for one, stands.
    conf = SparkConf(_jvm=gateway.jvm).setMaster(master).setAppName("wmlab")
    for name, setting in settings.items():
        conf.setIfMissing(name, setting)
    context = SparkContext(gateway=gateway, conf=conf)
    for name in _LOOKED_UP:
        setattr(context._jvm, name, getattr(context._jvm, name))
    return QuietSession(context)


def _require_java() -> None:
    """Refuse a machine without a Java that Spark can use, before Spark says so in its own words."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    version = "none" if java is None else _java_version(java)
    major = re.match(r"(?:1\.)?(\d+)", version)
    if java is None or major is None or int(major[1]) < JAVA_AT_LEAST:
        raise SessionError(
            f"Spark needs Java {JAVA_AT_LEAST} or newer; found {version}{f' at {java}' if java else ''}.",
            remedy="install it with the system's packages (Debian: apt install default-jre-headless) or with conda "
            "(conda env create -f environment.yml), and set JAVA_HOME if there are several.",
        )


def _java_version(java: str) -> str:
    try:
        shown = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False).stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"one that does not run ({error})"
    version = re.search(r'version "([^"]+)"', shown)
    return version[1] if version else "one that tells no version"
