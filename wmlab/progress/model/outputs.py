"""What operators put out: buffers with fresh identifiers for windows, re-chunked buffers for everything else.

A pipeline without state keeps origin and sequence and numbers its outputs in the order in which it emits them,
whatever the order of its inputs; the output that closes the last missing input carries the last flag. An input that
leaves no record still gives an empty buffer, or the sequence would never be complete downstream.

A window goes out under the operator's own origin, with the window's output number as sequence: one chunk for an
aggregation, one chunk per pair of slices for a join.

Source: "Watermarking and Progress", ChunkNumber; upstream classes `EmitOperatorHandler`,
`AggregationProbePhysicalOperator` and `StreamJoinOperatorHandler`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from wmlab.core.errors import ModelError
from wmlab.progress.model.chunks import Completed, Effect
from wmlab.progress.model.identifiers import FIRST_ORIGIN, INITIAL, ChunkBase, TupleBuffer
from wmlab.progress.model.number_map import NumberMap
from wmlab.progress.model.tracker import OriginProgress, Progress, ProgressRules, step, take
from wmlab.progress.model.windows import Fired


@dataclass(frozen=True, slots=True)
class Rechunking:
    """The emission of a pipeline without state, for one origin: its inputs and how many outputs each sequence has."""

    rules: ProgressRules = field(default_factory=ProgressRules)
    inputs: OriginProgress = field(default_factory=OriginProgress)
    emitted: NumberMap[int] = field(default_factory=NumberMap)

    def emit(
        self, buffer: TupleBuffer, outputs: int = 1
    ) -> tuple[Rechunking, tuple[TupleBuffer, ...], tuple[Effect, ...]]:
        """The buffers that one input becomes: `outputs` of them, at least one, the last of which may be the last.

        A buffer that breaks the protocol gives no output and a `Finding`. Raises `ModelError` for negative `outputs`.
        """
        if outputs < 0:
            raise ModelError(f"A buffer cannot become {outputs} buffers.", remedy="Give 0 or more.")
        inputs, effects = take(self.inputs, buffer, self.rules)
        if inputs is self.inputs:
            return self, (), effects
        closes = any(isinstance(effect, Completed) for effect in effects)
        count = max(1, outputs)
        before = self.emitted.get(buffer.sequence) or 0
        made = chunked(
            buffer.origin, buffer.sequence, buffer.watermark, count, self.rules.chunk_base, before=before, closed=closes
        )
        emitted = self.emitted.without(buffer.sequence) if closes else self.emitted.put(buffer.sequence, before + count)
        return Rechunking(self.rules, inputs, emitted), made, effects


def chunked(
    origin: int, sequence: int, watermark: int, count: int, base: ChunkBase, *, before: int = 0, closed: bool = True
) -> tuple[TupleBuffer, ...]:
    """`count` chunks of a sequence after `before` earlier ones; if `closed`, the final one carries the last flag."""
    first = base + before
    return tuple(
        TupleBuffer(origin, sequence, first + place, closed and place == count - 1, watermark) for place in range(count)
    )


def window_output(fired: Fired, origin: int, base: ChunkBase = 0, *, pairs: int = 1) -> tuple[TupleBuffer, ...]:
    """The output of a window: one chunk per pair of slices of a join, an empty one without; one of an aggregation."""
    return chunked(origin, fired.sequence, fired.watermark, max(1, pairs), base)


@dataclass(frozen=True, slots=True)
class Renumbering:
    """A blocking operator that hands on whole sequences in order, under an origin of its own.

    It waits for the longest complete prefix of each input and gives new, gapless numbers only to what lies in it;
    `held` are the (origin, sequence) in a prefix that wait for an input that has none yet. Nothing goes out
    while one of the inputs is silent. The last output of a step carries their smallest local watermark, those before it
    what went out last (`watermark`): the records behind them in the same step may be as old as that.
    """

    origin: int
    inputs: Progress
    outputs: int = 0
    watermark: int = INITIAL
    held: tuple[tuple[int, int], ...] = ()

    @classmethod
    def start(cls, origin: int, inputs: Sequence[int], rules: ProgressRules | None = None) -> Renumbering:
        """An operator that has seen nothing. Raises `ModelError` for no input or an origin that is its own input."""
        if not inputs or origin in inputs or origin < FIRST_ORIGIN:
            raise ModelError(
                f"Origin {origin} cannot renumber the origins {list(inputs)}.",
                remedy="Give it at least one input and an origin id of its own.",
            )
        return cls(origin, Progress.start(inputs, rules))

    def emit(self, buffer: TupleBuffer) -> tuple[Renumbering, tuple[Renumbered, ...], tuple[Effect, ...]]:
        """One buffer per input sequence that has entered a prefix, once every input has one.

        Raises `ModelError` for an origin that is no input.
        """
        before = self.inputs.of(buffer.origin).prefix
        inputs, effects = step(self.inputs, buffer)
        entered = range(before + 1, inputs.of(buffer.origin).prefix + 1)
        ready = (*self.held, *((buffer.origin, sequence) for sequence in entered))
        reached = inputs.watermark
        if reached is None:
            return replace(self, inputs=inputs, held=ready), (), effects
        outputs = self.outputs + len(ready)
        made = tuple(
            Renumbered(self._output(number, reached if number == outputs else self.watermark), *old)
            for number, old in enumerate(ready, self.outputs + 1)
        )
        watermark = reached if made else self.watermark
        return Renumbering(self.origin, inputs, outputs, watermark), made, effects

    def _output(self, number: int, watermark: int) -> TupleBuffer:
        return TupleBuffer(self.origin, number, self.inputs.rules.chunk_base, True, watermark)


@dataclass(frozen=True, slots=True)
class Renumbered:
    """An output of a renumbering, and the origin and sequence of the input it stands for."""

    buffer: TupleBuffer
    origin: int
    sequence: int
