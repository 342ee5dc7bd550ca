"""Replay of recorded notes: the watermarks that other configurations would have produced, for many streams at once.

The rule is `wmlab.streams.model.replay`, which is sequential for a stream and a configuration. Before that, the notes
are reduced where they lie to those that a cycle can see: the last one of a writer between two cycles. That changes no
answer, because a note that no later one of its writer falls behind is refused only if all before it in the same period
are refused too; where a writer's times or offsets fall, both sides are kept. When the cycles run is known in advance
as long as the stream cannot leave its bucket: in every period somebody notes a time above all earlier ones. The notes
of a stream for which that does not hold are not reduced.

Source: as `wmlab.streams.model.replay`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from wmlab.core.errors import ModelError
from wmlab.core.spark.schemas import require
from wmlab.streams.model import replay as rule
from wmlab.streams.model.history import StreamHistory
from wmlab.streams.model.marks import NoteOutcome
from wmlab.streams.model.position import Position
from wmlab.streams.model.replay import Configuration, Received
from wmlab.streams.model.segment import KeyRange, Segment, split_id

Lot = tuple[tuple[str, Configuration], ...]
"""Configurations, with their labels, whose cycles run at the same times: they need the same notes."""

_TOGETHER: Final = 8
"""How many configurations of a stream one task runs through; more are spread over several."""
_AT_ONCE: Final = 500_000
"""Notes that are reduced together."""
_HEARD: Final = ("stream", "writer", "time", "position", "received_ms")
_REDUCED: Final = "stream string, lot int, writer string, time long, position map<long, long>, received_ms long"
_ROWS: Final = (
    "stream string, config string, seq long, lower long, upper long, cut map<long, long>, writers map<string, long>, "
    "emitted_ms long"
)
_OFFSETS: Final = pa.map_(pa.int64(), pa.int64())
_ANSWER: Final = pa.schema(
    [
        ("stream", pa.string()),
        ("config", pa.string()),
        *((name, pa.int64()) for name in ("seq", "lower", "upper")),
        ("cut", _OFFSETS),
        ("writers", pa.map_(pa.string(), pa.int64())),
        ("emitted_ms", pa.int64()),
    ]
)
_JUDGED: Final = [NoteOutcome.SUCCESS.value, NoteOutcome.INVALID_TIME.value, NoteOutcome.INVALID_POSITION.value]


def replay(
    marks: DataFrame,
    segments: DataFrame,
    configs: Mapping[str, Configuration],
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
    notes in one ms the order is not recorded; it matters to cuts that depend on the order of visits only.

    Nothing is executed here. Raises `ModelError` for a missing column, or when there is no configuration.
    """
    if not configs:
        raise ModelError("There is no configuration to replay.", remedy='Give one or more, as in {"10 s": {...}}.')
    require(marks, "marks", _HEARD)
    require(segments, "segments", ["stream", "segment_id", "keys", "created_ms"])
    lots = _lots(configs)
    judged = heard(marks, shutdowns)
    created = segments.groupBy("stream").agg(F.min("created_ms").alias("created_ms"))
    bases = reduce(
        lambda found, more: found.join(more, "stream", "left"),
        (_base(judged, created, lot[0][1]).withColumnRenamed("base", f"base_{n}") for n, lot in enumerate(lots)),
        created,
    )
    based = bases.select("stream", F.array(*(f"base_{n}" for n in range(len(lots)))).alias("bases"))
    by_lot = ["stream", "lot"]
    reduced = judged.join(F.broadcast(based), "stream").mapInArrow(_reducer(lots), _REDUCED)
    ranges = segments.select(
        "stream", F.explode(F.array(*map(F.lit, range(len(lots))))).alias("lot"), "segment_id", "keys", "created_ms"
    )
    answer = _runner(lots, until_ms)
    return reduced.groupBy(*by_lot).cogroup(ranges.groupBy(*by_lot)).applyInArrow(answer, _ROWS)


