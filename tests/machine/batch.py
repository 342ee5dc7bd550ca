"""Many recordings as one, to ask Spark or a judge once; the streams of run 17 are called `run17/orders`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import wraps
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.compute import take

from tests.machine.compared import COMPARED, compared_groups, known_by_time_bounds
from tests.machine.judge import TABLES as WITH_STREAM, Findings, Found, windows_are_bounds
from wmlab.core.invariants import Finding, Invariant, verdicts_of
from wmlab.core.recording import Recording
from wmlab.core.spark.grouped import rows_by
from wmlab.streams.checks import DERIVED, INPUT_TABLES as CHECKED, INVARIANTS, with_reduced_events
from wmlab.streams.tables import TABLES as SCHEMAS

_OWNERSHIP: Final = SCHEMAS["ownership"].insert(0, pa.field("stream", pa.string()))
_SCHEMAS: Final = {**SCHEMAS, "compared_groups": COMPARED, "ownership": _OWNERSHIP}
TABLES: Final = tuple(sorted({*WITH_STREAM, *CHECKED}))
"""What is kept of a recording: tables, and which groups have windows that are compared."""
Given = dict[str, pa.Table]
_NO_ROWS: Final = np.zeros(0, np.int64)


def given_of(recording: Recording) -> Given:
    """What both judges are given of a recording."""
    return {**recording.tables, "compared_groups": compared_groups(recording)}


class Batch:
    """The tables of recordings, run by run."""

    def __init__(self) -> None:
        self._parts: dict[str, list[pa.Table]] = {name: [] for name in TABLES}

    def add(self, run: str, tables: Mapping[str, pa.Table]) -> None:
        """Take in the tables of a recording; its streams are called after the run from now on."""
        of_streams = {**tables, "ownership": _by_stream(tables["ownership"], tables["segments"]["stream"].unique())}
        for name in TABLES:
            self._parts[name].append(_named_after(run, of_streams[name]))

    def table(self, name: str) -> pa.Table:
        """One table of all recordings."""
        return pa.concat_tables([_SCHEMAS[name].empty_table(), *self._parts[name]]).combine_chunks()


def _by_stream(ownership: pa.Table, streams: pa.Array) -> pa.Table:
    """Who owned the bucket of each stream; a rule of many recordings would look at the buckets of all."""
    rows = [
        {"stream": stream} | row
        for row in ownership.to_pylist()
        for stream in streams.to_pylist()
        if stream.partition("#")[0] in row["streams"]
    ]
    return pa.Table.from_pylist(rows, _OWNERSHIP)


def _named_after(run: str, table: pa.Table) -> pa.Table:
    """A table of a recording whose streams, in `stream` and in lists in `streams`, have the run and a / before."""
    named = {name: table[name] for name in table.schema.names}
    named["stream"] = pc.binary_join_element_wise(run, table["stream"], "/")
    if "streams" in named:
        named["streams"] = [[f"{run}/{stream}" for stream in streams] for streams in table["streams"].to_pylist()]
    return pa.table(named, table.schema)


def judged_by_checks(tables: Mapping[str, pa.Table]) -> Findings:
    """What wmlab's checks and time bounds say about every stream, in the words of the second judge."""
    reduced = with_reduced_events(tables, [tables["events"]])
    rows = {name: {key: rows for (key,), rows in rows_by(table, "stream")} for name, table in reduced.items()}
    found: Findings = {}
    for stream in tables["segments"]["stream"].unique().to_pylist():
        own = {name: take(table, rows[name].get(stream, _NO_ROWS)) for name, table in reduced.items()}
        found |= _judged_stream(stream, own)
    return found


def _judged_stream(stream: str, tables: Mapping[str, pa.Table]) -> Findings:
    """What the rules say about one stream."""
    findings: dict[str, list[Finding]] = {}
    invariants = {name: _noted(name, invariant, findings) for name, invariant in INVARIANTS.items()}
    verdicts_of("", invariants, [(stream, tables)], DERIVED)
    rows = {name: tables[name].to_pylist(maps_as_pydicts="strict") for name in WITH_STREAM}
    windows, differ = windows_are_bounds(rows, known_by_time_bounds)
    found: Findings = {(stream, "windows"): Found(windows, tuple(sorted(differ)))} if windows else {}
    for name, of_one in findings.items():
        judged = sum(finding.judged for finding in of_one)
        broken = sorted(finding.at_ms or 0 for finding in of_one if finding.ok is False)
        if judged or broken:
            found[stream, name] = Found(judged, tuple(broken))
    return found


def _noted(name: str, invariant: Invariant, findings: dict[str, list[Finding]]) -> Invariant:
    """The invariant, which keeps its findings under its name."""

    @wraps(invariant.findings)
    def noted(**inputs: Any) -> list[Finding]:
        findings[name] = list(invariant.findings(**inputs))
        return findings[name]

    return replace(invariant, findings=noted)


def of_run(run: str, found: Findings) -> Findings:
    """The findings on a recording with the names that its streams have in a batch."""
    return {(f"{run}/{stream}", invariant): one for (stream, invariant), one in found.items()}


def differences(some: Findings, others: Findings) -> Iterable[str]:
    """Where two judges disagree, one line each."""
    for key in sorted(some.keys() | others.keys()):
        if some.get(key) != others.get(key):
            yield f"{key[1]} of {key[0]}: {some.get(key)} or {others.get(key)}"
