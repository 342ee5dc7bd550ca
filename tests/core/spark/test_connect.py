"""Functions on DataFrames use only what Spark Connect offers, and importing them starts nothing."""

from __future__ import annotations

import ast
import os
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import SparkConf, SparkContext, java_gateway
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

import wmlab
from tests.conftest import SPARK_FOLDERS
from wmlab.core.errors import SessionError
from wmlab.core.spark import session

PACKAGE = Path(wmlab.__file__).parent
FILES = sorted(path for name in SPARK_FOLDERS for path in (PACKAGE / name).glob("*.py") if path.name != "session.py")
NOT_IN_CONNECT = {"sparkContext", "rdd", "sql_ctx", "_jvm", "_jdf", "_sc", "_jsc", "accumulator", "foreachPartition"}
TRACEBACK = """Traceback (most recent call last):
  File "session.py", line 157, in found
ModuleNotFoundError: No module named 'wmlab'
"""
ACTIONS = {"collect", "toPandas", "toArrow", "take", "head", "show", "first_row", "toLocalIterator", "cache", "persist"}
ALLOWED = {"log.py": {"toArrow"}}
"""`of_log` asks for the first rows of a log where only these say what its columns hold; `test_log` has when that is."""


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.parent.name}-{path.stem}")
def test_no_file_uses_what_connect_lacks_nor_runs_anything(path: Path) -> None:
    used = {node.attr for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)}
    assert used & (NOT_IN_CONNECT | ACTIONS) == ALLOWED.get(path.name, set())


@pytest.mark.parametrize("kind", ["sc", "spark"])
def test_a_server_that_is_not_there_is_noticed_before_the_first_query(kind: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"{kind}://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(SessionError, match=rf"no Spark session on '{address}': \[Errno 111\].*\nTo repair it: correct"):
        session._started(address)


def test_one_of_several_masters_is_enough() -> None:
    with socket.socket() as stands_by, socket.create_server(("127.0.0.1", 0)) as leads:
        stands_by.bind(("127.0.0.1", 0))
        session._require_server("spark://" + ",".join(f"{ip}:{port}" for ip, port in (
            stands_by.getsockname(), leads.getsockname())))  # fmt: skip


def test_a_java_too_old_is_refused_with_both_remedies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_java_version", lambda java: "11.0.2")
    with pytest.raises(SessionError, match=r"needs Java 17 or newer; found 11\.0\.2 at .*\n.*apt install .* conda"):
        session._started("local[1]")


def test_executors_without_wmlab_are_noticed() -> None:
    def fails(*_: object) -> None:
        raise PythonException(f"An exception was thrown.\n{TRACEBACK}")

    spark: Any = SimpleNamespace(range=lambda _: SimpleNamespace(mapInArrow=fails))
    with pytest.warns(
        UserWarning, match="executors of 'spark://far': ModuleNotFoundError: No module named 'wmlab'. To"
    ):
        session._look_for_wmlab(spark, "spark://far")


def test_executors_with_wmlab_are_no_news(spark: SparkSession) -> None:
    session._look_for_wmlab(spark, "spark://near")


@pytest.mark.parametrize(
    ("master", "address"),
    [
        ("local-cluster[1,1,1024]", "127.0.0.1"),
        ("spark://127.0.0.1:7077", "127.0.0.1"),
        ("spark://host:7077", None),
        ("k8s://https://host:443", None),
    ],
)
def test_a_driver_is_on_loopback_if_its_executors_are_here(
    monkeypatch: pytest.MonkeyPatch, master: str, address: str | None
) -> None:
    """Every server of Spark takes the address to listen on from this variable."""
    seen: list[str | None] = []

    def gateway(conf: Any, **_: object) -> None:
        seen.extend((os.environ.get("SPARK_LOCAL_IP"), conf.get("spark.driver.host")))
        raise OSError("far enough")

    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.setattr(java_gateway, "launch_gateway", gateway)
    # A Spark that runs in this process would fill in its own settings.
    monkeypatch.setattr(session, "SparkConf", lambda: SparkConf(loadDefaults=False))
    with pytest.raises(OSError, match="far enough"):
        session._embedded(master)
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    assert seen == [address, address]


def test_importing_starts_no_java() -> None:
    told = (
        "import wmlab.spark, wmlab.dataflow.spark, wmlab.progress.spark, pyspark; from pyspark import SparkContext; "
        "assert SparkContext._gateway is None and SparkContext._jvm is None; print('quiet')"
    )
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert done.stdout == "quiet\n"
