"""Mistakes in the part of a script that concerns readers, which no single field shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import get_args

from wmlab.errors import ModelError
from wmlab.model.segment import parse_segment
from wmlab.scenario.reader_group import ReaderGroup
from wmlab.scenario.reader_script import AddReader, Checkpoint, ReaderAction, ReleaseSegment, ResetToCheckpoint
from wmlab.scenario.script import Action
from wmlab.scenario.value import Problem


def reader_problems(group: ReaderGroup | None, script: Sequence[Action]) -> Iterator[Problem]:
    """Actions before there is a group, on readers and checkpoints that nothing makes, or making one twice."""
    actions = [(index, action) for index, action in enumerate(script) if isinstance(action, get_args(ReaderAction))]
    if group is None:
        for index, _ in actions:
            yield Problem(("script", index), "concerns readers, and the scenario has none")
        return
    added = [action.reader for _, action in actions if isinstance(action, AddReader)]
    readers = {*group.reader_names(), *added}
    checkpoints = [action.name for _, action in actions if isinstance(action, Checkpoint)]
    for index, action in actions:
        if action.at_ms <= group.starts_ms:
            message = f"lies before or at the start of the readers, {group.starts_ms} (got {action.at_ms})"
            yield Problem(("script", index, "at_ms"), message)
        if isinstance(action, AddReader):
            if added.count(action.reader) > 1 or action.reader in group.reader_names():
                yield Problem(("script", index, "reader"), f"another reader is called {action.reader!r} too")
        elif isinstance(action, Checkpoint):
            if checkpoints.count(action.name) > 1:
                yield Problem(("script", index, "name"), f"another checkpoint is called {action.name!r} too")
        else:
            yield from _reference_problems(index, action, readers, checkpoints)


def _reference_problems(
    index: int, action: ReaderAction, readers: set[str], checkpoints: Sequence[str]
) -> Iterator[Problem]:
    reader = getattr(action, "reader", None)
    if reader is not None and reader not in readers:
        known = ", ".join(sorted(readers))
        yield Problem(("script", index, "reader"), f"no reader is called {reader!r}; there are: {known}")
    if isinstance(action, ResetToCheckpoint) and action.checkpoint not in (None, *checkpoints):
        known = ", ".join(checkpoints) or "none"
        message = f"no checkpoint is called {action.checkpoint!r}; there are: {known}"
        yield Problem(("script", index, "checkpoint"), message)
    if isinstance(action, ReleaseSegment):
        try:
            parse_segment(action.segment)
        except ModelError as error:
            yield Problem(("script", index, "segment"), error.problem)
