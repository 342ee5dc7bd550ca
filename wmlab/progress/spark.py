"""Progress at every arrival of a recorded buffer, and the windows that fire there, on Spark.

Spark brings the arrivals of one operator to one task; there the tracker and the windows of `wmlab.progress.model`
follow them in their order. An operator's arrivals have to fit into the memory of a task, about 100 bytes each.

Source: "Watermarking and Progress", Reasoning about progress and Triggering windows.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any, Final, get_args

import pyarrow as pa
from pyspark.sql import DataFrame, types as T

from wmlab.core import namespace
from wmlab.core.arguments import the_choice, the_flag
from wmlab.core.errors import ModelError
from wmlab.core.spark.schemas import refuse, spark_schema, typed
from wmlab.progress.model.chunks import CompletenessRule
from wmlab.progress.model.numbers import TupleBuffer
from wmlab.progress.model.tracker import LocalRule, ProgressRules, Reached, follow_buffers, guessed_origins
from wmlab.progress.model.windows import Fired, Firing, FiringRules, SlidingWindows, Trigger
from wmlab.progress.tables import PROGRESS_TABLES

__all__ = ["fired_windows", "progress"]
namespace(__name__)

_OPERATOR: Final = ("stream", "operator")
_STAMP: Final = ("origin", "sequence", "chunk", "last", "watermark")
BUFFER_COLUMNS: Final = (*_OPERATOR, "arrival", "origins", "chunk_base", *_STAMP)
PROGRESS_COLUMNS: Final = Reached._fields
_ARRIVALS_AT_ONCE: Final = 1 << 14
"""So many at a time become columns: Python collects garbage the longer the more tuples there are."""
_ADDED: Final = pa.schema({name: pa.bool_() if name == "completes" else pa.int64() for name in PROGRESS_COLUMNS})


def progress(buffers: DataFrame, *, local: LocalRule = "running_max", complete: CompletenessRule = "set") -> DataFrame:
    """How far event time has advanced after every arrival, as computed by the tracker with these rules.

    `buffers` needs the columns of `BUFFER_COLUMNS`: one row per arrival at an operator, `arrival` unique and increasing
    within (stream, operator). All its columns and rows are kept. Added are

    - completes: whether this arrival completes its sequence by the rule `complete`;
    - prefix: length of the origin's longest consecutive sequence of complete sequences after it;
    - local_watermark: of the origin after it, null before its first complete sequence;
    - global_watermark: the smallest of all declared origins after it, null while one of them has none.

    With the set rule, a buffer that breaks the protocol changes nothing; the other rules count every buffer. Nothing is
    executed here. Raises `ModelError` for a column that is missing, of another type, or there already under an added
    name, and for an unknown rule; a chunk below the base and an operator with two chunk bases fail when the answer is
    asked for.
    Source: "Watermarking and Progress", Reasoning about progress.
    """
    buffers = typed(buffers, "buffers", BUFFER_COLUMNS, PROGRESS_TABLES["buffers"])
    refuse(buffers, "buffers", PROGRESS_COLUMNS)
    the_choice(local, "local", get_args(LocalRule), ModelError)
    the_choice(complete, "complete", get_args(CompletenessRule), ModelError)

    def followed(arrivals: pa.Table) -> pa.Table:
        return followed_arrivals(arrivals, local, complete)

    # Spark finds a column whatever the case of its name, Arrow does not.
    names = [name.lower() if name.lower() in BUFFER_COLUMNS else name for name in buffers.columns]
    arrivals = buffers.toDF(*names)
    schema = T.StructType([*arrivals.schema, *spark_schema(_ADDED)])
    answer = arrivals.groupBy(*_OPERATOR).applyInArrow(followed, schema)
    return answer if names == buffers.columns else answer.toDF(*buffers.columns, *PROGRESS_COLUMNS)


def followed_arrivals(arrivals: pa.Table, local: LocalRule, complete: CompletenessRule) -> pa.Table:
    """The arrivals at one operator in their order, with the columns that `progress` adds; runs on an executor."""
    arrivals = arrivals.sort_by("arrival")
    origins, bases, *stamps = (arrivals[name].to_pylist() for name in ("origins", "chunk_base", *_STAMP))
    if min(bases) < max(bases):
        operator, stream = arrivals["operator"][0], arrivals["stream"][0]
        raise ModelError(
            f"The trace has no single chunk base: operator {operator} of {stream} has {min(bases)} and {max(bases)}.",
            remedy="Give the whole trace one base: chunk_base=0 as documented, or 1 as in the engine.",
        )
    rules = ProgressRules(chunk_base=bases[0], complete=complete, local=local)
    reached = follow_buffers(map(TupleBuffer, *stamps), guessed_origins(stamps[0], origins[0]), rules)
    parts = [_ADDED.empty_table()]
    while batch := list(islice(reached, _ARRIVALS_AT_ONCE)):
        parts.append(pa.table([*zip(*batch, strict=True)], schema=_ADDED))
    added = pa.concat_tables(parts)
    for field in _ADDED:
        arrivals = arrivals.append_column(field, added[field.name])
    return arrivals


_OF_WINDOW: Final = ("sequence", "start", "end", "records")
_NEEDED: Final = (*_OPERATOR, "arrival", "global_watermark", "slices", "slice_records")
_PROGRESSED: Final = PROGRESS_TABLES["buffers"].append(_ADDED.field("global_watermark"))
_FIRED: Final = pa.schema(
    {name: pa.string() for name in _OPERATOR}
    | {name: pa.int64() for name in ("sequence", "start", "end", "records", "arrival", "reached")}
)


def fired_windows(
    progressed: DataFrame,
    *,
    size: int,
    slide: int | None = None,
    trigger: Trigger = "exact",
    flush: bool = True,
) -> DataFrame:
    """The windows with at least one record, in the order in which they fire.

    `progressed` is what `progress` gives, with `slices`, the starts of the slices that each buffer's records fall in,
    and `slice_records`, how many fall in each. `size` and `slide` (None: tumbling) are in the unit of the event times;
    exact fires when end <= global watermark, strict when end < global watermark, as the engine does; with `flush` the
    end of the stream fires the rest.

    Columns: stream, operator, sequence (output number, from 1), start, end, records, arrival (null at the end of the
    stream), reached (global watermark at that arrival). Windows that have only late records are missing. Raises
    `ModelError` for a column that is missing or of another type, an unknown trigger, a size or slide below 1, a `flush`
    that is neither True nor False.
    Source: "Watermarking and Progress", Triggering windows.
    """
    flush = the_flag(flush, "flush", ModelError)
    progressed = typed(progressed, "progressed", _NEEDED, _PROGRESSED)
    the_choice(trigger, "trigger", get_args(Trigger), ModelError)
    windows = SlidingWindows(size, size if slide is None else slide)
    rules = FiringRules(windows=windows, trigger=trigger)

    def fired(arrivals: pa.Table) -> pa.Table:
        return windows_of_arrivals(arrivals, rules, flush=flush)

    return progressed.select(*_NEEDED).groupBy(*_OPERATOR).applyInArrow(fired, spark_schema(_FIRED))


def windows_of_arrivals(arrivals: pa.Table, rules: FiringRules, *, flush: bool) -> pa.Table:
    """The windows that fire at the arrivals at one operator, as `fired_windows` has them; runs on an executor."""
    firing, rows = Firing(rules), list[dict[str, Any]]()
    of_operator = {name: arrivals[name][0].as_py() for name in _OPERATOR}

    def note(fired: Iterable[Fired], **at: int | None) -> None:
        rows.extend(of_operator | {name: getattr(window, name) for name in _OF_WINDOW} | at for window in fired)

    for arrival in arrivals.sort_by("arrival").to_pylist():
        for start, records in zip(arrival["slices"] or (), arrival["slice_records"] or (), strict=True):
            firing.count(start, records)
        reached = arrival["global_watermark"]
        note(firing.advance(reached), arrival=arrival["arrival"], reached=reached)
    if flush:
        note(firing.end(), arrival=None, reached=None)
    return pa.Table.from_pylist(rows, schema=_FIRED)
