"""Routing: which key of the key space an event's routing key falls on.

The hash is stable across processes, machines and Python versions, so that a recording can be made twice. It is not
Pravega's hash function: only the property that matters to watermarks is kept, that equal keys always go to the same
place and different keys spread evenly.

Source: PDP-33, Overview (segments own ranges of the key space); upstream class `HashHelper`.
"""

from __future__ import annotations

from fractions import Fraction
from hashlib import blake2b

_BYTES = 8


def key_of(text: str) -> Fraction:
    """The key in [0, 1) of a routing key, a multiple of 2^-64. Source: upstream class `HashHelper` (hashToRange)."""
    digest = blake2b(text.encode(), digest_size=_BYTES).digest()
    return Fraction(int.from_bytes(digest, "big"), 2 ** (8 * _BYTES))
