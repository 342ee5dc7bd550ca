"""The code that all simulators share: the clock with its random numbers, delays, and the journal of a run.

The draws of a node depend on the scenario's seed and on its own name only. So adding a writer leaves the draws of the
others as they were. Nothing here depends on wall time or on hash order.

In the journal rows are kept per table as they occur, and a row can be completed when more is known; events, of which
there are many, are kept as arrays per append, until somebody takes them.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from itertools import repeat
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import pyarrow as pa
import simpy
from pydantic import Field
from simpy.events import NORMAL

from wmlab.core import schemas
from wmlab.core.durations import duration_text
from wmlab.core.errors import ModelError
from wmlab.core.values import MAX_MS, MeanMs, Ms, Problem, tagged

if TYPE_CHECKING:
    from numpy.typing import NDArray


def _act(timer: Any) -> None:
    timer.act(*timer.args)


class Timer(simpy.Event):
    """An event that happens after `delay` ms of simulated time and then calls `act(*args)`.

    What `simpy.Timeout` does, without a closure and a list of its own for what is to be called; so nothing else can
    wait for a timer.
    """

    _ok = True
    _value = None
    callbacks = (_act,)  # type: ignore[assignment]  # as SimPy reads it; all timers share it

    def __init__(self, env: simpy.Environment, delay: float, act: Callable[..., None], args: tuple[Any, ...]) -> None:
        self.act = act
        self.args = args
        env.schedule(self, NORMAL, delay)


class Simulation:
    """One run in simulated time, from `start_ms` for `duration_ms`; the world of every model derives from it."""

    def __init__(self, *, start_ms: int, duration_ms: int, seed: int) -> None:
        self.env = simpy.Environment(initial_time=start_ms)
        self.start_ms = start_ms
        self.end_ms = start_ms + duration_ms
        self.seed = seed

    @property
    def now_ms(self) -> int:
        """The simulated clock."""
        return int(self.env.now)

    def after(self, delay_ms: float, act: Callable[..., None], *args: Any) -> None:
        """Call `act` after a delay."""
        Timer(self.env, delay_ms, act, args)

    def at(self, at_ms: float, act: Callable[..., None], *args: Any) -> None:
        """Call `act` at a time, or now if that is past."""
        Timer(self.env, max(0, at_ms - self.env.now), act, args)

    def draws(self, name: str) -> np.random.Generator:
        """The random numbers of the node called `name`."""
        return generator(self.seed, name)


def generator(seed: int, name: str) -> np.random.Generator:
    """The generator of the node called `name` under `seed`; the same in every process."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, zlib.crc32(name.encode())])))


_BLOCK = 256


@tagged
class Fixed:
    """Every message takes `ms`."""

    ms: Ms


@tagged
class Uniform:
    """Between `low_ms` and `high_ms`, both included, all equally likely."""

    low_ms: Ms
    high_ms: Ms

    def _problems(self) -> Iterator[Problem]:
        if self.low_ms > self.high_ms:
            yield Problem(
                ("high_ms",), f"lies below low_ms, {duration_text(self.low_ms)} (got {duration_text(self.high_ms)})"
            )


@tagged
class Exponential:
    """At least `least_ms`, and beyond that exponential with mean `mean_ms`."""

    mean_ms: MeanMs
    _: KW_ONLY
    least_ms: Ms = 0


@tagged
class LogNormal:
    """Log-normal: half of the messages take less than `median_ms`; `sigma` is the spread of the logarithm."""

    median_ms: Annotated[MeanMs, Field(gt=0)]
    sigma: Annotated[float, Field(ge=0, le=5, strict=True)]


Delay = Annotated[Fixed | Uniform | Exponential | LogNormal, Field(discriminator="kind")]
"""How long a message takes, one way, in whole milliseconds."""


def delays_ms(delay: Delay, draws: np.random.Generator) -> Iterator[int]:
    """Whole milliseconds, drawn as the scenario's value says; fractions are rounded to the nearest."""
    if isinstance(delay, Fixed):
        return repeat(delay.ms)
    return _drawn(delay, draws)


