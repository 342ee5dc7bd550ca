"""How engines write a watermark: the line of a program, or the reason why not, with the alternative.

Only what an engine has is a recipe. Flink, Spark, Kafka Streams and Beam have a constant bound. In Flink and Beam, a
watermark that waits for each writer is one for each split of a source, if each writer has its own partition; Spark has
the least over streams, without an idle timeout; the stream time of Kafka Streams is the largest time of all partitions
of a task. No engine has a guard, a conformal bound or a moving percentile as a setting.

A line names the event time as the log does. Engines want a timestamp: where the column is a number or a text, or
inside another one, the line begins with a column that is computed from it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from wmlab.core.words import DAY_MS
from wmlab.strategies.model.bounded import BoundedOutOfOrderness, StreamTime
from wmlab.strategies.model.engines import Bytewax, Quix
from wmlab.strategies.model.guard import Guarded
from wmlab.strategies.model.spark import delay_of_bound
from wmlab.strategies.model.strategy import Strategy
from wmlab.strategies.model.writers import PerWriterMinimum


@dataclass(frozen=True, slots=True)
class Setting:
    """How an engine writes a strategy: `code`, and a `note` on it. Without code it cannot have it, and `note` says why.

    `instead` is then the constant bound that the engine can have, if one was given. `str` of it is one line.
    """

    code: str
    note: str
    instead: Setting | None = None
    strategy: Strategy[Any] | None = None
    """What the line is; None without a line."""
    expected: str = ""
    """What is expected of just this line, in words; empty where nobody has judged it."""

    @property
    def remark(self) -> str:
        """What is said of the line: the note and what is expected."""
        return "; ".join(filter(None, (self.note, self.expected)))

    @property
    def possible(self) -> bool:
        """Whether the engine can have the strategy."""
        return bool(self.code)

    def __str__(self) -> str:
        code = self.code.replace("\n", " ")
        if self.possible:
            return f"{code}  # {self.remark}" if self.remark else code
        text = f"cannot have it: {self.note}"
        return text if self.instead is None else f"{text}; the alternative is a constant bound, {self.instead}"


_UNITS: Final = {
    "d": ("ROUND(CAST({0} AS DOUBLE) * 86400000)", " * 86400000000"),
    "s": ("ROUND(CAST({0} AS DOUBLE) * 1000)", " * 1000000"),
    "ms": ("{0}", " * 1000"),
    "us": ("CAST({0} AS BIGINT) / 1000", ""),
    "ns": ("CAST({0} AS BIGINT) / 1000000", " / 1000"),
}
"""How numbers of a unit, or texts of them, become ms in Flink, and how a DOUBLE of them becomes microseconds."""
_IN_UTC: Final = "write the event times in UTC, as yyyy-MM-dd HH:mm:ss.SSS, to a column first"
_HINDRANCES: Final = {
    "columns": "the event time is in two columns",
    "several": "the event times have several formats",
    "other": "no pattern is known here for such texts",
}
"""Why no line reads event times of some forms."""
_LOCAL_FORMAT: Final = "yyyy-MM-dd HH:mm:ss.SSS"
"""How Flink writes a local time, to read it in its zone."""
_PATTERNS: Final = {
    "%Y": "yyyy", "%y": "yy", "%m": "MM", "%d": "dd", "%H": "HH", "%M": "mm", "%S": "ss", "%f": "SSSSSS", "%z": "XX",
    "%b": "MMM", "%B": "MMMM", "%I": "hh", "%p": "a", "%j": "DDD", "%%": "%",
}  # fmt: skip
"""The letters of Java for those of `strptime`."""
_ONE_DIGIT: Final = ("%m", "%d", "%H", "%M", "%S", "%I")
"""Numbers that `strptime` reads with one digit as well, where no other number is next to them."""


@dataclass(frozen=True, slots=True)
class EventTimeColumn:
    """The column of event times of a log, or a path to it, and what stands there, as `Trace.event_time_form` has it.

    Numbers count from `origin_ms`, in ms since 1970. `zone` is the IANA name of the zone of local times; None: UTC.
    """

    name: str
    form: str = "timestamp"
    origin_ms: int = 0
    zone: str | None = None

    @property
    def is_in_array(self) -> bool:
        """Whether a path leads through the elements of an array."""
        return "[]" in self.name

    @property
    def computed(self) -> str:
        """The name of a column that is computed from it; empty where the column is a timestamp itself."""
        if self.form == "timestamp" and not self.is_in_array and self.zone is None:
            return ""
        return f"{re.split(r'[.]', self.name)[-1].replace('[]', '')}_timestamp"

    @property
    def hindrance(self) -> str:
        """Why no line reads it, in words; empty where one does."""
        if self.form in _HINDRANCES:
            return f"{_HINDRANCES[self.form]}; {_IN_UTC}"
        is_known = self._is_plain or not set(re.findall(r"%.", self.form)) - _PATTERNS.keys()
        return "" if is_known else f"{_HINDRANCES['other']}; {_IN_UTC}"

    @property
    def has_offset(self) -> bool:
        """Whether it is a text with an offset from UTC."""
        return self.form == "offset" or "%z" in self.form

    @property
    def _is_plain(self) -> bool:
        return self.form in ("text", "minutes", "offset", "timestamp") or self.form in _UNITS

    def in_flink(self) -> str:
        """The computed column in Flink SQL; empty for numbers of a local time, which it has no function for."""
        name = ".".join(_sql_name(part) for part in self.name.split("."))
        if self.form in _UNITS:
            number = f"{_UNITS[self.form][0].format(name)}{_plus(self.origin_ms)}"
            return "" if self.zone else f"TO_TIMESTAMP_LTZ(CAST({number} AS BIGINT), 3)"
        if self.form == "text":
            moment = f"TO_TIMESTAMP(REPLACE(REPLACE({name}, 'T', ' '), 'Z', ''))"
        elif self.form == "timestamp":
            moment = name
        else:
            # Flink reads just as many digits as there are letters, but skips what is in brackets.
            fraction = "".join(f"[{'S' * digits}]" for digits in range(6, 0, -1))
            moment = f"TO_TIMESTAMP({self._as_text(name)}, '{self._pattern().replace('SSSSSS', fraction)}')"
        if self.zone is None:
            return moment
        text = f"DATE_FORMAT({moment}, '{_LOCAL_FORMAT}')"
        return f"TO_TIMESTAMP_LTZ({text}, '{_LOCAL_FORMAT}', '{self.zone}')"

    def exploded(self) -> list[str]:
        """The expressions of Spark that give the elements of the arrays on the way, from the outermost."""
        parts, expressions, path = self.name.split("."), [], ""
        for part in parts[:-1] if self.is_in_array else []:
            path = f"{path}.{_spark_name(part.replace('[]', ''))}".lstrip(".")
            if part.endswith("[]"):
                element = f"{part[:-2]}_element"
                expressions.append(f"explode({path}) AS {_spark_name(element)}")
                path = _spark_name(element)
        return expressions

    def in_spark(self) -> str:
        """The computed column in Spark, behind `exploded`; NULL for what is no time, on which a cast would fail."""
        *way, last = self.name.split(".")
        inside = [index for index, part in enumerate(way) if part.endswith("[]")]
        if inside:
            way = [f"{way[inside[-1]][:-2]}_element", *way[inside[-1] + 1 :]]
        name = ".".join(_spark_name(part) for part in [*way, last])
        if self.form in _UNITS:
            micros = f"TRY_CAST({name} AS DOUBLE){_UNITS[self.form][1]}{_plus(self.origin_ms * 1_000)}"
            moment = f"timestamp_micros(TRY_CAST(ROUND({micros}) AS BIGINT))"
        elif self.form == "timestamp":
            moment = name
        else:
            arguments = name if self._is_plain else f"{self._as_text(name)}, '{self._pattern(_ONE_DIGIT)}'"
            moment = f"try_to_timestamp({arguments})"
        return moment if self.zone is None else f"to_utc_timestamp({moment}, '{self.zone}')"

    def _as_text(self, name: str) -> str:
        """A column of a format as a text: of digits alone it may be a number."""
        return f"CAST({name} AS STRING)" if re.fullmatch(r"(%[YmdHMSjy])+", self.form) else name

    def _pattern(self, one_digit: Sequence[str] = ()) -> str:
        """The format as Java writes it, in a text of SQL; letters and brackets that stand for themselves in quotes.

        Those of `one_digit` that stand alone may have one digit, which a single letter of Java reads.
        """
        parts = re.findall(r"%.|[^%]+", self.form)
        words = [_PATTERNS.get(part) or re.sub(r"[A-Za-z\[\]{}#]+|'", _in_quotes, part) for part in parts]
        for index, part in enumerate(parts):
            neighbours = [*parts[max(0, index - 1) : index], *parts[index + 1 : index + 2]]
            if part in one_digit and not any(each.startswith("%") for each in neighbours):
                words[index] = words[index][0]
        return "".join(words)


def _in_quotes(letters: re.Match[str]) -> str:
    """What a pattern of Java has for some characters that stand for themselves."""
    return "''''" if letters[0] == "'" else f"''{letters[0]}''"


def _plus(count: int) -> str:
    """A number to add, as SQL writes it; empty for 0."""
    return f" {'-' if count < 0 else '+'} {abs(count)}" if count else ""


@dataclass(frozen=True, slots=True)
class ConstantBound:
    """The constant bound for an engine that cannot have a strategy, ms, and what is expected of it, in words."""

    bound_ms: int
    expected: str


def settings(
    strategy: Strategy[Any] | int,
    instead: ConstantBound | None = None,
    *,
    event_time: str | EventTimeColumn = "event_time",
    expected: str = "",
) -> dict[str, Setting]:
    """How engines write a strategy, or a constant bound in ms: Flink SQL, Spark, Kafka Streams and Beam, and Flink's
    DataStream API and others if a strategy needs them.

    `event_time` is the column of event times, a timestamp if only its name is given. For an engine that cannot have the
    strategy, the result gives the reason, and the line for the alternative constant bound, if one is given. `expected`
    says in words what the strategy does, for each of its lines. In Flink, a
    row at the watermark is late, so its SQL has one millisecond more; `forBoundedOutOfOrderness` does the same by
    itself. In Spark this depends on the operator that follows, so its line has two delays.

    >>> settings(90_061_500, event_time="taken at")["Flink SQL"].code
    "WATERMARK FOR `taken at` AS `taken at` - INTERVAL '1 01:01:01.501' DAY TO SECOND(3)"
    """
    if isinstance(event_time, str):
        event_time = EventTimeColumn(event_time)
    strategy = BoundedOutOfOrderness(strategy) if isinstance(strategy, int) else strategy
    if (bound_ms := _bound_ms(strategy)) is not None:
        return _judged(_constant(bound_ms, event_time), strategy, expected)
    lines = _judged(_own(strategy, event_time), strategy, expected)
    if instead is None:
        return lines
    bound = BoundedOutOfOrderness(instead.bound_ms)
    constant = _judged(_constant(instead.bound_ms, event_time), bound, instead.expected)
    return {
        engine: line
        if line.possible
        else replace(line, instead=constant[engine])
        if constant[engine].possible
        else constant[engine]
        for engine, line in lines.items()
    }


def _judged(lines: dict[str, Setting], strategy: Strategy[Any], expected: str) -> dict[str, Setting]:
    """The lines of a strategy, each with what is expected of it."""
    return {
        engine: replace(line, strategy=strategy, expected=expected) if line.possible else line
        for engine, line in lines.items()
    }


def _bound_ms(strategy: Strategy[Any]) -> int | None:
    """The constant bound that a strategy is; None: it is another one."""
    if isinstance(strategy, BoundedOutOfOrderness):
        return strategy.bound
    return strategy.grace if isinstance(strategy, StreamTime) else None


def _constant(bound_ms: int, event_time: EventTimeColumn) -> dict[str, Setting]:
    """The lines of a constant bound."""
    return {
        "Flink SQL": _sql(bound_ms, event_time),
        "Spark": _spark(bound_ms, event_time),
        "Kafka Streams": Setting(f"TimeWindows.ofSizeAndGrace(size, Duration.ofMillis({bound_ms}L))", ""),
        "Beam": Setting(
            f"new CustomTimestampPolicyWithLimitedDelay<>(timestamp, Duration.millis({bound_ms}L), previous)", ""
        ),
    }


def _sql(bound_ms: int, event_time: EventTimeColumn, note: str = "", before: str = "") -> Setting:
    if event_time.is_in_array:
        return _cannot("a watermark is of a column of the table; write the elements of the array to a table first")
    if event_time.computed and not event_time.in_flink():
        return _cannot("it has no function for numbers that count local time; write them to a table in UTC first")
    if event_time.hindrance:
        return _cannot(event_time.hindrance)
    if event_time.has_offset:
        return _cannot(f"it reads no offset of a text; {_IN_UTC}")
    if event_time.form == "minutes":
        return _cannot(f"it reads no time of day without seconds; {_IN_UTC}")
    name = _sql_name(event_time.computed or event_time.name)
    column = f"{name} AS {event_time.in_flink()},\n" if event_time.computed else ""
    return Setting(f"{before}{column}WATERMARK FOR {name} AS {name} - INTERVAL {_interval(bound_ms + 1)}", note)


_PLAIN: Final = re.compile(r"[A-Za-z]+(_[A-Za-z0-9]+)+")
"""Names that SQL reads as they are: with an underscore inside, none is a word of its own."""


def _sql_name(name: str) -> str:
    """A column as Flink SQL writes it, in backticks where it might be a word of SQL, or has other characters."""
    if _PLAIN.fullmatch(name) and name.lower() not in _RESERVED:
        return name
    return "`" + name.replace("`", "``") + "`"


_RESERVED: Final = frozenset({"current_date", "current_time", "current_timestamp", "local_time", "system_time"})
"""Words of SQL with an underscore that columns of times are called."""


def _spark(bound_ms: int, event_time: EventTimeColumn) -> Setting:
    of_windows, of_others = (f"{delay_of_bound(bound_ms, name)} milliseconds" for name in ("window", "dropDuplicates"))
    others = f"for windows; {of_others} for dropDuplicates, joins by times, state and groupBy of the time itself"
    if event_time.hindrance:
        return _cannot(event_time.hindrance)
    name = _spark_name(event_time.computed or event_time.name)
    column = "".join(f".selectExpr({_quoted(f'*, {one}'.split(', ', 1))})" for one in event_time.exploded())
    if event_time.computed:
        column += f".withColumn({json.dumps(event_time.computed)}, F.expr({json.dumps(event_time.in_spark())}))"
    return Setting(f'{column}.withWatermark({json.dumps(name, ensure_ascii=False)}, "{of_windows}")', others)


def _quoted(texts: Iterable[str]) -> str:
    return ", ".join(json.dumps(text, ensure_ascii=False) for text in texts)


def _spark_name(name: str) -> str:
    return name if re.fullmatch(r"\w+", name) else "`" + name.replace("`", "``") + "`"


def _interval(length_ms: int) -> str:
    """A length as an interval of SQL: "'1 01:01:01.501' DAY TO SECOND(3)"."""
    days, rest = divmod(length_ms, DAY_MS)
    seconds, ms = divmod(rest, 1_000)
    clock = f"{days} {seconds // 3_600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{ms:03}"
    precision = f"({len(str(days))})" if days > 99 else ""
    return f"'{clock}' DAY{precision} TO SECOND(3)"


def _bounded(bound_ms: int) -> str:
    return f"WatermarkStrategy.<Row>forBoundedOutOfOrderness(Duration.ofMillis({bound_ms}L))"


def _cannot(why: str) -> Setting:
    return Setting("", why)


_CONSTANT: Final = _cannot("its bound is a constant")


def _own(strategy: Strategy[Any], event_time: EventTimeColumn) -> dict[str, Setting]:
    """The lines of a strategy that is not a constant bound."""
    if isinstance(strategy, PerWriterMinimum):
        return _least_over_writers(strategy, event_time)
    if isinstance(strategy, Guarded):
        return _guarded(strategy, event_time)
    if strategy.keyed:
        return _by_key(strategy)
    name = type(strategy).__name__
    generator = f"with your own WatermarkGenerator, whose onEvent and onPeriodicEmit do what {name}.step does"
    return {
        "Flink SQL": _CONSTANT,
        "Flink": Setting("WatermarkStrategy.forGenerator(...)", generator),
        "Spark": _CONSTANT,
        "Kafka Streams": _CONSTANT,
        "Beam": Setting(
            "withTimestampPolicyFactory(...)",
            f"with your own TimestampPolicy, whose getWatermark does what {name}.step does",
        ),
    }


def _least_over_writers(strategy: PerWriterMinimum, event_time: EventTimeColumn) -> dict[str, Setting]:
    bound_ms, idle_ms = strategy.bound, strategy.idle_ms
    partitions = "where each writer has a partition of its own in the source"
    idleness = "" if idle_ms is None else f".withIdleness(Duration.ofMillis({idle_ms}L))"
    idle_sql = "" if idle_ms is None else f"SET 'table.exec.source.idle-timeout' = '{idle_ms} ms';\n"
    spark = _spark(bound_ms, event_time)
    policy = "one for the stream of each writer, then union, with spark.sql.streaming.multipleWatermarkPolicy = min"
    streams = f"{policy}; {spark.note}" if spark.possible else spark.note
    return {
        "Flink SQL": _sql(bound_ms, event_time, partitions, idle_sql),
        "Flink": Setting(f"{_bounded(bound_ms)}{idleness}", partitions),
        "Spark": replace(spark, note=streams) if idle_ms is None else _cannot("it has no idle timeout"),
        "Kafka Streams": _cannot("the stream time of a task is the largest time of all its partitions"),
        "Beam": _cannot("its policy moves a partition without records with the clock, less the delay"),
    }


def _guarded(strategy: Guarded, event_time: EventTimeColumn) -> dict[str, Setting]:
    ahead_ms, inner = strategy.ahead_ms, strategy.inner
    if strategy.beyond == "arrival":
        too_far = f"timestamp > System.currentTimeMillis() + {ahead_ms}L"
    else:
        too_far = f"timestamp is more than {ahead_ms} ms above those of all other writers"
    generator = f"with your own WatermarkGenerator, whose onEvent returns at once where {too_far}"
    return {
        "Flink SQL": _cannot("nothing is offered against times that are ahead"),
        "Flink": Setting(
            "WatermarkStrategy.forGenerator(...)", f"{generator}, and else calls that of {_flink(inner, event_time)}"
        ),
        "Spark": _cannot("only a filter before .withWatermark is offered, which loses such rows"),
        "Kafka Streams": _cannot("only your own TimestampExtractor could do it, which alters such times"),
        "Beam": Setting(
            "withTimestampPolicyFactory(...)",
            "with your own TimestampPolicy, whose getTimestampForRecord leaves such times out of its largest "
            "time; CustomTimestampPolicyWithLimitedDelay counts them, and stops at the clock less the delay",
        ),
    }


def _flink(inner: Strategy[Any], event_time: EventTimeColumn) -> str:
    """The line of Flink of the strategy within a guard."""
    bound_ms = _bound_ms(inner)
    return str(settings(inner, event_time=event_time)["Flink"].code) if bound_ms is None else _bounded(bound_ms)


def _by_key(strategy: Strategy[Any]) -> dict[str, Setting]:
    lines = dict.fromkeys(("Flink SQL", "Spark", "Kafka Streams", "Beam"), _cannot("it has no watermark of a key"))
    if isinstance(strategy, Quix):
        return lines | {
            "Quix Streams": Setting(f".tumbling_window(size, grace_ms={strategy.grace})", "which closes by key")
        }
    if isinstance(strategy, Bytewax):
        wait = f"EventClock(..., wait_for_system_duration=timedelta(milliseconds={strategy.wait}))"
        return lines | {"bytewax": Setting(wait, "")}
    return lines
