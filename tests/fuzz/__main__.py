"""Many mutants by command: `python -m tests.fuzz --mutants 50000 --seed 1`."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.fuzz.mutants import Recorded, attempt


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the mutants and prints each that breaks something; 0 when none does, else 1."""
    options = parser().parse_args(arguments)
    numbers = [options.only] if options.only is not None else range(options.mutants)
    counts: Counter[tuple[str, str]] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        made, place = Recorded.under(Path(folder) / "made"), Path(folder) / "mutant"
        place.mkdir()
        for number in numbers:
            outcome = attempt(options.seed, number, place, made)
            counts[outcome.kind, outcome.verdict] += 1
            if outcome.verdict == "broken":
                print(f"mutant {number} of seed {options.seed}, {outcome.kind}:\n{outcome.told}", flush=True)
    for (kind, verdict), count in sorted(counts.items()):
        print(f"{kind} {verdict}: {count:,}")
    return 1 if any(verdict == "broken" for _, verdict in counts) else 0


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Feed wmlab with damaged input.")
    top.add_argument("--mutants", type=int, default=50_000, metavar="N", help="how many (default: 50000)")
    top.add_argument("--seed", type=int, default=0, metavar="N", help="where chance begins (default: 0)")
    top.add_argument("--only", type=int, metavar="NUMBER", help="this mutant alone")
    return top


if __name__ == "__main__":
    sys.exit(main())
