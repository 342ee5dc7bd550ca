"""Contenders measured in turns, so that whatever else the machine does meets all of them alike.

Each contender lives in a process of its own, forked from one that has started nothing: no threads, no JVM. So its
memory is its own, that of its JVM and workers included, and one that ends for want of memory ends alone.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

Answer = Mapping[str, int]

MEMORY_GB: Final = 16
"""The most that one process of a contender may have, in GiB."""


@dataclass(frozen=True, slots=True)
class Contender:
    """Something that answers the question of a case; `answers` is false for a yardstick that answers another one."""

    name: str
    run: Callable[[], Answer]
    answers: bool = True


@dataclass(frozen=True, slots=True)
class Timing:
    """What one contender took, run by run: seconds, and seconds of processors; `peak_mb` is its most memory, in MiB.

    `ended` says how a contender ended that has not answered to the end, and is empty for all others.
    """

    name: str
    seconds: tuple[float, ...]
    processors_s: tuple[float, ...] = ()
    peak_mb: int = 0
    ended: str = ""

    @property
    def median(self) -> float:
        return median(self.seconds)


@dataclass(frozen=True, slots=True)
class Measured:
    """One run, as the process of a contender reports it; `error` is what it raised, and empty otherwise."""

    answer: Answer
    seconds: float
    processors_s: float
    peak_mb: int
    error: str = ""


class DifferentAnswersError(AssertionError):
    """Two contenders disagree, so their times say nothing."""


class ContenderError(RuntimeError):
    """A contender has raised an error that is not a want of memory."""


def measured(contenders: Sequence[Contender], runs: int, *, warm_up: bool = True) -> list[Timing]:
    """Times of all contenders, in alternating runs after one that is not counted.

    Without `warm_up` all runs count, and only one contender is alive at a time: for questions that need most of the
    memory. Raises `DifferentAnswersError` unless all that answer give the same answer every time.
    """
    judge = _Judge()
    if not warm_up:
        return [timing for contender in contenders for timing in _in_turns([contender], runs, 0, judge)]
    return _in_turns(contenders, runs, 1, judge)


class _Judge:
    """Compares each answer with the first one."""

    def __init__(self) -> None:
        self.first: tuple[str, Answer] | None = None

    def look_at(self, contender: Contender, answer: Answer) -> None:
        if not contender.answers:
            return
        self.first = self.first or (contender.name, answer)
        if answer != self.first[1]:
            raise DifferentAnswersError(f"{contender.name} says {answer}, {self.first[0]} says {self.first[1]}")


def _in_turns(contenders: Sequence[Contender], runs: int, uncounted: int, judge: _Judge) -> list[Timing]:
    with ExitStack() as stack:
        processes = [stack.enter_context(_Apart(contender.run)) for contender in contenders]
        results: list[list[Measured]] = [[] for _ in contenders]
        for _ in range(uncounted + runs):
            for contender, process, done in zip(contenders, processes, results, strict=True):
                if process.ended:
                    continue
                if result := process.run():
                    judge.look_at(contender, result.answer)
                    done.append(result)
        return [
            _timing(contender.name, done[uncounted:], process.ended)
            for contender, process, done in zip(contenders, processes, results, strict=True)
        ]


def _timing(name: str, done: Sequence[Measured], ended: str) -> Timing:
    peak_mb = max((run.peak_mb for run in done), default=0)
    return Timing(name, tuple(r.seconds for r in done), tuple(r.processors_s for r in done), peak_mb, ended)


class _Apart:
    """A function in a forked process, which runs it whenever it is asked; it may have `MEMORY_GB` of memory."""

    def __init__(self, function: Callable[[], Answer]) -> None:
        context = get_context("fork")
        self.connection, there = context.Pipe()
        self.process = context.Process(target=_serve, args=(function, there))
        self.process.start()
        there.close()
        self.ended = ""

    def __enter__(self) -> _Apart:
        return self

    def __exit__(self, *_error: object) -> None:
        # Processes forked later hold this end of the pipe, too: to close it here would not be seen.
        with suppress(OSError):
            self.connection.send(False)
        self.process.join(60)
        self.process.kill()

    def run(self) -> Measured | None:
        """One run; None if the process has ended, or has run out of memory: `ended` says so."""
        try:
            self.connection.send(True)
            result: Measured = self.connection.recv()
        except (EOFError, OSError):
            self.process.join()
            self.ended = f"ended with code {self.process.exitcode}; it may have {MEMORY_GB} GiB"
            return None
        if "Memory" in result.error or "memory" in result.error:
            self.ended = f"ended for want of memory; it may have {MEMORY_GB} GiB"
            return None
        if result.error:
            raise ContenderError(result.error)
        return result


def _serve(function: Callable[[], Answer], connection: Connection) -> None:
    """Run the function for each True that comes, until a False does."""
    limit = MEMORY_GB << 30
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    while connection.recv():
        begin, used = perf_counter(), processor_s()
        try:
            answer, error = function(), ""
        except Exception as failure:
            answer, error = {}, f"{type(failure).__name__}: {failure}"
        seconds = perf_counter() - begin
        connection.send(Measured(answer, seconds, processor_s() - used, peak_mb(), error))


def processor_s() -> float:
    """Seconds of processors that this process and those below it, the JVM for one, have used so far."""
    ticks = sum(map(_ticks, children(os.getpid())))
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def peak_mb() -> int:
    """The most memory that this process and those below it have held, each at its own worst moment, in MiB."""
    return sum(map(peak_of_mb, [os.getpid(), *children(os.getpid())]))


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


def peak_of_mb(pid: int) -> int:
    """The most memory that one process has held, in MiB: VmHWM of /proc/PID/status."""
    with suppress(OSError):  # of a process that has ended meanwhile
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return next((int(line.split()[1]) // 1_024 for line in lines if line.startswith("VmHWM")), 0)
    return 0


def table(timings: Sequence[Timing], reference: str) -> str:
    """The times as text; the ratio is that of the medians to the reference's."""
    base = next((timing.median for timing in timings if timing.name == reference and timing.seconds), None)
    width = max(len(timing.name) for timing in timings)
    lines = [f"{'':{width}}  median s    min s    max s  ratio  processors s  peak MiB"]
    return "\n".join([*lines, *(_line(timing, base, width) for timing in timings)])


def _line(timing: Timing, base: float | None, width: int) -> str:
    if not timing.seconds:
        return f"{timing.name:{width}}  {timing.ended}"
    ratio = f"{timing.median / base:5.2f}" if base else "     "
    processors = f"{median(timing.processors_s):12.1f}" if timing.processors_s else 12 * " "
    times = f"{timing.median:8.2f} {min(timing.seconds):8.2f} {max(timing.seconds):8.2f}"
    return f"{timing.name:{width}}  {times}  {ratio}  {processors}  {timing.peak_mb:8,}  {timing.ended}".rstrip()
