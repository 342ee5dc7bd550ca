"""`make`, conda and Binder install the same packages, and those are what pyproject.toml asks for."""

from __future__ import annotations

import re
import sysconfig
import tomllib
from importlib.metadata import distributions
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.project import source

LOCKS = {name: (source.ROOT / name).read_text() for name in ("requirements.txt", "tools/requirements.txt")}
PINS, OF_TOOLS = (
    [Requirement(line.partition("  #")[0]) for line in lock.splitlines() if line and not line.startswith("#")]
    for lock in LOCKS.values()
)
GROUPS_OF_TOOLS = {"docs", "lock"}
"""What `make docs` and `make lock` install next to the environment; no test needs it."""
CONDA: dict[str, Any] = yaml.safe_load((source.ROOT / "environment.yml").read_text())
PROJECT: dict[str, Any] = tomllib.loads((source.ROOT / "pyproject.toml").read_text())
SETUP = (source.ROOT / "tools" / "setup.sh").read_text()
NOT_OURS = {"pip", "wheel", "wmlab"}
INSTALLED = [*distributions(path=[sysconfig.get_path("purelib"), sysconfig.get_path("platlib")])]
"""Those of the environment; setuptools, once it is imported, has others on the path."""


def _from_conda(package: str) -> Version:
    (line,) = [d for d in CONDA["dependencies"] if isinstance(d, str) and re.split(r"[=<>]", d)[0] == package]
    return Version(line.partition("=")[2])


def _pinned(name: str, pins: list[Requirement] = PINS) -> str | None:
    """The version that is pinned for this machine; None: no pin applies here."""
    versions = [str(pin.specifier)[2:] for pin in pins if canonicalize_name(pin.name) == name and _applies(pin)]
    assert len(versions) <= 1, f"{name} has two pins"
    return versions[0] if versions else None


def _applies(requirement: Requirement) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": ""})


def _unmet(lines: list[str], pins: list[Requirement]) -> list[str]:
    """The requirements that apply here and that no pin satisfies."""
    unmet = []
    for need in filter(_applies, map(Requirement, lines)):
        version = _pinned(canonicalize_name(need.name), pins)
        if version is None or not need.specifier.contains(version, prereleases=True):
            unmet.append(str(need))
    return unmet


@pytest.mark.parametrize("lock", LOCKS)
def test_every_line_of_a_lock_is_an_exact_pin(lock: str) -> None:
    pin = r"[a-z0-9-]+==[0-9a-z.]+( ; [^;@/#]+)? +# via .+"
    lines = LOCKS[lock].splitlines()
    assert lines[1] == "#    make lock"
    assert [line for line in lines[2:] if not re.fullmatch(pin, line)] == []
    assert len(lines) > 80


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_names_no_index_address_or_path(lock: str) -> None:
    texts = re.sub(r"-c requirements\.txt", "", LOCKS[lock])
    assert re.findall(r"^\s*-.*|.*(?:://|@|\\|--| /).*|^[./].*", texts, flags=re.MULTILINE) == []


def test_the_locks_satisfy_what_pyproject_asks_for() -> None:
    groups = PROJECT["dependency-groups"]
    of_tests = [line for name, lines in groups.items() if name not in GROUPS_OF_TOOLS for line in lines]
    assert _unmet([*PROJECT["project"]["dependencies"], *of_tests], PINS) == []
    assert _unmet([line for name in GROUPS_OF_TOOLS for line in groups[name]], OF_TOOLS) == []
    assert _unmet(["sphinx"], PINS) == ["sphinx"], "make setup installs what only the site needs"


def test_what_both_locks_pin_is_the_same() -> None:
    both = {canonicalize_name(pin.name) for pin in PINS} & {canonicalize_name(pin.name) for pin in OF_TOOLS}
    assert "jinja2" in both
    of_tools = {name: version for name in both if (version := _pinned(name, OF_TOOLS))}
    assert of_tools == {name: _pinned(name) for name in of_tools}


def test_the_lock_is_closed() -> None:
    """Whatever a pinned package needs here is pinned too, at a version that it accepts."""
    pinned = {canonicalize_name(pin.name) for pin in PINS}
    packages = [package for package in INSTALLED if canonicalize_name(package.name) in pinned]
    assert {package.name: unmet for package in packages if (unmet := _unmet(package.requires or [], PINS))} == {}


def test_what_is_installed_is_what_is_pinned() -> None:
    installed = {canonicalize_name(package.name): package.version for package in INSTALLED}
    here = {canonicalize_name(pin.name): str(pin.specifier)[2:] for pin in PINS if _applies(pin)}
    assert {name: version for name, version in installed.items() if name not in NOT_OURS} == here


def test_make_and_conda_hand_pip_the_same_lines() -> None:
    (pip,) = [dependency["pip"] for dependency in CONDA["dependencies"] if isinstance(dependency, dict)]
    (by_make,) = re.findall(r"-m pip install (.*)$", SETUP, flags=re.MULTILINE)
    assert pip == ["-r requirements.txt", "-e ."]
    assert by_make == " ".join(pip)


def test_conda_brings_a_python_and_a_java_that_are_new_enough() -> None:
    assert SpecifierSet(PROJECT["project"]["requires-python"]).contains(_from_conda("python"))
    assert _from_conda("openjdk") >= Version("17")
    packages = [d for d in CONDA["dependencies"] if isinstance(d, str)]
    assert [re.split(r"[=<>]", name)[0] for name in packages] == ["python", "openjdk", "pip"]


def test_the_set_up_asks_for_the_python_that_pyproject_asks_for() -> None:
    (asked,) = re.findall(r"Python (\d+\.\d+) or newer", SETUP)[:1]
    assert PROJECT["project"]["requires-python"] == f">={asked}"
    assert SETUP.count("-ge 17") == SETUP.count("java_is:-0") >= 1


def test_make_takes_the_environment_of_that_name() -> None:
    makefile = (source.ROOT / "Makefile").read_text()
    assert f"$(filter {CONDA['name']},$(notdir $(CONDA_DEFAULT_ENV)))" in makefile
