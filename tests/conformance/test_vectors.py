"""Every case of every *.json of the directory given by --vectors.

A file lists its cases under "cases"; those are run under both cut algorithms, or under the variants that they name.
The cases on progress by sequence and chunk come in a format of their own, and so do those on other engines. A file in
no known format is one case, which fails.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import engines, hazelcast, nebula
from tests.conformance.runner import run_case

Run = Callable[[], None]


def runs_in(file: Path) -> Iterator[tuple[str, Run]]:
    """A readable name for each run of a case of the file, and what runs it."""
    content = json.loads(file.read_text())
    for known, kinds in ((nebula.is_nebula, nebula), (engines.is_engines, engines)):
        if known(content):
            for case in kinds.cases_of(content):
                yield case["name"], partial(kinds.run_case, case)
            return
    if hazelcast.is_hazelcast(content):
        for case in content["cases"]:
            for variant in hazelcast.variants_of(case):
                yield f"{case.get('id')}-{variant}", partial(hazelcast.run_case, case, variant)
        return
    listed = content.get("cases") if isinstance(content, dict) else None
    for case in listed if isinstance(listed, list) else [{"name": "file without cases"}]:
        for algorithm in ("sound", "pravega"):
            yield f"{case.get('name', case.get('id'))}-{algorithm}", partial(run_case, case, algorithm)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    directory = metafunc.config.getoption("vectors")
    found = [(file, name, run) for file in sorted(directory.glob("*.json")) for name, run in runs_in(file)]
    if not found:
        raise pytest.UsageError(f"There is no case in any *.json of {directory}.")
    metafunc.parametrize("run", [pytest.param(run, id=f"{file.stem}-{name}") for file, name, run in found])


def test_the_model_does_what_the_case_expects(run: Any) -> None:
    run()
