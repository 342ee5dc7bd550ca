"""The rules of query plans: every option in which the text of NebulaStream, its engine and sound rules differ."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Final, Literal

from wmlab.core.rules import Option, RuleSet, option
from wmlab.core.values import value
from wmlab.progress.model.chunks import CompletenessRule
from wmlab.progress.model.numbers import ChunkBase
from wmlab.progress.model.tracker import LocalRule, ProgressRules
from wmlab.progress.model.windows import Trigger

_STAMPED: Final = "The largest timestamp in the tuple buffer becomes the watermark timestamp."


@value
class Rules(RuleSet, users_call_it="wm.progress.Rules"):
    """The rules that query plans follow: a set of them, and the options that are otherwise.

    `base` is the set: `design` follows "Watermarking and Progress" as it is written, `implementation` the engine, and
    `sound` avoids the known errors of both. The design contradicts itself: by its code snippet (`complete="literal"`) a
    sequence with a single chunk number 0 is never complete. All inputs of its own diagram are such sequences, so no
    window fires there by `design`. `diagram` is the design with one difference: a sequence is complete when all its
    chunks have arrived, as the sentence before the snippet says.

    An option that is not given, or None, is as the set has it; `options` shows what is in effect, and `table()` what
    each set has, with the sentence of the document. `rules="design"` is short for `rules=wm.progress.Rules("design")`.
    """

    base: Literal["design", "implementation", "sound", "diagram"] = "sound"
    _: KW_ONLY
    chunk_base: Option[ChunkBase] = option(
        "the number of the first chunk of a sequence: 0 as documented, or 1 as in the engine.",
        "Query",
        design=0,
        implementation=1,
        sound=0,
        sentence="The ChunkNumber is set to 0 for the first tuple buffer of each sequence number.",
        source="ChunkNumber",
    )
    complete: Option[CompletenessRule] = option(
        "when all chunks of a sequence have been seen: by the set of their numbers, by how many there are, by the "
        "snippet of the document (`literal`), or by the sum that the engine keeps (`balance`). Only the set is right "
        "whatever comes twice.",
        "Query",
        design="literal",
        implementation="balance",
        sound="set",
        diagram="set",
        sentence="return numSeenChunks == lastChunkNumber",
        source="ChunkNumber, the snippet",
    )
    local: Option[LocalRule] = option(
        "what the watermark of an origin is: the largest of its complete prefix, that of the last sequence of the "
        "prefix (`head`), or that of the sequence after it (`literal`). With `literal` the first chunk of a sequence "
        "counts before the others are there, so their records can be late.",
        "Query",
        design="literal",
        implementation="head",
        sound="running_max",
        sentence="The watermark timestamp of maximum Seq_i, for which it saw all ChunkNumbers of all Seq_i-1.",
        source="Reasoning about progress",
    )
    sends: Option[Literal["when full", "every second"]] = option(
        "when a source sends a buffer if it has no `Source.flush_every_ms` of its own: only when it is full, or also a "
        "second after its first record.",
        "Source",
        design="when full",
        implementation="every second",
        sound="every second",
        sentence="As a default, sources write as many tuples to tuple buffers as possible.",
        source="ChunkNumber",
    )
    stamped: Option[Literal["source", "filter"]] = option(
        "where a buffer gets its watermark: at the source, or at the end of the first pipeline as in the engine "
        "(`filter`), where a buffer without records gets 0.",
        "Source",
        design="source",
        implementation="filter",
        sound="source",
        sentence=_STAMPED,
        source="Watermark Timestamp",
    )
    trigger: Option[Trigger] = option(
        "when a window fires: `exact` when its end is at most the global watermark, because no record below that is "
        "still to come; `strict` when its end is below it, as in the engine, which waits for a later watermark.",
        "Aggregate",
        "Join",
        design="exact",
        implementation="strict",
        sound="exact",
        sentence="A timestamp-barrier after which no tuples with a timestamp smaller than the global watermark will "
        "arrive.",
        source="Reasoning about progress",
    )
    carries: Option[Literal["start", "largest"]] = option(
        "the watermark of what a join puts out: the start of its window, as in the engine, or the largest time of the "
        "records of its two slices, as in the diagram of the document. With `largest` chunks of one window differ, and "
        "later windows may have results below it.",
        "Join",
        design="largest",
        implementation="start",
        sound="start",
        sentence=_STAMPED,
        source="Watermark Timestamp",
    )

    @property
    def trackers(self) -> ProgressRules:
        """The rules of the trackers."""
        filled = self.in_effect
        return ProgressRules(chunk_base=filled.chunk_base, complete=filled.complete, local=filled.local)

    @property
    def flush_every_ms(self) -> int | None:
        """How long (ms) after its first record a buffer is sent that is not full; None: only when it is full."""
        return {"when full": None, "every second": 1_000}[self.in_effect.sends]
