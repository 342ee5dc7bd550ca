"""`python -m benchmarks [CASE ...] [--rows N] [--runs N]`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module

CASES = {
    name: f"benchmarks.{name}"
    for name in ("bounds", "coalesce", "cold", "log", "progress", "replay", "simulate", "stored", "strategies", "sweep")
}
"""Cases by name; a case is a module with `THREADS` and `run(rows, runs)`, which yields the lines of its report."""

Run = Callable[[int | None, int], Iterator[str]]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure wmlab and its peers in turns.")
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"any of {', '.join(CASES)}; default all")
    parser.add_argument("--rows", type=int, help="rows of the largest table; default: what the case was made for")
    parser.add_argument("--runs", type=int, default=5, help="counted runs of each contender (default 5)")
    chosen = parser.parse_args(arguments)
    if strangers := sorted(set(chosen.cases) - CASES.keys()):
        parser.error(f"no case {strangers[0]!r}; there are {', '.join(CASES)}")
    print(f"{os.cpu_count()} cores")
    for name in chosen.cases or CASES:
        case = import_module(CASES[name])
        # Polars reads it once, when it is imported.
        os.environ.setdefault("POLARS_MAX_THREADS", str(case.THREADS))
        run: Run = case.run
        print(f"\n{name}")
        for line in run(chosen.rows, chosen.runs):
            print(line, flush=True)


if __name__ == "__main__":
    main()
