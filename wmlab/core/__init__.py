"""What the models share; and namespaces whose names are loaded when they are first used.

With lazy names a Spark executor that needs a rule of the model gets nothing else. A name of the version before leads to
its new one for one version, with a `FutureWarning`.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any


def lazy(
    package: str, homes: Mapping[str, str], *, former: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of `package`; `homes` says for each name "module:attribute", or "module".

    `former` has the new name of each name of the version before, see `renamed`.
    """

    def get(name: str) -> Any:
        if former and name in former:
            name = _new_name(package, name, former)
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}; it has {', '.join(homes)}")
        module, _, attribute = homes[name].partition(":")
        target = importlib.import_module(module)
        return getattr(target, attribute) if attribute else target

    return get, lambda: sorted(homes)


def renamed(module: str, former: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of `module` for names of the version before, which warns and gives what is called so now."""

    def get(name: str) -> Any:
        if name not in former:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return getattr(sys.modules[module], _new_name(module, name, former))

    return get


def _new_name(module: str, name: str, former: Mapping[str, str]) -> str:
    """The new name of a former one, with a warning at the line that has used that."""
    text = f"{module}.{name} is called {former[name]} now; {name} goes with the next version."
    warnings.warn(text, FutureWarning, stacklevel=3)
    return former[name]
