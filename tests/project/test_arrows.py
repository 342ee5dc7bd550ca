"""Data moves left to right through the house, and imports only along the arrows that the design draws."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

import wmlab
from tests.project import arrows, source


def test_every_import_follows_an_arrow() -> None:
    found = [sentence for path in source.modules() for sentence in arrows.violations(path, source.PACKAGE)]
    assert found == []


def test_every_room_of_the_table_exists() -> None:
    present = {path.relative_to(source.PACKAGE).with_suffix("").parts[0] for path in source.modules()}
    assert set(arrows.ROOMS) | set(arrows.FILES) | arrows.RIM == present


@pytest.mark.parametrize(
    ("place", "text", "culprit"),
    [
        ("model/a.py", "import numpy", "numpy"),
        ("model/a.py", "import random", "random"),
        ("model/a.py", "from wmlab.tables import TABLES", "wmlab.tables"),
        ("model/a.py", "def f():\n    from wmlab import lab", "wmlab.lab"),
        ("model/a.py", "from .. import tables", "wmlab.tables"),
        ("model/a.py", "if TYPE_CHECKING:\n    from wmlab.lab import Recording", "wmlab.lab"),
        ("scenario/a.py", "if DEBUG:\n    from wmlab.lab import Recording", "wmlab.lab"),
        ("sim/a.py", "from wmlab import tables", "wmlab.tables"),
        ("sim/deep/a.py", "from ...spark import bounds", "wmlab.spark"),
        ("sim/a.py", "def f():\n    import pandas", "pandas"),
        ("scenario.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import pyspark.sql", "pyspark.sql"),
        ("recording.py", "from wmlab.lab import record", "wmlab.lab"),
        ("storage.py", "import wmlab.traces", "wmlab.traces"),
        ("traces.py", "import wmlab.sim.world as world", "wmlab.sim.world"),
        ("spark/a.py", "import pandas", "pandas"),
        ("spark/a.py", "class A:\n    import pandas", "pandas"),
        ("spark/a.py", "from wmlab.recording import Recording", "wmlab.recording"),
        ("view/a.py", "from wmlab.model.cut import StreamCut", "wmlab.model.cut"),
        ("view/a.py", "import wmlab", "imports wmlab,"),
        ("tables.py", "def f():\n    from wmlab import lab", "wmlab.lab"),
        ("errors.py", "import wmlab.model", "wmlab.model"),
        ("errors.py", "from importlib import import_module", "computed name"),
        ("attic.py", "", "no room"),
    ],
)
def test_a_forbidden_import_is_found(tmp_path: Path, place: str, text: str, culprit: str) -> None:
    if culprit == "computed name":
        text += "\nimport_module('numpy')"
    path = tmp_path / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    (sentence,) = arrows.violations(path, tmp_path)
    assert f"wmlab/{place}" in sentence
    assert culprit in sentence


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("model/a.py", "from fractions import Fraction\nfrom wmlab.errors import ModelError\nfrom . import cut"),
        ("scenario.py", "def record():\n    from wmlab import lab"),
        ("recording.py", "def bounds():\n    import wmlab.lab"),
        ("storage.py", "from wmlab.recording import Recording\nimport pyarrow.parquet"),
        ("spark/a.py", "import pyarrow as pa\ndef on_executor():\n    import pandas"),
        ("lab.py", "import wmlab.sim, wmlab.spark, tqdm"),
    ],
)
def test_an_import_along_an_arrow_is_not(tmp_path: Path, place: str, text: str) -> None:
    path = tmp_path / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    assert arrows.violations(path, tmp_path) == []


def test_notebooks_use_the_public_face_only() -> None:
    found = {}
    for path in sorted((source.ROOT / "notebooks").rglob("*.ipynb")):
        if ".ipynb_checkpoints" not in path.parts:
            cells = nbformat.read(path, as_version=4).cells
            found[path.name] = [inner for cell in cells if cell.cell_type == "code" for inner in _inner(cell.source)]
    assert {name: inner for name, inner in found.items() if inner} == {}


def _inner(code: str) -> list[str]:
    """As in `arrows.inner_imports`; lines of IPython, which is not Python, are left out."""
    lines = [line for line in code.splitlines() if not line.lstrip().startswith(("%", "!", "?"))]
    return arrows.inner_imports("\n".join(lines), frozenset(wmlab.__all__))


@pytest.mark.parametrize(
    ("code", "inner"),
    [
        ("import wmlab as wm\nimport pandas as pd\nfrom wmlab import script", []),
        ("from wmlab.model.cut import StreamCut", ["line 1: wmlab.model.cut"]),
        ("import pandas\nimport wmlab.sim.world", ["line 2: wmlab.sim.world"]),
        ("from wmlab import tables", ["line 1: wmlab.tables"]),
    ],
)
def test_an_inner_import_of_a_notebook_is_found(code: str, inner: list[str]) -> None:
    assert arrows.inner_imports(code, frozenset({"script", "Scenario"})) == inner
