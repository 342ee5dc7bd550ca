"""The network between the nodes: how long messages take, and what may become of them.

Two kinds of message. A call, such as a noted time, is on its own: it may be lost, delivered twice, or overtaken. What
travels on a connection, appends and their acknowledgements above all, arrives once and in order; a loss shows there
as the time of the retransmission.
"""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Annotated

from pydantic import Field

from wmlab.core import namespace
from wmlab.core.simulation import Delay, Exponential, Fixed, LogNormal, Uniform
from wmlab.core.values import Flag, Period, Share, value

__all__ = ["Exponential", "Fixed", "LogNormal", "Network", "Retry", "Uniform"]
__getattr__, __dir__ = namespace(__name__)


@value
class Retry:
    """How a writer repeats a call that failed for a passing reason: a conflict, an unreachable controller or store.

    The first repetition comes after `first_ms`, each later one `multiple` times as late, never later than `most_ms`;
    after `attempts` calls in all the writer gives up. Source: upstream class `ControllerImplConfig`, whose figures
    these are. With `answer_within_ms` a call without an answer counts as failed after that time; None, as for the
    asynchronous notes upstream: a note that is lost is as if it had never been called.
    """

    _: KW_ONLY
    attempts: Annotated[int, Field(ge=1, le=1_000, strict=True)] = 10
    first_ms: Period = 1
    multiple: Annotated[int, Field(ge=1, le=1_000, strict=True)] = 10
    most_ms: Period = 20_000
    answer_within_ms: Period | None = None

    def wait_ms(self, failures: int) -> int:
        """The wait after that many failures, one at least."""
        return int(min(self.most_ms, self.first_ms * self.multiple ** (failures - 1)))


@value
class Network:
    """Delay, loss, duplication and reordering of messages; every one of them off by default.

    `delay` is the one-way time of a message to or from a writer (None: the scenario's `latency_ms`). `inside` is that
    of one between controllers, stores and the coordination service. `retry` is how a writer repeats a call that failed.
    `loss`, `duplication` and `reordering` are the shares of calls that are lost, delivered twice, or held back by
    `reordering_ms` so that later ones overtake them; messages on a connection are sent again after `retransmit_ms`
    instead of being lost. `keep_messages` records every message in the table `messages`; it is off by default because
    there are two for every batch of events.
    """

    _: KW_ONLY
    delay: Delay | None = None
    inside: Delay = Fixed(0)
    loss: Share = 0.0
    duplication: Share = 0.0
    reordering: Share = 0.0
    reordering_ms: Period = 1_000
    retransmit_ms: Period = 200
    retry: Retry = Retry()
    keep_messages: Flag = False
