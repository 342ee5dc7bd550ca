"""The scenario: what to run, as one validated value with YAML both ways."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from html import escape
from typing import Annotated

from pydantic import Discriminator, Field, Tag

from wmlab.core.estimate import Cost
from wmlab.core.rules import Rules
from wmlab.core.scenario_file import ScenarioFile
from wmlab.core.values import UNNAMED_KIND, Ms, Period, Problem, SignedMs, value
from wmlab.core.words import counted, span
from wmlab.streams.scenario.checks import problems_across
from wmlab.streams.scenario.costs import costs
from wmlab.streams.scenario.network import Network
from wmlab.streams.scenario.parts import Controllers, EventWriter, ReaderGroup, Stream, TransactionalWriter
from wmlab.streams.scenario.rules import RULE_TABLE
from wmlab.streams.scenario.script import Action


def _how_many(offered: object) -> str:
    return "several" if isinstance(offered, list | tuple) else "none" if offered is None else "one"


def _writer_kind(offered: object) -> str:
    """Which writer a value is; plain data that does not say so is an event writer."""
    named = offered.get("kind") if isinstance(offered, Mapping) else getattr(offered, "kind", None)
    return "transactional" if named == "transactional" else UNNAMED_KIND


_Readers = Annotated[
    Annotated[ReaderGroup, Tag("one")]
    | Annotated[tuple[ReaderGroup, ...], Tag("several")]
    | Annotated[None, Tag("none")],
    Discriminator(_how_many),
]
_Writer = Annotated[
    Annotated[EventWriter, Tag(UNNAMED_KIND)] | Annotated[TransactionalWriter, Tag("transactional")],
    Discriminator(_writer_kind),
]


@value
class StreamScenario(ScenarioFile, only_field="writers", users_call_it="wm.Scenario"):
    """A stream or several, who writes and reads them, and what happens to them.

    Give `stream` for one or `streams` for several; then every writer and every reader group names its own.
    `duration_ms` is simulated time; `start_ms` is the clock at the start, zero or, for a real trace, a moment in
    milliseconds since 1970. All randomness comes from `seed`. `latency_ms` is the one-way delay of every message
    to or from a writer, unless `network` has another. `rules` sets all options in which the design, the implementation
    and sound rules differ, unless a part sets them itself; `options` shows what is in effect. The same scenario always
    gives the same recording.
    """

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
    start_ms: SignedMs = 0
    latency_ms: Ms = 5
    seed: Annotated[int, Field(ge=0, lt=2**63, strict=True)] = 0
    rules: Rules = "sound"
    rule_table = RULE_TABLE

    def _problems(self) -> Iterator[Problem]:
        return problems_across(self)

    @property
    def all_streams(self) -> tuple[Stream, ...]:
        """The streams, in whichever of the two ways they were given."""
        return self.streams or (self.stream,)

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

    def _costs(self) -> Iterator[Cost]:
        return costs(self.resolved)

    def _repr_html_(self) -> str:
        rows = [
            ("stream", "; ".join(f"{one.name}, {counted(one.segments, 'segment')}" for one in self.all_streams)),
            ("writers", ", ".join(writer.name for writer in self.writers)),
            ("readers", "; ".join(f"{group.readers} in group {group.name}" for group in self.groups) or "none"),
            ("script", "; ".join(repr(action) for action in self.script) or "nothing"),
            ("duration", f"{span(self.duration_ms)}, seed {self.seed}"),
        ]
        if self.rules != "sound":
            sound = self.replace(rules="sound").options
            others = [f"{path}={held!r}" for path, held in self.options.items() if held != sound[path]]
            rows.append(("rules", f"{self.rules}: {', '.join(others)}"))
        cells = "".join(f"<tr><th style='text-align:left'>{k}</th><td>{escape(v)}</td></tr>" for k, v in rows)
        return f"<table><caption>Scenario “{escape(self.name)}”</caption>{cells}</table>"
