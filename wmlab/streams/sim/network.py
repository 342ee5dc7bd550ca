"""The simulated network: every message between two named nodes goes through it.

Two ways to send. `call` makes a request that stands alone: the scenario says how often it or its answer is lost,
arrives twice or is overtaken. `deliver` sends on a connection: the message arrives once and in order, sooner or later.
Messages inside the service, between controllers, stores and coordinator, take a delay of their own. Each direction
between two nodes draws from generators of its own. A network without faults, with one delay and without a record of
its messages costs one entry in the queue of the simulated clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import simpy

from wmlab.core.simulation import Fixed, Timer, chances, delays_ms, generator
from wmlab.streams.model.wire import Lengths

if TYPE_CHECKING:
    from wmlab.streams.sim.world import World

Act = Callable[..., None]
"""What is done where and when a message arrives."""


class NetworkMessage(NamedTuple):
    """Who tells whom what, as the table `messages` shows it; `stream` is the title of the stream that it is about."""

    stream: str | None
    sender: str
    receiver: str
    kind: str
    content: object = ""

    def reply(self, kind: str, content: object = "") -> NetworkMessage:
        """The message that goes back."""
        return NetworkMessage(self.stream, self.receiver, self.sender, kind, content)


@dataclass(slots=True, eq=False)
class _Packet:
    """One copy of a message on its way, and what its arrival does; `delay_ms` None: it takes as long as any other."""

    act: Callable[..., object]
    args: tuple[Any, ...]
    row: dict[str, object] | None
    reliable: bool
    delay_ms: int | None = None


@dataclass(slots=True)
class _Channel:
    """One direction between two nodes: its draws, and when its last message in order arrives."""

    delays: Iterator[int]
    chances: Iterator[float]
    last_ms: int


@dataclass(slots=True, eq=False)
class NetworkPartition:
    """What a partition separates, and what waits for its end."""

    a: frozenset[str]
    b: frozenset[str]
    holds_calls: bool
    waiting: list[tuple[str, str, _Packet]] = field(default_factory=list)

    def separates(self, node: str, other: str) -> bool:
        """Whether messages between the two are stopped, in either direction."""
        return (node in self.a and other in self.b) or (node in self.b and other in self.a)


class SimulatedNetwork:
    """All messages of a run; `is_immediate`: those inside the service take no time now, and nobody writes them down."""

    def __init__(self, world: World) -> None:
        part = world.scenario.network
        self.part = part
        self._world = world
        self._env = world.env
        self._delay = part.delay if part.delay is not None else Fixed(world.scenario.latency_ms)
        self._channels: dict[tuple[str, str, bool], _Channel] = {}
        self._partitions: list[NetworkPartition] = []
        even = isinstance(self._delay, Fixed) and not (part.loss or part.duplication or part.reordering)
        self._always_plain = even and not part.keep_messages
        self._plain = self._always_plain
        self._plain_ms = self._delay.ms if isinstance(self._delay, Fixed) else 0
        self._inside_ms = part.inside.ms if isinstance(part.inside, Fixed) else None
        self._always_immediate = self._inside_ms == 0 and not part.keep_messages
        self.is_immediate = self._always_immediate

    def call(
        self,
        request: NetworkMessage,
        serve: Callable[[Callable[[Any], None]], None],
        then: Callable[[Any], None],
        *,
        answer_within_ms: int | None = None,
    ) -> None:
        """Make a request whose answer may never come; `then` gets the first answer that does.

        `serve` is done where and when the request arrives, once for each copy of it, and gets a function that sends the
        answer back. Without an answer `then` gets None after `answer_within_ms`, if that is given.
        """
        is_answered = False

        def take(answer: Any) -> None:
            nonlocal is_answered
            if not is_answered:
                is_answered = True
                then(answer)

        def send_back(answer: Any) -> None:
            self._send(request.reply("answer", answer), take, (answer,), reliable=False)

        self._send(request, serve, (send_back,), reliable=False)
        if answer_within_ms is not None:
            self._world.after(answer_within_ms, take, None)

    def deliver(self, message: NetworkMessage, act: Act, *args: Any) -> None:
        """Send a message on a connection: once and in order `act(*args)` is done where and when it arrives."""
        self._send(message, act, args, reliable=True)

    def arrival(self, message: NetworkMessage, *, delay_ms: int | None) -> simpy.Event | None:
        """Send a message on a connection and wait: the event of its arrival, None when it arrives this very moment.

        It takes `delay_ms`, None: as long as any other message. A partition holds it up in any case.
        """
        row = self._row(message)
        if delay_ms == 0 and not self.is_separated(message.sender, message.receiver):
            if row is not None:
                row["received_ms"] = self._world.now_ms
            return None
        arrival = self._env.event()
        packet = _Packet(arrival.succeed, (), row, reliable=True, delay_ms=delay_ms)
        self._dispatch(message.sender, message.receiver, packet)
        return arrival

    def internal_delay_ms(self, message: NetworkMessage) -> int:
        """Send a message inside the service: in how many ms it arrives, 0 for this very moment."""
        delay_ms = self._inside_ms
        if delay_ms is None:
            delay_ms = next(self._channel(message.sender, message.receiver, inside=True).delays)
        row = self._row(message)
        if row is not None and not (isinstance(message.content, Lengths) and message.content.lost_ms):
            row["received_ms"] = self._world.now_ms + delay_ms
        return delay_ms

    def notify(self, message: NetworkMessage, act: Act) -> None:
        """Let a controller know of a change, which a partition prevents; `act` is done when it arrives."""
        if not self.is_separated(message.sender, message.receiver):
            delay_ms = self.internal_delay_ms(message)
            if delay_ms:
                self._world.after(delay_ms, act)
            else:
                act()

    def is_separated(self, node: str, other: str) -> bool:
        """Whether a partition lies between two nodes right now."""
        return bool(self._partitions) and any(partition.separates(node, other) for partition in self._partitions)

    def separate(self, a: frozenset[str], b: frozenset[str], *, holds_calls: bool) -> NetworkPartition:
        """Begin a partition between two sides."""
        self._plain = self.is_immediate = False
        self._partitions.append(NetworkPartition(a, b, holds_calls))
        return self._partitions[-1]

    def heal(self, partition: NetworkPartition) -> None:
        """End a partition: what waited for its end is sent now, in order."""
        self._partitions.remove(partition)
        if not self._partitions:
            self._plain, self.is_immediate = self._always_plain, self._always_immediate
        for sender, receiver, packet in partition.waiting:
            self._dispatch(sender, receiver, packet)

    def _send(self, message: NetworkMessage, act: Act, args: tuple[Any, ...], *, reliable: bool) -> None:
        if self._plain:
            Timer(self._env, self._plain_ms, act, args)
        else:
            packet = _Packet(act, args, self._row(message), reliable=reliable)
            self._dispatch(message.sender, message.receiver, packet)

    def _dispatch(self, sender: str, receiver: str, packet: _Packet) -> None:
        partition = next((each for each in self._partitions if each.separates(sender, receiver)), None)
        if partition is None:
            self._travel(self._channel(sender, receiver), packet)
        elif packet.reliable or partition.holds_calls:
            partition.waiting.append((sender, receiver, packet))

    def _travel(self, channel: _Channel, packet: _Packet) -> None:
        part = self.part
        delay_ms = next(channel.delays) if packet.delay_ms is None else packet.delay_ms
        if packet.reliable:
            while self._happens(channel, part.loss):
                delay_ms += part.retransmit_ms
        elif self._happens(channel, part.loss):
            return
        else:
            if self._happens(channel, part.duplication):
                row = None if packet.row is None else self._world.shared.write("messages", **packet.row)
                self._in_order(channel, next(channel.delays), replace(packet, row=row))
            if self._happens(channel, part.reordering):
                self._world.after(delay_ms + part.reordering_ms, self._arrive, packet)
                return
        self._in_order(channel, delay_ms, packet)

    def _in_order(self, channel: _Channel, delay_ms: int, packet: _Packet) -> None:
        now_ms = self._world.now_ms
        channel.last_ms = max(channel.last_ms, now_ms + delay_ms)
        self._world.after(channel.last_ms - now_ms, self._arrive, packet)

    def _arrive(self, packet: _Packet) -> None:
        if packet.row is not None:
            packet.row["received_ms"] = self._world.now_ms
        packet.act(*packet.args)

    @staticmethod
    def _happens(channel: _Channel, share: float) -> bool:
        return share > 0 and next(channel.chances) < share

    def _channel(self, sender: str, receiver: str, *, inside: bool = False) -> _Channel:
        key = (sender, receiver, inside)
        if key not in self._channels:
            seed, name = self._world.scenario.seed, f"{sender} → {receiver}{' inside' if inside else ''}"
            draws = generator(seed, f"delays {name}")
            self._channels[key] = _Channel(
                delays=delays_ms(self.part.inside if inside else self._delay, draws),
                chances=chances(generator(seed, f"chances {name}")),
                last_ms=self._world.now_ms,
            )
        return self._channels[key]

    def _row(self, message: NetworkMessage) -> dict[str, object] | None:
        """The row of a message that is sent now; None when messages are not kept."""
        if not self.part.keep_messages:
            return None
        return self._world.shared.write(
            "messages",
            stream=message.stream,
            sender=message.sender,
            receiver=message.receiver,
            kind=message.kind,
            content=str(message.content),
            bytes=getattr(message.content, "wire_bytes", None),
            sent_ms=self._world.now_ms,
            received_ms=None,
        )
