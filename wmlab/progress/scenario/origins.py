"""Who is an origin in a query plan, and which origins each operator has declared.

Sources come first, in the order given; then the blocking operators: those of the sources' own chains, those over all
sources, the windows, and those behind them.

Source: "Watermarking and Progress", OriginId.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from wmlab.progress.model.identifiers import assign_origins
from wmlab.progress.scenario.operators import InOrder, Renumber

if TYPE_CHECKING:
    from wmlab.progress.scenario.parts import Query

BUILD: Final = "build"
PROBE: Final = "probe"
SINK: Final = "sink"
RESERVED: Final = (BUILD, PROBE, SINK)
"""The operators that follow progress in a plan, besides those that have names of their own."""


@dataclass(frozen=True, slots=True)
class Origins:
    """The origin id of every emitter, and the ids that each operator which follows progress has declared.

    `at_end` has, for each source, the origin under which its records come out of the chains before the windows.
    """

    ids: Mapping[str, int]
    inputs: Mapping[str, tuple[int, ...]]
    at_end: Mapping[str, int]

    @property
    def emitters(self) -> dict[int, str]:
        """The name of every origin."""
        return {number: name for name, number in self.ids.items()}


def origins_of(query: Query) -> Origins:
    """The origins of a query plan."""
    before = [operator for source in query.sources for operator in source.operators] + list(query.operators)
    ids = assign_origins(
        [source.name for source in query.sources]
        + _blocking(before)
        + ([BUILD] if query.window else [])
        + _blocking(query.output)
    )
    inputs: dict[str, tuple[int, ...]] = {}
    at_end = {s.name: _follow(s.operators, (ids[s.name],), ids, inputs)[0] for s in query.sources}
    merged = _follow(query.operators, tuple(at_end.values()), ids, inputs)
    if len(merged) < len(at_end):
        at_end = dict.fromkeys(at_end, merged[0])
    if query.window:
        inputs[BUILD], merged = merged, (ids[BUILD],)
        inputs[PROBE] = merged
    inputs[SINK] = _follow(query.output, merged, ids, inputs)
    return Origins(ids, inputs, at_end)


def _blocking(operators: Iterable[object]) -> list[str]:
    return [operator.name for operator in operators if isinstance(operator, Renumber)]


def _follow(
    operators: Sequence[object], origins: tuple[int, ...], ids: Mapping[str, int], inputs: dict[str, tuple[int, ...]]
) -> tuple[int, ...]:
    """The origins behind a chain; notes what each of its operators has declared."""
    for operator in operators:
        if isinstance(operator, Renumber | InOrder):
            inputs[operator.name] = origins
        if isinstance(operator, Renumber):
            origins = (ids[operator.name],)
    return origins
