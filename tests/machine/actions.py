"""What can be made to happen at one moment of a machine's run, as strategies; each is given the moment, `at_ms`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hypothesis import strategies as st

from wmlab.streams.model.history import StreamHistory
from wmlab.streams.scenario import script
from wmlab.streams.scenario.script import Action

BRIEF = st.sampled_from([200, 700, 1_600])
BRIEF_OR_NEVER = st.sampled_from([None, 150, 600])
BACKLOG = st.sampled_from(["lost", "kept"])
CYCLE_POINTS: Final = ("after_marks", "after_log", "before_removal", "before_append", "after_append", "before_leave")
COMMIT_POINTS: Final = ("before_merge", "after_merge", "after_noting")

Actions = st.SearchStrategy[Action]


def on_writer(at_ms: int, process: str) -> Actions:
    """What befalls any writer."""
    return st.one_of(
        st.builds(
            script.CrashWriter,
            at_ms=st.just(at_ms),
            writer=st.just(process),
            restart_after_ms=BRIEF_OR_NEVER,
            backlog=BACKLOG,
        ),
        st.builds(script.SilenceWriter, at_ms=st.just(at_ms), writer=st.just(process), for_ms=BRIEF_OR_NEVER),
        st.builds(script.MarkIdle, at_ms=st.just(at_ms), writer=st.just(process), for_ms=BRIEF_OR_NEVER),
        st.builds(
            script.ShutDownWriter,
            at_ms=st.just(at_ms),
            writer=st.just(process),
            tell_controller=st.booleans(),
            restart_after_ms=BRIEF_OR_NEVER,
            backlog=BACKLOG,
        ),
    )


def notes(at_ms: int, process: str, history: StreamHistory) -> Actions:
    """An explicit note: the time and the position may be right, old, far ahead, partial, empty, or unknown."""
    segments = sorted(segment.name for segment in history.segments.values())
    offsets = st.none() | st.integers(0, 3_000)
    near = st.integers(at_ms - 500, at_ms + 200)
    known = st.dictionaries(st.sampled_from(segments), offsets, max_size=4)
    return st.builds(
        script.NoteTime,
        at_ms=st.just(at_ms),
        writer=st.just(process),
        time=st.one_of(near, near, near, st.sampled_from([0, 2**63 - 1, -(2**63)])),
        position=st.one_of(st.none(), known, known, known, st.just({"77@77": 5})),
    )


def on_transactions(at_ms: int, writer: str, stream: str) -> Actions:
    """What is done to the transactions of a writer, or to those who commit them."""
    return st.one_of(
        st.builds(
            script.CommitTransaction,
            at_ms=st.just(at_ms),
            writer=st.just(writer),
            transaction=st.sampled_from([None, f"{writer}-1"]),
            time=st.sampled_from(["policy", None]) | st.integers(at_ms - 800, at_ms + 300),
        ),
        st.builds(
            script.WriteInTransaction,
            at_ms=st.just(at_ms),
            writer=st.just(writer),
            transaction=st.sampled_from([None, f"{writer}-1"]),
        ),
        st.builds(script.AbortTransaction, at_ms=st.just(at_ms), writer=st.just(writer), backlog=BACKLOG),
        st.builds(script.SlowTransaction, at_ms=st.just(at_ms), writer=st.just(writer), hold_ms=BRIEF),
        st.builds(
            script.LoseMergeReply,
            at_ms=st.just(at_ms),
            count=st.sampled_from([1, 3]),
            noticed_after_ms=st.just(250),
            stream=st.just(stream),
        ),
        st.builds(
            script.CrashCommitHandler,
            at_ms=st.just(at_ms),
            point=st.sampled_from(COMMIT_POINTS),
            restart_after_ms=st.just(250),
            stream=st.just(stream),
        ),
    )


def on_controllers(at_ms: int, stream: str, names: Sequence[str], *, inside_a_cycle: bool) -> Actions:
    """What befalls a controller by name or role; `inside_a_cycle` also between two steps of a cycle or commit."""
    who = st.sampled_from(["leader", "committer", "distributor", *names])
    point = st.sampled_from([None, *COMMIT_POINTS, *(CYCLE_POINTS if inside_a_cycle else ())])
    return st.one_of(
        st.builds(
            script.CrashController,
            at_ms=st.just(at_ms),
            controller=who,
            stream=st.just(stream),
            point=point,
            restart_after_ms=BRIEF_OR_NEVER,
        ),
        st.builds(
            script.PauseController,
            at_ms=st.just(at_ms),
            for_ms=BRIEF,
            controller=who,
            stream=st.just(stream),
            point=point,
        ),
        st.builds(
            script.ExpireSession,
            at_ms=st.just(at_ms),
            controller=who,
            stream=st.just(stream),
            notice_after_ms=st.sampled_from([0, 600]),
        ),
        st.builds(script.LoseBucketOwner, at_ms=st.just(at_ms), for_ms=BRIEF, stream=st.just(stream)),
        st.builds(script.AddController, at_ms=st.just(at_ms)),
        st.builds(script.RemoveController, at_ms=st.just(at_ms), controller=st.sampled_from(names)),
    )


def on_stores(at_ms: int, stream: str) -> Actions:
    """Stores that refuse, a marks segment that is missing or truncated."""
    return st.one_of(
        st.builds(
            script.StoreUnavailable,
            at_ms=st.just(at_ms),
            for_ms=BRIEF,
            store=st.sampled_from(["writer_marks", "segment_metadata", "marks_segment"]),
        ),
        st.builds(script.LoseMarksSegment, at_ms=st.just(at_ms), for_ms=BRIEF, stream=st.just(stream)),
        st.builds(script.TruncateMarks, at_ms=st.just(at_ms), keep=st.sampled_from([1, 0]), stream=st.just(stream)),
    )


def on_network(at_ms: int, parties: Sequence[str], clocks: Sequence[str]) -> Actions:
    """Partitions between any two parties, and clocks that are set."""
    sides = st.lists(st.sampled_from(parties), min_size=2, max_size=2, unique=True)
    partition = sides.flatmap(
        lambda both: st.builds(
            script.Partition,
            at_ms=st.just(at_ms),
            a=st.just(both[0]),
            b=st.just(both[1]),
            for_ms=BRIEF_OR_NEVER,
            calls=st.sampled_from(["lost", "held"]),
        )
    )
    steps = st.sampled_from([500, -500, 3_000, -3_000])
    return partition | st.builds(script.StepClock, at_ms=st.just(at_ms), party=st.sampled_from(clocks), by_ms=steps)


def on_readers(at_ms: int, group: str, readers: Sequence[str], new: str, segment: str, stream: str) -> Actions:
    """What befalls a reader or its group; `new` is what it may call what it makes."""
    who = st.sampled_from(readers)
    return st.one_of(
        st.builds(
            script.CrashReader,
            at_ms=st.just(at_ms),
            reader=who,
            offline_after_ms=st.sampled_from([0, None, 300]),
            restart_after_ms=BRIEF_OR_NEVER,
        ),
        st.builds(script.PauseReader, at_ms=st.just(at_ms), reader=who, for_ms=BRIEF_OR_NEVER),
        st.builds(script.AddReader, at_ms=st.just(at_ms), reader=st.just(new), group=st.just(group)),
        st.builds(script.RemoveReader, at_ms=st.just(at_ms), reader=who),
        st.builds(
            script.ReleaseSegment,
            at_ms=st.just(at_ms),
            reader=who,
            segment=st.just(segment),
            stream=st.just(stream),
            keep_free_ms=st.sampled_from([0, 500]),
        ),
        st.builds(script.Checkpoint, at_ms=st.just(at_ms), name=st.just(new), group=st.just(group)),
        st.builds(script.ResetToCheckpoint, at_ms=st.just(at_ms), ranges=st.booleans(), group=st.just(group)),
    )
