"""What the models share; and namespaces, which offer their public names and nothing else.

`lazy` is for a package whose names are loaded when they are first used. So a Spark executor that needs a rule of the
model gets nothing else. `namespace` is for a module that has its names already. Either way `dir()`, and so Tab, shows
them alone; a name that is not there is answered with one that is like it.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
from collections.abc import Callable, Iterable
from typing import Any

from wmlab.core.errors import unknown_name


def lazy(package: str) -> None:
    """Make `package` a namespace whose names are loaded when they are first used.

    Its names stand in its source under `if TYPE_CHECKING:`, where Tab and type checkers see them: what is imported as
    itself, `from module import name as name`, and other names for what is imported, `chart = charts`.
    """
    homes = _homes(package)

    def load(name: str) -> Any:
        module, attribute = homes[name]
        target = importlib.import_module(module)
        # A module inside the package itself is none of its attributes yet.
        if attribute in vars(target):
            return vars(target)[attribute]
        return importlib.import_module(f"{module}.{attribute}")

    _offer(package, homes, load)


def namespace(module: str) -> None:
    """Make `module`, which lists its names in `__all__`, a namespace."""
    _offer(module, sys.modules[module].__all__, None)


def _offer(module: str, names: Iterable[str], load: Callable[[str], Any] | None) -> None:
    """Set what Python asks of a module; type checkers must not see `__getattr__`, or every name would be right."""
    offered = sorted(names)

    def get(name: str) -> Any:
        if load is not None and name in offered:
            return load(name)
        raise unknown_name(f"module {module!r}", name, offered)

    vars(sys.modules[module]).update(__all__=offered, __getattr__=get, __dir__=lambda: offered)


def _homes(package: str) -> dict[str, tuple[str, str]]:
    """The module that each name of a lazy package comes from, and what it is called there."""
    imported, homes = {}, {}
    for statement in _for_type_checkers(package):
        match statement:
            case ast.ImportFrom(module=module, names=names):
                for alias in names:
                    imported[alias.name] = module or "", alias.name
                    if alias.asname == alias.name:
                        homes[alias.name] = imported[alias.name]
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Name(id=other)):
                homes[name] = imported[other]
    return homes


def _for_type_checkers(package: str) -> list[ast.stmt]:
    """The statements of a package under `if TYPE_CHECKING:`."""
    source = inspect.getsource(sys.modules[package])
    blocks = [block for block in ast.parse(source).body if isinstance(block, ast.If)]
    return [statement for block in blocks if ast.unparse(block.test) == "TYPE_CHECKING" for statement in block.body]
