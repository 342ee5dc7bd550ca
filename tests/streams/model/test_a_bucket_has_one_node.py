"""Coordination: every bucket once, even shares, and nodes that go with their session."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, strategies as st

from wmlab.core.errors import ModelError
from wmlab.streams.model.coordination import Coordination, Session, bucket_of, distribute, fairness

A, B = Session("a", 1), Session("b", 1)


@pytest.mark.parametrize(("loads", "index"), [((4, 4, 4), 1), ((9, 0, 0), 1 / 3), ((2, 1), 0.9), ((0, 0), 1), ((), 1)])
def test_fairness_is_one_for_equal_loads_and_one_nth_when_one_has_all(loads, index):
    assert fairness(loads) == pytest.approx(index)


def test_a_node_goes_with_its_session_and_with_nothing_else():
    again = Session("a", 2)
    service, owns = Coordination(2).open(A).open(B).open(again).take(0, A)
    assert owns
    assert service.take(0, B) == service.take(0, again) == (service, False)
    assert service.release(0, B) == service
    assert service.release(0, A).nodes == {}
    service = service.close(A)
    assert service.take(0, A) == (service, False)
    assert service.take(0, B)[1]
    assert service.take(0, again)[1]


def test_a_bucket_that_is_not_there_is_refused():
    with pytest.raises(ModelError, match="no bucket 5"):
        Coordination(1).open(A).take(5, A)


@given(st.integers(1, 30), st.lists(st.tuples(st.sampled_from("abcde"), st.booleans()), max_size=20))
def test_shares_stay_even_and_complete_whoever_comes_and_goes(buckets, changes):
    service = Coordination(buckets)
    for controller, joins in changes:
        session = Session(controller, 1)
        service = service.close(session)
        service = service.open(session) if joins else service
        before = service.shares
        service = service.distribute()
        if not service.sessions:
            assert service.shares == {}
            continue
        counts = [len(service.share(session.controller)) for session in service.sessions]
        assert max(counts) - min(counts) <= 1
        held = Counter(bucket for share in service.shares.values() for bucket in share)
        assert held == Counter(range(buckets))
        present = {session.controller for session in service.sessions}
        assert service.shares == before or present != before.keys()
        moved = sum(len(before.get(name, frozenset()) - service.share(name)) for name in present)
        assert moved <= -(-buckets // len(present))


def test_a_stream_has_the_bucket_of_its_name() -> None:
    assert bucket_of("scope/stream", 100) == 71
    assert bucket_of("", 7) == 0
    assert bucket_of("\U0001f30a", 2**31) == (31 * 0xD83C + 0xDF0A) % 2**31


@given(st.sets(st.sampled_from("abcdef"), min_size=1), st.integers(1, 40))
def test_no_bucket_moves_between_controllers_that_stay_when_one_leaves(controllers, count: int) -> None:
    before = distribute(controllers, count)
    staying = sorted(controllers)[1:]
    after = distribute(staying, count, before)
    assert all(before[name] <= after[name] for name in staying)
