"""Flink's rules against plain statements of them, and its known errors."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies.model.logs import logs, xs
from wmlab.core.errors import ModelError
from wmlab.strategies.model import flink
from wmlab.strategies.model.flink import ACTIVE, IDLE, Combined, Emitted, Flink, Partial
from wmlab.strategies.model.strategy import END, UNKNOWN, EndOfInput, Record, Status, Strategy, Tick, run

OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("wm"), st.integers(0, 2), st.integers(0, 30)),
        st.tuples(st.sampled_from(["idle", "active"]), st.integers(0, 2)),
    ),
    max_size=40,
)
VALVE_RULES: tuple[flink.ValveRule, ...] = ("fixed", "flush", "flink_2_3_0")


def valve(steps: list[Any], rule: flink.ValveRule = "fixed", channels: int = 3) -> list[Emitted]:
    state, said = flink.combined(range(channels)), []
    for operation, channel, *value in steps:
        if operation == "wm":
            state, emitted = flink.channel_watermark(state, channel, *value)
        else:
            state, emitted = flink.channel_status(state, channel, operation == "idle", rule)
        said.append(emitted)
    return said


def multiplexer(steps: list[Any], rule: flink.MultiplexerRule = "fixed", names: str = "ab") -> list[Emitted]:
    state, said = flink.combined(names), []
    for operation, split, *value in steps:
        if operation == "wm":
            state, emitted = flink.split_watermark(state, split, *value, rule, immediate=True)
        else:
            state, emitted = flink.split_status(state, split, operation == "idle", rule, immediate=True)
        said.append(emitted)
    return said


SILENT = [("wm", 0, 10), ("wm", 1, 30), ("wm", 2, 5), ("idle", 2), ("active", 2), ("idle", 1), ("idle", 0), ("idle", 2)]
SILENT += [("active", 1), ("wm", 1, 30), ("wm", 1, 31)]


def test_flink_40475_loses_the_flush_and_stays_silent() -> None:
    begin: list[Emitted] = [[], [], [5], [10], [], [], []]
    assert valve(SILENT, "flink_2_3_0") == [*begin, [IDLE], [ACTIVE], [], [31]]
    assert valve(SILENT, "flush") == [*begin, [30, IDLE], [ACTIVE], [], [31]]
    assert valve(SILENT) == [*begin, [30, IDLE], [ACTIVE], [], [31]]


def test_flink_40475_a_channel_that_resumes_alone_is_not_heard() -> None:
    steps = [("wm", 0, 10), ("wm", 1, 30), ("wm", 2, 5), ("idle", 2), ("active", 2), ("idle", 1), ("idle", 0)]
    resumed = [*steps, ("active", 1), ("wm", 1, 30)]
    assert valve(resumed, "flink_2_3_0")[7:] == [[], []]
    assert valve(resumed, "flush")[7:] == [[], []]
    assert valve(resumed)[7:] == [[30], []]


def test_flink_40504_splits_that_resume_below_the_output_stay_idle() -> None:
    steps = [("wm", "a", 10), ("wm", "b", 4), ("idle", "a"), ("idle", "b"), ("active", "b"), ("wm", "b", 6)]
    steps += [("wm", "b", 9), ("wm", "b", 11)]
    assert multiplexer(steps, "flink_2_3_0") == [[], [4], [], [10, IDLE], [], [], [], [ACTIVE, 11]]
    assert multiplexer(steps) == [[], [4], [], [10, IDLE], [ACTIVE], [], [], [11]]
    resumes = [*steps[:4], ("wm", "b", 6)]
    assert multiplexer(resumes, "flink_2_3_0")[4:] == [[]]
    assert multiplexer(resumes)[4:] == [[ACTIVE]]


def test_flink_38454_keeps_what_the_order_of_idleness_decided() -> None:
    marks = [("wm", "a", 5), ("wm", "b", 2)]
    ends = {
        rule: [max(w for e in multiplexer([*marks, *order], rule) for w in e if isinstance(w, int)) for order in orders]
        for rule in ("fixed", "flink_2_3_0", "flink_38454")
        for orders in [list(permutations([("idle", "a"), ("idle", "b")]))]
    }
    assert ends == {"fixed": [5, 5], "flink_2_3_0": [5, 5], "flink_38454": [2, 5]}


def test_flink_39586_a_source_without_splits_does_not_become_idle() -> None:
    for rule, emitted in (("fixed", [IDLE]), ("flink_2_3_0", [])):
        assert flink.combine(Combined({}, 1), rule)[1] == emitted  # type: ignore[arg-type]
    assert flink.combine(Combined({}))[1] == []


@given(OPERATIONS, st.sampled_from(VALVE_RULES))
def test_a_valve_rises_and_is_idle_while_all_channels_are(steps: list[Any], rule: flink.ValveRule) -> None:
    idle: set[int] = set()
    out = UNKNOWN
    for (operation, channel, *_), emitted in zip(steps, valve(steps, rule), strict=True):
        was_idle = len(idle) == 3
        idle = {*idle, channel} if operation == "idle" else idle - {channel} if operation == "active" else idle
        expected = [IDLE if len(idle) == 3 else ACTIVE] if was_idle != (len(idle) == 3) else []
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


@given(OPERATIONS)
def test_the_order_of_idleness_counts_in_2_3_0_only(steps: list[Any]) -> None:
    ends = set()
    for order in permutations([("idle", 0), ("idle", 1), ("idle", 2)]):
        ends.add(max((m for e in valve([*steps, *order]) for m in e if isinstance(m, int)), default=UNKNOWN))
    assert len(ends) == 1


def test_the_order_of_idleness_counts_in_2_3_0() -> None:
    ends = [
        max(m for e in valve([*SILENT[:5], *order], "flink_2_3_0") for m in e if isinstance(m, int))
        for order in permutations([("idle", 0), ("idle", 1), ("idle", 2)])
    ]
    assert set(ends) == {10, 30}


@given(st.integers(1, 60), st.integers(1, 20), st.integers(1, 100))
def test_idleness_is_seen_within_its_timeout_and_three_probes(timeout: int, every: int, last: int) -> None:
    timer, now, idle = flink.Timer(active=True), last - last % every, False
    while not idle:
        now += every
        timer, idle = flink.probe(timer, now, timeout)
    assert last + timeout < now - every + 1 <= last + timeout + 2 * every + 1


class Probed(Strategy[dict[str, Any]]):
    """Flink, probe by probe, each writer with a timer; the rule that leaves out probes is compared with it."""

    def __init__(self, bound: int, idle_ms: int | None, every: int, inputs: str, rule: Any) -> None:
        self.bound, self.idle_ms, self.every, self.inputs, self.rule = bound, idle_ms, every, inputs, rule

    def start(self) -> dict[str, Any]:
        return {"probed": None, "maxima": {}, "timers": {}, "task": flink.combined(), "idle": set()}

    def met(self, state: dict[str, Any], x: int, record: Record) -> int:
        if state["probed"] is None:
            state["probed"] = record.arrival_ms // self.every
        while state["probed"] < record.arrival_ms // self.every:
            state["probed"] += 1
            for writer in sorted(state["maxima"]):
                self.probe(state, writer, state["probed"] * self.every)
            if self.inputs == "splits":
                state["task"], _ = flink.combine(state["task"], self.rule)
        return state["task"].out + 1 if state["task"].out != UNKNOWN else UNKNOWN

    def probe(self, state: dict[str, Any], writer: str, now: int) -> None:
        idle = False
        if self.idle_ms is not None:
            state["timers"][writer], idle = flink.probe(state["timers"][writer], now, self.idle_ms)
        task, mark = state["task"], state["maxima"][writer] - self.bound - 1
        if self.inputs == "splits":
            if not idle:
                state["task"], _ = flink.split_watermark(task, writer, mark, self.rule)
            elif writer not in state["idle"]:
                state["task"], _ = flink.split_status(task, writer, True, self.rule)
        else:
            told = task.inputs[writer].idle
            if idle != told and (idle or self.rule == "fixed" or mark > task.inputs[writer].watermark):
                task, _ = flink.channel_status(task, writer, idle, self.rule)
            state["task"] = task if idle else flink.channel_watermark(task, writer, mark)[0]
        state["idle"] = state["idle"] | {writer} if idle else state["idle"] - {writer}

    def step(self, state: dict[str, Any], given: Any) -> tuple[dict[str, Any], int, int]:
        x = self.met(state, 0, given)
        writer = given.writer
        state["maxima"][writer] = max(state["maxima"].get(writer, UNKNOWN), given.event_time)
        state["timers"][writer] = state["timers"].get(writer, flink.Timer())._replace(active=True)
        if writer not in state["task"].inputs:
            idle = self.inputs == "channels" and state["task"].idle
            state["task"].inputs[writer] = Partial(idle=idle, aligned=state["task"].out == UNKNOWN)
        return state, x, x


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
    strategy = Flink(bound, idle_ms, every, inputs, rule=rule)
    expected = list(run(Probed(bound, idle_ms, every, inputs, rule), log))
    assert [(step.met, step.x) for step in run(strategy, log)] == [(step.met, step.x) for step in expected]


@given(logs(), st.sampled_from(["splits", "channels"]))
def test_watermarks_do_not_fall_and_nothing_is_invented(log: list[Record], inputs: Any) -> None:
    found = xs(Flink(5, 300, 100, inputs), log)
    assert found == sorted(found)
    largest = UNKNOWN
    for x, record in zip(found, log, strict=True):
        assert x <= max(largest - 5, UNKNOWN)
        largest = max(largest, record.event_time)


@given(logs(), st.sampled_from(["splits", "channels"]))
def test_names_of_writers_do_not_matter_and_a_smaller_timeout_is_not_behind(log: list[Record], inputs: Any) -> None:
    other = [record._replace(writer={"a": "z", "b": "y", "c": "x"}[record.writer]) for record in log]
    assert xs(Flink(5, 300, 100, "splits"), other) == xs(Flink(5, 300, 100, "splits"), log)
    never, soon = xs(Flink(5, None, 100, inputs), log), xs(Flink(5, 300, 100, inputs), log)
    assert all(fast >= slow for fast, slow in zip(soon, never, strict=True))


@pytest.mark.parametrize("rule", ["fixed", "flink_2_3_0"])
def test_the_first_watermark_of_a_channel_that_joins_an_idle_task_is_not_lost(rule: Any) -> None:
    records = [Record(4, 100, "b"), Record(587, 600, "a"), Record(597, 700, "c")]
    assert xs(Flink(0, 300, 10, "channels", rule=rule), records) == [UNKNOWN, 4, 587]


def test_a_declared_writer_is_waited_for_until_it_is_idle() -> None:
    log = [Record(50, 0, "a"), Record(70, 200, "a"), Tick(600), Tick(700), EndOfInput()]
    assert xs(Flink(0, 300, 100, writers=("a", "b")), log) == [UNKNOWN, UNKNOWN, 70, 70, END]
    assert xs(Flink(0, None, 100, writers=("a", "b")), log) == [UNKNOWN] * 4 + [END]


def test_a_status_is_believed() -> None:
    log = [Record(50, 0, "a"), Record(70, 0, "b"), Tick(100), Status(110, "a", True), Status(120, "a", False)]
    log += [Record(90, 130, "b"), Tick(200)]
    # Behind the output "a" holds a source, which has all its splits, and not a valve, which waits for it to catch up.
    assert xs(Flink(0, None, 100, "splits"), log) == [UNKNOWN, UNKNOWN, 50, 70, 70, 70, 70]
    assert xs(Flink(0, None, 100, "channels"), log) == [UNKNOWN, UNKNOWN, 50, 70, 70, 70, 90]


def test_in_2_3_0_a_channel_resumes_with_a_watermark_that_rises_only() -> None:
    log = [Record(50, 0, "a"), Record(70, 0, "b"), *[Record(50, at, "a") for at in range(100, 700, 100)]]
    log += [Record(60, 710, "b"), Tick(800), Record(90, 810, "a"), Tick(900)]  # type: ignore[list-item]
    assert xs(Flink(0, 300, 100, "channels"), log)[-1] == 70
    assert xs(Flink(0, 300, 100, "channels", rule="flink_2_3_0"), log)[-1] == 90


def test_a_split_that_repeats_its_watermark_combines_nothing() -> None:
    state, _ = flink.split_watermark(flink.combined("ab"), "a", 10, immediate=True)
    state, _ = flink.split_watermark(state, "b", 3)
    state, emitted = flink.split_watermark(state, "a", 10, immediate=True)
    assert emitted == []
    assert flink.combine(state)[1] == [3]


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


@pytest.mark.parametrize("wrong", [{"bound": -1}, {"bound": 0, "idle_ms": 0}, {"bound": 0, "interval_ms": 0}])
def test_parameters_are_checked(wrong: dict[str, int]) -> None:
    with pytest.raises(ModelError, match=r"Give a"):
        Flink(**wrong)
