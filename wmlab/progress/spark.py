"""Spark on the tables of query plans, as functions from DataFrame to DataFrame."""

from wmlab.core import namespace
from wmlab.progress.checks.progress import fired_windows, progress

__all__ = ["fired_windows", "progress"]
__getattr__, __dir__ = namespace(__name__)
