"""What the models share; and namespaces, which offer their public names and nothing else.

`lazy` is for a package whose names are loaded when they are first used, so that a Spark executor that needs a rule of
the model gets nothing else; `namespace` for a module that has its names already. Either way `dir()`, and so Tab, shows
them alone, and a name that is not there is answered with one that is like it.
"""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

Namespace = tuple[Callable[[str], Any], Callable[[], list[str]]]
"""The `__getattr__` and `__dir__` of a module."""


def lazy(package: str, homes: Mapping[str, str]) -> Namespace:
    """The namespace of `package`; `homes` says for each name "module:attribute", or "module"."""

    def get(name: str) -> Any:
        if name not in homes:
            raise _missing(package, name, homes)
        module, _, attribute = homes[name].partition(":")
        target = importlib.import_module(module)
        return getattr(target, attribute) if attribute else target

    return get, lambda: sorted(homes)


def namespace(module: str) -> Namespace:
    """The namespace of `module`, which lists its names in `__all__`."""

    def get(name: str) -> Any:
        raise _missing(module, name, names())

    def names() -> list[str]:
        return sorted(sys.modules[module].__all__)

    return get, names


def _missing(module: str, name: str, names: Iterable[str]) -> AttributeError:
    lower = {known.lower(): known for known in names}
    # Python and IPython look for many a name with underscores that nobody has written.
    close = [] if name.startswith("_") else difflib.get_close_matches(name.lower(), lower, n=1)
    hint = f"did you mean {lower[close[0]]!r}?" if close else f"it has {', '.join(lower.values())}"
    return AttributeError(f"module {module!r} has no attribute {name!r}; {hint}")
