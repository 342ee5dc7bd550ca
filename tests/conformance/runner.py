"""Which adapter runs which kind of case."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tests.conformance import buckets, leader, marks, readers, revisions, shapes, streams, workflow
from tests.conformance.fields import Fields, expect, known, undescribed
from wmlab.streams.model.cut import CutAlgorithm

Adapter = Callable[[Fields, Fields, CutAlgorithm], None]
"""Runs a case with its inputs and its expectations; the latter are empty for a kind whose steps have them."""

KINDS: Final[Mapping[str, Adapter]] = {
    "workflow": workflow.run,
    "reader_compare": workflow.run,
    "reader_window": workflow.run,
    "writer_mark": workflow.run,
    "barrier": leader.run_barrier,
    "recreate": leader.run_recreate,
    "writer_mark_cas": marks.run_cas,
    "writer_position": marks.run_position,
    "txn_mark": marks.run_txn,
    "segment_id": marks.run_segment_id,
    "validation": marks.run_validation,
    "reader_group": readers.run_group,
    "latest_item": readers.run_latest,
    "revisioned_log": revisions.run,
    "streamcut_compare": streams.run_compare,
    "streamcut_valid": streams.run_valid,
    "segments_between": streams.run_between,
    "rolling_txn": streams.run_rolling,
    "scale_shape": shapes.run,
    "bucket_hash": buckets.run_hash,
    "bucket_distribution": buckets.run_distribution,
}
IN_STEPS: Final = {"workflow", "reader_compare", "reader_window", "writer_mark", "barrier"}
"""The kinds whose expectations stand in their steps."""


def run_case(case: Mapping[str, Any], algorithm: CutAlgorithm) -> None:
    """Run one case; raises AssertionError when an expectation fails or anything in the case is unknown."""
    with undescribed(case, str(case.get("name"))) as fields:
        kind = known("kind", fields.take("kind"), KINDS)
        inputs, expected = fields.take("inputs"), fields.take("expected")
        if kind in IN_STEPS:
            expect("place of the expectations", expected, "in steps[].expect")
            expected = {}
        with Fields(inputs, "inputs") as given, Fields(expected, "expected") as wanted:
            KINDS[kind](given, wanted, algorithm)
