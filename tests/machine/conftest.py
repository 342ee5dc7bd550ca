"""The runs that the tests of this folder share: made once for all processes of a test run, by two processes."""

from __future__ import annotations

import fcntl
import os
import pickle

import pytest

from tests.machine.__main__ import in_processes
from tests.machine.campaign import Made, Shard, shards

RUNS = 2_000
OF_FAULTY_STREAMS = 250
OF_HAZARDS = (Shard("pravega", 100, 4), Shard("bug_6510", 30, 1), Shard("stale", 100, 4), Shard("shared_times", 100, 4))


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[Made]:
    """2,000 runs of whatever can happen, an eighth of them on faulty streams, and some for each known hazard.

    The first process of a parallel test run that needs them makes them; the others wait for its file.
    """
    base = tmp_path_factory.getbasetemp()
    file = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "runs-of-the-machine.pickle"
    with file.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            wanted = shards("sound", RUNS - OF_FAULTY_STREAMS, seed=10) + shards("faulty", OF_FAULTY_STREAMS, seed=0)
            runs = list(in_processes([*wanted, *OF_HAZARDS], processes=2))
            file.write_bytes(pickle.dumps(runs))
    found: list[Made] = pickle.loads(file.read_bytes())
    return found
