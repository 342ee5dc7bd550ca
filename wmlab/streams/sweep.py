"""A sweep: one scenario under a grid of its fields and seeds, each run a task on an executor, one row a run.

A run is a scenario and gives the same row wherever and whenever it is run.
"""

from __future__ import annotations

import gc
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any, Final
from uuid import uuid4

import numpy as np
import pyarrow as pa
from tqdm.auto import tqdm

from wmlab.core.arguments import the_flag
from wmlab.core.errors import ScenarioError
from wmlab.core.mistakes import Location
from wmlab.core.scenario_file import with_changes
from wmlab.core.values import fields_in_use
from wmlab.core.waiting import PROGRESS_AFTER_S, is_interactive
from wmlab.core.words import listed, shown
from wmlab.streams.answers.history import of_stream, the_stream
from wmlab.streams.answers.measures import slack_ms
from wmlab.streams.answers.stragglers import stragglers_of
from wmlab.streams.checks import violations_of
from wmlab.streams.recording import as_progress, record
from wmlab.streams.run_measures import EventsInLog, measured
from wmlab.streams.scenario.scenario import StreamScenario

FIGURES: Final = pa.schema(
    [
        ("events", pa.int64()),
        ("watermarks", pa.int64()),
        ("lag_ms", pa.float64()),
        ("worst_lag_ms", pa.int64()),
        ("uncertainty_ms", pa.float64()),
        ("slack_ms", pa.float64()),
        ("late", pa.int64()),
        ("late_share", pa.float64()),
        ("stalls", pa.int64()),
        ("held_by", pa.string()),
        ("held_ms", pa.int64()),
        ("violations", pa.int64()),
        ("error", pa.string()),
    ]
)
"""The figures of a run, null where unknown."""
_BATCH: Final = 32
"""The least number of runs that are handed out together, after which the progress bar moves."""
_BATCHES: Final = 10
"""A large grid is handed out in this many batches."""


def sweep(
    scenario: StreamScenario,
    spark: Any = None,
    *,
    seeds: Iterable[int] | None = None,
    stream: str | None = None,
    check: bool = False,
    progress: bool | Callable[[int], None] = True,
    **swept: Iterable[Any],
) -> Any:
    """Run the scenario once for every combination of the values of its fields and of the seeds; a row a run.

    A field is named by its path, as in `**{"stream.start_delay_ms": [0, 5_000]}` or `**{"writers.w1.rate_per_s": ...}`,
    or by its last part if no other field has it; `timeout_ms` is the timeout of the stream. The DataFrame has a column
    for each field (with _ for every dot), then seed, and these columns about the chosen or only `stream`:

    events, watermarks; lag_ms and worst_lag_ms (clock minus lower bound), uncertainty_ms (upper minus lower bound) and
    slack_ms (perfect watermark minus lower bound), means over time; late, the events below a lower bound given before,
    and late_share of all events; stalls, the cycles that emitted nothing; held_by, who held the watermark longest, and
    held_ms for how long; violations, how often the invariants of `recording.check()` are broken in the stream; and
    error, why a run failed. Unknown values are null. Violations are counted only with `check`, in the task of the run.

    `progress` is that of `record`; a function that raises stops the sweep. Raises `Problems` for a value that a
    field does not take, and `ScenarioError` for a name that means no field or several, two names of one field, or
    values that are not a list.
    """
    check, progress = the_flag(check, "check", ScenarioError), as_progress(progress)
    paths = {name: field_named(scenario, name) for name in swept}
    if twice := [name for name, path in paths.items() if list(paths.values()).count(path) > 1]:
        raise ScenarioError(f"{listed(twice)} name the same field.", remedy="give its values once.")
    values = {name: _values(name, entries) for name, entries in swept.items()}
    drawn = (scenario.seed,) if seeds is None else _values("seeds", seeds)
    grid = list(itertools.product(itertools.product(*values.values()), drawn))
    cases = [
        with_changes(scenario, dict(zip(paths.values(), chosen, strict=True))).replace(seed=seed)
        for chosen, seed in grid
    ]
    from wmlab.core.spark.session import the_session

    spark = the_session(spark)
    figures = _run_all(spark, cases, partial(figures_of, stream=stream, check=check), progress)
    columns = {name.replace(".", "_"): _column([chosen[n] for chosen, _ in grid]) for n, name in enumerate(paths)}
    columns["seed"] = _column([seed for _, seed in grid])
    columns |= {field.name: pa.array([row[field.name] for row in figures], field.type) for field in FIGURES}
    return spark.createDataFrame(pa.table(columns))


def _values(name: str, offered: Iterable[Any]) -> tuple[Any, ...]:
    if name == "seed":
        raise ScenarioError("The seed is swept as no other field.", remedy="give its values as seeds=...")
    if isinstance(offered, str) or not isinstance(offered, Iterable):
        raise ScenarioError(f"{name} is {shown(offered)}.", remedy="give its values as a list.")
    return tuple(entry.item() if isinstance(entry, np.generic) else entry for entry in offered)


