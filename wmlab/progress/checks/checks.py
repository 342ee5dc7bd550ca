"""The judge of progress by origin, sequence and chunk: one verdict for each promise N1 to N12, from tables alone.

What an operator believed after each buffer is recorded (`completed`, `reached_prefix`, `reached_local`, `reached`) and
held against what the buffers themselves say. A recording that was made under the literal rule, or by an engine that
forgets fired windows, is found out here.

Source: "Watermarking and Progress"; wmlab's own list of what it promises.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from wmlab.core.answers.verdicts import Verdicts
from wmlab.core.errors import ModelError
from wmlab.core.recording import Recording
from wmlab.core.spark.judge import Invariant, judged, summed
from wmlab.progress.checks.progress import progress
from wmlab.progress.checks.tracked import (
    chunks_in_order,
    complete_by_the_set,
    count_is_set,
    fractured_ranges,
    gap_blocks,
    head_below_maximum,
    largest_of_its_chunks,
    prefix_decides,
    smallest_of_the_origins,
)
from wmlab.progress.checks.windows import fires_once, outputs_carry_the_start, windows_are_their_slices
from wmlab.progress.model.tracker import LocalRule
from wmlab.progress.scenario import rules_of

_NO_BUFFER: Final = "no buffer came to an operator"
_NO_WINDOW: Final = "no window fired"
_TRACKED: Final = ("progress",)

PROGRESS_INVARIANTS: Final[Mapping[str, Invariant]] = {
    "N1": Invariant(
        "prefix and local watermark are those of the longest complete prefix", prefix_decides, _TRACKED, _NO_BUFFER
    ),
    "N2": Invariant("a missing sequence blocks the prefix until it comes", gap_blocks, _TRACKED, _NO_BUFFER),
    "N3": Invariant(
        "a sequence is complete exactly when all its chunks have come", complete_by_the_set, _TRACKED, _NO_BUFFER
    ),
    "N4": Invariant(
        "counting chunks finds the same as their set where none is repeated",
        count_is_set,
        ("progress", "counted"),
        "every sequence has a repeated chunk",
    ),
    "N5": Invariant(
        "the watermark of a sequence is the largest of its chunks'",
        largest_of_its_chunks,
        _TRACKED,
        "no prefix grew by one sequence",
    ),
    "N6": Invariant(
        "the global watermark is the smallest local one, unknown while an origin has none",
        smallest_of_the_origins,
        _TRACKED,
        _NO_BUFFER,
    ),
    "N7": Invariant(
        "the local watermark is between that at the head of the prefix and its running maximum",
        head_below_maximum,
        ("head", "running_max"),
        "no origin has a local watermark",
    ),
    "N8": Invariant(
        "windows fire once, in order of end, numbered without a gap, not before time has come to their end",
        fires_once,
        ("windows_fired",),
        _NO_WINDOW,
    ),
    "N9": Invariant(
        "outputs carry the start of their window, which never goes back",
        outputs_carry_the_start,
        ("windows_fired", "buffers"),
        _NO_WINDOW,
    ),
    "N10": Invariant(
        "no chunk comes twice, and only the one with the highest number is the last",
        chunks_in_order,
        ("buffers",),
        _NO_BUFFER,
    ),
    "N11": Invariant(
        "a window holds the records of its slices", windows_are_their_slices, ("windows_fired", "buffers"), _NO_WINDOW
    ),
    "N12": Invariant(
        "the parts of a fractured range add up to it",
        fractured_ranges,
        ("buffers",),
        "buffers are numbered by sequence and chunk, not by fractured ranges",
    ),
}
"""What progress in a recording has to keep, by name."""
JUDGED: Final = ("buffers", "windows_fired")


def progress_verdict(name: str, tables: Mapping[str, DataFrame], *, local: LocalRule = "running_max") -> DataFrame:
    """The verdict on one promise, "N1" to "N12", over all queries of a recording: exactly one row.

    `tables` are the recording's `buffers` and `windows_fired`, `local` the rule under which it was made. Columns as
    `wmlab.streams.checks.checks.verdict`. Nothing is executed here. Raises `ModelError` for another name or a missing
    table.
    """
    if name not in PROGRESS_INVARIANTS:
        known = ", ".join(PROGRESS_INVARIANTS)
        raise ModelError(f"There is no promise {name!r} about progress.", remedy=f"Ask for one of {known}.")
    if missing := [table for table in JUDGED if table not in tables]:
        raise ModelError(
            f"{name} is judged from the table {missing[0]!r}, which is not given.",
            remedy=f"Give the tables {', '.join(JUDGED)}.",
        )
    buffers = tables["buffers"]
    made = {
        "progress": lambda: progress(buffers, local=local),
        "counted": lambda: progress(buffers, local=local, complete="count"),
        "head": lambda: progress(buffers, local="head"),
        "running_max": lambda: progress(buffers),
    }
    rule = PROGRESS_INVARIANTS[name]
    return summed(name, rule, rule.judge(*(made[one]() if one in made else tables[one] for one in rule.tables)))


def check(recording: Recording, spark: SparkSession) -> Verdicts:
    """One verdict per invariant, N1 to N12, with the rows that prove a violation; judged by Spark from the tables."""
    rules = rules_of(recording)
    tables = {name: recording.spark(spark, name) for name in JUDGED}
    local = "running_max" if rules is None else rules.local
    return judged(recording.name, PROGRESS_INVARIANTS, lambda name: progress_verdict(name, tables, local=local))
