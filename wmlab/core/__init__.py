"""What the models share; and namespaces whose names are loaded when they are first used.

With lazy names a Spark executor that needs a rule of the model gets nothing else.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def lazy(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of `package`; `homes` says for each name "module:attribute", or "module"."""

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}; it has {', '.join(homes)}")
        module, _, attribute = homes[name].partition(":")
        found = importlib.import_module(module)
        return getattr(found, attribute) if attribute else found

    return get, lambda: sorted(homes)
