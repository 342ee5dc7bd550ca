"""What an installed wheel needs travels in it, and from it the README's example and commands run in any folder."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.project.source import ROOT
from wmlab.core import files

README: Final = (ROOT / "README.md").read_text()
(SHELL,) = re.findall(r"^## From a script\n\n```sh\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
COMMANDS: Final = [shlex.split(line, comments=True) for line in SHELL.splitlines()]
WITH_SPARK: Final = {"demo", "bounds"}
"""These start a Spark of their own."""
EXIT_CODES: Final = {"profile": 1, "advise": 1, "explain-job": 1}
"""Of commands that find something: a silent writer, a log that does not support advice, a watermark that is held."""


def test_every_package_and_the_data_are_in_it(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as of:
        names = {Path(name) for name in of.namelist() if not name.startswith("wmlab-")}
    code = {file.relative_to(ROOT) for file in (ROOT / "wmlab").rglob("*.py")}
    come_with_it = {name for name in names if name.parts[1] in ("data", "notebooks")}
    assert {name for name in names - come_with_it if name.suffix == ".py"} == code
    files_of_folders = {ROOT / name.relative_to("wmlab") for name in come_with_it if name.suffix != ".py"}
    assert files_of_folders == packed("data") | packed("notebooks")


def packed(folder: str) -> set[Path]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    return {file for pattern in settings[f"wmlab.{folder}"] for file in (ROOT / folder).glob(pattern)}


def test_every_file_of_data_but_the_texts_is_in_it() -> None:
    files_of_data = {file for file in (ROOT / "data").rglob("*") if file.is_file()}
    assert packed("data") == {file for file in files_of_data if file.suffix not in (".md", ".py", ".pyc")}


def test_every_notebook_is_in_it() -> None:
    notebooks = {file for file in (ROOT / "notebooks").rglob("*.ipynb") if ".ipynb_checkpoints" not in file.parts}
    assert {file for file in packed("notebooks") if file.suffix == ".ipynb"} == notebooks


@pytest.mark.parametrize("folder", ["data", "notebooks"])
def test_what_comes_with_it_is_inside_an_installed_package_and_next_to_one_of_a_clone(
    folder: str, tmp_path: Path
) -> None:
    package = tmp_path / "wmlab"
    package.mkdir()
    assert files.shipped(package, folder) == tmp_path / folder
    (package / folder).mkdir()
    assert files.shipped(package, folder) == package / folder
    assert (files.DATA, files.NOTEBOOKS) == (ROOT / "data", ROOT / "notebooks")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the project, built without network from what belongs to it."""
    copy, target = tmp_path_factory.mktemp("copy") / "wmlab", tmp_path_factory.mktemp("wheel")
    copy.mkdir()
    for folder in ("wmlab", "data", "notebooks"):
        shutil.copytree(
            ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints")
        )
    for file in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, copy / file)
    return built("build_wheel", copy, target)


