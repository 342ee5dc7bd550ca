"""The simulated network: every message between two named parties goes through it.

A call may be lost, delivered twice or overtaken, as the scenario says; what travels on a connection arrives once and
in order, sooner or later. Each direction between two parties draws from generators of its own. A network without
faults, with one delay and without a record of its messages costs one entry in the queue of the simulated clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import simpy

from wmlab.core.clock import Timer, generator
from wmlab.core.delays import Fixed, chances, delays_ms

if TYPE_CHECKING:
    from wmlab.streams.sim.world import World


@dataclass(slots=True, eq=False)
class Message:
    """One copy of a message, and what its arrival does."""

    act: Callable[..., object]
    args: tuple[Any, ...]
    row: dict[str, object] | None
    connected: bool
    delay_ms: int | None = None


@dataclass(slots=True)
class Link:
    """One direction between two parties: its draws, and when its last message in order arrives."""

    delays: Iterator[int]
    chances: Iterator[float]
    last_ms: int


@dataclass(slots=True, eq=False)
class Cut:
    """A partition: what it separates, and what waits for its end."""

    a: frozenset[str]
    b: frozenset[str]
    holds_calls: bool
    waiting: list[tuple[str, str, Message]] = field(default_factory=list)

    def separates(self, one: str, other: str) -> bool:
        """Whether messages between the two are stopped, in either direction."""
        return (one in self.a and other in self.b) or (one in self.b and other in self.a)


class Network:
    """All messages of a run."""

    def __init__(self, world: World) -> None:
        part = world.scenario.network
        self.part = part
        self._world = world
        self._env = world.env
        self._delay = part.delay if part.delay is not None else Fixed(world.scenario.latency_ms)
        self._links: dict[tuple[str, str, bool], Link] = {}
        self._cuts: list[Cut] = []
        even = isinstance(self._delay, Fixed) and not (part.loss or part.duplication or part.reordering)
        self._always_plain = even and not part.keep_messages
        self._plain = self._always_plain
        self._plain_ms = self._delay.ms if isinstance(self._delay, Fixed) else 0
        self._keeps = part.keep_messages
        self._inside_ms = part.inside.ms if isinstance(part.inside, Fixed) else None

    def send_rpc(
        self, stream: str, sender: str, receiver: str, what: str, about: object, act: Callable[..., None], *args: Any
    ) -> None:
        """Send a message that stands alone; `act(*args)` is done where and when it arrives, if it does."""
        if self._plain:
            Timer(self._env, self._plain_ms, act, args)
        else:
            message = Message(act, args, self._row(stream, sender, receiver, what, about), connected=False)
            self._dispatch(sender, receiver, message)

    def send(
        self, stream: str, sender: str, receiver: str, what: str, about: object, act: Callable[..., None], *args: Any
    ) -> None:
        """Send a message on the connection of the two parties; it arrives once, in order, when they are connected."""
        if self._plain:
            Timer(self._env, self._plain_ms, act, args)
        else:
            message = Message(act, args, self._row(stream, sender, receiver, what, about), connected=True)
            self._dispatch(sender, receiver, message)

    def internal_delay_ms(self, stream: str | None, sender: str, receiver: str, what: str, about: object = "") -> int:
        """A message between controllers, stores and coordinator: in how many ms it arrives, 0 for this very moment."""
        delay_ms = self._inside_ms
        if delay_ms is None:
            delay_ms = next(self._link(sender, receiver, inside=True).delays)
        if self._keeps:
            self._write(stream, sender, receiver, what, about)["received_ms"] = self._world.now_ms + delay_ms
        return delay_ms

    def delivery(
        self, stream: str | None, sender: str, receiver: str, what: str, about: object, *, delay_ms: int | None
    ) -> simpy.Event | None:
        """A message on a connection that its sender waits for: the moment it arrives, None for this very one.

        It takes `delay_ms`, None: as long as any other message. A partition holds it up in any case.
        """
        row = self._row(stream, sender, receiver, what, about)
        if delay_ms == 0 and not self.is_cut(sender, receiver):
            if row is not None:
                row["received_ms"] = self._world.now_ms
            return None
        arrival = self._env.event()
        self._dispatch(sender, receiver, Message(arrival.succeed, (), row, connected=True, delay_ms=delay_ms))
        return arrival

    @property
    def is_immediate(self) -> bool:
        """Whether internal messages take no time and are not recorded, and there is no partition."""
        return self._inside_ms == 0 and not self._cuts and not self._keeps

    def is_cut(self, one: str, other: str) -> bool:
        """Whether a partition lies between two parties right now."""
        return bool(self._cuts) and any(cut.separates(one, other) for cut in self._cuts)

    def cut(self, a: frozenset[str], b: frozenset[str], *, holds_calls: bool) -> Cut:
        """Separate two sides."""
        made = Cut(a, b, holds_calls)
        self._cuts.append(made)
        self._plain = False
        return made

    def heal(self, cut: Cut) -> None:
        """End a partition: what waited for its end is sent now, in order."""
        self._cuts.remove(cut)
        self._plain = self._always_plain and not self._cuts
        for sender, receiver, message in cut.waiting:
            self._dispatch(sender, receiver, message)

    def _dispatch(self, sender: str, receiver: str, message: Message) -> None:
        cut = next((cut for cut in self._cuts if cut.separates(sender, receiver)), None)
        if cut is None:
            self._travel(self._link(sender, receiver), message)
        elif message.connected or cut.holds_calls:
            cut.waiting.append((sender, receiver, message))

    def _travel(self, link: Link, message: Message) -> None:
        delay = next(link.delays) if message.delay_ms is None else message.delay_ms
        if message.connected:
            while self._happens(link, self.part.loss):
                delay += self.part.retransmit_ms
            self._in_order(link, delay, message)
            return
        if self._happens(link, self.part.loss):
            return
        if self._happens(link, self.part.duplication):
            self._in_order(link, next(link.delays), self._copy(message))
        if self._happens(link, self.part.reordering):
            self._world.after(delay + self.part.reordering_ms, self._arrive, message)
        else:
            self._in_order(link, delay, message)

    def _in_order(self, link: Link, delay: int, message: Message) -> None:
        now = self._world.now_ms
        link.last_ms = max(link.last_ms, now + delay)
        self._world.after(link.last_ms - now, self._arrive, message)

    def _arrive(self, message: Message) -> None:
        if message.row is not None:
            message.row["received_ms"] = self._world.now_ms
        message.act(*message.args)

    def _happens(self, link: Link, share: float) -> bool:
        return share > 0 and next(link.chances) < share

    def _copy(self, message: Message) -> Message:
        row = None if message.row is None else self._world.shared.write("messages", **message.row)
        return Message(message.act, message.args, row, message.connected)

    def _link(self, sender: str, receiver: str, *, inside: bool = False) -> Link:
        key = (sender, receiver, inside)
        if key not in self._links:
            seed, name = self._world.scenario.seed, f"{sender} → {receiver}{' inside' if inside else ''}"
            draws = generator(seed, f"delays {name}")
            self._links[key] = Link(
                delays=delays_ms(self.part.inside if inside else self._delay, draws),
                chances=chances(generator(seed, f"chances {name}")),
                last_ms=self._world.now_ms,
            )
        return self._links[key]

    def _row(
        self, stream: str | None, sender: str, receiver: str, what: str, about: object
    ) -> dict[str, object] | None:
        return self._write(stream, sender, receiver, what, about) if self._keeps else None

    def _write(self, stream: str | None, sender: str, receiver: str, what: str, about: object) -> dict[str, object]:
        return self._world.shared.write(
            "messages",
            stream=stream,
            sender=sender,
            receiver=receiver,
            kind=what,
            content=str(about),
            sent_ms=self._world.now_ms,
            received_ms=None,
        )
