"""Breaks lines of the rules, one at a time, and counts how many of these mutants the tests notice: `make mutate`.

    python -m tools.mutate                            # forty lines, the same ones each time
    python -m tools.mutate --lines 100 --seed 2       # others
    python -m tools.mutate --only 3 17                # these of the forty
    python -m tools.mutate --tests DIRECTORY          # by the tests of another clone, for example of an older commit

A mutant is the package with one operator, constant or condition changed. Its tests run in a copy of the clone until the
first one fails: those of its folder, then those of its model, then all others that can see a rule. A mutant that no
test notices is either a missing test or a change without effect, such as `<` for `<=` where equal values never meet.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from random import Random
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
RULES: Final = ("*/model/*.py", "*/bounds/*.py", "*/checks/*.py", "*/checks.py")
"""The files of `wmlab/` whose lines are broken."""
BLIND: Final = ("browser", "clusters", "docs", "notebooks", "project")
"""The folders of `tests/` that can see no rule."""
LIMIT_S: Final = 300
"""Processor time after which one test counts as failed: a mutant may loop without end."""

COMPARISONS: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
OPERATORS: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitAnd: ast.BitOr,
}
FUNCTIONS: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One changed expression of one file of the package."""

    file: Path
    """Relative to the root of the clone."""
    line: int
    start: int
    end: int
    """The expression stands between these offsets of the file's bytes."""
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"

    def apply(self, root: Path) -> None:
        """Change the file below `root`, and forget what Python has compiled of it."""
        path = root / self.file
        source = (ROOT / self.file).read_bytes()
        path.write_bytes(source[: self.start] + self.text.encode() + source[self.end :])
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            compiled.unlink()

    def revert(self, root: Path) -> None:
        """Put the file below `root` back."""
        (root / self.file).write_bytes((ROOT / self.file).read_bytes())


def mutants(seed: int, lines: int) -> list[Mutant]:
    """One mutant for each of so many lines, drawn from all lines of the rules that can be broken."""
    files = sorted(file for files in RULES for file in (ROOT / "wmlab").glob(files))
    by_line: dict[tuple[Path, int], list[Mutant]] = {}
    for file in files:
        for mutant in mutants_of(file):
            by_line.setdefault((mutant.file, mutant.line), []).append(mutant)
    draw = Random(seed)
    return [draw.choice(by_line[line]) for line in draw.sample(sorted(by_line), min(lines, len(by_line)))]


