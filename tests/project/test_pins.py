"""`make`, conda and Binder install the same packages, and those are what pyproject.toml asks for."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import distributions
from typing import Any

import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.project import source

LOCK = (source.ROOT / "requirements.txt").read_text()
LINES = [line for line in LOCK.splitlines() if line and not line.startswith("#")]
PINS = {canonicalize_name(pin.name): pin for pin in map(Requirement, LINES)}
CONDA: dict[str, Any] = yaml.safe_load((source.ROOT / "environment.yml").read_text())
PROJECT: dict[str, Any] = tomllib.loads((source.ROOT / "pyproject.toml").read_text())
SETUP = (source.ROOT / "tools" / "setup.sh").read_text()
NOT_OURS = {"pip", "setuptools", "wheel", "wmlab"}


def _from_conda(package: str) -> Version:
    (line,) = [d for d in CONDA["dependencies"] if isinstance(d, str) and re.split(r"[=<>]", d)[0] == package]
    return Version(line.partition("=")[2])


def _pinned(name: str) -> str:
    (specifier,) = PINS[canonicalize_name(name)].specifier
    return specifier.version


def test_every_line_of_the_lock_is_an_exact_pin() -> None:
    pin = r"[a-z0-9-]+==[0-9a-z.]+( ; (sys_platform == \"\w+\"|python_version < \"[0-9.]+\"))?"
    assert [line for line in LINES if not re.fullmatch(pin, line)] == []
    assert len(LINES) == len(PINS)


def test_the_lock_names_no_index_address_or_path() -> None:
    assert re.findall(r"^\s*-.*|.*(?:://|@|\\).*|^[./].*", LOCK, flags=re.MULTILINE) == []


def test_each_group_of_the_lock_is_sorted() -> None:
    for group in LOCK.strip().split("\n\n"):
        names = [line.partition("==")[0] for line in group.splitlines() if not line.startswith("#")]
        assert names == sorted(names)


def test_the_lock_satisfies_what_pyproject_asks_for() -> None:
    groups = PROJECT["dependency-groups"].values()
    asked = [Requirement(line) for line in [*PROJECT["project"]["dependencies"], *(line for g in groups for line in g)]]
    unmet = [str(need) for need in asked if not need.specifier.contains(_pinned(need.name), prereleases=True)]
    assert unmet == []


def test_the_lock_is_closed() -> None:
    """Whatever a pinned package needs here is pinned too, at a version that it accepts."""
    unmet = []
    for package in distributions():
        if canonicalize_name(package.name) in PINS:
            for need in map(Requirement, package.requires or ()):
                applies = need.marker is None or need.marker.evaluate({"extra": ""})
                name = canonicalize_name(need.name)
                if applies and (name not in PINS or not need.specifier.contains(_pinned(name), prereleases=True)):
                    unmet.append(f"{package.name} needs {need}")
    assert unmet == []


def test_what_is_installed_is_what_is_pinned() -> None:
    installed = {canonicalize_name(package.name): package.version for package in distributions()}
    here = {name: _pinned(name) for name, pin in PINS.items() if pin.marker is None or pin.marker.evaluate()}
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