def _lots(configs: Mapping[str, Configuration]) -> Sequence[Lot]:
    """The configurations by the times at which their cycles run, and by whose notes bring the stream in."""
    alike: dict[tuple[object, ...], list[tuple[str, Configuration]]] = {}
    for label, config in configs.items():
        key = config.period_ms, config.delay_ms, config.leaves_bucket, config.first_barrier, config.without
        alike.setdefault(key, []).append((label, config))
    return [
        tuple(entries[at : at + _TOGETHER]) for entries in alike.values() for at in range(0, len(entries), _TOGETHER)
    ]


def heard(marks: DataFrame, shutdowns: DataFrame | None) -> DataFrame:
    """What the store judged: marks, and shutdowns, which have no time."""
    if "outcome" in marks.columns:
        marks = marks.where(F.col("outcome").isin(_JUDGED))
    notes = marks.select(*_HEARD)
    if shutdowns is None:
        return notes
    require(shutdowns, "shutdowns", ["stream", "writer", "received_ms"])
    if "outcome" in shutdowns.columns:
        shutdowns = shutdowns.where("outcome in ('ok', 'unknown writer')")
    return notes.unionByName(shutdowns.select("stream", "writer", "received_ms"), allowMissingColumns=True)


def _base(heard: DataFrame, created: DataFrame, config: Configuration) -> DataFrame:
    """When the first cycle runs: stream, base (clock, ms); null where later ones need not follow at every period."""
    if not config.leaves_bucket:
        return created.select("stream", (F.col("created_ms") + config.delay_ms).alias("base"))
    counted = heard.where(F.col("time").isNotNull() & ~F.col("writer").isin(list(config.without)))
    first = counted.groupBy("stream").agg((F.min("received_ms") + config.delay_ms).alias("base"))
    periods = (
        counted.join(F.broadcast(first), "stream")
        .groupBy("stream", "base", _period(config).alias("period"))
        .agg(F.max("time").alias("time"))
    )
    by_period = Window.partitionBy("stream").orderBy("period")
    earlier = F.max("time").over(by_period.rowsBetween(Window.unboundedPreceding, -1))
    above = F.col("time") > F.coalesce(earlier, F.lit(config.first_barrier).cast("long"))
    rises = (F.col("period") == F.row_number().over(by_period) - 1) & F.coalesce(above, F.lit(True))
    rising = periods.withColumn("rises", rises).groupBy("stream", "base").agg(F.every("rises").alias("rises"))
    return rising.select("stream", F.when(F.col("rises"), F.col("base")).alias("base"))


def _period(config: Configuration) -> Column:
    """After how many cycles a row was received."""
    after = F.expr(f"(received_ms - base) div {config.period_ms}") + 1
    return F.when(F.col("received_ms") - F.col("base") < int(not config.delay_ms), F.lit(0).cast("long")).otherwise(
        after
    )


