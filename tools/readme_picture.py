"""Makes the picture of the README from the README's own code: `python tools/readme_picture.py`."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "images" / "first_bounds.svg"


def code() -> str:
    """The first Python block of the README."""
    match = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    if match is None:
        raise SystemExit("README.md has no Python block")
    return match.group(1)


def chart() -> Any:
    """What the last line of that block evaluates to; the block runs in the current directory."""
    tree = ast.parse(code())
    last = tree.body.pop()
    assert isinstance(last, ast.Expr), "the README's code ends with the chart"
    names: dict[str, Any] = {}
    exec(compile(tree, "README.md", "exec"), names)
    return eval(compile(ast.Expression(last.value), "README.md", "eval"), names)


if __name__ == "__main__":
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    PICTURE.write_text(chart().svg, encoding="utf-8")
