"""A sequencer restores the order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.progress.model.streams import origin_buffers
from wmlab.core.errors import ModelError
from wmlab.progress.model.numbers import Sequencer


@given(st.data())
def test_a_sequencer_releases_every_buffer_in_order(data) -> None:
    places = [((b.sequence, b.chunk), b.last) for b in data.draw(origin_buffers(base=1))]
    state, released = Sequencer(), []
    for place, last in data.draw(st.permutations(places)):
        state, freed = state.take(place, last)
        while freed is not None:
            released.append(freed)
            state, freed = state.ack(freed)
    assert released == [place for place, _ in places]


def test_only_what_is_in_hand_is_acknowledged() -> None:
    with pytest.raises(ModelError, match="is not in hand, nothing is"):
        Sequencer().ack((1, 1))
