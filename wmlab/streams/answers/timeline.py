"""The timeline: what happened in a run, as readable rows in time order.

Runs of rows that say the same become one moment with a beginning and an end. The effect of a moment is a template over
its facts.

Source: the tables of `wmlab.streams.tables`; PDP-33, Periodic Watermark Workflow, for what the cycles mean.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby, pairwise
from operator import itemgetter
from types import MappingProxyType
from typing import Final

import pyarrow as pa

from wmlab.core.answers import TableAnswer, text_table
from wmlab.core.arguments import require_order, the_moment
from wmlab.core.errors import RecordingError
from wmlab.core.facts import Facts, Kind, Value, vocabulary
from wmlab.core.invariants import TableRow
from wmlab.core.recording import Recording
from wmlab.core.words import clock_words, counted, grouped, is_instant, listed
from wmlab.streams.answers.history import owners_of, replaced, rows_of_stream, the_stream
from wmlab.streams.model.cycle import HeldBy
from wmlab.streams.model.segment import segment_name
from wmlab.streams.tables import TOOK_PLACE, marks_read_ms

_TOGETHER_MS: Final = 5_000
"""Refused notes that follow each other within this time are one moment."""
_NAMED: Final = 4
"""Of the segments in which a group goes on, so many are named."""
EFFECT_LABELS: Final = vocabulary(
    ("segments", Kind.NAME, ""),
    ("epoch", Kind.COUNT, ""),
    ("committed at", Kind.MOMENT, ""),
    ("aborted at", Kind.MOMENT, ""),
    ("state", Kind.WORD, ""),
    ("events", Kind.COUNT, ""),
    ("refused as", Kind.WORD, ""),
    ("bound", Kind.MOMENT, ""),
    ("bound before", Kind.MOMENT, ""),
    ("no bound since", Kind.MOMENT, ""),
    ("saw", Kind.MOMENT, ""),
    ("reads on in", Kind.NAME, ""),
)
"""The labels of the effects of moments; a moment has them in its sentence only, so none has a meaning of its own.

Of a group `segments` are those that can be read from then on, `bound before` is the lower bound of the first of some
watermarks, of which `bound` is the last, and `no bound since` is when a watermark that counts no writers came.
"""
EFFECTS: Final[Mapping[str, tuple[str, ...]]] = {
    "created": ("with {segments}",),
    "changed": ("epoch {epoch}: {segments}",),
    "transaction": (
        "committed at {committed at}, events: {events}",
        "aborted at {aborted at}, events: {events}",
        "{state} to the end, events: {events}",
    ),
    "first mark": ("is on record",),
    "mark again": ("is on record again",),
    "refused": ("refused: {refused as}",),
    "no watermark yet": ("no lower bound yet",),
    "no watermark": ("no lower bound since {no bound since}", "lower bound stays at {bound}"),
    "watermarks": ("lower bound {bound before} → {bound}", "lower bound {bound}"),
    "finished": ("{segments} can be read", "its successors wait for other segments"),
    "last segment": ("it has no successors",),
    "reset": ("reads on in {reads on in} bytes",),
    "seen": ("{saw}",),
}
"""The effects of moments by what happens; of these the first is said whose labels are all there."""


def _end_of(step: TableRow) -> tuple[object, ...]:
    """Whose a watermark is, or of a cycle without one whose it was, whom it waits for, and any other reason."""
    if "seq" in step:
        return (step["controller"],)
    return step["controller"], tuple(sorted(step["lagging"])), "" if step["lagging"] else step["reason"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One thing that happened: from `at_ms` to `to_ms` (equal unless it lasted), `who` did `what`, to what `effect`.

    The effect says the `facts`; it is empty where the deed says it all. `parties` are the writers, transactions,
    readers, controllers, segments and the stream that it concerns.
    """

    at_ms: int
    to_ms: int
    who: str
    what: str
    effect: str = ""
    facts: dict[str, Value] = field(default_factory=dict)
    parties: tuple[str, ...]


