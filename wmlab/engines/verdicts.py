"""The verdict on a job: what its facts come to for somebody who has to be woken or not. It knows no cause."""

from __future__ import annotations

from typing import Final, Literal

from wmlab.engines.facts import Table, holds

Verdict = Literal["no fault", "held", "rows lost", "cannot tell", "not running"]
SEVERITY: Final[tuple[Verdict, ...]] = ("no fault", "cannot tell", "rows lost", "held", "not running")
"""The verdicts, the worst one last."""

VERDICTS: Final[tuple[tuple[Verdict, tuple[str, ...]], ...]] = (
    ("not running", ("failed", "cancelled", "restarting", "not running")),
    ("rows lost", ("late",)),
    ("held", ("restarts on", "pending")),
    ("no fault", ("needs none",)),
    (
        "held",
        (
            "stands",
            "no split left",
            "newer rows",
            "no times",
            "none newer",
            "batch is due",
            "all silent",
        ),
    ),
    ("cannot tell", ("short log",)),
    ("held", ("far", "grows", "queue grows", "distance grows")),
    ("cannot tell", ("none yet", "may stand", "jumped last", "backlog not known", "may be due")),
    ("no fault", ("moves",)),
)
"""The first line of which a fact holds decides; "cannot tell" if none does.

What speaks of the watermark alone is no fault where nobody waits for one, so it stands behind "needs none".
"""


def verdict_of(table: Table) -> tuple[Verdict, tuple[str, ...]]:
    """The verdict, and the facts that it rests on."""
    for verdict, names in VERDICTS:
        because = tuple(name for name in names if holds(table, name))
        if because:
            return verdict, because
    return "cannot tell", ()
