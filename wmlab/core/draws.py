"""Randomness by name: one seed, one generator per party.

A party's draws depend on the scenario's seed and on its own name only, so that adding a writer leaves the draws
of the others as they were.
"""

from __future__ import annotations

import zlib

import numpy as np


def generator(seed: int, name: str) -> np.random.Generator:
    """The generator of the party called `name` under `seed`; the same in every process."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, zlib.crc32(name.encode())])))