def _drawn(delay: Uniform | Exponential | LogNormal, draws: np.random.Generator) -> Iterator[int]:
    while True:
        match delay:
            case Uniform(low_ms=low, high_ms=high):
                block = draws.integers(low, high + 1, _BLOCK).astype(np.float64)
            case Exponential(mean_ms=mean, least_ms=least):
                block = least + draws.exponential(mean, _BLOCK)
            case LogNormal(median_ms=median, sigma=sigma):
                block = draws.lognormal(np.log(median), sigma, _BLOCK)
        yield from np.rint(block.clip(max=MAX_MS)).astype(np.int64).tolist()


def chances(draws: np.random.Generator) -> Iterator[float]:
    """Even draws from [0, 1)."""
    while True:
        yield from draws.random(_BLOCK).tolist()


JournalRow = dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class EventColumns:
    """The events of a run in the order of their appends; `writer` indexes `writer_names`."""

    segment_id: NDArray[np.int64]
    offset: NDArray[np.int64]
    event_time: NDArray[np.int64]
    append_ms: NDArray[np.int64]
    writer: NDArray[np.int32]
    writer_names: tuple[str, ...]


@dataclass(slots=True)
class Journal:
    """Rows of a run, table by table; `common` is part of every row from now on, and may change during the run.

    `take_events`, if given, is called whenever there is a row group of events, which are forgotten then.
    """

    rows: dict[str, list[JournalRow]] = field(default_factory=dict)
    common: JournalRow = field(default_factory=dict)
    take_events: Callable[[Journal], None] | None = None
    events_in_memory: int = 0
    _event_times: list[NDArray[np.int64]] = field(default_factory=list)
    _appends: list[tuple[int, int, int, int, int, int]] = field(default_factory=list)

    def write(self, table: str, **row: Any) -> JournalRow:
        """Add one row to a table; returns it, to be completed when more is known."""
        row.update(self.common)
        self.rows.setdefault(table, []).append(row)
        return row

    def tables(self, schemas: Mapping[str, pa.Schema]) -> dict[str, pa.Table]:
        """The rows as tables; a column that a row lacks is null, unknown columns are left out.

        Raises `ModelError` for a number that does not fit into its column.
        """
        return {name: self._table(name, schema) for name, schema in schemas.items()}

    def _table(self, name: str, schema: pa.Schema) -> pa.Table:
        rows = self.rows.get(name, [])
        try:
            columns = [pa.array(_entries(rows, field), field.type) for field in schema]
            return pa.Table.from_arrays(columns, schema=schema)
        except OverflowError as error:
            raise ModelError(
                f"The run made a number for the table {name} that is beyond 64 bits.",
                remedy="Use smaller times, sizes and numbers in the scenario and in its expressions.",
            ) from error

    def append(
        self, segment_id: int, before: int, event_size: int, times: NDArray[np.int64], at_ms: int, writer: int
    ) -> None:
        """Add the events of one append to a segment of `before` bytes; each of them has `event_size` bytes."""
        self._appends.append((segment_id, before, event_size, at_ms, writer, len(times)))
        self._event_times.append(times)
        self.events_in_memory += len(times)
        if self.take_events is not None and self.events_in_memory >= schemas.ROW_GROUP:
            self.take_events(self)
            self._appends, self._event_times, self.events_in_memory = [], [], 0

    def events(self, writer_names: tuple[str, ...]) -> EventColumns:
        """The events that nobody has taken, as whole columns."""
        segment_id, before, event_size, at_ms, writer, counts = np.array(self._appends, np.int64).reshape(-1, 6).T
        # The nth event of the run ends n - (events of earlier appends) events after the start of its append.
        starts = before - event_size * (np.cumsum(counts) - counts)
        return EventColumns(
            segment_id=np.repeat(segment_id, counts),
            offset=np.repeat(starts, counts) + np.repeat(event_size, counts) * np.arange(1, counts.sum() + 1),
            event_time=np.concatenate(self._event_times or [np.empty(0, np.int64)]),
            append_ms=np.repeat(at_ms, counts),
            writer=np.repeat(writer.astype(np.int32), counts),
            writer_names=writer_names,
        )


def _entries(rows: list[JournalRow], field: pa.Field) -> list[Any]:
    """A column of the rows as Arrow takes it: a map is the list of its pairs."""
    entries = [row.get(field.name) for row in rows]
    if pa.types.is_map(field.type):
        return [list(entry.items()) if isinstance(entry, Mapping) else entry for entry in entries]
    return entries
