"""The one Spark of the pages, the same as that of the other tests of a run."""

from __future__ import annotations

from tests.spark.conftest import spark

__all__ = ["spark"]
