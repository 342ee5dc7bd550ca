"""Spark: the session, and the functions from DataFrame to DataFrame on tables of streams."""

from __future__ import annotations

from typing import Final

from wmlab.core import namespace
from wmlab.core.spark.log import of_log, stragglers
from wmlab.core.spark.schemas import dataframe, spark_schema
from wmlab.core.spark.session import log_path, spark_session
from wmlab.streams.bounds.bounds import time_bounds
from wmlab.streams.bounds.groups import group_time_bounds
from wmlab.streams.bounds.live import FEED, feed, live
from wmlab.streams.bounds.quality import quality_of_bounds
from wmlab.streams.bounds.recorded import group_perfect_watermark, perfect_watermark, with_slack
from wmlab.streams.bounds.replay import replay
from wmlab.streams.feed import write_feed
from wmlab.streams.model.replay import Configuration
from wmlab.streams.tables import TABLES

__all__ = [
    "FEED",
    "SCHEMAS",
    "Configuration",
    "dataframe",
    "feed",
    "group_perfect_watermark",
    "group_time_bounds",
    "live",
    "log_path",
    "of_log",
    "perfect_watermark",
    "quality_of_bounds",
    "replay",
    "spark_session",
    "stragglers",
    "time_bounds",
    "with_slack",
    "write_feed",
]
namespace(__name__)

SCHEMAS: Final = {name: spark_schema(schema) for name, schema in TABLES.items()}
"""The Spark schema of every table of a recording of streams, by its name."""
