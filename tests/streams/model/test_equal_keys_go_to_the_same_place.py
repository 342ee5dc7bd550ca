"""Upstream class `HashHelper`: from routing keys to the key space."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from wmlab.streams.model.history import StreamHistory
from wmlab.streams.model.segment import key_of


@given(st.text())
def test_every_text_has_a_key(text: str) -> None:
    assert 0 <= key_of(text) < 1
    assert key_of(text) == key_of(text)


def test_the_key_is_the_same_in_every_process() -> None:
    assert key_of("sensor-1") == Fraction(14916834108620745361, 2**64)


def test_keys_spread_over_all_segments() -> None:
    history = StreamHistory.create(4)
    counts = Counter(history.at(key_of(str(i))).number for i in range(2_000))
    assert all(400 < counts[number] < 600 for number in range(4))
