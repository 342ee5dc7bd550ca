"""Replay of recorded notes: the watermarks that other configurations would have produced, for many streams at once.

Spark brings the notes of a stream together, and one task runs the stream under all configurations. The rule is
`wmlab.streams.model.replay`. Here it stands a second time, over arrays: a note has an index in the order of all that
was received, each cycle sees the last accepted index of every writer, and what a writer is to the cycle is decided for
all writers at once. Notes are accepted by `judge_note`, which is asked only where the time or an offset of a writer
falls, and cuts are made by `cut_by`.

Source: as `wmlab.streams.model.replay`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from wmlab.core.errors import ModelError
from wmlab.core.schemas import LONG, OFFSETS, TEXT
from wmlab.core.spark.schemas import require, spark_schema
from wmlab.core.times import Int64Array
from wmlab.streams.bounds.log_by_segment import BoolArray, int64_column
from wmlab.streams.model.cut import CutError
from wmlab.streams.model.cycle import MIN_TIME, cut_by
from wmlab.streams.model.history import StreamHistory
from wmlab.streams.model.marks import NoteOutcome, NoteRule, WriterMark, judge_note
from wmlab.streams.model.position import Position
from wmlab.streams.model.replay import Configuration
from wmlab.streams.model.segment import Segment

_AT_ONCE: Final = 1_000_000
"""For how many pairs of a cycle and a writer it is looked up together what the cycle sees."""
_NEVER: Final = np.iinfo(np.int64).max
_HEARD: Final = ("stream", "writer", "time", "position", "received_ms")
_STREAM: Final = "string(stream) stream"
_WHOLE: Final = f"""if({" or ".join(f"{name} is null" for name in _HEARD)}, raise_error(
    'A writer mark lacks one of {", ".join(_HEARD)}. To repair it: leave out the rows that are null there.'), true)"""
_ANSWER: Final = pa.schema(
    [
        *((name, TEXT) for name in ("stream", "config")),
        *((name, LONG) for name in ("seq", "lower", "upper")),
        ("cut", OFFSETS),
        ("writers", pa.map_(TEXT, LONG)),
        ("emitted_ms", LONG),
    ]
)
_JUDGED: Final = [NoteOutcome.SUCCESS.value, NoteOutcome.INVALID_TIME.value, NoteOutcome.INVALID_POSITION.value]


def replay(
    marks: DataFrame,
    segments: DataFrame,
    configs: Mapping[str, Configuration | Mapping[str, Any]],
    *,
    shutdowns: DataFrame | None = None,
    until_ms: int | None = None,
) -> DataFrame:
    """The watermarks that each configuration would have produced from the same writer marks.

    `marks`, `segments` and `shutdowns` are the tables `writer_marks`, `segments` and `writer_shutdowns` of recordings,
    or logs with their columns; of any number of streams. Marks that the store refused are judged anew; those that it
    never judged, by their `outcome`, are left out. The result has one row per stream, configuration and watermark:
    stream, config (its label), seq, lower, upper, cut, writers and emitted_ms, as in the table `watermarks`.

    Cycles run before `until_ms` (clock); by default the log of a stream ends with what was last received in it. One
    leader with an exact clock owns the bucket from the start and runs every cycle on time: what controllers and stores
    suffered in the recorded run is not replayed. Nor do writers react: what they repeated then they repeat now. Of
    notes in one ms the order is not recorded; it matters to cuts that depend on the order of visits only. How long the
    segments were is not known either: an end of known time has the cut of what the writers had acknowledged.

    A task runs one stream, and holds all its marks.

    `configs` are configurations, or what differs from the default one by field, by label. Nothing is executed here.
    Raises `ModelError` for a missing column, or when there is no configuration, and `Problems` for one that is none.
    """
    if not configs:
        raise ModelError("There is no configuration to replay.", remedy='Give one or more, as in {"10 s": {...}}.')
    require(marks, "marks", _HEARD)
    require(segments, "segments", ["stream", "segment_id", "keys", "created_ms"])
    from wmlab.streams.bounds.configurations import configurations  # which an executor does without

    checked = configurations(configs)

    def run(key: tuple[Any, ...], received: pa.Table, ranges: pa.Table) -> pa.Table:
        """Run one stream under all configurations; runs on executors."""
        if not (received.num_rows and ranges.num_rows):
            return _ANSWER.empty_table()
        history = StreamHistory.of(map(Segment.parse, ranges["segment_id"].to_pylist(), ranges["keys"].to_pylist()))
        notes, created_ms = Notes(received, history), pc.min(ranges["created_ms"]).as_py()
        end_ms = int(notes.received_ms[-1]) + 1 if until_ms is None else until_ms
        labelled = [
            (key[0].as_py(), label, seq, emitted)
            for label, config in checked.items()
            for seq, emitted in enumerate(replayed(notes, config, created_ms=created_ms, until_ms=end_ms))
        ]
        streams, labels, seqs, emissions = zip(*labelled, strict=True) if labelled else ((),) * 4
        lower, upper, cuts, counted, at_ms = zip(*emissions, strict=True) if emissions else ((),) * 5
        indices = np.concatenate([np.empty(0, np.int64), *counted])
        ends = np.cumsum([0, *map(len, counted)]).astype(np.int32)
        names = pa.DictionaryArray.from_arrays(notes.writer[indices], notes.names).dictionary_decode()
        writers = pa.MapArray.from_arrays(ends, names, notes.time[indices])
        offsets = [list(cut.items()) for cut in cuts]
        return pa.table([streams, labels, seqs, lower, upper, offsets, writers, at_ms], schema=_ANSWER)

    by_stream = segments.selectExpr(_STREAM, "segment_id", "keys", "created_ms").groupBy("stream")
    return judged_calls(marks, shutdowns).groupBy("stream").cogroup(by_stream).applyInArrow(run, spark_schema(_ANSWER))


def judged_calls(marks: DataFrame, shutdowns: DataFrame | None) -> DataFrame:
    """What the store judged: marks, and shutdowns, which have no time. A mark that lacks one fails when it is read."""
    if "outcome" in marks.columns:
        marks = marks.where(F.col("outcome").isin(_JUDGED))
    notes = marks.selectExpr(_STREAM, *_HEARD[1:]).where(_WHOLE)
    if shutdowns is None:
        return notes
    require(shutdowns, "shutdowns", ["stream", "writer", "received_ms"])
    if "outcome" in shutdowns.columns:
        shutdowns = shutdowns.where("outcome in ('ok', 'unknown writer')")
    return notes.unionByName(shutdowns.selectExpr(_STREAM, "writer", "received_ms"), allowMissingColumns=True)


class Notes:
    """What the store received about the writers of one stream, as arrays in the order of `received_of`.

    A row of `judged_calls` (writer, time, position, received_ms; without a time a shutdown) has an index there, from 0.
    `writer` has the number of its writer in `names`. The key of an index is the index plus `size + 1` times that
    number: by keys, indices are in order by writer.
    """

    def __init__(self, calls: pa.Table, history: StreamHistory) -> None:
        # Shutdowns, which have no time, come after the notes of their ms.
        calls = calls.sort_by([("received_ms", "ascending"), ("time", "ascending")]).combine_chunks()
        encoded = pc.dictionary_encode(calls["writer"].combine_chunks())
        self.history, self.size = history, len(calls)
        self.names, self.writer = encoded.dictionary, encoded.indices.to_numpy().astype(np.int64)
        self.first_key = np.arange(len(self.names)) * (self.size + 1)
        self.is_note, self.time = calls["time"].is_valid().to_numpy(), int64_column(calls, "time")
        self.received_ms = int64_column(calls, "received_ms")
        positions = calls["position"].combine_chunks()
        self.bounds, self.segment = np.asarray(positions.offsets), positions.keys.to_numpy()
        self.offset = positions.items.fill_null(-1).to_numpy()
        self.shut_down = self.keys(np.flatnonzero(~self.is_note))
        self.accepted = cache(self._accepted)

    def keys(self, indices: Int64Array) -> Int64Array:
        """The keys of these indices, ascending, after one that is below all."""
        return np.concatenate([[-1], np.sort(self.first_key[self.writer[indices]] + indices)])

    def last(self, keys: Int64Array, ends: Int64Array) -> Int64Array:
        """The last of these indices before each end, by writer: ends x writers; negative where there is none."""
        last: Int64Array = keys[np.searchsorted(keys, self.first_key + ends[:, None]) - 1] - self.first_key
        return np.maximum(last, -1)

    def entries(self, indices: Int64Array) -> tuple[Int64Array, Int64Array]:
        """The entries of the positions of some notes, one note after the other, and how many each has."""
        sizes = self.bounds[indices + 1] - self.bounds[indices]
        return np.repeat(self.bounds[indices] - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum()), sizes

    def position(self, entries: Int64Array | slice) -> Position:
        """The position that has these entries, of one segment the last one."""
        pairs = zip(self.segment[entries].tolist(), self.offset[entries].tolist(), strict=True)
        return Position({segment: None if offset < 0 else offset for segment, offset in pairs})

    def position_at(self, index: int) -> Position:
        """The position of one note."""
        return self.position(slice(self.bounds[index], self.bounds[index + 1]))

    def _accepted(self, rule: NoteRule) -> tuple[Int64Array, frozenset[int]]:
        """The keys of the notes that are accepted if nobody is removed, and the writers of whom one is not.

        Of the other writers every note is accepted after the one before, so a removal changes nothing.
        """
        keys = self.keys(np.flatnonzero(self.is_note))
        indices = keys[1:] % (self.size + 1)
        design = rule == "design"
        may_be_refused = np.diff(self.time[indices]) < int(design)
        may_be_refused |= self._falls(indices, self.history.segments if design else None)[1:]
        may_be_refused &= np.diff(self.writer[indices]) == 0
        pairs = zip(indices[:-1][may_be_refused], indices[1:][may_be_refused], strict=True)
        refused = frozenset(int(self.writer[pair[0]]) for pair in pairs if len(self._judged(pair, rule)) < 2)
        return self.judged_anew(keys, refused, 0, rule), refused

    def _falls(self, indices: Int64Array, segments: Collection[int] | None) -> BoolArray:
        """Whether a position names others than the one before it, or other than `segments`, or has a smaller offset."""
        entries, sizes = self.entries(indices)
        segment, offset = self.segment[entries], self.offset[entries]
        row = np.repeat(np.arange(len(sizes)), sizes)
        falls = np.ones(len(sizes), np.bool_)
        falls[1:] = sizes[1:] != sizes[:-1]
        alike = np.flatnonzero(~falls[row])
        before = alike - sizes[row[alike]]
        differs = (segment[alike] != segment[before]) | (offset[alike] < offset[before])
        falls[row[alike[differs]]] = True
        if segments is not None:
            falls[row[~np.isin(segment, list(segments))]] = True
        return falls

    def judged_anew(self, keys: Int64Array, writers: Collection[int], first: int, rule: NoteRule) -> Int64Array:
        """The keys with other indices from `first` on: those accepted of these writers, who have no mark there."""
        indices = keys[1:] % (self.size + 1)
        others = indices[(indices < first) | ~np.isin(self.writer[indices], list(writers))]
        noted = np.flatnonzero(self.is_note[first:]) + first
        anew = (self._judged(noted[self.writer[noted] == writer], rule) for writer in writers)
        return self.keys(np.concatenate([others, *anew]))

    def _judged(self, indices: Iterable[int], rule: NoteRule) -> Int64Array:
        """The indices of those of a writer's notes that are accepted, beginning with the first one."""
        stored, accepted = None, []
        for index in indices:
            mark = WriterMark(int(self.time[index]), self.position_at(int(index)))
            outcome = judge_note(stored, mark.time, mark.position, rule=rule, segments=self.history.segments)
            if outcome is NoteOutcome.SUCCESS:
                stored = mark
                accepted.append(index)
        return np.array(accepted, np.int64)

    def visited(self, keys: Int64Array, since: Int64Array, last: Int64Array, of: BoolArray) -> Int64Array:
        """The last indices of some writers, in the order in which these were first accepted."""
        first = keys[np.searchsorted(keys, (self.first_key + since)[of])] % (self.size + 1)
        return last[of][np.argsort(first)]

    def cut(self, indices: Int64Array, previous: Position | None, config: Configuration) -> Position:
        """The cut of these notes after the `previous` one. Raises `CutError`."""
        if config.algorithm == "sound":
            # It takes the largest offset in each segment, so one position stands for all.
            entries, _ = self.entries(indices)
            positions = [self.position(entries[np.argsort(self.offset[entries], kind="stable")])]
        else:
            positions = list(map(self.position_at, indices.tolist()))
        return cut_by(config, positions, previous, self.history)


