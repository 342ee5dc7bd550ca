"""Scripts that are drawn at random, without the faults that a scenario would refuse because they overlap."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import SimpleNamespace
from typing import Final

from wmlab.streams.scenario.checks import overlaps
from wmlab.streams.scenario.parts import Controllers, Stream, controller_name
from wmlab.streams.scenario.script import Action, AddController

ONE: Final = Controllers()


def without_overlaps(
    script: Iterable[Action], streams: Sequence[Stream] = (Stream(),), controllers: Controllers = ONE
) -> list[Action]:
    """The actions in their order, each of which is left out if it overlaps with those before it."""
    kept: list[Action] = []
    for action in script:
        more = [*kept, action]
        count = controllers.count + sum(isinstance(other, AddController) for other in more)
        names = tuple(map(controller_name, range(count)))
        if not any(overlaps(SimpleNamespace(script=more, all_streams=streams, controller_names=names))):
            kept = more
    return kept
