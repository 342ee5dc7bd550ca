"""Writes requirements.txt: all that pyproject.toml asks for, at the versions of the environment that runs this.

    python tools/lock.py            print the pins
    python tools/lock.py --write    store them in requirements.txt

The pins are the closure of the project's dependencies and of its dependency groups, read from the metadata of the
installed packages. They hold no index, address or path, so that they mean the same on every machine.
"""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT: Final = Path(__file__).resolve().parent.parent
HEADING: Final = "# The pins of wmlab, transitive ones included. `make lock` writes this file."
GROUPS: Final = {
    "run": "wmlab itself, JupyterLab included",
    "test": "the tests",
    "bench": "the peers of the benchmarks",
    "browser": "looking at notebooks in a browser",
}
"""Groups in the order of the file; a package that several groups need stands in the first of them."""
ELSEWHERE: Final = {"run": ('appnope==1.0.0 ; sys_platform == "darwin"',)}
"""Pins that the dependencies need on other systems only, and that no environment of this one can show."""


def wanted(pyproject: Path) -> dict[str, list[Requirement]]:
    """What pyproject.toml asks for directly, by group of the lock."""
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))
    groups = {"run": project["project"]["dependencies"], **project["dependency-groups"]}
    return {group: [Requirement(line) for line in groups[group]] for group in GROUPS}


def closure(requirements: Iterable[Requirement]) -> dict[str, str]:
    """The version of every package that `requirements` pull in, by canonical name.

    Raises `importlib.metadata.PackageNotFoundError` if one of them is not installed.
    """
    versions: dict[str, str] = {}
    visited: set[tuple[str, frozenset[str]]] = set()
    open_ends = list(requirements)
    while open_ends:
        requirement = open_ends.pop()
        step = (canonicalize_name(requirement.name), frozenset(requirement.extras))
        if step in visited:
            continue
        visited.add(step)
        installed = distribution(step[0])
        versions[step[0]] = installed.version
        open_ends.extend(_needs(installed.requires or [], requirement.extras))
    return versions


def _needs(lines: Iterable[str], extras: set[str]) -> Iterator[Requirement]:
    for need in map(Requirement, lines):
        if need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in {"", *extras}):
            yield need


def pins(pyproject: Path) -> str:
    """The text of requirements.txt for the environment that runs this."""
    listed: set[str] = set()
    parts = [HEADING]
    for group, requirements in wanted(pyproject).items():
        versions = closure(requirements)
        only = {canonicalize_name(need.name): f" ; {need.marker}" for need in requirements if need.marker}
        lines = {name: f"{name}=={versions[name]}{only.get(name, '')}" for name in versions.keys() - listed}
        lines |= {line.partition("==")[0]: line for line in ELSEWHERE.get(group, ())}
        listed |= versions.keys()
        parts.append("\n".join([f"# {GROUPS[group]}", *(line for _, line in sorted(lines.items()))]))
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Prints or stores the pins."""
    options = argparse.ArgumentParser(description="pins of the environment that runs this")
    options.add_argument("--write", action="store_true", help="store them in requirements.txt")
    text = pins(ROOT / "pyproject.toml")
    if options.parse_args().write:
        (ROOT / "requirements.txt").write_text(text, encoding="utf-8")
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