def _reducer(lots: Sequence[Lot]) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What reduces the notes of a partition, for each lot of configurations; runs on executors."""

    def reduced(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for table in _gathered(batches):
            bases = pc.list_flatten(table["bases"]).combine_chunks()
            is_note = pc.is_valid(table["time"]).to_numpy(zero_copy_only=False)
            for number, lot in enumerate(lots):
                base = bases[number :: len(lots)]
                kept = ~is_note
                kept[is_note] = visible(table.filter(is_note), base.filter(pa.array(is_note)), lot)
                found = table.filter(kept).drop_columns(["bases"])
                lot_column = pa.array(np.full(found.num_rows, number, np.int32))
                yield from found.add_column(1, "lot", lot_column).combine_chunks().to_batches()

    return reduced


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(one.num_rows for one in held) >= _AT_ONCE:
            yield pa.Table.from_batches(held)
            held = []
    if any(one.num_rows for one in held):
        yield pa.Table.from_batches(held)


def visible(notes: pa.Table, base: pa.Array, lot: Lot) -> npt.NDArray[np.bool_]:
    """Which notes may be seen by a cycle of these configurations, whose cycles begin at `base` (clock, ms).

    All are where `base` is null. Of notes that are distributed over several tables more may be kept.
    """
    config = lot[0][1]
    streams, writers = (notes[name].combine_chunks().dictionary_encode() for name in ("stream", "writer"))
    who = streams.indices.to_numpy().astype(np.int64) * len(writers.dictionary) + writers.indices.to_numpy()
    time, received_ms = notes["time"].to_numpy(), notes["received_ms"].to_numpy()
    order = np.lexsort((time, received_ms, who))
    after_ms = received_ms - base.fill_null(0).to_numpy()
    period = np.where(after_ms < (not config.delay_ms), 0, after_ms // config.period_ms + 1)
    who, time, period = who[order], time[order], period[order]
    offsets = pc.array_take(notes["position"].combine_chunks(), pa.array(order))
    ends = np.ones(len(order), np.bool_)
    strict = any(entry.note_rule == "design" for _, entry in lot)
    ends[:-1] = (
        (who[1:] != who[:-1]) | (period[1:] != period[:-1]) | (np.diff(time) < int(strict)) | _falls(offsets)[1:]
    )
    if any(entry.algorithm != "sound" for _, entry in lot):
        # Their cuts depend on the order in which writers noted for the first time.
        ends[1:] |= (who[1:] != who[:-1]) | (period[1:] != period[:-1])
        ends[:1] = True
    kept = np.empty(len(order), np.bool_)
    kept[order] = ends
    # The first note of all decides when the cycles run.
    kept |= (after_ms == -config.delay_ms) | base.is_null().to_numpy(zero_copy_only=False)
    return kept


def _falls(positions: pa.MapArray) -> npt.NDArray[np.bool_]:
    """Whether a position names other segments than the one before it, or has a smaller offset in one of them."""
    bounds = np.asarray(positions.offsets)
    sizes = np.diff(bounds)
    entries = slice(bounds[0], bounds[-1])
    segment = positions.keys[entries].to_numpy()
    offset = positions.items[entries].fill_null(-1).to_numpy()
    falls = np.ones(len(sizes), np.bool_)
    falls[1:] = sizes[1:] != sizes[:-1]
    row = np.repeat(np.arange(len(sizes)), sizes)
    alike = np.flatnonzero(~falls[row])
    before = alike - sizes[row[alike]]
    differs = (segment[alike] != segment[before]) | (offset[alike] < offset[before])
    falls[row[alike[differs]]] = True
    return falls


def _runner(lots: Sequence[Lot], until_ms: int | None) -> Callable[[Any, pa.Table, pa.Table], pa.Table]:
    """What runs the cycles of one stream under the configurations of a lot; runs on executors."""

    def run(key: tuple[Any, ...], heard: pa.Table, segments: pa.Table) -> pa.Table:
        if not (heard.num_rows and segments.num_rows):
            return _ANSWER.empty_table()
        stream, lot = (part.as_py() for part in key)
        history = StreamHistory.of(map(_segment, segments["segment_id"].to_pylist(), segments["keys"].to_pylist()))
        columns = (heard[name].to_pylist() for name in ("received_ms", "writer", "time", "position"))
        received = received_of(*columns)
        created_ms = pc.min(segments["created_ms"]).as_py()
        end_ms = received[-1].received_ms + 1 if until_ms is None else until_ms
        rows = [
            (stream, label, seq, w.lower, w.upper, list(w.cut.items()), list(w.writers.items()), at_ms)
            for label, config in lots[lot]
            for seq, (at_ms, w) in enumerate(
                rule.replay(received, history, config, created_ms=created_ms, until_ms=end_ms)
            )
        ]
        return pa.table([list(values) for values in zip(*rows, strict=True)] or [[] for _ in _ANSWER], schema=_ANSWER)

    return run


def received_of(
    received_ms: Iterable[int], writers: Iterable[str], times: Iterable[int | None], positions: Iterable[Any]
) -> list[Received]:
    """What was received, in order: of what came in one ms notes come before shutdowns, the smallest time first."""
    rows = zip(received_ms, writers, times, positions, strict=True)
    received = [Received(at_ms, who, time, Position(dict(held or ()))) for at_ms, who, time, held in rows]
    return sorted(received, key=lambda entry: (entry.received_ms, entry.time is None, entry.time))


def _segment(segment_id: int, keys: str) -> Segment:
    number, epoch = split_id(segment_id)
    return Segment(number, epoch, KeyRange.parse(keys))
