"""The rules a recording was made under, as far as answers predict from them: period, timeout, and where it starts.

Source: PDP-33, Config Changes; upstream class `PeriodicWatermarking`.
"""

from __future__ import annotations

from dataclasses import dataclass

from wmlab.answers.known import Known
from wmlab.model.cycle import TimeoutFrom


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Cycle period and start delay, timeout (all ms) and where it is counted from; start delay None: one period.

    `look_every_ms` is how often a reader publishes its position and looks at its window; None if unknown.
    """

    period_ms: int
    timeout_ms: int
    timeout_from: TimeoutFrom = "first_behind"
    start_delay_ms: int | None = None
    look_every_ms: int | None = None

    def next_cycle_ms(self, known: Known) -> int | None:
        """When the next cycle runs; None while no writer is on record, for then none is planned."""
        if not known.on_record or known.woken_ms is None:
            return None
        delay_ms = self.period_ms if self.start_delay_ms is None else self.start_delay_ms
        first_ms = known.woken_ms + delay_ms
        if known.cycle is None or known.cycle["at_ms"] < known.woken_ms:
            return first_ms
        return int(known.cycle["at_ms"]) + self.period_ms

    def drops_at_ms(self, known: Known, writer: str) -> int | None:
        """The cycle that drops a lagging writer if it notes nothing newer; None if it is not on record."""
        following = self.next_cycle_ms(known)
        if following is None or writer not in known.on_record:
            return None
        since = known.behind_since.get(writer, following)
        start_ms = since if self.timeout_from == "first_behind" else known.on_record[writer].received_ms
        missing = max(0, start_ms + self.timeout_ms - following)
        return following + -(-missing // self.period_ms) * self.period_ms
