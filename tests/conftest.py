"""Options and profiles that all tests share."""

from __future__ import annotations

import gc
import importlib.util
import subprocess
from collections.abc import Container, Iterable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from pyspark.sql import SparkSession

from tests import repetitions

TESTS = Path(__file__).parent
VECTORS = TESTS / "conformance" / "vectors"
SLOW_FIXTURES = {"spark", "made", "browser"}
SPARK_FOLDERS = ("core/spark", "streams/bounds", "dataflow/checks")

# No test depends on how long something takes: no deadline, no complaint about slow generation.
settings.register_profile("wmlab", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("wmlab")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--vectors",
        metavar="DIR",
        type=Path,
        default=VECTORS,
        help="directory whose *.json files tests/conformance runs, every case of them",
    )
    parser.addoption(
        "--long",
        action="store_true",
        help="run every random case in full, and the tests that are marked as long",
    )
    parser.addoption(
        "--check",
        action="store_true",
        help="run the tests of the models and one of each other folder; Spark only where its code was changed",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "long: runs only with --long")
    repetitions.configure(config)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Any:
    """Spare the garbage collector what lives as long as the tests do; it took a sixth of their processor time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000)
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    selected: Iterable[Any] = items
    if not config.getoption("long"):
        selected = [item for item in items if item.get_closest_marker("long") is None]
    if config.getoption("check"):
        selected = selection(selected, changed_spark_folders())
    kept = list(selected)
    config.hook.pytest_deselected(items=list(set(items) - set(kept)))
    items[:] = kept
    items[:] = slow_files_first(items)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    reports = [report for listed in terminalreporter.stats.values() for report in listed]
    if lines := repetitions.summary(reports):
        terminalreporter.section("counted")
        terminalreporter.write("\n".join([*lines, ""]))


def slow_files_first(items: Iterable[Any]) -> list[Any]:
    """The tests in their order, those of files that need a slow fixture before all others.

    A process takes one file after the other. The last ones are then quick, so that no process is left with a long one.
    """
    ordered = list(items)
    slow = {item.path for item in ordered if not SLOW_FIXTURES.isdisjoint(item.fixturenames)}
    return sorted(ordered, key=lambda item: item.path not in slow)


def selection(items: Iterable[Any], with_spark: Container[str]) -> Iterator[Any]:
    """All tests of the models; the first quick test of each other folder; its first with Spark if it is named."""
    taken: set[tuple[str, bool]] = set()
    for item in items:
        folder = item.path.parent.relative_to(TESTS).as_posix()
        slow = not SLOW_FIXTURES.isdisjoint(item.fixturenames)
        if slow and not ("spark" in item.fixturenames and folder in with_spark):
            continue
        if folder.endswith("/model") or (folder, slow) not in taken:
            taken.add((folder, slow))
            yield item


def changed_spark_folders() -> set[str]:
    """The folders of Spark code with a difference from main, or from the last commit where there is no main."""
    root = TESTS.parent
    base = _git("merge-base", "HEAD", "main", cwd=root).strip() or "HEAD"
    changed = _git("diff", "--name-only", base, "--", "wmlab", cwd=root).splitlines()
    return {folder for folder in SPARK_FOLDERS if any(name.startswith(f"wmlab/{folder}/") for name in changed)}


def _git(*arguments: str, cwd: Path) -> str:
    return subprocess.run(["git", *arguments], cwd=cwd, capture_output=True, text=True, check=False).stdout


def module_of(script: Path) -> ModuleType:
    """A script that stands in no package, as a module."""
    spec = importlib.util.spec_from_file_location(script.stem, script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def count(request: pytest.FixtureRequest) -> repetitions.Count:
    """Say how much a test has counted; the end of the test run sums it up."""
    return partial(repetitions.counted, request.node)


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    """The one Spark of a test process, started by the first test that needs it."""
    from wmlab.core.spark.session import spark_session

    return spark_session("local[2]")
