"""The runs that the tests of this folder share: made once for all processes of a test run, by two processes."""

from __future__ import annotations

import fcntl
import os
import pickle

import pytest

from tests.machine.__main__ import in_processes
from tests.machine.campaign import Made, Shard, shards
from tests.repetitions import repetitions

OF_HAZARDS = (Shard("pravega", 40, 5), Shard("bug_6510", 20, 1), Shard("stale", 40, 4))
"""The runs of the known hazards in `make test`, from seeds with which each is met."""
OF_HAZARDS_IN_FULL = (Shard("pravega", 100, 5), Shard("bug_6510", 100, 1), Shard("stale", 100, 4))
"""Those in `make test-long`; what is drawn depends on the number of runs, too."""


def wanted() -> list[Shard]:
    """The shards of all runs: 530 in `make test`, from seeds with which every action and every option occurs."""
    sound = repetitions([Shard("sound", 110, seed) for seed in (25, 26, 27)], long=shards("sound", 1_750, seed=10))
    faulty = shards("faulty", repetitions(60, long=250), seed=3)
    shared = repetitions([Shard("shared_times", 40, 8)], long=shards("shared_times", 500, seed=14))
    return [*sound, *shared, *faulty, *repetitions(OF_HAZARDS, long=OF_HAZARDS_IN_FULL)]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[Made]:
    """The runs of whatever can happen, an eighth of them on faulty streams, and some for each known hazard.

    The first process of a parallel test run that needs them makes them; the others wait for its file.
    """
    base = tmp_path_factory.getbasetemp()
    file = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "runs-of-the-machine.pickle"
    with file.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            file.write_bytes(pickle.dumps(list(in_processes(wanted(), processes=2))))
    runs: list[Made] = pickle.loads(file.read_bytes())
    return runs
