"""Every case of every *.json of the directory given by --vectors."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import formats

Run = Callable[[], None]


def runs_in(file: Path) -> Iterator[tuple[str, Run]]:
    """A readable name for each run of a case of the file, and what runs it."""
    return formats.runs_of(json.loads(file.read_text()))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    directory = metafunc.config.getoption("vectors")
    found = [(file, name, run) for file in sorted(directory.glob("*.json")) for name, run in runs_in(file)]
    if not found:
        raise pytest.UsageError(f"There is no case in any *.json of {directory}.")
    metafunc.parametrize("run", [pytest.param(run, id=f"{file.stem}-{name}") for file, name, run in found])


def test_the_model_does_what_the_case_expects(run: Any) -> None:
    run()
