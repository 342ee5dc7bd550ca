"""A second computation of what is said of a log: random logs with planted dirt, and each promise by brute force.

A log of a seed has writers that come, go and pause, disorder that changes in the middle, bursts, clocks and time zones
that are off, and up to six kinds of dirt. A strategy is stepped over the log
record by record; the rules of advice, findings and candidates are not used. The unseen half begins with the row of
number `rows // 2`, from 0, in order of arrival.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from wmlab.core.traces import Trace, load
from wmlab.core.words import rounded
from wmlab.strategies.model.strategy import END, UNKNOWN, Record, Strategy, Tick, steps

START_MS: Final = 1_700_000_000_000
HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
DIRT: Final = ("ahead", "old", "copies", "clock", "zone", "ties")
"""Rows stamped a day or more ahead, rows of 1970, rows that are there twice, a writer whose clock is ahead, one whose
times are of another zone, and arrivals in whole ticks of many records."""
SIZES: Final = (50, 120, 300, 800, 2_000, 6_000, 20_000, 50_000)
TICKS: Final = 10_000
"""How many ticks of the wall clock there are over a log."""
Numbers = NDArray[np.int64]


def random_log(seed: int, *, most_rows: int = SIZES[-1], dirt: Sequence[str] | None = None) -> Trace:
    """A log of this seed, of at most so many rows; with this dirt, or by default with what the seed draws."""
    random = np.random.default_rng(seed)
    rows = int(random.choice([size for size in SIZES if size <= most_rows]))
    chosen = [kind for kind in DIRT if random.random() < 0.2] if dirt is None else list(dirt)
    writers = int(random.choice([1, 2, 3, 5, 12]))
    every_ms = int(random.choice([5, 100, 1_000, 60_000]))
    mean_ms = every_ms * float(random.choice([0.2, 3, 30]))
    writer = random.choice(writers, rows, p=random.dirichlet(np.full(writers, 2.0)))
    event = START_MS + np.cumsum(random.integers(0, 2 * every_ms + 1, rows))
    slower = random.choice([1, 1, 4], writers)
    scale = mean_ms * slower[writer]
    if random.random() < 0.4:
        # The disorder changes in the middle.
        scale = np.where(np.arange(rows) < rows // 2, scale, scale * float(random.choice([0.25, 3, 20])))
    delay = random.exponential(1, rows) * scale + (random.random(rows) < 0.005) * random.exponential(100 * mean_ms)
    kept = np.ones(rows, bool)
    for number in range(writers):
        mine, share = writer == number, np.arange(rows) / rows
        first, last = sorted(random.random(2))
        match random.choice(["stays", "stays", "stays", "comes", "goes", "pauses"]):
            case "comes":
                kept &= ~(mine & (share < last))
            case "goes":
                kept &= ~(mine & (share > max(0.05, first)))
            case "pauses":
                kept &= ~(mine & (share > first) & (share < last))
    if kept.sum() < 20:
        kept[:] = True
    event, delay, writer = event[kept], delay[kept].astype(np.int64), writer[kept]
    arrival = event + delay
    if random.random() < 0.25:
        # All rows of a while come together.
        every_burst_ms = max(1, int(event[-1] - event[0]) // int(random.choice([5, 40])))
        arrival = START_MS + -(-(arrival - START_MS) // every_burst_ms) * every_burst_ms + np.arange(len(arrival)) % 50
    return _dirty(random, event, arrival, np.array([f"w{number:02}" for number in writer]), chosen)


def _dirty(random: np.random.Generator, event: Any, arrival: Any, writer: Any, kinds: Sequence[str]) -> Trace:
    """The log of these columns with some kinds of dirt, by arrival."""
    frame = pd.DataFrame({"event_time": event, "arrival_ms": arrival, "writer": writer})
    frame["key"] = [f"r{number}" for number in range(len(frame))]
    some = lambda most: random.choice(len(frame), max(1, min(most, len(frame) // 100)), replace=False)  # noqa: E731
    names, usual_ms = sorted(set(writer.tolist())), int(max(1, np.median(arrival - event)))
    if "clock" in kinds:
        frame.loc[frame["writer"] == names[0], "event_time"] += 200 * usual_ms
    if "zone" in kinds:
        frame.loc[frame["writer"] == names[-1], "event_time"] -= int(random.choice([4, 8, 22])) * HOUR_MS // 4
    if "ahead" in kinds:
        rows, span_ms = some(8), int(arrival.max() - arrival.min()) + DAY_MS
        frame.loc[rows, "event_time"] += span_ms * random.integers(1, 300, len(rows))
    if "old" in kinds:
        rows = some(8)
        frame.loc[rows, "event_time"] = random.integers(0, DAY_MS, len(rows))
    if "copies" in kinds:
        again = frame.iloc[some(20)].copy()
        again["arrival_ms"] += 3 * usual_ms
        frame = pd.concat([frame, again])
    if "ties" in kinds:
        tick_ms = max(1, 20 * int(np.median(np.diff(np.sort(arrival)))))
        frame["arrival_ms"] += -frame["arrival_ms"] % tick_ms
    frame = frame.sort_values("arrival_ms", kind="stable").reset_index(drop=True)
    return load(frame, name="random")


@dataclass(frozen=True, eq=False)
class Replayed:
    """A strategy over a log: the X that each record meets and X after it, and what follows on the unseen half."""

    log: Trace
    met: Numbers
    x: Numbers
    window_ms: int | None = None

    @property
    def middle(self) -> int:
        """The first row of the unseen half, from 0."""
        return self.log.rows // 2

    @property
    def missed(self) -> NDArray[np.bool_]:
        """The records that are late; with windows those whose window is closed."""
        event = column(self.log, "event_time")
        last = event if self.window_ms is None else event // self.window_ms * self.window_ms + self.window_ms - 1
        late: NDArray[np.bool_] = last < self.met
        return late

    @property
    def missed_share(self) -> float:
        """The share of them on the unseen half."""
        return float(self.missed[self.middle :].mean())

    @property
    def lag_ms(self) -> int | None:
        """The median of arrival less X on the unseen half; None without a watermark there."""
        x, arrival = self.x[self.middle :], column(self.log, "arrival_ms")[self.middle :]
        lags = sorted((arrival - x)[(x != UNKNOWN) & (x != END)].tolist())
        return lags[(len(lags) - 1) // 2] if lags else None

    @property
    def is_dead(self) -> bool:
        """Whether it has no watermark on the unseen half, or one that does not rise there, or one whose median lag
        beyond the median delay of the records is a third of the half's length or more."""
        x = self.x[self.middle :]
        lag_ms = self.lag_ms
        if lag_ms is None or x.max() <= x[0]:
            return True
        arrival = column(self.log, "arrival_ms")[self.middle :]
        delays = np.sort(arrival - column(self.log, "event_time")[self.middle :])
        usual_ms = max(0, int(delays[(len(delays) - 1) // 2]))
        return bool(3 * (lag_ms - usual_ms) >= arrival[-1] - arrival[0])


def column(log: Trace, name: str) -> Any:
    """A column of a log as an array."""
    return log.table[name].to_numpy(zero_copy_only=False)


def replayed(log: Trace, strategy: Strategy[Any], window_ms: int | None = None) -> Replayed:
    """A strategy, stepped over the records of a log and over the ticks between them."""
    inputs = list(_inputs(log))
    taken = [step[:2] for item, step in zip(inputs, steps(strategy, inputs), strict=True) if isinstance(item, Record)]
    met, x = (np.array(times, np.int64) for times in zip(*taken, strict=True))
    return Replayed(log, met, x, window_ms)


def _inputs(log: Trace) -> Iterator[Record | Tick]:
    columns = [column(log, name).tolist() for name in ("event_time", "arrival_ms", "writer", "key")]
    first, last = columns[1][0], columns[1][-1]
    every, due = max(1, (last - first) // TICKS), first
    for record in map(Record, *columns):
        while due < record.arrival_ms:
            yield Tick(due)
            due += every
        yield record


def least_kept_bound_ms(log: Trace, target: float, window_ms: int | None = None) -> int:
    """The least constant bound that misses at most the target on the unseen half."""
    event, middle = column(log, "event_time").tolist(), log.rows // 2
    late_by, largest = [], event[0]
    for row, time in enumerate(event):
        last = time if window_ms is None else time // window_ms * window_ms + window_ms - 1
        if row >= middle:
            late_by.append(max(0, largest - last) if row else 0)
        largest = max(largest, time)
    may_miss = next(count for count in range(len(late_by), -1, -1) if count / len(late_by) <= target)
    return 0 if may_miss == len(late_by) else sorted(late_by, reverse=True)[may_miss]


FAULTS: Final = (
    "numbers differ",
    "target missed without the word",
    "says missed, but is kept",
    "dead watermark",
    "a kept candidate was not advised",
    "lag above the best by a tenth",
    "no minimum over writers among the judged",
    "the bound that keeps it is not named",
    "line without its own numbers",
)
"""What an advice can be wrong in."""


def faults_of(log: Trace, target: float, advice: Any, window_ms: int | None = None) -> dict[str, str]:
    """What is wrong with an advice, each kind of fault with an example; nothing if all that it says holds."""
    strategies = dict.fromkeys([advice.strategy, *(outcome.strategy for outcome in advice.judged)])
    runs = {strategy: replayed(log, strategy, window_ms) for strategy in strategies if not strategy.keyed}
    return {
        **_broken_promises(target, advice, runs[advice.strategy]),
        **_worse_choices(log, target, advice, runs),
        **_unnamed_bound(log, target, advice, runs[advice.strategy]),
        **_lines_of_others(log, advice, runs, window_ms),
    }


def _broken_promises(target: float, advice: Any, best: Replayed) -> dict[str, str]:
    """Numbers and words that the unseen half denies."""
    faults: dict[str, str] = {}
    text = repr(advice)
    if abs(best.missed_share - advice.missed_share) > 1e-9 or (best.lag_ms or 0) != advice.lag_ms:
        faults["numbers differ"] = f"{best.missed_share}, {best.lag_ms} and {advice.missed_share}, {advice.lag_ms}"
    says_missed = "is missed by" in text
    if best.missed_share > target and (not says_missed or text.startswith("Take") or " is kept, " in text):
        faults["target missed without the word"] = f"{best.missed_share:.4%} of {target:.3%}"
    if best.missed_share <= target and says_missed:
        faults["says missed, but is kept"] = f"{best.missed_share:.4%} of {target:.3%}"
    return faults


def _worse_choices(log: Trace, target: float, advice: Any, runs: Mapping[Any, Replayed]) -> dict[str, str]:
    """A better candidate among those that were judged, or one that was not judged at all."""
    faults: dict[str, str] = {}
    best = runs[advice.strategy]
    alive = {strategy: run for strategy, run in runs.items() if not run.is_dead}
    if best.is_dead and (alive or "no watermark moves" not in repr(advice).lower()):
        faults["dead watermark"] = f"{advice.strategy}, lag {best.lag_ms}"
    keeping = {strategy: run for strategy, run in alive.items() if run.missed_share <= target}
    least = min((run.lag_ms or 0 for run in keeping.values()), default=0)
    if keeping and best.missed_share > target:
        faults["a kept candidate was not advised"] = repr(min(keeping, key=lambda each: keeping[each].lag_ms or 0))
    elif keeping and (best.lag_ms or 0) > least + abs(least) / 10:
        faults["lag above the best by a tenth"] = f"{best.lag_ms} and {least}"
    several = len(set(column(log, "writer")[: log.rows // 2].tolist())) > 1
    waits = [each for each in map(_inner, runs) if type(each).__name__ == "PerWriterMinimum"]
    if several and not any(each.idle_ms is None for each in waits):
        faults["no minimum over writers among the judged"] = repr(list(runs))
    return faults


def _unnamed_bound(log: Trace, target: float, advice: Any, best: Replayed) -> dict[str, str]:
    """The least constant bound that would have kept a target that was missed, if another one is named."""
    needed_ms = least_kept_bound_ms(log, target, best.window_ms)
    if best.missed_share <= target or getattr(advice, "kept_by_ms", None) == needed_ms:
        return {}
    return {"the bound that keeps it is not named": f"{needed_ms}"}


def _lines_of_others(log: Trace, advice: Any, runs: dict[Any, Replayed], window_ms: int | None) -> dict[str, str]:
    """A line to paste that does not have the share and the lag of just that line."""
    faults: dict[str, str] = {}
    for engine, setting in advice.settings.items():
        line = setting if setting.code else setting.instead
        if line is None or not line.code:
            continue
        strategy = getattr(line, "strategy", None)
        if strategy is None:
            faults["line without its own numbers"] = f"{engine}: {line.code}"
            continue
        run = runs[strategy] if strategy in runs else runs.setdefault(strategy, replayed(log, strategy, window_ms))
        lag = "no watermark" if run.lag_ms is None else rounded(run.lag_ms)
        if f"{run.missed_share:.3%}" not in line.expected or f"lag of {lag} on" not in line.expected:
            faults["line without its own numbers"] = f"{engine}: {run.missed_share:.3%}, {lag} not in {line.expected!r}"
    return faults


def _inner(strategy: Any) -> Any:
    return getattr(strategy, "inner", strategy)
