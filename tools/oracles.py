"""Asks another engine and compares every answer with the rules of wmlab: `make oracles FLINK=DIRECTORY BEAM=DIRECTORY`.

    python tools/oracles.py flink DIRECTORY                  10,000 random histories of each class
    DIRECTORY/bin/python tools/oracles.py beam DIRECTORY     1,000 of each
    ... --write FILE                                         also keep a sample of them, with the engine's answers

DIRECTORY is an environment of its own: wmlab needs neither engine, nor do its tests, which read the samples. The heads
of `oracle_flink.py` and `oracle_beam.py` say how to make it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any, Final

HISTORIES: Final = {"flink": 10_000, "beam": 1_000}
SAMPLE: Final = 60
"""Histories of each kind that are kept."""


def compared(oracle: Any, rules: Any, kind: str, count: int) -> Iterator[dict[str, Any]]:
    """Histories with the engine's answers; raises SystemExit at the first that a rule answers otherwise."""
    random = Random(f"{rules.SEED}-{kind}")
    for number in range(count):
        given = rules.history(kind, random)
        found = oracle.answers(kind, given)
        if found != (mine := rules.answer(kind, given)):
            raise SystemExit(f"{kind}, history {number}: {given}\nengine {found}\nwmlab  {mine}")
        yield {"kind": kind, **given, "answers": found}


def main() -> None:
    """Compares, prints how many histories of each class agree, and keeps a sample on request."""
    options = argparse.ArgumentParser(description="the rules of strategies against another engine")
    options.add_argument("engine", choices=HISTORIES)
    options.add_argument("directory", type=Path, help="where the engine is installed")
    options.add_argument("--histories", type=int, help="of each class")
    options.add_argument("--kinds", nargs="*")
    options.add_argument("--write", type=Path, help="the file of the sample")
    given = options.parse_args()
    rules = import_module(f"tests.strategies.oracles.{given.engine}")
    histories = given.histories or HISTORIES[given.engine]
    oracle, kept = import_module(f"tools.oracle_{given.engine}").Oracle(given.directory), []
    try:
        for kind in given.kinds or rules.KINDS:
            for count, case in enumerate(compared(oracle, rules, kind, histories), start=1):
                kept += [case] if count <= SAMPLE else []
            print(f"{kind}: {histories} histories, no difference", flush=True)
        witnesses = {name: oracle.answers(case["kind"], case) for name, case in rules.WITNESSES.items()}
    finally:
        oracle.close()
    if given.write:
        lines = ",\n".join(json.dumps(case) for case in kept)
        head = f'{{"{given.engine}": "{oracle.version}", "witnesses": {json.dumps(witnesses)}, "histories": [\n'
        given.write.write_text(f"{head}{lines}\n]}}\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
