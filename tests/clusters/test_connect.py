"""Spark Connect answers as Spark embedded does; `python -m tests.clusters connect` asks it everything."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from tests.clusters import surface
from tests.clusters.targets import connect


def test_spark_connect_gives_the_answers_of_spark_embedded(spark: SparkSession, tmp_path: Path) -> None:
    surface.make(tmp_path)
    expected = surface.answers(spark, tmp_path, checks=False)
    with connect() as server:
        command = [sys.executable, "-m", "tests.clusters.surface", server, str(tmp_path), "--no-checks"]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout)
    assert [name for name in expected if found[name] != expected[name]] == []
    assert len(found) == len(expected) > 12
