"""One processor instance: both callbacks and their order, refusals, priorities, room, snapshots, metrics, failures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.dataflow.model.driving import SHIPPED, Instance
from tests.dataflow.model.histories import EVENT, Stream, inputs, lasting, on_time, rising, streams, watermarks
from wmlab.dataflow.model.items import DONE, IDLE_MESSAGE, Barrier, Idle, Item, Watermark
from wmlab.dataflow.model.processor import SOUND, Deviations, JobFailedError, Processor, Reason

Called = tuple[Any, ...]
"""A method of a processor with what it was given."""


@dataclass(kw_only=True, eq=False)
class Recorder(Processor[list[Called]]):
    """Keeps what it was called with; refuses some of it so many times, and lets items out for some of it."""

    refusals: Mapping[Called, int] = field(default_factory=dict)
    emits: Mapping[Called, Sequence[Item]] = field(default_factory=dict)
    snapshots: bool = True

    def start(self) -> list[Called]:
        return []

    def called(self, *call: Any) -> bool:
        self.state.append(call)
        self.out += self.emits.get(call, ())
        return self.state.count(call) > self.refusals.get(call, 0)

    def row(self, values: Any, edge: int) -> bool:
        return self.called("row", edge, values)

    def edge_watermark(self, watermark: Watermark, edge: int) -> bool:
        return self.called("edge watermark", edge, watermark.value)

    def watermark(self, watermark: Watermark) -> bool:
        return self.called("watermark", watermark.value)

    def idle(self, message: Idle) -> bool:
        return self.called("idle")

    def complete(self) -> bool:
        return self.called("complete")

    def answer(self, call: int, results: Any) -> None:
        self.called("answer", call)

    @property
    def may_snapshot(self) -> bool:
        return self.snapshots or any(method == "answer" for method, *_ in self.state)

    def restored(self, snapshots: Sequence[list[Called]]) -> list[Called]:
        return [call for calls in snapshots for call in calls]


def test_a_batch_comes_before_both_kinds_of_watermarks() -> None:
    instance = Instance(2, 1, processor=Recorder())
    instance.push(1, 0, Watermark(0, 4)).push(0, 0, Watermark(0, 7), DONE).push(0, 1, EVENT, Watermark(0, 5))
    instance.run()
    assert instance.state == [("row", 0, EVENT), ("edge watermark", 1, 4), ("edge watermark", 0, 5), ("watermark", 4)]
    instance.push(0, 1, (2,), DONE).run()
    assert instance.state[4:] == [("row", 0, (2,)), ("edge watermark", 0, 7)]
    instance.push(1, 0, DONE).run()
    assert instance.state[6:] == [("watermark", 7), ("complete",)]
    assert instance.model.finished


CALLS = [("row", 0, EVENT), ("edge watermark", 0, 1), ("watermark", 1), ("idle",), ("complete",)]


@pytest.mark.parametrize("refused", CALLS)
def test_what_is_refused_is_offered_again_before_anything_else(refused: Called) -> None:
    refusing, willing = Instance(1, processor=Recorder(refusals={refused: 2})), Instance(1, processor=Recorder())
    for instance in (refusing, willing):
        instance.push(0, 0, EVENT, Watermark(0, 1), IDLE_MESSAGE, (2,), DONE)
        for _ in range(9):
            instance.run()
    assert refusing.state == [call for call in willing.state for _ in range(3 if call == refused else 1)]


def test_a_refusal_without_output_is_no_progress() -> None:
    instance = Instance(1, processor=Recorder(refusals={("row", 0, EVENT): 9}))
    instance.push(0, 0, EVENT).run()
    assert instance.model.batches == []
    assert not instance.model.work()


def test_edges_of_a_lower_priority_number_come_first_and_to_their_end() -> None:
    instance = Instance(1, 1, 1, processor=Recorder(), priorities=[1, 0, 0])
    instance.push(0, 0, EVENT).push(1, 0, EVENT).push(2, 0, EVENT).run()
    assert instance.state == [("row", 1, EVENT), ("row", 2, EVENT)]
    assert [item for item, _ in instance.queue(0, 0).items] == [EVENT]
    instance.push(1, 0, DONE).push(2, 0, DONE).run()
    assert instance.state[2:] == [("row", 0, EVENT)]


def test_no_more_is_offered_than_there_is_room_for() -> None:
    instance = Instance(1).push(0, 0, *((n,) for n in range(5)), Watermark(0, 1))
    assert instance.run(room=0) == []
    instance.run(room=2)
    assert [len(batch) for batch in instance.model.batches] == [2, 2, 2]


@pytest.mark.parametrize("overtakes", [False, True])
def test_idle_is_the_processors_affair_in_design(overtakes: bool) -> None:
    instance = Instance(1, processor=Recorder(), deviations=Deviations(idle_overtakes=overtakes))
    assert instance.push(0, 0, IDLE_MESSAGE).run() == ([IDLE_MESSAGE] if overtakes else [])
    assert instance.state == ([] if overtakes else [("idle",)])


@given(inputs(streams(), most=4), st.randoms(use_true_random=False))
def test_a_merge_sends_rising_watermarks_and_no_event_is_lost(chosen: list[Stream], random: Any) -> None:
    instance, out = left_by(chosen, random)
    assert all(rising(watermarks(out, key)) for key in (0, 1))
    assert out.count(EVENT) == sum(stream.count(EVENT) for stream in chosen)
    for key in (0, 1):
        assert instance.model.forwarded.get(key) == max(watermarks(out, key), default=None)


def left_by(chosen: list[Stream], random: Any, deviations: Deviations = SOUND) -> tuple[Instance, list[Item]]:
    """An instance of edges of two queues each, its items pushed in some order and in batches of any size."""
    instance = Instance(*([2] * ((len(chosen) + 1) // 2)), deviations=deviations)
    order = [place for place, stream in enumerate(chosen) for _ in stream]
    random.shuffle(order)
    iterators = [iter(stream) for stream in chosen]
    out: list[Item] = []
    for place in order:
        instance.push(place // 2, place % 2, next(iterators[place]))
        if random.random() < 0.5:
            out += instance.run()
    return instance, out + instance.run()


@given(inputs(lasting(length=4), most=4), st.randoms(use_true_random=False))
def test_neither_order_nor_batches_change_where_the_watermarks_end(chosen: list[Stream], random: Any) -> None:
    ends = set()
    for _ in range(4):
        instance, out = left_by(chosen, random)
        marks = tuple(instance.model.forwarded.get(key) for key in (0, 1))
        keyed = instance.model.level.coalescer
        statuses = (frozenset(keyed.idle), frozenset(keyed.done), instance.model.finished)
        ends.add((marks, statuses, out.count(EVENT)))
    assert len(ends) == 1


@given(inputs(streams(keys=1, idle=False), most=4), st.randoms(use_true_random=False))
def test_an_event_on_time_on_its_queue_is_on_time_behind_the_instance(chosen: list[Stream], random: Any) -> None:
    timed = [
        tuple((on_time(stream, n),) if item == EVENT else item for n, item in enumerate(stream)) for stream in chosen
    ]
    passed = -1
    for item in left_by(timed, random)[1]:
        if isinstance(item, tuple):
            assert item[0] >= passed
        elif isinstance(item, Watermark):
            passed = item.value


def test_every_step_of_a_level_with_several_inputs_is_written_down_and_those_of_the_others_are_counted() -> None:
    instance = Instance(2, 1).push(0, 0, Watermark(0, 5)).push(0, 1, Watermark(0, 3)).push(1, 0, IDLE_MESSAGE)
    instance.run()
    steps = instance.steps()
    assert [(step["level"], step["edge"], step["input"], step["stimulus"], step["emitted"]) for step in steps] == [
        ("edge", 0, 0, "watermark", []),
        ("edge", 0, 1, "watermark", [(0, 3)]),
        ("global", None, 0, "watermark", []),
        ("global", None, 1, "idle", [(0, 3)]),
    ]
    assert [step["step"] for step in steps] == [0, 1, 2, 4]
    assert (steps[-1]["idle"], steps[-1]["done"]) == ([1], [])
    assert instance.taken() == [0, 1, 2]


def test_a_failure_names_the_instance_the_edge_the_queue_the_key_and_both_values() -> None:
    instance = Instance(1, 2, name="merge #1").push(1, 1, Watermark(4, 10), Watermark(4, 9))
    with pytest.raises(JobFailedError) as caught:
        instance.run()
    assert caught.value.reason is Reason.NON_MONOTONIC
    says = "merge #1: queues of input edge 1: watermark 9 of key 4 on input 1 is not above 10, which came before it"
    assert caught.value.problem.startswith(says)


@pytest.mark.parametrize("again", [10, 9])
def test_a_processor_that_sends_a_watermark_twice_fails_where_it_is_sent_and_in_hz_where_it_comes(again: int) -> None:
    emits = {("watermark", 10): [Watermark(0, 10), Watermark(0, again)]}
    with pytest.raises(JobFailedError, match=f"window: watermark {again} of key 0 is emitted behind 10") as caught:
        Instance(1, processor=Recorder(emits=emits), name="window").push(0, 0, Watermark(0, 10)).run()
    assert caught.value.reason is Reason.NON_MONOTONIC
    out = Instance(1, processor=Recorder(emits=emits), deviations=SHIPPED).push(0, 0, Watermark(0, 10)).run()
    with pytest.raises(JobFailedError, match=f"watermark {again} of key 0 on input 0 is not above 10"):
        Instance(1).push(0, 0, *out).run()


def test_a_snapshot_waits_for_the_barrier_of_every_edge_and_for_the_processor() -> None:
    instance = Instance(1, 1, processor=Recorder(snapshots=False), guarantee="exactly_once")
    instance.push(0, 0, EVENT, Barrier(1), (2,)).push(1, 0, (3,))
    assert instance.run() == []
    instance.push(1, 0, Barrier(1), (4,))
    assert instance.run() == []
    assert instance.answer(0) == [Barrier(1)]
    ((barrier, state),) = instance.job.snapshots
    assert barrier == Barrier(1)
    assert state == [("row", 0, EVENT), ("row", 1, (3,)), ("answer", 0)]
    assert instance.state[3:] == [("row", 0, (2,)), ("row", 1, (4,))]
    assert Instance(1, 1, processor=Recorder(), snapshots=[state, state]).state == state + state
    assert Instance(1, 1, processor=Recorder(), snapshots=[]).state == []


def test_behind_a_terminal_snapshot_nothing_happens() -> None:
    instance = Instance(2).push(0, 0, Barrier(1, True), DONE).push(0, 1, EVENT, Barrier(1, True), DONE)
    assert instance.run() == [EVENT, Barrier(1, True)]
    assert instance.model.stopped


def test_an_instance_without_inputs_takes_its_snapshot_by_itself() -> None:
    instance = Instance(processor=Recorder(refusals={("complete",): 9}))
    instance.model.begin_snapshot(Barrier(7))
    assert instance.run() == [Barrier(7)]