def _of_epochs(epochs: Sequence[TableRow]) -> Iterator[Moment]:
    """The creation of the stream, and every change of its segments."""
    for row in epochs[:1]:
        yield _moment(row["at_ms"], row["stream"], "is created", "created", {"segments": _segments(row["segment_ids"])})
    for before, row in pairwise(epochs):
        gone, new = replaced(before, row)
        what = "scales" if row["kind"] == "scale" else f"changes ({row['kind']})"
        now = {"epoch": row["epoch"], "segments": _segments(row["segment_ids"])}
        parties = map(segment_name, (*gone, *new))
        what = f"{what}: {_segments(gone)} → {_segments(new)}"
        yield _moment(row["at_ms"], row["stream"], what, "changed", now, *parties)


def _of_seals(rows: Sequence[TableRow]) -> Iterator[Moment]:
    """The seal of every sealed segment."""
    for row in rows:
        if row["sealed_ms"] is not None:
            name = segment_name(row["segment_id"])
            yield _moment(row["sealed_ms"], row["stream"], f"seals {name}", "", {}, name)


def _of_faults(rows: Sequence[TableRow], errors: Sequence[TableRow]) -> Iterator[Moment]:
    """Every fault but scales and creations that took place, which the epochs have; of a note whether it was refused."""
    refused = {(row["at_ms"], row["process"]): row["problem"] for row in errors if row["call"] == "note time"}
    for row in rows:
        if row["kind"] not in ("scale", "create") or row["outcome"] != TOOK_PLACE:
            # What happened to a clock or a group is not a sentence about its target.
            is_sentence = row["kind"] != "clock" and row["subject"] != "group"
            what = row["detail"].removeprefix(f"{row['target']} ") if is_sentence else row["detail"]
            problem = refused.get((row["at_ms"], row["target"])) if row["kind"] == "note" else None
            yield _moment(row["at_ms"], row["target"], what, "refused", {"refused as": problem})


def _of_owners(rows: Sequence[TableRow]) -> Iterator[Moment]:
    """Every controller that owned the stream's bucket, from when until when."""
    for row in rows:
        yield _moment(row["from_ms"], row["controller"], f"owns bucket {row['bucket']}", to_ms=row["to_ms"])


def _of_transactions(rows: Sequence[TableRow]) -> Iterator[Moment]:
    """The life of every transaction: its beginning, the request to commit it, and how it ended."""
    for row in sorted(rows, key=lambda row: (row["begun_ms"], row["writer"])):
        what = f"begins transaction {row['txn']}"
        if row["commit_requested_ms"] is not None:
            with_time = (
                "without a time"
                if row["time"] is None
                else f"with the time {clock_words(row['time'], clock_ms=row['begun_ms'])}"
            )
            what += f", asks to commit it at {clock_words(row['commit_requested_ms'])} {with_time}"
        ends = [row[name] for name in ("commit_requested_ms", "committed_ms", "aborted_ms") if row[name] is not None]
        fate = {"committed at": row["committed_ms"], "aborted at": row["aborted_ms"]}
        fate |= {"state": row["state"], "events": row["events"]}
        to_ms = max(ends, default=None)
        yield _moment(row["begun_ms"], row["writer"], what, "transaction", fate, row["txn"], to_ms=to_ms)


def _of_marks(rows: Sequence[TableRow], cycles: Sequence[TableRow]) -> Iterator[Moment]:
    """A writer's first mark, and its first one after it was dropped."""
    dropped = [(row["at_ms"], name) for row in cycles for name in row["removed"]]
    by_writer = sorted(rows, key=lambda row: (row["writer"], row["received_ms"]))
    for writer, marks in groupby(by_writer, key=lambda row: str(row["writer"])):
        on_record_ms: int | None = None
        for row in (row for row in marks if row["outcome"] == "success"):
            gone = any(name == writer and (on_record_ms or 0) <= at <= row["received_ms"] for at, name in dropped)
            if on_record_ms is None or gone:
                kind = "first mark" if on_record_ms is None else "mark again"
                what = f"notes the time {clock_words(row['time'], clock_ms=row['received_ms'])}"
                yield _moment(row["received_ms"], writer, what, kind, {}, row["controller"])
            on_record_ms = row["received_ms"]


