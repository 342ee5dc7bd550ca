"""The worked examples in the docstrings of the model give what they say."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

from wmlab.progress import model

MODULES = [module.name for module in pkgutil.iter_modules(model.__path__)]


@pytest.mark.parametrize("name", MODULES)
def test_a_worked_example_gives_what_it_says(name: str) -> None:
    examples = doctest.testmod(importlib.import_module(f"{model.__name__}.{name}"))
    assert examples.failed == 0


def test_there_are_examples() -> None:
    assert sum(doctest.testmod(importlib.import_module(f"{model.__name__}.{name}")).attempted for name in MODULES)
