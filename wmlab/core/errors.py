"""Every error a user can meet: what was wrong, the offending value, and what to do about it.

All of them derive from `WmlabError`, which is a `ValueError`, so that one `except` catches them all.
"""

from __future__ import annotations

_REPAIR = "\nTo repair it: "


class WmlabError(ValueError):
    """A mistake that the user can repair; the message always ends with the remedy.

    `problem` says what was wrong and names the value; `remedy` is one imperative sentence.
    """

    def __init__(self, problem: str, *, remedy: str | None = None) -> None:
        # An error raised again by SimPy, or in another process, is made from its whole message alone.
        if remedy is None:
            problem, _, remedy = problem.partition(_REPAIR)
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"{problem}{_REPAIR}{remedy}")


class ModelError(WmlabError):
    """A value that the watermark rules do not admit: a bad key range, scale, position or cut."""


class ScenarioError(WmlabError):
    """A scenario that cannot be run; gathers all its mistakes, each with its location."""


class FunctionError(ScenarioError):
    """A Python function of a scenario raised an error, which is the cause (`__cause__`) with its traceback."""


class RecordingError(WmlabError):
    """A recording that is truncated, missing, foreign, or written by a newer schema."""


class TraceError(WmlabError):
    """A real log that cannot be read as a stream: columns, types or times are missing."""


class SessionError(WmlabError):
    """Spark cannot be started or reached."""


class EngineError(WmlabError):
    """A job or a query that cannot be reached, or whose metrics cannot be read."""


class ChartError(WmlabError):
    """A table that does not answer the question of a chart."""


class MissingVerbError(RecordingError, AttributeError):
    """A recording was asked for what only recordings of other models have."""
