"""What `explain` has to say of a stream, computed a second time: from the recorded tables and the script alone.

Nothing of `wmlab.streams.answers` is used. A label whose value is not found here, or is another one, is wrong, and so
is one that is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tests.oracles.group_facts import Group, Reader, upper_facts
from tests.oracles.log_facts import Fact, cause_of_log, log_facts
from tests.oracles.present import present
from tests.oracles.run_facts import run_facts
from tests.oracles.tables import Run
from wmlab.streams.api import Scenario

Values = dict[str, Any]
ABSENT = "absent"
Bound = Literal["lower", "upper"]
BOUNDS: tuple[Bound, ...] = ("lower", "upper")


@dataclass(frozen=True, slots=True)
class Curve:
    """A bound of a stream: in its log, at the position of a group, or seen by a reader of that group."""

    stream: str
    group: str | None = None
    reader: str | None = None
    bound: Bound = "lower"

    @property
    def asked(self) -> dict[str, Any]:
        """What `explain` is called with."""
        named = {"stream": self.stream, "bound": self.bound}
        if self.reader is not None:
            return named | {"reader": self.reader}
        return named if self.group is None else named | {"group": self.group}


class Oracle:
    """The facts about every curve of a run."""

    def __init__(self, scenario: Scenario, recording: Any) -> None:
        self.run = Run(scenario.resolved, recording)
        self._groups: dict[tuple[str, str], Group] = {}

    def group(self, stream: str, name: str) -> Group:
        """A group in one of its streams."""
        return self._groups.setdefault((stream, name), Group(self.run, stream, name))

    def curves(self) -> list[Curve]:
        """All lower and upper bounds of the run."""
        found: list[Curve] = []
        for stream in self.run.titles:
            rows = self.run.all_rows("positions", stream) + self.run.all_rows("windows", stream)
            groups = sorted({row["group"] for row in rows})
            windows = self.run.all_rows("windows", stream)
            readers = sorted({(row["group"], row["reader"]) for row in windows})
            for bound in BOUNDS:
                found.append(Curve(stream, bound=bound))
                found += [Curve(stream, group, bound=bound) for group in groups]
                found += [Curve(stream, group, reader, bound) for group, reader in readers]
        return found

    def facts(self, curve: Curve, at_ms: int) -> Values:
        """Each label that an answer must have, with its value; what has none is left out."""
        return present([("moment", at_ms), *self._facts(curve, at_ms)])

    def cause(self, curve: Curve, at_ms: int) -> tuple[str, str]:
        """The first cause that is true of a curve, and whose it is: of the log, the group, or the reader."""
        stream = curve.stream
        if curve.group is None or not self.run.watermarks(stream, at_ms):
            return "log", cause_of_log(self.run, stream, at_ms)
        group = self.group(stream, curve.group)
        if curve.reader is None:
            return "group", group.cause(at_ms)
        reader = Reader(group, curve.reader)
        cause = reader.cause(at_ms)
        return ("group" if reader.follows(at_ms) and cause != "newest" else "reader"), cause

    def of_run(self, stream: str) -> Values:
        """Each label that the answer about a whole run must have, with its value."""
        rows = self.run.all_rows("positions", stream) + self.run.all_rows("windows", stream)
        groups = [self.group(stream, name) for name in sorted({row["group"] for row in rows})]
        return present(run_facts(self.run, stream, groups))

    def _facts(self, curve: Curve, at_ms: int) -> Iterable[Fact]:
        group = None if curve.group is None else self.group(curve.stream, curve.group)
        if curve.bound == "upper":
            return upper_facts(self.run, curve.stream, at_ms, group, curve.reader)
        if group is None:
            return log_facts(self.run, curve.stream, at_ms)
        return group.facts(at_ms) if curve.reader is None else Reader(group, curve.reader).facts(at_ms)


def differences(said: Mapping[str, Any], computed: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The labels that are not the same on both sides, with what was said and what was computed."""
    labels = dict.fromkeys([*said, *computed])
    both = {label: (said.get(label, ABSENT), computed.get(label, ABSENT)) for label in labels}
    return {label: values for label, values in both.items() if values[0] != values[1]}
