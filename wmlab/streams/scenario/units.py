"""The plain types of stream scenarios, the names of the parties they all have, and the network between them.

Two kinds of message. A call, such as a noted time, is on its own: it may be lost, delivered twice, or overtaken. What
travels on a connection, appends and their acknowledgements above all, arrives once and in order; a loss shows there
as the time of the retransmission.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY
from typing import Annotated, Final

from pydantic import AfterValidator, BeforeValidator, Field

from wmlab.core.errors import ModelError
from wmlab.core.simulation import Delay, Exponential, Fixed, LogNormal, Uniform
from wmlab.core.values import Offset, Period, Share, value
from wmlab.streams.model.segment import KeyRange, as_segment_id, segment_name

WriterId = Annotated[str, Field(max_length=256, pattern=r"^(\{name\}|[A-Za-z0-9._-])+$")]
"""The id under which a writer's marks are kept; "{name}" stands for the writer's name."""

SEGMENT_STORE: Final = "segment-store"
"""Where segments live, the marks segment and a group's shared state among them."""
METADATA_STORE: Final = "metadata-store"
"""Where writer marks, epochs, transactions and bucket members live."""
COORDINATOR: Final = "coordinator"
"""The coordination service: sessions of controllers, their leader, and who owns which bucket."""
SERVICES: Final = (SEGMENT_STORE, METADATA_STORE, COORDINATOR)
"""The parties of every scenario besides its writers, readers and controllers."""
EVERY: Final = ("writers", "readers", "controllers")
"""Names that stand for all parties of a kind."""


def _key_range(text: str) -> str:
    try:
        KeyRange.parse(text)
    except ModelError as error:
        raise ValueError(error.problem.rstrip(".")) from None
    return text


Keys = Annotated[str, AfterValidator(_key_range)]
"""A key range as "low..high" in rationals, for example "0..1/2"."""


def _by_name(offered: object) -> object:
    """A stream cut with its segments as `number@epoch`, ascending, whether given by id or by name."""
    if not isinstance(offered, Mapping):
        return offered
    try:
        ids = sorted((as_segment_id(segment), segment) for segment in offered)
    except ModelError as error:
        raise ValueError(error.problem) from None
    return {segment_name(identifier): offered[segment] for identifier, segment in ids}


Cut = Annotated[dict[str, Offset], Field(min_length=1), BeforeValidator(_by_name)]
"""A stream cut: offset in bytes by segment; `recording.stream_cut_at` gives one."""


def controller_name(index: int) -> str:
    """The name of the controller with that index, counted from 0 in the order of joining."""
    return f"controller-{index}"


def reader_name(group: str, index: int) -> str:
    """The name of the reader with that index in a group."""
    return f"{group}-{index}"


def process_name(writer: str, number: int) -> str:
    """The name of a writer's process, counted from 1."""
    return writer if number == 1 else f"{writer}/{number}"


__all__ = ["Exponential", "Fixed", "LogNormal", "Network", "Retry", "Uniform"]


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

    `delay` is the one-way time of a message to or from a writer (None: the scenario's `latency_ms`), `inside` that of
    one between controllers, stores and the coordination service. `loss`, `duplication` and `reordering` are the
    shares of calls that are lost, delivered twice, or held back by `reordering_ms` so that later ones overtake them;
    messages on a connection are sent again after `retransmit_ms` instead of being lost. `keep_messages` records every
    message in the table `messages`; it is off by default because there are two for every batch of events.
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
    keep_messages: bool = False
