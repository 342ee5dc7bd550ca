"""The coordination service of the controllers: sessions, who owns which bucket, and the table `ownership`.

Source: PDP-33, "Distributing Streams Across Controller Instances"; upstream classes `ZKBucketManager`, `BucketManager`
and `BucketService`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from wmlab.streams.model.coordination import Coordination, Session, bucket_of, qualified_name
from wmlab.streams.scenario.parts import COORDINATOR
from wmlab.streams.sim.network import Message, Way
from wmlab.streams.sim.world import World


class BucketOwner(Protocol):
    """A controller as the coordination service and the metadata store know it: what they notify it of."""

    name: str
    session: Session | None
    buckets: set[int]

    @property
    def is_working(self) -> bool:
        """Whether the process runs and is not paused."""

    def rebalance_buckets(self) -> None:
        """The shares have changed, or a bucket is free."""

    def release_bucket(self, bucket: int) -> None:
        """The bucket is another's now."""

    def add_work(self, stream: str) -> None:
        """A stream has come into one of the buckets."""

    def drop_work(self, stream: str) -> None:
        """A stream has left one of the buckets."""


class Committer(Protocol):
    """Commits the transactions of a stream; `follows_leader`: on the controller that owns its bucket."""

    @property
    def follows_leader(self) -> bool:
        """Whether a new owner of the bucket takes the commits over."""

    def wake(self) -> None:
        """Commit what waits, if a controller can now."""


class Coordinator:
    """One service for all controllers, and the table `ownership`.

    `owners` are the controllers that it notifies, `committers` what commits on them, by the name of the stream.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._part = world.scenario.controllers
        self.state = Coordination(self._part.buckets)
        self._next_ms = world.scenario.start_ms
        self._planned_ms: int | None = None
        self._blocked_buckets: Counter[int] = Counter()
        names = [part.name for part in world.scenario.all_streams]
        self._homes = {name: bucket_of(qualified_name(name), self._part.buckets) for name in names}
        self._open_rows: dict[int, dict[str, object]] = {}
        self.owners: Sequence[BucketOwner] = ()
        self.committers: dict[str, Committer] = {}

    def open(self, session: Session) -> None:
        """A controller is there: the buckets are distributed again, not at once but soon."""
        self.state = self.state.open(session)
        self.plan()
        self.wake_committers()

    def close(self, session: Session) -> None:
        """A session ends: its nodes vanish, and others may take their buckets."""
        if session not in self.state.sessions:
            return
        lost = [bucket for bucket, owner in self.state.nodes.items() if owner == session]
        elected = self.state.distributor
        self.state = self.state.close(session)
        for bucket in lost:
            self._end(bucket)
        if self.state.distributor != elected:
            # A new distributor has not distributed yet, so it need not wait.
            self._next_ms = self._world.now_ms
        self.plan()
        for bucket in lost:
            self._announce(bucket)
        self.wake_committers()

    def wake_committers(self, *, of_leaders: bool = False) -> None:
        """Sessions have changed, or only who leads a stream: commits that waited for a controller may have one."""
        for committer in self.committers.values():
            if committer.follows_leader or not of_leaders:
                committer.wake()

    def plan(self) -> None:
        """Distribute at the next moment that is allowed; all joins of this very moment count.

        In a contest nobody distributes: everybody looks for free buckets at once.
        """
        if self._world.rules.distribution == "contest":
            self._announce()
            return
        at_ms = max(self._next_ms, self._world.now_ms)
        if self._planned_ms is None or at_ms < self._planned_ms:
            self._planned_ms = at_ms
            self._world.after(at_ms - self._world.now_ms, self._distribute, at_ms)

    def _distribute(self, planned_ms: int) -> None:
        if planned_ms != self._planned_ms:
            return
        self._planned_ms = None
        elected = self.state.distributor
        distributor = None if elected is None else self._owner(elected)
        if distributor is None or distributor.session != elected or not distributor.is_working:
            return
        if self._world.network.is_separated(distributor.name, COORDINATOR):
            return
        self._next_ms = self._world.now_ms + self._part.redistribute_every_ms
        self.state = self.state.distribute()
        request = Message(None, distributor.name, COORDINATOR, "distribute", self._part.buckets)
        self._world.network.carry(request, lambda: None, way=Way.INSIDE)
        self._announce()

    def _owner(self, session: Session) -> BucketOwner | None:
        """The controller of a session; None if it has left for good."""
        return next((owner for owner in self.owners if owner.name == session.controller), None)

    def _announce(self, bucket: int | None = None) -> None:
        """The shares have changed, or the node of a bucket has gone: its next owner tries again."""
        anybody = bucket is None or self._world.rules.distribution == "contest"
        for controller in self.owners:
            if anybody or bucket in self.state.share(controller.name):
                news = Message(None, COORDINATOR, controller.name, "shares changed")
                self._world.network.notify(news, controller.rebalance_buckets)

    def take(self, bucket: int, session: Session) -> bool:
        """Create the node of a bucket, if there is none and nobody holds it back."""
        if self._blocked_buckets[bucket]:
            return False
        had = self.state.nodes.get(bucket)
        self.state, owns = self.state.take(bucket, session)
        if owns and had != session:
            self._open_rows[bucket] = self._world.shared.write(
                "ownership",
                bucket=bucket,
                controller=session.controller,
                streams=[name for name, home in self._homes.items() if home == bucket],
                from_ms=self._world.now_ms,
                to_ms=None,
            )
        return owns

    def release(self, bucket: int, session: Session) -> None:
        """Delete the node of a bucket if the session has it."""
        if self.state.nodes.get(bucket) == session:
            self.state = self.state.release(bucket, session)
            self._end(bucket)
            self._announce(bucket)

    def hold_back(self, bucket: int, for_ms: int) -> None:
        """Take a bucket's node away and let nobody create it for a while."""
        self._blocked_buckets[bucket] += 1
        owner = self.state.nodes.get(bucket)
        if owner is not None:
            controller = self._owner(owner)
            if controller is not None:
                controller.release_bucket(bucket)
            self.release(bucket, owner)
        self._world.after(for_ms, self._let_go, bucket)

    def _let_go(self, bucket: int) -> None:
        self._blocked_buckets[bucket] -= 1
        if not self._blocked_buckets[bucket]:
            self._announce(bucket)

    def _end(self, bucket: int) -> None:
        self._open_rows.pop(bucket)["to_ms"] = self._world.now_ms

    def finish(self) -> None:
        """At the end of a run: one controller that had everything all the time is not worth a row for every bucket."""
        rows = self._world.shared.rows.get("ownership", [])
        owners = {row["controller"] for row in rows}
        start_ms = self._world.scenario.start_ms
        if len(owners) == 1 and all(row["from_ms"] == start_ms and row["to_ms"] is None for row in rows):
            rows.clear()
