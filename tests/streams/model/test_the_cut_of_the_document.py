"""PDP-33, Watermark Computation: `document` is the pseudo-code, written here a second time from the text.

The text says "successor" and "predecessor", and never "a common key": here they are followed through the epochs.
"""

from __future__ import annotations

from random import Random

from tests.repetitions import repetitions
from wmlab.streams.model.cut import CutRules, stream_cut
from wmlab.streams.model.history import StreamHistory
from wmlab.streams.model.position import Position, is_lineage_valid
from wmlab.streams.model.segment import KeyRange

DOCUMENT = CutRules(algorithm="document")


def drawn_history(random: Random) -> StreamHistory:
    """One to three segments, and up to four epochs that each replace one or two neighbours by one to three."""
    history = StreamHistory.create(random.randint(1, 3))
    for _ in range(random.randint(0, 4)):
        active = sorted(history.active.segments, key=lambda segment: segment.keys.low)
        first = random.randrange(len(active))
        sealed = active[first : first + random.randint(1, 2)]
        history = history.scale([segment.id for segment in sealed], into=random.randint(1, 3))
    return history


def drawn_positions(random: Random, history: StreamHistory) -> list[Position]:
    """Up to three writers, each at segments of any age that share no key."""
    positions = []
    for _ in range(random.randint(1, 3)):
        taken: dict[int, int] = {}
        for segment in random.sample(list(history.segments.values()), len(history.segments)):
            free = not any(history.segments[other].keys.overlaps(segment.keys) for other in taken)
            if free and (not taken or random.random() < 0.7):
                taken[segment.id] = random.randint(0, 90)
        positions.append(Position(taken))
    return positions


def descendants(history: StreamHistory, segment: int) -> set[int]:
    """All segments that a segment was replaced by, read off the epochs one after the other."""
    family = {segment}
    for before, after in zip(history.epochs, history.epochs[1:], strict=False):
        for heir in after.segments:
            is_new = heir.id not in {each.id for each in before.segments}
            parents = {each.id for each in before.segments if each.keys.overlaps(heir.keys)}
            family |= {heir.id} if is_new and parents & family else set()
    return family - {segment}


def pseudo_code(history: StreamHistory, positions: list[Position]) -> dict[int, int]:
    """`computeGreatestUpperBound`, `addToUpperBound` and `computeStreamCut`, line by line."""
    heirs = {segment: descendants(history, segment) for segment in history.segments}
    bound: dict[int, int] = {}

    def add(offsets: dict[int, int]) -> None:
        for segment, offset in offsets.items():
            if segment in bound:
                bound[segment] = max(offset, bound[segment])
            elif not heirs[segment] & bound.keys():
                for predecessor in [other for other in bound if segment in heirs[other]]:
                    del bound[predecessor]
                bound[segment] = offset

    for position in positions:
        add({segment: position[segment] or 0 for segment in position})
    epoch = history.epochs[max(history.segments[segment].epoch for segment in bound)]
    while missing := missing_range(history, bound):
        add({segment.id: 0 for segment in epoch.segments if segment.keys.overlaps(missing)})
    return bound


def missing_range(history: StreamHistory, cut: dict[int, int]) -> KeyRange | None:
    """The first part of the key space that no segment of the cut covers."""
    low = history.space.low
    for keys in sorted((history.segments[segment].keys for segment in cut), key=lambda keys: keys.low):
        if keys.low > low:
            return KeyRange(low, keys.low)
        low = max(low, keys.high)
    return KeyRange(low, history.space.high) if low < history.space.high else None


def test_it_is_the_pseudo_code_and_never_behind_a_writer() -> None:
    random = Random(33)
    merged = 0
    for _ in range(repetitions(400, long=4_000)):
        history = drawn_history(random)
        positions = drawn_positions(random, history)
        cut = stream_cut(positions, None, history, DOCUMENT)
        assert dict(cut) == pseudo_code(history, positions)
        for position in positions:
            for segment, offset in position.items():
                assert not any(segment in descendants(history, other) for other in cut), "an ancestor of a position"
                assert segment not in cut or (cut[segment] or 0) >= (offset or 0)
        merged += is_lineage_valid(cut, history)
    assert merged, "some cut can be read"


def test_a_position_behind_a_segment_that_was_replaced_is_replaced_too() -> None:
    """Its cut is at or beyond every writer, also where a writer is two epochs behind another one."""
    history = StreamHistory.create(2).scale(["0@0", "1@0"], into=1).scale(["2@1"], into=2)
    noted = [Position({"4@2": 5}), Position({"2@1": 50}), Position({"0@0": 10})]
    assert stream_cut(noted, None, history, DOCUMENT) == Position({"3@2": 0, "4@2": 5})
    (middle,) = history.epochs[1].ids
    assert history.lineage_of(middle) == set(history.segments) - {middle}
