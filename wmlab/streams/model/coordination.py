"""The coordination service as a value: the live controllers, the elected one, and the owners of watermark buckets.

A stream belongs to the bucket its name hashes to. A controller is there as long as its session lives. The one that has
been there longest is the distributor: it spreads the buckets over the live controllers so that their loads differ by
one at most, and moves as few as it can. A controller owns a bucket only through a node of its session in that bucket;
the node goes with the session, whether the controller knows or not. So two may believe that they own a bucket, but the
service never does.

Without a distributor, controllers contest for the buckets: the first that creates the node of one owns it, as the
document has it. What that gives is a matter of who comes first; `fairness` says how even it is.

Source: PDP-33, Distributing Streams across Controller instances; upstream classes `BucketStore` (getBucket),
`ZKBucketManager`, `BucketService` (takeBucketOwnership), `ClusterZKImpl` and `UniformBucketDistributor`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from wmlab.core.errors import ModelError

DEFAULT_SCOPE: Final = "scope"
"""The scope of a stream that is named without one."""


def qualified_name(stream: str) -> str:
    """The fully qualified name of a stream: "scope/stream"; one named without a scope is in `DEFAULT_SCOPE`.

    Source: PDP-33, Distributing Streams Across Controller Instances; upstream class `StreamImpl` (getScopedName).
    """
    return stream if "/" in stream else f"{DEFAULT_SCOPE}/{stream}"


def bucket_of(stream: str, count: int) -> int:
    """The bucket 0 .. count - 1 of a stream, by its fully qualified name, "scope/stream".

    The hash is the 32-bit polynomial with base 31 over the UTF-16 units of the name, sign bit cleared.
    """
    units = stream.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) % 2**32
    return value % 2**31 % count


def distribute(
    controllers: Collection[str], count: int, before: Mapping[str, frozenset[int]] | None = None
) -> Mapping[str, frozenset[int]]:
    """The buckets 0 .. count - 1 of each controller: every bucket once, loads differing by one at most.

    A bucket leaves its controller `before` only if that is gone or has more than its share. Without controllers the
    result is empty.
    """
    if not controllers:
        return {}
    owned = {name: sorted(b for b in (before or {}).get(name, ()) if b < count) for name in sorted(controllers)}
    share, larger = divmod(count, len(owned))
    # The controllers that hold most keep the one bucket that some have more than others.
    by_load = sorted(owned, key=lambda name: (-len(owned[name]), name))
    quota = {name: share + (rank < larger) for rank, name in enumerate(by_load)}
    buckets_of = {name: buckets[: quota[name]] for name, buckets in owned.items()}
    free = sorted(set(range(count)) - {bucket for buckets in buckets_of.values() for bucket in buckets})
    for name, buckets in buckets_of.items():
        missing = quota[name] - len(buckets)
        buckets.extend(free[:missing])
        del free[:missing]
    return {name: frozenset(buckets) for name, buckets in buckets_of.items()}


def fairness(loads: Collection[float]) -> float:
    """How evenly loads are spread, from 1 / n (one has all) to 1 (all the same), which it also is without any load.

    It is the square of the sum over n times the sum of squares. Source: R. Jain, D. Chiu and W. Hawe, "A quantitative
    measure of fairness and discrimination for resource allocation in shared computer systems", 1984.
    """
    squares = len(loads) * sum(load * load for load in loads)
    return sum(loads) ** 2 / squares if squares else 1.0


@dataclass(frozen=True, slots=True)
class Session:
    """A controller's session: its name and which of its sessions this is."""

    controller: str
    number: int


@dataclass(frozen=True, slots=True)
class Coordination:
    """Immutable state of the service: sessions by age, shares by controller, and the session in each bucket's node."""

    buckets: int
    sessions: tuple[Session, ...] = ()
    shares: Mapping[str, frozenset[int]] = field(default_factory=dict)
    nodes: Mapping[int, Session] = field(default_factory=dict)

    def open(self, session: Session) -> Coordination:
        """The service with one more session."""
        return replace(self, sessions=(*self.sessions, session))

    def close(self, session: Session) -> Coordination:
        """The service without a session and its nodes; the shares stay until the next distribution."""
        sessions = tuple(other for other in self.sessions if other != session)
        nodes = {bucket: owner for bucket, owner in self.nodes.items() if owner != session}
        return replace(self, sessions=sessions, nodes=nodes)

    @property
    def distributor(self) -> Session | None:
        """The session that has lived longest; None while there is none."""
        return self.sessions[0] if self.sessions else None

    def distribute(self) -> Coordination:
        """The service with even shares for the controllers that are there, moving as few buckets as possible."""
        present = {session.controller for session in self.sessions}
        return replace(self, shares=distribute(present, self.buckets, self.shares))

    @property
    def free(self) -> tuple[int, ...]:
        """The buckets that nobody owns, ascending."""
        return tuple(bucket for bucket in range(self.buckets) if bucket not in self.nodes)

    def share(self, controller: str) -> frozenset[int]:
        """The buckets a controller ought to own."""
        return self.shares.get(controller, frozenset())

    def take(self, bucket: int, session: Session) -> tuple[Coordination, bool]:
        """Create a bucket's node, and whether the session owns the bucket now: not if another does, or it has ended.

        Taking one's own bucket again succeeds. Raises `ModelError` for a bucket outside 0 .. `buckets` - 1.
        """
        if not 0 <= bucket < self.buckets:
            raise ModelError(f"There is no bucket {bucket}.", remedy=f"Give a bucket between 0 and {self.buckets - 1}.")
        if session not in self.sessions or self.nodes.get(bucket, session) != session:
            return self, False
        return replace(self, nodes={**self.nodes, bucket: session}), True

    def release(self, bucket: int, session: Session) -> Coordination:
        """The service after a session has deleted its node of a bucket; another's node stays."""
        if self.nodes.get(bucket) != session:
            return self
        return replace(self, nodes={other: owner for other, owner in self.nodes.items() if other != bucket})
