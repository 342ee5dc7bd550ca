"""The simulated network: every message between two named nodes goes through it.

A message travels in one of three ways. A `CALL` is on its own: the scenario says how often it is lost, arrives twice or
is overtaken. On a `CONNECTION` messages arrive once and in order, sooner or later. `INSIDE` the service, between
controllers, stores and coordinator, they take a delay of their own. Each direction between two nodes draws from
generators of its own. A network without faults, with one delay and without a record of its messages costs one entry in
the queue of the simulated clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Any, Final, NamedTuple

from wmlab.core.simulation import Fixed, Journal, Simulation, Timer, chances, delays_ms, generator
from wmlab.streams.model.wire import Lengths
from wmlab.streams.scenario.scenario import StreamScenario

_RETRANSMIT_MS: Final = 200
"""After how long a message that was lost on a connection is sent again."""


class Way(Enum):
    """How a message travels."""

    CALL = auto()
    CONNECTION = auto()
    INSIDE = auto()


class Message(NamedTuple):
    """Who tells whom what, as the table `messages` shows it; `stream` is the title of the stream that it is about."""

    stream: str | None
    sender: str
    receiver: str
    kind: str
    content: object = ""

    def reply(self, kind: str, content: object = "") -> Message:
        """The message that goes back."""
        return Message(self.stream, self.receiver, self.sender, kind, content)


@dataclass(slots=True, eq=False)
class _Packet:
    """One copy of a message on its way, and what its arrival does; `delay_ms` None: it takes as long as any other."""

    act: Callable[..., Any]
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

    def __init__(self, world: Simulation, scenario: StreamScenario, journal: Journal) -> None:
        part = scenario.network
        self.part = part
        self._world = world
        self._journal = journal
        self._env = world.env
        self._delay = part.delay if part.delay is not None else Fixed(scenario.latency_ms)
        self._channels: dict[tuple[str, str, bool], _Channel] = {}
        self._partitions: list[NetworkPartition] = []
        even = isinstance(self._delay, Fixed) and not (part.loss or part.duplication or part.reordering)
        self._always_plain = even and not part.keep_messages
        self._plain = self._always_plain
        self._plain_ms = self._delay.ms if isinstance(self._delay, Fixed) else 0
        self._inside_ms = part.inside.ms if isinstance(part.inside, Fixed) else None
        self._always_immediate = self._inside_ms == 0 and not part.keep_messages
        self.is_immediate = self._always_immediate

    def carry(
        self,
        message: Message,
        act: Callable[..., Any],
        *args: Any,
        way: Way = Way.CONNECTION,
        delay_ms: int | None = None,
    ) -> None:
        """Do `act(*args)` where and when a message arrives; of a call perhaps never, or twice.

        It takes `delay_ms`, None: as long as any other message that travels this way. What takes no time has arrived at
        once, on a connection only if `delay_ms` says so.
        """
        if way is Way.INSIDE:
            self._carry_inside(message, act, args)
        elif self._plain and delay_ms is None:
            Timer(self._env, self._plain_ms, act, args)
        else:
            reliable = way is Way.CONNECTION
            packet = _Packet(act, args, self._row(message), reliable=reliable, delay_ms=delay_ms)
            if delay_ms == 0 and not self.is_separated(message.sender, message.receiver):
                self._arrive(packet)
            else:
                self._dispatch(message.sender, message.receiver, packet)

    def notify(self, message: Message, act: Callable[[], None]) -> None:
        """Let a controller know of a change, which a partition prevents."""
        if not self.is_separated(message.sender, message.receiver):
            self.carry(message, act, way=Way.INSIDE)

    def _carry_inside(self, message: Message, act: Callable[..., Any], args: tuple[Any, ...]) -> None:
        delay_ms = self._inside_ms
        if delay_ms is None:
            delay_ms = next(self._channel(message.sender, message.receiver, inside=True).delays)
        row = self._row(message)
        if row is not None and not (isinstance(message.content, Lengths) and message.content.lost_ms):
            row["received_ms"] = self._world.now_ms + delay_ms
        if delay_ms:
            Timer(self._env, delay_ms, act, args)
        else:
            act(*args)

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
                delay_ms += _RETRANSMIT_MS
        elif self._happens(channel, part.loss):
            return
        else:
            if self._happens(channel, part.duplication):
                row = None if packet.row is None else self._journal.write("messages", **packet.row)
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
            seed, name = self._world.seed, f"{sender} → {receiver}{' inside' if inside else ''}"
            draws = generator(seed, f"delays {name}")
            self._channels[key] = _Channel(
                delays=delays_ms(self.part.inside if inside else self._delay, draws),
                chances=chances(generator(seed, f"chances {name}")),
                last_ms=self._world.now_ms,
            )
        return self._channels[key]

    def _row(self, message: Message) -> dict[str, object] | None:
        """The row of a message that is sent now; None when messages are not kept."""
        if not self.part.keep_messages:
            return None
        return self._journal.write(
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
