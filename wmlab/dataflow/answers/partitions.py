"""The partitions of a source at a moment: their watermarks, their last rows, and when each is left out as idle.

Source: "Keyed watermark support", WM generation; upstream class `EventTimeMapper`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from wmlab.dataflow.answers.explanation import FlowHolder
from wmlab.dataflow.answers.rules import SourceRules
from wmlab.dataflow.answers.run import Row, Run
from wmlab.dataflow.model.items import MIN

START = MIN + 1
"""Below every watermark: what is needed for any one at all."""


@dataclass(frozen=True, slots=True)
class Want:
    """`value` of `key` is wanted; `ahead` is the lowest mark of others on the way, `reached` whether one is there."""

    key: int
    value: int
    through: tuple[str, ...] = ()
    ahead: int | None = None
    reached: bool = False

    def beside(self, marks: Iterable[int | None], vertex: str) -> Want:
        """The same one step upstream of `vertex`, where the other inputs have these marks."""
        known = [mark for mark in marks if mark is not None]
        ahead = min([*known, *([] if self.ahead is None else [self.ahead])], default=None)
        reached = self.reached or any(mark >= self.value for mark in known)
        through = self.through if self.through[:1] == (vertex,) else (vertex, *self.through)
        return replace(self, through=through, ahead=ahead, reached=reached)


def behind(mark: int | None, want: Want) -> int | None:
    """How far the next of the others on the way is ahead; 0 if none is."""
    return None if mark is None or want.ahead is None else max(0, want.ahead - mark)


class Partitions:
    """The partitions of a source instance: their watermarks of one key, their rows, and when they are idle."""

    def __init__(
        self, run: Run, execution: Row, at_ms: int, vertex: str, instance: int, rules: SourceRules | None, key: int
    ) -> None:
        self.vertex, self.instance, self.rules, self.key = vertex, instance, rules, key
        self.at_ms, self._begun_ms = at_ms, execution["started_ms"]
        number = execution["execution"]
        self._level = run.merging(vertex, instance, "partition", number, at_ms)
        self._rows: dict[int, list[Row]] = {}
        for row in run.source_rows.get((vertex, instance), ()):
            if row["execution"] == number and row["at_ms"] <= at_ms:
                self._rows.setdefault(row["partition"], []).append(row)
        self._added: list[tuple[int, int]] = [
            (row["input"], row["at_ms"])
            for row in run.steps.get((vertex, instance), ())
            if row["stimulus"] == "added" and row["execution"] == number and row["at_ms"] <= at_ms
        ]
        self.numbers = self._numbers()

    def _numbers(self) -> tuple[int, ...]:
        if self._level.marks:
            return tuple(sorted({*self._level.active, *self._level.idle}))
        if self.rules is not None and self.rules.partitions is not None:
            return tuple(range(self.instance, self.rules.partitions, self.rules.parallelism))
        return tuple(sorted(self._level.active))

    @property
    def by_clock(self) -> bool:
        """Whether the clock moves their watermarks."""
        return self.rules is not None and self.rules.policies.get(self.key) == "real_time"

    def mark(self, number: int) -> int | None:
        """The watermark of a partition; None: none yet."""
        if self.rules is not None and self.by_clock:
            return self.at_ms - self.rules.lags_ms[self.key]
        return self._level.mark(number, self.key)

    def sent(self, number: int) -> int | None:
        """What the source may send for it."""
        mark = self.mark(number)
        return mark if self.rules is None else self.rules.sent(mark)

    def idle(self, number: int) -> bool:
        """Whether it is left out."""
        at_ms = self.idle_at_ms(number)
        if self.rules is None:
            return number in self._level.idle
        return at_ms is not None and at_ms <= self.at_ms

    def idle_at_ms(self, number: int) -> int | None:
        """When it is left out if nothing comes; None: never, or unknown."""
        if self.rules is None or self.rules.idle_timeout_ms is None:
            return None
        last = self._last_ms(number)
        return (self._began_ms(number) if last is None else last) + self.rules.idle_timeout_ms

    def _began_ms(self, number: int) -> int:
        """When it was there."""
        return next((at_ms for place, at_ms in self._added if place == number), self._begun_ms)

    def _last_ms(self, number: int) -> int | None:
        """When it last had a row that counts."""
        counted = self.rules is None or self.rules.rejected_count
        return max((row["at_ms"] for row in self._rows.get(number, ()) if row["passed"] or counted), default=None)

    def holder(self, number: int, want: Want, kind: str) -> FlowHolder:
        """It as a holder."""
        mark = self.mark(number)
        rows = self._rows.get(number, [])
        last = max((row["at_ms"] for row in rows if row["passed"]), default=None)
        needs = None if self.rules is None or want.value == START else self.rules.needs(self.key, want.value)
        rejected = sum(not row["passed"] and (last is None or row["at_ms"] > last) for row in rows)
        silenced = rejected > 0 and self.rules is not None and not self.rules.rejected_count
        idle_at_ms = self.idle_at_ms(number) if kind == "slow" and not silenced else None
        clock = None if self.rules is None else self.rules.by_clock_ms(self.key, want.value)
        return FlowHolder(
            vertex=self.vertex,
            instance=self.instance,
            partition=number,
            kind=kind,  # type: ignore[arg-type]
            key=self.key,
            mark=mark,
            last_ms=last,
            rejected=rejected,
            needs_time=needs,
            idle_at_ms=idle_at_ms if clock is None else clock,
            behind_by=behind(mark, want) if kind == "slow" else None,
            through=tuple(name for name in want.through if name != self.vertex),
        )
