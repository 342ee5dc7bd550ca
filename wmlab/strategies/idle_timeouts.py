"""The cost of every idle timeout on a log: inputs wrongly declared idle, records that it makes late, and waiting.

The watermark is the least, over the inputs that are not idle, of their largest event time less a bound; the largest of
all if all are idle; and it never falls. An input is idle when the clock has come to more than the timeout after its
last record, and active again with its next one: so `withIdleness` of Flink has it, at probes of no distance, and the
rule `RisingWave` here.

The larger the timeout, the more inputs are active and the lower is the watermark, at each moment. So a record is late
for all timeouts below some length, and for no other: one pass finds that length for each record, exactly, and no
timeout has to be run. Let v be the event time of a record plus the bound. The watermark has been above v before it
under one condition: at some moment all inputs with a largest time of at most v were idle, while another input was
beyond v. At that moment their least silence was longer than the timeout; so the length is the longest that this least
silence has been.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa

from wmlab.core.answers import pandas_frame
from wmlab.core.arguments import the_duration
from wmlab.core.errors import ModelError
from wmlab.core.facts import FactAnswer, Facts, Value
from wmlab.core.times import Int64Array
from wmlab.core.traces import Trace
from wmlab.strategies.model.percentiles import within
from wmlab.strategies.model.strategy import END
from wmlab.strategies.replay import as_trace, before, difference, group
from wmlab.strategies.vocabulary import IDLE_HEADLINES, IDLE_LABELS

InputsBy = Literal["writer", "key"]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Holds:
    """The times for which a silent input keeps the watermark behind another one, one entry each, for every timeout.

    A silence lasts `lengths_ms`. From `begins_ms` after its beginning, another input is ahead; from then on the silence
    holds the watermark until it ends, or until the timeout. Entries are in the order of their lengths.
    """

    begins_ms: Int64Array
    lengths_ms: Int64Array

    def total_ms(self, timeout_ms: Any) -> Any:
        """How long all of them hold the watermark, for a timeout or an array; simultaneous ones are added."""
        return _sum_beyond(np.sort(self.begins_ms), timeout_ms) - _sum_beyond(self.lengths_ms, timeout_ms)

    def longest_ms(self, timeout_ms: Any) -> Any:
        """How long one of them holds the watermark at most, as `total_ms`."""
        ended = np.append(0, np.maximum.accumulate(self.lengths_ms - self.begins_ms))
        first = np.append(np.minimum.accumulate(self.begins_ms[::-1])[::-1], END)
        count = np.searchsorted(self.lengths_ms, timeout_ms, side="right")
        return np.maximum(ended[count], timeout_ms - np.minimum(first[count], timeout_ms))


def _sum_beyond(ascending: Int64Array, timeout_ms: Any) -> Any:
    """By how much the timeout is above the values that are below it, in all."""
    count = np.searchsorted(ascending, timeout_ms)
    return timeout_ms * count - np.append(0, np.cumsum(ascending))[count]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class Idleness(FactAnswer):
    """The cost of each idle timeout: inputs that are wrongly declared idle, records that it makes late, and waiting.

    `silences_ms` has the times between two records of one input, ascending. `late_below_ms` has, ascending, for each
    record that is late with some timeout but not without one, the timeout from which on it is on time. `late_anyway`
    counts the records that are late without a timeout. `inputs` has the same for each writer or key alone: its
    silences, its late records, and how long the watermark waits for it.
    """

    name: str
    """The name of the log."""
    rows: int
    """The number of records."""
    by: InputsBy
    """What turns idle: a writer, or a key of the log."""
    bound_ms: int
    """The bound on the disorder of each input, in ms."""
    silences_ms: Int64Array
    late_below_ms: Int64Array
    late_anyway: int
    holds: Holds
    """How long silent inputs held the watermark."""
    inputs: Mapping[str, Idleness] = field(default_factory=dict)
    schema: ClassVar[pa.Schema] = pa.schema(
        [
            *((name, pa.int64()) for name in ("timeout_ms", "false_idles", "late")),
            ("late_share", pa.float64()),
            *((name, pa.int64()) for name in ("longest_hold_ms", "held_ms")),
        ]
    )

    def false_idles(self, timeout_ms: Any) -> Any:
        """How often an input is declared idle although it returns, for a timeout or an array of timeouts."""
        return _above(self.silences_ms, timeout_ms)

    def late(self, timeout_ms: Any) -> Any:
        """How many records are late because of the timeout, and would not be without one; as `false_idles`."""
        return _above(self.late_below_ms, timeout_ms)

    def late_share(self, timeout_ms: Any) -> Any:
        """The share of these records, 0 to 1."""
        return self.late(timeout_ms) / self.rows

    def longest_hold_ms(self, timeout_ms: Any) -> Any:
        """The longest time for which one silent input holds the watermark while another is ahead; as `false_idles`."""
        return _of(timeout_ms, self.holds.longest_ms)

    def held_ms(self, timeout_ms: Any) -> Any:
        """How long silent inputs hold it in total; simultaneous times are added."""
        return _of(timeout_ms, self.holds.total_ms)

    def timeout_ms(self, late_share: float) -> int:
        """The smallest timeout that makes at most that share of the records late."""
        most = within(float(late_share), self.rows)
        count = len(self.late_below_ms)
        return int(self.late_below_ms[count - 1 - most]) if count > most else 0

    @property
    def timeouts_ms(self) -> Int64Array:
        """Every timeout at which the cost changes: from each on, fewer inputs are wrongly idle or records late."""
        return np.unique(np.concatenate([[0], self.silences_ms, self.late_below_ms]))

    def row(self, timeout_ms: int) -> dict[str, int | float]:
        """The row of the table of one timeout, as a dict."""
        return dict(zip(self.schema.names, self._columns(timeout_ms), strict=True))

    def _columns(self, timeout_ms: Any) -> tuple[Any, ...]:
        late = self.late(timeout_ms)
        holds = (self.longest_hold_ms(timeout_ms), self.held_ms(timeout_ms))
        return timeout_ms, self.false_idles(timeout_ms), late, late / self.rows, *holds

    def to_dict(self) -> dict[str, Any]:
        """The answer as dicts, lists and numbers."""
        plain = {name: getattr(self, name) for name in ("name", "rows", "by", "bound_ms", "late_anyway")}
        arrays = {name: getattr(self, name).tolist() for name in ("silences_ms", "late_below_ms")}
        holds = {"begins_ms": self.holds.begins_ms.tolist(), "lengths_ms": self.holds.lengths_ms.tolist()}
        inputs = {name: of_input.to_dict() for name, of_input in self.inputs.items()}
        return plain | arrays | {"holds": holds, "inputs": inputs}

    def to_pandas(self) -> Any:
        """One row for each timeout at which something changes."""
        return pandas_frame(pa.table(list(self._columns(self.timeouts_ms)), self.schema))

    @property
    def facts(self) -> Facts:  # type: ignore[override]
        """From which length on a timeout costs little, and nothing."""
        late = {name: each.late_anyway for name, each in self.inputs.items()}
        most = max(late, key=lambda name: late[name], default="")
        facts: dict[str, Value] = {"log": self.name, "records": self.rows}
        facts |= {"bound": self.bound_ms, "late anyway": self.late_anyway}
        facts["most late anyway"] = most if len(late) > 1 and 2 * late[most] > self.late_anyway else None
        if len(self.silences_ms):
            none_ms = self.timeout_ms(0)
            facts |= {"timeout for none": none_ms, "longest hold": self.longest_hold_ms(none_ms)}
        return Facts(IDLE_LABELS, facts)

    @property
    def templates(self) -> tuple[str, ...]:  # type: ignore[override]
        """The timeout that makes no record late, if there are two records to tell one from another."""
        return self.facts.chosen(IDLE_HEADLINES)


def idleness(
    trace: Trace | Any, bound: int | str = 0, by: InputsBy = "writer", *, writers: Sequence[str] = ()
) -> Idleness:
    """The exact cost of every idle timeout on a log, for the minimum over the "writer"s or over the "key"s.

    The log is a trace, or a data frame with the columns of one.

    The watermark is the minimum, over the inputs that are not idle, of their largest event time minus `bound`; if all
    are idle, it is the largest of all. It never falls, and an input counts from its first record on; those in
    `writers`, which may not have sent yet, from the first arrival on. An input is idle when the wall clock, here the
    arrival of records, is more than the timeout after its last record. A false idle is a silence longer than the
    timeout after which the input sends again. A record is late because of the timeout if its event time is below the
    watermark with this timeout, but not below the watermark without a timeout.

    `bound` is in units of event time, or a text such as "5 s". The cost is one pass, in which a record looks at the
    inputs once. Source: `WatermarksWithIdleness` and `WatermarkOutputMultiplexer` of Flink 2.3.0, with probes of no
    distance; `wm.strategy.RisingWave` is this watermark with one timeout.

    Raises `ModelError` for anything but a log, for another `by`, for a negative bound, and times whose distance does
    not fit into 64 bits.
    """
    trace = as_trace(trace)
    bound_ms = the_duration(bound, ModelError, name="bound")
    if bound_ms < 0:
        raise ModelError(f"The bound {bound_ms} is negative.", remedy="Give a bound of 0 or more.")
    groups, names = group(trace, by)
    event, arrival = (trace.table[name].to_numpy() for name in ("event_time", "arrival_ms"))
    top = np.maximum(before(event, groups), event)
    declared = [names.index(name) if name in names else len(names) + n for n, name in enumerate(dict.fromkeys(writers))]
    below_ms = late_below(event, arrival, groups, top, bound_ms, declared)
    ends, returns = _next_of_input(groups)
    waited_ms = {number: arrival[groups == number].min(initial=arrival[-1]) - arrival[0] for number in declared}
    lengths_ms = difference(arrival[ends], arrival)
    # Another input is ahead from the first row whose largest event time of all is above that of the silent one.
    ahead = np.maximum(np.searchsorted(np.maximum.accumulate(event), top, side="right"), np.arange(len(event)))
    begins_ms = arrival[np.minimum(ahead, len(event) - 1)] - arrival
    holds = begins_ms < lengths_ms

    def part(name: str, rows: Any, declared: Iterable[int]) -> Idleness:
        late = below_ms[rows]
        holding = holds & rows
        # What has been declared and has not sent yet holds the watermark from the beginning.
        first_ms = np.array([waited_ms[number] for number in declared if waited_ms[number]], np.int64)
        came_ms = np.array([waited_ms[n] for n in declared if waited_ms[n] and n < len(names)], np.int64)
        hold_ms = np.concatenate([lengths_ms[holding], first_ms])
        begin_ms = np.concatenate([begins_ms[holding], np.zeros_like(first_ms)])
        order = np.argsort(hold_ms, kind="stable")
        return Idleness(
            name=name,
            rows=int(rows.sum()),
            by=by,
            bound_ms=bound_ms,
            silences_ms=np.sort(np.concatenate([lengths_ms[rows & returns], came_ms])),
            late_below_ms=np.sort(late[(late > 0) & (late < END)]),
            late_anyway=int((late == END).sum()),
            holds=Holds(begins_ms=begin_ms[order], lengths_ms=hold_ms[order]),
        )

    whole = part(trace.name, np.ones(len(event), bool), declared)
    inputs = {name: part(name, groups == n, [n] if n in declared else []) for n, name in enumerate(names)}
    return replace(whole, inputs=inputs)


def late_below(
    event: Int64Array,
    arrival: Int64Array,
    groups: Any,
    top: Int64Array,
    bound_ms: int,
    declared: Iterable[int] = (),
) -> Int64Array:
    """For each row the timeout from which on it is in time: 0 if it always is, `END` if it never is.

    `groups` are the inputs of the rows, `top` the largest event time of the row's input up to it. Inputs that are
    `declared` are there from the first arrival on, beyond no time.
    """
    below = np.zeros(len(event), np.int64)
    inputs = _Inputs()
    for number in declared:
        inputs.put(number, -END, int(arrival[0]))
    closed = _Silences()
    columns = (column.tolist() for column in (event, arrival, groups, top))
    for row, (time, now_ms, of, largest) in enumerate(zip(*columns, strict=True)):
        limit = time + bound_ms
        if limit < inputs.largest:
            below[row] = max(inputs.least_silence(limit, now_ms), closed.longest(limit))
        # The row ends the silence of all limits that its input is not beyond.
        for beyond, length_ms in inputs.silences_above(largest, now_ms):
            closed.add(beyond, length_ms)
        inputs.put(of, largest, now_ms)
    return below


class _Inputs:
    """The inputs in ascending order of their largest event times, with the arrivals of their last records."""

    def __init__(self) -> None:
        self._order: list[tuple[int, int]] = []
        self._last_ms = array("q")
        self._tops: dict[int, int] = {}

    @property
    def largest(self) -> int:
        """The largest event time of all; below all limits if there is none."""
        return self._order[-1][0] if self._order else -END

    def least_silence(self, limit: int, now_ms: int) -> int:
        """How long all inputs that are not beyond a limit have been silent; `END` if there is none."""
        count = self._behind(limit)
        return now_ms - int(np.frombuffer(self._last_ms, np.int64, count).max()) if count else END

    def silences_above(self, limit: int, now_ms: int) -> Iterator[tuple[int, int]]:
        """The same of this limit and of all above it: pairs of the limit up to which it is so, and the length."""
        first, final = self._behind(limit), len(self._order) - 1
        if first > final:
            return
        last_ms = np.frombuffer(self._last_ms, np.int64)
        latest = np.maximum.accumulate(last_ms)[first - 1 if first else 0 :]
        if not first:
            yield self._order[0][0], END
        # Where an input is beyond the limit that sent later than all before it, the silence becomes shorter.
        changes = np.flatnonzero(latest[1:] != latest[:-1])
        shorter = [*zip((changes + max(first, 1)).tolist(), latest[changes].tolist(), strict=True)]
        if not shorter or shorter[-1][0] != final:
            shorter.append((final, int(latest[-1])))
        for index, sent_ms in shorter:
            yield self._order[index][0], now_ms - sent_ms

    def put(self, of: int, top: int, now_ms: int) -> None:
        """A record of an input, whose largest event time is now `top`."""
        if of in self._tops:
            index = bisect_left(self._order, (self._tops[of], of))
            del self._order[index], self._last_ms[index]
        index = bisect_left(self._order, (top, of))
        self._order.insert(index, (top, of))
        self._last_ms.insert(index, now_ms)
        self._tops[of] = top

    def _behind(self, limit: int) -> int:
        """How many inputs are not beyond a limit."""
        return bisect_right(self._order, (limit, END))


class _Silences:
    """The longest silence so far of every limit: a silence up to a limit counts for all limits below it, too.

    Limits ascend and lengths descend, for what is shorter and up to a lower limit says nothing more.
    """

    def __init__(self) -> None:
        self._limits: list[int] = []
        self._lengths_ms: list[int] = []

    def longest(self, limit: int) -> int:
        """The longest silence within a limit; 0 if there was none."""
        index = bisect_right(self._limits, limit)
        return self._lengths_ms[index] if index < len(self._limits) else 0

    def add(self, beyond: int, length_ms: int) -> None:
        """A silence of all limits below `beyond`."""
        index = bisect_left(self._limits, beyond)
        if index < len(self._limits) and self._lengths_ms[index] >= length_ms:
            return
        end = index + (index < len(self._limits) and self._limits[index] == beyond)
        # Shorter ones up to lower limits stand right before.
        first = bisect_left(self._lengths_ms, -length_ms, hi=index, key=lambda known_ms: -known_ms)
        self._limits[first:end] = [beyond]
        self._lengths_ms[first:end] = [length_ms]


def _next_of_input(groups: Any) -> tuple[Any, Any]:
    """The next row of each row's input, the last row of the log if there is none, and whether there is one."""
    order = np.argsort(groups, kind="stable")
    follows = groups[order][1:] == groups[order][:-1]
    ends = np.full(len(groups), len(groups) - 1)
    returns = np.zeros(len(groups), bool)
    ends[order[:-1][follows]] = order[1:][follows]
    returns[order[:-1][follows]] = True
    return ends, returns


def _above(ascending: Int64Array, timeout_ms: Any) -> Any:
    """How many of the values are above a timeout, or each of several."""
    return _of(timeout_ms, lambda above: len(ascending) - np.searchsorted(ascending, above, side="right"))


def _of(timeout_ms: Any, value: Callable[[Any], Any]) -> Any:
    """A value of a timeout, a number or a text, as a number; of an array of timeouts an array."""
    if np.ndim(timeout_ms) == 0:
        timeout_ms = the_duration(timeout_ms, ModelError, name="timeout_ms")
    if np.any(np.asarray(timeout_ms) < 0):
        raise ModelError(f"The timeout {timeout_ms!r} is negative.", remedy="Give timeouts of 0 or more.")
    values = value(timeout_ms)
    return int(values) if np.ndim(timeout_ms) == 0 else values
