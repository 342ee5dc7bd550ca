"""A recording: everything that happened in one run, as tables and as one value.

Each model has a class of its own, which names its kind and its tables; all of them are always present, possibly empty.
How a recording lies on disk is the matter of `wmlab.core.storage`. Rows are never touched one by one in Python, unless
they are given as dicts.
"""

from __future__ import annotations

import difflib
import gc
import html
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Never, Self, TypeAlias, TypeVar, cast

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import TypeAdapter, ValidationError

from wmlab.core import storage
from wmlab.core.answers import html_table, pandas_frame
from wmlab.core.arguments import the_moment
from wmlab.core.errors import RecordingError, ScenarioError, UnknownNameError, WmlabError, unknown_attribute
from wmlab.core.schemas import NEVER_HAPPENED
from wmlab.core.storage import Manifest, damaged, installed_version, scenario_text
from wmlab.core.values import problems_of
from wmlab.core.words import grouped, is_instant, listed, moment, shown

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from wmlab.core.scenario_file import ScenarioFile

TableContent: TypeAlias = pa.Table | Sequence[Mapping[str, Any]]
"""The content of a table: an Arrow table, or its rows as dicts."""

ScenarioValue = TypeVar("ScenarioValue")
R = TypeVar("R", bound="Recording")
_KINDS: Final[dict[str, type[Recording]]] = {}


