"""The fields of a scenario: its parts as one value, and the names of all who take part."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Final

from pydantic import Discriminator, Field, Tag

from wmlab.core.rules import OrName
from wmlab.core.scenario_file import ScenarioFile
from wmlab.core.values import Ms, Period, SignedStart, branch, value
from wmlab.streams.scenario import script
from wmlab.streams.scenario.network import Network
from wmlab.streams.scenario.parts import (
    Controllers,
    EventWriter,
    ReaderGroup,
    Stream,
    TransactionalWriter,
    WriterPart,
    controller_name,
    process_name,
)
from wmlab.streams.scenario.rules import Rules
from wmlab.streams.scenario.script import Action

_NO_GROUP, _ONE_GROUP, _SEVERAL_GROUPS = branch("no group"), branch("one group"), branch("several groups")
_EVENT_WRITER, _TRANSACTIONAL_WRITER = branch("event writer"), branch("transactional writer")


def _how_many_groups(raw: object) -> str:
    return _SEVERAL_GROUPS if isinstance(raw, list | tuple) else _NO_GROUP if raw is None else _ONE_GROUP


def _which_writer(raw: object) -> str:
    """Which writer a value is; plain data that does not say so is an event writer."""
    kind = raw.get("kind") if isinstance(raw, Mapping) else getattr(raw, "kind", None)
    return _TRANSACTIONAL_WRITER if kind == "transactional" else _EVENT_WRITER


_Readers = Annotated[
    Annotated[ReaderGroup, Tag(_ONE_GROUP)]
    | Annotated[tuple[ReaderGroup, ...], Tag(_SEVERAL_GROUPS)]
    | Annotated[None, Tag(_NO_GROUP)],
    Discriminator(_how_many_groups),
]
_Writer = Annotated[
    Annotated[EventWriter, Tag(_EVENT_WRITER)] | Annotated[TransactionalWriter, Tag(_TRANSACTIONAL_WRITER)],
    Discriminator(_which_writer),
]


AT_THE_START: Final = (-1, -1)
"""Before every action of a script, by (time, index)."""


def processes_of(
    writers: Sequence[WriterPart], actions: Sequence[script.Action]
) -> Iterator[tuple[str, WriterPart, tuple[int, int]]]:
    """Every process: its name, its writer, and the action that starts it, by its time and its index in the script."""
    for writer in writers:
        starts = [AT_THE_START] * (writer.processes if isinstance(writer, EventWriter) else 1)
        starts += sorted(
            (action.at_ms, index)
            for index, action in enumerate(actions)
            if isinstance(action, script.DuplicateWriter) and action.writer == writer.name
        )
        yield from ((process_name(writer.name, n), writer, start) for n, start in enumerate(starts, start=1))


@value
class ScenarioFields(ScenarioFile, only_field="writers", users_call_it="wm.Scenario"):
    """What `StreamScenario` says about its fields, which its checks and the simulator read."""

    name: Annotated[str, Field(min_length=1, max_length=200)]
    _: dataclasses.KW_ONLY
    stream: Stream = Stream()
    streams: Annotated[tuple[Stream, ...], Field(max_length=10_000)] = ()
    writers: Annotated[tuple[_Writer, ...], Field(min_length=1, max_length=10_000)]
    readers: _Readers = None
    controllers: Controllers = Controllers()
    network: Network = Network()
    script: tuple[Action, ...] = ()
    duration_ms: Period
    start_ms: SignedStart = 0
    latency_ms: Ms = 5
    seed: Annotated[int, Field(ge=0, lt=2**63, strict=True)] = 0
    rules: OrName[Rules] = Rules()
    rule_set = Rules

    @property
    def all_streams(self) -> tuple[Stream, ...]:
        """The streams, in whichever of the two ways they were given."""
        return self.streams or (self.stream,)

    @property
    def _not_in_use(self) -> tuple[str, ...]:
        """The default `stream`, where several are given: no rule fills its options, and no file holds it."""
        return ("stream",) if self.streams else ()

    def stream_titled(self, title: str | None) -> Stream:
        """The stream that the tables call `title`, its name or `name#2` and so on; the first one if there is none."""
        name = None if title is None else str(title).partition("#")[0]
        return next((stream for stream in self.all_streams if stream.name == name), self.all_streams[0])

    def groups_of(self, stream: Stream) -> tuple[ReaderGroup, ...]:
        """The reader groups that read a stream."""
        return tuple(g for g in self.groups if stream.name in (g.streams or (g.stream or stream.name,)))

    @property
    def groups(self) -> tuple[ReaderGroup, ...]:
        """The reader groups: none, one, or several."""
        if self.readers is None:
            return ()
        return self.readers if isinstance(self.readers, tuple) else (self.readers,)

    @property
    def process_names(self) -> tuple[str, ...]:
        """The names of all processes: each writer, and the further ones of a writer, `w1/2`, `w1/3` and so on."""
        return tuple(name for name, _, _ in processes_of(self.writers, self.script))

    @property
    def controller_names(self) -> tuple[str, ...]:
        """The names of all controllers that there are at the start or that join later."""
        joining = sum(isinstance(action, script.AddController) for action in self.script)
        return tuple(controller_name(index) for index in range(self.controllers.count + joining))

    @property
    def reader_names(self) -> tuple[str, ...]:
        """The names of all readers that there are at the start or that join later."""
        joining = tuple(action.reader for action in self.script if isinstance(action, script.AddReader))
        return (*(name for group in self.groups for name in group.reader_names()), *joining)

    def nodes(self, named: str) -> frozenset[str]:
        """The nodes that a script means by a name: itself, or all of a kind."""
        kinds = {"writers": self.process_names, "readers": self.reader_names, "controllers": self.controller_names}
        return frozenset(kinds.get(named, (named,)))

    @property
    def created_later(self) -> tuple[str, ...]:
        """The streams that are not there at the start: the first action that creates or deletes them creates them."""
        first: dict[str, script.Action] = {}
        for action in sorted(self.script, key=lambda action: action.at_ms):
            if isinstance(action, script.CreateStream | script.DeleteStream):
                first.setdefault(action.stream or self.all_streams[0].name, action)
        return tuple(name for name, action in first.items() if isinstance(action, script.CreateStream))