def _of_refusals(rows: Sequence[TableRow]) -> Iterator[Moment]:
    """The notes that were refused: those of one outcome that come soon after each other are one moment."""
    refused = [row for row in rows if row["outcome"] != "success"]
    ordered = sorted(refused, key=lambda row: (str(row["outcome"]), int(row["received_ms"])))
    for outcome, of_outcome in groupby(ordered, key=lambda row: str(row["outcome"])):
        run: list[TableRow] = []
        for row in of_outcome:
            if run and row["received_ms"] - run[-1]["received_ms"] > _TOGETHER_MS:
                yield _refusal(outcome, run)
                run = []
            run.append(row)
        yield _refusal(outcome, run)


def _of_cycles(cycles: Sequence[TableRow], watermarks: Sequence[TableRow]) -> Iterator[Moment]:
    """Watermarks of one controller in a row, cycles in a row that ended alike without one, and who was dropped.

    A watermark is told when it was appended; a cycle that died after that has no row. Of a cycle without a watermark
    the beginning is recorded, not the end, so what is told is that it begins.
    """
    for row in cycles:
        for name in row["removed"]:
            yield _moment(row["at_ms"], row["controller"], f"begins a cycle that drops {name}", "", {}, name)
    steps = [(row["at_ms"], row) for row in cycles if row["outcome"] != "emitted"]
    steps += [(row["emitted_ms"], row) for row in watermarks if row["writers"]]
    for _, of in groupby(sorted(steps, key=itemgetter(0)), key=lambda step: _end_of(step[1])):
        run = list(of)
        yield _emissions(run) if "seq" in run[0][1] else _without_watermark(run, watermarks)


def _of_positions(rows: Sequence[TableRow], last: Collection[int]) -> Iterator[Moment]:
    """Every segment that a group finished, and what it could read from then on; `last` are those without successors.

    One that still counts in the position is finished when it begins to, and not when it leaves that.
    """
    counting: set[tuple[str, int]] = set()
    for row in sorted(rows, key=lambda row: int(row["version"])):
        segment = row["group"], row["segment_id"]
        is_told = row["finished"] and segment in counting and not row["reset"]
        (counting.add if row["waits"] else counting.discard)(segment)
        if row["reset"] or is_told or not (row["finished"] or row["waits"]):
            continue
        update = [r for r in rows if (r["group"], r["version"]) == (row["group"], row["version"])]
        opened = sorted(r["segment_id"] for r in update if not r["finished"] and r["reader"] is None)
        name = segment_name(row["segment_id"])
        kind = "last segment" if row["segment_id"] in last else "finished"
        parties = (name, row["group"], *map(segment_name, opened))
        what = f"finishes {name} at {grouped(row['offset'])} bytes"
        then = {"segments": _segments(opened) or None}
        yield _moment(row["at_ms"], row["reader"] or row["group"], what, kind, then, *parties)


def _of_resets(rows: Sequence[TableRow]) -> Iterator[Moment]:
    """Every reset that a group has carried out, and where it goes on reading."""
    updates = sorted(rows, key=lambda row: (row["group"], row["version"], row["segment_id"]))
    for (group, _), update in groupby(updates, key=lambda row: (row["group"], row["version"])):
        changed = list(update)
        if all(row["reset"] for row in changed):
            to_read = [row for row in changed if not row["finished"] and not row["waits"]]
            names = [segment_name(row["segment_id"]) for row in to_read]
            places = [f"{name} at {grouped(row['offset'])}" for name, row in zip(names, to_read, strict=True)]
            more = [f"{len(places) - _NAMED} more"] if len(places) > _NAMED else []
            then = {"reads on in": listed([*places[:_NAMED], *more]) if places else None}
            yield _moment(changed[0]["at_ms"], group, "is taken back", "reset", then, *names)


