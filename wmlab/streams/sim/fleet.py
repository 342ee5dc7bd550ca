"""All controllers of a run, and which of them a script means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wmlab.streams.scenario.clock import Clock
from wmlab.streams.scenario.units import controller_name
from wmlab.streams.sim.clock import LocalClock
from wmlab.streams.sim.controller import Controller

if TYPE_CHECKING:
    from wmlab.streams.sim.world import World


class Fleet:
    """The controllers: `members` are those that writers know of and call, running or not."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._all: dict[str, Controller] = {}
        self.members: list[Controller] = []
        for _ in range(world.scenario.controllers.count):
            self._new()

    def _new(self) -> Controller:
        index = len(self._all)
        name, clocks = controller_name(index), self._world.scenario.controllers.clocks
        clock = LocalClock.of(self._world.scenario, name, clocks[index] if index < len(clocks) else Clock())
        made = Controller(self._world, name, clock)
        self._all[name] = made
        self.members.append(made)
        return made

    def start(self) -> None:
        """Start those that are there from the beginning."""
        for controller in self.members:
            controller.start()

    def add(self) -> Controller:
        """One more controller joins."""
        made = self._new()
        made.start()
        return made

    def remove(self, controller: Controller) -> None:
        """A controller leaves for good, in good order; writers stop calling it."""
        if controller in self.members and len(self.members) > 1:
            self.members.remove(controller)
        controller.leave()

    def __getitem__(self, name: str) -> Controller:
        return self._all[name]

    def leader(self, stream: str) -> Controller | None:
        """The owner of a stream's bucket, None while nobody owns it."""
        owner = self._world.coordinator.state.nodes.get(self._world.metadata.bucket(stream))
        return None if owner is None else self._all[owner.controller]

    def meant(self, role: str, stream: str) -> Controller | None:
        """The controller of a name or role; None when nobody has the role right now."""
        if role == "leader":
            return self.leader(stream)
        if role == "committer":
            return self._world.streams[stream].transactions.handler.committer()
        if role == "distributor":
            elected = self._world.coordinator.state.distributor
            return None if elected is None else self._all[elected.controller]
        return self._all.get(role)
