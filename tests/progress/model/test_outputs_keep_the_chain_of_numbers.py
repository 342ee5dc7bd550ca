"""N10, blocking operators, and sequencers: outputs that a tracker downstream can follow."""

from __future__ import annotations

from dataclasses import astuple, dataclass

from hypothesis import given, strategies as st

from tests.progress.model.streams import origin_buffers, run, run_origin, several_origins, values
from wmlab.progress.model.numbers import TupleBuffer
from wmlab.progress.model.operators import Emit, InOrder, Renumber


@given(st.data(), st.sampled_from([0, 1]))
def test_rechunking_gives_each_sequence_one_last_chunk_on_its_highest_number(data, base) -> None:
    buffers = data.draw(st.permutations(data.draw(origin_buffers(base=base))))
    fans = data.draw(st.lists(st.integers(1, 3), min_size=len(buffers), max_size=len(buffers)))
    fan_of = dict(zip(buffers, fans, strict=True))
    emission, outputs = Emit[TupleBuffer](lambda buffer: [buffer] * fan_of[buffer], base), []
    for buffer, fan in fan_of.items():
        made = emission.take(buffer)
        assert [b.watermark for b in made] == [buffer.watermark] * fan
        outputs += made
    for sequence in {buffer.sequence for buffer in buffers}:
        mine = [b for b in outputs if b.sequence == sequence]
        wanted = sum(fan for b, fan in fan_of.items() if b.sequence == sequence)
        assert [b.chunk for b in mine] == list(range(base, base + wanted))
        assert [b.last for b in mine] == [False] * (wanted - 1) + [True]
    assert emission.emitted == {}


@given(st.data())
def test_downstream_of_rechunking_time_comes_just_as_far(data) -> None:
    buffers = data.draw(st.permutations(data.draw(origin_buffers())))
    emission = Emit[TupleBuffer](lambda buffer: [buffer, buffer])
    outputs = [output for buffer in buffers for output in emission.take(buffer)]
    before, after = run_origin(buffers), run_origin(data.draw(st.permutations(outputs)))
    assert (before.prefix, before.local) == (after.prefix, after.local)


def test_a_repeated_input_gives_no_output() -> None:
    buffer = TupleBuffer(1, 1, 0, True, 5)
    emission = Emit[TupleBuffer](lambda buffer: [buffer])
    assert emission.take(buffer) == [buffer]
    assert emission.take(buffer) == []
    assert (emission.inputs, emission.emitted) == ({1: run_origin([buffer])}, {})


@dataclass(frozen=True)
class Numbered(TupleBuffer):
    """A buffer that tells which input sequence it stands for."""

    stands_for: tuple[int, int] = (0, 0)


def numbered(buffer: TupleBuffer) -> Numbered:
    return Numbered(*astuple(buffer), stands_for=(buffer.origin, buffer.sequence))


@given(several_origins())
def test_a_blocking_operator_numbers_only_what_is_in_a_prefix(case) -> None:
    origins, buffers = case
    operator, outputs, reached = Renumber[Numbered](9, origins), [], 0
    for taken, after in zip(buffers, run(origins, buffers)[1:], strict=True):
        made = operator.take(numbered(taken))
        outputs += made
        complete = sum(origin.prefix for origin in after.origins.values())
        assert len(outputs) == (0 if after.watermark is None else complete)
        marks = [output.watermark for output in made]
        assert marks == [*[reached] * (len(made) - 1), after.watermark][: len(made)]
        reached = marks[-1] if marks else reached
        assert len(outputs) + len(operator.ready) == complete
    assert [(b.origin, b.sequence, b.chunk, b.last) for b in outputs] == [
        (9, number, 0, True) for number in range(1, len(outputs) + 1)
    ]
    for origin in origins:
        mine = [output.stands_for[1] for output in outputs if output.stands_for[0] == origin]
        assert mine == list(range(1, len(mine) + 1))
    watermarks = [output.watermark for output in outputs]
    assert watermarks == sorted(watermarks)


@given(several_origins(ordered=True))
def test_no_output_of_a_blocking_operator_promises_more_than_the_outputs_behind_it_keep(case) -> None:
    """The watermark of an input is its largest time, so it may hold records as old as the sequence before it."""
    origins, buffers = case
    operator = Renumber[Numbered](9, origins)
    outputs = [output for buffer in buffers for output in operator.take(numbered(buffer))]
    oldest = {}
    for origin in origins:
        values_of = values([b for b in buffers if b.origin == origin])
        for sequence in values_of:
            oldest[origin, sequence] = values_of.get(sequence - 1, 0)
    for index, output in enumerate(outputs):
        later = [oldest[other.stands_for] for other in outputs[index + 1 :]]
        assert output.watermark <= min(later, default=output.watermark)


@given(several_origins(), st.randoms(use_true_random=False))
def test_a_blocking_operator_makes_one_of_the_chunks_of_a_sequence_in_their_order(case, order) -> None:
    origins, buffers = case
    wholes: list[list[TupleBuffer]] = []
    operator = Renumber[TupleBuffer](9, origins, whole=lambda chunks: wholes.append([*chunks]) or chunks[0])
    order.shuffle(buffers)
    outputs = [output for buffer in buffers for output in operator.take(buffer)]
    assert len(wholes) == len(outputs)
    for chunks in wholes:
        of_sequence = [b for b in buffers if (b.origin, b.sequence) == (chunks[0].origin, chunks[0].sequence)]
        assert chunks == sorted(of_sequence, key=lambda buffer: buffer.chunk)


@given(st.data())
def test_a_sequencer_releases_every_buffer_in_order(data) -> None:
    buffers = data.draw(origin_buffers(base=1))
    sequencer, released = InOrder[TupleBuffer](), []
    for buffer in data.draw(st.permutations(buffers)):
        freed = sequencer.take(buffer)
        while freed:
            released += freed
            freed = sequencer.done(freed[0])
    assert released == buffers


@given(st.data())
def test_a_sequencer_that_drops_releases_only_newer_buffers_and_parks_one(data) -> None:
    buffers = data.draw(origin_buffers(base=1))
    sequencer, released = InOrder[TupleBuffer]("drop"), []
    for buffer in data.draw(st.permutations(buffers)):
        released += sequencer.take(buffer)
        assert len(sequencer.origins[1].parked) <= 1
        if data.draw(st.booleans()) and released and sequencer.origins[1].busy is not None:
            released += sequencer.done(released[-1])
    positions = [(buffer.sequence, buffer.chunk) for buffer in released]
    assert positions == sorted(set(positions))
