"""Carries out the script of a scenario: each kind of action has a function of its own, which also writes it down."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from wmlab.streams.scenario import script
from wmlab.streams.sim.actions import controllers as acts_controllers
from wmlab.streams.sim.actions import network as acts_network
from wmlab.streams.sim.actions import readers as acts_readers
from wmlab.streams.sim.actions import streams as acts_streams
from wmlab.streams.sim.actions import transactions as acts_transactions
from wmlab.streams.sim.actions import writers as acts_writers

if TYPE_CHECKING:
    from wmlab.streams.sim.world import World

ACTS: Final[Mapping[type, Callable[[World, Any], None]]] = {
    script.AbortTransaction: acts_transactions.abort_transaction,
    script.AddController: acts_controllers.add_controller,
    script.AddReader: acts_readers.add_reader,
    script.Checkpoint: acts_readers.take_checkpoint,
    script.CommitTransaction: acts_transactions.commit_transaction,
    script.CrashCommitHandler: acts_transactions.crash_commit_handler,
    script.CrashController: acts_controllers.crash_controller,
    script.CrashReader: acts_readers.crash_reader,
    script.CrashWriter: acts_writers.crash_writer,
    script.DeleteStream: acts_streams.delete_stream,
    script.DuplicateWriter: acts_writers.duplicate_writer,
    script.ExpireSession: acts_controllers.expire_session,
    script.LoseBucketOwner: acts_controllers.lose_bucket_owner,
    script.LoseMarksSegment: acts_controllers.lose_marks_segment,
    script.LoseMergeReply: acts_transactions.lose_merge_reply,
    script.MarkIdle: acts_writers.mark_idle,
    script.NoteTime: acts_writers.note_time,
    script.Partition: acts_network.partition,
    script.PauseController: acts_controllers.pause_controller,
    script.PauseReader: acts_readers.pause_reader,
    script.ReleaseSegment: acts_readers.release_segment,
    script.RemoveController: acts_controllers.remove_controller,
    script.RemoveReader: acts_readers.remove_reader,
    script.ResetToCheckpoint: acts_readers.reset_to_checkpoint,
    script.Scale: acts_streams.scale,
    script.SealStream: acts_streams.seal_stream,
    script.ShutDownWriter: acts_writers.shut_down_writer,
    script.SilenceWriter: acts_writers.silence_writer,
    script.SlowTransaction: acts_transactions.slow_transaction,
    script.StepClock: acts_network.step_clock,
    script.StoreUnavailable: acts_network.store_unavailable,
    script.TruncateMarks: acts_controllers.truncate_marks,
    script.TruncateStream: acts_streams.truncate_stream,
    script.WriteInTransaction: acts_transactions.write_in_transaction,
}
"""What is done for each kind of action."""


class Director:
    """Waits for the time of each action."""

    def __init__(self, world: World) -> None:
        self.world = world

    def start(self, actions: Iterable[script.Action]) -> None:
        """Plan all actions of a script."""
        for action in actions:
            self.world.after(action.at_ms, ACTS[type(action)], self.world, action)
