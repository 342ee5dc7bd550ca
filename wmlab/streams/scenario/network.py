"""The network between the nodes: how long messages take, and how they can be lost, repeated or reordered.

Two kinds of message. A call, such as a noted time, is on its own: it may be lost, delivered twice, or overtaken. What
travels on a connection, appends and their acknowledgements above all, arrives once and in order; a loss shows there
as the time of the retransmission.
"""

from __future__ import annotations

from dataclasses import KW_ONLY

from wmlab.core import namespace
from wmlab.core.simulation import Delay, Exponential, Fixed, LogNormal, Uniform
from wmlab.core.values import Flag, Period, Share, value

__all__ = ["Exponential", "Fixed", "LogNormal", "Network", "Uniform"]
namespace(__name__)


@value
class Network:
    """Delay, loss, duplication and reordering of messages; every one of them off by default.

    `delay`: the one-way time of a message to or from a writer (None: the scenario's `latency_ms`), and of a reader's
    reads. `inside`: the one-way time of messages between controllers, stores and the coordination service.
    `loss`: which share of the calls is lost; messages on a connection are sent again after 200 ms instead.
    `duplication`: which share is delivered twice. `reordering`: which share is held back by `reordering_ms`, so that
    later ones overtake it.
    `keep_messages`: whether every message is recorded in the table `messages`; it is off by default because there are
    two for every batch of events.
    """

    _: KW_ONLY
    delay: Delay | None = None
    inside: Delay = Fixed(0)
    loss: Share = 0.0
    duplication: Share = 0.0
    reordering: Share = 0.0
    reordering_ms: Period = 1_000
    keep_messages: Flag = False
