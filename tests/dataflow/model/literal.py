"""A coalescer written from the text of "Keyed watermark support" alone, sentence by sentence; no input of it ends.

It knows nothing of `wmlab`. An item is ("wm", input, key, value), ("idle", input) or ("event", input). What comes out
are pairs (key, value), by key, and then "idle".
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

Sent = tuple[str, int] | tuple[str, int, int, int]
Out = tuple[int, int] | str


class LiteralCoalescer:
    """What the document says of merging some streams into one."""

    def __init__(self, inputs: int) -> None:
        self.inputs = range(inputs)
        self.values: dict[int, dict[int, int]] = {}
        self.emitted: dict[int, int] = {}
        self.excluded: set[int] = set()
        self.is_idle = False

    def take(self, item: Sent) -> list[Out]:
        """What leaves when an item comes."""
        kind, stream = item[:2]
        if kind == "idle":
            # "An IDLE_MESSAGE that excludes the input stream on which it appeared from coalescing."
            # "The stream will be excluded from coalescing for all keys."
            self.excluded.add(stream)
            # "The WM is output based on the minimum of the remaining non-idle inputs."
            return [*self._lowest(sorted(self.values)), *self._forwarded()]
        # "Any new WM or event from that input clears the idle status and includes that input into coalescing again."
        self.excluded.discard(stream)
        self.is_idle = False
        if kind == "event":
            return []
        _, _, key, value = item
        self.values.setdefault(key, {})[stream] = value
        # "A wm with key=K is coalesced with wm with the same key from other inputs independently."
        return list(self._lowest([key]))

    def _lowest(self, keys: list[int]) -> Iterator[Out]:
        """ "The lowest current WM value of all the merged streams is used for the merged stream." """
        counting = [stream for stream in self.inputs if stream not in self.excluded]
        for key in keys:
            current = [self.values[key].get(stream) for stream in counting]
            known = [value for value in current if value is not None]
            # "Coalescing will wait forever for a WM with the same key from the other side."
            if not known or len(known) < len(current):
                continue
            # "A WM can never go back ... we require a strict monotonicity."
            if key not in self.emitted or min(known) > self.emitted[key]:
                self.emitted[key] = min(known)
                yield key, min(known)

    def _forwarded(self) -> Iterator[Out]:
        """ "Watermark coalescing forwards it, if all coalesced inputs are idle"; once, until one of them is not."""
        if len(self.excluded) == len(self.inputs) and not self.is_idle:
            self.is_idle = True
            yield "idle"


def drawn_history(seed: int) -> tuple[int, list[Sent]]:
    """How many inputs there are, and what comes on them; the watermarks of a key rise on each input."""
    draw = Random(f"history {seed}")
    inputs, keys = draw.choice((1, 2, 2, 3)), draw.choice((1, 1, 2))
    last: dict[tuple[int, int], int] = {}
    sent: list[Sent] = []
    for _ in range(draw.randint(2, 14)):
        stream = draw.randrange(inputs)
        kind = draw.choice(("wm", "wm", "wm", "idle", "idle", "event"))
        if kind == "wm":
            key = draw.randrange(keys)
            last[stream, key] = last.get((stream, key), 0) + draw.randint(1, 9)
            sent.append(("wm", stream, key, last[stream, key]))
        else:
            sent.append((kind, stream))
    return inputs, sent