@dataclass(frozen=True, slots=True, repr=False)
class Recording:
    """One run as a value; two recordings are equal if their manifests and tables are.

    `path` is where it was saved or read, and where Spark reads it; None while it is only in memory. It does not affect
    equality. Make one with `from_tables` or `read`. A subclass gives its `kind`, as the manifest has it, and the schema
    of each of its tables.
    """

    manifest: Manifest
    tables: storage.RecordedTables = field(hash=False)
    path: Path | None = field(default=None, compare=False)

    kind: ClassVar[str] = ""
    schemas: ClassVar[Mapping[str, pa.Schema]] = MappingProxyType({})

    def __init_subclass__(cls, *, kind: str, schemas: Mapping[str, pa.Schema]) -> None:
        cls.kind, cls.schemas = kind, MappingProxyType(dict(schemas))
        _KINDS[kind] = cls

    @classmethod
    def from_tables(
        cls,
        tables: Mapping[str, TableContent | storage.StoredTable],
        *,
        name: str,
        scenario: Mapping[str, Any] | None = None,
        seed: int | None = None,
    ) -> Self:
        """A recording of the given tables; those not given are empty, columns are taken by name.

        A column that admits nulls may be left out, as a log leaves out what it cannot know: it is null in every row.
        `scenario` is plain JSON data. The kind is that of the class. Raises `RecordingError` that names each table that
        is unknown or does not fit its schema.
        """
        mistakes = [_unknown_table(table, cls.schemas) for table in tables if table not in cls.schemas]
        made: dict[str, pa.Table | storage.StoredTable] = {}
        for table, schema in cls.schemas.items():
            try:
                made[table] = _conforming(tables.get(table, ()), schema)
            except (pa.ArrowException, TypeError, ValueError, LookupError, OverflowError) as wrong:
                mistakes.append(f"table {table!r}: {str(wrong).splitlines()[0]}")
        if mistakes:
            raise RecordingError(
                "the tables are not a recording:\n" + "\n".join(f"- {mistake}" for mistake in mistakes),
                remedy=f"give every table the columns that {cls.__name__}.schemas lists.",
            )
        manifest = Manifest(
            name=name,
            kind=cls.kind,
            scenario_json=scenario_text(scenario),
            seed=seed,
            rows=tuple((table, made[table].num_rows) for table in made),
            wmlab_version=installed_version(),
        )
        return cls(manifest, storage.RecordedTables(made))

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Open the recording at `path`; versions, columns and counts are checked now, rows are read when used.

        Raises `RecordingError` if it is missing, foreign, damaged, or of another kind or schema version.
        """
        target, manifest = storage.manifest_at(path)
        if manifest.kind not in _KINDS or not issubclass(_KINDS[manifest.kind], cls):
            raise RecordingError(
                f"the recording at {target} is of kind {manifest.kind!r}, which {cls.__name__} does not read.",
                remedy="read it with wmlab.trace.Recording.read.",
            )
        made_by = _KINDS[manifest.kind]
        return cast("Self", made_by(manifest, storage.tables_at(target, manifest, made_by.schemas), target))

    def save(self, path: str | Path) -> Self:
        """Write the recording to the directory `path` and return it with that path.

        It exists there whole or not at all. Raises `RecordingError` if something stands in the way or the disk refuses.
        """
        target = storage.write(path, self.manifest, self.tables)
        return type(self)(self.manifest, self.tables.saved(target), target)

    @property
    def name(self) -> str:
        """The recording's name, that of its scenario or trace."""
        return self.manifest.name

    @property
    def scenario(self) -> dict[str, Any] | None:
        """The scenario as plain data, a fresh copy; None for a trace."""
        return self.manifest.scenario

    @property
    def start_ms(self) -> int | None:
        """When the run of the scenario began (clock, ms); None for a trace."""
        scenario = self.scenario
        return None if scenario is None else int(scenario.get("start_ms", 0))

    def scenario_as(self, made: type[ScenarioValue], scenario: Mapping[str, Any] | None = None) -> ScenarioValue | None:
        """The scenario, or `scenario` instead of it, as a value of class `made`; None for a trace.

        Raises `RecordingError` if it is none.
        """
        data = self.scenario if scenario is None else scenario
        if data is None:
            return None
        try:
            return TypeAdapter(made).validate_python(data)
        except ValidationError as error:
            mistakes = "; ".join(map(str, problems_of(error, data, made)))
            raise damaged(f"the recorded scenario of {self.name!r} is damaged: {mistakes}.") from None
        except WmlabError as wrong:
            raise damaged(f"the recorded scenario of {self.name!r} is damaged: {wrong.problem}") from None

    @property
    def seed(self) -> int | None:
        """The seed of the run; None if chance had no part in it."""
        return self.manifest.seed

    @property
    def counts(self) -> dict[str, int]:
        """The number of rows of every table."""
        return dict(self.manifest.rows)

    def table(self, name: str) -> pa.Table:
        """The table `name` in its schema; raises `RecordingError` for an unknown name."""
        return self.tables[self._known(name)]

    def complete(self, name: str) -> pa.Table:
        """The table `name` with the rows that a run leaves out because they follow from others; raises as `table`."""
        return self.table(name)

    def chunks(self, name: str, *columns: str) -> Iterable[pa.Table]:
        """Some columns of the table `name`, part by part; a table on disk is read again each time, and not kept.

        Raises `RecordingError` for an unknown name.
        """
        known = self.schemas[self._known(name)].names
        if wrong := [column for column in columns if column not in known]:
            raise RecordingError(f"{name} has no column {wrong[0]!r}.", remedy=f"ask for some of: {', '.join(known)}.")
        return self.tables.chunks(name, columns)

    def _known(self, name: str) -> str:
        if name not in [*self.schemas]:
            wrong = _unknown_table(name, self.schemas)
            raise RecordingError(f"{wrong}.", remedy=f"ask for one of: {', '.join(self.schemas)}.")
        return name

    def to_pandas(self, name: str) -> Any:
        """The table `name` as a pandas DataFrame: offset maps as dicts, nullable integers as `Int64`."""
        return pandas_frame(self.table(name))

    def spark(self, spark: SparkSession, name: str) -> DataFrame:
        """The table `name` as a Spark DataFrame; a table on disk is read by Spark itself.

        Raises `SessionError` if `spark` is not a session, and `RecordingError` for an unknown name.
        """
        from wmlab.core.spark import schemas
        from wmlab.core.spark.session import the_session

        spark = the_session(spark)
        waiting = self.tables.in_scratch(self._known(name))
        file = None if self.path is None else self.path / name
        if waiting is not None and waiting.scratch is not None:
            waiting.scratch.keep()
            file = waiting.file
        if file is not None:
            return spark.read.schema(schemas.spark_schema(self.schemas[name])).parquet(str(file))
        return schemas.dataframe(spark, self.table(name))

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Never:
            """Say which recordings have a verb that this one has not, or that its scenario has it."""
            from wmlab.core.scenario_file import scenarios_with

            kinds = [kind for kind, made in _KINDS.items() if hasattr(made, name)]
            if name.startswith("_") or hasattr(type(self), name) or not (kinds or scenarios_with(name)):
                unknown_attribute(self, name)
            other = f"a recording of {' or '.join(kinds)}" if kinds else f"its scenario: scenario.{name}(...)"
            problem = f"{self.name!r} is a recording of {self.kind}, which has no {name}."
            raise UnknownNameError(problem, remedy=f"ask {other}.")

    def __repr__(self) -> str:
        filled = ", ".join(f"{name} {grouped(count)}" for name, count in self.counts.items() if count)
        return f"Recording {self.name!r} ({self._origin()}): {filled or 'all tables empty'}"

    def _repr_html_(self) -> str:
        filled = [(name, count) for name, count in self.counts.items() if count] or [("all tables empty", 0)]
        return html_table(f"<b>{html.escape(self.name)}</b> ({html.escape(self._origin())})", ("table", "rows"), filled)

    def _origin(self) -> str:
        seed = "" if self.seed is None else f", seed {self.seed}"
        return f"simulation{seed}"


