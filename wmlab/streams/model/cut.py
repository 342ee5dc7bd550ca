"""The stream cut of a watermark: at or beyond every counted writer at every key, and covering the whole key space.

Writers may be at predecessors and successors at the same time, so their positions only partly overlap. The cut is
their greatest upper bound, never behind the previous watermark's cut, completed with segments at offset 0.

Two algorithms. "pravega" does what the implementation does: it inserts segments in the order in which it meets them,
superimposes the previous cut afterwards and fills gaps from the newest epoch. It is unsound in three ways: the result
depends on the order; it can move backwards; and it can be a cut that no reader passes through. "sound" inserts in
ascending order of segment id, takes the previous cut into the same pass, and closes the result under the lineage.

Source: PDP-33, Watermark Computation; upstream class `WatermarkWorkflow`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from wmlab.core.errors import ModelError
from wmlab.streams.model.history import Epoch, StreamHistory
from wmlab.streams.model.position import Position, first_unpassed_ancestor
from wmlab.streams.model.segment import WHOLE, KeyRange, Segment, gaps, segment_name

CutAlgorithm = Literal["sound", "pravega"]
VisitOrder = Literal["as_noted", "newest_first", "oldest_first"]

_Offsets = dict[int, int | None]


class CutError(ModelError):
    """No cut can be computed; `reason` is "no positions", "unknown segment 9@4" or "did not terminate"."""

    def __init__(self, reason: str, *, remedy: str) -> None:
        self.reason = reason
        super().__init__(f"The stream cut cannot be computed: {reason}.", remedy=remedy)

    def __reduce__(self) -> tuple[object, ...]:
        return _cut_error, (self.reason, self.remedy)


def stream_cut(
    positions: Sequence[Position],
    previous: Position | None,
    history: StreamHistory,
    *,
    algorithm: CutAlgorithm = "sound",
    visit_order: VisitOrder = "as_noted",
    bug_6510: bool = False,
) -> Position:
    """The cut for the counted writers' positions, given the previous watermark's cut.

    `visit_order` matters to "pravega" only. A segment without acknowledgement counts as offset 0; with `bug_6510` it
    stays None in the cut, which readers then take for the end of the segment. Raises `CutError`.
    Source: PDP-33, Watermark Computation; upstream class `WatermarkWorkflow` (computeStreamCut).
    """
    given = [_floored(position, keep_unknown=bug_6510) for position in positions]
    before = _floored(previous, keep_unknown=bug_6510) if previous is not None else Position()
    if not any(given):
        raise CutError("no positions", remedy="Let a counted writer note a position with at least one segment.")
    _refuse_unknown((*given, before), history)
    if algorithm == "pravega":
        return _pravega_cut(given, before, history, visit_order)
    bound = greatest_upper_bound((*given, before), history, visit_order="oldest_first")
    return lineage_closure(complete(bound, history), history)


def greatest_upper_bound(
    positions: Sequence[Position], history: StreamHistory, *, visit_order: VisitOrder = "as_noted"
) -> Position:
    """The latest segment at each key, with the largest offset any position has in it; may leave gaps.

    A segment is taken unless a later one over some of its keys was taken before; it replaces earlier ones. So the
    result depends on the order; "oldest_first" gives the upper bound. Raises `CutError` for an unknown segment.
    Source: PDP-33, Watermark Computation (addToUpperBound); upstream class `WatermarkWorkflow`.
    """
    _refuse_unknown(positions, history)
    bound: _Offsets = {}
    for segment, offset in visits(positions, visit_order):
        _insert(bound, segment, offset, history.segments)
    return Position(bound)


def visits(positions: Sequence[Position], visit_order: VisitOrder) -> tuple[tuple[int, int | None], ...]:
    """All (segment id, offset) pairs in the order in which they are inserted.

    "as_noted" goes from writer to writer in the order given, each in ascending id.
    Source: upstream class `WatermarkWorkflow`, where the order is that of the store and of a hash map.
    """
    pairs = [pair for position in positions for pair in position.items()]
    if visit_order != "as_noted":
        pairs.sort(key=lambda pair: pair[0], reverse=visit_order == "newest_first")
    return tuple(pairs)


def complete(bound: Position, history: StreamHistory) -> Position:
    """The bound with every gap of the key space filled at offset 0.

    Fills from the epoch that created the newest segment of the bound; that may evict older segments and open new
    gaps, at worst until the whole epoch is in. Raises `CutError` for an empty bound or an unknown segment.
    Source: PDP-33, Watermark Computation (computeStreamCut).
    """
    _refuse_unknown((bound,), history)
    cut: _Offsets = dict(bound)
    while missing := gaps(_ranges(cut, history), within=history.space):
        _fill(cut, missing, _newest_epoch(cut, history), history.segments)
    return Position(cut)


def lineage_closure(cut: Position, history: StreamHistory) -> Position:
    """The earliest cut at or beyond `cut` that a reader can pass, so that nothing before it is still unread.

    As long as an ancestor of the cut is not passed by it, all that replaced the ancestor goes in at offset 0.
    Raises `CutError` for an unknown segment. Source: wmlab's repair of PDP-33, Watermark Computation.
    """
    _refuse_unknown((cut,), history)
    while (ancestor := first_unpassed_ancestor(cut, history)) is not None:
        offsets: _Offsets = dict(cut)
        for successor in history.successors(ancestor.id):
            _insert(offsets, successor.id, 0, history.segments)
        cut = complete(Position(offsets), history)
    return cut


def _pravega_cut(
    positions: Sequence[Position], previous: Position, history: StreamHistory, visit_order: VisitOrder
) -> Position:
    cut: _Offsets = dict(greatest_upper_bound(positions, history, visit_order=visit_order))
    missing = gaps(_ranges(cut, history), within=WHOLE)
    for segment, offset in visits([previous], visit_order):
        _insert(cut, segment, offset, history.segments)
    # Every pass that changes something adds a segment that was never in the cut before, so this many are enough.
    for _ in range(len(history.segments) + 2):
        _fill(cut, missing, _newest_epoch(cut, history), history.segments)
        missing = gaps(_ranges(cut, history), within=WHOLE)
        if not missing:
            return Position(cut)
    raise CutError(
        "did not terminate", remedy='Use exact key ranges (arithmetic="exact") or the cut algorithm "sound".'
    )


def _insert(cut: _Offsets, segment: int, offset: int | None, segments: Mapping[int, Segment]) -> None:
    if segment in cut:
        cut[segment] = max(cut[segment], offset, key=lambda o: -1 if o is None else o)
        return
    keys = segments[segment].keys
    rivals = [other for other in cut if segments[other].keys.overlaps(keys)]
    if any(other > segment for other in rivals):
        return
    for other in rivals:
        del cut[other]
    cut[segment] = offset


def _fill(cut: _Offsets, missing: Iterable[KeyRange], epoch: Epoch, segments: Mapping[int, Segment]) -> None:
    for gap in missing:
        for segment in epoch.segments:
            if segment.keys.overlaps(gap):
                _insert(cut, segment.id, 0, segments)


def _newest_epoch(cut: Iterable[int], history: StreamHistory) -> Epoch:
    if not cut:
        raise CutError("no positions", remedy="Let a counted writer note a position with at least one segment.")
    return history.epoch(max(history.segment(segment).epoch for segment in cut))


def _ranges(cut: Iterable[int], history: StreamHistory) -> list[KeyRange]:
    return [history.segments[segment].keys for segment in cut]


def _floored(position: Position, *, keep_unknown: bool) -> Position:
    if keep_unknown or None not in position.values():
        return position
    return Position({segment: offset or 0 for segment, offset in position.items()})


def _refuse_unknown(positions: Iterable[Position], history: StreamHistory) -> None:
    for position in positions:
        for segment in position:
            if segment not in history.segments:
                raise CutError(
                    f"unknown segment {segment_name(segment)}",
                    remedy="Let the writer note a position in segments of the stream.",
                )


def _cut_error(reason: str, remedy: str) -> CutError:
    return CutError(reason, remedy=remedy)
