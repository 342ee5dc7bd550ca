"""Fewer searches for cyclic garbage while a run is made.

A run makes millions of rows that stay, and hardly any cycles. Python's collector looks at all of them again and again,
which takes up to half of a long run; what is in no cycle is freed without it.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_RARE: Final = (50_000, 20, 100)
"""The thresholds of the collector during a run, in objects and in collections of the younger generation."""
_lock: Final = threading.Lock()
_before: list[tuple[int, int, int]] = []
"""The thresholds from before each of the runs that are being made; the first are those of the process."""


@contextmanager
def rare_collections() -> Iterator[None]:
    """Let the collector look rarely until the block ends, and as before when no other block is left, in any thread."""
    with _lock:
        _before.append(gc.get_threshold())
        if 0 < _before[-1][0] < _RARE[0]:
            gc.set_threshold(*_RARE)
    try:
        yield
    finally:
        with _lock:
            if len(_before) == 1:
                gc.set_threshold(*_before[0])
                _before.clear()
            else:
                del _before[-1]