def _conforming(rows: TableContent | storage.StoredTable, schema: pa.Schema) -> pa.Table | storage.StoredTable:
    """The rows in the schema's columns and order; raises what pyarrow and Python raise for rows that do not fit."""
    if isinstance(rows, storage.StoredTable):
        return rows
    if isinstance(rows, pa.Table):
        if unknown := sorted({*rows.column_names} - {*schema.names}):
            raise TypeError(f"it has an unknown column {unknown[0]!r}")
        nulls = [name for name in schema.names if schema.field(name).nullable and name not in rows.column_names]
        for name in nulls:
            rows = rows.append_column(name, pa.nulls(rows.num_rows, schema.field(name).type))
        return rows.select(schema.names).cast(schema)
    if not isinstance(rows, Sequence) or not all(isinstance(row, Mapping) for row in rows):
        raise TypeError("it is neither a pyarrow.Table nor a list of dicts")
    table = pa.table({field.name: _column(rows, field) for field in schema})
    # pyarrow would leave out an unknown column and the fraction of a number without a word.
    for row, made in zip(rows, table.to_pylist(maps_as_pydicts="strict"), strict=True):
        if unknown := sorted(row.keys() - made.keys()):
            raise TypeError(f"it has an unknown column {unknown[0]!r}")
        for name, cell in row.items():
            # pyarrow gives the entries of a map as a list of pairs, if it is not asked for dicts.
            entries = dict(cell) if isinstance(made[name], dict) and isinstance(cell, list) else cell
            entries = [*entries] if isinstance(entries, tuple) else entries
            if entries != made[name]:
                of_type = schema.field(name).type
                fitting = "a finite number" if pa.types.is_floating(of_type) else f"of type {of_type}"
                raise TypeError(f"column {name!r} holds {shown(cell)}, which is not {fitting}")
    return table.cast(schema)


