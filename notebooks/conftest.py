"""One pytest run executes all notebooks; those of `exploration` are starting points, whose answers may move.

There outputs are compared only where a cell asks for it with NBVAL_CHECK_OUTPUT, as `--nbval-lax` does for all.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

EXPLORATION = Path(__file__).parent / "exploration"


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Any:
    """Compare the outputs of a notebook unless it is one to explore with."""
    collected = yield
    if EXPLORATION in file_path.parents:
        for notebook in collected:
            notebook.compare_outputs = False
    return collected
