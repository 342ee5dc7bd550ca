"""A run from its beginning to its end: streams and parties begin, the clock goes on, the last rows are written."""

from __future__ import annotations

from collections.abc import Callable

from wmlab.core.simulation import Journal
from wmlab.streams.sim.actions import Actions
from wmlab.streams.sim.parties import Parties

_STEPS = 100


def run_to_end(parties: Parties, progress: Callable[[int], None] = lambda _: None) -> None:
    """Run to the end of the scenario; `progress` gets the percentage done."""
    world, scenario = parties.world, parties.world.scenario
    for stream in parties.all_streams():
        parties.open_stream(stream)
    for controller in parties.controllers.members:
        controller.start()
    actions = Actions(parties)
    actions.plan(scenario.script)
    for writer in parties.writers.values():
        world.after(writer.part.starts_ms, writer.start)
    for group in scenario.groups:
        world.after(group.starts_ms, parties.start_group, group)
    for step in range(1, _STEPS + 1):
        until = scenario.start_ms + scenario.duration_ms * step // _STEPS
        if until > world.env.now:
            world.env.run(until=until)
        progress(step)
    parties.coordinator.finish()
    actions.write_pending_actions()
    for stream in parties.all_streams():
        stream.write_segments()
        parties.transactions_of(stream).write()
    for begun in parties.begun_groups:
        begun.write_checkpoints()


def journals_of(parties: Parties) -> dict[str | None, Journal]:
    """The rows of each stream by its title, deleted streams first, and under None those of no stream."""
    return {**{stream.title: stream.journal for stream in parties.all_streams()}, None: parties.world.shared}
