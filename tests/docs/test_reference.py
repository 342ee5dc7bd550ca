"""Every public name is documented, and the page that lists them is as it would be made now."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import ModuleType

import pytest

import wmlab
from tests.conftest import module_of

ROOT = Path(__file__).parents[2]
TOOL = ROOT / "tools" / "reference.py"
DELAYS = {"LogNormal", "Uniform"}
"""How long something takes; the notebooks show a fixed one."""


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    return module_of(TOOL)


def test_the_page_is_as_it_would_be_made_now(reference: ModuleType) -> None:
    assert reference.PAGE.read_text() == reference.page(), "run: python tools/reference.py --write"


def test_every_name_of_every_namespace_is_listed(reference: ModuleType) -> None:
    text = reference.PAGE.read_text()
    spaces = [getattr(wmlab, name) for name in wmlab.__all__ if isinstance(getattr(wmlab, name), ModuleType)]
    spaces += [wmlab.dataflow.chart, wmlab.dataflow.spark, wmlab.progress.chart, wmlab.progress.spark]
    missing = [
        f"{space.__name__}.{name}"
        for space in spaces
        for name in reference.public(space)
        if f"`{name}`" not in text and not isinstance(getattr(space, name), ModuleType)
    ]
    assert missing == []


def test_a_name_without_documentation_is_refused(reference: ModuleType) -> None:
    with pytest.raises(LookupError, match="no docstring"):
        reference._sentence(lambda: None)


@pytest.mark.parametrize(
    "space",
    [wmlab.script, wmlab.chart, wmlab.dataflow, wmlab.dataflow.chart, wmlab.progress, wmlab.progress.chart],
    ids=lambda space: space.__name__,
)
def test_every_action_part_and_chart_is_shown_in_a_notebook(reference: ModuleType, space: ModuleType) -> None:
    notebooks = [json.loads(path.read_text()) for path in ROOT.glob("notebooks/*/*.ipynb")]
    shown = [line for notebook in notebooks for cell in notebook["cells"] for line in cell["source"]]
    shown += [path.read_text() for path in ROOT.glob("data/scenarios/**/*.yaml")]
    words = set(re.findall(r"\w+", "\n".join(shown)))
    names = {name for name in reference.public(space) if not isinstance(getattr(space, name), ModuleType)} - DELAYS
    kinds = {name: re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower() for name in names}
    assert [name for name in sorted(names) if not {name, kinds[name]} & words] == []
