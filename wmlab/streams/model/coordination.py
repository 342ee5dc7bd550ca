"""Who is there, who is elected, and who owns which bucket: the coordination service as a value.

A controller is there as long as its session lives. The one that has been there longest is the distributor: it writes
the map of shares. A controller owns a bucket only through a node of its session in that bucket; the node goes with
the session, whether the controller knows or not. So two may believe that they own a bucket, but the service never
does.

Source: PDP-33, Distributing Streams across Controller instances; upstream classes `ZKBucketManager`, `BucketService`
and `UniformBucketDistributor`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from wmlab.core.errors import ModelError
from wmlab.streams.model.bucket import distribute, take


@dataclass(frozen=True, slots=True)
class Session:
    """A controller's session: its name and which of its sessions this is. Source: upstream `ClusterZKImpl`."""

    controller: str
    number: int

    def __str__(self) -> str:
        return f"{self.controller}, session {self.number}"


@dataclass(frozen=True, slots=True)
class Coordination:
    """Immutable state of the service: sessions by age, shares by controller, and the session in each bucket's node.

    Raises `ModelError` for a count of buckets below 1. Source: as the module.
    """

    buckets: int
    sessions: tuple[Session, ...] = ()
    shares: Mapping[str, frozenset[int]] = field(default_factory=dict)
    nodes: Mapping[int, Session] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.buckets < 1:
            raise ModelError(f"{self.buckets} is not a number of buckets.", remedy="Give at least one bucket.")

    def open(self, session: Session) -> Coordination:
        """The service with one more session. Raises `ModelError` if it is there already. Source: as the module."""
        if session in self.sessions:
            raise ModelError(f"{session} is open already.", remedy="Open every session once.")
        return replace(self, sessions=(*self.sessions, session))

    def close(self, session: Session) -> Coordination:
        """The service without a session and its nodes, whoever ended it; the shares stay until the next distribution.

        Source: upstream `ClusterZKImpl` (ephemeral nodes).
        """
        sessions = tuple(other for other in self.sessions if other != session)
        nodes = {bucket: owner for bucket, owner in self.nodes.items() if owner != session}
        return replace(self, sessions=sessions, nodes=nodes)

    @property
    def distributor(self) -> Session | None:
        """The session that has lived longest; None while there is none. Source: upstream `ZKBucketManager` (latch)."""
        return self.sessions[0] if self.sessions else None

    def distribute(self) -> Coordination:
        """The service with even shares for the controllers that are there, moving as few buckets as possible.

        Source: upstream class `UniformBucketDistributor`.
        """
        present = {session.controller for session in self.sessions}
        return replace(self, shares=distribute(present, self.buckets, self.shares))

    def share(self, controller: str) -> frozenset[int]:
        """The buckets a controller ought to own. Source: upstream class `ZKBucketManager` (bucket map)."""
        return self.shares.get(controller, frozenset())

    def take(self, bucket: int, session: Session) -> tuple[Coordination, bool]:
        """Create a bucket's node, and whether the session owns the bucket now: not if another does, or it has ended.

        Raises `ModelError` for a bucket that does not exist. Source: upstream `BucketService` (takeBucketOwnership).
        """
        if session not in self.sessions:
            return self, False
        owners = {held: str(owner) for held, owner in self.nodes.items()}
        _, owns = take(owners, bucket, str(session), self.buckets)
        return (replace(self, nodes={**self.nodes, bucket: session}), True) if owns else (self, False)

    def release(self, bucket: int, session: Session) -> Coordination:
        """The service after a session has deleted its node of a bucket; another's node stays.

        Source: upstream class `BucketService` (releaseBucketOwnership).
        """
        if self.nodes.get(bucket) != session:
            return self
        return replace(self, nodes={held: owner for held, owner in self.nodes.items() if held != bucket})
