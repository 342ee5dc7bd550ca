"""The causes for which a watermark does not advance, is behind, or passes rows: one table, a row for each.

A row has the ways to its cause: the facts that must hold, and those that exclude it. It is sure only if they prove it:
that nothing else of the table fits proves nothing, since no table has every cause. All others that fit are candidates,
the one with the most facts first, each with what would tell it from its neighbours. To add a cause is to add a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from wmlab.core.facts import Facts
from wmlab.engines.facts import LABELS, Fact, Table, holds
from wmlab.engines.flink_rest import IDLE_TIMEOUT, INTERVAL
from wmlab.engines.spark_query import NO_DATA, POLICY
from wmlab.engines.verdicts import Verdict

Certainty = Literal["sure", "candidates"]
"""How sure an answer is; of candidates the facts do not tell which one it is."""


@dataclass(frozen=True, slots=True)
class Advice:
    """A setting that repairs a cause, where some facts hold, unless one of others does: what is set is not advised."""

    name: str
    value: str
    needs: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Way:
    """One way to a cause: under these verdicts, the facts that must hold, and those that exclude it.

    `proves` says that these facts are a proof; `says` is the fact that tells it, by default the first one.
    """

    verdicts: tuple[Verdict, ...]
    requires: tuple[str, ...]
    excludes: tuple[str, ...] = ()
    proves: bool = False
    says: str = ""

    def fits(self, table: Table) -> bool:
        """Whether it may be the cause: a fact that is not known neither speaks for it nor excludes it."""
        return all(holds(table, name) for name in self.requires) and not any(holds(table, n) for n in self.excludes)

    def is_proved(self, table: Table) -> bool:
        """Whether the facts prove it: of those that exclude it none is unknown."""
        return self.proves and all(holds(table, name) is False for name in self.excludes)


@dataclass(frozen=True, slots=True)
class Cause:
    """A row of the table: the ways to a cause, its remedy, and `apart`, what would tell it from its neighbours."""

    name: str
    ways: tuple[Way, ...]
    remedy: str
    apart: str = ""
    settings: tuple[Advice, ...] = ()


_RUNS: Final[tuple[Verdict, ...]] = ("not running",)
_LOST: Final[tuple[Verdict, ...]] = ("rows lost",)
_HELD: Final[tuple[Verdict, ...]] = ("held",)
_FINE: Final[tuple[Verdict, ...]] = ("no fault",)
_OPEN: Final[tuple[Verdict, ...]] = ("no fault", "cannot tell")
_TELL: Final[tuple[Verdict, ...]] = ("cannot tell",)
_ANY: Final[tuple[Verdict, ...]] = ("held", "no fault", "cannot tell")
_BEHIND: Final = ("split behind", "subtask behind", "source behind")
_SILENT: Final = ("split silent", "subtask silent", "source silent", "all silent")
_STUCK: Final = (*_SILENT, "none newer")
_KEPT: Final = ("operator stands", "operator later", "not arrived", "paused")
_NO_CLOCK: Final = ("unit", "near 1970")
_AT_WORK: Final = ("holder at work", "paused", "not arrived", "operator stands")
_NOT_STARTED: Final = ("of SQL", "of Spark")
_WAITED: Final = ("needs none",)
"""What excludes a proof that something is held: nobody waits, or it is not known whether anybody does."""
_NO_TIMEOUT: Final = ("idle", "no split left")
"""Where an idle timeout changes nothing: where it is set, and for a reader without splits."""
_IDLENESS: Final = (
    Advice("withIdleness", "Duration.ofSeconds(30), in its WatermarkStrategy", unless=(*_NOT_STARTED, *_NO_TIMEOUT)),
    Advice("scan.watermark.idle-timeout", "'30 s', for the table of that source", ("made in scan",), _NO_TIMEOUT),
    Advice(IDLE_TIMEOUT, "'30 s', for all sources of the job", ("of SQL",), (*_NO_TIMEOUT, "idle timeout set")),
)
_ALIGNMENT: Final = (
    Advice(
        "withWatermarkAlignment",
        '("group", Duration.ofMinutes(1)), in the strategy of each source; it keeps the others from filling the state',
        ("several sources",),
        ("aligned", *_NOT_STARTED),
    ),
    Advice(
        "scan.watermark.alignment.group",
        "one name for both sources, with max-drift; it keeps the others from filling the state",
        ("several sources", "made in scan"),
        ("aligned",),
    ),
)
_OTHER_DELAY: Final = "a delay of more than {needed} instead of {delay}"
_LONGER: Final = Advice("withWatermark", _OTHER_DELAY, ("needed more",), ("one far ahead",))
_SHORTER: Final = Advice("withWatermark", _OTHER_DELAY, ("needed less",), ("several sources",))

_ROWS: Final = (
    Cause("failed", (Way(_RUNS, ("failed",), proves=True),), "Repair that, and start it again from its checkpoint."),
    Cause("cancelled", (Way(_RUNS, ("cancelled",), proves=True),), "Start it again from a savepoint or checkpoint."),
    Cause("restarting", (Way(_RUNS, ("restarting",), proves=True),), "See its exceptions."),
    Cause(
        "restarts",
        (
            Way(_HELD, ("restarts on", "restarted"), proves=True, says="restarted"),
            Way(_HELD, ("restarts on",)),
            Way(_FINE, ("restarted",), ("late",), proves=True),
            Way(_ANY, ("restarted",)),
        ),
        "See its exceptions; without a checkpoint open windows are lost.",
        "what it had not written out when it started again has to be read once more",
    ),
    Cause(
        "operator does not pass it on",
        (
            Way(_HELD, ("operator stands", "never sent"), _WAITED, proves=True),
            Way(_HELD, ("operator stands",)),
            Way(_HELD, ("takes none", "not arrived")),
            Way(_HELD, ("subtask silent", "holder at work"), ("pressed", "paused")),
            Way(_HELD, ("source silent", "holder at work"), ("pressed", "paused")),
        ),
        "See what it waits for: a lookup without an answer needs a timeout, an assigner newer rows.",
        "{holder} is in the same call in two thread dumps of its task manager",
    ),
    Cause(
        "operator sends it later",
        (Way(_HELD, ("operator later", "far"), _WAITED, proves=True),),
        "Windows behind it wait for as long; narrower bounds, or windows before it, shorten that.",
        "a row later by the range of the join releases it",
    ),
    Cause(
        "paused by alignment",
        (Way(_HELD, ("paused",), _WAITED, proves=True), Way(_HELD, ("paused",))),
        "Newer rows of {holder}, a larger drift, or a group of its own lets it go on.",
    ),
    Cause(
        "back pressure",
        (
            Way(_HELD, ("not arrived", "late task busy"), ("takes none",), proves=True, says="late task busy"),
            Way(_HELD, ("queue grows", "busy"), ("operator later",), says="busy"),
            Way(_HELD, ("grows", "pressed", "busy"), says="busy"),
            Way(_HELD, ("far", "pressed", "busy"), says="busy"),
            Way(_HELD, ("not arrived",), ("late task busy",)),
            Way(_HELD, ("queue grows",)),
            Way(_HELD, ("holder at work", "pressed", "stands"), _KEPT, says="pressed"),
        ),
        "Give {holder} more subtasks, or less work.",
        "{holder} is at work in the thread dump of its task manager",
    ),
    Cause(
        "query too slow for its source",
        (
            Way(_HELD, ("pending", "back to back"), says="back to back"),
            Way(_TELL, ("backlog not known",)),
        ),
        "See the slowest step in durationMs; give it more partitions, or less work.",
        "more and more rows wait in the source",
    ),
    Cause(
        "jump into the future",
        (
            Way(_LOST, ("late", "jumped, then lost"), proves=True, says="jumped, then lost"),
            Way(_LOST, ("late", "stands ahead"), ("near", "unit"), says="stands ahead"),
            Way(_LOST, ("late", "jumped"), says="jumped"),
            Way(_LOST, ("late", "ahead"), says="ahead"),
            Way(_HELD, ("stands ahead", "stands"), ("unit",)),
            Way(_HELD, ("one far ahead", "none newer")),
            Way(_FINE, ("jumped",)),
            Way(_TELL, ("jumped last",)),
        ),
        "Filter such rows before the watermark; start again from before the jump, in Spark with a new checkpoint.",
        "a row that far ahead has been read, and those that are late now are at the clock",
    ),
    Cause(
        "unit of time",
        (Way(_ANY, ("unit", "unit and speed"), ("jumped", "stands ahead"), proves=True), Way(_ANY, ("unit",))),
        "Convert the column before the watermark.",
        "the column counts another unit than milliseconds",
    ),
    Cause(
        "times not since 1970",
        (Way(_ANY, ("near 1970",)),),
        "See what the column counts: no window is that of a clock.",
        "the column counts from another moment, or all its times are 0",
    ),
    Cause(
        "event times are null",
        (
            Way(_HELD, ("newer rows", "null times", "several sources"), says="null times"),
            Way(_HELD, ("newer rows", "several sources", "none yet"), ("source silent",)),
        ),
        "Look for nulls, or a wrong format, in the time column of {holder}.",
        "the time column of {holder} is null",
    ),
    Cause(
        "silent subtask or partition",
        (
            Way(_HELD, ("no split left",), _WAITED, proves=True),
            Way(_HELD, ("subtask silent",), (*_AT_WORK, *_WAITED), proves=True),
            Way(_HELD, ("grows", "subtask quiet"), says="subtask quiet"),
            Way(_TELL, ("may stand", "subtask quiet"), says="subtask quiet"),
            Way(_HELD, ("subtask silent",), ("paused",)),
            Way(_HELD, ("split silent", "stands"), ("paused",)),
            Way(_HELD, ("none newer", "several splits"), ("near 1970", "stands ahead")),
            Way(_HELD, ("reads without", "several splits", "sibling has one"), ("rows end",)),
        ),
        "A newer row of {holder} or fewer subtasks would release it; an idle timeout, if it still reads a partition.",
        "{holder} has no new rows, or one of its partitions has none",
        _IDLENESS,
    ),
    Cause(
        "silent source",
        (
            Way(_HELD, ("source silent",), (*_AT_WORK, "of Spark", *_WAITED), proves=True),
            Way(
                _HELD,
                ("source silent", "policy min", "all declare"),
                ("null times", "no times", *_WAITED),
                proves=True,
            ),
            Way(_HELD, ("source silent",), ("null times", "paused")),
            Way(_HELD, ("grows", "source quiet"), says="source quiet"),
            Way(_TELL, ("may stand", "source quiet"), says="source quiet"),
        ),
        "A row of {holder} with a newer event time, its end, or an idle timeout would release it.",
        "{holder} has no new rows in the broker",
        (
            *_IDLENESS,
            Advice(POLICY, "max, if rows of the slower source may be dropped", ("of Spark",), ("policy max",)),
        ),
    ),
    Cause(
        "no row reaches the watermark",
        (
            Way(_HELD, ("rows end", "none yet"), _SILENT),
            Way(_HELD, ("rows end", "none newer"), ("of SQL",)),
            Way(_HELD, ("offsets go on", "all silent")),
        ),
        "See the condition of {holder}.",
        "{holder} takes all rows by its condition",
    ),
    Cause(
        "source without watermark",
        (
            Way(_HELD, ("no times", "no times declared")),
            Way(_HELD, ("reads without", "undeclared")),
            Way(_HELD, ("reads without",), ("of SQL", "rows end")),
            Way(_HELD, ("no times",)),
        ),
        "See its watermark strategy, WATERMARK FOR or withWatermark.",
        "none is declared for {holder}, or its generator gives none",
        (
            Advice("WATERMARK FOR", "ts AS ts - INTERVAL '5' SECOND, with the time column of the table", ("of SQL",)),
            Advice("withWatermark", "the time column, and how late its rows come", ("of Spark", "no times declared")),
            Advice(
                "WatermarkStrategy",
                "forBoundedOutOfOrderness(Duration.ofSeconds(5)) with a timestamp assigner",
                unless=_NOT_STARTED,
            ),
        ),
    ),
    Cause(
        "watermark interval",
        (
            Way(_HELD, ("reads without", "no interval"), ("other has one", "undeclared", "rows end")),
            Way(_HELD, ("reads without",), ("other has one", "undeclared", "rows end")),
        ),
        f"Set {INTERVAL} to 200 ms.",
        f"{INTERVAL} is 0 for this job, or longer than it has run",
        (Advice(INTERVAL, "200 ms"),),
    ),
    Cause(
        "no batches without rows",
        (
            Way(_HELD, ("batch is due", "no-data off"), ("none newer", *_WAITED), proves=True),
            Way(_HELD, ("batch is due",), ("none newer",)),
            Way(_TELL, ("may be due",)),
        ),
        "Any row moves it, or that setting.",
        f"{NO_DATA} is false",
        (Advice(NO_DATA, "true"),),
    ),
    Cause(
        "rows are no newer",
        (
            Way(_HELD, ("none newer", "of Spark"), ("several sources", "one far ahead", *_WAITED), proves=True),
            Way(_HELD, ("none newer",), ("near 1970", "stands ahead")),
        ),
        "A row with a later event time would release it.",
        "the rows that {holder} gives have no later event time",
    ),
    Cause(
        "watermark generator",
        (
            Way(_HELD, ("none newer",), ("declared", "near 1970", "stands ahead", "of Spark")),
            Way(_HELD, ("split silent",), ("declared",)),
        ),
        "See its WatermarkGenerator: it has to keep the newest time, and to emit it.",
        "{holder} gives rows with later event times, and the generator is one of your own",
    ),
    Cause(
        "source behind",
        (
            Way(
                _HELD,
                ("source behind", "delay small"),
                ("unit", "near 1970", "gap changes", "pressed", "whole quarters", "paused", *_WAITED),
                proves=True,
            ),
            Way(_HELD, ("alone behind", "several sources"), ("of SQL",)),
            Way(_HELD, ("distance grows", "several sources")),
            Way(_HELD, ("split behind", "gap changes"), ("unit",)),
            Way(_HELD, ("split behind",), ("unit",)),
            Way(_HELD, ("subtask behind",), ("split behind", "unit")),
            Way(_HELD, ("source behind", "gap changes"), ("delay explains", "unit")),
            Way(_HELD, ("source behind", "several sources"), ("delay explains", "unit")),
            Way(_HELD, ("far", "several sources", "frees rows"), ("newer rows",)),
            Way(_HELD, ("far", "several sources", "of Spark"), ("newer rows", "distance grows")),
            Way(_HELD, ("far",), (*_BEHIND, *_STUCK, *_KEPT, *_NO_CLOCK, "delay explains", "grows", "of Spark")),
            Way(_HELD, ("newer rows", "several sources"), ("source silent", "null times")),
        ),
        "Only newer rows of {holder} help; see how old those are that are written now, and how many wait.",
        "the newest rows of {holder} are that old",
        _ALIGNMENT,
    ),
    Cause(
        "source falls behind",
        (
            Way(_HELD, ("grows",), (*_KEPT, *_BEHIND, *_STUCK, *_NO_CLOCK)),
            Way(_HELD, ("grows", "source behind"), (*_KEPT, *_NO_CLOCK)),
        ),
        "See in the broker whether rows wait: then it reads too slowly; otherwise they are written late.",
        "rows wait in the broker, or come late to it",
    ),
    Cause(
        "delay larger than needed",
        (
            Way(
                _HELD,
                ("delay explains", "far"),
                ("operator stands", "operator later", "not arrived", "grows"),
            ),
            Way(_HELD, ("far", "needed less"), ("several sources",), says="needed less"),
            Way(_HELD, ("newer rows", "new run"), says="new run"),
            Way(_HELD, ("source behind",), ("delay stated", "gap changes", "unit")),
            Way(
                _HELD,
                ("far", "whole quarters"),
                (*_BEHIND, *_STUCK, *_KEPT, *_NO_CLOCK, "delay stated", "distance changes", "of Spark"),
            ),
            Way(
                _HELD,
                ("far",),
                (*_BEHIND, *_STUCK, *_KEPT, *_NO_CLOCK, "delay stated", "distance changes", "of Spark"),
            ),
            Way(
                _HELD,
                ("far", "several sources", "keeps all", "of Spark"),
                ("newer rows", "distance grows"),
            ),
            Way(
                _HELD,
                ("far", "several sources", "of Spark"),
                ("frees rows", "newer rows", "distance grows"),
            ),
        ),
        "Shorten the delay of {holder}, if its rows do not need it, or wait for as long.",
        "the watermark of {holder} has a delay of that size",
        (_SHORTER,),
    ),
    Cause(
        "time zone",
        (
            Way(
                (*_HELD, *_FINE),
                ("whole quarters", "local time", "delay stated"),
                (*_BEHIND, *_KEPT, "delay explains", "distance changes"),
            ),
            Way(_HELD, ("source behind", "whole quarters"), ("delay explains", "gap changes"), says="whole quarters"),
            Way(
                _HELD,
                ("far", "whole quarters"),
                (*_BEHIND, *_STUCK, *_KEPT, "delay explains", "distance changes", "unit"),
                says="whole quarters",
            ),
        ),
        "Use TIMESTAMP_LTZ for the column, or UTC as the zone.",
        "a row of {holder} that is written now has an event time that many hours off",
        (Advice("table.local-time-zone", "UTC", ("of SQL", "local time")),),
    ),
    Cause(
        "watermark of the fastest source",
        (
            Way(_LOST, ("late", "policy max", "beyond reported"), says="beyond reported"),
            Way(_LOST, ("late", "beyond reported"), ("jumped", "policy min"), says="beyond reported"),
            Way(_LOST, ("late", "several sources", "of Spark"), ("jumped", "policy min")),
        ),
        "Set the policy to min, lengthen the delay of the newest source, or mend its clock.",
        f"{POLICY} is max",
        (Advice(POLICY, "min", unless=("policy min",)),),
    ),
    Cause(
        "delay smaller than the lateness",
        (
            Way(
                _LOST,
                ("late", "needed more"),
                ("jumped", "several sources", "one far ahead"),
                proves=True,
                says="needed more",
            ),
            Way(_LOST, ("late",), ("jumped, then lost", "stands ahead")),
        ),
        "A longer delay keeps them, and all windows wait for it; if they are of one device, mend its clock.",
        "the late rows are behind the newest of their own source by more than its delay",
        (_LONGER,),
    ),
    Cause(
        "ahead of the clock",
        (Way(_FINE, ("ahead",), ("unit",)),),
        "Check the clock of their writer, and the time zone of the column.",
        "a row of {holder} that is written now has a time of the future",
    ),
    Cause("ended", (Way(_FINE, ("source ended",), proves=True),), "Nothing is needed."),
    Cause(
        "no fault",
        (
            Way(_FINE, ("needs none",), ("late",)),
            Way(
                _FINE,
                ("moves", "near"),
                (
                    *("late", "keeps all", "not seen since", "may have ended", "next batch due", "times of one"),
                    *(*_NO_CLOCK, *_BEHIND, "jumped", "ahead", "whole quarters"),
                ),
                proves=True,
            ),
            Way(
                _FINE,
                ("moves", "near", "not due"),
                (
                    *(
                        "late",
                        "kept for ever",
                        "another column",
                        "not seen since",
                        "may have ended",
                        "next batch due",
                        "times of one",
                    ),
                    *(*_NO_CLOCK, *_BEHIND, "jumped", "ahead", "whole quarters"),
                ),
                proves=True,
            ),
            Way(_OPEN, ("moves",), ("needs none", "unit", "near 1970")),
            Way(_TELL, ("backlog not known",), ("late",)),
        ),
        "A window, or a row that waits for a partner, comes out when the watermark passes its end.",
        "the rows wait for nothing but that",
    ),
    Cause(
        "state is not freed",
        (
            Way(_OPEN, ("kept for ever",), proves=True),
            Way(_OPEN, ("keeps all", "another column"), _NO_CLOCK, says="another column"),
            Way(_OPEN, ("keeps all",), (*_NO_CLOCK, "not due")),
        ),
        "Compare the column of withWatermark with that of the window or deduplication; a join needs a range of time.",
        "the state has another column than that of withWatermark",
    ),
    Cause(
        "no new data",
        (
            Way(_HELD, ("all silent",), ("pending", "pressed", "subtask silent", "batch is due")),
            Way(_OPEN, ("not seen since",)),
        ),
        "A newer row of each source would release it; see in the broker, or ask again later.",
        "the sources have no new rows",
    ),
    Cause(
        "not running",
        (Way(_RUNS, ("not running",), proves=True), Way(_OPEN, ("may have ended",))),
        "Start it again from its checkpoint, if it should run.",
        "query.isActive is false",
    ),
)
CAUSES: Final = {row.name: row for row in _ROWS}
"""Each cause by its name."""
CANNOT_TELL: Final = "cannot tell"
MOST: Final = 3
"""How many candidates are told at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting to change, in the engine's own words; `value` is an example where the facts give no number."""

    name: str
    value: str
    reason: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """A cause that fits, with the facts that it follows from, the telling one first, its remedy and its settings.

    `apart` is what would tell it from the others; it is empty if the cause is proved.
    """

    cause: str
    facts: tuple[Fact, ...]
    remedy: str
    apart: str = ""
    settings: tuple[Setting, ...] = ()

    @property
    def what(self) -> str:
        """The telling fact in words."""
        return self.facts[0].what if self.facts else "no fact tells whether anything holds it"

    @property
    def whose(self) -> str | None:
        """What holds the watermark: a source, subtask, partition or operator; None if no fact names it."""
        named = (fact.values.get("holder") for fact in self.facts)
        name = next((each for each in named if each), None)
        return ", ".join(map(str, name)) if isinstance(name, tuple) else None if name is None else str(name)


