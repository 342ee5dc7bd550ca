"""What can be made to happen in a machine's run, as strategies of what makes the action at a moment, `at_ms`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Any, Final

from hypothesis import strategies as st

from tests.machine.parts import Makers, built, one_of
from wmlab.streams.model.history import StreamHistory
from wmlab.streams.scenario import script
from wmlab.streams.scenario.script import Action

BRIEF = st.sampled_from([200, 700, 1_600])
BRIEF_OR_NEVER = st.sampled_from([None, 150, 600])
BACKLOG = st.sampled_from(["lost", "kept"])
CYCLE_POINTS: Final = ("after_marks", "after_log", "before_removal", "before_append", "after_append", "before_leave")
COMMIT_POINTS: Final = ("before_merge", "after_merge", "after_noting")

Actions = Makers[Action]


def action(kind: type[Action], **fields: Any) -> Actions:
    """An action of that kind, its fields strategies or values."""
    drawn = {name: field for name, field in fields.items() if isinstance(field, st.SearchStrategy)}
    given = {name: field for name, field in fields.items() if name not in drawn}
    return built(partial(kind, **given), **drawn)


@cache
def on_writer(process: str) -> Actions:
    """What befalls any writer."""
    again = {"writer": process, "restart_after_ms": BRIEF_OR_NEVER, "backlog": BACKLOG}
    return st.one_of(
        action(script.CrashWriter, **again),
        action(script.SilenceWriter, writer=process, for_ms=BRIEF_OR_NEVER),
        action(script.MarkIdle, writer=process, for_ms=BRIEF_OR_NEVER),
        action(script.ShutDownWriter, **again),
        action(script.UpgradeWriter, writer=process),
    )


def notes(at_ms: int, process: str, history: StreamHistory) -> Actions:
    """An explicit note: the time and the position may be right, old, far ahead, partial, empty, or unknown."""
    segments = sorted(segment.name for segment in history.segments.values())
    near = st.integers(at_ms - 500, at_ms + 200)
    known = st.dictionaries(one_of(*segments), st.none() | st.integers(0, 3_000), max_size=4)
    time = st.one_of(near, near, near, one_of(0, 2**63 - 1, -(2**63)))
    position = st.one_of(st.none(), known, known, known, st.just({"77@77": 5}))
    return action(script.NoteTime, writer=process, time=time, position=position)


def on_transactions(at_ms: int, writer: str, stream: str) -> Actions:
    """What is done to the transactions of a writer, or to those who commit them."""
    transaction = one_of(None, f"{writer}-1")
    time = one_of("policy", None) | st.integers(at_ms - 800, at_ms + 300)
    point = one_of(*COMMIT_POINTS)
    return st.one_of(
        action(script.CommitTransaction, writer=writer, transaction=transaction, time=time),
        action(script.WriteInTransaction, writer=writer, transaction=transaction),
        action(script.AbortTransaction, writer=writer, backlog=BACKLOG),
        action(script.SlowTransaction, writer=writer, hold_ms=BRIEF),
        action(script.LoseMergeReply, count=one_of(1, 3), noticed_after_ms=250, stream=stream),
        action(script.CrashCommitHandler, point=point, restart_after_ms=250, stream=stream),
    )


@cache
def on_controllers(stream: str, names: tuple[str, ...], *, inside_a_cycle: bool) -> Actions:
    """What befalls a controller by name or role, also in a commit or scale; `inside_a_cycle`: in a cycle, too."""
    who = {"controller": one_of("leader", "committer", "distributor", *names), "stream": stream}
    point = one_of(None, *COMMIT_POINTS, "between_seals", *(CYCLE_POINTS if inside_a_cycle else ()))
    return st.one_of(
        action(script.CrashController, **who, point=point, restart_after_ms=BRIEF_OR_NEVER),
        action(script.PauseController, for_ms=BRIEF, **who, point=point),
        action(script.ExpireSession, **who, notice_after_ms=one_of(0, 600)),
        action(script.LoseBucketOwner, for_ms=BRIEF, stream=stream),
        action(script.AddController),
        action(script.RemoveController, controller=one_of(*names)),
    )


@cache
def on_stores(stream: str) -> Actions:
    """Stores that refuse, a marks segment that is missing or truncated."""
    store = one_of("writer_marks", "segment_metadata", "marks_segment")
    return st.one_of(
        action(script.StoreUnavailable, for_ms=BRIEF, store=store),
        action(script.LoseMarksSegment, for_ms=BRIEF, stream=stream),
        action(script.TruncateMarks, keep=one_of(1, 0), stream=stream),
    )


def on_network(sides: Sequence[tuple[str, str]], clocks: Sequence[str]) -> Actions:
    """Partitions between two sides that talk to each other, and clocks that are set."""
    calls = one_of("lost", "held")
    ordered = st.tuples(one_of(*sides), st.booleans()).map(lambda drawn: drawn[0][:: -1 if drawn[1] else 1])
    partition = ordered.flatmap(
        lambda both: action(script.Partition, a=both[0], b=both[1], for_ms=BRIEF_OR_NEVER, calls=calls)
    )
    steps = one_of(500, -500, 3_000, -3_000)
    return partition | action(script.StepClock, party=one_of(*clocks), by_ms=steps)


def on_readers(
    group: str, readers: Sequence[str], members: Sequence[str], new: str, segment: str, stream: str
) -> Actions:
    """What befalls a reader or its group, of which `members` are readers; `new` is what it may call what it makes."""
    who, place = one_of(*readers), {"segment": segment, "stream": stream}
    offline = one_of(0, None, 300)
    return st.one_of(
        action(script.CrashReader, reader=who, offline_after_ms=offline, restart_after_ms=BRIEF_OR_NEVER),
        action(script.PauseReader, reader=who, for_ms=BRIEF_OR_NEVER),
        action(script.AddReader, reader=new, group=group),
        action(script.RemoveReader, reader=who),
        action(script.ReleaseSegment, reader=one_of(*members), **place, keep_free_ms=one_of(0, 500)),
        action(script.Checkpoint, name=new, group=group),
        action(script.TakeStreamCut, name=new, group=group),
        action(script.ResetToCheckpoint, ranges=st.booleans(), group=group),
    )
