"""Where Spark can run on this machine besides the process itself, each as a context that gives the master's address.

Everything listens on loopback only and is ended with the context.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

BIN = Path(pyspark.__file__).parent / "bin"
LOOPBACK = "127.0.0.1"
PATIENCE_S = 300


@contextmanager
def local_cluster() -> Iterator[str]:
    """Two executors of a core each; Spark starts them itself."""
    yield "local-cluster[2,1,1024]"


@contextmanager
def standalone() -> Iterator[str]:
    """A master and two workers of a core each, each a process of its own."""
    port = free_port()
    master = f"spark://{LOOPBACK}:{port}"
    deploy = "org.apache.spark.deploy"
    options = ["--host", LOOPBACK, "--webui-port", "0"]
    with ExitStack() as running:
        running.enter_context(_process("spark-class", f"{deploy}.master.Master", "--port", str(port), *options))
        wait_for(port)
        for _ in range(2):
            place = running.enter_context(tempfile.TemporaryDirectory())
            worker = [f"{deploy}.worker.Worker", master, "--cores", "1", "--memory", "1g", "--work-dir", place]
            running.enter_context(_process("spark-class", *worker, *options))
        yield master


@contextmanager
def connect() -> Iterator[str]:
    """A Spark Connect server with two cores of this machine."""
    port = free_port()
    settings = {
        "spark.connect.grpc.binding.address": LOOPBACK,
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.bindAddress": LOOPBACK,
        "spark.driver.host": LOOPBACK,
        "spark.ui.enabled": "false",
    }
    given = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    server = "org.apache.spark.sql.connect.service.SparkConnectServer"
    with _process(
        "spark-submit", "--master", "local[2]", "--driver-memory", "2g", *given, "--class", server, "spark-internal"
    ):
        wait_for(port)
        yield f"sc://{LOOPBACK}:{port}"


TARGETS = {"local-cluster": local_cluster, "standalone": standalone, "connect": connect}


def free_port() -> int:
    with socket.socket() as free:
        free.bind((LOOPBACK, 0))
        return int(free.getsockname()[1])


def wait_for(port: int) -> None:
    """Return when something listens; raises `TimeoutError` when nothing does for long."""
    for _ in range(10 * PATIENCE_S):
        with socket.socket() as tried:
            if tried.connect_ex((LOOPBACK, port)) == 0:
                return
        time.sleep(0.1)
    raise TimeoutError(f"nothing listens on port {port}")


@contextmanager
def _process(program: str, *arguments: str) -> Iterator[None]:
    with tempfile.TemporaryDirectory() as place, Path(place, "log").open("wb") as log:
        told = {"SPARK_LOCAL_IP": LOOPBACK, "SPARK_LOCAL_DIRS": place, "PYSPARK_PYTHON": sys.executable}
        command = [str(BIN / program), *arguments]
        running = subprocess.Popen(
            command, env=os.environ | told, stdout=log, stderr=subprocess.STDOUT, cwd=place, start_new_session=True
        )
        try:
            yield
        finally:
            running.terminate()
            running.wait()
