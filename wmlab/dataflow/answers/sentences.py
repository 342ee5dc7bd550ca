"""How a job ended, and a row, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wmlab.core.holders import FAILED
from wmlab.core.recording import Recording
from wmlab.dataflow.answers.cause_facts import dataflow_facts, of_end
from wmlab.dataflow.answers.run import DataflowRun, run_of


def failure_sentence(run: DataflowRun) -> str:
    """That the job failed, and why; empty if it did not."""
    facts = dataflow_facts(run, of_end(run.end_at()))
    return "".join(map(facts.fill, facts.chosen(FAILED)))


def failure_of(recording: Recording) -> str:
    """That the job of a recording failed, and why; empty if it did not, or if it has none."""
    return failure_sentence(run_of(recording)) if recording.counts["vertices"] else ""


def row_words(values: Mapping[str, Any]) -> str:
    """A row as one reads it: "id 1, t 10"."""
    return ", ".join(f"{name} {value}" for name, value in values.items())