def candidates(
    table: Table, verdict: Verdict, because: Sequence[str], *, has_plan: bool = True
) -> tuple[Certainty, tuple[Candidate, ...]]:
    """The causes that fit the facts under a verdict: those that are proved, or else all, the most specific one first.

    A proof needs to know who reads whom. Without any cause, one candidate says what the verdict rests on.
    """
    ways = [(row, way) for row in CAUSES.values() for way in row.ways if verdict in way.verdicts and way.fits(table)]
    proved = [(row, way) for row, way in ways if has_plan and way.is_proved(table)]
    told = proved or sorted(ways, key=lambda each: -len(each[1].requires))
    first = {row.name: (row, way) for row, way in reversed(told)}
    names = list(dict.fromkeys(row.name for row, _ in told))[:MOST]
    fitting = tuple(_candidate(*first[name], table, is_sure=bool(proved)) for name in names)
    none = Candidate(CANNOT_TELL, tuple(table[name] for name in because), "Look again, for a minute or longer.")
    return "sure" if proved else "candidates", fitting or (none,)


def _candidate(row: Cause, way: Way, table: Table, *, is_sure: bool) -> Candidate:
    names = dict.fromkeys(filter(None, (way.says, *way.requires)))
    made = Candidate(row.name, tuple(table[name] for name in names), "")
    values = Facts(LABELS, {"holder": "it"} | dict(made.facts[0].values) | {"holder": made.whose or "it"})
    apart = "" if is_sure else values.fill(row.apart)
    reason = f"{made.what}; if {apart}" if apart else made.what
    settings = tuple(
        Setting(name=each.name, value=_filled(each.value, table), reason=reason)
        for each in row.settings
        if all(holds(table, name) for name in each.needs) and not any(holds(table, name) for name in each.unless)
    )
    return Candidate(row.name, made.facts, values.fill(row.remedy), apart, settings)


def _filled(value: str, table: Table) -> str:
    """The value of a setting with the delays that the rows have and need."""
    known = [table[name].values for name in ("needed less", "needed more") if holds(table, name)]
    return Facts(LABELS, known[0]).fill(value) if known and "{" in value else value
