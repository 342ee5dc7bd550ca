"""The operators that end a pipeline, and the numbers of the buffers that pass them.

    operator   waits                                  numbers of its outputs
    Emit       never                                  origin and sequence stay, chunks as they are made
    Renumber   for the longest consecutive sequence   an origin of its own, sequences from 1, one chunk each
    InOrder    for its turn                           unchanged, but in order

Each takes one buffer and returns those that go on because of it. They hold the buffers themselves, whatever these have
next to their numbers.

`Emit` numbers its outputs in the order in which it makes them, whatever the order of its inputs; the output that
closes the last missing input carries the last flag. An input that leaves no record still gives an empty buffer, or the
sequence would never be complete downstream. Two chunks of a sequence that are cut in two; the last one comes first:

>>> emit = Emit(lambda buffer: [buffer, buffer])
>>> for chunk, last in ((1, True), (0, False)):
...     outputs = emit.take(TupleBuffer(origin=1, sequence=1, chunk=chunk, last=last, watermark=5))
...     print([(output.chunk, output.last) for output in outputs])
[(0, False), (1, False)]
[(2, False), (3, True)]

`InOrder` releases the buffers of each origin one at a time, in the order of sequence and chunk. `keep` parks what
comes too early; `drop` parks only the newest and forgets what is older than what was handled, so that a slow operator
keeps up.

    call    keep                                   drop
    take    released if it is the next and nobody  released if it is new and nobody is busy, else parked instead of
            is busy, else parked                   an older one
    done    the next one, if parked, is released   the parked one, if any, is released

>>> in_order = InOrder("keep", chunk_base=0)
>>> first, second = (TupleBuffer(1, sequence, chunk=0, last=True, watermark=0) for sequence in (1, 2))
>>> in_order.take(second), in_order.take(first) == [first], in_order.done(first) == [second]
([], True, True)

Source: "Watermarking and Progress", ChunkNumber; upstream classes `EmitOperatorHandler` and `Sequencer`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Generic, Literal, TypeAlias, TypeVar

from wmlab.core.errors import ModelError
from wmlab.progress.model.chunks import ProtocolViolation
from wmlab.progress.model.numbers import FIRST_ORIGIN, FIRST_SEQUENCE, INITIAL, ChunkBase, TupleBuffer
from wmlab.progress.model.tracker import OriginProgress, ProgressRules, ProgressTracker

B = TypeVar("B", bound=TupleBuffer)


class Emit(Generic[B]):
    """Hands on what each buffer becomes: `parts` says which buffers these are, at least one.

    A buffer that breaks the protocol becomes none.
    """

    def __init__(self, parts: Callable[[B], Sequence[B]], chunk_base: ChunkBase = 0) -> None:
        self.parts = parts
        self.chunk_base = chunk_base
        # Whatever the trackers believe, an `Emit` closes a sequence on its true last chunk.
        rules = ProgressRules(chunk_base=chunk_base)
        self.inputs: dict[int, OriginProgress] = defaultdict(lambda: OriginProgress(rules))
        self.emitted: dict[tuple[int, int], int] = {}
        """How many chunks each sequence (of an origin) has that is not closed."""

    def take(self, buffer: B) -> list[B]:
        """The chunks that a buffer becomes."""
        effects = self.inputs[buffer.origin].step(buffer)
        if any(isinstance(effect, ProtocolViolation) for effect in effects):
            return []
        closes = bool(effects)
        parts = self.parts(buffer)
        before = self.emitted.pop((buffer.origin, buffer.sequence), 0)
        if not closes:
            self.emitted[buffer.origin, buffer.sequence] = before + len(parts)
        first, final = self.chunk_base + before, len(parts) - 1
        return [replace(part, chunk=first + index, last=closes and index == final) for index, part in enumerate(parts)]


class Renumber(Generic[B]):
    """A blocking operator that hands on whole sequences in order, under an origin of its own.

    It waits for the longest consecutive sequence of each input and gives new, gapless numbers only to what lies in it;
    `ready` are the (origin, sequence) in one that wait for an input that has none yet. Nothing goes out while one of
    the inputs is silent. The last output of a step carries their smallest local watermark, those before it what went
    out last (`watermark`): the records behind them in the same step may be as old as that. `whole` makes one buffer of
    the chunks of a sequence.

    Raises `ModelError` for no input or an origin that is its own input.
    """

    def __init__(
        self,
        origin: int,
        inputs: Sequence[int],
        rules: ProgressRules | None = None,
        whole: Callable[[Sequence[B]], B] = lambda chunks: chunks[0],
    ) -> None:
        if not inputs or origin in inputs or origin < FIRST_ORIGIN:
            raise ModelError(
                f"Origin {origin} cannot renumber the origins {list(inputs)}.",
                remedy="Give it at least one input and an origin id of its own.",
            )
        self.origin = origin
        self.tracker = ProgressTracker(inputs, rules)
        self.whole = whole
        self.outputs = 0
        self.watermark = INITIAL
        self.chunks: dict[tuple[int, int], list[B]] = defaultdict(list)
        self.ready: list[tuple[int, int]] = []

    def take(self, buffer: B) -> list[B]:
        """The sequences that go on because a buffer has come. Raises `ModelError` for an unknown origin."""
        tracker = self.tracker
        before = tracker.origin(buffer.origin).prefix
        tracker.step(buffer)
        self.chunks[buffer.origin, buffer.sequence].append(buffer)
        entered = range(before + 1, tracker.origin(buffer.origin).prefix + 1)
        self.ready += [(buffer.origin, sequence) for sequence in entered]
        if tracker.watermark is None:
            return []
        ready, self.ready = self.ready, []
        return [self._renumbered(key, final=key == ready[-1]) for key in ready]

    def _renumbered(self, key: tuple[int, int], *, final: bool) -> B:
        """The chunks of an input sequence as the next output; `final` tells that it is the last one of this step."""
        self.outputs += 1
        if final:
            assert self.tracker.watermark is not None
            self.watermark = self.tracker.watermark
        return replace(
            self.whole(sorted(self.chunks.pop(key), key=attrgetter("chunk"))),
            origin=self.origin,
            sequence=self.outputs,
            chunk=self.tracker.rules.chunk_base,
            last=True,
            watermark=self.watermark,
        )


InOrderPolicy = Literal["keep", "drop"]
ChunkPosition: TypeAlias = tuple[int, int]
"""Sequence and chunk."""


@dataclass(slots=True)
class OriginOrder(Generic[B]):
    """The order of one origin: the position of the next buffer, the one that is handled, and those that are parked."""

    next: ChunkPosition
    busy: B | None = None
    parked: dict[ChunkPosition, B] = field(default_factory=dict)


def position_of(buffer: TupleBuffer) -> ChunkPosition:
    """Where a buffer stands in the order of its origin."""
    return buffer.sequence, buffer.chunk


class InOrder(Generic[B]):
    """Releases the buffers of each origin one at a time, in the order of sequence and chunk; see above."""

    def __init__(self, policy: InOrderPolicy = "keep", chunk_base: ChunkBase = 1) -> None:
        self.policy = policy
        self.chunk_base = chunk_base
        self.origins: dict[int, OriginOrder[B]] = defaultdict(lambda: OriginOrder((FIRST_SEQUENCE, chunk_base)))

    def take(self, buffer: B) -> list[B]:
        """The buffer, if it is released now; none if it is parked, known or too old."""
        order, position, drops = self.origins[buffer.origin], position_of(buffer), self.policy == "drop"
        if position < order.next:
            return []
        if order.busy is None:
            if drops or position == order.next:
                order.busy = buffer
                return [buffer]
        elif position == position_of(order.busy) or (drops and position < position_of(order.busy)):
            return []
        if drops:
            if position >= max(order.parked, default=position):
                order.parked = {position: buffer}
        else:
            order.parked[position] = buffer
        return []

    def done(self, buffer: TupleBuffer) -> list[B]:
        """The buffer that is released because the one in hand is done, if any.

        Raises `ModelError` if it was not in hand.
        """
        order, position = self.origins[buffer.origin], position_of(buffer)
        busy = order.busy
        if busy is None or position_of(busy) != position:
            in_hand = "nothing" if busy is None else f"{position_of(busy)}"
            raise ModelError(f"{position} is not in hand, {in_hand} is.", remedy="Acknowledge what was released.")
        order.next = (busy.sequence + 1, self.chunk_base) if busy.last else (busy.sequence, busy.chunk + 1)
        following = max(order.parked, default=order.next) if self.policy == "drop" else order.next
        order.busy = order.parked.pop(following, None)
        if order.busy is None or position_of(order.busy) < order.next:
            order.busy = None
            return []
        return [order.busy]
