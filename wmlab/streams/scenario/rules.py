"""The rules of streams: every option in which PDP-33, Pravega's code and sound rules differ, and what parts do by them.

The functions take rules in effect, such as those of a `resolved` scenario.
A sentence that an option touches only in part stands with the issue that is about it.
"""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Final, Literal

from wmlab.core.rules import Option, RuleSet, option
from wmlab.core.values import Flag, value
from wmlab.streams.model.history import StreamHistory
from wmlab.streams.model.replay import Configuration
from wmlab.streams.scenario.parts import Controllers, ReaderGroup, Stream

_ON_ADVANCE: Final = "Every time a Reader advances beyond a streamCut … it updates its entry in the Reader Group state."
_DISTRIBUTING: Final = "Distributing Streams across Controller instances"


@value
class Rules(RuleSet, users_call_it="wm.Rules"):
    """The rules that a scenario follows: a set of them, and the options that are otherwise.

    `base` is the set: `design` follows PDP-33 as it is written, `implementation` Pravega as it ships, and `sound`
    avoids the known errors of both. An option that is not given, or None, is as the set has it; `options` shows what is
    in effect, and `table()` what each set has, with the sentence of the document. `rules="design"` is short for
    `rules=wm.Rules("design")`.
    """

    base: Literal["design", "implementation", "sound"] = "sound"
    _: KW_ONLY
    timeout_from: Option[Literal["first_behind", "last_note", "earlier"]] = option(
        "from when a cycle counts the timeout: from the cycle that first saw the writer behind the lower bound, from "
        "its last noted time, or from the earlier one. With `last_note` a writer that goes on noting old times is "
        "waited for for ever (I10).",
        "Stream",
        design="earlier",
        implementation="first_behind",
        sound="first_behind",
        sentence="The duration after the last call to noteTime which the timestamp should be considered valid before "
        "it is forgotten.",
        source="Config Changes",
    )
    forgets: Option[Literal["behind", "all"]] = option(
        "which writers are dropped that shut down or were silent for the timeout: those at or behind the lower bound, "
        "or all. With `all` the upper bound may be below a time that was noted (I2, I11).",
        "Stream",
        design="all",
        implementation="behind",
        sound="behind",
        sentence="After this long of not calling noteTime the writer will be forgotten.",
        source="Config Changes",
    )
    cycles: Option[Literal["while_noted", "unconditional"]] = option(
        "when watermark cycles run: from the first noted time until a cycle finds no writer left, or from the "
        "creation of the stream to its deletion.",
        "Stream",
        design="unconditional",
        implementation="while_noted",
        sound="while_noted",
        sentence="Schedules an unconditional loop for execution of watermarking workflow.",
        source="Periodic Watermark Workflow",
    )
    note_rule: Option[Literal["implementation", "design"]] = option(
        "which notes are accepted: `implementation` takes an equal time and compares the segments that both positions "
        "have; `design` takes only a later time, with a position that is nowhere before.",
        "Stream",
        design="design",
        implementation="implementation",
        sound="implementation",
        sentence="The record is updated only if a new update strictly advances time with sanity check that position "
        "is also greater than or equal to previously recorded position.",
        source="Metadata",
    )
    first_barrier: Option[Literal["none", "zero"]] = option(
        "who counts before the first watermark: every writer, or only those with a time above 0.",
        "Stream",
        design="zero",
        implementation="none",
        sound="none",
        sentence="During bootstrap this will be defaulted to 0.",
        source="Periodic Watermark Workflow",
    )
    cut_algorithm: Option[Literal["sound", "pravega", "document"]] = option(
        "how a stream cut is made of the writers' positions: soundly, as Pravega ships it, or by the pseudo-code of "
        "the document, without the previous cut. The last two depend on `Stream.visit_order`, and their cuts can move "
        "back.",
        "Stream",
        design="document",
        implementation="pravega",
        sound="sound",
        sentence="We can use the epoch of the highest Segment in the upper bound and include its sibling Segments.",
        source="Watermark Computation",
    )
    bug_6510: Option[Flag] = option(
        "a segment without an acknowledgement enters the cut as the end of the segment.",
        "Stream",
        design=False,
        implementation=True,
        sound=False,
        sentence="A location in the Stream … at least as far into the Stream as the location of the Writers.",
        source="Overview; Pravega issue 6510",
    )
    null_without_writers: Option[Flag] = option(
        "while no writer is known, readers get null; else they keep the bounds of the last watermark.",
        "Stream",
        design=True,
        implementation=False,
        sound=False,
        sentence="If there are no known writers, readers … will receive a null when they are at the corresponding "
        "position in the stream.",
        source="Config Changes",
    )
    commit_without_time: Option[Literal["no_mark", "minimum_long", "zero"]] = option(
        "what a commit without a time notes: nothing, the minimum long as since Pravega's PR 6283, or zero as in "
        "issue 4291.",
        "TransactionalWriter",
        design="no_mark",
        implementation="minimum_long",
        sound="no_mark",
        sentence="The timestamp the writer provided for the commit (or null if they did not specify one).",
        source="Internal Changes",
    )
    txn_marks: Option[Literal["per_batch", "per_transaction"]] = option(
        "how commits are noted: by one mark for each writer and batch, with the largest time, or by one for each "
        "transaction, as before Pravega issue 4357.",
        "TransactionalWriter",
        design="per_transaction",
        implementation="per_batch",
        sound="per_batch",
        sentence="Controller can generate mark on behalf of the Writer as the Transaction gets committed.",
        source="Writer Marks",
    )
    committer: Option[Literal["by_hash", "leader"]] = option(
        "which controller commits transactions: one drawn by the stream's name, for as long as its session lasts, or "
        "the one that owns the stream's bucket.",
        "Stream",
        design="leader",
        implementation="by_hash",
        sound="by_hash",
        sentence="It may be useful for this to be the same instance that is managing Transactions for that stream.",
        source="Controller Changes",
    )
    empty_mark_after_roll: Option[Flag] = option(
        "a commit that is tried again after a rolling transaction notes an empty position, not the end of the "
        "segments.",
        "TransactionalWriter",
        design=False,
        implementation=True,
        sound=False,
        sentence="Controller can get the tailing offset of the parent Segment if it failed to get the exact offset.",
        source="Writer Marks",
    )
    auto_note_survives_close: Option[Flag] = option(
        "a writer that notes by itself goes on when it is closed (Pravega issue 4218).",
        "EventWriter",
        design=False,
        implementation=True,
        sound=False,
        sentence="Automatically invoke noteTime passing System.currentTimeMillis() on a regular interval.",
        source="Config Changes",
    )
    probe_on_seal: Option[Flag] = option(
        "a writer that finds a segment sealed sends an empty append to all others, and so finds their seals, too. "
        "Without it a sealed segment stays in the writer's position until it writes there.",
        "EventWriter",
        design=False,
        implementation=True,
        sound=True,
        sentence="It sends the timestamp provided along with the latest offsets it has for the Segments it is writing "
        "to.",
        source="Client Changes",
    )
    read_side: Option[Literal["implementation", "document"]] = option(
        "how a group finds its time window: its readers compare the offsets of the group with the marks (upstream "
        "`WatermarkReaderImpl`), or share a map from reader to the time that it has passed, whose minimum is the "
        "lower bound for all.",
        "ReaderGroup",
        design="document",
        implementation="implementation",
        sound="implementation",
        sentence="The minimum time in the Map in the Reader Group state for each Stream is returned.",
        source="Client Changes",
    )
    enters_time: Option[Literal["at_publish", "on_passing"]] = option(
        "when a reader puts its time into that map: when it publishes its position, or as soon as it has passed a "
        "stream cut. With `on_passing` it reads every `ReaderGroup.read_every_ms`.",
        "ReaderGroup",
        design="on_passing",
        implementation="at_publish",
        sound="at_publish",
        sentence=_ON_ADVANCE,
        source="Client Changes",
    )
    publish_timer: Option[Literal["fixed", "pravega"]] = option(
        "when readers do what they do: all every `publish_every_ms`; or they read every `ReaderGroup.read_every_ms`, "
        "poll the shared state every `group_refresh_ms`, and publish then if they have acquired a segment or not for "
        "(readers + 1) times `publish_every_ms` (upstream `ReaderGroupStateManager`).",
        "ReaderGroup",
        design="fixed",
        implementation="pravega",
        sound="fixed",
        sentence=_ON_ADVANCE,
        source="Client Changes",
    )
    distribution: Option[Literal["even", "contest"]] = option(
        "who gets which bucket: the elected distributor spreads them evenly, at most every "
        "`Controllers.redistribute_every_ms`; or each controller tries every free bucket, one each 10 ms in an order "
        "of its own, and keeps what it gets (Pravega issue 6663).",
        "Controllers",
        design="contest",
        implementation="even",
        sound="even",
        sentence="Each Controller instance contests with others to acquire ownership of each bucket individually.",
        source=_DISTRIBUTING,
    )
    double_work_entry: Option[Flag] = option(
        "a stream that leaves its bucket and returns within a period runs twice as many cycles from then on (upstream "
        "`BucketService`).",
        "Controllers",
        design=False,
        implementation=True,
        sound=False,
        sentence="Exactly one Controller instance will be responsible for running background workflow for any given "
        "Stream.",
        source=_DISTRIBUTING,
    )


