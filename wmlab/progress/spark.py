"""Spark on the tables of query plans, as functions from DataFrame to DataFrame."""

from wmlab.progress.checks.fired import windows_that_fire
from wmlab.progress.checks.progress import progress

__all__ = ["progress", "windows_that_fire"]