class Emitted(NamedTuple):
    """A watermark: bounds, cut, the indices of the notes counted (none: an end of known time), and its cycle."""

    lower: int
    upper: int
    cut: Position
    counted: Int64Array
    at_ms: int


class Memory(NamedTuple):
    """What a cycle leaves to the next one.

    `since`: from which index on the notes of each writer count; its removal moves it to what the cycle had not seen.
    `behind_since`: the clock time in ms of the first cycle that found the writer behind.
    `short_since`: that of the first cycle that lacked only expected writers.
    """

    since: Int64Array
    behind_since: Int64Array
    previous: Emitted | None = None
    short_since: int = _NEVER


class Seen(NamedTuple):
    """What a cycle sees: its time, where the unseen begins, and each writer's last note and shutdown."""

    now_ms: int
    first_unseen: int
    last: Int64Array
    shut_down: Int64Array


def replayed(notes: Notes, config: Configuration, *, created_ms: int, until_ms: int) -> Iterator[Emitted]:
    """The watermarks of all cycles before `until_ms`: those of `wmlab.streams.model.replay.replayed_watermarks`."""
    keys, partly = notes.accepted(config.note_rule)
    writers = len(notes.names)
    since = np.where(np.isin(notes.names.to_pylist(), config.without), notes.size, 0)
    entering = np.flatnonzero(notes.is_note & (since[notes.writer] == 0))
    memory = Memory(since, np.full(writers, _NEVER))
    first_unseen, due_ms = 0, None if config.leaves_bucket else created_ms + config.delay_ms
    seen_ms = due_ms or 0
    while True:
        if due_ms is None:
            entry = np.searchsorted(entering, first_unseen)
            if entry == len(entering):
                return
            due_ms = int(notes.received_ms[entering[entry]]) + config.delay_ms
            seen_ms = due_ms + (config.delay_ms == 0)
        last_ms = due_ms + max(1, _AT_ONCE // writers) * config.period_ms
        dues = np.arange(due_ms, min(until_ms, last_ms), config.period_ms)
        if not len(dues):
            return
        ends = np.searchsorted(notes.received_ms, [seen_ms, *dues[1:]])
        columns = dues.tolist(), ends.tolist(), notes.last(keys, ends), notes.last(notes.shut_down, ends)
        for seen in map(Seen, *columns):
            before, memory = memory, _cycle(notes, keys, memory, seen, config)
            if memory.previous is not None and memory.previous is not before.previous:
                yield memory.previous
            first_unseen, seen_ms = seen.first_unseen, seen.now_ms + config.period_ms
            stays = not config.leaves_bucket or bool((seen.last >= memory.since).any())
            due_ms = seen_ms if stays else None
            if again := partly.intersection(np.flatnonzero(memory.since != before.since).tolist()):
                keys = notes.judged_anew(keys, again, first_unseen, config.note_rule)
            if again or not stays:
                break


def _cycle(notes: Notes, keys: Int64Array, memory: Memory, seen: Seen, config: Configuration) -> Memory:
    """`wmlab.streams.model.cycle.step` for all writers at once; who is removed counts from what it has not seen."""
    previous, last = memory.previous, seen.last
    barrier = config.first_barrier if previous is None else previous.lower
    noted, time = last >= memory.since, notes.time[last]
    behind = np.zeros_like(noted) if barrier is None else noted & (time <= barrier)
    behind_since = np.where(behind, np.minimum(memory.behind_since, seen.now_ms), _NEVER)
    by_cycle = behind if config.timeout_from == "first_behind" else np.zeros_like(behind)
    start_ms = np.where(by_cycle, behind_since, notes.received_ms[last])
    inactive = (seen.shut_down > last) | (seen.now_ms - start_ms >= config.timeout_ms)
    removed = (behind if config.forgets == "behind" else noted) & inactive
    lagging, counted = behind & ~removed, noted & ~behind & ~removed
    nobody = not counted.any()
    lacks_expected = previous is None and not nobody and not lagging.any() and noted.sum() < config.expected_writers
    short_since = min(memory.short_since, seen.now_ms) if lacks_expected else _NEVER
    after = Memory(
        np.where(removed, seen.first_unseen, memory.since),
        np.where(removed, _NEVER, behind_since),
        previous,
        short_since,
    )
    if lagging.any() or (lacks_expected and seen.now_ms - short_since < config.timeout_ms):
        return after
    indices = notes.visited(keys, memory.since, last, noted if nobody else counted)
    if not nobody:
        emitted = Emitted(int(time[counted].min()), int(time[counted].max()), Position(), indices, seen.now_ms)
        if previous is None and emitted.lower <= MIN_TIME:
            return after
    elif config.null_without_writers and previous is not None and len(previous.counted):
        emitted = previous._replace(counted=indices[:0], at_ms=seen.now_ms)
    else:
        return after
    try:
        cut = notes.cut(indices, None if previous is None else previous.cut, config)
    except CutError:
        return after._replace(previous=emitted) if nobody else after
    return after._replace(previous=emitted._replace(cut=cut))
