"""Imports go down the layers of a model, no model imports another, and core imports none."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

import wmlab
from tests.project import arrows, source


def test_every_import_follows_an_arrow() -> None:
    found = [sentence for path in source.modules() for sentence in arrows.violations(path, source.PACKAGE)]
    assert found == []


def test_no_modules_import_each_other_but_the_parties_of_a_simulator() -> None:
    knots = arrows.circles(source.PACKAGE)
    assert [knot for knot in knots if not all(".sim." in name for name in knot)] == []


def test_no_modules_of_a_simulated_model_import_each_other_even_for_typing() -> None:
    knots = arrows.circles(source.PACKAGE, for_typing=True)
    models = ("wmlab.streams.", "wmlab.dataflow.", "wmlab.progress.")
    assert [knot for knot in knots if any(name.startswith(models) for name in knot)] == []


ALONG_AN_ARROW = [
    ("streams/model/a.py", "from fractions import Fraction\nfrom wmlab.core.errors import ModelError"),
    ("streams/model/a.py", "from . import cut"),
    ("streams/charts/a.py", "from wmlab.streams.model import cycle\nfrom wmlab.core.charts.scene import Scene"),
    ("streams/checks/a.py", "from pyspark.sql import DataFrame\nimport wmlab.streams.bounds.bounds"),
    ("dataflow/simulate.py", "from wmlab.streams.recording import record"),
    ("progress/recording.py", "def f():\n    from wmlab.progress.checks import check"),
    ("open.py", "import wmlab.streams, wmlab.dataflow, tqdm"),
    ("paper/a.py", "from wmlab.progress.model import tracker\nfrom wmlab.streams.charts.stream_cut import draw_cut"),
]


@pytest.mark.parametrize(
    ("place", "text", "culprit"),
    [
        *((place, text, None) for place, text in ALONG_AN_ARROW),
        ("streams/model/a.py", "import numpy", "numpy"),
        ("streams/model/a.py", "import random", "random"),
        ("streams/model/a.py", "from wmlab.core.recording import Recording", "wmlab.core.recording"),
        ("streams/model/a.py", "def f():\n    from wmlab.streams import tables", "wmlab.streams.tables"),
        ("streams/model/a.py", "from .. import tables", "wmlab.streams.tables"),
        ("streams/sim/a.py", "if TYPE_CHECKING:\n    from ..charts import lag", "wmlab.streams.charts.lag"),
        ("streams/scenario/a.py", "if DEBUG:\n    import wmlab.streams.recording", "wmlab.streams.recording"),
        ("streams/answers/a.py", "from wmlab.streams.charts.lag import lag", "wmlab.streams.charts.lag.lag"),
        ("streams/answers/a.py", "from pyspark.sql import DataFrame", "pyspark.sql"),
        ("streams/charts/a.py", "import wmlab.progress.model.tracker", "wmlab.progress.model.tracker"),
        ("dataflow/sim/deep/a.py", "from ....streams.scenario import clock", "wmlab.streams.scenario.clock"),
        ("dataflow/answers/a.py", "import wmlab", "imports wmlab,"),
        ("core/a.py", "from wmlab.streams.tables import TABLES", "wmlab.streams.tables.TABLES"),
        ("core/a.py", "from importlib import import_module\nimport_module('numpy')", "computed name"),
        ("paper/a.py", "from wmlab.streams.sim.world import World", "wmlab.streams.sim.world.World"),
        ("attic.py", "", "no layer"),
        ("streams/attic.py", "", "no layer"),
    ],
)
def test_a_forbidden_import_is_found(tmp_path: Path, place: str, text: str, culprit: str | None) -> None:
    path = tmp_path / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    found = arrows.violations(path, tmp_path)
    assert len(found) == (culprit is not None)
    assert all(f"wmlab/{place}" in sentence and culprit in sentence for sentence in found if culprit)


def test_a_circle_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def f():\n    from wmlab import b")
    (tmp_path / "b.py").write_text("import wmlab.a")
    (tmp_path / "c.py").write_text("from wmlab.a import f\nif TYPE_CHECKING:\n    import wmlab.d")
    (tmp_path / "d.py").write_text("import wmlab.c")
    assert arrows.circles(tmp_path) == [("wmlab.a", "wmlab.b")]
    assert arrows.circles(tmp_path, for_typing=True) == [("wmlab.a", "wmlab.b"), ("wmlab.c", "wmlab.d")]


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
        ("from wmlab.streams.model.cut import StreamCut", ["line 1: wmlab.streams.model.cut.StreamCut"]),
        ("import pandas\nimport wmlab.streams.sim.world", ["line 2: wmlab.streams.sim.world"]),
        ("from wmlab import tables", ["line 1: wmlab.tables"]),
    ],
)
def test_an_inner_import_of_a_notebook_is_found(code: str, inner: list[str]) -> None:
    assert arrows.inner_imports(code, frozenset({"script", "Scenario"})) == inner
