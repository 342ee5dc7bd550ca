"""A window may send watermarks on its bounds only, as the text says; without the option it forwards what it gets."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dataflow.sim.flows import count, line, marks, queue_between, results, rows, source
from wmlab import dataflow as flow

ON_BOUNDS = flow.Rules(bounds_only=True)


def bounded(vertex: flow.Window, **fields: Any) -> Any:
    reads = source("s", [*range(3, 500, 20), 900], times=flow.EventTime("t", lag_ms=30))
    return line(reads, vertex, flow.Map("behind", select={"end": "end"}), **fields)


@pytest.mark.parametrize("slide_ms", [None, 20])
@pytest.mark.parametrize("parallelism", [1, 2])
def test_the_output_has_watermarks_only_on_the_window_bounds(slide_ms: Any, parallelism: int) -> None:
    fields = {"slide_ms": slide_ms, "parallelism": parallelism, "by": "t"}
    as_upstream, bounds = (bounded(count(**fields), rules=flow.Rules(bounds_only=only)) for only in (False, True))
    step_ms = slide_ms or 100
    merged, on_bounds = (marks(run, "behind", "out") for run in (as_upstream, bounds))
    assert on_bounds == sorted({mark - mark % step_ms for mark in merged})
    assert any(mark % step_ms for mark in merged)
    assert sorted(map(str, results(bounds))) == sorted(map(str, results(as_upstream))) != []
    assert rows(bounds, "vertices", vertex="count")[0]["grid"] == step_ms
    assert rows(as_upstream, "vertices", vertex="count")[0]["grid"] is None


def test_an_answer_waits_for_the_next_bound() -> None:
    held = bounded(count(), rules=ON_BOUNDS).explain(vertex="behind", at_ms=200)
    assert held.watermark == 100
    # The next one is 200, and the source sends it 30 ms behind a row.
    assert [holder.needs_time for holder in held.holders] == [230]


def test_after_a_restart_the_bound_is_sent_again() -> None:
    restarts = {"guarantee": "exactly_once", "snapshot_every_ms": 90, "faults": [flow.Restart(350)]}
    run = bounded(count(), rules=ON_BOUNDS, **restarts)
    of_executions = [
        [
            item["value"]
            for item in queue_between(run, "count", "behind")
            if item["execution"] == number and item["key"] == 0
        ]
        for number in (1, 2)
    ]
    assert of_executions == [[-100, 0, 100, 200, 300], [200, 300, 400, 800]]


def test_the_rules_of_the_text_choose_the_bounds() -> None:
    sent = {rules: marks(bounded(count(), rules=rules), "behind", "out") for rules in flow.Rules.sets}
    assert sent["implementation"] == sent["sound"]
    assert any(mark % 100 for mark in sent["sound"])
    assert sent["design"] == sorted({mark - mark % 100 for mark in sent["sound"]})
    chosen = bounded(count(), rules=flow.Rules("design", bounds_only=False))
    assert marks(chosen, "behind", "out") == sent["sound"]
