"""N10, blocking operators, and sequencers: outputs that a tracker downstream can follow."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.progress.model.streams import origin_buffers, run, run_origin, several_origins, values
from wmlab.progress.model.chunks import Breach, Finding
from wmlab.progress.model.numbers import Sequencer, TupleBuffer
from wmlab.progress.model.tracker import ProgressRules
from wmlab.progress.model.windows import Rechunking, Renumbering


@given(st.data(), st.sampled_from([0, 1]))
def test_rechunking_gives_each_sequence_one_last_chunk_on_its_highest_number(data, base) -> None:
    buffers = data.draw(st.permutations(data.draw(origin_buffers(base=base))))
    fans = data.draw(st.lists(st.integers(0, 3), min_size=len(buffers), max_size=len(buffers)))
    state, outputs = Rechunking(ProgressRules(chunk_base=base)), []
    for buffer, fan in zip(buffers, fans, strict=True):
        made, _ = state.emit(buffer, fan)
        assert [b.watermark for b in made] == [buffer.watermark] * max(1, fan)
        outputs += made
    for sequence in {buffer.sequence for buffer in buffers}:
        mine = [b for b in outputs if b.sequence == sequence]
        wanted = sum(max(1, fan) for b, fan in zip(buffers, fans, strict=True) if b.sequence == sequence)
        assert [b.chunk for b in mine] == list(range(base, base + wanted))
        assert [b.last for b in mine] == [False] * (wanted - 1) + [True]
    assert len(state.emitted) == 0


@given(st.data())
def test_downstream_of_rechunking_time_comes_just_as_far(data) -> None:
    buffers = data.draw(st.permutations(data.draw(origin_buffers())))
    state, outputs = Rechunking(), []
    for buffer in buffers:
        made, _ = state.emit(buffer, 2)
        outputs += made
    before, after = run_origin(buffers), run_origin(data.draw(st.permutations(outputs)))
    assert (before.prefix, before.local) == (after.prefix, after.local)


def test_a_repeated_input_gives_no_output() -> None:
    buffer = TupleBuffer(1, 1, 0, True, 5)
    state = Rechunking()
    assert state.emit(buffer)[0] == (buffer,)
    assert state.emit(buffer) == ((), (Finding(Breach.FINISHED, buffer),))
    assert (state.inputs, state.emitted) == (run_origin([buffer]), {})


@given(several_origins())
def test_a_blocking_operator_numbers_only_what_is_in_a_prefix(case) -> None:
    origins, buffers = case
    state, outputs, inputs, reached = Renumbering(9, origins), [], [], 0
    for taken, after in zip(buffers, run(origins, buffers)[1:], strict=True):
        made, _ = state.emit(taken)
        outputs += [one.buffer for one in made]
        inputs += [(one.origin, one.sequence) for one in made]
        complete = sum(origin.prefix for origin in after.origins.values())
        assert len(outputs) == (0 if after.watermark is None else complete)
        marks = [one.buffer.watermark for one in made]
        assert marks == [*[reached] * (len(made) - 1), after.watermark][: len(made)]
        reached = marks[-1] if marks else reached
        assert len(inputs) + len(state.ready) == complete
    assert [(b.origin, b.sequence, b.chunk, b.last) for b in outputs] == [
        (9, number, 0, True) for number in range(1, len(outputs) + 1)
    ]
    for origin in origins:
        mine = [sequence for of, sequence in inputs if of == origin]
        assert mine == list(range(1, len(mine) + 1))
    watermarks = [buffer.watermark for buffer in outputs]
    assert watermarks == sorted(watermarks)


@given(several_origins(ordered=True))
def test_no_output_of_a_blocking_operator_promises_more_than_the_outputs_behind_it_keep(case) -> None:
    """The watermark of an input is its largest time, so it may hold records as old as the sequence before it."""
    origins, buffers = case
    state, outputs = Renumbering(9, origins), []
    for taken in buffers:
        made, _ = state.emit(taken)
        outputs += made
    oldest = {}
    for origin in origins:
        values_of = values([b for b in buffers if b.origin == origin])
        for sequence in values_of:
            oldest[origin, sequence] = values_of.get(sequence - 1, 0)
    for place, output in enumerate(outputs):
        later = [oldest[one.origin, one.sequence] for one in outputs[place + 1 :]]
        assert output.buffer.watermark <= min(later, default=output.buffer.watermark)


@given(st.data())
def test_a_sequencer_releases_every_buffer_in_order(data) -> None:
    places = [((b.sequence, b.chunk), b.last) for b in data.draw(origin_buffers(base=1))]
    state, released = Sequencer(), []
    for place, last in data.draw(st.permutations(places)):
        state, freed = state.take(place, last)
        while freed is not None:
            released.append(freed)
            state, freed = state.ack(freed)
    assert released == [place for place, _ in places]
