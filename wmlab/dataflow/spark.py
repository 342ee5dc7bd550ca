"""Spark on the tables of a dataflow, as functions from DataFrame to DataFrame."""

from wmlab.core import namespace
from wmlab.dataflow.checks.batch import join_of_on_time_rows, windows_of_on_time_rows
from wmlab.dataflow.checks.watermarks import coalesced

__all__ = ["coalesced", "join_of_on_time_rows", "windows_of_on_time_rows"]
__getattr__, __dir__ = namespace(__name__)