def _of_windows(rows: Sequence[TableRow]) -> Iterator[Moment]:
    """The first lower bound that each reader sees."""
    first: dict[tuple[str, str], TableRow] = {}
    for row in sorted(rows, key=lambda row: int(row["at_ms"])):
        if row["lower"] is not None:
            first.setdefault((row["group"], row["reader"]), row)
    for (group, reader), row in first.items():
        yield _moment(row["at_ms"], reader, "saw its first lower bound", "seen", {"saw": row["lower"]}, group)


def _moment(
    at_ms: int,
    who: str,
    what: str,
    kind: str = "",
    values: Mapping[str, Value] = MappingProxyType({}),
    *parties: str,
    to_ms: int | None = None,
) -> Moment:
    end_ms = at_ms if to_ms is None else to_ms
    facts = Facts(EFFECT_LABELS, values, clock_ms=end_ms)
    effect = "".join(map(facts.fill, facts.chosen(EFFECTS.get(kind, ()))))
    named = tuple(dict.fromkeys((who, *parties)))
    return Moment(at_ms=at_ms, to_ms=end_ms, who=who, what=what, effect=effect, facts={**facts}, parties=named)


def _segments(ids: Sequence[int]) -> str:
    return ", ".join(map(segment_name, ids))


def _refusal(outcome: str, run: Sequence[TableRow]) -> Moment:
    first, to_ms = run[0], run[-1]["received_ms"]
    writers = sorted({str(row["writer"]) for row in run})
    time = clock_words(first["time"], clock_ms=to_ms)
    several = f"{'notes' if len(writers) == 1 else 'note'} a time, {grouped(len(run))} times"
    notes = f"notes the time {time}" if len(run) == 1 else several
    parties = (*writers, *sorted({str(row["controller"]) for row in run}))
    who = listed(writers, most=_NAMED, rest="others")
    moment = _moment(first["received_ms"], who, notes, "refused", {"refused as": outcome}, to_ms=to_ms)
    return replace(moment, parties=parties)


def _without_watermark(run: Sequence[tuple[int, TableRow]], watermarks: Sequence[TableRow]) -> Moment:
    """Cycles in a row without a watermark; the bound does not stay where one came while the last of them ran."""
    (from_ms, first), (to_ms, last) = run[0], run[-1]
    waits = sorted(first["lagging"])
    what = f"begins {counted(len(run), 'cycle')} ({f'waits for {listed(waits)}' if waits else first['reason']})"
    found = last["previous_lower"]
    newest = [row for row in watermarks if to_ms >= (row["emitted_ms"] if row["writers"] else marks_read_ms(row))][-1:]
    bound = {"bound": found}
    for row in newest:
        bound = {"bound": row["lower"]} if row["writers"] else {"no bound since": row["emitted_ms"]}
    kind = "no watermark yet" if None in bound.values() else "no watermark"
    if last["cause"] == HeldBy.CONFLICT or (newest and found not in (None, newest[0]["lower"])):
        kind, bound = "", {}
    return _moment(from_ms, first["controller"], what, kind, bound, *waits, to_ms=to_ms)


