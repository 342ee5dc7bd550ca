"""The way of the watermarks of a source to a vertex, level by level: when one got through, and what held it up.

The levels of an instance are each of its edges, and all of them together. Inputs from other sources count there, too:
nothing gets through that one of them has not reached.

Source: "Keyed watermark support", Coalescing of WMs with different keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from wmlab.dataflow.answers.job import LevelState
from wmlab.dataflow.answers.run import DataflowRun, RecordedRow
from wmlab.dataflow.model.items import MIN


class Level(NamedTuple):
    """A level on the way: its steps, and the numbers of its inputs from other sources."""

    steps: Sequence[RecordedRow]
    others: frozenset[int]

    def passed_ms(self, key: int, watermark: int) -> Iterator[int]:
        """When it let out a watermark of the key that is not below this one (clock, ms)."""
        for step in self.steps:
            if any(of == key and value >= watermark for of, value in step["emitted"]):
                yield step["at_ms"]

    def until_ms(self, key: int, watermark: int, before_ms: int) -> int:
        """Until when something has to come there so that it is let through before a moment (clock, ms).

        It is that moment, or when another input began to count that stays below the watermark until then.
        """
        level, held_ms = LevelState(active=tuple(self.others)), 0
        for step in self.steps:
            if step["at_ms"] >= before_ms:
                break
            was_held, level = self._is_held(level, key, watermark), level.after(step)
            held_ms = held_ms if was_held else step["at_ms"]
        return held_ms if self._is_held(level, key, watermark) else before_ms

    def _is_held(self, level: LevelState, key: int, watermark: int) -> bool:
        """Whether one of the others counts, and is below the watermark."""
        return any(n in level.active and level.watermarks.get((n, key), MIN) < watermark for n in self.others)


def ways_to(run: DataflowRun, drop: RecordedRow, source: tuple[str, int]) -> list[list[Level]]:
    """Each way from an instance of a source to what dropped a row, a join by one of its edges, the last level first."""
    edge = drop["edge"] if drop["rule"] == "join" else None
    return list(_ways(run, drop["execution"], source, (drop["vertex"], drop["instance"]), edge))


def _ways(
    run: DataflowRun, execution: int, source: tuple[str, int], target: tuple[str, int], edge: int | None
) -> Iterator[list[Level]]:
    if source == target:
        yield []
        return
    into = [(queue, run.sources_of(queue["source"], queue["source_instance"])) for queue in run.into(*target, edge)]
    mine = [queue for queue, sources in into if source in sources]
    others = [queue for queue, sources in into if all(name != source[0] for name, _ in sources)]
    steps = run.indexed("coalescing", "level", "edge")
    of_all = Level(steps.get((execution, *target, "global", None), ()), frozenset(queue["edge"] for queue in others))
    for queue in mine:
        numbers = frozenset(other["input"] for other in others if other["edge"] == queue["edge"])
        of_edge = Level(steps.get((execution, *target, "edge", queue["edge"]), ()), numbers)
        levels = [of_edge] if edge is not None else [of_all, of_edge]
        for further in _ways(run, execution, source, (queue["source"], queue["source_instance"]), None):
            yield [*levels, *further]
