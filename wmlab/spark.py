"""Spark: the session, and the functions from DataFrame to DataFrame on tables of streams."""

from __future__ import annotations

from typing import Final

from wmlab.core.spark.schemas import dataframe, spark_schema
from wmlab.core.spark.session import log_path, spark_session
from wmlab.streams.bounds.bounds import time_bounds
from wmlab.streams.bounds.groups import group_time_bounds
from wmlab.streams.bounds.happenings import with_happenings
from wmlab.streams.bounds.truth import group_true_bound, tightness, true_bound
from wmlab.streams.tables import TABLES

__all__ = [
    "SCHEMAS",
    "dataframe",
    "group_time_bounds",
    "group_true_bound",
    "log_path",
    "spark_session",
    "tightness",
    "time_bounds",
    "true_bound",
    "with_happenings",
]

SCHEMAS: Final = {name: spark_schema(schema) for name, schema in TABLES.items()}
"""The Spark schema of every table of a recording of streams, by its name."""
