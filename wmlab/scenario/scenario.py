"""The scenario: what to run, as one validated value with YAML both ways."""

from __future__ import annotations

import dataclasses
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Discriminator, Field, Tag, TypeAdapter, ValidationError

from wmlab.scenario.checks import problems_across
from wmlab.scenario.controllers import Controllers
from wmlab.scenario.network import Network
from wmlab.scenario.parts import EventWriter, ReaderGroup, Stream
from wmlab.scenario.script import Action, Ms, Period
from wmlab.scenario.value import Problems, plain, problems_of, value
from wmlab.scenario.yaml import dump, line_of, parse, read_text

if TYPE_CHECKING:
    from wmlab.lab import Recording


def _how_many(offered: object) -> str:
    return "several" if isinstance(offered, list | tuple) else "none" if offered is None else "one"


_Readers = Annotated[
    Annotated[ReaderGroup, Tag("one")]
    | Annotated[tuple[ReaderGroup, ...], Tag("several")]
    | Annotated[None, Tag("none")],
    Discriminator(_how_many),
]


@value
class Scenario:
    """A stream or several, who writes and reads them, and what happens to them.

    Give `stream` for one or `streams` for several; then every writer and every reader group names its own.
    `duration_ms` is simulated time; `start_ms` is the clock at the start, zero or, for a real trace, a moment in
    milliseconds since 1970. All randomness comes from `seed`. `latency_ms` is the one-way delay of every message
    to or from a writer, unless `network` has another. The same scenario always gives the same recording.
    """

    name: Annotated[str, Field(min_length=1, max_length=200)]
    _: dataclasses.KW_ONLY
    stream: Stream = Stream()
    streams: Annotated[tuple[Stream, ...], Field(max_length=10_000)] = ()
    writers: Annotated[tuple[EventWriter, ...], Field(min_length=1, max_length=10_000)]
    readers: _Readers = None
    controllers: Controllers = Controllers()
    network: Network = Network()
    script: tuple[Action, ...] = ()
    duration_ms: Period
    start_ms: Annotated[int, Field(strict=True)] = 0
    latency_ms: Ms = 5
    seed: Annotated[int, Field(ge=0, lt=2**63, strict=True)] = 0

    def __post_init__(self) -> None:
        problems = tuple(problems_across(self))
        if problems:
            raise Problems(f"the scenario {self.name!r}", problems)

    @property
    def all_streams(self) -> tuple[Stream, ...]:
        """The streams, in whichever of the two ways they were given."""
        return self.streams or (self.stream,)

    @property
    def groups(self) -> tuple[ReaderGroup, ...]:
        """The reader groups: none, one, or several."""
        if self.readers is None:
            return ()
        return self.readers if isinstance(self.readers, tuple) else (self.readers,)

    def record(self, path: str | Path | None = None, *, progress: bool = True) -> Recording:
        """Run the scenario and keep everything that happened, in memory or, with `path`, on disk."""
        from wmlab import lab

        return lab.record(self, path, progress=progress)

    def replace(self, **fields: Any) -> Scenario:
        """The same scenario with some fields changed."""
        return dataclasses.replace(self, **fields)

    def to_dict(self) -> dict[str, Any]:
        """The scenario as dicts, lists and scalars; defaults are left out."""
        return dict(plain(self))  # type: ignore[call-overload,no-any-return]

    def to_yaml(self) -> str:
        """The scenario as YAML text that `from_yaml` reads back to an equal scenario."""
        return dump(self.to_dict())

    def save(self, path: str | Path) -> Path:
        """Write the scenario as a YAML file; returns its path."""
        target = Path(path)
        target.write_text(self.to_yaml(), encoding="utf-8")
        return target

    @staticmethod
    def from_yaml(text: str, *, source: str = "the YAML text") -> Scenario:
        """Read a scenario from YAML text; every mistake is reported with its location and line."""
        data, lines = parse(text, source)
        try:
            return TypeAdapter(Scenario).validate_python(data)
        except ValidationError as error:
            found = problems_of(error, data)
            located = (dataclasses.replace(p, line=line_of(p.location, lines)) for p in found)
            raise Problems(source, located) from None

    @staticmethod
    def load(path: str | Path) -> Scenario:
        """Read a scenario from a YAML file."""
        return Scenario.from_yaml(read_text(path), source=str(path))

    def _repr_html_(self) -> str:
        rows = [
            ("stream", "; ".join(f"{stream.name}, {stream.segments} segments" for stream in self.all_streams)),
            ("writers", ", ".join(writer.name for writer in self.writers)),
            ("readers", "; ".join(f"{group.readers} in group {group.name}" for group in self.groups) or "none"),
            ("script", "; ".join(repr(action) for action in self.script) or "nothing"),
            ("duration", f"{self.duration_ms:,} ms, seed {self.seed}"),
        ]
        cells = "".join(f"<tr><th style='text-align:left'>{k}</th><td>{escape(v)}</td></tr>" for k, v in rows)
        return f"<table><caption>Scenario “{escape(self.name)}”</caption>{cells}</table>"
