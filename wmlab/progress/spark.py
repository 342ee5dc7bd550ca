"""Spark on the tables of query plans, as functions from DataFrame to DataFrame."""

from wmlab.progress.checks.progress import fired_windows, progress

__all__ = ["fired_windows", "progress"]
