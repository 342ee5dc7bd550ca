"""A strategy over a log: the X that each record meets and the X after it; and what the log says by itself.

Arrays have one entry a record, in order of arrival. A `group` is an array of small integers: what has its own
watermark, a writer or a key.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from wmlab.core.errors import ModelError
from wmlab.core.traces import Trace
from wmlab.strategies.model.strategy import END, UNKNOWN, Input, Record, Strategy, Tick, run

Longs = NDArray[np.int64]
Steps = tuple[Longs, Longs]
"""The X that each record meets, and the X after it."""

_TICKS: Final = 10_000
_WORTH_A_PROCESS: Final = 300_000
"""Steps below which a second process costs more than it saves."""


@dataclass(frozen=True, slots=True, eq=False)
class Log:
    """The columns of a trace as arrays; `writer` and `key` are groups."""

    event: Longs
    arrival: Longs
    writer: NDArray[np.int32]
    key: NDArray[np.int32]

    @classmethod
    def of(cls, trace: Trace) -> Log:
        """The columns of `trace`."""
        return cls(
            *(trace.table[name].to_numpy() for name in ("event_time", "arrival_ms")),
            *(group(trace, name)[0] for name in ("writer", "key")),
        )

    def of_rows(self, rows: slice) -> Log:
        """Some rows of the log."""
        return Log(self.event[rows], self.arrival[rows], self.writer[rows], self.key[rows])


def group(trace: Trace, column: str) -> tuple[NDArray[np.int32], list[str]]:
    """The group of each record by its writer or key, and the names of the groups."""
    if column not in ("writer", "key"):
        raise ModelError(f"A log has no groups by {column!r}.", remedy="Choose by='writer', by='key' or by=None.")
    encoded = trace.table[column].combine_chunks().dictionary_encode()
    return encoded.indices.to_numpy(), encoded.dictionary.to_pylist()


def before(times: Longs, groups: Any = None) -> Longs:
    """The largest time before each record, of its group if there are groups; `UNKNOWN` where there is none."""
    if groups is None:
        return np.concatenate([[UNKNOWN], np.maximum.accumulate(times)[:-1]])
    return _shifted(pd.Series(times).groupby(groups).cummax(), groups, UNKNOWN)


def perfect(times: Longs, groups: Any = None) -> Longs:
    """The perfect watermark after each record, the least time of all later ones (of its group); `END` if none is.

    It needs the whole log: no strategy can know it.
    """
    if groups is None:
        return np.concatenate([np.minimum.accumulate(times[::-1])[-2::-1], [END]])
    backwards = groups[::-1]
    return _shifted(pd.Series(times[::-1]).groupby(backwards).cummin(), backwards, END)[::-1]


def _shifted(series: Any, groups: Any, first: int) -> Longs:
    shifted: Longs = series.groupby(groups).shift(1, fill_value=first).to_numpy()
    return shifted


def inputs(trace: Trace, tick_ms: int | None = None) -> Iterator[Input]:
    """What a strategy is given: each record, and the wall clock every `tick_ms` from the first arrival on.

    A tick comes after the records of its moment. By default there are 10,000 ticks over the log; 0 gives none.
    """
    first, last = trace.span_ms
    every = max(1, (last - first) // _TICKS) if tick_ms is None else tick_ms
    due = first if every else END
    for event in trace.events():
        while due < event.arrival_ms:
            yield Tick(due)
            due += every
        yield Record(*event)


def replayed(trace: Trace, strategies: Sequence[Strategy[Any]], *, tick_ms: int | None = None) -> list[Steps]:
    """The steps of each strategy over the log; many steps are shared with a second process."""
    local = [strategy for strategy in strategies if type(strategy).__module__ == "__main__"]
    if trace.rows * len(strategies) < _WORTH_A_PROCESS or len(strategies) < 2 or local:
        return _replayed(trace, strategies, tick_ms)
    there, here = strategies[1::2], strategies[::2]
    asked = pickle.dumps((trace.table, list(there), tick_ms))
    # A process that starts with this module only: neither forked threads nor the caller's script run again.
    command = [sys.executable, "-c", f"from {__name__} import _serve; _serve()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_environment()) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        with child.stdin, suppress(BrokenPipeError):
            child.stdin.write(asked)
        mine = _replayed(trace, here, tick_ms)
        answer = child.stdout.read()
    if not answer:
        return _replayed(trace, strategies, tick_ms)  # which raises what the other process could not tell
    theirs = pickle.loads(answer)
    return [(theirs if place % 2 else mine)[place // 2] for place in range(len(strategies))]


def _replayed(trace: Trace, strategies: Sequence[Strategy[Any]], tick_ms: int | None) -> list[Steps]:
    given = list(inputs(trace, tick_ms))
    return [_steps(strategy, given) for strategy in strategies]


def _steps(strategy: Strategy[Any], given: Sequence[Input]) -> Steps:
    taken = zip(given, run(strategy, given), strict=True)
    both = np.array([(step.met, step.x) for item, step in taken if type(item) is Record], dtype=np.int64)
    return both[:, 0], both[:, 1]


def _environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def _serve() -> None:
    """What the second process does: the steps of the strategies that it reads, written back."""
    table, strategies, tick_ms = pickle.load(sys.stdin.buffer)
    sys.stdout.buffer.write(pickle.dumps(_replayed(Trace("log", table), strategies, tick_ms)))
