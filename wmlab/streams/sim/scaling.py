"""A scale in steps: the old segments are sealed one after the other, while the new ones are open already.

Its state is in the stores: the new epoch is written, and each segment is sealed or not. Sealing a sealed segment
changes nothing, so a controller that fails between two seals leaves the scale half done, and it, or the one that takes
over, begins with the first segment again and finishes it. Until then the stream is scaling: no transactions are
committed, and no other change of its segments begins.

Source: PDP-33, "Watermark Computation" ("Segment 2, 3 are created and 0 is sealed but 1 may still be open"); upstream
classes `ScaleOperationTask` (run again by the event processor after a failure) and `StreamMetadataTasks`
(notifySealedSegments, which tries each segment again until the store has sealed it; it does not wait in between).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from wmlab.streams.model.segment import segment_name
from wmlab.streams.scenario.parts import METADATA_STORE, SEGMENT_STORE

if TYPE_CHECKING:
    from wmlab.streams.sim.controller import Controller
    from wmlab.streams.sim.node import Steps
    from wmlab.streams.sim.stream import StreamWorld

_SEALED: Final = "sealed"
_WAS_SEALED: Final = "was sealed before"


@dataclass(frozen=True, slots=True, eq=False)
class SteppedScale:
    """The segments that a scale seals, in that order, and how many ms lie between two seals."""

    segments: tuple[int, ...]
    every_ms: int


def seal_in_steps(
    controller: Controller,
    stream: StreamWorld,
    scale: SteppedScale,
    ask: Callable[..., Steps[Any]],
    complete: Callable[[], None],
) -> Steps[None]:
    """What a controller does for a scale, from its beginning or after a failure; at the end `complete` is done.

    `ask` asks a store: which one, the name of the request, what it does, and its content. Raises `UnavailableError`.
    """

    def seal(segment: int) -> str:
        was_open = stream.store[segment].sealed_ms is None
        stream.seal([segment])
        return _SEALED if was_open else _WAS_SEALED

    def finish() -> None:
        stream.read_history()
        complete()

    yield from ask(METADATA_STORE, "read epochs", stream.read_history)
    for segment in scale.segments:
        answer = yield from ask(SEGMENT_STORE, "seal segment", partial(seal, segment), segment_name(segment))
        if answer == _SEALED and segment != scale.segments[-1]:
            yield from controller.failpoint("between_seals", stream.name)
            yield from controller.sleep(scale.every_ms)
    yield from ask(METADATA_STORE, "complete scale", finish)
