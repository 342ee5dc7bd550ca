"""Contenders measured in turns, so that whatever else the machine does meets all of them alike."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter

Answer = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Contender:
    """Something that answers the question of a case; `answers` is false for a yardstick that answers another one."""

    name: str
    run: Callable[[], Answer]
    answers: bool = True


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of the runs of one contender."""

    name: str
    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return median(self.seconds)


class DifferentAnswersError(AssertionError):
    """Two contenders disagree, so their times say nothing."""


def measured(contenders: Sequence[Contender], runs: int) -> list[Timing]:
    """Times of all contenders, in alternating runs after one that is not counted.

    Raises `DifferentAnswersError` unless all that answer give the same answer every time.
    """
    seconds: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    first: tuple[str, Answer] | None = None
    for run in range(runs + 1):
        for contender in contenders:
            begin = perf_counter()
            answer = contender.run()
            took = perf_counter() - begin
            if run:
                seconds[contender.name].append(took)
            if contender.answers:
                first = first or (contender.name, answer)
                if answer != first[1]:
                    raise DifferentAnswersError(f"{contender.name} says {answer}, {first[0]} says {first[1]}")
    return [Timing(name, tuple(times)) for name, times in seconds.items()]


def processor_s() -> float:
    """Seconds of processors that this process and those below it, the JVM for one, have used so far."""
    ticks = sum(map(_ticks, children(os.getpid())))
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def children(pid: int) -> Iterator[int]:
    """The processes below `pid`, as Linux lists them."""
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # of a thread that has ended meanwhile
            for child in map(int, task.read_text().split()):
                yield child
                yield from children(child)


def _ticks(pid: int) -> int:
    """The time of processors in /proc/PID/stat, that of children that have ended included."""
    with suppress(OSError):  # of a process that has ended meanwhile
        return sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]))
    return 0


def table(timings: Sequence[Timing], reference: str) -> str:
    """The times as text; the ratio is that of the medians to the reference's."""
    base = next(timing.median for timing in timings if timing.name == reference)
    width = max(len(timing.name) for timing in timings)
    lines = [f"{'':{width}}  median s    min s    max s  ratio"]
    lines += [
        f"{timing.name:{width}}  {timing.median:8.2f} {min(timing.seconds):8.2f} {max(timing.seconds):8.2f}"
        f"  {timing.median / base:5.2f}"
        for timing in timings
    ]
    return "\n".join(lines)
