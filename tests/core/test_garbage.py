"""While a run is made the collector looks rarely, and afterwards as before."""

from __future__ import annotations

import gc
import threading
from contextlib import suppress

import pytest

import wmlab as wm
from wmlab.core.recording import rare_collections


def test_the_thresholds_are_higher_in_a_block_and_those_from_before_after_it_also_after_an_error() -> None:
    before, within = gc.get_threshold(), list[int]()
    for divisor in (1, 0):
        with suppress(ZeroDivisionError), rare_collections(), rare_collections():
            within.append(gc.get_threshold()[0] // divisor)
        assert gc.get_threshold() == before
    assert len(within) == 1
    assert within[0] > before[0]


@pytest.mark.parametrize("chosen", [(0, 10, 10), (1_000_000, 10, 10)])
def test_one_who_collects_more_rarely_or_never_is_left_alone(chosen: tuple[int, int, int]) -> None:
    before = gc.get_threshold()
    try:
        gc.set_threshold(*chosen)
        with rare_collections():
            assert gc.get_threshold() == chosen
        assert gc.get_threshold() == chosen
    finally:
        gc.set_threshold(*before)


def test_runs_in_several_threads_leave_the_thresholds_as_they_were() -> None:
    before = gc.get_threshold()
    scenario = wm.Scenario("run", writers=[wm.EventWriter("w", rate_per_s=20)], duration_ms=5_000)
    threads = [threading.Thread(target=scenario.record) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert gc.get_threshold() == before
