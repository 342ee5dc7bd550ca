"""The parts of a scenario as values."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from wmlab.core.simulation import Uniform
from wmlab.core.values import Problems


def test_fields_by_place_are_those_by_name() -> None:
    """Numbers of numpy are numbers, and a mistake is at the name of its field."""
    assert Uniform(np.int64(1), np.int64(5)) == Uniform(low_ms=1, high_ms=5)
    for offered, said in (
        ((-1, 5), r"low_ms: .*\(got -1\)"),
        ((1, 5, 6), "is one value too many; give the fields by name"),
    ):
        with pytest.raises(Problems, match=said):
            Uniform(*offered)
    with pytest.raises(Problems, match="low_ms: is given twice, by its place and by its name"):
        Uniform(1, high_ms=5, low_ms=2)


def test_mistakes_of_a_value_come_through_from_another_process() -> None:
    with pytest.raises(Problems) as raised:
        Uniform(-1, 5)
    copied = pickle.loads(pickle.dumps(raised.value))
    assert (str(copied), copied.problems) == (str(raised.value), raised.value.problems)
