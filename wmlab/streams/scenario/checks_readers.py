"""Mistakes in the part of a script that concerns readers, which no single field shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import get_args

from wmlab.core.errors import ModelError
from wmlab.core.values import Problem
from wmlab.streams.model.segment import parse_segment
from wmlab.streams.scenario.actions.readers import (
    AddReader,
    Checkpoint,
    ReaderAction,
    ReleaseSegment,
    ResetToCheckpoint,
)
from wmlab.streams.scenario.reader_group import ReaderGroup
from wmlab.streams.scenario.script import Action


def reader_problems(groups: Sequence[ReaderGroup], script: Sequence[Action]) -> Iterator[Problem]:
    """Actions before there is a group, on groups, readers and checkpoints that nothing makes, or making one twice."""
    actions = [(index, action) for index, action in enumerate(script) if isinstance(action, get_args(ReaderAction))]
    checkpoints = Counter((_group_name(groups, a), a.name) for _, a in actions if isinstance(a, Checkpoint))
    readers = Counter(name for group in groups for name in group.reader_names())
    readers.update(action.reader for _, action in actions if isinstance(action, AddReader))
    for index, action in actions:
        if not groups:
            yield Problem(("script", index), "concerns readers, and the scenario has none")
            continue
        yield from _group_problems(index, action, groups)
        if isinstance(action, AddReader) and readers[action.reader] > 1:
            yield Problem(("script", index, "reader"), f"another reader is called {action.reader!r} too")
        if isinstance(action, Checkpoint) and checkpoints[_group_name(groups, action), action.name] > 1:
            yield Problem(("script", index, "name"), f"another checkpoint is called {action.name!r} too")
        known = [name for group, name in checkpoints if group == _group_name(groups, action)]
        yield from _reference_problems(index, action, sorted(readers), known)


def _group_name(groups: Sequence[ReaderGroup], action: ReaderAction) -> str | None:
    """The group that an action names, or the only one."""
    named: str | None = getattr(action, "group", None)
    return groups[0].name if named is None and groups else named


def _group_problems(index: int, action: ReaderAction, groups: Sequence[ReaderGroup]) -> Iterator[Problem]:
    names = [group.name for group in groups]
    if hasattr(action, "group"):
        if action.group is None and len(groups) > 1:
            yield Problem(("script", index, "group"), f"must say which group; there are: {', '.join(names)}")
        elif action.group is not None and action.group not in names:
            yield Problem(
                ("script", index, "group"), f"no group is called {action.group!r}; there are: {', '.join(names)}"
            )
    reader = getattr(action, "reader", None)
    of = [g for g in groups if g.name == _group_name(groups, action) or reader in g.reader_names()]
    starts_ms = max((group.starts_ms for group in of), default=0)
    if action.at_ms <= starts_ms:
        message = f"lies before or at the start of the readers, {starts_ms} (got {action.at_ms})"
        yield Problem(("script", index, "at_ms"), message)


def _reference_problems(
    index: int, action: ReaderAction, readers: Sequence[str], checkpoints: Sequence[str]
) -> Iterator[Problem]:
    reader = getattr(action, "reader", None)
    if reader is not None and reader not in readers:
        message = f"no reader is called {reader!r}; there are: {', '.join(readers)}"
        yield Problem(("script", index, "reader"), message)
    if isinstance(action, ResetToCheckpoint) and action.checkpoint not in (None, *checkpoints):
        known = ", ".join(checkpoints) or "none"
        message = f"no checkpoint is called {action.checkpoint!r}; there are: {known}"
        yield Problem(("script", index, "checkpoint"), message)
    if isinstance(action, ReleaseSegment):
        try:
            parse_segment(action.segment)
        except ModelError as error:
            yield Problem(("script", index, "segment"), error.problem)
