"""Whether the settings that `wm.engine` advises repair a run: by a kept run, and the same one with the setting."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import wmlab as wm

Remedies = Iterable[tuple[str, str, str]]
"""A run, a setting that is advised there, and the same run with it, by their names."""


def require_remedies(remedies: Remedies, repaired: Path) -> None:
    """Raise `SystemExit` unless a kept run has another answer than those that it repairs, which advised its setting.

    It must not advise the setting again. The runs that it repairs are kept next to it.
    """
    for before, setting, after in remedies:
        if after == repaired.stem and (problem := problem_of(repaired.with_stem(before), setting, repaired)):
            raise SystemExit(problem)


def problem_of(before: Path, setting: str, after: Path) -> str | None:
    """Why a setting is not a remedy of a run, by the same run with it; None if it is one."""
    broken, repaired = wm.engine.read(before), wm.engine.read(after)
    if setting not in [each.name for each in broken.advise()]:
        return f"{before.stem}: {setting} is not advised, but: {broken.advise().sentence}"
    if setting in [each.name for each in repaired.advise()]:
        return f"{after.stem}: {setting} is advised again: {repaired.explain().sentence}"
    if broken.explain().candidates[0].what == repaired.explain().candidates[0].what:
        return f"{after.stem}: the answer is the same: {repaired.explain().sentence}"
    return None