def mutants_of(file: Path) -> Iterator[Mutant]:
    """All mutants of one file."""
    source = file.read_bytes()
    offsets = [0, *itertools.accumulate(len(line) for line in source.splitlines(keepends=True))]
    for node in evaluated(ast.parse(source)):
        for changed in changes(node):
            start = offsets[node.lineno - 1] + node.col_offset
            end = offsets[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
            yield Mutant(file.relative_to(ROOT), node.lineno, start, end, f"({ast.unparse(changed)})")


def evaluated(node: ast.AST) -> Iterator[ast.expr]:
    """The expressions below a node that run: no annotations, decorators, texts, or arguments of errors.

    `strict=` of `zip` is left out, too: where lengths are always equal, no test can notice it.
    """
    if isinstance(node, ast.expr):
        yield node
    if isinstance(node, ast.keyword) and node.arg == "strict":
        return
    left_out = {
        ast.AnnAssign: ("annotation",),
        ast.arg: ("annotation",),
        ast.FunctionDef: ("returns", "decorator_list"),
        ast.ClassDef: ("decorator_list", "bases"),
        ast.JoinedStr: ("values",),
        ast.Raise: ("exc",),
    }.get(type(node), ())
    for name, value in ast.iter_fields(node):
        if name not in left_out:
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from evaluated(child)


def changes(node: ast.expr) -> Iterator[ast.expr]:
    """What an expression is replaced by, one change at a time."""
    match node:
        case ast.Compare(left, [operator], operands) if type(operator) in COMPARISONS:
            yield ast.Compare(left, [COMPARISONS[type(operator)]()], operands)
        case ast.BoolOp(operator, values):
            yield ast.BoolOp(ast.Or() if isinstance(operator, ast.And) else ast.And(), values)
        case ast.BinOp(left, operator, right) if type(operator) in OPERATORS:
            yield ast.BinOp(left, OPERATORS[type(operator)](), right)
        case ast.UnaryOp(ast.Not(), operand):
            yield operand
        case ast.IfExp(test, body, orelse):
            yield ast.IfExp(test, orelse, body)
        case ast.Constant(bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(int(value)):
            yield ast.Constant(value + 1)
        case ast.Call(ast.Name(name), arguments, keywords) if name in FUNCTIONS:
            yield ast.Call(ast.Name(FUNCTIONS[name]), arguments, keywords)


def stages(mutant: Mutant, clone: Path) -> list[list[str]]:
    """The arguments of pytest in a clone, one list a run: the nearest tests first, and every test at most once."""
    tests = Path("tests")
    model, folder = mutant.file.parts[1], mutant.file.parts[2].removesuffix(".py")
    near, model_folder = tests / model / folder, tests / model
    blind = [f"--ignore={tests / name}" for name in BLIND]
    nearest = [[str(near)]] if (clone / near).is_dir() else []
    return [
        *nearest,
        [str(model_folder), f"--ignore={near}"],
        [str(tests), f"--ignore={model_folder}", *blind],
    ]


def notice(mutant: Mutant, clone: Path) -> str | None:
    """The first test of the clone that fails with the mutant, or None. The clone is as before afterwards."""
    mutant.apply(clone)
    try:
        for arguments in stages(mutant, clone):
            if failed := first_failure(clone, arguments):
                return failed
    finally:
        mutant.revert(clone)
    return None


def first_failure(clone: Path, arguments: Sequence[str]) -> str | None:
    """The first failed test of one run of pytest, or the last line that a run without one has written."""
    options = ["-x", "-q", "--no-header", "-p", "no:nbval", "-p", "no:cacheprovider", "-p", "tools.mutate", "-rfE"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *arguments],
        cwd=clone,
        env=os.environ | {"PYTHONPATH": str(clone)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode in (0, 5):  # 5: no tests
        return None
    lines = done.stdout.splitlines()
    failed = [line.split()[1] for line in lines if line.startswith(("FAILED ", "ERROR "))]
    return failed[0] if failed else f"pytest ended with {done.returncode}: {lines[-1] if lines else ''}"


def copy_of_the_clone(folder: Path, tests: Path) -> Path:
    """A copy of what the tests need, with the tests of another clone if they are to judge."""
    hidden = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist", "tests")
    clone = folder / "clone"
    shutil.copytree(ROOT, clone, ignore=hidden, symlinks=True)
    shutil.copytree(tests, clone / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    return clone


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints each mutant with the test that notices it, and how many are noticed; 0 if they could be run, 1 if not."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutate", description="Break the rules, run their tests.")
    parser.add_argument("--lines", type=int, default=40, metavar="N", help="how many (default: 40)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="which ones (default: 0)")
    parser.add_argument("--only", type=int, nargs="+", metavar="NUMBER", help="these of them, from 0")
    parser.add_argument("--tests", type=Path, default=ROOT / "tests", metavar="DIRECTORY", help="whose tests judge")
    parser.add_argument("--processes", type=int, default=2, metavar="N", help="how many at once (default: 2)")
    parser.add_argument("--list", action="store_true", help="only print the mutants")
    options = parser.parse_args(arguments)
    chosen = dict(enumerate(mutants(options.seed, options.lines)))
    if options.only:
        chosen = {number: chosen[number] for number in options.only}
    if options.list:
        print(*(f"{number}: {mutant}" for number, mutant in chosen.items()), sep="\n")
        return 0
    noticed = 0
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.processes) as pool:
        clones: SimpleQueue[Path] = SimpleQueue()
        for process in range(options.processes):
            clone = copy_of_the_clone(Path(folder, str(process)), options.tests)
            if failed := first_failure(clone, ["--collect-only", "tests"]):
                print(f"Without a mutant, the tests cannot be collected: {failed}. Run `make setup` and start again.")
                return 1
            clones.put(clone)

        def run(mutant: Mutant) -> str | None:
            clone = clones.get()
            try:
                return notice(mutant, clone)
            finally:
                clones.put(clone)

        runs = {pool.submit(run, mutant): number for number, mutant in chosen.items()}
        for done in as_completed(runs):
            test = done.result()
            noticed += test is not None
            print(f"{runs[done]}: {chosen[runs[done]]}\n    {test or 'NOT NOTICED'}", flush=True)
    print(f"{noticed} of {len(chosen)} mutants noticed")
    return 0


# As a plugin of pytest, this file ends a test that does not end by itself.


def pytest_runtest_protocol() -> None:
    """Give the test so much processor time, and no more."""
    import signal

    def stop(_signal: int, _frame: object) -> None:
        raise AssertionError(f"the test has taken more than {LIMIT_S} s of processor time")

    signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT_S)


if __name__ == "__main__":
    sys.exit(main())
