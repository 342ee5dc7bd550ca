"""What a notebook is given of a picture or a table: its forms by MIME type, and which of them were asked for."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any


def asked_for(
    bundle: Mapping[str, Any], include: Collection[str] | None, exclude: Collection[str] | None
) -> dict[str, Any]:
    """The forms in `include` (None: all) that are not in `exclude`, as IPython's display protocol has it."""
    return {
        kind: shown
        for kind, shown in bundle.items()
        if (include is None or kind in include) and (exclude is None or kind not in exclude)
    }
