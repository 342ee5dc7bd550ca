"""What each cause means by which the watermark at a vertex of a dataflow is held over a run.

At every moment the holders are those that keep the watermark where it is (`Cause.holders_now`).

Source: "Keyed watermark support", Coalescing of WMs with different keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

MEANINGS: Final[Mapping[str, str]] = {
    "stalled": "the instance stood still: it took nothing and, as a source, read nothing",
    "slow": "no row of the partition had come that far",
    "throttled": "the partition had come that far, but its source lets watermarks through by frames only",
    "clock": "the watermark of the partition follows the clock, which was not that far",
    "idle": "the partition was idle, and so was every other input",
    "silent": "the partition was idle, and its source had not sent that",
    "no key": "the input brings no watermarks of the key, and was neither idle nor done",
    "no bound": "nothing of the other side of the join bounds the key",
    "batch": "the join reads this side to its end first",
    "on queue": "a watermark of the vertex waited on a queue to be taken",
    "behind rows": "the instance had taken the watermark, and was not done with rows that it took before",
    "inside": "the instance had the watermark, and had not sent it: a call was in flight, its function kept it, or a "
    "join sends what a snapshot gave back with the next watermark that comes",
}
"""What each cause means whose name does not say it."""
