"""What the parts of a scenario do by its rules: how cycles run and streams begin, and how a group of readers works.

All take rules in effect, such as those of a `resolved` scenario.
"""

from __future__ import annotations

from wmlab.streams.model.history import StreamHistory
from wmlab.streams.model.replay import Configuration
from wmlab.streams.model.segment import Arithmetic
from wmlab.streams.scenario.parts import Controllers, ReaderGroup, Stream
from wmlab.streams.scenario.rules import Rules


def configuration(stream: Stream, controllers: Controllers, rules: Rules) -> Configuration:
    """The rules of a stream's watermark cycles, and when they run."""
    return Configuration(
        timeout_ms=stream.timestamp_aggregation_timeout_ms,
        timeout_from=rules.timeout_from,
        forgets=rules.forgets,
        algorithm=rules.cut_algorithm,
        visit_order=stream.visit_order,
        bug_6510=rules.bug_6510,
        leaves_bucket=rules.cycles == "while_noted",
        null_without_writers=rules.null_without_writers,
        first_barrier=0 if rules.first_barrier == "zero" else None,
        expected_writers=stream.expected_writers,
        period_ms=controllers.period_ms,
        start_delay_ms=controllers.start_delay_ms if stream.start_delay_ms is None else stream.start_delay_ms,
        note_rule=rules.note_rule,
    )


def created_history(stream: Stream, rules: Rules, first_number: int = 0) -> StreamHistory:
    """A stream as it is created, its segments numbered from `first_number`."""
    # Pravega computes even ranges in doubles, which is what makes 49 segments fail there.
    arithmetic: Arithmetic = "double" if rules.cut_algorithm == "pravega" else "exact"
    return StreamHistory.create(stream.segments, first_number=first_number, arithmetic=arithmetic)


def compares_position(group: ReaderGroup, rules: Rules) -> bool:
    """Whether each reader compares the position of the group with the marks, and sees what comes of that.

    Otherwise it sees the window of the group's map of times, which is empty when nobody looks at the marks.
    """
    return group.time_windows and rules.read_side != "document"


def enters_on_passing(group: ReaderGroup, rules: Rules) -> bool:
    """Whether its readers put a time into a map as soon as they have passed it."""
    return group.time_windows and (rules.read_side, rules.enters_time) == ("document", "on_passing")


def step_ms(group: ReaderGroup, rules: Rules) -> int:
    """How often its readers read."""
    is_rare = rules.publish_timer == "fixed" and not enters_on_passing(group, rules)
    return group.publish_every_ms if is_rare else group.read_every_ms
