"""Hypothesis strategies that the tests of the model share: histories that scale and roll, writer positions."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import strategies as st

from wmlab.streams.model.history import StreamHistory
from wmlab.streams.model.position import Position
from wmlab.streams.model.segment import Segment


def by_key(segments: Iterable[Segment]) -> list[Segment]:
    """Segments in the order of their keys."""
    return sorted(segments, key=lambda segment: segment.keys)


@st.composite
def histories(draw: st.DrawFn, max_changes: int = 5) -> StreamHistory:
    """A stream that is split, merged, re-divided and rolled a few times."""
    history = StreamHistory.create(draw(st.integers(1, 4)))
    for change in draw(st.lists(st.sampled_from(["replace", "roll"]), max_size=max_changes)):
        if change == "replace":
            active = by_key(history.active.segments)
            first = draw(st.integers(0, len(active) - 1))
            last = draw(st.integers(first, min(first + 2, len(active) - 1)))
            history = history.scale([s.id for s in active[first : last + 1]], into=draw(st.integers(1, 3)))
        else:
            newest = history.origin(history.active.number)
            epochs = [epoch.number for epoch in history.epochs if history.origin(epoch.number) != newest]
            if epochs:
                history = history.roll(draw(st.sampled_from(epochs)))
    return history


def positions(history: StreamHistory) -> st.SearchStrategy[Position]:
    """Any writer position: some segments of any epochs, acknowledged or not."""
    offsets = st.one_of(st.none(), st.integers(0, 100))
    return st.dictionaries(st.sampled_from(sorted(history.segments)), offsets, min_size=1, max_size=6).map(Position)


@st.composite
def writers(draw: st.DrawFn) -> tuple[StreamHistory, list[Position]]:
    """A history and the positions of one to four writers."""
    history = draw(histories())
    return history, draw(st.lists(positions(history), min_size=1, max_size=4))
