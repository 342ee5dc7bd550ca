"""Many recordings as one, so that Spark judges them all at once; the streams of run 17 are called `run17/orders`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tests.machine.judge import Findings, Found
from wmlab.core.recording import Recording
from wmlab.streams.checks import INVARIANTS
from wmlab.streams.checks import TABLES as CHECKED
from wmlab.streams.checks.windows import COMPARED, compared_groups
from wmlab.streams.sweep import named_after
from wmlab.streams.tables import TABLES as SCHEMAS

_SCHEMAS: Final = {**SCHEMAS, "compared_groups": COMPARED}
TABLES: Final = tuple(sorted({"positions", "compared_groups", *CHECKED}))
"""What Spark needs of a recording: tables, and which groups have windows that are compared."""


def given_of(recording: Recording) -> dict[str, pa.Table]:
    """What both judges are given of a recording."""
    return {**recording.tables, "compared_groups": compared_groups(recording)}


class Batch:
    """The tables of recordings, run by run."""

    def __init__(self) -> None:
        self._parts: dict[str, list[pa.Table]] = {name: [] for name in TABLES}

    def add(self, run: str, tables: Mapping[str, pa.Table]) -> None:
        """Take in the tables of a recording; its streams are called after the run from now on."""
        for name in TABLES:
            self._parts[name].append(named_after(run, tables[name]))

    def table(self, name: str) -> pa.Table:
        """One table of all recordings."""
        return pa.concat_tables([_SCHEMAS[name].empty_table(), *self._parts[name]]).combine_chunks()


def judged_by_spark(frames: Mapping[str, DataFrame]) -> Findings:
    """What Spark's checks say about every stream, in the words of the second judge."""
    found: Findings = {}
    for name, invariant in INVARIANTS.items():
        findings = invariant.findings(**{name: frames[name] for name in invariant.inputs})
        broken = F.sort_array(F.collect_list(F.when(F.col("ok") == F.lit(False), F.col("at_ms"))))
        summed = findings.groupBy("stream").agg(F.sum("judged").alias("judged"), broken.alias("broken"))
        for row in summed.where("judged > 0 or size(broken) > 0").collect():
            found[row.stream, name] = Found(row.judged, tuple(row.broken))
    return found


def of_run(run: str, found: Findings) -> Findings:
    """The findings on a recording with the names that its streams have in a batch."""
    return {(f"{run}/{stream}", invariant): one for (stream, invariant), one in found.items()}


def differences(some: Findings, others: Findings) -> Iterable[str]:
    """Where two judges disagree, one line each."""
    for key in sorted(some.keys() | others.keys()):
        if some.get(key) != others.get(key):
            yield f"{key[1]} of {key[0]}: {some.get(key)} or {others.get(key)}"
