"""Answers from a recording: verdicts, what held the bounds, what each holder cost, and what happened."""

from wmlab.answers.ask import explain
from wmlab.answers.dataflow_ask import Drops, FlowExplanation, FlowHolder
from wmlab.answers.dataflow_explanation import DroppedRow, StateForecast
from wmlab.answers.dataflow_permutations import Permutations, Permuted
from wmlab.answers.explanation import Explanation, HoldingSegment, HoldingWriter
from wmlab.answers.holders import Holder, Holders
from wmlab.answers.moments import Moment
from wmlab.answers.progress import HoldingOrigin, ProgressExplanation, progress_holders
from wmlab.answers.rules import Rules
from wmlab.answers.timeline import Timeline, timeline
from wmlab.answers.verdicts import Proof, Verdict, Verdicts

__all__ = [
    "DroppedRow",
    "Drops",
    "Explanation",
    "FlowExplanation",
    "FlowHolder",
    "Holder",
    "Holders",
    "HoldingOrigin",
    "HoldingSegment",
    "HoldingWriter",
    "Moment",
    "Permutations",
    "Permuted",
    "ProgressExplanation",
    "Proof",
    "Rules",
    "StateForecast",
    "Timeline",
    "Verdict",
    "Verdicts",
    "explain",
    "progress_holders",
    "timeline",
]
