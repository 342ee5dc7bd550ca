"""PDP-33, Distributing Streams across Controller instances; upstream `BucketStore`, `UniformBucketDistributor`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wmlab.core.errors import ModelError
from wmlab.streams.model.coordination import bucket_of, distribute, take

CONTROLLERS = st.sets(st.sampled_from("abcdef"), min_size=1)


def test_a_stream_has_the_bucket_of_its_name() -> None:
    assert bucket_of("scope/stream", 100) == 71
    assert bucket_of("", 7) == 0
    assert bucket_of("\U0001f30a", 2**31) == (31 * 0xD83C + 0xDF0A) % 2**31


@given(st.lists(CONTROLLERS, min_size=1, max_size=5), st.integers(1, 40))
def test_every_bucket_is_owned_once_and_no_load_is_two_above_another(sets, count: int) -> None:
    buckets = None
    for controllers in sets:
        before, buckets = buckets or {}, distribute(controllers, count, buckets)
        assert set(buckets) == controllers
        assert sorted(bucket for held in buckets.values() for bucket in held) == list(range(count))
        loads = [len(held) for held in buckets.values()]
        assert max(loads) - min(loads) <= 1
        if set(before) == controllers:
            assert buckets == before


@given(CONTROLLERS, st.integers(1, 40))
def test_no_bucket_moves_between_controllers_that_stay_when_one_leaves(controllers, count: int) -> None:
    before = distribute(controllers, count)
    staying = sorted(controllers)[1:]
    after = distribute(staying, count, before)
    assert all(before[name] <= after[name] for name in staying)


def test_without_controllers_nobody_owns_anything() -> None:
    assert distribute([], 10) == {}


def test_a_bucket_is_taken_by_one_controller_at_a_time() -> None:
    owners, owned = take({}, 1, "a", 3)
    assert (owners, owned) == ({1: "a"}, True)
    assert take(owners, 1, "a", 3) == (owners, True)
    assert take(owners, 1, "b", 3) == (owners, False)


@pytest.mark.parametrize("ask", [lambda: bucket_of("s", 0), lambda: distribute("a", 0), lambda: take({}, 3, "a", 3)])
def test_a_bucket_that_cannot_be_is_refused(ask) -> None:
    with pytest.raises(ModelError):
        ask()
