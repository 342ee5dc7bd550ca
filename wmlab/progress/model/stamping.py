"""The watermark timestamp of a buffer: by event time or by ingestion time.

By event time it is the largest time among the records of the buffer, in the unit of the field times a multiplier.
A buffer without a record carries 0, because the engine starts its maximum there; a tracker that reads the value at
the head of the prefix is thrown back by it. By ingestion time it is the creation time of the buffer.

Source: "Watermarking and Progress", Watermark Timestamp; upstream classes `EventTimeFunction` and
`IngestionTimeFunction`.
"""

from __future__ import annotations

from collections.abc import Iterable

from wmlab.core.errors import ModelError
from wmlab.progress.model.identifiers import INITIAL


def by_event_time(times: Iterable[int], *, unit: int = 1, allowed_lateness: int = 0) -> int:
    """The largest of `times` times `unit`, less `allowed_lateness` (same unit as the result), never below 0.

    `unit` is 1 for a field in milliseconds, 1000 for one in seconds. The slack existed until 2025 and is 0 since.
    Raises `ModelError` for a unit below 1 or a negative slack.
    Source: "Watermarking and Progress", Watermark Timestamp; upstream class `EventTimeFunction`.
    """
    if unit < 1 or allowed_lateness < 0:
        raise ModelError(
            f"A unit of {unit} with a slack of {allowed_lateness} gives no watermark.",
            remedy="Give a unit of at least 1 and a slack of at least 0.",
        )
    return max(INITIAL, max(times, default=INITIAL) * unit - allowed_lateness)


def by_ingestion_time(created: int, carried: int | None = None) -> int:
    """The creation time of the buffer, or what it carries already if that is later.

    Source: "Watermarking and Progress", Watermark Timestamp; upstream class `IngestionTimeFunction`.
    """
    return created if carried is None else max(created, carried)
