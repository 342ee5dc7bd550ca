"""Flink's rules against plain statements of them, and its known errors."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.strategies.model.logs import logs, xs
from tests.strategies.oracles import flink_rules
from wmlab.strategies.model import flink
from wmlab.strategies.model.flink import STATUS_ACTIVE, STATUS_IDLE, Combined, Downstream, Flink, Partial
from wmlab.strategies.model.strategy import END, UNKNOWN, EndOfInput, Record, Tick, earlier, run

OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("wm"), st.integers(0, 2), st.integers(0, 30)),
        st.tuples(st.sampled_from(["idle", "active"]), st.integers(0, 2)),
    ),
    max_size=40,
)
VALVE_RULES: tuple[flink.ValveRule, ...] = ("fixed", "flush", "flink_2_3_0")


def valve(steps: list[Any], rule: flink.ValveRule = "fixed", channels: int = 3) -> list[Downstream]:
    state, said = flink.initially_combined(range(channels)), []
    for operation, channel, *value in steps:
        if operation == "wm":
            state, emitted = flink.channel_watermark(state, channel, *value)
        else:
            state, emitted = flink.channel_status(state, channel, operation == "idle", rule)
        said.append(emitted)
    return said


def test_flink_40475_a_channel_that_resumes_alone_is_not_heard() -> None:
    steps = [("wm", 0, 10), ("wm", 1, 30), ("wm", 2, 5), ("idle", 2), ("active", 2), ("idle", 1), ("idle", 0)]
    resumed = [*steps, ("active", 1), ("wm", 1, 30)]
    assert valve(resumed, "flink_2_3_0")[7:] == [[], []]
    assert valve(resumed, "flush")[7:] == [[], []]
    assert valve(resumed)[7:] == [[30], []]


@given(OPERATIONS, st.sampled_from(VALVE_RULES))
def test_a_valve_rises_and_is_idle_while_all_channels_are(steps: list[Any], rule: flink.ValveRule) -> None:
    idle: set[int] = set()
    out = UNKNOWN
    for (operation, channel, *_), emitted in zip(steps, valve(steps, rule), strict=True):
        was_idle = len(idle) == 3
        idle = {*idle, channel} if operation == "idle" else idle - {channel} if operation == "active" else idle
        expected = [STATUS_IDLE if len(idle) == 3 else STATUS_ACTIVE] if was_idle != (len(idle) == 3) else []
        assert [status for status in emitted if isinstance(status, str)] == expected
        for mark in (mark for mark in emitted if isinstance(mark, int)):
            assert mark > out
            out = mark


@given(OPERATIONS)
def test_the_fixed_valve_has_the_least_of_what_has_caught_up(steps: list[Any]) -> None:
    marks, idle, out, said = [UNKNOWN] * 3, [False] * 3, UNKNOWN, UNKNOWN
    for (operation, channel, *value), emitted in zip(steps, valve(steps), strict=True):
        if operation != "wm":
            idle[channel] = operation == "idle"
        elif not idle[channel]:
            marks[channel] = max(marks[channel], *value)
        caught_up = [mark for mark, still in zip(marks, idle, strict=True) if not still and mark >= out]
        out = max(out, max(marks) if all(idle) else min(caught_up, default=UNKNOWN))
        said = max([said, *(mark for mark in emitted if isinstance(mark, int))])
        assert said == out


@given(st.integers(1, 60), st.integers(1, 20), st.integers(1, 100))
def test_idleness_is_seen_within_its_timeout_and_three_probes(timeout: int, every: int, last: int) -> None:
    timer, now, idle = flink_rules.IdlenessTimer(active=True), last - last % every, False
    while not idle:
        now += every
        timer, idle = flink_rules.probe(timer, now, timeout)
    assert last + timeout < now - every + 1 <= last + timeout + 2 * every + 1


def probed(log: list[Record], bound: int, idle_ms: int | None, every: int, inputs: str, rule: Any) -> Iterator[int]:
    """The X at each record of Flink probe by probe, each writer with a timer."""
    task, maxima, timers = flink.initially_combined(), dict[str, int](), dict[str, flink_rules.IdlenessTimer]()
    probe = log[0].arrival_ms // every if log else 0
    for record in log:
        last, writer = record.arrival_ms // every, record.writer
        for now in range(probe + 1, last + 1):
            for name in sorted(maxima):
                idle = False
                if idle_ms is not None:
                    timers[name], idle = flink_rules.probe(timers[name], now * every, idle_ms)
                task = told(task, name, maxima[name] - bound - 1, idle, inputs, rule)
            task = flink.combine(task, rule)[0] if inputs == "splits" else task
        probe = last
        yield earlier(task.out, -1)
        maxima[writer] = max(maxima.get(writer, UNKNOWN), record.event_time)
        timers[writer] = timers.get(writer, flink_rules.IdlenessTimer())._replace(active=True)
        if writer not in task.inputs:
            task.inputs[writer] = Partial(idle=inputs == "channels" and task.idle, aligned=task.out == UNKNOWN)


def told(task: Combined, writer: str, mark: int, idle: bool, inputs: str, rule: Any) -> Combined:
    """The task after a probe of a writer."""
    if inputs == "splits":
        status = flink.split_status(task, writer, True) if idle else flink.split_watermark(task, writer, mark, rule)
        return status[0]
    before = task.inputs[writer]
    if idle != before.idle and (idle or rule == "fixed" or mark > before.watermark):
        task, _ = flink.channel_status(task, writer, idle, rule)
    return task if idle else flink.channel_watermark(task, writer, mark)[0]


@given(
    st.one_of(logs(), logs(times=100, live=True)),
    st.sampled_from([0, 7]),
    st.sampled_from([None, 50, 333, 900]),
    st.sampled_from([1, 20, 100, 777]),
    st.sampled_from(["splits", "channels"]),
    st.sampled_from(["fixed", "flink_2_3_0"]),
)
def test_probes_that_change_nothing_can_be_left_out(
    log: list[Record], bound: int, idle_ms: int | None, every: int, inputs: Any, rule: Any
) -> None:
    found = run(Flink(bound, idle_ms, every, inputs, rule=rule), log)
    assert [(step.met, step.x) for step in found] == [(x, x) for x in probed(log, bound, idle_ms, every, inputs, rule)]


@given(logs(), st.sampled_from(["splits", "channels"]))
def test_x_rises_to_what_has_come_and_neither_a_smaller_timeout_nor_names_hold_it(
    log: list[Record], inputs: Any
) -> None:
    other = [record._replace(writer={"a": "z", "b": "y", "c": "x"}[record.writer]) for record in log]
    assert xs(Flink(5, 300, 100, "splits"), other) == xs(Flink(5, 300, 100, "splits"), log)
    never, soon = xs(Flink(5, None, 100, inputs), log), xs(Flink(5, 300, 100, inputs), log)
    largest = [UNKNOWN, *accumulate((record.event_time - 5 for record in log), max)]
    assert all(slow <= fast <= top for slow, fast, top in zip(never, soon, largest, strict=False))
    assert soon == sorted(soon)


@pytest.mark.parametrize("rule", ["fixed", "flink_2_3_0"])
def test_the_first_watermark_of_a_channel_that_joins_an_idle_task_is_not_lost(rule: Any) -> None:
    records = [Record(4, 100, "b"), Record(587, 600, "a"), Record(597, 700, "c")]
    assert xs(Flink(0, 300, 10, "channels", rule=rule), records) == [UNKNOWN, 4, 587]


def test_a_declared_writer_is_waited_for_until_it_is_idle() -> None:
    log = [Record(50, 0, "a"), Record(70, 200, "a"), Tick(600), Tick(700), EndOfInput()]
    assert xs(Flink(0, 300, 100, writers=("a", "b")), log) == [UNKNOWN, UNKNOWN, 70, 70, END]
    assert xs(Flink(0, None, 100, writers=("a", "b")), log) == [UNKNOWN] * 4 + [END]


def test_in_2_3_0_a_channel_resumes_with_a_watermark_that_rises_only() -> None:
    log = [Record(50, 0, "a"), Record(70, 0, "b"), *[Record(50, at, "a") for at in range(100, 700, 100)]]
    log += [Record(60, 710, "b"), Tick(800), Record(90, 810, "a"), Tick(900)]  # type: ignore[list-item]
    assert xs(Flink(0, 300, 100, "channels"), log)[-1] == 70
    assert xs(Flink(0, 300, 100, "channels", rule="flink_2_3_0"), log)[-1] == 90


def test_flink_34252_a_writer_that_sends_all_the_time_falls_idle_after_each_timeout() -> None:
    log: list[Any] = [Record(at - 5_000, at, "a") for at in range(100, 10_000, 100)]
    log += [Record(at - 1, at, "b") for at in range(100, 10_000, 100)]
    log.sort(key=lambda record: record.arrival_ms)

    def late_by(**options: Any) -> int:
        steps = run(Flink(0, inputs="channels", writers=("a", "b"), **options), log)
        return sum(record.event_time < step.met for record, step in zip(log, steps, strict=True))

    assert late_by(idle_ms=1_000) == late_by(idle_ms=None, rule="flink_34252") == 0
    # While "a" is idle once, the task takes the time of "b", 5 s ahead; what "a" sends until it has caught up is late.
    assert late_by(idle_ms=1_000, rule="flink_34252") > 50
    # Rows closer together than two probes do not help, and a timeout above the length of the log does.
    assert late_by(idle_ms=20_000, rule="flink_34252") == 0


def test_flink_34252_in_a_source_that_pauses_the_timeout_counts_from_the_end_of_the_pause() -> None:
    log: list[Any] = [Record(10, 0, "a"), Record(20, 5_000, "a"), Record(30, 5_500, "a"), Tick(5_900)]
    log += [Record(99, at, "b") for at in range(100, 5_900, 100)]
    log.sort(key=lambda item: item.arrival_ms if isinstance(item, Record) else item.now_ms)
    both = [xs(Flink(0, 1_000, 100, "channels", rule=rule), log) for rule in ("fixed", "flink_34252")]  # type: ignore[arg-type]
    assert both[0] == both[1]


def test_an_immediate_watermark_combines_if_it_rises_or_the_source_is_idle() -> None:
    state, _ = flink.split_watermark(flink.initially_combined("ab"), "a", 10, immediate=True)
    state, _ = flink.split_watermark(state, "b", 3)
    assert flink.split_watermark(state, "a", 10, immediate=True)[1] == []
    assert flink.combine(state)[1] == [3]
    rules: dict[flink.MultiplexerRule, Downstream] = {"fixed": [STATUS_ACTIVE], "flink_2_3_0": []}
    for rule, emitted in rules.items():
        idle = Combined({"a": Partial(10, True), "b": Partial(4, True)}, 10, True)
        assert flink.split_watermark(idle, "b", 6, rule, immediate=True)[1] == emitted


def test_a_channel_that_comes_up_to_the_output_holds_it() -> None:
    steps = [("wm", 0, 5), ("wm", 1, 3), ("idle", 1), ("active", 1), ("wm", 1, 5), ("wm", 0, 10), ("wm", 1, 6)]
    assert valve(steps, channels=2) == [[], [3], [5], [], [], [], [6]]


@given(logs(), st.sampled_from([50, 300]), st.sampled_from(["splits", "channels"]))
def test_when_the_clock_is_looked_at_does_not_matter(log: list[Record], idle_ms: int, inputs: Any) -> None:
    strategy, last = Flink(5, idle_ms, 100, inputs), (log[-1].arrival_ms if log else 0) + 900
    ticks = [Tick(at) for at in range(0, last, 100)]
    often = sorted([*log, *ticks], key=lambda g: g.now_ms - 0.5 if isinstance(g, Tick) else g.arrival_ms)
    seldom = [*ticks[:1], *log]
    found = [step.met for step, g in zip(run(strategy, often), often, strict=True) if isinstance(g, Record)]
    assert found == [step.met for step in run(strategy, seldom)][1:]
    assert xs(strategy, [*often, Tick(last)])[-1:] == xs(strategy, [*seldom, Tick(last)])[-1:]
