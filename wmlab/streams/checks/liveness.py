"""I14, a stream at rest, when no writer notes a larger time: its last cycle emits, or waits for a writer rightly.

Source: PDP-33, Watermark Computation; wmlab's own list of what it guarantees.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from typing import Final

from wmlab.core.invariants import Evidence, Finding, TableRow, TableRows, name_text, time_text
from wmlab.streams.checks.facts import titled
from wmlab.streams.checks.readers import LOST
from wmlab.streams.model.cycle import HeldBy

_RIGHTLY: Final = frozenset({HeldBy.EMITTED.value, HeldBy.CONFLICT.value, HeldBy.EXPECTED.value, None, *LOST})
"""Causes of a last cycle that hide nobody: it emitted, another controller did, writers that are expected did not come,
the noted positions make no cut, or the cause is not known."""


@titled("the bound comes as far as it can", "no cycle ran")
def comes_to_rest(cycles: TableRows, watermarks: TableRows, accepted_marks: TableRows) -> Iterator[Finding]:
    """I14: the last cycle emits, finds no writer beyond the last bound, or waits for writers that are not beyond it.

    One finding per stream; nothing is decided if a time came in after the last cycle.
    """
    if not cycles:
        return
    last = max(cycles, key=itemgetter("at_ms"))
    lowers = [row["lower"] for row in watermarks if row["emitted_ms"] < last["at_ms"]]
    newest: dict[str, TableRow] = {}
    for mark in sorted(accepted_marks, key=itemgetter("received_ms")):
        newest[mark["writer"]] = mark
    if any(mark["received_ms"] >= last["at_ms"] for mark in newest.values()):
        yield Finding.undecided("times were noted after the last cycle; let the run be quiet at its end")
        return
    lower = max(lowers, default=None)
    beyond = [name for name in last["lagging"] if name in newest and lower is not None and newest[name]["time"] > lower]
    stands = last["outcome"] == "held" and bool(last["participating"]) and last["cause"] not in _RIGHTLY
    if not stands or (last["lagging"] and not beyond):
        yield Finding(True, last["at_ms"])
        return
    awaited = f"waits for {name_text(beyond[0])}, which is beyond it" if beyond else "waits for no writer"
    what = f"at rest the lower bound stands at {time_text(lower)} and {awaited}: {name_text(last['reason'])}"
    columns = ("stream", "controller", "at_ms", "previous_lower", "participating", "lagging", "reason")
    yield Finding(False, last["at_ms"], what, [Evidence.of("cycles", last, *columns)])
