"""The slack of a window join of several streams: the least with which it finds the share of its results that is wanted.

A result is lost if one of its records comes after the watermark, or before a partner that is still held back. Source:
Ji et al., "Quality-Driven Disorder Handling for M-way Sliding Window Stream Joins", ICDE 2016, with a selectivity that
does not depend on delays; PECJ (intellistream/PECJ, class `BufferSizeManager`), whose port has two errors.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Literal

from wmlab.strategies.model.strategy import UNKNOWN, Input, Positive, Record, Share, Strategy, minus

RecallRule = Literal["paper", "pecj"]
"""`pecj`: the recall is cut to a whole number, and at least 1 is wanted, so that any target gets the longest delay."""


def join_recall(slack: int, delays: Sequence[Sequence[int]], ahead: Sequence[int], window: int, basic: int) -> float:
    """The share of the results of a join over `window` that are found with a slack, by the delays of each stream.

    `delays` ascend; `ahead` says by how much a stream is before the slowest one, which delays it as a slack does. A
    record finds partners if it is in time itself; of each other stream those of age a are there whose delay is at most
    the slack and a, with a in steps of `basic`. All windows have one length, so that the rates cancel out.

    >>> join_recall(0, [[0, 0, 0, 30], [0]], [0, 0], window=40, basic=10)
    0.78125
    """
    times = [range(slack + more, slack + more + window, basic) for more in ahead]
    shares = [[bisect_right(own, time) / len(own) for time in until] for own, until in zip(delays, times, strict=True)]
    filled = [sum(own) / len(own) for own in shares]
    found = (own[0] * prod(filled[:i] + filled[i + 1 :]) for i, own in enumerate(shares))
    return sum(found) / len(shares)


@dataclass(slots=True)
class Joined:
    """The largest time and the last delays of each stream, the slack, X, and how many records there were."""

    tops: dict[str, int] = field(default_factory=dict)
    delays: dict[str, deque[int]] = field(default_factory=dict)
    slack: int = 0
    x: int = UNKNOWN
    count: int = 0


@dataclass(frozen=True, slots=True)
class JoinSlack(Strategy[Joined]):
    """X = min over the streams, which are the writers, of their largest times, less K; native is X.

    After each `every` records K becomes the least multiple of `grain` whose `join_recall` reaches `recall` by the last
    `size` delays of each stream, at most their longest. Times and lengths have one unit. The paper corrects the recall
    wanted by the results of the join, which a log does not have.
    """

    recall: Share
    window: Positive
    basic: Positive
    grain: Positive
    size: Positive = 2_000
    every: Positive = 1_000
    rule: RecallRule = "paper"

    def start(self) -> Joined:
        return Joined()

    def step(self, state: Joined, given: Input) -> tuple[Joined, int, int]:
        if isinstance(given, Record):
            top = state.tops[given.writer] = max(state.tops.get(given.writer, UNKNOWN), given.event_time)
            state.delays.setdefault(given.writer, deque(maxlen=self.size)).append(top - given.event_time)
            state.count += 1
            if state.count % self.every == 0:
                state.slack = self.least(state)
            state.x = max(state.x, minus(min(state.tops.values()), state.slack))
        return state, state.x, state.x

    def least(self, state: Joined) -> int:
        """The slack that the delays in the state ask for."""
        delays = [sorted(own) for own in state.delays.values()]
        ahead = [top - min(state.tops.values()) for top in state.tops.values()]
        longest = max(own[-1] for own in delays)

        def enough(grains: int) -> bool:
            found = join_recall(grains * self.grain, delays, ahead, self.window, self.basic)
            return int(found) == 1 if self.rule == "pecj" else found >= self.recall

        # The recall does not fall as the slack grows.
        return self.grain * bisect_left(range(-(-longest // self.grain)), True, key=enough)
