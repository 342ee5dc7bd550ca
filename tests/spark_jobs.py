"""How many jobs Spark has run, and the planning on which that depends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

_ADAPTIVE = "spark.sql.adaptive.enabled"


@contextmanager
def adaptive_planning(spark: SparkSession, enabled: str = "true") -> Iterator[SparkSession]:
    """With it ("true"), as users have it, each shuffle and broadcast is a job; without it ("false"), each query."""
    before = spark.conf.get(_ADAPTIVE)
    spark.conf.set(_ADAPTIVE, enabled)
    try:
        yield spark
    finally:
        spark.conf.set(_ADAPTIVE, str(before))


def jobs_so_far(spark: SparkSession) -> int:
    return int(spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())  # type: ignore[union-attr]
