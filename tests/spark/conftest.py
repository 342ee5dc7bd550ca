"""The one Spark of the test run, started by the first test that needs it."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from wmlab.spark import spark_session


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    return spark_session("local[2]")
