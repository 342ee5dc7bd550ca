"""Which adapter runs which kind of case."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tests.conformance import buckets, leader, marks, readers, revisions, shapes, streams, workflow
from tests.conformance.fields import Fields, UnknownFormatError
from wmlab.streams.model.cut import CutAlgorithm

Adapter = Callable[[Fields, CutAlgorithm], None]

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


def run_case(case: Mapping[str, Any], algorithm: CutAlgorithm) -> None:
    """Run one case; raises AssertionError when an expectation fails or anything in the case is unknown."""
    with Fields(case, str(case.get("name"))) as fields:
        for described in ("name", "source", "origin", "notes"):
            fields.take(described)
        kind = fields.take("kind")
        if kind not in KINDS:
            raise UnknownFormatError(f"kind {kind!r}")
        KINDS[kind](fields, algorithm)
