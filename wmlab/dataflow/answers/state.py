"""How much a vertex holds over a run. Source: "Stream-to-stream join", memory management."""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter

from wmlab.dataflow.answers.run import DataflowRun, RecordedRow


def held_sizes(
    run: DataflowRun, execution: RecordedRow, vertex: str, instances: Iterable[int], at_ms: int
) -> list[tuple[int, int]]:
    """When what these instances hold together changed, and its size from then on."""
    index = run.indexed("state")
    rows = [
        row
        for number in instances
        for row in index.get((execution["execution"], vertex, number), ())
        if row["buffer"] == "all" and row["at_ms"] <= at_ms
    ]
    sizes: dict[int, int] = {}
    totals: list[tuple[int, int]] = []
    for row in sorted(rows, key=itemgetter("at_ms")):
        sizes[row["instance"]] = row["size"]
        totals.append((row["at_ms"], sum(sizes.values())))
    return totals
