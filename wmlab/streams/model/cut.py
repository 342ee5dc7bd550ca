"""The stream cut of a watermark: at or beyond every counted writer at every key, and covering the whole key space.

Writers may be at predecessors and successors at the same time, so their positions only partly overlap. The cut is
their least upper bound, never behind the previous watermark's cut, completed with segments at offset 0.

Three algorithms. "document" does what the pseudo-code of the design says: a segment goes in unless one of its
successors is there, and replaces its predecessors, both transitively; gaps are filled from the newest epoch. The
previous cut does not enter, so the cut can move back when the writer that set it is gone. "pravega" does what the
implementation does. It takes any later segment with a common key for a successor, and superimposes the previous cut
before it fills gaps. It is unsound in three ways: the result depends on the order; it can move backwards; and it can be
a cut that no reader passes through. "sound" inserts in ascending order of segment id, takes the previous cut into the
same pass, and closes the result under the lineage.

An end of known time is not an exception to "document": the watermark after it may have a cut before it, if the writer
that came back stands there. The design asks only that a cut is at or beyond every writer, which this one is. A reader
that passes the end passes that watermark, too.

Source: PDP-33, Watermark Computation; upstream class `WatermarkWorkflow`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from typing import Final, Literal

from wmlab.core.errors import ModelError
from wmlab.streams.model.history import StreamHistory
from wmlab.streams.model.position import Position, first_unpassed_ancestor, floored, is_less
from wmlab.streams.model.segment import WHOLE, KeyRange, gaps, segment_name

CutAlgorithm = Literal["sound", "pravega", "document"]
VisitOrder = Literal["as_noted", "newest_first", "oldest_first"]

_Offsets = dict[int, int | None]


CutFailure = Literal["no positions", "unknown segment", "did not terminate"]


class CutError(ModelError):
    """No cut can be computed, for the reason `failure`; `reason` says it with the segment, "unknown segment 9@4"."""

    def __init__(self, failure: CutFailure, segment: str = "", *, remedy: str) -> None:
        self.failure = failure
        self.reason = reason = f"{failure} {segment}".strip()
        super().__init__(f"The stream cut cannot be computed: {reason}.", remedy=remedy)


CutReason = Literal["upper bound", "previous cut", "missing ranges", "reader"]


@dataclass(frozen=True, slots=True)
class CutStep:
    """A state on the way to a cut, with the offset in each segment, and the reason for the step to it.

    `upper bound`: the writers' positions were combined; `previous cut`: that of the watermark before was combined with
    them; `missing ranges`: key ranges without a segment got those of the newest epoch at offset 0;
    `reader`: all that replaced a segment was taken, since no reader would pass the cut otherwise.
    """

    reason: CutReason
    offsets: Mapping[int, int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CutRules:
    """How a cut is computed. `visit_order` does not matter to "sound".

    A segment without acknowledgement counts as offset 0; with `bug_6510` it stays None in the cut, which readers then
    take for the end of the segment.
    """

    algorithm: CutAlgorithm = "sound"
    visit_order: VisitOrder = "as_noted"
    bug_6510: bool = False


SOUND: Final = CutRules()


def stream_cut(
    positions: Sequence[Position],
    previous: Position | None,
    history: StreamHistory,
    rules: CutRules = SOUND,
    *,
    steps: list[CutStep] | None = None,
) -> Position:
    """The cut for the counted writers' positions and the previous watermark's cut. Raises `CutError`.

    `steps` takes the way to it: the upper bound of the positions first, the cut itself last.
    """
    floors = list(positions) if rules.bug_6510 else [floored(position) for position in positions]
    previous_floor = Position() if previous is None else previous if rules.bug_6510 else floored(previous)
    if not any(floors):
        raise CutError("no positions", remedy="Let a counted writer note a position with at least one segment.")
    for segment in chain(*floors, previous_floor):
        if segment not in history.segments:
            raise CutError(
                "unknown segment",
                segment_name(segment),
                remedy="Let the writer note a position in segments of the stream.",
            )
    way = list(_ALGORITHMS[rules.algorithm](floors, previous_floor, history, rules.visit_order))
    if steps is not None:
        steps += way
    return Position(way[-1].offsets)


def _sound_steps(
    positions: Sequence[Position], previous: Position, history: StreamHistory, _: VisitOrder
) -> Iterator[CutStep]:
    """The least upper bound of all positions, completed, and moved on until a reader can pass it.

    Filling a gap may evict older segments and open new gaps, at worst until the whole epoch is in. As long as an
    ancestor of the cut is not passed by it, all that replaced the ancestor goes in at offset 0.
    """
    cut = _upper_bound({}, (*positions, previous), history, "oldest_first")
    yield CutStep("upper bound", dict(cut))
    while True:
        while missing := history.gaps(cut):
            _fill(cut, missing, history)
            yield CutStep("missing ranges", dict(cut))
        ancestor = first_unpassed_ancestor(cut, history)
        if ancestor is None:
            return
        for successor in history.successors(ancestor.id):
            _insert(cut, successor.id, 0, history.over_keys_of)
        yield CutStep("reader", dict(cut))


def _document_steps(
    positions: Sequence[Position], _: Position, history: StreamHistory, order: VisitOrder
) -> Iterator[CutStep]:
    """`computeGreatestUpperBound` with `addToUpperBound`, then `computeStreamCut`, which looks at one gap at a time."""
    cut = _upper_bound({}, positions, history, order, history.lineage_of)
    yield CutStep("upper bound", dict(cut))
    while missing := history.gaps(cut):
        _fill(cut, missing[:1], history, history.lineage_of)
        yield CutStep("missing ranges", dict(cut))


def _pravega_steps(
    positions: Sequence[Position], previous: Position, history: StreamHistory, visit_order: VisitOrder
) -> Iterator[CutStep]:
    cut = _upper_bound({}, positions, history, visit_order)
    yield CutStep("upper bound", dict(cut))
    missing = gaps(_ranges(cut, history), within=WHOLE)
    _upper_bound(cut, [previous], history, visit_order)
    yield CutStep("previous cut", dict(cut))
    # Every pass that changes something adds a segment that was never in the cut before, so this many are enough.
    for _ in range(len(history.segments) + 2):
        _fill(cut, missing, history)
        yield CutStep("missing ranges", dict(cut))
        missing = gaps(_ranges(cut, history), within=WHOLE)
        if not missing:
            return
    raise CutError(
        "did not terminate", remedy='Use exact key ranges (arithmetic="exact") or the cut algorithm "sound".'
    )


_ALGORITHMS: Final = {"sound": _sound_steps, "pravega": _pravega_steps, "document": _document_steps}


def _upper_bound(
    cut: _Offsets,
    positions: Sequence[Position],
    history: StreamHistory,
    visit_order: VisitOrder,
    rivals: Callable[[int], frozenset[int]] | None = None,
) -> _Offsets:
    """`cut` with the latest segment at each key, and the largest offset any position has in it; may leave gaps.

    The result depends on the order of the visits. "oldest_first" gives the least upper bound; "as_noted" goes from
    writer to writer in the order given, each in ascending id; upstream it is that of the store and of a hash map.
    """
    visits = [visit for position in positions for visit in position.items()]
    if visit_order != "as_noted":
        visits.sort(key=itemgetter(0), reverse=visit_order == "newest_first")
    for segment, offset in visits:
        _insert(cut, segment, offset, rivals or history.over_keys_of)
    return cut


def _insert(cut: _Offsets, segment: int, offset: int | None, rivals: Callable[[int], frozenset[int]]) -> None:
    """Take a segment unless a later one of its rivals was taken before; it replaces earlier ones.

    Rivals have a common key, or are of its lineage.
    """
    if segment in cut:
        cut[segment] = offset if is_less(cut[segment], offset) else cut[segment]
        return
    others = rivals(segment) & cut.keys()
    if any(other > segment for other in others):
        return
    for other in others:
        del cut[other]
    cut[segment] = offset


def _fill(
    cut: _Offsets,
    missing: Iterable[KeyRange],
    history: StreamHistory,
    rivals: Callable[[int], frozenset[int]] | None = None,
) -> None:
    """Fill gaps of the key space at offset 0, from the epoch that created the newest segment of the cut."""
    epoch = history.epoch(max(history.segments[segment].epoch for segment in cut))
    for gap in missing:
        for segment in epoch.overlapping(gap):
            _insert(cut, segment.id, 0, rivals or history.over_keys_of)


def _ranges(cut: Iterable[int], history: StreamHistory) -> list[KeyRange]:
    return [history.segments[segment].keys for segment in cut]