def configuration(stream: Stream, controllers: Controllers, rules: Rules) -> Configuration:
    """The rules of a stream's watermark cycles, and when they run."""
    return Configuration(
        timeout_ms=stream.timestamp_aggregation_timeout_ms,
        timeout_from=rules.timeout_from,
        forgets=rules.forgets,
        algorithm=rules.cut_algorithm,
        visit_order=stream.visit_order,
        bug_6510=rules.bug_6510,
        leaves_bucket=rules.cycles == "while_noted",
        null_without_writers=rules.null_without_writers,
        first_barrier=0 if rules.first_barrier == "zero" else None,
        expected_writers=stream.expected_writers,
        period_ms=controllers.period_ms,
        start_delay_ms=controllers.start_delay_ms if stream.start_delay_ms is None else stream.start_delay_ms,
        note_rule=rules.note_rule,
    )


def created_history(stream: Stream, rules: Rules, first_number: int = 0) -> StreamHistory:
    """A stream as it is created, its segments numbered from `first_number`."""
    # Pravega computes even ranges in doubles, which is what makes 49 segments fail there.
    return StreamHistory.create(
        stream.segments,
        first_number=first_number,
        arithmetic="double" if rules.cut_algorithm == "pravega" else "exact",
    )


def enters_on_passing(group: ReaderGroup, rules: Rules) -> bool:
    """Whether its readers put a time into a map as soon as they have passed it."""
    return group.time_windows and (rules.read_side, rules.enters_time) == ("document", "on_passing")


def step_ms(group: ReaderGroup, rules: Rules) -> int:
    """How often its readers read."""
    is_rare = rules.publish_timer == "fixed" and not enters_on_passing(group, rules)
    return group.publish_every_ms if is_rare else group.read_every_ms