def _emissions(run: Sequence[tuple[int, TableRow]]) -> Moment:
    """Watermarks in a row of one controller."""
    (from_ms, first), (to_ms, last) = run[0], run[-1]
    rise = {"bound before": first["lower"] if len(run) > 1 else None, "bound": last["lower"]}
    what = f"emits {counted(len(run), 'watermark')}"
    return _moment(from_ms, first["controller"], what, "watermarks", rise, to_ms=to_ms)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Timeline(TableAnswer[Moment]):
    """The moments of one stream, ascending; narrow it with `between` and `about`. `start_ms` is when the run began."""

    stream: str
    moments: tuple[Moment, ...]
    start_ms: int | None = 0

    entries = "moments"
    heads = ("at", "who", "what", "effect")
    left = (1, 2, 3)
    schema = pa.schema(
        [
            ("stream", pa.string()),
            pa.field("at_ms", pa.int64(), nullable=False),
            pa.field("to_ms", pa.int64(), nullable=False),
            ("who", pa.string()),
            ("what", pa.string()),
            ("effect", pa.string()),
        ]
    )

    def between(self, from_ms: int | str | None = None, to_ms: int | str | None = None) -> Timeline:
        """The moments that touch the span, both ends included (clock, ms, or a text as for `explain`; None: open).

        Raises `RecordingError` for anything but a moment, and if the span ends before it begins.
        """
        begin_ms = None if from_ms is None else the_moment(from_ms, name="from_ms", start_ms=self.start_ms)
        end_ms = None if to_ms is None else the_moment(to_ms, name="to_ms", start_ms=self.start_ms)
        if begin_ms is not None and end_ms is not None:
            require_order(begin_ms, end_ms, (from_ms, to_ms), RecordingError)
        since = [m for m in self.moments if begin_ms is None or m.to_ms >= begin_ms]
        return replace(self, moments=tuple(m for m in since if end_ms is None or m.at_ms <= end_ms))

    def about(self, *parties: str) -> Timeline:
        """The moments that concern any of these parties, groups, transactions ("t1-1") or segments ("0@0")."""
        return replace(self, moments=tuple(m for m in self.moments if set(parties) & set(m.parties)))

    @property
    def sentence(self) -> str:
        """The title of the table, with the number of moments."""
        return f"Timeline of {self.stream}{self._zone}: {counted(len(self.moments), 'moment')}."

    def __repr__(self) -> str:
        rows = [(when, who, f"{what}; {effect}" if effect else what) for when, who, what, effect in self._rows()]
        return "\n".join([self.sentence, *text_table(rows, right=(0,))])

    def _rows(self) -> Iterator[tuple[str, ...]]:
        """When each moment was, as `words.clock_words` writes it, and what happened; the title has the zone."""
        for m in self.moments:
            times = [m.at_ms] if m.at_ms == m.to_ms else [m.at_ms, m.to_ms]
            when = " – ".join(dict.fromkeys(map(clock_words, times)))
            yield tuple(text.replace(" UTC", "") for text in (when, m.who, m.what, m.effect))

    @property
    def _zone(self) -> str:
        return " (UTC)" if is_instant(moment.to_ms for moment in self.moments) else ""


def timeline(recording: Recording, *, stream: str | None = None) -> Timeline:
    """What happened to the stream: its segments, faults, transactions, marks, cycles and watermarks, completions.

    Also where a group goes on after a reset, which controllers owned its bucket, and the first lower bound of each
    reader. Raises `RecordingError` for a
    stream that the recording does not have, or when it has several and none is named.
    """
    name = the_stream(recording, stream)
    rows = partial(rows_of_stream, recording, stream=name)
    cycles = sorted(rows("cycles"), key=lambda row: int(row["at_ms"]))
    epochs = sorted(rows("epochs"), key=lambda row: int(row["epoch"]))
    moments = [
        *_of_epochs(epochs),
        *_of_seals(rows("segments")),
        *_of_faults(rows("incidents"), rows("errors")),
        *_of_owners(owners_of(recording, name)),
        *_of_transactions(rows("transactions")),
        *_of_marks(rows("writer_marks"), cycles),
        *_of_refusals(rows("writer_marks")),
        *_of_cycles(cycles, rows("watermarks")),
        *_of_positions(rows("positions"), [i for row in epochs[-1:] for i in row["segment_ids"]]),
        *_of_resets(rows("positions")),
        *_of_windows(rows("windows")),
    ]
    # A stable sort: what happens in one millisecond keeps the order of cause and effect above.
    in_order = tuple(sorted(moments, key=lambda m: m.at_ms))
    return Timeline(stream=name, moments=in_order, start_ms=recording.start_ms)
