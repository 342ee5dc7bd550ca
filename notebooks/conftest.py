"""One pytest run executes all notebooks; those of `exploration` are starting points, whose answers may move.

There outputs are compared only where a cell asks for it with NBVAL_CHECK_OUTPUT, as `--nbval-lax` does for all.

The kernels of a test process are forked from one in which wmlab is imported, and share one JVM: both imports and the
start of a JVM cost more processor time than most notebooks do. Each kernel has a Spark context of its own in the JVM,
stopped before the next notebook.
"""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import nbval.kernel
import pytest
from jupyter_client.manager import KernelManager
from pyspark import SparkConf
from pyspark.java_gateway import launch_gateway

from tools.forked_kernels import fork_kernels
from tools.kernels import own_sockets
from wmlab.core.spark.session import WITH_CLASSES, remove_abandoned_folders

EXPLORATION = Path(__file__).parent / "exploration"


def pytest_configure() -> None:
    """Have nbval, which has no option for it, fork each kernel, at sockets of its own."""
    nbval.kernel.KernelManager = kernel_manager
    fork_kernels()


def kernel_manager(**options: Any) -> KernelManager:
    """What nbval calls for each notebook."""
    return KernelManager(**own_sockets(), **options)


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Any:
    """Compare the outputs of a notebook unless it is one to explore with."""
    collected = yield
    if EXPLORATION in file_path.parents:
        for notebook in collected:
            notebook.compare_outputs = False
    return collected


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before a notebook's kernel starts, stop the Spark context that the last one has left."""
    if item.parent.kernel is None:
        left = java().jvm.org.apache.spark.sql.classic.SparkSession.getDefaultSession()
        if left.isDefined():
            left.get().stop()


def pytest_sessionfinish() -> None:
    if java.cache_info().currsize:
        with java().proc as process:
            java().shutdown()
            process.stdin.close()
        # Of the last kernel, which was killed; each other one's went when the next one started.
        remove_abandoned_folders()


@cache
def java() -> Any:
    """The JVM of this process; PySpark finds it by two variables and starts none of its own."""
    conf = SparkConf().setAll([("spark.driver.memory", "4g"), *WITH_CLASSES.items()])
    output = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    gateway = launch_gateway(conf=conf, popen_kwargs=output)
    os.environ["PYSPARK_GATEWAY_PORT"] = str(gateway.java_parameters.port)
    os.environ["PYSPARK_GATEWAY_SECRET"] = gateway.java_parameters.auth_token
    return gateway
