"""Functions on DataFrames use only what Spark Connect offers, and importing them starts nothing."""

from __future__ import annotations

import ast
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark import java_gateway

import wmlab
from wmlab.core.spark import session

PACKAGE = Path(wmlab.__file__).parent
FOLDERS = ("core/spark", "streams/bounds", "streams/checks", "dataflow/checks", "progress/checks")
FILES = sorted(path for name in FOLDERS for path in (PACKAGE / name).glob("*.py") if path.name != "session.py")
NOT_IN_CONNECT = {"sparkContext", "rdd", "sql_ctx", "_jvm", "_jdf", "_sc", "_jsc", "accumulator", "foreachPartition"}
ACTIONS = {"collect", "toPandas", "toArrow", "take", "head", "show", "first_row", "toLocalIterator", "cache", "persist"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.parent.name}-{path.stem}")
def test_no_file_uses_what_connect_lacks_nor_runs_anything(path: Path) -> None:
    used = {node.attr for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)}
    assert not used & (NOT_IN_CONNECT | ACTIONS)


def test_a_connect_server_that_is_not_there_is_noticed_before_the_first_query() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    code = f"from wmlab.core.spark.session import spark_session; spark_session('sc://127.0.0.1:{port}')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert f"SessionError: no Spark session on 'sc://127.0.0.1:{port}': [Errno 111]" in done.stderr


@pytest.mark.parametrize(("master", "address"), [("local-cluster[1,1,1024]", "127.0.0.1"), ("spark://host:7077", None)])
def test_a_local_cluster_is_told_to_listen_on_loopback(
    monkeypatch: pytest.MonkeyPatch, master: str, address: str | None
) -> None:
    """Every server of Spark takes the address to listen on from this variable."""
    seen: list[str | None] = []

    def gateway(**_: object) -> None:
        seen.append(os.environ.get("SPARK_LOCAL_IP"))
        raise OSError("far enough")

    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    monkeypatch.setattr(java_gateway, "launch_gateway", gateway)
    with pytest.raises(OSError, match="far enough"):
        session._embedded(master)
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    assert seen == [address]


def test_importing_starts_no_java() -> None:
    told = (
        "import wmlab.spark, wmlab.dataflow.spark, wmlab.progress.spark, pyspark; from pyspark import SparkContext; "
        "assert SparkContext._gateway is None and SparkContext._jvm is None; print('quiet')"
    )
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert done.stdout == "quiet\n"
