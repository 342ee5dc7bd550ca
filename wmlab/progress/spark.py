"""Spark on the tables of query plans, as functions from DataFrame to DataFrame."""

from wmlab.progress.checks.fired_windows import fired_windows
from wmlab.progress.checks.progress import progress

__all__ = ["fired_windows", "progress"]
