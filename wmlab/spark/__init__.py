"""The questions, as functions from DataFrame to DataFrame, and the session they run in."""

from wmlab.spark.bounds import time_bounds
from wmlab.spark.dataflow import coalesced
from wmlab.spark.dataflow_batch import join_of_on_time_rows, windows_of_on_time_rows
from wmlab.spark.fired import windows_that_fire
from wmlab.spark.groups import group_time_bounds
from wmlab.spark.happenings import with_happenings
from wmlab.spark.progress import progress
from wmlab.spark.schemas import SCHEMAS, dataframe
from wmlab.spark.session import log_path, spark_session
from wmlab.spark.truth import group_true_bound, tightness, true_bound

__all__ = [
    "SCHEMAS",
    "coalesced",
    "dataframe",
    "group_time_bounds",
    "group_true_bound",
    "join_of_on_time_rows",
    "log_path",
    "progress",
    "spark_session",
    "tightness",
    "time_bounds",
    "true_bound",
    "windows_of_on_time_rows",
    "windows_that_fire",
    "with_happenings",
]
