"""Origins, chunk bases, and the watermark timestamp of a buffer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.progress.model.streams import origin_buffers
from wmlab.core.errors import ModelError
from wmlab.progress.model.identifiers import TupleBuffer, assign_origins, by_event_time, by_ingestion_time, chunk_base
from wmlab.progress.model.number_map import NumberMap
from wmlab.progress.model.sequences import Sequencer
from wmlab.progress.model.tracker import Progress, ProgressRules, step


def test_origins_are_numbered_from_1_within_each_plan() -> None:
    assert assign_origins(["source 1", "source 2", "join"]) == {"source 1": 1, "source 2": 2, "join": 3}
    assert assign_origins(["source 3"]) == {"source 3": 1}
    with pytest.raises(ModelError, match="Two emitters are called 'a'"):
        assign_origins(["a", "b", "a"])


@given(st.sampled_from([0, 1]), st.data())
def test_the_chunk_base_of_a_trace_is_found(base, data) -> None:
    buffers = data.draw(origin_buffers(base=base).filter(bool))
    assert chunk_base(data.draw(st.permutations(buffers))) == base


@pytest.mark.parametrize(
    ("chunks", "message"),
    [
        ([(1, 0), (2, 1)], "sequence 1 of origin 1 at 0, sequence 2 of origin 1 at 1"),
        ([(1, 2)], "sequence 1 of origin 1 at 2"),
        ([], "empty"),
    ],
)
def test_a_mixture_of_chunk_bases_is_refused(chunks, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        chunk_base([TupleBuffer(1, sequence, chunk, True, 0) for sequence, chunk in chunks])


def test_a_chunk_below_the_base_is_refused() -> None:
    with pytest.raises(ModelError, match="has a chunk 0 in a trace whose chunks start at 1"):
        step(Progress.start([1], ProgressRules(chunk_base=1)), TupleBuffer(1, 1, 0, True, 5))


@pytest.mark.parametrize("numbers", [(0, 1, 0), (1, 0, 0), (1, 1, -1)])
def test_a_number_that_is_never_given_is_refused(numbers) -> None:
    with pytest.raises(ModelError, match="No buffer has"):
        TupleBuffer(*numbers, True, 0)


def test_a_buffer_is_stamped_with_its_largest_time_or_its_creation() -> None:
    assert by_event_time([3, 9, 7]) == 9
    assert by_event_time([3, 9, 7], unit=1_000) == 9_000
    assert by_event_time([3], allowed_lateness=5) == 0
    assert by_event_time([]) == 0
    assert by_ingestion_time(50) == 50
    assert by_ingestion_time(50, carried=70) == 70
    with pytest.raises(ModelError, match="unit of 0"):
        by_event_time([1], unit=0)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 500))))
def test_a_number_map_is_a_map(changes) -> None:
    found: NumberMap[int] = NumberMap()
    wanted: dict[int, int] = {}
    for place, (puts, key) in enumerate(changes):
        if puts:
            found, wanted = found.put(key, place), {**wanted, key: place}
        else:
            found = found.without(key)
            wanted.pop(key, None)
        assert found.get(key) == wanted.get(key)
    ordered = sorted(wanted.items())
    assert list(found) == ordered
    assert len(found) == len(ordered)
    assert found == NumberMap.of(reversed(ordered))
    assert (found.first(), found.last()) == ((ordered[0], ordered[-1]) if ordered else (None, None))
    assert repr(found) == repr(dict(ordered))


def test_a_number_map_holds_no_negative_number() -> None:
    with pytest.raises(ModelError, match="-1 is negative"):
        NumberMap().put(-1, 0)


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


def test_a_sequencer_acknowledges_only_what_it_released() -> None:
    with pytest.raises(ModelError, match="is not in hand, nothing is"):
        Sequencer().ack((1, 1))
