"""tools/setup.sh on machines that have no, an old, a strange or a good Python and Java.

The machines are directories of small scripts that stand in for the interpreters; nothing is installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.project import source

SYSTEM_TOOLS = ["sh", "sed", "cat", "cksum", "cp", "dirname", "ln", "mkdir", "mv", "readlink", "rm", "sleep"]

PYTHON = """#!/bin/sh
# Answers for its version, makes a virtual environment of itself, and writes down what pip is asked to do.
case "$*" in
    *version_info*) echo {version} ;;
    *ensurepip*) {ensurepip} ;;
    "-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" && echo venv >>calls ;;
    "-m pip "*) {pip} && echo "$*" >>calls ;;
    tools/*) {classes} && echo "$*" >>calls ;;
esac
"""
GOOD = {"ensurepip": "true", "pip": "true", "classes": "true"}
JAVA = """#!/bin/sh
echo 'Picked up JAVA_TOOL_OPTIONS: -Xmx1g' >&2
echo '{banner}' >&2
"""
JAVA_17 = 'openjdk version "17.0.15" 2025-04-15'


@dataclass
class Machine:
    """A clone of the project on a machine of its own."""

    root: Path
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def bin(self) -> Path:
        return self.root / "bin"

    @property
    def clone(self) -> Path:
        return self.root / "clone"

    def program(self, text: str, *where: str) -> Path:
        path = self.root.joinpath(*where)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return path

    def python(self, version: str, *, name: str = "python3", **answers: str) -> Path:
        return self.program(PYTHON.format(version=version, **GOOD | answers), "bin", name)

    def java(self, banner: str = JAVA_17, *where: str) -> Path:
        return self.program(JAVA.format(banner=banner), *(where or ("bin", "java")))

    def setup(self) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", str(self.clone / "tools" / "setup.sh")],
            env={"PATH": str(self.bin), **self.variables},
            capture_output=True,
            text=True,
            timeout=30,
        )

    def refused(self) -> str:
        done = self.setup()
        assert done.returncode == 1
        assert self.calls() == []
        assert not (self.clone / ".venv").exists()
        return done.stderr

    def succeeded(self) -> str:
        done = self.setup()
        assert done.returncode == 0, done.stderr
        return done.stderr

    def calls(self) -> list[str]:
        written = self.clone / "calls"
        return written.read_text().splitlines() if written.exists() else []


@pytest.fixture
def bare(tmp_path: Path) -> Machine:
    """A machine without Python and Java."""
    machine = Machine(tmp_path)
    machine.bin.mkdir()
    for tool in SYSTEM_TOOLS:
        found = shutil.which(tool)
        assert found, f"{tool} is missing"
        (machine.bin / tool).symlink_to(found)
    (machine.clone / "tools").mkdir(parents=True)
    for name in ("requirements.txt", "pyproject.toml", "setup.py", "tools/setup.sh"):
        shutil.copy(source.ROOT / name, machine.clone / name)
    return machine


@pytest.fixture
def machine(bare: Machine) -> Machine:
    bare.python("3.11.0")
    bare.java()
    return bare


INSTALLED = ["venv", "-m pip install -r requirements.txt -e .", "tools/spark_classes.py"]


def test_a_good_machine_is_set_up_once(machine: Machine) -> None:
    assert "once" in machine.succeeded()
    assert machine.calls() == INSTALLED
    assert machine.succeeded() == ""
    assert machine.calls() == INSTALLED


def test_without_python_and_java_both_are_asked_for_with_both_remedies(bare: Machine) -> None:
    said = bare.refused()
    assert "Python 3.11 or newer. Found:\n    none" in said
    assert "Java 17 or newer, for Spark. Found:\n    none" in said
    assert "apt install python3" in said
    assert "apt install openjdk-17-jre-headless" in said
    assert said.count("conda env create -f environment.yml") == 1


@pytest.mark.parametrize("version", ["2.7.18", "3.6.15", "3.9.2", "3.10.13"])
def test_an_old_python_is_named_with_its_version(machine: Machine, version: str) -> None:
    path = machine.python(version)
    said = machine.refused()
    assert f"{path} is {version}\n" in said
    assert "Java" not in said.partition("conda")[0].replace("Python and Java", "")


@pytest.mark.parametrize("text", ["#!/bin/sh\nexit 127", "#!/bin/sh\necho hello", "#!/bin/sh\necho oops >&2; exit 1"])
def test_a_python_that_does_not_answer_is_named(machine: Machine, text: str) -> None:
    path = machine.program(text, "bin", "python3")
    assert f"{path} is not a Python that answers" in machine.refused()


def test_a_newer_python_further_down_the_path_is_taken(machine: Machine) -> None:
    machine.python("3.9.2")
    newer = machine.python("3.12.1", name="python3.12")
    assert f"with {newer} (3.12.1)" in machine.succeeded()


@pytest.mark.parametrize("version", ["3.11.0", "3.12.4", "3.20.0", "4.0.0"])
def test_the_named_python_is_taken_and_no_other(machine: Machine, version: str) -> None:
    machine.python("3.13.0")
    named = machine.python(version, name="my python")
    machine.variables["PYTHON"] = str(named)
    assert f"with {named} ({version})" in machine.succeeded()
    named.unlink()
    assert f"none named {named}" in machine.setup().stderr


def test_naming_another_python_makes_the_environment_anew(machine: Machine) -> None:
    machine.succeeded()
    machine.variables["PYTHON"] = str(machine.python("3.12.0", name="python3.12"))
    machine.succeeded()
    assert machine.calls() == INSTALLED * 2
    del machine.variables["PYTHON"]
    assert machine.succeeded() == ""


@pytest.mark.parametrize(
    ("banner", "found"),
    [
        ('java version "1.8.0_392"', "1.8.0_392"),
        ('openjdk version "11.0.21" 2023-10-17', "11.0.21"),
        ('openjdk version "16" 2021-03-16', "16"),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", "not a Java that answers"),
    ],
)
def test_an_unfit_java_is_named_with_its_version(machine: Machine, banner: str, found: str) -> None:
    path = machine.java(banner.replace("'", "’"))
    assert f"{path} is {found}\n" in machine.refused()


@pytest.mark.parametrize("banner", ['openjdk version "21" 2023-09-19', 'openjdk version "25-ea" 2025-09-16'])
def test_newer_java_is_good(machine: Machine, banner: str) -> None:
    machine.java(banner)
    machine.succeeded()


def test_java_home_goes_before_the_path_as_it_does_for_spark(machine: Machine) -> None:
    home = machine.java('openjdk version "11.0.1" 2018-10-16', "jdk", "bin", "java").parent.parent
    machine.variables["JAVA_HOME"] = str(home)
    assert f"{home}/bin/java (from JAVA_HOME) is 11.0.1" in machine.refused()
    machine.variables["JAVA_HOME"] = str(machine.root / "nowhere")
    assert f"none, and JAVA_HOME is {machine.root / 'nowhere'}" in machine.refused()


def test_a_debian_python_without_venv_is_told_the_package(machine: Machine) -> None:
    machine.python("3.11.2", ensurepip="exit 1")
    said = machine.refused()
    assert "apt install python3.11-venv" in said
    assert "conda env create -f environment.yml" in said


def test_an_interrupted_installation_is_begun_anew(machine: Machine) -> None:
    machine.python("3.11.0", pip="exit 1")
    assert machine.setup().returncode == 1
    assert machine.calls() == ["venv"]
    machine.python("3.11.0")
    machine.succeeded()
    assert machine.calls() == ["venv", *INSTALLED]


def test_a_java_that_keeps_no_classes_of_spark_is_good_enough(machine: Machine) -> None:
    machine.python("3.11.0", classes="exit 1")
    assert "without the file" in machine.succeeded()
    assert machine.succeeded() == ""


@pytest.mark.parametrize("command", ["echo numpy==2.4.6 >requirements.txt", "rm .venv/bin/python"])
def test_changed_pins_and_a_python_that_is_gone_make_the_environment_anew(machine: Machine, command: str) -> None:
    machine.succeeded()
    subprocess.run(command, shell=True, cwd=machine.clone, check=True)
    machine.succeeded()
    assert machine.calls() == INSTALLED * 2


@pytest.mark.parametrize("file", ["pyproject.toml", "setup.py"])
def test_a_changed_project_is_installed_into_what_is_there(machine: Machine, file: str) -> None:
    machine.succeeded()
    (machine.clone / file).write_text("[project]\n")
    assert "pyproject.toml or setup.py has changed" in machine.succeeded()
    assert machine.calls() == [*INSTALLED, *INSTALLED[1:]]
    assert machine.succeeded() == ""


def test_a_moved_clone_is_set_up_in_its_new_place(machine: Machine) -> None:
    machine.succeeded()
    moved = Machine(machine.root / "elsewhere")
    shutil.copytree(machine.root, moved.root, symlinks=True, ignore=shutil.ignore_patterns("elsewhere"))
    moved.succeeded()
    assert moved.calls() == INSTALLED * 2


def test_the_turn_of_a_set_up_that_died_is_void(machine: Machine) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    turn = machine.clone / ".wmlab" / "setup.turn"
    turn.parent.mkdir()
    turn.symlink_to(str(ended.pid))
    machine.succeeded()
    assert not turn.is_symlink()


def test_of_two_set_ups_one_installs_and_the_other_waits(machine: Machine) -> None:
    """The one that installs goes on when the other has said that it waits; 300 looks are the end of a failed test."""
    go = machine.root / "go"
    machine.python("3.11.0", pip=f"n=0; while [ ! -e '{go}' ] && [ $n -lt 300 ]; do sleep 0.1; n=$((n + 1)); done")
    command = ["sh", str(machine.clone / "tools" / "setup.sh")]
    output, entrance = os.pipe()
    both = [subprocess.Popen(command, env={"PATH": str(machine.bin)}, stderr=entrance) for _ in range(2)]
    os.close(entrance)
    with os.fdopen(output) as lines:
        assert any("waiting for it" in line for line in lines)
        go.touch()
        assert "waiting for it" not in lines.read()
    assert [run.wait(30) for run in both] == [0, 0]
    assert machine.calls() == INSTALLED


def test_an_environment_kept_by_hand_is_checked_and_left_alone(machine: Machine) -> None:
    machine.variables["WMLAB_ENV"] = str(machine.root / "env")
    assert "is not a Python of 3.11 or newer" in machine.refused()
    kept = machine.program(PYTHON.format(version="3.11.9", **GOOD), "env", "bin", "python")
    assert machine.succeeded() == ""
    assert machine.calls() == []
    plain = kept.read_text()
    asked_elsewhere = f'[ "$PWD" = / ] && [ "$3" = "{machine.clone}" ]'
    kept.write_text(plain.replace("*ensurepip*) true", f'*"pyspark, jupyterlab, wmlab"*) {asked_elsewhere}'))
    assert machine.succeeded() == ""
    kept.write_text(plain.replace("*ensurepip*) true", '*"pyspark, jupyterlab, wmlab"*) exit 1'))
    assert "conda env update -f environment.yml" in machine.refused()


def test_make_stops_when_the_set_up_refuses(bare: Machine) -> None:
    make = shutil.which("make")
    assert make, "make is missing"
    shutil.copy(source.ROOT / "Makefile", bare.clone / "Makefile")
    (bare.bin / "id").symlink_to(shutil.which("id") or "id")
    environment = {name: value for name, value in os.environ.items() if name == "LANG"} | {"PATH": str(bare.bin)}
    for target in ("lab", "check", "test", "bench"):
        done = subprocess.run([make, target], cwd=bare.clone, env=environment, capture_output=True, text=True)
        assert done.returncode != 0
        assert "wmlab needs Python 3.11 or newer" in done.stderr
        assert "jupyterlab" not in done.stdout + done.stderr.partition("conda")[0]
