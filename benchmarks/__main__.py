"""`python -m benchmarks [CASE ...] [--rows N] [--runs N]`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from multiprocessing import get_context

CASES = {
    name: f"benchmarks.{name}"
    for name in (
        "bounds",
        "coalesce",
        "cold",
        "curves",
        "dataflow",
        "growth",
        "load",
        "log",
        "memory",
        "progress",
        "replay",
        "simulate",
        "stored",
        "strategies",
        "sweep",
    )
}
"""Cases by name; a case is a module with `THREADS` and `run(rows, runs)`, which yields the lines of its report."""

LARGE = ("memory", "stored")
"""Cases that run only if they are named; without them all take half an hour."""

CORES = 2
"""All contenders get as many, whatever the machine has."""

Run = Callable[[int | None, int], Iterator[str]]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure wmlab and its peers in turns.")
    parser.add_argument(
        "cases", nargs="*", metavar="CASE", help=f"any of {', '.join(CASES)}; default all but {' and '.join(LARGE)}"
    )
    parser.add_argument("--rows", type=int, help="rows of the largest table; default: what the case was made for")
    parser.add_argument("--runs", type=int, default=1, help="counted runs of each contender (default 1)")
    chosen = parser.parse_args(arguments)
    if strangers := sorted(set(chosen.cases) - CASES.keys()):
        parser.error(f"no case {strangers[0]!r}; there are {', '.join(CASES)}")
    print(f"{os.cpu_count()} cores")
    for name in chosen.cases or [name for name in CASES if name not in LARGE]:
        case = import_module(CASES[name])
        # Polars reads it once, when it is imported.
        os.environ.setdefault("POLARS_MAX_THREADS", str(case.THREADS))
        print(f"\n{name}", flush=True)
        # A case that starts a JVM itself leaves none to the next: contenders are forked from a process without threads.
        process = get_context("fork").Process(target=report, args=(case.run, chosen.rows, chosen.runs))
        process.start()
        process.join()
        if process.exitcode:
            sys.exit(f"{name} ended with code {process.exitcode}; what it printed says why")


def report(run: Run, rows: int | None, runs: int) -> None:
    """Print the lines of a case; whoever asks how many cores there are gets `CORES`."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    for line in run(rows, runs):
        print(line, flush=True)


if __name__ == "__main__":
    main()
