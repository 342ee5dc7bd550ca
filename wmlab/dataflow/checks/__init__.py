"""The check of a recorded dataflow: the invariants of its watermarks and results, from the tables of its recording.

The recorded outputs of coalescing and of the dataflow are compared with the items on the queues: the coalesced
watermarks are asked of the model by sound rules, windows and joins of a batch over the on-time rows. So a recording by
`implementation` shows its defects where they had an effect, and one by `design` where it held the highest watermark
back (K3).
All are rules over rows in memory.

K4 finds an idle message that is said twice (K2), a number that is not given again. That the simulator keeps its own
promises (a call for each row, limits, drops) is the matter of tests.

Source: "Keyed watermark support"; "Stream-to-stream join"; wmlab's own list of what they guarantee.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from wmlab.core.errors import RecordingError
from wmlab.core.invariants import Derived, Invariant, TableRows, Verdicts, chosen_of, verdicts_of
from wmlab.core.recording import Recording
from wmlab.dataflow.checks import liveness, rows, watermarks
from wmlab.dataflow.checks.batch import joins_equal_batch, reached, taken_rows, windows_equal_batch
from wmlab.dataflow.checks.channels import Channels, loads_of, specials_of
from wmlab.dataflow.checks.steps import all_steps, coalesced_steps
from wmlab.dataflow.scenario.dataflow import DataflowScenario, dataflow_of
from wmlab.dataflow.sim.rules import DataflowRules, rules_of

INVARIANTS: Final[Mapping[str, Invariant]] = {
    "K1": watermarks.watermarks_increase,
    "K3": watermarks.watermarks_coalesced,
    "K4": watermarks.idle_when_all_are,
    "K7": rows.on_time_stays_on_time,
    "K10": windows_equal_batch,
    "K11": joins_equal_batch,
    "K15": watermarks.leaves_at_once,
}
"""What a recording of a dataflow has to keep, by name."""
LIVENESS: Final[Mapping[str, Invariant]] = {"K16": liveness.comes_to_rest}
"""What it has to keep once everything has come to rest; judged only when named, for most runs end before that."""
TABLES: Final = ("queues", "coalescing", "vertices", "executions", "items", "drops", "source_rows")
"""The tables of a recording that the rules take."""


def _due(items: TableRows, queues: TableRows, steps: TableRows) -> list[dict[str, Any]]:
    return coalesced_steps(items, queues, steps)


DERIVED: Final[Mapping[str, Derived]] = {
    "specials": Derived(specials_of),
    "queue_loads": Derived(loads_of),
    "channels": Derived(Channels.of),
    "steps": Derived(all_steps),
    "due": Derived(_due),
    "timed_rows": Derived(rows.timed_rows),
    "on_time": Derived(taken_rows),
    "reached": Derived(reached),
}
"""What several rules take, made of tables."""


def in_memory(recording: Recording, *only: str) -> Verdicts:
    """One verdict per invariant, with the rows that prove a violation.

    `only` names those that are judged, K16 among them; without names, all but that are. Raises `ModelError` for an
    unknown name.
    """
    invariants = chosen_of(INVARIANTS, LIVENESS, only)
    try:
        rules = rules_of(dataflow_of(recording, DataflowScenario, stand_ins=True))
    except RecordingError:
        rules, why = DataflowRules(), "the recording does not tell its dataflow"
        invariants = {n: replace(e, no_data=why) if "rules" in e.inputs else e for n, e in invariants.items()}
    tables = {name: recording.table(name) for name in TABLES}
    values = {**DERIVED, "rules": rules}
    return verdicts_of(recording.name, invariants, [(recording.name, tables)], values)
