"""The words of all answers about logs: kinds of findings, labels and headlines, in one table each.

A record is *missed* if it is late, or with windows if they lose it. The *unseen half* is the second half of a log, from
which nothing was chosen. A finding says one headline, what its rows do to the constant bound where that is known, and
the remedy of its kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from wmlab.core.facts import Kind, Vocabulary, vocabulary


class FindingKind(StrEnum):
    """What is wrong with a log; from `FEW_RECORDS` on, what is to be said of an advice."""

    BAD_ROWS = "bad rows"
    UNIT = "unit"
    WRONG_TIMES = "wrong times"
    EARLY = "early"
    BEHIND = "behind"
    COPIES = "copies"
    LOCAL_TIMES = "local times"
    ALL_SILENT = "all silent"
    SILENT = "silent"
    TIES = "ties"
    FEW_RECORDS = "few records"
    TARGET_MISSED = "target missed"
    NOT_SURE = "not sure"
    WIDE_LAG = "wide lag"
    STANDS_STILL = "stands still"
    ONE_TAIL = "one tail"
    SILENT_WRITER = "silent writer"


HEADLINES: Final[Mapping[FindingKind, str]] = {
    FindingKind.BAD_ROWS: "Bad rows are left out: {records}, the first is row {first row}.",
    FindingKind.UNIT: "{sign}",
    FindingKind.WRONG_TIMES: "Wrong times: {records} of {writer}.",
    FindingKind.EARLY: "Times after their arrival: {early share} of all, of {writer}.",
    FindingKind.BEHIND: "Clocks are behind the others: of {writer}.",
    FindingKind.COPIES: "Copies of earlier records: {records} of {writer}.",
    FindingKind.LOCAL_TIMES: "Records come {quarters} after they happen, and a little more: are they local times?",
    FindingKind.ALL_SILENT: "All writers are silent at once, for {silent for}.",
    FindingKind.SILENT: "Silent for a long time: {writer}.",
    FindingKind.TIES: "Records of one arrival have no order: the bound is from {least bound} to {largest bound}.",
    FindingKind.FEW_RECORDS: "The log is too short: it has {records} records, and {needed} are needed.",
    FindingKind.TARGET_MISSED: "The target of {target} is missed by {missed by} on the unseen half.",
    FindingKind.NOT_SURE: "The target of {target} is kept, but up to {at most} may be missed, at 95%.",
    FindingKind.WIDE_LAG: "The lag is from {least lag} to {largest lag}, at 95%.",
    FindingKind.STANDS_STILL: "No watermark moves on the unseen half; this one lags {lag}.",
    FindingKind.ONE_TAIL: "The bound of {bound} is for {records} records; {bound without} misses {larger share}.",
    FindingKind.SILENT_WRITER: "The watermark waits for writers that are silent at the end: {writer}.",
}
"""What each kind of finding says."""
REMEDIES: Final[Mapping[FindingKind, str]] = {
    FindingKind.BAD_ROWS: "The trace lists them as .refused, each with its row, value and reason.",
    FindingKind.UNIT: "{repair}",
    FindingKind.WRONG_TIMES: "Leave them out: no engine can tell them from real times, and they move every watermark.",
    FindingKind.EARLY: "Name the zone of these times, or correct the clocks: lags say nothing until then.",
    FindingKind.BEHIND: "Name the zone of these times, or correct the clocks.",
    FindingKind.COPIES: "Leave them out if the source sends again what was not acknowledged.",
    FindingKind.LOCAL_TIMES: 'If they are, name their zone: timezone={{"event_time": ...}}.',
    FindingKind.ALL_SILENT: "A watermark from event times stands still meanwhile.",
    FindingKind.SILENT: "A watermark that waits for each writer stands still meanwhile, unless it has an idle timeout.",
    FindingKind.TIES: "Take the larger bound, or a finer clock of arrivals.",
    FindingKind.FEW_RECORDS: "Take a longer log, or a larger share.",
    FindingKind.TARGET_MISSED: "A constant bound of {kept by} would have kept it there.",
    FindingKind.NOT_SURE: "To be surer, ask for a smaller share.",
    FindingKind.WIDE_LAG: "Take a longer log to know it better.",
    FindingKind.STANDS_STILL: "Look at the writers: wm.trace.profile(log).chart().",
    FindingKind.ONE_TAIL: "If these may be missed, take the smaller bound: the lag is {lag without} instead of {lag}.",
    FindingKind.SILENT_WRITER: "Take a watermark with an idle timeout.",
}
"""What to do about each kind."""
EFFECT: Final = "The constant bound is {bound} with them, and {bound without} without."
OF_ROWS: Final = (FindingKind.WRONG_TIMES, FindingKind.EARLY, FindingKind.BEHIND, FindingKind.COPIES)
"""The kinds that know what their rows do to the constant bound."""

_LOG: Final = ("log", Kind.NAME, "the name of the log")
_RECORDS: Final = ("records", Kind.COUNT, "its records")
_WINDOWS: Final = ("windows", Kind.NAME, "the windows that lose records")
_TARGET: Final = ("target", Kind.SMALL_SHARE, "the share that may be missed")
"""Labels of several answers."""

FINDING_LABELS: Final[Vocabulary] = vocabulary(
    ("records", Kind.COUNT, "how many records the finding is about"),
    ("writer", Kind.NAME, "whose they are"),
    ("first row", Kind.COUNT, "the first of them, by its number in the source"),
    ("sign", Kind.NAME, "what shows that a column is in another unit"),
    ("repair", Kind.NAME, "the argument of load that names its unit or form"),
    ("ahead", Kind.COUNT, "how many are ahead of their arrival by more than the log explains"),
    ("farthest ahead", Kind.LENGTH, "by how much at most"),
    ("older", Kind.COUNT, "how many are older than the log is long"),
    ("oldest", Kind.MOMENT, "the oldest of them"),
    ("worst row", Kind.COUNT, "the one that is farthest off, by its number in order of arrival"),
    ("early share", Kind.SHARE, "the share of all records that are theirs and arrive before they happen"),
    ("early by", Kind.LENGTH, "event time less arrival, in the median of the log"),
    ("clock off", Kind.LENGTH, "by how much the clock of each writer is ahead of the others; below 0 behind"),
    ("quarters", Kind.LENGTH, "the whole number of quarter hours that is nearest to it"),
    ("silent for", Kind.LENGTH, "the longest silence, of each writer"),
    ("from", Kind.MOMENT, "when it began"),
    ("to", Kind.MOMENT, "when it ended; the last arrival where it did not"),
    ("least bound", Kind.BOUND, "the constant bound if the oldest records of one arrival come first"),
    ("largest bound", Kind.BOUND, "the constant bound if they come last"),
    ("bound", Kind.BOUND, "the constant bound for the share that was asked for"),
    ("bound without", Kind.BOUND, "the constant bound without these records; of a tail the smaller one"),
    ("late by them", Kind.COUNT, "how many other records are late for the bound without them, because of them"),
    ("needed", Kind.COUNT, "how many records a log needs so that the share of each half can be told from the target"),
    _TARGET,
    ("missed by", Kind.SMALL_SHARE, "the share missed on the unseen half, less the target"),
    ("kept by", Kind.BOUND, "the least constant bound that would have kept the target there"),
    ("at most", Kind.SMALL_SHARE, "the upper end of the interval of the share missed there, at 95%"),
    ("least lag", Kind.LENGTH, "the lower end of the interval of the median lag there, at 95%"),
    ("largest lag", Kind.LENGTH, "its upper end"),
    ("lag", Kind.LENGTH, "the median lag; of a tail with the bound, on the whole log"),
    ("lag without", Kind.LENGTH, "the median lag with the smaller bound, on the whole log"),
    ("larger share", Kind.SMALL_SHARE, "the share missed with the smaller bound, on the whole log"),
)
"""The labels of findings."""

PROFILE_LABELS: Final[Vocabulary] = vocabulary(
    _LOG,
    _RECORDS,
    (
        "out of order",
        Kind.SHARE,
        "the share of records older than one that arrived before, of any writer",
    ),
    ("findings", Kind.WORD, "what is wrong with it"),
    ("copies are known", Kind.FLAG, "whether copies can be told: by all columns of the source, an id, or a key"),
)
PROFILE_HEADLINE: Final = "The log {log} has {records} records, of which {out of order} are out of order."
PROFILE_NEXT: Final = ("Found in it: {findings}.", "Nothing in it is seen to be dirty.")

CURVE_LABELS: Final[Vocabulary] = vocabulary(
    _LOG,
    _RECORDS,
    _WINDOWS,
    ("by", Kind.WORD, "what has a watermark of its own"),
    ("missed at 0", Kind.SMALL_SHARE, "the share missed with the bound 0"),
    ("bound for 1%", Kind.BOUND, "the least bound with which at most 1% are missed"),
    ("bound for 0.1%", Kind.BOUND, "the least bound with which at most 0.1% are missed"),
    ("bound for none", Kind.BOUND, "the least bound with which none is missed"),
)
CURVE_HEADLINE: Final = (
    "A bound of 0 misses {missed at 0} of the records of {log}, one of {bound for 1%} at most 1%, and one of "
    "{bound for none} none."
)

IDLE_LABELS: Final[Vocabulary] = vocabulary(
    _LOG,
    _RECORDS,
    ("bound", Kind.BOUND, "the bound on the disorder of each of them"),
    ("late anyway", Kind.COUNT, "records that are late without a timeout"),
    ("most late anyway", Kind.NAME, "whose most of these are"),
    ("timeout for none", Kind.BOUND, "the least timeout that makes none late"),
    ("longest hold", Kind.LENGTH, "for how long a silent one holds the watermark with it, at most"),
)
IDLE_HEADLINES: Final = (
    "An idle timeout of {timeout for none} makes no record late, and holds the watermark for up to {longest hold}.",
    "Nobody in {log} has a second record, so no idle timeout can be told from another.",
)

COMPARISON_LABELS: Final[Vocabulary] = vocabulary(
    _LOG,
    _RECORDS,
    _WINDOWS,
    (
        "misses least",
        Kind.NAME,
        "the usable strategy that misses the fewest records; of several the one that lags least",
    ),
    ("misses", Kind.SMALL_SHARE, "the share that it misses"),
    ("its lag", Kind.LENGTH, "its median lag"),
    ("misses fewer", Kind.NAME, "strategies that are not usable and miss fewer"),
    ("lags least", Kind.NAME, "the usable strategy with the least median lag; of several the one that misses fewest"),
    ("it misses", Kind.SMALL_SHARE, "the share that this one misses"),
    ("the least lag", Kind.LENGTH, "its median lag"),
    ("misses most records", Kind.NAME, "strategies that miss more than half of the records: not usable"),
    ("ahead", Kind.NAME, "strategies ahead of the arrivals in the median, and of the perfect watermark: not usable"),
    ("ahead by", Kind.LENGTH, "by how much each of them is"),
    ("stands still", Kind.NAME, "strategies that do not rise, or lag by a third of the log beyond the records' delay"),
    ("without a watermark", Kind.NAME, "strategies that have none: they can be neither least nor best"),
    ("wrong times", Kind.COUNT, "records with wrong times, which are in all numbers here"),
    ("wrong times of", Kind.NAME, "whose they are"),
)
COMPARISON_HEADLINES: Final = (
    "None of use misses fewer records than {misses least}, {misses}, with a median lag of {its lag}. "
    "Not of use, with fewer missed: {misses fewer}.",
    "None misses fewer records than {misses least}, {misses}, with a median lag of {its lag}.",
    "No strategy is of use for {log}.",
)
COMPARISON_NEXT: Final = (
    "None of use lags less than {lags least}, {the least lag}, and it misses {it misses}.",
    "Records have wrong times: {wrong times}.",
)

ADVICE_LABELS: Final[Vocabulary] = vocabulary(
    _LOG,
    _WINDOWS,
    ("strategy", Kind.NAME, "what is advised, with the parameters of the first half"),
    _TARGET,
    ("doubts", Kind.WORD, "the findings that stand against the advice"),
    ("missed", Kind.SMALL_SHARE, "the share missed on the unseen half"),
    ("late", Kind.SMALL_SHARE, "the share of late records on the unseen half"),
    ("lag", Kind.LENGTH, "the median lag on the unseen half"),
)
ADVICE_HEADLINES: Final = (
    "The log {log} does not support a watermark for {target} ({doubts}); the best guess is {strategy}.",
    "Take {strategy} for {log}: {missed} missed, of {target}.",
)
ADVICE_EXPECTED: Final = (
    "On the unseen half {missed} of the records are lost ({late} are late), and the median lag is {lag}.",
    "On the unseen half {missed} of the records are late, and the median lag is {lag}.",
)

CHART_LABELS: Final[Vocabulary] = vocabulary(
    ("writers", Kind.COUNT, "how many writers the log has"),
    _RECORDS,
    ("silent", Kind.NAME, "writers that are silent for a long time"),
    ("wrong time", Kind.COUNT, "records with a wrong time"),
    ("wrong time of", Kind.NAME, "whose they are"),
    ("early", Kind.COUNT, "other records that arrive before they happen"),
    ("early of", Kind.NAME, "whose they are"),
    ("copy", Kind.COUNT, "other records that repeat an earlier one"),
    ("copy of", Kind.NAME, "whose they are"),
    ("apart", Kind.LENGTH, "how far the two bounds are apart, in the median"),
    ("perfect between", Kind.SHARE, "at how many of the instants the perfect watermark lies between them"),
)
"""The labels of charts that have no other answer above them."""
WRITERS_HEADLINES: Final = (
    "Wrong times: {wrong time} of {wrong time of}.",
    "Silent for a long time: {silent}.",
    "Copies of earlier records: {copy} of {copy of}.",
    "Times after their arrival: {early} of {early of}.",
    "Nothing is seen to be wrong: {writers} writers, {records} records.",
)
UNCERTAINTY_HEADLINE: Final = (
    "The bounds are {apart} apart; the perfect watermark lies between them at {perfect between} of the instants."
)
