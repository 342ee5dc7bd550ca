"""What a script does to the network and to the stores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wmlab.streams.scenario.script import Partition, StepClock, StoreUnavailable
from wmlab.streams.scenario.units import COORDINATOR

if TYPE_CHECKING:
    from wmlab.streams.sim.controller import Controller
    from wmlab.streams.sim.world import World


def partition(world: World, action: Partition) -> None:
    """Separate two sides for a while; a controller without its coordinator loses its session after the timeout."""
    sides = f"{action.a} and {action.b}"
    cut = world.network.cut(world.parties(action.a), world.parties(action.b), holds_calls=action.calls == "held")
    world.happened("partition", sides, f"{sides} are separated")
    alone = [member for member in world.fleet.members if cut.separates(member.name, COORDINATOR)]
    for controller in alone:
        world.after(world.scenario.controllers.session_timeout_ms, _expire_if_alone, world, controller, controller.life)

    def heal() -> None:
        world.network.heal(cut)
        world.happened("heal", sides, f"{sides} are connected again")
        for controller in alone:
            _reconnect(world, controller)

    if action.for_ms is not None:
        world.after(action.for_ms, heal)


def _expire_if_alone(world: World, controller: Controller, life: int) -> None:
    if (
        life == controller.life
        and controller.session is not None
        and world.network.is_cut(controller.name, COORDINATOR)
    ):
        world.coordinator.close(controller.session)


def _reconnect(world: World, controller: Controller) -> None:
    """The controller hears from the coordinator again: that its session has ended, or what its share is now."""
    world.coordinator.plan()
    if controller.session is not None and controller.session not in world.coordinator.state.sessions:
        world.later(controller.notice_expiry, controller.life)
    else:
        controller.meet_share()


def store_unavailable(world: World, action: StoreUnavailable) -> None:
    """Let a store refuse everything for a while."""
    what = action.store.replace("_", " ")
    world.metadata.refuse(action.store, action.for_ms)
    world.happened("unavailable", what, f"{what} unavailable")
    world.after(action.for_ms, world.happened, "available", what, f"{what} available again")


def step_clock(world: World, action: StepClock) -> None:
    """The clocks follow the script by themselves; this writes it down."""
    way = "forward" if action.by_ms >= 0 else "back"
    world.happened("clock", action.party, f"clock of {action.party} set {way} by {abs(action.by_ms)} ms")
