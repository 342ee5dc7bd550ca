"""The questions "why?" and "why dropped?" about a dataflow: of a vertex at a moment or over a run, of a window.

What an answer says comes from the job as it was at that moment, see `job` and `cause`. That it failed is said first.

Source: "Keyed watermark support", Description of current behavior; "Stream-to-stream join", Implementation of multiple
watermarks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from wmlab.core.arguments import the_moment
from wmlab.core.errors import RecordingError
from wmlab.core.facts import Value
from wmlab.core.holders import Holders, Stretch, holders_over
from wmlab.core.overlap import TimeRange, without_common_times
from wmlab.core.recording import Recording, moment_of_run, never_happened
from wmlab.dataflow.answers.cause import Cause, CauseKind, Holder, release_ms_of, setters_first
from wmlab.dataflow.answers.cause_facts import name_and_cause, of_failure, of_watermark
from wmlab.dataflow.answers.lost import drops_of
from wmlab.dataflow.answers.outcome import WindowAnswers, window_vertex
from wmlab.dataflow.answers.run import DataflowRun, run_of
from wmlab.dataflow.answers.search import Search, unique_holders
from wmlab.dataflow.answers.stragglers import MEANINGS
from wmlab.dataflow.answers.values import Drops, Explanation
from wmlab.dataflow.model.join import LEFT, RIGHT, START

_MOMENTS: Final = 200
"""The most moments at which a run is looked at; between two of them what held at the first is taken to hold."""
_CHANGES: Final = (
    ("coalescing", "at_ms"),
    ("items", "put_ms"),
    ("items", "taken_ms"),
    ("calls", "began_ms"),
    ("calls", "ended_ms"),
)


def explain(
    recording: Recording,
    at_ms: int | str | None = None,
    *,
    vertex: str | None = None,
    key: int | None = None,
    instance: int | None = None,
    window: int | tuple[int, int] | None = None,
    reader: str | None = None,
    stream: str | None = None,
) -> Explanation | Holders:
    """Explain why a vertex or a window of a dataflow waits; without `at_ms` and `window`, what held the vertex.

    `vertex` is by default the last one that waits for watermarks, or else the sink; `key` is by default its own key, or
    else the held one. `window` is its end, or (start, end). `at_ms` is the clock, for a window by default the end of
    the run. `reader` and `stream` are for other recordings. Raises `RecordingError` for a name that the recording
    does not have, and if the job does not run again in the same way, see `answers.job`. For a join it also says if the
    event times of its inputs do not overlap. Over the whole run it says which faults never happened.
    """
    for name, option in (("reader", reader), ("stream", stream)):
        if option is not None:
            raise RecordingError(f"a {name} is named; dataflows have none.", remedy=f"leave the {name} out.")
    run = run_of(recording)
    _ = run.rules  # a damaged scenario is refused before its times are read
    at_ms = None if at_ms is None else moment_of_run(recording, at_ms)
    until_ms = run.end_ms if at_ms is None else at_ms
    if window is not None:
        ends = [
            the_moment(at, name="window", start_ms=None) for at in (window if isinstance(window, tuple) else [window])
        ]
        if len(ends) not in (1, 2):
            raise RecordingError(f"window is {window}.", remedy="give its end, or (start, end).")
        name = window_vertex(run, vertex)
        return WindowAnswers(Search(run, until_ms), name).explanation(ends[0] if len(ends) == 2 else None, ends[-1])
    name = vertex if vertex is not None else run.last_waiting
    run.vertex(name)
    if at_ms is None:
        return holders_at(run, name, key, instance, never_happened(recording, run.stream))
    return explain_vertex(Search(run, at_ms), name, key, instance)


def why_dropped(recording: Recording, row: Mapping[str, Any] | None = None, *, vertex: str | None = None) -> Drops:
    """The dropped rows, with the rule that dropped each one, and by how much: all, or those with the columns of `row`.

    Raises `RecordingError` for a vertex that the recording does not have, and for columns that no dropped row has.
    """
    run = run_of(recording)
    if vertex is not None:
        run.vertex(vertex)
    return drops_of(run, {} if row is None else row, vertex)


def _times_apart(run: DataflowRun, vertex: str, until_ms: int) -> str:
    """The vertex, if it is a join of whose rows by then (clock, ms) no two could meet, for their times; or empty.

    Joins count whose inputs have one watermarked time each, and rows that came at the same time.
    """
    join = run.rules.joins.get(vertex)
    if join is None or any(len(keys) != 1 for keys in join.keys):
        return ""
    ranges = []
    for edge in (LEFT, RIGHT):
        sources = {row["queue"]: row["source"] for row in run.queues if (row["target"], row["edge"]) == (vertex, edge)}
        rows = [row for row in run.rows("items") if row["queue"] in sources and row["time"] is not None]
        points = [(row["time"], row["put_ms"]) for row in rows if row["put_ms"] <= until_ms]
        if not points:
            return ""
        times, clock_ms = zip(*points, strict=True)
        ranges.append(TimeRange(next(iter(sources.values())), min(times), max(times), min(clock_ms), max(clock_ms)))
    (left,), (right,), (of_left, of_right) = *join.keys, ranges
    before, behind = of_right.first - join.bounds[right][left], of_left.first - join.bounds[left][right]
    may_meet = of_left.last >= before and of_right.last >= behind
    return "" if may_meet or not without_common_times(ranges) else vertex


def explain_vertex(search: Search, vertex: str, key: int | None, instance: int | None) -> Explanation:
    """Why nothing comes out of `vertex`; raises `RecordingError` if no watermark can reach it."""
    cause = cause_at(search, vertex, key, instance)
    idle = search.not_waited_for(cause.vertex, cause.instance, cause.key, cause.watermark)
    facts, templates = of_watermark(search, cause, idle, _times_apart(search.run, vertex, search.at_ms))
    return Explanation(
        at_ms=search.at_ms,
        stream=search.run.stream,
        vertex=cause.vertex,
        instance=cause.instance,
        key=cause.key,
        cause=cause.kind,
        watermark=cause.watermark,
        since_ms=cause.since_ms,
        needed=cause.needed,
        holders=() if cause.end is not None else cause.holders,
        release_ms=cause.release_ms,
        facts=facts,
        templates=templates,
    )


def cause_at(search: Search, vertex: str, key: int | None, instance: int | None) -> Cause:
    """What holds the watermark of a vertex: of the instance and the key that are held most, of those asked for.

    Of a vertex with windows only the key that closes them counts. Raises `RecordingError` if no watermark can reach it,
    or for a key or instance that it does not have.
    """
    known = search.run.keys(vertex)
    if not known:
        raise RecordingError(
            f"no watermark reaches {vertex!r}.", remedy="ask for a vertex behind a source that has times=."
        )
    if key is not None and key not in known:
        raise RecordingError(
            f"{vertex!r} has no watermarks of key {key}.", remedy=f"ask for one of: {', '.join(map(str, known))}."
        )
    copies = range(search.run.vertex(vertex)["parallelism"])
    if instance is not None and instance not in copies:
        raise RecordingError(
            f"{vertex!r} has no instance {instance}.", remedy=f"give a number from 0 to {copies[-1]}, or leave it out."
        )
    windows = WindowAnswers(search, vertex) if vertex in search.windows else None
    if windows is not None:
        known = (windows.key,)
    causes = [
        _cause(search, vertex, number, wanted, windows)
        for wanted in (known if key is None else (key,))
        for number in (copies if instance is None else (instance,))
    ]

    def weight(cause: Cause) -> tuple[bool, int, int, int]:
        """The lower, the more it is held: held at all, then the key, the lowest watermark, the lowest instance."""
        number = 0 if vertex in search.joins else cause.key
        return not cause.holders, number, START if cause.watermark is None else cause.watermark, cause.instance

    return min(causes, key=weight)


def _cause(search: Search, vertex: str, instance: int, key: int, windows: WindowAnswers | None) -> Cause:
    watermark, since_ms = search.watermark(vertex, instance, key)
    needed = START if watermark is None else watermark + 1
    # One that the watermark has closed is on its way out.
    window = None if windows is None else windows.first_open(instance, needed)
    if windows is not None and window is not None:
        needed = windows.rule.closed_by(window.end)
    holders_now = search.holders_now(vertex, instance, key, watermark)
    holders = search.holders(vertex, instance, key, needed, at="output" if search.run.is_outwards(vertex) else "inputs")
    if window is not None:
        # What stands still now is released before a window can be.
        holders = unique_holders([*(h for h in holders_now if h.is_waiting and not search.is_moving(h)), *holders])
    holders = setters_first(holders, holders_now)
    kind: CauseKind = _kind(holders) if search.end is None else search.end.outcome
    return Cause(
        kind=kind,
        vertex=vertex,
        instance=instance,
        key=key,
        watermark=watermark,
        since_ms=since_ms,
        needed=None if needed == START else needed,
        window=window,
        holders=holders,
        holders_now=holders_now,
        release_ms=release_ms_of(holders, search.at_ms) if kind in {"held", "idle"} else None,
        end=search.end,
    )


def _kind(holders: Sequence[Holder]) -> CauseKind:
    kinds = {holder.kind for holder in holders}
    if kinds & {"no key", "no bound"}:
        return "stuck"
    if not kinds:
        return "moving"
    if kinds <= {"idle"}:
        return "idle"
    return "ended" if kinds <= {"ended"} else "held"


def _moments_of(run: DataflowRun) -> list[int]:
    """The moments (clock, ms) at which holders may change: items are put and taken, calls begin and end, so do faults.

    Of more than `_MOMENTS`, as many at equal distances stand for them, with those of faults. None if nothing began.
    """
    if not run.executions:
        return []
    begun, end_ms = run.clock_ms()
    moments = set().union(*(run.moments(table, clock) for table, clock in _CHANGES))
    if len(moments) > _MOMENTS:
        moments = {begun + number * (end_ms - begun) // _MOMENTS for number in range(_MOMENTS)}
    moments |= run.job.fault_moments
    return [begun, *sorted(at_ms for at_ms in moments if begun < at_ms < end_ms), end_ms]


def holders_at(
    run: DataflowRun, vertex: str, key: int | None, instance: int | None, in_vain: Sequence[str] = ()
) -> Holders:
    """The holders of the watermark of `vertex` from the first execution to the end, and what never happened."""
    # Of what waits for an instance that stands still, that one is named, once.
    stretches = [
        Stretch(who, why, from_ms, to_ms)
        for from_ms, to_ms in pairwise(_moments_of(run))
        for who, why in dict.fromkeys(
            map(name_and_cause, cause_at(Search(run, from_ms), vertex, key, instance).holders_now)
        )
    ]
    lowest = "lowest " if instance is None and run.vertices[vertex]["parallelism"] > 1 else ""
    also: dict[str, Value] = {
        "inputs apart": _times_apart(run, vertex, run.end_ms) or None,
        "never happened": tuple(in_vain),
        **of_failure(run.end_at()),
    }
    return holders_over(
        stretches,
        stream=run.stream,
        span=run.clock_ms(),
        bound=f"{lowest}watermark at {run.instance_name(vertex, instance)}",
        also=also,
        meanings=MEANINGS,
    )
