"""What "Keyed watermark support" says about each option on which the sets of rules differ.

The mode is several deviations; each of them departs from a sentence of its own, or follows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_WAKES: Final = (
    "“Any new WM or event from that input clears the idle status and includes that input into coalescing again.” "
    "(Idle message)"
)
_FORWARDS: Final = (
    "“Watermark coalescing forwards it, if all coalesced inputs are idle.” (Handling of keyed idle messages)"
)
_DELAYS: Final = "“Processors that delay input items, also delay watermarks by the same amount.” (WM generation)"

RULE_SENTENCES: Final[Mapping[str, str]] = {
    "DataflowScenario.mode": "“`AbstractProcessor` implements the case for simple processors that forward WMs "
    "immediately.” (WM rules; the shipped code has deviations)",
    "Join.emit": _DELAYS,
    "Window.bounds_only": "“The sliding window processor will drop all input watermarks, the output will have "
    "watermarks only on the window bounds.” (Changes to window aggregation processors)",
    "Deviations.watermark_wakes_one_key": _WAKES,
    "Deviations.idle_repeated": _FORWARDS,
    "Deviations.done_hides_idle": _FORWARDS,
    "Deviations.late_key_replays_idle": "“The stream will be excluded from coalescing for all keys.” (Handling of "
    "keyed idle messages)",
    "Deviations.event_after_special": _WAKES,
    "Deviations.highest_held_back": "“The WM is output based on the minimum of the remaining non-idle inputs.” (Idle "
    "message)",
    "Deviations.last_watermark_lost": "“The processor should emit the WM as soon as it knows that no item that would "
    "be late will follow.” (WM rules, 3)",
    "Deviations.emission_unchecked": "“A WM can never go back. … Violation will cause a job failure.” (WM rules, 1)",
    "Deviations.idle_overtakes": _DELAYS,
    "Deviations.rejected_rows_silent": "“The source emits WMs based on lag after the newest item it observed.” (WM "
    "generation)",
    "Deviations.unmatched_lost_at_end": "“joinOuter will buffer data from scan3 forever, until joinInner is active "
    "again.” (JOIN operator; nothing is said about the end)",
    "Deviations.key_zero_only": "“Non-source processors forward input watermarks.” (WM generation)",
}
"""By "Part.option"."""
