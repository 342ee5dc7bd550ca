"""Answers from a recording: verdicts, what held the bounds, what each holder cost, and what happened."""

from wmlab.core.answers.stragglers import Straggler, Stragglers
from wmlab.core.answers.verdicts import Proof, Verdict, Verdicts
from wmlab.streams.answers.ask import explain
from wmlab.streams.answers.explanation import Explanation, HoldingSegment, HoldingWriter
from wmlab.streams.answers.moments import Moment
from wmlab.streams.answers.rules import Rules
from wmlab.streams.answers.timeline import Timeline, timeline

__all__ = [
    "Explanation",
    "HoldingSegment",
    "HoldingWriter",
    "Moment",
    "Proof",
    "Rules",
    "Straggler",
    "Stragglers",
    "Timeline",
    "Verdict",
    "Verdicts",
    "explain",
    "timeline",
]