def _column(rows: Sequence[Mapping[str, Any]], field: pa.Field) -> pa.Array:
    """One column of some rows; raises what pyarrow raises, with the name of the column."""
    try:
        return pa.array([row.get(field.name) for row in rows], field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as wrong:
        raise TypeError(f"column {field.name!r}: {str(wrong).splitlines()[0]}") from wrong


def _unknown_table(name: object, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(str(name), known, n=1)
    return f"there is no table {name!r}" + (f", did you mean {close[0]!r}" if close else "")


def of_one_kind(recordings: Iterable[object], *, remedy: str) -> type[Recording]:
    """The class of these recordings; raises `RecordingError` for other values, different kinds, and none."""
    known = []
    for offered in recordings:
        if not isinstance(offered, Recording):
            raise RecordingError(f"{shown(offered)} is not a recording.", remedy="give what scenario.record() returns.")
        known.append(offered)
    kinds = sorted({recording.kind for recording in known})
    if len(kinds) != 1:
        raise RecordingError(
            f"recordings of {' and '.join(kinds)} are not of one kind." if kinds else "there is no recording.",
            remedy=remedy,
        )
    return type(known[0])


def never_happened(recording: Recording, stream: str) -> list[str]:
    """Whom an act of the script of a run never befell, by its incidents, with the reason: "count (...)"."""
    return [
        f"{row['target']} ({row['detail']})"
        for row in recording.table("incidents").to_pylist()
        if row["stream"] == stream and NEVER_HAPPENED in (row["kind"], row.get("outcome"))
    ]


def the_only(
    recording: Recording, name: str | None, names: Sequence[str], noun: str, nouns: str, *, option: str = "stream"
) -> str:
    """The name, or for None the only one of these; raises `RecordingError` for another, or for several.

    `option` is the argument that chooses.
    """
    if name in names:
        return str(name)
    if name is None and len(names) == 1:
        return names[0]
    has = f"no {noun} {name!r}" if name is not None else f"several {nouns}" if names else f"no {noun}"
    raise RecordingError(
        f"The recording {recording.name!r} has {has}; its {nouns}: {', '.join(names) or 'none'}.",
        remedy=f"name one of them with {option}=..." if names else "ask a recording in which something happened.",
    )


def planned_span(recording: Recording) -> tuple[int, int] | None:
    """From when to when the scenario of a run was to last (clock, ms); None for a recording without one."""
    scenario = recording.scenario
    if scenario is None or "duration_ms" not in scenario:
        return None
    start_ms = int(scenario.get("start_ms", 0))
    return start_ms, start_ms + int(scenario["duration_ms"])


def moment_of_run(
    recording: Recording,
    at_ms: int | str,
    *,
    last_ms: int | None = None,
    error: type[WmlabError] = RecordingError,
) -> int:
    """A moment of a run in ms of the clock, read by `the_moment`.

    A run lasts from the start to the end of its scenario, however early it was complete or failed; or to `last_ms`, the
    last moment recorded, if what had begun was finished after that. Raises `error` for anything but a moment, and for
    one outside the run. A recording without a scenario admits any moment.
    """
    at_ms = the_moment(at_ms, error, start_ms=recording.start_ms)
    planned = planned_span(recording)
    if planned is None:
        return at_ms
    begin_ms, end_ms = planned
    if last_ms is not None:
        end_ms = max(end_ms, last_ms)
    if not begin_ms <= at_ms <= end_ms:
        dated = is_instant([begin_ms]) and not is_instant([at_ms])
        counted = " A number counts from 1970, and a text such as '90s' from the start." if dated else ""
        raise error(
            f"{moment(at_ms)} is outside the run, which lasts from {moment(begin_ms)} to {moment(end_ms)}.{counted}",
            remedy="give a moment of the run.",
        )
    return at_ms


def require_no_fields(fields: Mapping[str, object]) -> None:
    """Raise `ScenarioError` for fields of a scenario that were given to its `record`."""
    if fields:
        changes = ", ".join(f"{name}={shown(value)}" for name, value in fields.items())
        raise ScenarioError(
            f"record takes no {listed(list(fields))}: what is run is the scenario.",
            remedy=f"write scenario.replace({changes}).record().",
        )


def recorded(
    kind: type[R],
    scenario: ScenarioFile,
    run: Callable[[Path | None], Mapping[str, TableContent | storage.StoredTable]],
    path: str | Path | None,
) -> R:
    """What a run of the scenario gives, as a recording of that kind, saved at `path` if there is one, which `run` gets.

    Raises `ScenarioError` for a run that cannot fit in memory, `RecordingError` for a path that is taken.
    """
    scenario.estimate().require_room()
    target = None if path is None else storage.writable_path(path)
    with rare_collections():
        tables = run(target)
    made = kind.from_tables(tables, name=scenario.name, scenario=scenario.to_dict(), seed=scenario.seed)
    return made if path is None else made.save(path)


_RARE: Final = (50_000, 20, 100)
"""The thresholds of the garbage collector during a run, in objects and in collections of the younger generation."""
_is_running: Final = threading.Lock()


@contextmanager
def rare_collections() -> Iterator[None]:
    """Let the garbage collector look rarely until the block ends.

    A run makes millions of rows that stay, and hardly any cycles. Looking at all of them again and again takes up to
    half of a long run. While another thread is in such a block, nothing is changed.
    """
    before = gc.get_threshold()
    if not 0 < before[0] < _RARE[0] or not _is_running.acquire(blocking=False):
        yield
        return
    gc.set_threshold(*_RARE)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        _is_running.release()


def as_streams(recordings: Mapping[str, Recording], *, name: str) -> Recording:
    """Combine several recordings into one of that name: each becomes a stream, named by its key in the mapping.

    The result has every table that names the stream of each row; rows about no stream are left out, and it has no
    scenario. Raises `RecordingError` for no recordings, for recordings of different kinds, and for one of several
    streams.
    """
    remedy = "give one or more recordings of streams, of dataflows or of query plans, by their names."
    made = of_one_kind(recordings.values(), remedy=remedy)
    tables = {
        table: pa.concat_tables([_renamed(recording, table, stream) for stream, recording in recordings.items()])
        for table, schema in made.schemas.items()
        if "stream" in schema.names
    }
    return made.from_tables(tables, name=name)


def _renamed(recording: Recording, table: str, stream: str) -> pa.Table:
    """The rows of a table that are about the stream of a recording, under another name of the stream."""
    rows = recording.table(table)
    rows = rows.filter(pc.is_valid(rows["stream"]))
    if len(names := sorted(rows["stream"].unique().to_pylist())) > 1:
        raise RecordingError(
            f"The recording {recording.name!r} has several streams: {', '.join(names)}.",
            remedy="give recordings of one stream each.",
        )
    index = rows.schema.get_field_index("stream")
    return rows.set_column(index, rows.schema.field(index), pa.array([stream] * rows.num_rows, pa.string()))
