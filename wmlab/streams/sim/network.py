"""The simulated network: every message between two named parties goes through it.

A call may be lost, delivered twice or overtaken, as the scenario says; what travels on a connection arrives once and
in order, sooner or later. Each direction between two parties draws from generators of its own. A network without
faults, with one delay and without a record of its messages costs one entry in the queue of the simulated clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import simpy

from wmlab.core.simulation import Fixed, Timer, chances, delays_ms, generator
from wmlab.streams.model.wire import Lengths

if TYPE_CHECKING:
    from wmlab.streams.sim.world import World

Act = Callable[..., None]
"""What is done where and when a message arrives."""


@dataclass(slots=True, eq=False)
class Message:
    """One copy of a message, and what its arrival does; `delay_ms` None: it takes as long as any other."""

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
        self._inside_ms = part.inside.ms if isinstance(part.inside, Fixed) else None

    def send(
        self, connected: bool, stream: str, sender: str, receiver: str, what: str, about: object, act: Act, *args: Any
    ) -> None:
        """Send a message; `act(*args)` is done where and when it arrives.

        One that is `connected` arrives once, in order, when the two parties are; any other stands alone, and may not.
        """
        if self._plain:
            Timer(self._env, self._plain_ms, act, args)
        else:
            row = self._row(stream, sender, receiver, what, about)
            self._dispatch(sender, receiver, Message(act, args, row, connected))

    def internal_delay_ms(self, stream: str | None, sender: str, receiver: str, what: str, about: object = "") -> int:
        """A message between controllers, stores and coordinator: in how many ms it arrives, 0 for this very moment."""
        delay_ms = self._inside_ms
        if delay_ms is None:
            delay_ms = next(self._link(sender, receiver, inside=True).delays)
        row = self._row(stream, sender, receiver, what, about)
        if row is not None and not (isinstance(about, Lengths) and about.lost_ms):
            row["received_ms"] = self._world.now_ms + delay_ms
        return delay_ms

    def notify(self, stream: str | None, sender: str, receiver: str, what: str, about: object, act: Act) -> None:
        """Let a controller know of a change, which a partition prevents; `act` is done when it arrives."""
        if not self.is_cut(sender, receiver):
            delay_ms = self.internal_delay_ms(stream, sender, receiver, what, about)
            if delay_ms:
                self._world.after(delay_ms, act)
            else:
                act()

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
        return self._inside_ms == 0 and not self._cuts and not self.part.keep_messages

    def is_cut(self, one: str, other: str) -> bool:
        """Whether a partition lies between two parties right now."""
        return bool(self._cuts) and any(cut.separates(one, other) for cut in self._cuts)

    def cut(self, a: frozenset[str], b: frozenset[str], *, holds_calls: bool) -> Cut:
        """Separate two sides."""
        self._plain = False
        self._cuts.append(Cut(a, b, holds_calls))
        return self._cuts[-1]

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
        part = self.part
        delay_ms = next(link.delays) if message.delay_ms is None else message.delay_ms
        if message.connected:
            while self._happens(link, part.loss):
                delay_ms += part.retransmit_ms
        elif self._happens(link, part.loss):
            return
        else:
            if self._happens(link, part.duplication):
                row = None if message.row is None else self._world.shared.write("messages", **message.row)
                self._in_order(link, next(link.delays), replace(message, row=row))
            if self._happens(link, part.reordering):
                self._world.after(delay_ms + part.reordering_ms, self._arrive, message)
                return
        self._in_order(link, delay_ms, message)

    def _in_order(self, link: Link, delay_ms: int, message: Message) -> None:
        now_ms = self._world.now_ms
        link.last_ms = max(link.last_ms, now_ms + delay_ms)
        self._world.after(link.last_ms - now_ms, self._arrive, message)

    def _arrive(self, message: Message) -> None:
        if message.row is not None:
            message.row["received_ms"] = self._world.now_ms
        message.act(*message.args)

    @staticmethod
    def _happens(link: Link, share: float) -> bool:
        return share > 0 and next(link.chances) < share

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
        """The row of a message that is sent now; None when messages are not kept."""
        if not self.part.keep_messages:
            return None
        return self._world.shared.write(
            "messages",
            stream=stream,
            sender=sender,
            receiver=receiver,
            kind=what,
            content=str(about),
            bytes=getattr(about, "wire_bytes", None),
            sent_ms=self._world.now_ms,
            received_ms=None,
        )
