"""The questions "why?" and "why dropped?" about a dataflow: of a vertex at a moment or over a run, a window, a row.

What an answer says comes from the tables up to that moment; only what would release it is a prediction, by the rules.

State that shrinks each time its watermark moves is bounded. State that has grown for longer than it ever did between
two falls, or has never shrunk, grows on at the rate since the last fall, up to its limit if it has one. Of state that
has not changed for long nothing is said, nor of a batch, which grows to its end.

Source: "Keyed watermark support", Description of current behavior; "Stream-to-stream join", Implementation of multiple
watermarks, memory management.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import itemgetter
from typing import Any, Final

from wmlab.core.answers import Stragglers, Stretch, stragglers_from
from wmlab.core.arguments import the_moment
from wmlab.core.errors import RecordingError
from wmlab.core.recording import Recording
from wmlab.core.words import counted, moment, span
from wmlab.dataflow.answers.outcome import WindowAnswers, dropped_rows, explain_row, window_vertex
from wmlab.dataflow.answers.run import DataflowRun, Drops, Explanation, Holder, StateForecast
from wmlab.dataflow.answers.search import Search
from wmlab.dataflow.answers.together import joins_apart
from wmlab.dataflow.model.join import START
from wmlab.dataflow.model.window import OpenWindow
from wmlab.dataflow.sim.layout import OWN_BY_INPUT

_MOMENTS: Final = 200
"""The most moments at which a run is looked at; between two of them what held at the first is taken to hold."""
_FEWEST: Final = 2
"""Changes of size without a fall from which on a rate is given."""
_LONGER: Final = 2
"""So many times the longest stretch without a fall has state to grow until that is called unbounded; and so many times
the longest stretch without a change has it to stay until it is said to grow no more."""


def explain(
    recording: Recording,
    at_ms: int | str | None = None,
    *,
    vertex: str | None = None,
    key: int | None = None,
    instance: int | None = None,
    window: int | tuple[int, int] | None = None,
    row: Mapping[str, Any] | None = None,
    reader: str | None = None,
    stream: str | None = None,
) -> Explanation | Stragglers:
    """Why a vertex, a window or a row of a dataflow waits; without all of these and `at_ms`, who held it over the run.

    `vertex` is by default the last one that waits for watermarks, or else the sink; `key` its own, or else the one
    that is held. `window` is its end, or (start, end). `row` has some columns of the row. `at_ms` is the clock, for a
    window or a row by default the end of the recording. `reader` and `stream` are for other recordings. Raises
    `RecordingError` for what the recording does not have, and for several questions at once. Over the run of a join it
    also says if the event times of its inputs do not overlap.
    """
    for name, option in (("reader", reader), ("stream", stream)):
        if option is not None:
            raise RecordingError(f"a {name} is named; dataflows have none.", remedy=f"leave the {name} out.")
    run = DataflowRun(recording)
    at_ms = None if at_ms is None else the_moment(at_ms, start_ms=recording.start_ms)
    if window is not None and row is not None:
        raise RecordingError("a window and a row are asked for at once.", remedy="ask for one of them.")
    until_ms = run.end_ms if at_ms is None else at_ms
    if window is not None:
        ends = [
            the_moment(at, name="window", start_ms=None) for at in (window if isinstance(window, tuple) else [window])
        ]
        if len(ends) not in (1, 2):
            raise RecordingError(f"window is {window}.", remedy="give its end, or (start, end).")
        name = window_vertex(run, vertex)
        return WindowAnswers(Search(run, until_ms), name).explanation(ends[0] if len(ends) == 2 else None, ends[-1])
    if row is not None:
        return explain_row(run, row, at_ms=until_ms, vertex=vertex)
    name = vertex if vertex is not None else run.last_waiting
    run.vertex(name)
    if at_ms is None:
        stragglers, apart = stragglers_at(run, name, key, instance), joins_apart(recording, run.rules.joins)
        return replace(stragglers, notes=(*stragglers.notes, *([apart[name]] if name in apart else ())))
    began = run.executions[0]["started_ms"] if run.executions else None
    return explain_vertex(Search(run, at_ms, f"ask from {began} ms on."), name, key, instance)


def why_dropped(recording: Recording, row: Mapping[str, Any] | None = None, *, vertex: str | None = None) -> Drops:
    """The rows that were left out, by which rule, by how much: all or those that have the columns of `row`.

    Raises `RecordingError` for a vertex that the recording does not have.
    """
    run = DataflowRun(recording)
    if vertex is not None:
        run.vertex(vertex)
    return Drops(stream=run.stream, rows=tuple(dropped_rows(run, row or {}, vertex=vertex)))


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyStatus:
    """A key at an instance: the last watermark (value, since when), what is wanted, who keeps it from there."""

    instance: int
    key: int
    mark: tuple[int, int] | None
    needed: int
    window: OpenWindow | None
    holders: tuple[Holder, ...]


def explain_vertex(search: Search, vertex: str, key: int | None, instance: int | None) -> Explanation:
    """Why nothing comes out of `vertex`; raises `RecordingError` if no watermark can reach it."""
    status = key_status(search, vertex, key, instance)
    state = forecast(search, vertex, status.instance)
    cause = search.outcome if search.outcome != "running" else _cause(status.holders)
    idles = cause in {"held", "idle"}
    text, release_ms = search.waiting(
        _stands(search.run, status), status.holders, free="nothing holds it back", idles=idles
    )
    growth = f"; {state.sentence}" if state is not None and state.bounded is False and cause != "completed" else ""
    mark, since_ms = status.mark or (None, None)
    where = search.run.instance_name(vertex, status.instance)
    return search.explanation(
        "watermark",
        cause=cause,
        vertex=vertex,
        sentence=f"{where} at {moment(search.at_ms)}: {search.end or text}{growth}",
        instance=status.instance,
        key=status.key,
        watermark=mark,
        since_ms=since_ms,
        needed=None if status.needed == START else status.needed,
        holders=() if search.end else status.holders,
        release_ms=release_ms,
        state=state,
    )


def key_status(search: Search, vertex: str, key: int | None, instance: int | None) -> KeyStatus:
    """The instance and the key that are held most, of those asked for."""
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
    statuses = [
        _key_status(search, vertex, number, wanted, windows)
        for wanted in (known if key is None else (key,))
        for number in (copies if instance is None else (instance,))
    ]

    def weight(status: KeyStatus) -> tuple[bool, int, int, int]:
        """The lower, the more it is held: held at all, then the key, the lowest watermark, the lowest instance."""
        number = 0 if vertex in search.joins else status.key
        return not status.holders, number, START if status.mark is None else status.mark[0], status.instance

    return min(statuses, key=weight)


def _key_status(search: Search, vertex: str, instance: int, key: int, windows: WindowAnswers | None) -> KeyStatus:
    outwards = vertex in search.joins or search.run.vertex(vertex)["kind"] in {"source", OWN_BY_INPUT}
    merged = None if outwards else search.level(vertex, instance)
    mark = (search.job.sent(vertex, instance) if merged is None else merged.emitted).get(key)
    needed = START if mark is None else mark[0] + 1
    # One that the watermark has closed is on its way out.
    window = None if windows is None else windows.first_open(instance, needed)
    if windows is not None and window is not None:
        needed = windows.rule.closed_by(window.end)
    holders = search.holders(vertex, instance, key, needed, at="output" if outwards else "inputs")
    return KeyStatus(instance=instance, key=key, mark=mark, needed=needed, window=window, holders=holders)


def _cause(holders: tuple[Holder, ...]) -> str:
    kinds = {holder.kind for holder in holders}
    if kinds & {"no key", "no bound"}:
        return "stuck"
    if not kinds:
        return "moving"
    if kinds <= {"idle"}:
        return "idle"
    return "ended" if kinds <= {"ended"} else "held"


def _stands(run: DataflowRun, status: KeyStatus) -> str:
    text = f"no watermark of key {status.key} has come"
    if status.mark is not None:
        value, since_ms = status.mark
        text = f"the watermark of key {status.key} stands at {run.time(value)} since {moment(since_ms)}"
    if status.window is None:
        return text
    window = status.window
    return (
        f"{text}, and the window from {run.time(window.start)} to {run.time(window.end)} with "
        f"{counted(window.rows, 'row')} waits for {run.time(status.needed)}"
    )


def forecast(search: Search, vertex: str, instance: int | None) -> StateForecast | None:
    """The forecast for one instance, or for all together; None if nothing has been held by then.

    Each instance has a limit of its own, so that it is not said when several together reach it.
    """
    begun, at_ms = search.execution["started_ms"], search.at_ms
    copies = search.run.vertex(vertex)["parallelism"]
    result = search.run.rules.results.get(vertex)
    limit = None if result is None else result.limit
    points = _sizes(search, vertex, range(copies) if instance is None else (instance,))
    if not points:
        return None
    falls = [at for (_, before), (at, after) in pairwise([(begun, 0), *points]) if after < before]
    since_ms = falls[-1] if falls else points[0][0]
    size = points[-1][1]
    rises = [point for point in points if point[0] >= since_ms]
    changed_ms = rises[-1][0]
    grown = size - rises[0][1]
    rate = 1_000 * grown / (changed_ms - since_ms) if changed_ms > since_ms else 0.0
    is_batch = search.run.vertex(vertex)["kind"] == "hash join"
    still = is_batch or at_ms - changed_ms > _LONGER * max(
        [later - at for (at, _), (later, _) in pairwise(rises)], default=at_ms
    )
    growing = grown > 0 and len(rises) > _FEWEST
    bounded = False if growing else None
    if falls:
        longest = max(later - earlier for earlier, later in pairwise([begun, *falls]))
        bounded = not (growing and at_ms - falls[-1] > _LONGER * longest)
    if still:
        bounded = None
    full_ms = None
    alone = instance is not None or copies == 1
    if bounded is False and alone and limit is not None and rate > 0 and size < limit:
        full_ms = at_ms + round(1_000 * (limit - size) / rate)
    return StateForecast(
        vertex=vertex,
        instance=instance,
        parallelism=copies,
        at_ms=at_ms,
        size=size,
        peak=max(after for _, after in points),
        since_ms=since_ms,
        changed_ms=changed_ms,
        rate_per_s=round(rate, 3),
        shrank=bool(falls),
        limit=limit,
        limit_at_ms=full_ms,
        bounded=bounded,
    )


def _sizes(search: Search, vertex: str, instances: Iterable[int]) -> list[tuple[int, int]]:
    """When what these instances hold together changed, and its size from then on."""
    rows = [row for number in instances for row in search.rows("state", vertex, number) if row["buffer"] == "all"]
    sizes: dict[int, int] = {}
    totals: list[tuple[int, int]] = []
    for row in sorted(rows, key=itemgetter("at_ms")):
        sizes[row["instance"]] = row["size"]
        totals.append((row["at_ms"], sum(sizes.values())))
    return totals


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class VertexStragglers(Stragglers):
    """The holders of the watermark at a vertex over a run. Until every input has one, what it costs is unknown."""

    def _costliest(self) -> str:
        """Who held it longest, in one sentence."""
        if not self.stragglers:
            return f"Over {span(self.run_ms)} nobody held the {self.bound} in {self.stream}."
        # Those that still could go on come before those that were all idle.
        first = min(self.stragglers, key=lambda entry: (entry.why == "idle", -entry.held_ms, entry.who))
        cost = "" if not first.cost_ms else f", which cost {self._ms(first.cost_ms)} of mean lag"
        return (
            f"Over {span(self.run_ms)} the {self.bound} in {self.stream} was held longest by {first.who} "
            f"({first.why}): for {self._ms(first.held_ms)}{cost}."
        )


def stragglers_at(run: DataflowRun, vertex: str, key: int | None, instance: int | None) -> Stragglers:
    """The holders of the watermark of `vertex` from the first execution to the end, the most expensive first."""
    begun = end_ms = 0
    stretches: list[Stretch] = []
    if run.executions:
        begun, ended = run.executions[0]["started_ms"], run.executions[-1]["ended_ms"]
        end_ms = run.end_ms if ended is None else ended
        moments = sorted({row["at_ms"] for row in run.rows("coalescing") if begun < row["at_ms"] < end_ms})
        if len(moments) > _MOMENTS:
            moments = [moments[(n + 1) * len(moments) // _MOMENTS - 1] for n in range(_MOMENTS)]
        for from_ms, to_ms in pairwise([begun, *moments, end_ms]):
            search = Search(run, from_ms)
            holders = key_status(search, vertex, key, instance).holders
            stretches += [Stretch((h.name,), h.kind, from_ms, to_ms, h.behind_by, len(holders)) for h in holders]
    run_ms = max(end_ms - begun, 1)
    lowest = "lowest " if instance is None and run.vertices[vertex]["parallelism"] > 1 else ""
    bound = f"{lowest}watermark at {run.instance_name(vertex, instance)}"
    return stragglers_from(stretches, stream=run.stream, run_ms=run_ms, bound=bound, kind=VertexStragglers)
