"""Mistakes of a scenario that no single field shows: names nobody has, and actions that cannot be carried out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from wmlab.core.errors import ModelError
from wmlab.core.values import Problem
from wmlab.streams.model.history import StreamHistory
from wmlab.streams.scenario.checks_readers import reader_problems
from wmlab.streams.scenario.checks_writers import process_names, writer_problems
from wmlab.streams.scenario.script import (
    Action,
    AddController,
    AddReader,
    DeleteStream,
    Partition,
    Scale,
    SealStream,
    StepClock,
)
from wmlab.streams.scenario.units import EVERY, SERVICES, controller_name

if TYPE_CHECKING:
    from wmlab.streams.scenario.scenario import StreamScenario

ROLES = ("leader", "committer", "distributor")
"""What a script may call a controller besides its name."""


def problems_across(scenario: StreamScenario) -> Iterator[Problem]:
    """All mistakes across the parts of a scenario."""
    yield from _stream_problems(scenario)
    yield from _repeated("writers", (writer.name for writer in scenario.writers), "writer")
    yield from _repeated("streams", (stream.name for stream in scenario.streams), "stream")
    yield from _repeated("readers", (group.name for group in scenario.groups), "group")
    for index, action in enumerate(scenario.script):
        if action.at_ms >= scenario.duration_ms:
            message = f"lies at or after the end of the scenario, {scenario.duration_ms} (got {action.at_ms})"
            yield Problem(("script", index, "at_ms"), message)
        yield from _name_problems(scenario, index, action)
    yield from writer_problems(scenario.writers, scenario.script)
    yield from reader_problems(scenario.groups, scenario.script)
    yield from _scale_problems(scenario)


def controllers_of(scenario: StreamScenario) -> tuple[str, ...]:
    """The names of all controllers that there are at the start or that join later."""
    joining = sum(isinstance(action, AddController) for action in scenario.script)
    return tuple(controller_name(index) for index in range(scenario.controllers.count + joining))


def readers_of(scenario: StreamScenario) -> tuple[str, ...]:
    """The names of all readers that there are at the start or that join later."""
    joining = tuple(action.reader for action in scenario.script if isinstance(action, AddReader))
    return (*(name for group in scenario.groups for name in group.reader_names()), *joining)


def _stream_problems(scenario: StreamScenario) -> Iterator[Problem]:
    if scenario.streams and scenario.stream != type(scenario.stream)():
        yield Problem(("streams",), "give either stream or streams, not both")
    names = [stream.name for stream in scenario.all_streams]
    parts: list[tuple[tuple[str | int, ...], str | None]] = []
    parts += [(("writers", index), writer.stream) for index, writer in enumerate(scenario.writers)]
    several = isinstance(scenario.readers, tuple)
    for index, group in enumerate(scenario.groups):
        where = ("readers", index) if several else ("readers",)
        parts += [(where, named) for named in (group.streams or (group.stream,))]
    for location, named in parts:
        if named is None and len(names) > 1:
            yield Problem((*location, "stream"), f"must say which stream; there are: {', '.join(names)}")
        elif named is not None and named not in names:
            yield Problem((*location, "stream"), f"no stream is called {named!r}; there are: {', '.join(names)}")


def _repeated(field: str, names: Iterable[str], what: str) -> Iterator[Problem]:
    given = list(names)
    counts = Counter(given)
    for index, name in enumerate(given):
        if counts[name] > 1:
            yield Problem((field, index, "name"), f"another {what} is called {name!r} too")


def _name_problems(scenario: StreamScenario, index: int, action: Action) -> Iterator[Problem]:
    processes = sorted(process_names(scenario.writers, scenario.script))
    controllers = controllers_of(scenario)
    known = {
        "writer": processes,
        "controller": [*ROLES, *controllers],
        "stream": [stream.name for stream in scenario.all_streams],
    }
    if isinstance(action, StepClock):
        known["party"] = [*sorted(writer.name for writer in scenario.writers), *controllers]
    if isinstance(action, Partition):
        known["a"] = known["b"] = [*EVERY, *SERVICES, *processes, *controllers, *readers_of(scenario)]
    for field, names in known.items():
        named = getattr(action, field, None)
        if named is not None and named not in names:
            what = {"party": "writer or controller", "a": "party", "b": "party"}.get(field, field)
            yield Problem(("script", index, field), f"no {what} is called {named!r}; there are: {', '.join(names)}")


def _scale_problems(scenario: StreamScenario) -> Iterator[Problem]:
    """Scales that the history of their stream refuses when the script is tried in order of time."""
    counts = {stream.name: stream.segments for stream in scenario.all_streams}
    histories = {name: StreamHistory.create(segments) for name, segments in counts.items()}
    closed: set[str] = set()
    for _, index, name, action in sorted(_steps(scenario), key=lambda step: step[:2]):
        if name not in histories:
            continue
        if action is None:
            number = 1 + max(segment.number for segment in histories[name].segments.values())
            histories[name] = StreamHistory.create(counts[name], first_number=number)
            closed.discard(name)
        elif not isinstance(action, Scale):
            closed.add(name)
        elif name in closed:
            yield Problem(("script", index, "at_ms"), "the stream is sealed or deleted then")
        else:
            try:
                histories[name] = histories[name].scale(action.seal, action.ranges)
            except ModelError as error:
                yield Problem(("script", index, "seal"), error.problem)


def _steps(scenario: StreamScenario) -> Iterator[tuple[int, int, str, Scale | SealStream | DeleteStream | None]]:
    """What changes a stream's segments: when, place in the script, stream, and the action; None: it is created anew."""
    for index, action in enumerate(scenario.script):
        if isinstance(action, Scale | SealStream | DeleteStream):
            name = action.stream or scenario.all_streams[0].name
            yield action.at_ms, index, name, action
            if isinstance(action, DeleteStream) and action.recreate_after_ms is not None:
                yield action.at_ms + action.recreate_after_ms, index, name, None
