"""One processor instance: both callbacks and their order, refusals, priorities, room, snapshots, metrics, failures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dataflow.model.driving import Instance
from tests.dataflow.model.histories import EVENT, Stream, inputs, lasting, on_time, rising, streams, watermarks
from wmlab.dataflow.model.instance import Phase
from wmlab.dataflow.model.items import DONE, IDLE_MESSAGE, Barrier, Event, Item, Watermark
from wmlab.dataflow.model.processor import (
    DESIGN,
    SHIPPED,
    CallAnswer,
    Complete,
    Deviations,
    EdgeDone,
    EdgeRow,
    EdgeWatermark,
    JobFailedError,
    Processor,
    Reason,
    Reply,
    Stimulus,
)


@dataclass(frozen=True)
class Recorder(Processor[tuple[Stimulus, ...]]):
    """Keeps every stimulus it accepted; `replies` says what to answer to some of them instead of nothing."""

    replies: dict[Stimulus, Sequence[Reply[Any]]] = field(default_factory=dict)
    snapshots: bool = True

    def start(self) -> tuple[Stimulus, ...]:
        return ()

    def step(self, state: tuple[Stimulus, ...], stimulus: Stimulus) -> Reply[Any]:
        after = (*state, stimulus)
        offered = self.replies.get(stimulus, ())
        if state.count(stimulus) < len(offered):
            reply = offered[state.count(stimulus)]
            return Reply(after, reply.out, reply.accepted)
        return Reply(after)

    def may_snapshot(self, state: tuple[Stimulus, ...]) -> bool:
        return self.snapshots or any(isinstance(stimulus, CallAnswer) for stimulus in state)

    def restore(self, snapshots: Sequence[tuple[Stimulus, ...]]) -> tuple[Stimulus, ...]:
        return sum(snapshots, ())


REFUSED: Reply[Any] = Reply((), accepted=False)


def edge_mark(edge: int, value: int) -> EdgeWatermark:
    return EdgeWatermark(edge, Watermark(0, value))


def global_mark(value: int) -> Watermark:
    return Watermark(0, value)


def test_a_batch_comes_before_the_end_of_its_edge_and_that_before_both_kinds_of_watermarks() -> None:
    instance = Instance(2, 1, processor=Recorder())
    instance.push(1, 0, Watermark(0, 4)).push(0, 0, Watermark(0, 7), DONE).push(0, 1, EVENT, Watermark(0, 5))
    instance.run()
    assert instance.state == (EdgeRow(0, EVENT), edge_mark(1, 4), edge_mark(0, 5), global_mark(4))
    instance.push(0, 1, Event((2,)), DONE).run()
    assert instance.state[4:] == (EdgeRow(0, Event((2,))), EdgeDone(0), edge_mark(0, 7))
    instance.push(1, 0, DONE).run()
    assert instance.state[7:] == (EdgeDone(1), global_mark(7), Complete())
    assert instance.model.phase is Phase.FINISHED


@pytest.mark.parametrize(
    "refused", [EdgeRow(0, EVENT), edge_mark(0, 1), global_mark(1), IDLE_MESSAGE, EdgeDone(0), Complete()]
)
def test_what_is_refused_is_offered_again_before_anything_else(refused: Stimulus) -> None:
    refusing = Instance(1, processor=Recorder({refused: [REFUSED, REFUSED]}))
    willing = Instance(1, processor=Recorder())
    for instance in (refusing, willing):
        instance.push(0, 0, EVENT, Watermark(0, 1), IDLE_MESSAGE, Event((2,)), DONE).run()
    expected = [stimulus for stimulus in willing.state for _ in range(3 if stimulus == refused else 1)]
    assert list(refusing.state) == expected


def test_a_refusal_that_changes_nothing_is_no_progress() -> None:
    class Stubborn(Recorder):
        def step(self, state: Any, stimulus: Stimulus) -> Reply[Any]:
            return Reply(state, accepted=False)

    instance = Instance(1, processor=Stubborn())
    instance.push(0, 0, EVENT).run()
    assert len(instance.polls) == 1
    assert not instance.model.poll().progress


def test_edges_of_a_lower_priority_number_come_first_and_to_their_end() -> None:
    instance = Instance(1, 1, 1, processor=Recorder(), priorities=[1, 0, 0])
    instance.push(0, 0, EVENT).push(1, 0, EVENT).push(2, 0, EVENT).run()
    assert instance.state == (EdgeRow(1, EVENT), EdgeRow(2, EVENT))
    assert list(instance.queues[0].items[0]) == [EVENT]
    instance.push(1, 0, DONE).push(2, 0, DONE).run()
    assert instance.state[2:] == (EdgeDone(1), EdgeDone(2), EdgeRow(0, EVENT))


@pytest.mark.parametrize(("limit", "left"), [("room", [2, 2, 2]), ("rows", [2, 2, 2])])
def test_no_more_is_offered_than_there_is_room_for_or_rows_are_asked_for(limit: str, left: list[int]) -> None:
    instance = Instance(1).push(0, 0, *(Event((n,)) for n in range(5)), Watermark(0, 1))
    assert not instance.model.poll(room=0).progress
    instance.run(**{limit: 2})
    assert [len(poll.out) for poll in instance.polls] == left


@pytest.mark.parametrize("overtakes", [False, True])
def test_idle_is_the_processors_affair_in_design(overtakes: bool) -> None:
    instance = Instance(1, processor=Recorder(), deviations=Deviations(idle_overtakes=overtakes))
    assert instance.push(0, 0, IDLE_MESSAGE).run() == ([IDLE_MESSAGE] if overtakes else [])
    assert instance.state == (() if overtakes else (IDLE_MESSAGE,))


@given(inputs(streams(), most=4), st.randoms(use_true_random=False))
def test_a_merge_sends_rising_watermarks_and_no_event_is_lost(chosen: list[Stream], random: Any) -> None:
    instance, out = left_by(chosen, random)
    assert all(rising(watermarks(out, key)) for key in (0, 1))
    assert out.count(EVENT) == sum(stream.count(EVENT) for stream in chosen)
    for key in (0, 1):
        assert instance.model.forwarded.get(key) == max(watermarks(out, key), default=None)


def left_by(chosen: list[Stream], random: Any, deviations: Deviations = DESIGN) -> tuple[Instance, list[Item]]:
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
        keyed = instance.model.inputs.coalescer
        statuses = (frozenset(keyed.idle), frozenset(keyed.done), instance.model.phase)
        ends.add((marks, statuses, out.count(EVENT)))
    assert len(ends) == 1


@given(inputs(streams(keys=1, idle=False), most=4), st.randoms(use_true_random=False))
def test_an_event_on_time_on_its_queue_is_on_time_behind_the_instance(chosen: list[Stream], random: Any) -> None:
    timed = [
        tuple(Event((on_time(stream, n),)) if item == EVENT else item for n, item in enumerate(stream))
        for stream in chosen
    ]
    passed = -1
    for item in left_by(timed, random)[1]:
        if isinstance(item, Event):
            assert item.values[0] >= passed
        elif isinstance(item, Watermark):
            passed = item.value


def test_every_step_of_both_levels_of_merging_is_reported() -> None:
    instance = Instance(2, 1).push(0, 0, Watermark(0, 5)).push(0, 1, Watermark(0, 3)).push(1, 0, IDLE_MESSAGE)
    instance.run()
    steps = [step for poll in instance.polls for step in poll.steps]
    assert [(step.edge, step.index, step.item, step.emitted) for step in steps] == [
        (0, 0, Watermark(0, 5), ()),
        (0, 1, Watermark(0, 3), (Watermark(0, 3),)),
        (None, 0, Watermark(0, 3), ()),
        (1, 0, IDLE_MESSAGE, (IDLE_MESSAGE,)),
        (None, 1, IDLE_MESSAGE, (Watermark(0, 3),)),
    ]
    assert (steps[-1].idle, steps[-1].done) == ({1}, set())
    taken = [(t.edge, t.queue, t.count) for poll in instance.polls for t in poll.taken]
    assert taken == [(0, 0, 1), (0, 1, 1), (1, 0, 1)]


def test_a_failure_names_the_instance_the_edge_the_queue_the_key_and_both_values() -> None:
    instance = Instance(1, 2, name="merge #1").push(1, 1, Watermark(4, 10), Watermark(4, 9))
    with pytest.raises(JobFailedError) as caught:
        instance.run()
    assert caught.value.reason is Reason.NON_MONOTONIC
    says = "merge #1: queues of input edge 1: watermark 9 of key 4 on input 1 is not above 10, which came before it"
    assert caught.value.problem.startswith(says)


@pytest.mark.parametrize("again", [10, 9])
def test_a_processor_that_sends_a_watermark_twice_fails_where_it_is_sent_and_in_hz_where_it_comes(again: int) -> None:
    twice = Recorder({global_mark(10): [Reply((), (Watermark(0, 10), Watermark(0, again)))]})
    with pytest.raises(JobFailedError, match=f"window: watermark {again} of key 0 is emitted behind 10") as caught:
        Instance(1, processor=twice, name="window").push(0, 0, Watermark(0, 10)).run()
    assert caught.value.reason is Reason.NON_MONOTONIC
    out = Instance(1, processor=twice, deviations=SHIPPED).push(0, 0, Watermark(0, 10)).run()
    with pytest.raises(JobFailedError, match=f"watermark {again} of key 0 on input 0 is not above 10"):
        Instance(1).push(0, 0, *out).run()


def test_a_snapshot_waits_for_the_barrier_of_every_edge_and_for_the_processor() -> None:
    instance = Instance(1, 1, processor=Recorder(snapshots=False), guarantee="exactly_once")
    instance.push(0, 0, EVENT, Barrier(1), Event((2,))).push(1, 0, Event((3,)))
    assert instance.run() == []
    instance.push(1, 0, Barrier(1), Event((4,)))
    assert instance.run() == []
    assert instance.answer(0) == [Barrier(1)]
    snapshots = [poll.snapshot for poll in instance.polls if poll.snapshot]
    assert len(snapshots) == 1
    assert snapshots[0].state == (EdgeRow(0, EVENT), EdgeRow(1, Event((3,))), CallAnswer(0, ()))
    assert instance.state[3:] == (EdgeRow(0, Event((2,))), EdgeRow(1, Event((4,))))
    restored = Instance(1, 1, processor=instance.model.processor, snapshots=[snapshots[0].state])
    assert restored.state == snapshots[0].state
    assert Instance(1, 1, processor=Recorder(), snapshots=[]).state == ()


def test_behind_a_terminal_snapshot_nothing_happens() -> None:
    instance = Instance(2).push(0, 0, Barrier(1, True), DONE).push(0, 1, EVENT, Barrier(1, True), DONE)
    assert instance.run() == [EVENT, Barrier(1, True)]
    assert instance.model.phase is Phase.STOPPED


def test_an_instance_without_inputs_takes_its_snapshot_by_itself() -> None:
    instance = Instance(processor=Recorder({Complete(): [REFUSED] * 9}))
    instance.model.begin_snapshot(Barrier(7))
    assert instance.model.poll().out == [Barrier(7)]
