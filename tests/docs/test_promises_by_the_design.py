"""The design keeps the promises of docs/seeds.md: what a row names as an invariant holds under `rules="design"`.

Where a row says that `design` does not keep it, there is a run in which it is broken.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

import wmlab as wm
from tests.docs.names import INVARIANT, ROOT, in_backticks, rows
from wmlab.core.invariants import Verdicts

PROMISES = {
    name: row.cells[0]
    for row in rows((ROOT / "docs" / "seeds.md").read_text())
    if row.heading.startswith("Pravega")
    for name in in_backticks(row.cells[2])
    if INVARIANT.fullmatch(name)
}
"""The requirement of each invariant that a row names."""
S = wm.script
OLD_TIMES = [S.NoteTime(at_ms=at_ms, writer="b", time=at_ms // 20) for at_ms in range(3_000, 14_000, 500)]
AHEAD = [S.NoteTime(at_ms=3_000, writer="b", time=30_000)]
MERGE = S.Scale(at_ms=6_066, seal=["0@0", "1@0"], into=1)
NOTES = wm.EventWriter("b", rate_per_s=20)
SILENT = wm.EventWriter("b", rate_per_s=20, note_every_ms=None)
RUNS: dict[str, dict[str, Any]] = {
    "calm": {},
    "a reader crashes": {"script": [S.CrashReader(at_ms=6_700, reader="g-0")]},
    "readers come and go": {
        "script": [S.AddReader(at_ms=5_000, reader="g-x"), S.RemoveReader(at_ms=8_000, reader="g-0"), MERGE]
    },
    "a writer crashes": {"script": [S.CrashWriter(at_ms=6_000, writer="b")]},
    "old times": {"b": wm.EventWriter("b", rate_per_s=0, note_every_ms=None), "script": OLD_TIMES},
    "far ahead, and gone": {"b": SILENT, "script": [*AHEAD, S.CrashWriter(at_ms=5_000, writer="b")]},
    "all are silent": {
        "script": [S.SilenceWriter(at_ms=4_000, writer=name, for_ms=6_000) for name in ("a", "b")],
    },
    "distant": {"network": wm.script.network.Network(delay=wm.script.network.Uniform(5, 90))},
}
"""What may happen to a stream with two writers, which a group of slow readers reads."""
BROKEN_IN = {"I11": "far ahead, and gone"}
"""Where `design` does not keep what a row promises, as that row says."""


@cache
def checked(name: str) -> Verdicts:
    fields = dict(RUNS[name])
    run = wm.Scenario(
        name=name,
        rules="design",
        stream=wm.Stream("orders", segments=2, timestamp_aggregation_timeout_ms=3_000),
        writers=[wm.EventWriter("a", rate_per_s=50), fields.pop("b", NOTES)],
        readers=wm.ReaderGroup("g", readers=2, rate_per_s=25, publish_every_ms=500),
        controllers=wm.Controllers(period_ms=700, start_delay_ms=1_000),
        duration_ms=16_000,
        seed=2,
        **fields,
    ).record(progress=False)
    return run.check(*sorted(PROMISES))


@pytest.mark.parametrize("name", RUNS)
def test_the_design_keeps_what_the_rows_promise(name: str) -> None:
    broken = {row.invariant for row in checked(name) if row.verdict == "violated"}
    assert broken == {invariant for invariant, run in BROKEN_IN.items() if run == name}


@pytest.mark.parametrize("invariant", PROMISES)
def test_every_promise_was_judged(invariant: str) -> None:
    assert sum(checked(name)[invariant].judged for name in RUNS) > 20


def test_what_the_design_does_not_keep_is_said_in_the_row() -> None:
    assert {name for name, promise in PROMISES.items() if "by `design` not" in promise} == set(BROKEN_IN)
