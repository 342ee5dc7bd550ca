"""The rules of dataflows: every option in which the documents, Hazelcast Jet and sound rules differ.

The options that are true or false are deviations, which the model takes by the same names.
"""

from __future__ import annotations

import dataclasses
from dataclasses import KW_ONLY
from typing import Any, Final, Literal

from wmlab.core.rules import Option, RuleSet, option
from wmlab.core.values import Flag, value
from wmlab.dataflow.model.processor import Deviations

_WAKES: Final = (
    "Any new WM or event from that input clears the idle status and includes that input into coalescing again."
)
_FORWARDS: Final = "Watermark coalescing forwards it, if all coalesced inputs are idle."
_DELAYS: Final = "Processors that delay input items, also delay watermarks by the same amount."
_KEYED: Final = "Handling of keyed idle messages"


def _shipped(meaning: str, part: str = "Vertex", *, sentence: str, source: str) -> Any:
    """A deviation of the code that ships."""
    return option(meaning, part, design=False, implementation=True, sound=False, sentence=sentence, source=source)


@value
class Rules(
    RuleSet,
    users_call_it="wm.dataflow.Rules",
    formerly={
        "mode": 'rules="design", rules="implementation" (formerly "hz") or rules="sound"',
        "deviations": "rules=wm.dataflow.Rules(NAME=True), with the name of each deviation",
    },
):
    """The rules that a dataflow follows: a set of them, and the options that are otherwise.

    `base` is the set: `design` follows "Keyed watermark support" and "Stream-to-stream join" as they are written,
    `implementation` Hazelcast Jet as of 2026-08 with assertions off, and `sound` avoids the known errors of both. An
    option that is not given, or None, is as the set has it; `options` shows what is in effect, and `table()` what each
    set has, with the sentence of the document. `rules="design"` is short for `rules=wm.dataflow.Rules("design")`.

    Three options are on in no set. `keyed_idle`: idle messages are about one key, so that an input is partially idle,
    until its next event or watermark of that key; described and rejected by the text. `event_leaves_idle`: an event
    ends the idleness of its input for the keys that there are, but the input still counts as idle for idle messages and
    for keys that first come. `end_counts_as_active`: an input that has ended without being idle keeps idle messages
    back for ever. The last two are Hazelcast before pull request 22440.
    """

    base: Literal["design", "implementation", "sound"] = "sound"
    _: KW_ONLY
    watermark_wakes_one_key: Option[Flag] = _shipped(
        "a watermark ends the idleness of its own key only.", sentence=_WAKES, source="Idle message"
    )
    idle_repeated: Option[Flag] = _shipped(
        "an idle message is sent again for every repeated one while all inputs are idle.",
        sentence=_FORWARDS,
        source=_KEYED,
    )
    done_hides_idle: Option[Flag] = _shipped(
        "when the end of an input leaves only idle ones, no idle message is sent.", sentence=_FORWARDS, source=_KEYED
    )
    late_key_replays_idle: Option[Flag] = _shipped(
        "a key that first comes after an input was idle and then ended fails the job.",
        sentence="The stream will be excluded from coalescing for all keys.",
        source=_KEYED,
    )
    event_after_special: Option[Flag] = _shipped(
        "an event and an idle message drained together are reported in the wrong order.",
        sentence=_WAKES,
        source="Idle message",
    )
    highest_held_back: Option[Flag] = option(
        "when no input is active, the highest watermark is not let through, so that what comes out depends on which "
        "input became idle last. The document has no rule for it; Hazelcast and Flink let it through, Flink since "
        "FLINK-7728 (apache/flink pull request 4747).",
        "Vertex",
        design=True,
        implementation=False,
        sound=False,
        sentence="The WM is output based on the minimum of the remaining non-idle inputs.",
        source="Idle message",
    )
    last_watermark_lost: Option[Flag] = _shipped(
        "watermarks released by the end of inputs are not delivered.",
        sentence="The processor should emit the WM as soon as it knows that no item that would be late will follow.",
        source="WM rules, 3",
    )
    emission_unchecked: Option[Flag] = _shipped(
        "only the receiver of a watermark notices that it went back; what a sink or nobody receives is never checked.",
        sentence="A WM can never go back. … Violation will cause a job failure.",
        source="WM rules, 1",
    )
    idle_overtakes: Option[Flag] = _shipped(
        "idle messages pass the work that a processor still holds.", sentence=_DELAYS, source="WM generation"
    )
    rejected_rows_silent: Option[Flag] = _shipped(
        "rows that a source's filter rejects neither advance its watermark nor count against idleness.",
        "Source",
        sentence="The source emits WMs based on lag after the newest item it observed.",
        source="WM generation",
    )
    unmatched_lost_at_end: Option[Flag] = _shipped(
        "outer rows without a partner that are still buffered when both inputs end are not emitted.",
        "Join",
        sentence="joinOuter will buffer data from scan3 forever, until joinInner is active again.",
        source="JOIN operator; nothing is said about the end",
    )
    key_zero_only: Option[Flag] = _shipped(
        "a stateful map refuses watermarks of keys other than 0.",
        "StatefulMap",
        sentence="Non-source processors forward input watermarks.",
        source="WM generation",
    )
    emit: Option[Literal["state", "buffer"]] = option(
        "the watermark that a join puts out: by its `state` as in 5.3 and later, or by its `buffer` as in the design "
        "text.",
        "Join",
        design="buffer",
        implementation="state",
        sound="state",
        sentence=_DELAYS,
        source="WM generation",
    )
    bounds_only: Option[Flag] = option(
        "the watermark that a window puts out is the last window end at or below the received one, once for each; "
        "without it, watermarks are forwarded unchanged, as in Jet.",
        "Window",
        design=True,
        implementation=False,
        sound=False,
        sentence="The sliding window processor will drop all input watermarks, the output will have watermarks only on "
        "the window bounds.",
        source="Changes to window aggregation processors",
    )
    keyed_idle: Flag = False
    event_leaves_idle: Flag = False
    end_counts_as_active: Flag = False

    @property
    def deviations(self) -> Deviations:
        """The deviations from sound rules that are on, as the model takes them."""
        filled = self.in_effect
        return Deviations(**{field.name: getattr(filled, field.name) for field in dataclasses.fields(Deviations)})
