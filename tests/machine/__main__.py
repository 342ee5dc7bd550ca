"""A longer run by command: `python -m tests.machine --runs 20000 --seed 7`.

It makes scenarios up and records them in several processes, has two judges judge them, and says what it has done. When
a promise is broken, or the two judges disagree, the scenario goes to a file for `python -m wmlab record`.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from tests.machine.batch import differences, judged_by_checks
from tests.machine.campaign import MACHINES, Made, Shard, make, shards, smallest


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(prog="python -m tests.machine", description="Make scenarios up and judge their runs.")
    top.add_argument("--runs", type=int, default=2_000, metavar="N", help="how many (default: 2000)")
    top.add_argument("--seed", type=int, default=0, metavar="N", help="where chance begins (default: 0)")
    top.add_argument("--machine", choices=MACHINES, default="sound", help="what may happen (default: sound)")
    top.add_argument("--processes", type=int, default=2, metavar="N", help="how many at once (default: 2)")
    top.add_argument("--output", type=Path, default=Path("broken.yaml"), metavar="FILE.yaml", help="for the scenario")
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Carries the command out; 0 when every promise was kept and the judges agree, else 1."""
    options = parser().parse_args(arguments)
    counts: Counter[str] = Counter()
    runs = 0
    print(f"{options.runs:,} runs of the machine {options.machine!r} from seed {options.seed}", flush=True)
    for made in in_processes(shards(options.machine, options.runs, options.seed), options.processes):
        runs += len(made.scenarios)
        counts += made.judged
        print(f"{runs:,} runs; judged {', '.join(f'{name} {counts[name]:,}' for name in sorted(counts))}", flush=True)
        if made.broken:
            return _broken(made.shard, options.output)
        if disputed := list(differences(made.findings, judged_by_checks(made.tables))):
            return _disagreement(made, disputed, options.output)
    print("every promise was kept, and both judges say so")
    return 0


def in_processes(wanted: Sequence[Shard], processes: int) -> Iterator[Made]:
    """The shards in their order, made by several processes."""
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        yield from pool.map(make, wanted)


def _broken(shard: Shard, output: Path) -> int:
    print(f"a promise was broken in the runs from seed {shard.seed}; looking for the smallest scenario", flush=True)
    found = smallest(shard)
    if found is None:
        print("it was not broken a second time: the runs depend on more than their seed")
        return 1
    print(f"violated: {', '.join(sorted(found.invariants))}; the scenario is in {found.scenario.save(output)}")
    return 1


def _disagreement(made: Made, disputed: list[str], output: Path) -> int:
    run = disputed[0].partition(" of ")[2].partition("/")[0]
    output.write_text(made.scenarios[run], encoding="utf-8")
    print(f"the judges disagree {len(disputed)} times: {disputed[0]}; the scenario is in {output}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
