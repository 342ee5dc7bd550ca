"""Where the shipped implementation leaves its design, each place a named option, off by default.

`DESIGN` follows the documents; `SHIPPED` is what the code of 2026-08 does with assertions off. Any mixture can be run.

Source: "Keyed watermark support" against upstream classes `KeyedWatermarkCoalescer`, `ConcurrentInboundEdgeStream`,
`ProcessorTasklet`, `AsyncTransformUsingServiceUnorderedP`, `StreamToStreamJoinP`, `SlidingWindowP`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final, Literal

Mode = Literal["design", "hz"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviations:
    """Which defects of the implementation are on."""

    watermark_wakes_one_key: bool = False
    """A watermark ends the idleness of its own key only."""
    idle_repeated: bool = False
    """An idle message is sent again for every repeated one while all inputs are idle."""
    done_hides_idle: bool = False
    """When the end of an input leaves only idle ones, no idle message is sent."""
    late_key_replays_idle: bool = False
    """A key that first comes after an input was idle and then ended fails the job."""
    event_after_special: bool = False
    """An event and an idle message drained together are reported in the wrong order."""
    last_watermark_lost: bool = False
    """Watermarks released by the end of inputs are not delivered."""
    emission_unchecked: bool = False
    """Only the receiver of a watermark notices that it went back; what a sink or nobody receives is never checked."""
    keys_in_order_of_number: bool = False
    """The unordered asynchronous step expects keys to appear as 0, 1, 2, ...; not on in `hz`, where it keeps its
    contract."""
    idle_overtakes: bool = False
    """Idle messages pass the work that a processor still holds."""
    retry_counts_as_row: bool = False
    """A row whose output did not fit is counted again against the limit of a join."""
    limit_when_exceeded: bool = False
    """State limits fail when a count would exceed the limit. Without it a window fails when the count would equal it,
    and a join, once it holds as many rows, at the next row of any kind; upstream does so, and it is not on in `hz`."""
    every_boundary: bool = False
    """A window visits every frame of a gap without data."""
    rejected_rows_silent: bool = False
    """Rows that a source's filter rejects neither advance its watermark nor count against idleness."""
    unmatched_lost_at_end: bool = False
    """Outer rows without a partner that are still buffered when both inputs end are not emitted."""
    key_zero_only: bool = False
    """A stateful map refuses watermarks of keys other than 0."""

    def __str__(self) -> str:
        """The options that are on."""
        return ", ".join(f.name for f in fields(self) if getattr(self, f.name)) or "as designed"


DESIGN: Final = Deviations()
BY_NAME: Final = frozenset({"keys_in_order_of_number", "limit_when_exceeded"})
"""Options that belong to neither mode."""
SHIPPED: Final = Deviations(**{f.name: f.name not in BY_NAME for f in fields(Deviations)})


def deviations(mode: Mode) -> Deviations:
    """`design`: none; `hz`: all of them but those `BY_NAME`."""
    return SHIPPED if mode == "hz" else DESIGN