def field_named(scenario: StreamScenario, name: str) -> Location:
    """Where the field with this path is, or with this last part of it.

    Raises `ScenarioError` unless there is exactly one.
    """
    name = {"timeout_ms": "timestamp_aggregation_timeout_ms", "rules": "rules.base"}.get(name, name)
    by_path = {".".join(names): location for names, location in _locations(scenario.resolved)}
    chosen = [path for path in by_path if name in (path, path.rpartition(".")[2])]
    if name in by_path or len(chosen) == 1:
        return by_path[name if name in by_path else chosen[0]]
    last = name.rpartition(".")[2]
    near = chosen or [path for path in by_path if last in path] or [*by_path]
    raise ScenarioError(
        f"{shown(name)} is {'the name of several fields' if chosen else 'not a field'} of the scenario "
        f"{scenario.name!r}.",
        remedy=f"name one by its path, for example {listed(near[:6])}.",
    )


def _locations(scenario: StreamScenario) -> Iterator[tuple[tuple[str, ...], Location]]:
    """Every field of a scenario and of its parts, in names and by its location.

    A part of several is called by its name, or by its number if it has none.
    """
    for field in fields_in_use(scenario):
        part = getattr(scenario, field.name)
        if is_dataclass(part):
            yield from (((field.name, inner.name), (field.name, inner.name)) for inner in fields(part))
        elif isinstance(part, tuple):
            for number, entry in enumerate(part):
                name = str(getattr(entry, "name", number))
                for inner in fields(entry):
                    if inner.name != "kind":
                        yield (field.name, name, inner.name), (field.name, number, inner.name)
        else:
            yield (field.name,), (field.name,)


def _column(values: Sequence[Any]) -> pa.Array:
    """The values as a column; as text where they are not plain values of one type."""
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array(map(repr, values))


Answer = Callable[[StreamScenario], dict[str, Any]]
"""Gives the figures of a run, on an executor."""


def _run_all(
    spark: Any, cases: Sequence[StreamScenario], answer: Answer, progress: bool | Callable[[int], None]
) -> list[dict[str, Any]]:
    """The figures of all cases, in their order."""
    rows: list[dict[str, Any]] = []
    hidden = callable(progress) or not (progress and is_interactive())
    # A larger grid has larger batches, for the cores of a cluster.
    size = max(_BATCH, len(cases) // _BATCHES)
    with tqdm(total=len(cases), desc="runs", delay=PROGRESS_AFTER_S, leave=False, disable=hidden) as bar:
        for begin in range(0, len(cases), size):
            batch = _run_batch(spark, cases[begin : begin + size], answer)
            rows += batch
            bar.update(len(batch))
            if callable(progress):
                progress(100 * len(rows) // len(cases))
    return rows


def _run_batch(spark: Any, cases: Sequence[StreamScenario], answer: Answer) -> list[dict[str, Any]]:
    """The figures of some cases, each from a task of its own. Whatever stops the wait for them stops the tasks."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Spark collects garbage after every task; over all that is imported this takes longer than a short run.
        gc.freeze()
        for batch in batches:
            for index in batch["id"].to_pylist():
                yield pa.record_batch({"id": [index], "row": [json.dumps(answer(cases[index]))]})

    tag = f"wmlab-sweep-{uuid4().hex}"
    spark.addTag(tag)
    try:
        runs = spark.range(0, len(cases), 1, len(cases))
        answers = runs.mapInArrow(run, "id long, row string").collect()
    except BaseException:
        spark.interruptTag(tag)
        raise
    finally:
        spark.removeTag(tag)
    return [json.loads(row["row"]) for row in sorted(answers, key=lambda row: int(row["id"]))]


def figures_of(scenario: StreamScenario, stream: str | None = None, *, check: bool = False) -> dict[str, Any]:
    """The figures of one run, by the names of `FIGURES`; its violations with `check`. Of a run that fails the error."""
    row: dict[str, Any] = dict.fromkeys(FIGURES.names)
    try:
        recording = record(scenario, progress=False)
        name = the_stream(recording, stream)
        in_log = EventsInLog(recording, name)
        (events,) = in_log.passing([recording.table("events")])
        measures = measured(recording, in_log) | {"late": in_log.late_count}
        holders = stragglers_of(recording, name).holders
    except Exception as error:
        return row | {"error": f"{type(error).__name__}: {' '.join(str(error).split())}"}
    events = of_stream(events, name).sort_by("append_ms")
    row |= {figure: measure for figure, measure in measures.items() if figure in row} | {
        "slack_ms": slack_ms(in_log.bounds, events),
        "late_share": in_log.late_count / len(events) if len(events) else None,
        "violations": violations_of(recording, name) if check else None,
    }
    if holders:
        row |= {"held_by": holders[0].who, "held_ms": holders[0].held_ms}
    return row
