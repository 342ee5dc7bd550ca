"""Spark Connect answers as Spark embedded does; `python -m tests.clusters connect` asks it everything."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

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


def test_spark_connect_gives_the_answers_of_spark_embedded(spark: SparkSession, server: str, tmp_path: Path) -> None:
    surface.make(tmp_path)
    expected = surface.answers(spark, tmp_path, checks=False)
    command = [sys.executable, "-m", "tests.clusters.surface", server, str(tmp_path), "--no-checks"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout)
    assert [name for name in expected if found[name] != expected[name]] == []
    assert len(found) == len(expected) > 12
