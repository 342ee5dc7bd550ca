"""Spark on the tables of a dataflow, as functions from DataFrame to DataFrame."""

from wmlab.core import namespace
from wmlab.dataflow.checks.coalesced import coalesced

__all__ = ["coalesced"]
namespace(__name__)
