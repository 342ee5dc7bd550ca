"""The history of a stream's lower bound up to a moment: marks, cycles and watermarks up to then, and no later.

`walk` goes through a recording once and gives the history after every moment at which it changed. Rows of one
millisecond belong together: marks first, then the cycle that read them, then what it appended.

Source: PDP-33, Periodic Watermark Workflow, and PDP-33, Config Changes; upstream class `PeriodicWatermarking`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wmlab.core.invariants import TableRow
from wmlab.core.recording import Recording, the_only
from wmlab.core.simulation import Fixed
from wmlab.streams.model.cycle import CycleState, HeldBy, inactive_since
from wmlab.streams.model.history import StreamHistory
from wmlab.streams.model.log import known_from
from wmlab.streams.model.position import moved
from wmlab.streams.model.replay import Configuration
from wmlab.streams.model.segment import Segment
from wmlab.streams.scenario.scenario import StreamScenario
from wmlab.streams.tables import TOOK_PLACE, Subject

_NO_BOUND: Final = -(2**63)

CLOCKS: Final = {
    "segments": "created_ms",
    "writer_marks": "received_ms",
    "watermarks": "emitted_ms",
    "events": "append_ms",
    "checkpoints": "requested_ms",
} | dict.fromkeys(("epochs", "cycles", "positions", "windows", "incidents", "errors"), "at_ms")
"""The column of each table that has the clock of a row, in ms."""
BEGUN_STATES: Final = {"crash": "crashed", "shut_down": "shut down", "idle": "idle", "silence": "silent"}
"""What a writer is from a fault of that kind on; of several states the first one here is named."""
ENDED_KINDS: Final = {"restart": ("crash", "shut_down"), "active": ("idle",), "speak": ("silence",)}
"""Which kinds of faults of a writer are over after one of that kind."""
PASSING: Final = frozenset({"note", "commit", "write", "duplicate", "upgrade"})
"""What a script lets a writer do once, which is no state. Of any other kind the detail is the state."""
CONTROLLERS: Final = {
    "crash": "crashed",
    "restart": "restarted",
    "pause": "paused",
    "resume": "went on",
    "expire": "lost its session",
}
"""What befell a controller, in words."""
UNTIL_HEARD: Final = frozenset({"hold", "abort"})
"""What explains why a writer notes nothing: the detail counts until its next mark is accepted."""
IN_CHARTS: Final = {"crashed": "down"}
"""What charts call a state, where they have another word for it."""


def is_of(incident: TableRow, subject: Subject) -> bool:
    """Whether an incident happened to a writer, a reader and so on."""
    return bool(incident["subject"] == subject)


LastingFaults = Mapping[str, str]
"""The faults of a writer that last, the newest last: by kind, the state or the detail that says so."""


def after_fault(lasting: LastingFaults, incident: TableRow) -> LastingFaults:
    """The faults of a writer that last after an incident, from those that lasted before.

    What a script asked of somebody that was not there changes nothing.
    """
    kind = str(incident["kind"])
    if kind in PASSING | UNTIL_HEARD or incident["outcome"] != TOOK_PLACE:
        return lasting
    over = {kind, *ENDED_KINDS.get(kind, ())}
    remaining = {earlier: words for earlier, words in lasting.items() if earlier not in over}
    return remaining if kind in ENDED_KINDS else {**remaining, kind: BEGUN_STATES.get(kind, str(incident["detail"]))}


def named_state(lasting: LastingFaults) -> str:
    """Of what lasts the state of `BEGUN_STATES` that is told; "" if there is none."""
    return next((state for kind, state in BEGUN_STATES.items() if kind in lasting), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterOnRecord:
    """A writer on record: the time it last had accepted, when it noted it, and when that arrived.

    `refused` is the outcome of a later note that was not accepted, None if there was none.
    """

    time: int
    noted_ms: int
    received_ms: int
    refused: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHistory:
    """What was known at `at_ms`: `bound` is the last watermark, `cycle` the last cycle, as rows of their tables.

    `on_record` are the writers that a cycle would read; `memory` is that of the present leader: when it first found
    each lagging writer behind; `same_end_since_ms` the first cycle of the present run of cycles that ended for the same
    cause; `woken_ms` when the first mark arrived after nobody was on record; `lasting_faults` those of each writer;
    `unheard` what explains why a writer has noted nothing since. `owner` is who owns the stream's bucket and since
    when, None for nobody, and as a whole if it is not recorded; `controllers` is the last incident of each: its kind
    and when. `created_ms` and `deleted_ms` are when the stream was created during the run, and when it was deleted.
    """

    at_ms: int
    bound: TableRow | None = None
    cycle: TableRow | None = None
    on_record: Mapping[str, WriterOnRecord] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    memory: CycleState = field(default_factory=CycleState)
    same_end_since_ms: int | None = None
    woken_ms: int | None = None
    lasting_faults: Mapping[str, LastingFaults] = field(default_factory=dict)
    unheard: Mapping[str, str] = field(default_factory=dict)
    owner: tuple[str | None, int] | None = None
    controllers: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    created_ms: int | None = None
    deleted_ms: int | None = None

    @property
    def leader(self) -> str | None:
        """The controller that ought to run the cycles: the owner of the bucket, or who ran the last one; None: none."""
        if self.owner is not None:
            return self.owner[0]
        return None if self.cycle is None else str(self.cycle["controller"])

    @property
    def lower(self) -> int | None:
        """The lower bound of the last watermark; None where that is an end of known time."""
        return None if self.bound is None or not self.bound["writers"] else int(self.bound["lower"])

    def state_of(self, writer: str) -> str:
        """What happened to a writer and still lasts: "crashed", "silent" and so on; "" for nothing."""
        lasting = self.lasting_faults.get(writer, {})
        return named_state(lasting) or [self.unheard.get(writer, ""), *lasting.values()][-1]

    def after_fault(self, row: TableRow) -> RunHistory:
        """The knowledge after one more incident."""
        target, kind = row["target"], row["kind"]
        if row["outcome"] != TOOK_PLACE:
            return self
        history = self
        if is_of(row, "writer"):
            lasting_faults = {**self.lasting_faults, target: after_fault(self.lasting_faults.get(target, {}), row)}
            unheard = {**self.unheard, target: row["detail"]} if kind in UNTIL_HEARD else self.unheard
            history = replace(history, lasting_faults=lasting_faults, unheard=unheard)
        if is_of(row, "controller"):
            history = replace(history, controllers={**self.controllers, target: (kind, row["at_ms"])})
        if is_of(row, "stream") and kind == "create":
            return replace(history, created_ms=row["at_ms"])
        if is_of(row, "stream") and kind == "delete":
            return replace(history, deleted_ms=row["at_ms"])
        return history

    def after_mark(self, row: TableRow) -> RunHistory:
        """The knowledge after one more noted time."""
        writer = row["writer"]
        if row["outcome"] != "success":
            if writer not in self.on_record:
                return replace(self, refused={**self.refused, writer: row["outcome"]})
            noted = replace(self.on_record[writer], refused=row["outcome"])
            return replace(self, on_record={**self.on_record, writer: noted})
        noted = WriterOnRecord(time=row["time"], noted_ms=row["noted_ms"], received_ms=row["received_ms"])
        woken_ms = self.woken_ms if self.on_record else row["received_ms"]
        unheard = {name: why for name, why in self.unheard.items() if name != writer}
        return replace(self, on_record={**self.on_record, writer: noted}, woken_ms=woken_ms, unheard=unheard)

    def after_cycle(self, row: TableRow) -> RunHistory:
        """The knowledge after one more cycle."""
        same_leader = self.cycle is not None and self.cycle["controller"] == row["controller"]
        since = self.memory.behind_since if same_leader else {}
        short_since = None
        if row["cause"] == HeldBy.EXPECTED:
            short_since = self.memory.short_since if same_leader else None
            short_since = row["at_ms"] if short_since is None else short_since
        goes_on = self.cycle is not None and end_of(self.cycle) == end_of(row)
        return replace(
            self,
            cycle=row,
            on_record={name: noted for name, noted in self.on_record.items() if name not in row["removed"]},
            memory=CycleState({name: since.get(name, row["at_ms"]) for name in row["lagging"]}, short_since),
            same_end_since_ms=self.same_end_since_ms if goes_on else row["at_ms"],
        )


def end_of(cycle: TableRow) -> tuple[object, ...]:
    """How a cycle ended: its outcome, whom it waits for, and the reason if it is another."""
    reason = "" if cycle["lagging"] else cycle["reason"]
    return cycle["outcome"], tuple(sorted(cycle["lagging"])), reason


_AFTER: Final[Mapping[str, Callable[[RunHistory, TableRow], RunHistory]]] = {
    "incidents": RunHistory.after_fault,
    "writer_marks": RunHistory.after_mark,
    "cycles": RunHistory.after_cycle,
    "watermarks": lambda history, row: replace(history, bound=row),
}
"""The knowledge after a row of each table that makes a history; rows of one ms in this order."""


def walk(recording: Recording, stream: str, *, until_ms: int | None = None) -> Iterator[RunHistory]:
    """The knowledge after every moment at which it changed, up to and including `until_ms`."""
    rows = [
        (row[CLOCKS[table]], after, row)
        for table, after in _AFTER.items()
        for row in rows_of_stream(recording, table, stream, until_ms=until_ms)
    ]
    for row in owners_of(recording, stream):
        for at_ms, owner in ((row["from_ms"], row["controller"]), (row["to_ms"], None)):
            if at_ms is not None and (until_ms is None or at_ms <= until_ms):
                rows.append((at_ms, lambda history, row: replace(history, **row), {"owner": (owner, at_ms)}))
    rows.sort(key=lambda entry: entry[0])
    history = RunHistory(at_ms=0)
    for at_ms, together in groupby(rows, key=lambda entry: entry[0]):
        for _, after, row in together:
            history = after(history, row)
        history = replace(history, at_ms=at_ms)
        yield history


def owners_of(recording: Recording, stream: str) -> list[TableRow]:
    """The rows of the table `ownership` for the bucket of a stream, by time."""
    rows = recording.table("ownership").sort_by("from_ms").to_pylist()
    return [row for row in rows if stream.partition("#")[0] in row["streams"]]


def history_at(recording: Recording, stream: str, at_ms: int) -> RunHistory:
    """The knowledge at a moment."""
    *_, last = (RunHistory(at_ms=at_ms), *walk(recording, stream, until_ms=at_ms))
    return replace(last, at_ms=at_ms)


def of_stream(table: pa.Table, stream: str) -> pa.Table:
    """The rows of one stream, in their order."""
    return table.filter(pc.equal(table["stream"], stream))


def rows_of_stream(
    recording: Recording, table: str, stream: str, *, until_ms: int | None = None
) -> list[dict[str, Any]]:
    """The rows of one stream in a table, maps as dicts; up to and including `until_ms` on the clock of the table."""
    selected = of_stream(recording.table(table), stream)
    if until_ms is not None:
        selected = selected.filter(pc.less_equal(selected[CLOCKS[table]], until_ms))
    rows: list[dict[str, Any]] = selected.to_pylist(maps_as_pydicts="strict")
    return rows


def events_of(recording: Recording, stream: str, *columns: str) -> Iterator[pa.Table]:
    """Some columns of the events of one stream, part by part."""
    for chunk in recording.chunks("events", "stream", *columns):
        yield of_stream(chunk, stream).select(list(columns))


def furthest(recording: Recording, stream: str, *by: str) -> pa.Table:
    """The columns `by` of the events of one stream, each combination once, and the largest `offset` it reached."""
    by_chunk = pa.concat_tables(_furthest(part, by) for part in events_of(recording, stream, "offset", *by))
    return _furthest(by_chunk, by)


def _furthest(events: pa.Table, by: Sequence[str]) -> pa.Table:
    return events.group_by(by).aggregate([("offset", "max")]).rename_columns([*by, "offset"])


def segments_of(recording: Recording, stream: str) -> dict[int, Segment]:
    """The segments of one stream, by id."""
    return {
        row["segment_id"]: Segment.parse(row["segment_id"], row["keys"])
        for row in rows_of_stream(recording, "segments", stream)
    }


def epochs_of(recording: Recording, stream: str) -> StreamHistory:
    """The epochs of one stream with their segments."""
    return StreamHistory.recorded(rows_of_stream(recording, "epochs", stream), segments_of(recording, stream))


def replaced(before: TableRow, epoch: TableRow) -> tuple[list[int], list[int]]:
    """The segments that an epoch takes away from the one before it, and those that it adds."""
    old, new = before["segment_ids"], epoch["segment_ids"]
    return [segment for segment in old if segment not in new], [segment for segment in new if segment not in old]


def the_stream(recording: Recording, stream: str | None, *, option: str = "stream") -> str:
    """The stream asked for, or the only one. Raises `RecordingError` when there are several, or not that one.

    `option` is the argument that chooses.
    """
    chunks = (chunk for table in ("segments", "events", "writer_marks") for chunk in recording.chunks(table, "stream"))
    names = sorted({name for chunk in chunks for name in chunk["stream"].unique().to_pylist()})
    return the_only(recording, stream, names, "stream", "streams", option=option)


def group_states(rows: Iterable[TableRow]) -> Iterator[tuple[int, dict[int, TableRow]]]:
    """A reader group's state after each of its updates: (clock in ms, the newest row of each open segment).

    `rows` are those of the table `positions` for one group of one stream, in any order. An update, by its version, has
    the segments that changed; a segment that is read to its end leaves the state, though it may count for longer.
    """
    state: dict[int, TableRow] = {}
    for _, update in groupby(sorted(rows, key=lambda row: int(row["version"])), key=lambda row: row["version"]):
        changed = list(update)
        state = moved(
            state, ((row["segment_id"], None if row["finished"] or row.get("waits") else row) for row in changed)
        )
        yield changed[-1]["at_ms"], state


def without_ends(watermarks: Iterable[TableRow]) -> list[TableRow]:
    """The watermarks, without bounds (None) where one is an end of known time, which counts no writers.

    Without the column `writers` there is none.
    """
    return [row if row.get("writers", True) else {**row, "lower": None, "upper": None} for row in watermarks]


def late_events(events: pa.Table, watermarks: Sequence[TableRow]) -> pa.Table:
    """The events appended after a watermark whose lower bound is above their time; `watermarks` as in the log.

    No event is below an end of known time.
    """
    emitted = np.array(known_from(row["emitted_ms"] for row in watermarks), np.int64)
    lower_of_each = (row["lower"] for row in without_ends(watermarks))
    lowers = np.array([_NO_BOUND, *(_NO_BOUND if lower is None else lower for lower in lower_of_each)], np.int64)
    lower_then = lowers[emitted.searchsorted(events["append_ms"].to_numpy(), side="left")]
    return events.filter(pa.array(lower_then > events["event_time"].to_numpy()))


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionRules:
    """The rules of a stream's `cycles` and when they run, and what else an answer needs to predict.

    `cycles` is None for a recording of the outside world: nothing is predicted. `look_every_ms` is how often a reader
    publishes its position and looks at its window; None if unknown. A cycle may run up to `late_ms` after it is due: by
    the jitter of the period, and by what the cycle before took.
    """

    cycles: Configuration | None = None
    look_every_ms: int | None = None
    late_ms: int = 0

    def due_ms(self, history: RunHistory) -> int | None:
        """When the next cycle is due if its leader works; None while no writer is on record, for then none is planned.

        None, too, after the stream was deleted, and without rules of cycles.
        """
        entered_ms = self._entered_ms(history)
        if history.deleted_ms is not None or entered_ms is None or self.cycles is None:
            return None
        if history.cycle is None or history.cycle["at_ms"] < entered_ms:
            return entered_ms + self.cycles.delay_ms
        return int(history.cycle["at_ms"]) + self.cycles.period_ms

    def _entered_ms(self, history: RunHistory) -> int | None:
        """When the stream came into its bucket; None if it is in none, or if that is not recorded."""
        if self.cycles is None or self.cycles.leaves_bucket:
            return history.woken_ms if history.on_record else None
        created = [] if history.created_ms is None else [history.created_ms]
        owned = [] if history.owner is None else [history.owner[1]]
        ran = [] if history.cycle is None else [int(history.cycle["at_ms"])]
        return next(iter([*created, *ran, *owned]), None)

    def missed_ms(self, history: RunHistory) -> int | None:
        """When a cycle was due that has not run; None if none is missing."""
        due_ms = self.due_ms(history)
        return due_ms if due_ms is not None and due_ms + self.late_ms <= history.at_ms else None

    def next_cycle_ms(self, history: RunHistory) -> int | None:
        """When the next cycle runs; None if none is planned, or if a leader is missing."""
        due_ms, cycles = self.due_ms(history), self.cycles
        leader_down = history.controllers.get(history.leader or "", ("",))[0] in ("crash", "pause")
        if cycles is None or due_ms is None or leader_down:
            return None
        owner, owned_ms = history.owner or ("", due_ms - cycles.delay_ms)
        if owned_ms > max(self._entered_ms(history) or 0, history.cycle["at_ms"] if history.cycle else 0):
            due_ms = owned_ms + cycles.delay_ms  # a new owner waits as for a stream's first cycle
        return due_ms if owner is not None and due_ms + self.late_ms > history.at_ms else None

    def drops_at_ms(self, history: RunHistory, writer: str) -> int | None:
        """The cycle that drops a lagging writer if it notes nothing newer; None if it is not on record."""
        following, cycles = self.next_cycle_ms(history), self.cycles
        if cycles is None or following is None or writer not in history.on_record:
            return None
        noted_ms = {writer: history.on_record[writer].received_ms}
        start_ms = inactive_since(
            history.memory, writer, now_ms=following, timeout_from=cycles.timeout_from, noted_ms=noted_ms
        )
        return self._cycle_from(start_ms + cycles.timeout_ms, history)

    def expects_until_ms(self, history: RunHistory) -> int | None:
        """The cycle that no longer waits for expected writers; None if none waits for them, or if it is unknown."""
        since_ms, cycles = history.memory.short_since, self.cycles
        if since_ms is None or cycles is None:
            return None
        return self._cycle_from(since_ms + cycles.timeout_ms, history)

    def _cycle_from(self, at_ms: int, history: RunHistory) -> int | None:
        """The first cycle that runs at that time or later; None if none is planned."""
        following, cycles = self.next_cycle_ms(history), self.cycles
        if following is None or cycles is None:
            return None
        return following + -(-max(0, at_ms - following) // cycles.period_ms) * cycles.period_ms


def recorded_rules(recording: Recording, stream: str) -> PredictionRules:
    """The rules of one stream by the name that the tables have for it; without a scenario none are known."""
    written = recording.scenario_as(StreamScenario)
    if written is None:
        return PredictionRules()
    scenario = written.resolved
    part = scenario.stream_titled(stream)
    looks = {
        group.publish_every_ms if group.publish_timer == "fixed" and group.enters_time == "at_publish" else None
        for group in scenario.groups_of(part)
    }
    controllers = scenario.controllers
    is_instant = scenario.network.inside == Fixed(0)
    return PredictionRules(
        cycles=controllers.configuration(part),
        look_every_ms=looks.pop() if len(looks) == 1 else None,
        late_ms=controllers.period_jitter_ms + (0 if is_instant else controllers.period_ms),
    )


def scenario_span(recording: Recording) -> tuple[int, int] | None:
    """From when to when the scenario of a finished run lasted (clock, ms); None for any other recording."""
    scenario = recording.scenario
    if scenario is None or "duration_ms" not in scenario or not recording.manifest.finished:
        return None
    start_ms = int(scenario.get("start_ms", 0))
    return start_ms, start_ms + int(scenario["duration_ms"])
