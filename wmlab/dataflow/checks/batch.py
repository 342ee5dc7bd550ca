"""Windows and joins over the on-time rows of a recording, as a batch, compared with the results of the dataflow.

A batch knows no watermarks: a window is an interval of time, a session a run of rows without a gap, and a join a join.
Only what a row of the result looks like is left to the functions of `wmlab.dataflow.model`, row by row.

An execution that ended gave everything. One that was stopped gave at least what its last watermark released, and what
it gave must be among what the rows can give.

Source: "Stream-to-stream join", Semantics; "Keyed watermark support", Changes to window aggregation processors.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from typing import Any, Final, NamedTuple

from wmlab.core.grouping import rows_by
from wmlab.core.invariants import Evidence, Finding, TableRow, TableRows, invariant, name_text
from wmlab.dataflow.checks.channels import Channels
from wmlab.dataflow.model.aggregate import accumulated, created, finished, group_of
from wmlab.dataflow.model.items import MAX, RowValues
from wmlab.dataflow.model.join import LEFT, RIGHT, AnyJoin, BatchJoin
from wmlab.dataflow.model.window import SessionProcessor, WindowProcessor
from wmlab.dataflow.sim.rules import DataflowRules, RecordedRule

_DIGITS: Final = 9
InstanceRun = tuple[str, int, int]
"""A vertex, an execution, and the number of an instance."""


class TakenRow(NamedTuple):
    """A row that an instance took and did not drop: when, on which edge, its time if it has one, and its values."""

    taken: int
    taken_ms: int
    edge: int
    time: int | None
    values: RowValues


@dataclass(frozen=True, slots=True)
class ResultProgress:
    """How far an instance of a window or join had come in an execution that began without a snapshot.

    completed: whether the execution came to its end, so that all results are out. busy_ms: when it took something last;
    what it took then may still wait for its turn, all else is done with. released: the watermark of the key of its
    results that had left before `busy_ms`; None: none had.
    """

    completed: bool
    busy_ms: int
    released: int | None

    def handled(self, row: TakenRow) -> bool:
        """Whether the turn of a row has come for certain."""
        return self.completed or row.taken_ms < self.busy_ms

    def passed(self, time: int | None) -> bool:
        """Whether all results below a watermark have come out for certain."""
        return self.completed or (self.released is not None and time is not None and time <= self.released)


class DueResult(NamedTuple):
    """A result that on-time rows give, as the dataflow writes it, and whether it must have come out."""

    row: str
    due: bool


def taken_rows(
    items: TableRows, drops: TableRows, channels: Channels, rules: DataflowRules
) -> dict[InstanceRun, list[TakenRow]]:
    """The rows that windows and joins took and did not drop, in the order in which they were taken.

    A dropped row is known by its text. Of several with the same text as many are left out as were dropped, the last.
    """
    dropped = Counter((d["vertex"], d["execution"], d["instance"], d["edge"], d["row"]) for d in drops)
    taken: dict[InstanceRun, list[TakenRow]] = {}
    events = [item for item in items if item["kind"] == "event" and item["taken"] is not None]
    for item in sorted(events, key=itemgetter("taken"), reverse=True):
        vertex, number = channels.target[item["queue"]]
        if vertex not in rules.results:
            continue
        edge, instance = channels.edge[item["queue"]], (vertex, item["execution"], number)
        if dropped[(*instance, edge, item["row"])]:
            dropped[(*instance, edge, item["row"])] -= 1
            continue
        values = _values(item["row"], rules.results[vertex].inputs[edge])
        taken.setdefault(instance, []).append(TakenRow(item["taken"], item["taken_ms"], edge, item["time"], values))
    return {instance: rows[::-1] for instance, rows in taken.items()}


def reached(
    rules: DataflowRules, specials: TableRows, queue_loads: TableRows, channels: Channels, executions: TableRows
) -> dict[InstanceRun, ResultProgress]:
    """How far each instance of a window or join had come."""
    completed = {row["execution"]: row["outcome"] == "completed" for row in executions if row["snapshot"] is None}
    busy: dict[InstanceRun, int] = {}
    for load in queue_loads:
        vertex, number = channels.target[load["queue"]]
        if vertex in rules.results and load["execution"] in completed and load["taken_ms"] is not None:
            instance = vertex, load["execution"], number
            busy[instance] = max(busy.get(instance, load["taken_ms"]), load["taken_ms"])
    released: dict[InstanceRun, int] = {}
    for item in specials:
        vertex, number = channels.source[item["queue"]]
        instance = vertex, item["execution"], number
        of_key = vertex in rules.results and item["key"] == _key_of(rules.results[vertex])
        if item["kind"] == "watermark" and of_key and item["put_ms"] < busy.get(instance, 0):
            released[instance] = max(released.get(instance, item["value"]), item["value"])
    return {
        instance: ResultProgress(completed[instance[1]], busy_ms, released.get(instance))
        for instance, busy_ms in busy.items()
    }


def _key_of(rule: RecordedRule) -> int | None:
    """The key of the watermark that releases results; of a join, rows without a partner; None: it waits for none."""
    if isinstance(rule.rule, BatchJoin):
        return None
    if isinstance(rule.rule, AnyJoin):
        return min(rule.rule.keys[LEFT if rule.rule.outer is None else rule.rule.outer])
    return rule.rule.key


def _values(text: str, columns: Sequence[str]) -> RowValues:
    row = json.loads(text)
    return tuple(_frozen(row[column]) for column in columns)


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _text(rule: RecordedRule, values: RowValues) -> str:
    """A result as the dataflow writes it."""
    return json.dumps(dict(zip(rule.columns, values, strict=True)), ensure_ascii=False)


def windows_of(rule: RecordedRule, rows: Iterable[TakenRow], known: ResultProgress | None) -> Iterator[DueResult]:
    """The windows or sessions of the rows of an instance; with `known` only those that must have come out."""
    window = rule.rule
    assert not isinstance(window, AnyJoin)
    if known is not None:
        rows = [row for row in rows if known.handled(row)]
    for start, end, inside in _sessions(window, rows) if isinstance(window, SessionProcessor) else _spans(window, rows):
        if known is None or known.passed(window.closed_by(end)):
            accumulators = created(window.aggregates)
            for row in sorted(inside):
                accumulators = accumulated(window.aggregates, accumulators, row.values)
            group = group_of(inside[0].values, window.group)
            yield DueResult(_text(rule, (start, end, *group, *finished(window.aggregates, accumulators))), True)


Span = tuple[int, int, list[TakenRow]]
"""A window [start, end) and the rows in it, at least one."""


def _spans(rule: WindowProcessor, rows: Iterable[TakenRow]) -> Iterator[Span]:
    inside: dict[tuple[int, int, RowValues], list[TakenRow]] = {}
    for row in rows:
        time = row.values[rule.time_on(row.edge)]
        for start, end in rule.shape.windows_of(time) if isinstance(time, int) else ():
            inside.setdefault((start, end, group_of(row.values, rule.group)), []).append(row)
    return ((start, end, of_window) for (start, end, _), of_window in inside.items())


def _sessions(rule: SessionProcessor, rows: Iterable[TakenRow]) -> Iterator[Span]:
    groups: dict[RowValues, list[tuple[int, TakenRow]]] = {}
    for row in rows:
        if isinstance(time := row.values[rule.time], int):
            groups.setdefault(group_of(row.values, rule.group), []).append((time, row))
    for timed in groups.values():
        timed.sort()
        begins = [0, *(n for n in range(1, len(timed)) if timed[n][0] - timed[n - 1][0] >= rule.timeout), len(timed)]
        for first, behind in pairwise(begins):
            last = timed[behind - 1][0]
            yield timed[first][0], min(MAX, last + rule.timeout), [row for _, row in timed[first:behind]]


def pairs_of(rule: RecordedRule, rows: Iterable[TakenRow], known: ResultProgress | None) -> Iterator[DueResult]:
    """The pairs of the rows of an instance, and the rows without a partner; with `known` those that can have come out.

    A row without a partner must have come out if its turn has come for certain; otherwise it can have come out.
    """
    join = rule.rule
    assert isinstance(join, AnyJoin)
    sides = [[row for row in rows if row.edge == edge] for edge in (LEFT, RIGHT)]
    partnered = set[int]()
    for left, right in _candidates(join, *sides):
        if join.condition(left.values + right.values) is True:
            due = known is None or (known.handled(left) and known.handled(right))
            if due:
                partnered.add((left, right)[join.outer or 0].taken)
            yield DueResult(_text(rule, left.values + right.values), due)
    for row in sides[join.outer] if join.outer is not None else ():
        if row.taken not in partnered:
            nulls = (None,) * len(rule.inputs[1 - row.edge])
            values = row.values + nulls if join.outer == LEFT else nulls + row.values
            # It leaves when the watermark of the output has passed it, at the latest; from a batch nothing more comes.
            passed = known is None or known.passed(None if row.time is None else row.time + 1)
            handled = known is None or known.handled(row)
            yield DueResult(_text(rule, values), handled and (passed or isinstance(join, BatchJoin)))


def _candidates(
    join: AnyJoin, lefts: Sequence[TakenRow], rights: Sequence[TakenRow]
) -> Iterator[tuple[TakenRow, TakenRow]]:
    """The pairs that the bounds between the lowest keys of both sides leave."""
    back = ahead = None
    if not isinstance(join, BatchJoin):
        key_left, key_right = min(join.keys[LEFT]), min(join.keys[RIGHT])
        back, ahead = join.bounds.get(key_left, {}).get(key_right), join.bounds.get(key_right, {}).get(key_left)
    if back is None or ahead is None:
        yield from ((left, right) for left in lefts for right in rights)
        return
    timed = sorted((row.time, row) for row in rights if row.time is not None)
    for left in lefts:
        if left.time is not None:
            low = bisect_left(timed, left.time - back, key=itemgetter(0))
            high = bisect_right(timed, left.time + ahead, key=itemgetter(0))
            yield from ((left, right) for _, right in timed[low:high])


Reached = Mapping[InstanceRun, ResultProgress]
TakenRows = Mapping[InstanceRun, Sequence[TakenRow]]


@invariant(
    "windows are those of a batch over the on-time rows",
    title="windows as in a batch",
)
def windows_equal_batch(
    on_time: TakenRows,
    items: TableRows,
    executions: TableRows,
    rules: DataflowRules,
    channels: Channels,
    reached: Reached,
) -> Iterator[Finding]:
    """K10: the results of a window or session are those of a batch; one finding per result."""
    came = _came(items, rules.windows, channels)
    for instance, known in reached.items():
        if (rule := rules.windows.get(instance[0])) is not None:
            settled = [item for item in came.get(instance, ()) if known.passed(_closed_by(rule, item))]
            yield from _compared(instance, windows_of(rule, on_time.get(instance, ()), known), settled)
    if rules.windows:
        yield from _restarted(executions)


def _closed_by(rule: RecordedRule, item: TableRow) -> int | None:
    """The watermark that releases a result; None if it is not one of a window."""
    end = json.loads(item["row"]).get("end")
    return rule.rule.closed_by(end) if isinstance(end, int) else None  # type: ignore[union-attr]


@invariant(
    "joins are those of a batch over the on-time rows",
    title="joins as in a batch",
)
def joins_equal_batch(
    on_time: TakenRows,
    items: TableRows,
    executions: TableRows,
    rules: DataflowRules,
    channels: Channels,
    reached: Reached,
) -> Iterator[Finding]:
    """K11: the results of a join are those of a batch; one finding per result."""
    joins = {name: rule for name, rule in rules.results.items() if isinstance(rule.rule, AnyJoin)}
    came = _came(items, joins, channels)
    for instance, known in reached.items():
        if (rule := joins.get(instance[0])) is not None:
            yield from _compared(instance, pairs_of(rule, on_time.get(instance, ()), known), came.get(instance, ()))
    if joins:
        yield from _restarted(executions)


def _restarted(executions: TableRows) -> Iterator[Finding]:
    why = "the execution began from a snapshot, whose rows are not in its tables"
    return (Finding.undecided(why) for row in executions if row["snapshot"] is not None)


def _came(items: TableRows, rules: Mapping[str, RecordedRule], channels: Channels) -> dict[InstanceRun, list[TableRow]]:
    """The results that left instances of windows or joins, each once."""
    queues = {queue: name for queue, name in channels.source.items() if name[0] in rules and queue in channels.first}
    came = (item for item in items if item["kind"] == "event" and item["queue"] in queues)
    return rows_by(came, lambda item: (queues[item["queue"]][0], item["execution"], queues[item["queue"]][1]))


def _compared(instance: InstanceRun, expected: Iterable[DueResult], came: Iterable[TableRow]) -> Iterator[Finding]:
    """A finding for every result that came or has to come: it came often enough, and not too often."""
    least, most, left = Counter[str](), Counter[str](), Counter[str]()
    row: dict[str, str] = {}
    at_ms: dict[str, int] = {}
    for result in expected:
        text = _alike(result.row)
        least[text] += result.due
        most[text] += 1
        row.setdefault(text, result.row)
    for item in came:
        text = _alike(item["row"])
        left[text] += 1
        row.setdefault(text, item["row"])
        at_ms[text] = min(item["put_ms"], at_ms.get(text, item["put_ms"]))
    for text in (text for text in row if least[text] or left[text]):
        if least[text] <= left[text] <= most[text]:
            yield Finding(True, at_ms.get(text))
            continue
        vertex, execution, number = instance
        batch = least[text] if left[text] < least[text] else most[text]
        known = {"vertex": vertex, "execution": execution, "instance": number, "row": row[text]}
        proof = Evidence.of("items", known, *known, came=left[text], batch=batch)
        gave = f"vertex {name_text(vertex)} gave {left[text]} of {name_text(row[text])}"
        what = f"{gave}, where its on-time rows give {batch}"
        yield Finding(False, at_ms.get(text), what, [proof])


def _alike(row: str) -> str:
    """A result as a text that is the same for equal ones: sums of fractions rounded, lists in any order."""
    return json.dumps(_plain(json.loads(row)), sort_keys=True)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return sorted((_plain(part) for part in value), key=lambda part: json.dumps(part))
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    return value
