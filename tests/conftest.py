"""Options and profiles that all tests share."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings
from pyspark.sql import SparkSession

VECTORS = Path(__file__).parent / "conformance" / "vectors"

settings.register_profile("wmlab", derandomize=True, deadline=None)
settings.load_profile("wmlab")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--vectors",
        metavar="DIR",
        type=Path,
        default=VECTORS,
        help="directory whose *.json files tests/conformance runs, every case of them",
    )


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    """The one Spark of a test process, started by the first test that needs it."""
    from wmlab.core.spark.session import spark_session

    return spark_session("local[2]")
