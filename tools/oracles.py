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
        history = rules.history(kind, random)
        of_engine = oracle.answers(kind, history)
        if of_engine != (of_wmlab := rules.answer(kind, history)):
            raise SystemExit(f"{kind}, history {number}: {history}\nengine {of_engine}\nwmlab  {of_wmlab}")
        yield {"kind": kind, **history, "answers": of_engine}


def main() -> None:
    """Compares, prints how many histories of each class agree, and keeps a sample on request."""
    parser = argparse.ArgumentParser(description="the rules of strategies against another engine")
    parser.add_argument("engine", choices=HISTORIES)
    parser.add_argument("directory", type=Path, help="where the engine is installed")
    parser.add_argument("--histories", type=int, help="of each class")
    parser.add_argument("--kinds", nargs="*")
    parser.add_argument("--write", type=Path, help="the file of the sample")
    options = parser.parse_args()
    rules = import_module(f"tests.strategies.oracles.{options.engine}")
    histories = options.histories or HISTORIES[options.engine]
    oracle, sample = import_module(f"tools.oracle_{options.engine}").Oracle(options.directory), []
    try:
        for kind in options.kinds or rules.KINDS:
            for count, case in enumerate(compared(oracle, rules, kind, histories), start=1):
                sample += [case] if count <= SAMPLE else []
            print(f"{kind}: {histories} histories, no difference", flush=True)
        witnesses = {name: oracle.answers(case["kind"], case) for name, case in rules.WITNESSES.items()}
    finally:
        oracle.close()
    if options.write:
        lines = ",\n".join(json.dumps(case) for case in sample)
        head = f'{{"{options.engine}": "{oracle.version}", "witnesses": {json.dumps(witnesses)}, "histories": [\n'
        options.write.write_text(f"{head}{lines}\n]}}\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
