"""What lies between two stream cuts: the segments on the way, and how many bytes they hold.

At every key a stream is one sequence of segments with ascending ids. The segments between two cuts are, key by key,
those from the first cut's segment to the second cut's, both included.

Source: upstream class `PersistentStreamBase` (segments and size between stream cuts); PDP-33, Future Possibilities.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from wmlab.core.errors import ModelError
from wmlab.streams.model.segment import Segment

Cut = Mapping[Segment, int | None]
"""A stream cut with its ranges: offset in bytes per segment, None for the tail of a segment."""


def segments_between(start: Cut, end: Cut, candidates: Iterable[Segment]) -> tuple[Segment, ...]:
    """The candidates that lie between the cuts at one key at least, ascending.

    Raises `ModelError` when `end` lies before `start` at any key. Source: upstream class `PersistentStreamBase`.
    """
    refuse_backwards(start, end)
    found = []
    for segment in candidates:
        before = [s for s in start if s.id <= segment.id and s.keys.overlaps(segment.keys)]
        after = [s for s in end if s.id >= segment.id and s.keys.overlaps(segment.keys)]
        if any(left.keys.overlaps(right.keys) for left in before for right in after):
            found.append(segment)
    return tuple(sorted(found, key=lambda s: s.id))


def refuse_backwards(start: Cut, end: Cut) -> None:
    """Nothing, or `ModelError` when `end` lies before `start` at any key. Source: as `segments_between`."""
    for left, begin in start.items():
        for right, stop in end.items():
            if left.keys.overlaps(right.keys) and _is_behind(right, stop, left, begin):
                raise ModelError(
                    f"The second cut lies before the first: {right.name} at {stop} against {left.name} at {begin}.",
                    remedy="Give the earlier cut first.",
                )


def bytes_between(start: Cut, end: Cut, candidates: Iterable[Segment], sealed_bytes: Mapping[int, int]) -> int:
    """Bytes between the cuts; `sealed_bytes` is the length of each segment that `end` gives no offset for.

    Raises `ModelError` as `segments_between`, or when a length is missing. Source: upstream `PersistentStreamBase`.
    """
    total = 0
    for segment in segments_between(start, end, candidates):
        stop = end.get(segment)
        if stop is None and segment.id not in sealed_bytes:
            raise ModelError(f"The length of {segment.name} is missing.", remedy="Give the length of every segment.")
        total += (sealed_bytes[segment.id] if stop is None else stop) - (start.get(segment) or 0)
    return total


def _is_behind(segment: Segment, offset: int | None, other: Segment, other_offset: int | None) -> bool:
    if segment.id != other.id or offset is None:
        return segment.id < other.id
    return other_offset is None or offset < other_offset
