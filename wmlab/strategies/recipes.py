"""How engines write a watermark: the line of a program, or that the engine cannot have it, and what it has instead.

Only what an engine has is a recipe. Flink, Spark, Kafka Streams and Beam have a constant bound. A watermark that waits
for each writer is a watermark for each split of a source in Flink and Beam, if each writer has a partition of its own;
Spark has the least over streams, without an idle timeout; the stream time of Kafka Streams is the largest time of all
partitions of a task. No engine has a guard, a conformal bound or a moving percentile as a setting.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from wmlab.core.words import DAY_MS
from wmlab.strategies.model.bounded import BoundedOutOfOrderness, StreamTime
from wmlab.strategies.model.engines import Bytewax, Quix
from wmlab.strategies.model.guard import Guarded
from wmlab.strategies.model.spark import delay_of_bound
from wmlab.strategies.model.strategy import Strategy
from wmlab.strategies.model.writers import PerWriterMinimum


@dataclass(frozen=True, slots=True)
class Instead:
    """The constant bound for an engine that cannot have a strategy, ms, and what is expected of it, in words."""

    bound_ms: int
    expected: str


def settings(strategy: Strategy[Any] | int, instead: Instead | None = None) -> dict[str, str]:
    """How engines write a strategy, or a constant bound in ms: Flink SQL, Spark, Kafka Streams and Beam, and Flink's
    DataStream API and others where a strategy asks for them.

    Of an engine that cannot have it, why, and its line of the constant bound that is the alternative, if one is given.
    A row at the watermark of Flink is late, so its SQL has one millisecond more; `forBoundedOutOfOrderness` does the
    same by itself. In Spark that depends on the operator that follows, so its line has two delays.

    >>> settings(90_061_500)["Flink SQL"]
    "WATERMARK FOR event_time AS event_time - INTERVAL '1 01:01:01.501' DAY TO SECOND(3)"
    """
    if (bound_ms := strategy if isinstance(strategy, int) else _bound_ms(strategy)) is not None:
        return _constant(bound_ms)
    assert isinstance(strategy, Strategy)
    lines = _own(strategy)
    constant = {} if instead is None else _constant(instead.bound_ms, note=" ({})")
    for engine, line in lines.items():
        if line.startswith(_CANNOT) and instead is not None:
            other = f"the alternative is a constant bound, {constant[engine]}, {instead.expected}"
            lines[engine] = f"{line}; {other}"
    return lines


_CANNOT: Final = "cannot have it"


def _bound_ms(strategy: Strategy[Any]) -> int | None:
    """The constant bound that a strategy is; None: it is another one."""
    if isinstance(strategy, BoundedOutOfOrderness):
        return strategy.bound
    return strategy.grace if isinstance(strategy, StreamTime) else None


def _constant(bound_ms: int, *, note: str = "  # {}") -> dict[str, str]:
    """The lines of a constant bound; `note` is how a note stands behind the code, by default as a comment."""
    return {
        "Flink SQL": f"WATERMARK FOR event_time AS event_time - INTERVAL {_interval(bound_ms + 1)}",
        "Spark": _spark(bound_ms, note),
        "Kafka Streams": f"TimeWindows.ofSizeAndGrace(size, Duration.ofMillis({bound_ms}L))",
        "Beam": f"new CustomTimestampPolicyWithLimitedDelay<>(timestamp, Duration.millis({bound_ms}L), previous)",
    }


def _spark(bound_ms: int, note: str) -> str:
    of_windows, of_others = (f"{delay_of_bound(bound_ms, name)} milliseconds" for name in ("window", "dropDuplicates"))
    others = f"for windows; {of_others} for dropDuplicates, joins by times, state and groupBy of the time itself"
    return f'.withWatermark("event_time", "{of_windows}")' + note.format(others)


def _interval(length_ms: int) -> str:
    """A length as an interval of SQL: "'1 01:01:01.501' DAY TO SECOND(3)"."""
    days, rest = divmod(length_ms, DAY_MS)
    seconds, ms = divmod(rest, 1_000)
    clock = f"{days} {seconds // 3_600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{ms:03}"
    precision = f"({len(str(days))})" if days > 99 else ""
    return f"'{clock}' DAY{precision} TO SECOND(3)"


def _bounded(bound_ms: int) -> str:
    return f"WatermarkStrategy.<Row>forBoundedOutOfOrderness(Duration.ofMillis({bound_ms}L))"


def _own(strategy: Strategy[Any]) -> dict[str, str]:
    """The lines of a strategy that is no constant bound."""
    if isinstance(strategy, PerWriterMinimum):
        return _least_over_writers(strategy)
    if isinstance(strategy, Guarded):
        return _guarded(strategy)
    if strategy.keyed:
        return _by_key(strategy)
    name = type(strategy).__name__
    generator = f"a WatermarkGenerator of one's own, whose onEvent and onPeriodicEmit do what {name}.step does"
    return {
        "Flink SQL": f"{_CANNOT}: its watermark is an expression of one row",
        "Flink": f"WatermarkStrategy.forGenerator(...) with {generator}",
        "Spark": f"{_CANNOT}: its delay is a constant",
        "Kafka Streams": f"{_CANNOT}: the grace of a window is a constant",
        "Beam": f"a TimestampPolicy of one's own, whose getWatermark does what {name}.step does",
    }


def _least_over_writers(strategy: PerWriterMinimum) -> dict[str, str]:
    bound_ms, idle_ms = strategy.bound, strategy.idle_ms
    sql = f"WATERMARK FOR event_time AS event_time - INTERVAL {_interval(bound_ms + 1)}"
    partitions = "where each writer has a partition of its own in the source"
    idle_sql = "" if idle_ms is None else f"SET 'table.exec.source.idle-timeout' = '{idle_ms} ms'; "
    streams = f"one {_spark(bound_ms, ' ({})')}, for the stream of each writer, then union"
    policy = "with spark.sql.streaming.multipleWatermarkPolicy = min"
    return {
        "Flink SQL": f"{idle_sql}{sql}, {partitions}",
        "Flink": f"{_bounded(bound_ms)}{'' if idle_ms is None else _idleness(idle_ms)}, {partitions}",
        "Spark": f"{streams}, {policy}" if idle_ms is None else f"{_CANNOT}: it has no idle timeout",
        "Kafka Streams": f"{_CANNOT}: the stream time of a task is the largest time of all its partitions",
        "Beam": f"{_CANNOT}: its policy moves a partition without records with the clock, less the delay",
    }


def _idleness(idle_ms: int) -> str:
    return f".withIdleness(Duration.ofMillis({idle_ms}L))"


def _guarded(strategy: Guarded) -> dict[str, str]:
    ahead_ms, inner = strategy.ahead_ms, strategy.inner
    if strategy.beyond == "arrival":
        too_far = f"timestamp > System.currentTimeMillis() + {ahead_ms}L"
    else:
        too_far = f"timestamp is more than {ahead_ms} ms above those of all other writers"
    generator = f"a WatermarkGenerator of one's own, whose onEvent returns at once where {too_far}"
    return {
        "Flink SQL": f"{_CANNOT}: nothing is offered against times that are ahead",
        "Flink": f"WatermarkStrategy.forGenerator(...) with {generator}, and else calls that of {_flink(inner)}",
        "Spark": f"{_CANNOT}: only a filter before .withWatermark is offered, which loses such rows",
        "Kafka Streams": f"{_CANNOT}: only a TimestampExtractor of one's own is offered, which alters such times",
        "Beam": "a TimestampPolicy of one's own, whose getTimestampForRecord leaves such times out of its largest "
        "time; CustomTimestampPolicyWithLimitedDelay counts them, and stops at the clock less the delay",
    }


def _flink(inner: Strategy[Any]) -> str:
    """The line of Flink of the strategy within a guard."""
    bound_ms = _bound_ms(inner)
    return settings(inner)["Flink"] if bound_ms is None else _bounded(bound_ms)


def _by_key(strategy: Strategy[Any]) -> dict[str, str]:
    lines = dict.fromkeys(("Flink SQL", "Spark", "Kafka Streams", "Beam"), f"{_CANNOT}: it has no watermark of a key")
    if isinstance(strategy, Quix):
        return lines | {"Quix Streams": f".tumbling_window(size, grace_ms={strategy.grace}), which closes by key"}
    if isinstance(strategy, Bytewax):
        return lines | {"bytewax": f"EventClock(..., wait_for_system_duration=timedelta(milliseconds={strategy.wait}))"}
    return lines
