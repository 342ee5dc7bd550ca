"""Every public name is documented, and the page that lists them is as it would be made now."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

import wmlab

TOOL = Path(__file__).parents[2] / "tools" / "reference.py"


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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
