"""Mistakes that show only when the script is read beside the writers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wmlab.core.values import Problem
from wmlab.streams.scenario.parts import EventWriter
from wmlab.streams.scenario.script import (
    AbortTransaction,
    Action,
    CommitTransaction,
    DuplicateWriter,
    NoteTime,
    ShutDownWriter,
    SlowTransaction,
    WriteInTransaction,
)
from wmlab.streams.scenario.transactional import TransactionalWriter
from wmlab.streams.scenario.units import process_name

AnyWriter = EventWriter | TransactionalWriter
_ON_TRANSACTIONS = (AbortTransaction, CommitTransaction, SlowTransaction, WriteInTransaction)


def process_names(writers: Sequence[AnyWriter], script: Sequence[Action]) -> list[str]:
    """The names of all processes: each writer, and the further ones of a writer, `w1/2`, `w1/3` and so on."""
    names: list[str] = []
    for writer in writers:
        started = sum(isinstance(action, DuplicateWriter) and action.writer == writer.name for action in script)
        count = started + (writer.processes if isinstance(writer, EventWriter) else 1)
        names += [process_name(writer.name, number) for number in range(1, count + 1)]
    return names


def writer_problems(writers: Sequence[AnyWriter], script: Sequence[Action]) -> Iterator[Problem]:
    """Actions that their writer cannot carry out."""
    by_name = {writer.name: writer for writer in writers}
    for index, action in enumerate(script):
        named = getattr(action, "writer", None)
        writer = by_name.get(named.split("/")[0]) if named is not None else None
        message = None if writer is None else _refusal(action, writer) or _too_early(index, action, writer, script)
        if message is not None:
            yield Problem(("script", index, "writer"), message)


def _too_early(index: int, action: Action, writer: AnyWriter, script: Sequence[Action]) -> str | None:
    """What is wrong with an action on a process that a later action starts."""
    _, slash, number = getattr(action, "writer", "").partition("/")
    if not slash or not isinstance(writer, EventWriter):
        return None
    twins = [
        (other.at_ms, place)
        for place, other in enumerate(script)
        if isinstance(other, DuplicateWriter) and other.writer == writer.name
    ]
    started = sorted(twins)[int(number) - writer.processes - 1 :] if int(number) > writer.processes else []
    if started and (action.at_ms, index) < started[0]:
        return f"starts at {started[0][0]} (got {action.at_ms})"
    return None


def _refusal(action: Action, writer: AnyWriter) -> str | None:
    transactional = isinstance(writer, TransactionalWriter)
    notes = isinstance(action, NoteTime) or (isinstance(action, ShutDownWriter) and action.last_note)
    if isinstance(action, _ON_TRANSACTIONS) and not transactional:
        return f"{writer.name!r} is an event writer; only a TransactionalWriter has transactions"
    if notes and transactional:
        return f"{writer.name!r} notes time when it commits; use CommitTransaction"
    if notes and writer.id is None:
        return f"{writer.name!r} has no writer_id, so it cannot note time"
    if isinstance(action, DuplicateWriter) and transactional:
        return f"{writer.name!r} is transactional; only an EventWriter can be duplicated"
    if isinstance(action, DuplicateWriter) and action.writer != writer.name:
        return f"name the writer, {writer.name!r}, not one of its processes"
    return None
