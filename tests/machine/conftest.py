"""The runs that the tests of this room share: made once, by two processes."""

from __future__ import annotations

import pytest

from tests.machine.__main__ import in_processes
from tests.machine.campaign import Made, Shard, shards

__all__ = ["made"]

RUNS = 2_000
OF_FAULTY_STREAMS = 250
OF_HAZARDS = (Shard("pravega", 100, 4), Shard("bug_6510", 30, 1), Shard("stale", 100, 4))


@pytest.fixture(scope="session")
def made() -> list[Made]:
    """2,000 runs of whatever can happen, an eighth of them on faulty streams, and some for each known hazard."""
    wanted = shards("sound", RUNS - OF_FAULTY_STREAMS, seed=10)
    wanted += shards("faulty", OF_FAULTY_STREAMS, seed=0)
    return list(in_processes([*wanted, *OF_HAZARDS], processes=2))
