"""Spark Connect answers as Spark embedded does, charts included; `python -m tests.clusters connect` asks everything."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from inspect import isfunction
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import wmlab as wm
from tests.clusters import surface
from tests.clusters.targets import LOOPBACK, free_port


@pytest.fixture
def server(spark: SparkSession) -> Iterator[str]:
    """The address of a Connect server in the JVM of the session, whose classes are loaded already."""
    jvm, context = spark.sparkContext._jvm, spark.sparkContext._jsc.sc()
    port = str(free_port())
    context.conf().set("spark.connect.grpc.binding.address", LOOPBACK)
    context.conf().set("spark.connect.grpc.binding.port", port)
    service = jvm.org.apache.spark.sql.connect.service.SparkConnectService
    service.start(context)
    yield f"sc://{LOOPBACK}:{port}"
    service.stop(jvm.scala.Option.empty(), jvm.scala.Option.empty())


@pytest.mark.long
def test_spark_connect_gives_the_answers_of_spark_embedded(spark: SparkSession, server: str, tmp_path: Path) -> None:
    surface.make(tmp_path)
    expected = surface.answers(spark, tmp_path)
    command = [sys.executable, "-m", "tests.clusters.surface", server, str(tmp_path)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout)
    assert [name for name in expected if found[name] != expected[name]] == []
    assert len(found) == len(expected) > 12


def test_every_public_function_that_takes_a_dataframe_is_asked() -> None:
    """By its name in the surface; a chart says in its documentation that it takes one."""
    asked = Path(surface.__file__).read_text("utf-8")
    functions = [wm.spark, wm.dataflow.spark, wm.progress.spark, wm.strategy.spark]
    wanted = [
        f"{name}("
        for namespace in functions
        for name, found in public_functions(namespace)
        if any("DataFrame" in str(hint) for argument, hint in found.__annotations__.items() if argument != "return")
        or name == "write_feed"
    ]
    charts = {"wm": wm.chart, "wm.progress": wm.progress.chart, "wm.dataflow": wm.dataflow.chart}
    charts["wm.strategy"] = wm.strategy.chart
    wanted += [
        f"{prefix}.chart.{name}("
        for prefix, namespace in charts.items()
        for name, found in public_functions(namespace)
        if "DataFrame" in (found.__doc__ or "")
    ]
    assert len(wanted) > 20
    assert [name for name in wanted if name not in asked] == []


def public_functions(namespace: Any) -> Iterator[tuple[str, Any]]:
    """The functions that users are offered there."""
    own = [name for name in dir(namespace) if getattr(getattr(namespace, name), "__module__", "") == namespace.__name__]
    for name in getattr(namespace, "__all__", own):
        if not name.startswith("_") and isfunction(found := getattr(namespace, name)):
            yield name, found
