"""What PDP-33 says about each option on which the sets of rules differ, with the section.

Where the document is silent, the sentence that the option touches stands here, with the issue that is about it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

RULE_SENTENCES: Final[Mapping[str, str]] = {
    "Stream.timeout_from": "“The duration after the last call to noteTime which the timestamp should be considered "
    "valid before it is forgotten.” (Config Changes)",
    "Stream.forgets": "“After this long of not calling noteTime the writer will be forgotten.” (Config Changes)",
    "Stream.cycles": "“Schedules an unconditional loop for execution of watermarking workflow.” (Periodic Watermark "
    "Workflow)",
    "Stream.note_rule": "“The record is updated only if a new update strictly advances time with sanity check that "
    "position is also greater than or equal to previously recorded position.” (Metadata)",
    "Stream.first_barrier": "“During bootstrap this will be defaulted to 0.” (Periodic Watermark Workflow)",
    "Stream.cut_algorithm": "“We can use the epoch of the highest Segment in the upper bound and include its sibling "
    "Segments.” (Watermark Computation)",
    "Stream.bug_6510": "“A location in the Stream … at least as far into the Stream as the location of the Writers.” "
    "(Overview; Pravega issue 6510)",
    "Stream.null_without_writers": "“If there are no known writers, readers … will receive a null when they are at the "
    "corresponding position in the stream.” (Config Changes)",
    "Stream.commit_without_time": "“The timestamp the writer provided for the commit (or null if they did not specify "
    "one).” (Internal Changes)",
    "Stream.txn_marks": "“Controller can generate mark on behalf of the Writer as the Transaction gets committed.” "
    "(Writer Marks)",
    "Stream.committer": "“It may be useful for this to be the same instance that is managing Transactions for that "
    "stream.” (Controller Changes)",
    "Stream.empty_mark_after_roll": "“Controller can get the tailing offset of the parent Segment if it failed to get "
    "the exact offset.” (Writer Marks)",
    "EventWriter.auto_note_survives_close": "“Automatically invoke noteTime passing System.currentTimeMillis() on a "
    "regular interval.” (Config Changes)",
    "EventWriter.probe_on_seal": "“It sends the timestamp provided along with the latest offsets it has for the "
    "Segments it is writing to.” (Client Changes)",
    "ReaderGroup.read_side": "“The minimum time in the Map in the Reader Group state for each Stream is returned.” "
    "(Client Changes)",
    "ReaderGroup.enters_time": "“Every time a Reader advances beyond a streamCut … it updates its entry in the Reader "
    "Group state.” (Client Changes)",
    "ReaderGroup.publish_timer": "“Every time a Reader advances beyond a streamCut … it updates its entry in the "
    "Reader Group state.” (Client Changes)",
    "Controllers.distribution": "“Each Controller instance contests with others to acquire ownership of each bucket "
    "individually.” (Distributing Streams across Controller instances)",
    "Controllers.double_work_entry": "“Exactly one Controller instance will be responsible for running background "
    "workflow for any given Stream.” (Distributing Streams across Controller instances)",
}
"""By "Part.option"."""
