"""The one Spark of the pages, the same as that of the other tests of a run."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from wmlab.spark import spark_session


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    return spark_session("local[2]")
