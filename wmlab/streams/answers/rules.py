"""The rules a recording was made under, as far as answers predict from them: period, timeout, and where it starts.

Source: PDP-33, Config Changes; upstream class `PeriodicWatermarking`.
"""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import TypeAdapter

from wmlab.core.recording import Recording
from wmlab.streams.answers.history import RunHistory
from wmlab.streams.model.cycle import TimeoutFrom, inactive_since
from wmlab.streams.scenario.scenario import StreamScenario


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

    def next_cycle_ms(self, history: RunHistory) -> int | None:
        """When the next cycle runs; None while no writer is on record, for then none is planned."""
        if not history.on_record or history.woken_ms is None:
            return None
        delay_ms = self.period_ms if self.start_delay_ms is None else self.start_delay_ms
        first_ms = history.woken_ms + delay_ms
        if history.cycle is None or history.cycle["at_ms"] < history.woken_ms:
            return first_ms
        return int(history.cycle["at_ms"]) + self.period_ms

    def drops_at_ms(self, history: RunHistory, writer: str) -> int | None:
        """The cycle that drops a lagging writer if it notes nothing newer; None if it is not on record."""
        following = self.next_cycle_ms(history)
        if following is None or writer not in history.on_record:
            return None
        noted_ms = {writer: history.on_record[writer].received_ms}
        start_ms = inactive_since(
            history.memory, writer, now_ms=following, timeout_from=self.timeout_from, noted_ms=noted_ms
        )
        missing = max(0, start_ms + self.timeout_ms - following)
        return following + -(-missing // self.period_ms) * self.period_ms


def recorded_rules(recording: Recording, stream: str | None) -> Rules | None:
    """The rules of one stream of a recorded scenario, by the name that the tables have for it."""
    if recording.scenario is None:
        return None
    scenario = TypeAdapter(StreamScenario).validate_python(recording.scenario)
    part = scenario.stream_titled(stream)
    looks = {group.publish_every_ms if group.publish_timer == "fixed" else None for group in scenario.groups_of(part)}
    return Rules(
        period_ms=scenario.controllers.period_ms,
        timeout_ms=part.rules.timeout_ms,
        timeout_from=part.rules.timeout_from,
        start_delay_ms=scenario.controllers.start_delay_ms,
        look_every_ms=looks.pop() if len(looks) == 1 else None,
    )
