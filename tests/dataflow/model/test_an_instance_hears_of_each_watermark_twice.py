"""One processor instance: both callbacks and their order, refusals, priorities, room, snapshots, metrics, failures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dataflow.model.histories import EVENT, Instance, Stream, inputs, lasting, rising, streams, watermarks
from wmlab.core.errors import ModelError
from wmlab.dataflow.model.deviations import DESIGN, SHIPPED, Deviations
from wmlab.dataflow.model.items import DONE, IDLE, Barrier, Event, Item, Watermark
from wmlab.dataflow.model.processor import (
    Answer,
    Complete,
    EdgeDone,
    EdgeWatermark,
    GlobalWatermark,
    InputIdle,
    JobFailedError,
    Reason,
    Reply,
    Row,
    Stimulus,
)
from wmlab.dataflow.model.tasklet import InputEdge, Phase, Tasklet


@dataclass(frozen=True)
class Recorder:
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

    def size(self, state: tuple[Stimulus, ...]) -> int:
        return len(state)

    def may_snapshot(self, state: tuple[Stimulus, ...]) -> bool:
        return self.snapshots or any(isinstance(stimulus, Answer) for stimulus in state)

    def restore(self, snapshots: Sequence[tuple[Stimulus, ...]]) -> tuple[Stimulus, ...]:
        return sum(snapshots, ())


REFUSED: Reply[Any] = Reply((), accepted=False)


def edge_mark(edge: int, key: int, value: int) -> EdgeWatermark:
    return EdgeWatermark(edge, Watermark(key, value))


def global_mark(key: int, value: int) -> GlobalWatermark:
    return GlobalWatermark(Watermark(key, value))


def test_a_batch_comes_before_the_end_of_its_edge_and_that_before_both_kinds_of_watermarks() -> None:
    instance = Instance(2, 1, processor=Recorder())
    instance.push(1, 0, Watermark(0, 4)).push(0, 0, Watermark(0, 7), DONE).push(0, 1, EVENT, Watermark(0, 5))
    instance.run()
    assert instance.state.processor == (
        Row(0, EVENT),
        edge_mark(1, 0, 4),
        edge_mark(0, 0, 5),
        global_mark(0, 4),
    )
    instance.push(0, 1, Event((2,)), DONE).run()
    assert instance.state.processor[4:] == (Row(0, Event((2,))), EdgeDone(0), edge_mark(0, 0, 7))
    instance.push(1, 0, DONE).run()
    assert instance.state.processor[7:] == (EdgeDone(1), global_mark(0, 7), Complete())
    assert instance.state.phase is Phase.FINISHED


@pytest.mark.parametrize(
    "refused", [Row(0, EVENT), edge_mark(0, 0, 1), global_mark(0, 1), InputIdle(), EdgeDone(0), Complete()]
)
def test_what_is_refused_is_offered_again_before_anything_else(refused: Stimulus) -> None:
    refusing = Instance(1, processor=Recorder({refused: [REFUSED, REFUSED]}))
    willing = Instance(1, processor=Recorder())
    for instance in (refusing, willing):
        instance.push(0, 0, EVENT, Watermark(0, 1), IDLE, Event((2,)), DONE).run()
    expected = [stimulus for stimulus in willing.state.processor for _ in range(3 if stimulus == refused else 1)]
    assert list(refusing.state.processor) == expected


def test_a_refusal_that_changes_nothing_is_no_progress() -> None:
    class Stubborn(Recorder):
        def step(self, state: Any, stimulus: Stimulus) -> Reply[Any]:
            return Reply(state, accepted=False)

    instance = Instance(1, processor=Stubborn())
    instance.push(0, 0, EVENT).run()
    assert len(instance.turns) == 1
    assert not instance.runtime.step(instance.state).progress


def test_edges_of_a_lower_priority_number_come_first_and_to_their_end() -> None:
    edges = (InputEdge(1, priority=1), InputEdge(1, priority=0), InputEdge(1, priority=0))
    runtime = Tasklet(processor=Recorder(), edges=edges)
    state = runtime.start()
    for edge in range(3):
        state = runtime.push(state, edge=edge, queue=0, items=[EVENT])
    seen = run(runtime, state)
    assert seen.processor == (Row(1, EVENT), Row(2, EVENT))
    assert seen.edges[0].sizes == (1,)
    for edge in (1, 2):
        seen = runtime.push(seen, edge=edge, queue=0, items=[DONE])
    assert run(runtime, seen).processor[2:] == (EdgeDone(1), EdgeDone(2), Row(0, EVENT))


def run(runtime: Tasklet[Any], state: Any) -> Any:
    while (turn := runtime.step(state)).progress:
        state = turn.state
    return state


def test_without_room_nothing_is_offered() -> None:
    instance = Instance(1).push(0, 0, *(Event((n,)) for n in range(5)))
    assert not instance.runtime.step(instance.state, room=0).progress
    sizes = []
    while (turn := instance.runtime.step(instance.state, room=2)).progress:
        instance.state = turn.state
        sizes.append([item.values[0] for item in turn.out if isinstance(item, Event)])
    assert sizes == [[0, 1], [2, 3], [4]]


def test_rows_can_be_offered_a_few_at_a_time() -> None:
    instance = Instance(1).push(0, 0, *(Event((n,)) for n in range(5)), Watermark(0, 1))
    instance.run(rows=2)
    assert [len(turn.out) for turn in instance.turns] == [2, 2, 2]


@pytest.mark.parametrize("deviations", [DESIGN, Deviations(idle_overtakes=True)], ids=["design", "overtakes"])
def test_idle_is_the_processors_affair_in_design(deviations: Deviations) -> None:
    instance = Instance(1, processor=Recorder(), deviations=deviations)
    out = instance.push(0, 0, IDLE).run()
    asked = InputIdle() in instance.state.processor
    assert (asked, out) == ((False, [IDLE]) if deviations.idle_overtakes else (True, []))


@given(inputs(streams(), most=4), st.randoms(use_true_random=False))
def test_a_merge_sends_rising_watermarks_and_no_event_is_lost(chosen: list[Stream], random: Any) -> None:
    instance, out = left_by(chosen, random)
    assert all(rising(watermarks(out, key)) for key in (0, 1))
    assert out.count(EVENT) == sum(stream.count(EVENT) for stream in chosen)
    for key in (0, 1):
        assert dict(instance.state.forwarded).get(key) == max(watermarks(out, key), default=None)


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
        marks = tuple(dict(instance.state.forwarded).get(key) for key in (0, 1))
        statuses = (instance.state.keyed.idle, instance.state.keyed.done, instance.state.phase)
        ends.add((marks, statuses, out.count(EVENT)))
    assert len(ends) == 1


@given(inputs(streams(keys=1, idle=False), most=4), st.randoms(use_true_random=False))
def test_an_event_on_time_on_its_queue_is_on_time_behind_the_instance(chosen: list[Stream], random: Any) -> None:
    timed = [tuple(on_time(stream, n) for n in range(len(stream))) for stream in chosen]
    passed = -1
    for item in left_by(timed, random)[1]:
        if isinstance(item, Event):
            assert item.values[0] >= passed
        elif isinstance(item, Watermark):
            passed = item.value


def on_time(stream: Stream, place: int) -> Item:
    """The item, an event with the time of the last watermark before it."""
    if not isinstance(stream[place], Event):
        return stream[place]
    return Event((max(watermarks(stream[:place], 0), default=0),))


def test_every_step_of_both_levels_of_merging_is_told() -> None:
    instance = Instance(2, 1).push(0, 0, Watermark(0, 5)).push(0, 1, Watermark(0, 3)).push(1, 0, IDLE)
    instance.run()
    told = [(m.level, m.edge, m.place, m.item, m.emitted) for turn in instance.turns for m in turn.merges]
    assert told == [
        ("edge", 0, 0, Watermark(0, 5), ()),
        ("edge", 0, 1, Watermark(0, 3), (Watermark(0, 3),)),
        ("global", 0, 0, Watermark(0, 3), ()),
        ("edge", 1, 0, IDLE, (IDLE,)),
        ("global", 1, 1, IDLE, (Watermark(0, 3),)),
    ]
    assert instance.turns[-1].merges[-1].after == instance.state.keyed
    taken = [(t.edge, t.queue, t.count) for turn in instance.turns for t in turn.taken]
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
    twice = Recorder({global_mark(0, 10): [Reply((), (Watermark(0, 10), Watermark(0, again)))]})
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
    turn = instance.runtime.answer(instance.state, Answer(0, ()))
    instance.state = turn.state
    assert instance.run() == [Barrier(1)]
    snapshots = [turn.snapshot for turn in instance.turns if turn.snapshot]
    assert len(snapshots) == 1
    assert snapshots[0].processor == (Row(0, EVENT), Row(1, Event((3,))), Answer(0, ()))
    assert instance.state.processor[3:] == (Row(0, Event((2,))), Row(1, Event((4,))))
    restored = instance.runtime.start([snapshots[0].processor])
    assert restored.processor == snapshots[0].processor
    assert restored.edges[0].sizes == (0,)


def test_behind_a_terminal_snapshot_nothing_happens() -> None:
    instance = Instance(2).push(0, 0, Barrier(1, True), DONE).push(0, 1, EVENT, Barrier(1, True), DONE)
    assert instance.run() == [EVENT, Barrier(1, True)]
    assert instance.state.phase is Phase.STOPPED


def test_an_instance_without_inputs_takes_its_snapshot_by_itself() -> None:
    instance = Instance(processor=Recorder({Complete(): [REFUSED] * 9}))
    instance.state = instance.runtime.snapshot(instance.state, Barrier(7))
    assert instance.runtime.step(instance.state).out == (Barrier(7),)
    with pytest.raises(ModelError, match="barrier 7 has to come over the inputs"):
        Instance(1).runtime.snapshot(Instance(1).state, Barrier(7))


def test_a_retried_row_is_offered_again_only_to_who_counts_it() -> None:
    class Counting(Recorder):
        def counts_retries(self) -> bool:
            return True

    out = (EVENT, EVENT, EVENT)
    for processor, deviations, offers in (
        (Counting, SHIPPED, 2),
        (Counting, DESIGN, 1),
        (Recorder, SHIPPED, 1),
    ):
        instance = Instance(1, processor=processor({Row(0, EVENT): [Reply((), out)]}), deviations=deviations)
        assert instance.push(0, 0, EVENT).run(room=2) == list(out)
        assert [row.retry for row in instance.state.processor] == [False, True][:offers]


def test_edges_and_queues_have_to_exist() -> None:
    with pytest.raises(ModelError, match="input edge 0 has 0 queues"):
        Tasklet(processor=Recorder(), edges=(InputEdge(0),)).start()
    with pytest.raises(ModelError, match="no input edge 2, only 1"):
        Instance(1).push(2, 0, EVENT)
