"""Every case of every *.json of the directory given by --vectors, under both cut algorithms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.runner import run_case


def cases_of(file: Path) -> list[dict[str, Any]]:
    """The cases of a file; a file in another format is one case of an unknown kind, which fails."""
    content = json.loads(file.read_text())
    if not isinstance(content, dict) or not isinstance(content.get("cases"), list):
        return [{"name": "file without cases"}]
    return content["cases"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    files = sorted(metafunc.config.getoption("vectors").glob("*.json"))
    cases = [
        pytest.param(case, algorithm, id=f"{file.stem}-{case.get('name', case.get('id'))}-{algorithm}")
        for file in files
        for case in cases_of(file)
        for algorithm in ("sound", "pravega")
    ]
    if not cases:
        raise pytest.UsageError(f"There is no case in any *.json of {metafunc.config.getoption('vectors')}.")
    metafunc.parametrize(("case", "algorithm"), cases)


def test_the_model_does_what_the_case_expects(case: dict[str, Any], algorithm: Any) -> None:
    run_case(case, algorithm)
