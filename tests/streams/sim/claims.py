"""What a watermark claims, checked against everything a run has written."""

from itertools import pairwise

import numpy as np

from tests.streams.sim.worlds import rows
from wmlab.streams.model.position import Order, Position, compare_cuts, is_lineage_valid, is_valid_cut
from wmlab.streams.sim.world import World


def late_events(world: World) -> int:
    """How many events lie beyond some watermark's cut though they are older than its lower bound."""
    events = world.journal.events(tuple(part.name for part in world.scenario.writers))
    late = np.zeros(len(events.offset), bool)
    for watermark in rows(world, "watermarks"):
        cut = watermark["cut"]
        passed = list({ancestor.id for segment in cut for ancestor in world.history.ancestors(segment)} - set(cut))
        limit = np.array([cut.get(int(segment_id)) or 0 for segment_id in events.segment_id], np.int64)
        late |= (events.offset > limit) & ~np.isin(events.segment_id, passed) & (events.event_time < watermark["lower"])
    return int(late.sum())


def assert_sound(world: World) -> None:
    """The invariants of the log: bounds in order, cuts that cover all keys, can be passed, and never move back."""
    watermarks = rows(world, "watermarks")
    for watermark in watermarks:
        assert watermark["lower"] <= watermark["upper"]
        assert is_valid_cut(watermark["cut"], world.history)
        assert is_lineage_valid(watermark["cut"], world.history)
    for earlier, later in pairwise(watermarks):
        assert earlier["lower"] < later["lower"]
        assert earlier["upper"] <= later["upper"]
        before, after = Position(earlier["cut"]), Position(later["cut"])
        assert compare_cuts(after, before, world.history) is Order.EQUAL_OR_AFTER


def bounds(world: World) -> list[tuple[int, int]]:
    """(lower, upper) of every watermark."""
    return [(row["lower"], row["upper"]) for row in rows(world, "watermarks")]


def outcomes(world: World, writer: str) -> list[str]:
    """What became of every mark of a writer."""
    return [row["outcome"] for row in rows(world, "writer_marks", writer=writer)]


def held(world: World) -> list[str]:
    """Why cycles emitted nothing, in order."""
    return [row["reason"] for row in rows(world, "cycles", outcome="held")]
