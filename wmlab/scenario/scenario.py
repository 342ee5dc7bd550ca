"""The scenario: what to run, as one validated value with YAML both ways."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from wmlab.errors import ModelError
from wmlab.model.history import StreamHistory
from wmlab.scenario.parts import Controllers, EventWriter, ReaderGroup, Stream
from wmlab.scenario.reader_checks import reader_problems
from wmlab.scenario.script import Action, Ms, Period, Scale
from wmlab.scenario.value import Problem, Problems, plain, problems_of, value
from wmlab.scenario.yaml import dump, line_of, parse, read_text

if TYPE_CHECKING:
    from wmlab.lab import Recording


@value
class Scenario:
    """A stream, who writes and reads it, and what happens to it.

    `duration_ms` is simulated time; `start_ms` is the clock at the start, zero or, for a real trace, a moment in
    milliseconds since 1970. All randomness comes from `seed`. `latency_ms` is the one-way delay of every message.
    The same scenario always gives the same recording.
    """

    name: Annotated[str, Field(min_length=1, max_length=200)]
    _: dataclasses.KW_ONLY
    stream: Stream = Stream()
    writers: Annotated[tuple[EventWriter, ...], Field(min_length=1, max_length=10_000)]
    readers: ReaderGroup | None = None
    controllers: Controllers = Controllers()
    script: tuple[Action, ...] = ()
    duration_ms: Period
    start_ms: Annotated[int, Field(strict=True)] = 0
    latency_ms: Ms = 5
    seed: Annotated[int, Field(ge=0, lt=2**63, strict=True)] = 0

    def __post_init__(self) -> None:
        problems = tuple(_cross_problems(self))
        if problems:
            raise Problems(f"the scenario {self.name!r}", problems)

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
            ("stream", f"{self.stream.name}, {self.stream.segments} segments"),
            ("writers", ", ".join(writer.name for writer in self.writers)),
            ("readers", f"{self.readers.readers} in group {self.readers.name}" if self.readers else "none"),
            ("script", "; ".join(repr(action) for action in self.script) or "nothing"),
            ("duration", f"{self.duration_ms:,} ms, seed {self.seed}"),
        ]
        cells = "".join(f"<tr><th style='text-align:left'>{k}</th><td>{escape(v)}</td></tr>" for k, v in rows)
        return f"<table><caption>Scenario “{escape(self.name)}”</caption>{cells}</table>"


def _cross_problems(scenario: Scenario) -> Iterator[Problem]:
    """Mistakes that no single field shows."""
    names = Counter(writer.name for writer in scenario.writers)
    for index, writer in enumerate(scenario.writers):
        if names[writer.name] > 1:
            yield Problem(("writers", index, "name"), f"another writer is called {writer.name!r} too")
    for index, action in enumerate(scenario.script):
        if action.at_ms >= scenario.duration_ms:
            message = f"lies at or after the end of the scenario, {scenario.duration_ms} (got {action.at_ms})"
            yield Problem(("script", index, "at_ms"), message)
        named = getattr(action, "writer", None)
        if named is not None and named not in names:
            known = ", ".join(sorted(names))
            yield Problem(("script", index, "writer"), f"no writer is called {named!r}; there are: {known}")
    yield from reader_problems(scenario.readers, scenario.script)
    yield from _scale_problems(scenario)


def _scale_problems(scenario: Scenario) -> Iterator[Problem]:
    """Scales that the stream's history refuses when they are tried in order of time."""
    history = StreamHistory.create(scenario.stream.segments)
    scales = [
        (action.at_ms, index, action) for index, action in enumerate(scenario.script) if isinstance(action, Scale)
    ]
    for _, index, action in sorted(scales, key=lambda entry: entry[:2]):
        try:
            history = history.scale(action.seal, action.into)
        except ModelError as error:
            yield Problem(("script", index, "seal"), error.problem)
