"""Steps without a memory: map, filter, flat-map, and the merge of several inputs.

They forward watermarks at once, since what they say of the inputs holds for the output: rows leave when they come and
keep their times. A merge is the identity with several edges; a key that only some of them carry never gets through
while the others are active. So the same field needs the same key on all inputs, and different fields different keys.

Source: "Keyed watermark support", Changes to union/merge processor; upstream class `TransformP`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from wmlab.dataflow.model.defaults import Values, by_default
from wmlab.dataflow.model.items import Event
from wmlab.dataflow.model.processor import Reply, Row, Stimulus


@dataclass(frozen=True, slots=True)
class Transform:
    """Every row becomes the rows that `function` makes of it; `name` is for the reader. Source: as the module."""

    function: Callable[[Values], Iterable[Values]] = field(repr=False)
    name: str = "flat map"

    @classmethod
    def map(cls, function: Callable[[Values], Values | None]) -> Transform:
        """One row for one row; a None is left out. Source: as the module."""

        def apply(values: Values) -> tuple[Values, ...]:
            result = function(values)
            return () if result is None else (result,)

        return cls(apply, "map")

    @classmethod
    def filter(cls, keeps: Callable[[Values], bool]) -> Transform:
        """The rows for which `keeps` is true. Source: as the module."""
        return cls(lambda values: (values,) if keeps(values) else (), "filter")

    @classmethod
    def merge(cls) -> Transform:
        """Every row as it is, from any number of inputs. Source: as the module."""
        return cls(lambda values: (values,), "merge")

    def start(self) -> None:
        """There is no state. Source: as the module."""

    def step(self, state: None, stimulus: Stimulus) -> Reply[None]:
        """Rows are transformed; the rest is as by default. Source: as the module."""
        match stimulus:
            case Row(event=event):
                return Reply(state, tuple(Event(values) for values in self.function(event.values)))
        return by_default(state, stimulus)

    def size(self, state: None) -> int:  # noqa: ARG002
        """Nothing is held. Source: as the module."""
        return 0

    def may_snapshot(self, state: None) -> bool:  # noqa: ARG002
        """Always. Source: as the module."""
        return True

    def restore(self, snapshots: Sequence[None]) -> None:
        """There is nothing to restore. Source: as the module."""
