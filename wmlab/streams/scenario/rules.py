"""What the design (PDP-33), its implementation (Pravega) and sound rules each set, option by option."""

from __future__ import annotations

from typing import Final

from wmlab.core.rules import RuleTable
from wmlab.streams.scenario.parts import Controllers, EventWriter, ReaderGroup, Stream

RULE_TABLE: Final[RuleTable] = {
    Stream: {
        "timeout_from": ("last_note", "first_behind", "first_behind"),
        "cycles": ("unconditional", "while_noted", "while_noted"),
        "note_rule": ("design", "implementation", "implementation"),
        "first_barrier": ("zero", "none", "none"),
        "cut_algorithm": ("document", "pravega", "sound"),
        "bug_6510": (False, True, False),
        "null_without_writers": (True, False, False),
        "commit_without_time": ("no_mark", "minimum_long", "no_mark"),
        "txn_marks": ("per_transaction", "per_batch", "per_batch"),
        "committer": ("leader", "by_hash", "by_hash"),
        "empty_mark_after_roll": (False, True, False),
    },
    EventWriter: {"auto_note_survives_close": (False, True, False), "probe_on_seal": (False, True, True)},
    ReaderGroup: {
        "read_side": ("document", "implementation", "implementation"),
        "publish_timer": ("fixed", "pravega", "fixed"),
    },
    Controllers: {"distribution": ("contest", "even", "even"), "double_work_entry": (False, True, False)},
}