def built(way: str, clone: Path, target: Path) -> Path:
    """What setuptools makes for pip, of a clone in one of its two ways."""
    build = f"from setuptools import build_meta; build_meta.{way}({str(target)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=clone, check=True, capture_output=True, text=True)
    (made,) = target.glob("wmlab-*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment of nothing but the wheel, which sees the dependencies that are installed here."""
    return environment_of(wheel, tmp_path_factory.mktemp("environment"))


def environment_of(wheel: Path, environment: Path) -> Path:
    venv.create(environment, symlinks=True)
    pip = [sys.executable, "-m", "pip", "--python", str(environment / "bin" / "python"), "install", "--quiet"]
    # pip sees its own environment too, whose wmlab it must leave alone.
    arguments = ["--ignore-installed", "--no-deps", "--no-index", str(wheel)]
    subprocess.run([*pip, *arguments], check=True, capture_output=True, text=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    # A path in such a file comes behind the packages of the environment, and its own .pth files are not read: so the
    # clone, which one of them names, is not seen.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return environment


def test_a_clone_installed_in_place_is_found_from_the_folder_that_contains_it(tmp_path: Path) -> None:
    """As `pip install -e .` does it, which `make`, conda and Binder run: pip installs what `build_editable` makes."""
    clone, target = tmp_path / "wmlab", tmp_path / "target"
    clone.mkdir()
    target.mkdir()
    for name in ("wmlab", "data", "notebooks", "pyproject.toml", "setup.py", "README.md", "LICENSE"):
        (clone / name).symlink_to(ROOT / name)
    environment = environment_of(built("build_editable", clone, target), tmp_path / "environment")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    asked = (
        "import wmlab, wmlab.core.files as files; wmlab.Scenario.load('first_bounds');"
        "print(wmlab.__file__, files.DATA.resolve(), files.NOTEBOOKS.resolve())"
    )
    wanted = f"{clone / 'wmlab' / '__init__.py'} {ROOT / 'data'} {ROOT / 'notebooks'}\n"
    for folder in (tmp_path, elsewhere, clone):
        done = run(environment, folder, ["python", "-c", asked])
        assert (done.stdout, done.returncode) == (wanted, 0), done.stderr


@pytest.fixture(scope="module")
def folder(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder outside of the clone, with the files that the commands of the README speak of."""
    folder = tmp_path_factory.mktemp("elsewhere")
    rows = [f"{1_000 * row},{1_000 * row + 200 + 37 * (row % 5)},d{row % 3}" for row in range(400)]
    rows += [f"{1_000 * row},{1_000 * row + 200},d0" for row in range(900, 1_300)]
    (folder / "my.csv").write_text("\n".join(["event_time,arrival_ms,device", *rows, ""]))
    program = f"#!{sys.executable}\n{(ROOT / 'examples' / 'my_valve.py').read_text()}"
    (folder / "my_program").write_text(program)
    (folder / "my_program").chmod(0o755)
    return folder


def run(installed: Path, folder: Path, command: list[str]) -> subprocess.CompletedProcess[str]:
    """Runs a command of the environment, by its name, in that folder."""
    path = f"{installed / 'bin'}{os.pathsep}{os.environ['PATH']}"
    variables = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    program = str(installed / "bin" / command[0])
    return subprocess.run(
        [program, *command[1:]],
        cwd=folder,
        env=variables | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def here(installed: Path, command: list[str]) -> list[str]:
    """A command of the README with a kept log in place of the address of a cluster, and few histories."""
    (log,) = installed.glob("lib/python*/site-packages/wmlab/data/engine_logs/flink/hour_behind.jsonl")
    words = [str(log) if word.startswith("http://") else word for word in command]
    return [*words[:2], "--examples", "20", *words[2:]] if words[1] == "conformance" else words


def run_all(installed: Path, folder: Path, commands: list[list[str]]) -> Iterator[tuple[str, int, str]]:
    for command in commands:
        done = run(installed, folder, here(installed, command))
        yield command[1], done.returncode, done.stderr


def test_the_package_of_the_environment_is_that_of_the_wheel(installed: Path, folder: Path) -> None:
    done = run(installed, folder, ["python", "-c", "import wmlab; print(wmlab.__file__)"])
    assert Path(done.stdout.strip()).is_relative_to(installed), done.stderr


def test_the_commands_of_the_readme_run_in_any_folder(installed: Path, folder: Path) -> None:
    """Those without Spark; the test below has the others."""
    commands = [command for command in COMMANDS if command[1] not in WITH_SPARK]
    ran = list(run_all(installed, folder, commands))
    assert {name: said for name, code, said in ran if code != EXIT_CODES.get(name, 0) or "Traceback" in said} == {}
    listed = run(installed, folder, ["wmlab", "--help"]).stdout
    names = set(re.findall(r"^    ([\w-]+)", listed, re.MULTILINE))
    assert names == {command[1] for command in COMMANDS}, "the README has every command"


def test_a_copied_notebook_names_no_file_of_the_clone(installed: Path, folder: Path, tmp_path: Path) -> None:
    assert run(installed, folder, ["wmlab", "tutorials", str(tmp_path / "copied")]).returncode == 0
    copied = sorted((tmp_path / "copied").rglob("*.ipynb"))
    assert len(copied) > 50
    paths = re.compile(r"(?:\.\./)+\w+/[\w/.{}-]*\.(?:csv|yaml|parquet|jsonl)")
    assert {path.name: found for path in copied if (found := paths.findall(path.read_text()))} == {}


@pytest.mark.long
def test_what_starts_a_spark_runs_in_any_folder_as_well(installed: Path, folder: Path, tmp_path: Path) -> None:
    """The first example of the README, and the commands with Spark; the recording is made first."""
    first = README.partition("```python\n")[2].partition("```")[0]
    example = run(installed, folder, ["python", "-c", f"{first}\nprint(bounds.count())"])
    assert (example.returncode, int(example.stdout or 0) > 0) == (0, True), example.stderr
    commands = [command for command in COMMANDS if command[1] in WITH_SPARK | {"record"}]
    commands = [[word.replace("runs/", f"{tmp_path}/") for word in command] for command in commands]
    commands.sort(key=lambda command: command[1] != "record")
    assert [(name, code) for name, code, _ in run_all(installed, folder, commands)] == [
        ("record", 0),
        ("demo", 0),
        ("bounds", 0),
    ]
