"""Randomness: one seed, named generators, and the same bytes in every process."""

import hashlib
import subprocess
import sys
from pathlib import Path

from tests.streams.sim.worlds import run
from wmlab.core.simulation import generator
from wmlab.streams.scenario.parts import EventWriter

PROGRAM = """
import sys
from wmlab import *
from wmlab.streams.scenario.network import *
from wmlab.streams.scenario.rules import Rules
writers = [EventWriter(name, rate_per_s=100, delay_mean_ms=80, stream=stream, clock=Clock(drift_ppm=200))
    for name, stream in (("w1", "a"), ("w2", "b"), ("w3", "b"))]
writers += [EventWriter("w4", rate_per_s=90, processes=3, flush_before_note=True, stream="a"),
    TransactionalWriter("t1", rate_per_s=80, every_ms=700, stream="a"),
    TransactionalWriter("t2", rate_per_s=80, every_ms=500, open_ms=1_600, commit_latency_ms=50, stream="b")]
actions = [script.ExpireSession(at_ms=2_000), script.CrashController(at_ms=4_000, controller="distributor"),
    script.Partition(at_ms=5_000, a="writers", b="controllers", for_ms=700), script.AddController(at_ms=6_000),
    script.DeleteStream(at_ms=7_000, recreate_after_ms=500, stream="b"),
    script.DuplicateWriter(at_ms=8_000, writer="w1"), script.Scale(at_ms=2_500, seal=["0@0"], into=3, stream="a"),
    script.AbortTransaction(at_ms=2_700, writer="t2"), script.CrashWriter(at_ms=5_500, writer="w2"),
    script.CrashController(at_ms=9_000, controller="committer", point="after_merge", restart_after_ms=400),
    script.Checkpoint(at_ms=3_000, name="c", group="ra"), script.CrashReader(at_ms=3_500, reader="rab-1"),
    script.ResetToCheckpoint(at_ms=6_500, group="ra"), script.LoseMergeReply(at_ms=1_000, count=3, stream="b")]
network = Network(delay=LogNormal(20.0, 0.7), inside=Exponential(2.0), loss=0.1, duplication=0.1, reordering=0.1,
    keep_messages=True)
streams = [Stream("a", timestamp_aggregation_timeout_ms=2_000), Stream("b", segments=3)]
Scenario("replay", streams=streams, writers=writers,
    readers=[ReaderGroup("ra", readers=2, rate_per_s=700, stream="a", state_latency_ms=None, publish_every_ms=300),
        ReaderGroup("rab", readers=3, streams=["a", "b"], rebalance="time")],
    rules=Rules(publish_timer="pravega"),
    controllers=Controllers(4, buckets=9, period_ms=400, period_jitter_ms=50, contact="random",
        session_timeout_ms=1_000, redistribute_every_ms=500),
    network=network, script=actions, duration_ms=12_000, seed=5).record(sys.argv[1], progress=False)
"""


def test_adding_a_writer_leaves_the_others_as_they_were():
    alone = run(writers=[EventWriter("w1", rate_per_s=100, delay_mean_ms=50)])
    beside = [EventWriter(name, rate_per_s=100, delay_mean_ms=50) for name in ("w0", "w1", "w2")]
    assert run(writers=beside).events_of("w1") == alone.events_of("w1")


def test_another_seed_or_name_draws_otherwise():
    draws = {tuple(generator(seed, name).integers(0, 2**60, 4)) for seed in (0, 1) for name in ("a", "b")}
    assert len(draws) == 4


def digests(directory: Path) -> dict[str, str]:
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_two_processes_with_different_hash_seeds_write_the_same_bytes(tmp_path):
    for hash_seed in ("1", "4242"):
        target = tmp_path / hash_seed
        subprocess.run(
            [sys.executable, "-c", PROGRAM, str(target)], check=True, env={"PYTHONHASHSEED": hash_seed}, timeout=120
        )
    first, second = digests(tmp_path / "1"), digests(tmp_path / "4242")
    assert first == second
    assert len(first) > 9
