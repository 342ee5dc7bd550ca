"""Contenders measured in turns, so that whatever else the machine does meets all of them alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
