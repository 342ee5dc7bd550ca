"""Tests that go through the whole house use the Spark of the test run."""

from tests.spark.conftest import spark

__all__ = ["spark"]
