"""Why nothing comes out of a vertex: where its watermark stands, who holds it and over a run how long, what it keeps.

State that shrinks each time its watermark moves is bounded. State that has grown for longer than it ever did between
two falls, or has never shrunk, grows on at the rate since the last fall, up to its limit if it has one. Of state that
has not changed for long nothing is said.

Source: "Keyed watermark support", Description of current behavior; "Stream-to-stream join", Implementation of multiple
watermarks, memory management.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from wmlab.core.answers.stragglers import Straggler, Stragglers, Stretch, stragglers_from
from wmlab.core.errors import RecordingError
from wmlab.core.words import counted, moment, span
from wmlab.dataflow.answers.explanation import FlowExplanation, FlowHolder, StateForecast
from wmlab.dataflow.answers.run import Row, Run
from wmlab.dataflow.answers.search import START, Search
from wmlab.dataflow.answers.sentences import held_by, release_ms, released_by
from wmlab.dataflow.answers.windows import Open, Windows
from wmlab.dataflow.sim.rules import DataflowRules

_MOMENTS: Final = 200
"""The most moments at which a run is looked at; between two of them what held at the first is taken to hold."""
_FEWEST: Final = 2
"""Changes of size without a fall from which on a rate is told."""
_LONGER: Final = 2
"""So many times the longest stretch without a fall has state to grow until that is called unbounded; and so many times
the longest stretch without a change has it to stay until it is said to grow no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A key at an instance: the last watermark (value, since when), what is wanted, who keeps it from there."""

    instance: int
    key: int
    mark: tuple[int, int] | None
    needed: int
    window: Open | None
    holders: tuple[FlowHolder, ...]

    @property
    def weight(self) -> tuple[bool, int, int]:
        """The lower, the more it is held: held at all, then the lowest watermark, then the lowest instance."""
        return not self.holders, START if self.mark is None else self.mark[0], self.instance


def explain_vertex(
    run: Run, rules: DataflowRules, *, vertex: str, key: int | None, instance: int | None, at_ms: int
) -> FlowExplanation:
    """Why nothing comes out of `vertex` at `at_ms`; raises `RecordingError` if no watermark can reach it."""
    execution = run.execution(at_ms)
    if execution is None:
        began = run.executions[0]["started_ms"] if run.executions else None
        raise RecordingError(f"at {at_ms} ms nothing had begun.", remedy=f"ask from {began} ms on.")
    search = Search(run, rules, execution, at_ms)
    standing = standing_of(search, vertex, key, instance)
    result = rules.results.get(vertex)
    limit = None if result is None else result.limit
    state = forecast(run, vertex, standing.instance, execution=search.number, at_ms=at_ms, limit=limit)
    cause = _cause(execution, standing.holders, at_ms)
    until = release_ms(standing.holders, at_ms) if cause in {"held", "idle"} else None
    text = _ended(execution) if cause in _ENDED else _sentence(search, standing, until)
    growth = f"; {state.sentence}" if state is not None and state.bounded is False and cause != "completed" else ""
    return FlowExplanation(
        at_ms=at_ms,
        stream=run.stream,
        asked="watermark",
        vertex=vertex,
        instance=standing.instance,
        key=standing.key,
        cause=cause,
        watermark=None if standing.mark is None else standing.mark[0],
        since_ms=None if standing.mark is None else standing.mark[1],
        needed=None if standing.needed == START else standing.needed,
        holders=standing.holders if cause not in _ENDED else (),
        release_ms=until,
        state=state,
        sentence=f"{vertex} at {moment(at_ms)}: {text}{growth}",
    )


def standing_of(search: Search, vertex: str, key: int | None, instance: int | None) -> Standing:
    """The instance and the key that are held most, of those asked for."""
    keys = _keys(search, vertex, key)
    copies = range(search.run.vertex(vertex)["parallelism"])
    if instance is not None and instance not in copies:
        raise RecordingError(
            f"{vertex!r} has no instance {instance}.", remedy=f"give a number from 0 to {copies[-1]}, or leave it out."
        )
    chosen = copies if instance is None else [instance]
    standings = [_standing(search, vertex, number, one) for one in keys for number in chosen]
    return min(standings, key=lambda one: (one.weight[0], one.key if vertex not in search.joins else 0, one.weight))


def _keys(search: Search, vertex: str, key: int | None) -> tuple[int, ...]:
    known = search.run.keys(vertex)
    if not known:
        raise RecordingError(
            f"no watermark reaches {vertex!r}.", remedy="ask for a vertex behind a source that has times=."
        )
    if key is not None and key not in known:
        raise RecordingError(
            f"{vertex!r} has no watermarks of key {key}.", remedy=f"ask for one of: {', '.join(map(str, known))}."
        )
    if key is not None:
        return (key,)
    return (Windows(search, vertex).key,) if vertex in search.windows else known


def _standing(search: Search, vertex: str, instance: int, key: int) -> Standing:
    outwards = vertex in search.joins or search.run.vertex(vertex)["kind"] == "source"
    if outwards:
        mark = search.sent(vertex, instance, key)
    else:
        mark = search.merged(vertex, instance, "global").emitted.get(key)
    waiting = None
    needed = START if mark is None else mark[0] + 1
    if vertex in search.windows:
        windows = Windows(search, vertex)
        waiting = next((window for window in windows.open() if instance in window.instances), None)
        needed = needed if waiting is None else max(needed, windows.rule.closed_by(waiting.end))
    holders = (search.at_output if outwards else search.at_inputs)(vertex, instance, key, needed)
    return Standing(instance=instance, key=key, mark=mark, needed=needed, window=waiting, holders=holders)


def _cause(execution: Row, holders: tuple[FlowHolder, ...], at_ms: int) -> str:
    if execution["ended_ms"] is not None and execution["ended_ms"] <= at_ms and execution["outcome"] != "running":
        return str(execution["outcome"])
    kinds = {holder.kind for holder in holders}
    if kinds & {"no key", "no bound"}:
        return "stuck"
    if not kinds:
        return "moving"
    if kinds <= {"idle"}:
        return "idle"
    return "ended" if kinds <= {"ended"} else "held"


_ENDED: Final = {"failed": "failed", "completed": "was complete"}


def _ended(execution: Row) -> str:
    reason = f": {execution['reason']}" if execution["reason"] else ""
    return f"the job {_ENDED[execution['outcome']]} at {moment(execution['ended_ms'])}{reason}"


def _sentence(search: Search, standing: Standing, until_ms: int | None) -> str:
    if standing.mark is None:
        parts = [f"no watermark of key {standing.key} has come"]
    else:
        value, since_ms = standing.mark
        parts = [f"the watermark of key {standing.key} stands at {moment(value)} since {moment(since_ms)}"]
    if standing.window is not None:
        window = standing.window
        parts[0] += (
            f", and the window from {moment(window.start)} to {moment(window.end)} with "
            f"{counted(window.rows, 'row')} waits for {moment(standing.needed)}"
        )
    held = held_by(search.run, standing.holders)
    parts += [held or "nothing holds it back"]
    parts += [released] if (released := released_by(search.run, standing.holders, until_ms)) else []
    return "; ".join(parts)


def forecast(
    run: Run, vertex: str, instance: int, *, execution: int, at_ms: int, limit: int | None
) -> StateForecast | None:
    """The forecast for one instance at a moment; None if it has held nothing by then."""
    begun = next(row["started_ms"] for row in run.executions if row["execution"] == execution)
    points = [
        (row["at_ms"], row["size"])
        for row in run.indexed("state").get((vertex, instance), ())
        if row["buffer"] == "all" and row["execution"] == execution and row["at_ms"] <= at_ms
    ]
    if not points:
        return None
    falls = [at for (_, before), (at, after) in pairwise([(begun, 0), *points]) if after < before]
    since_ms = falls[-1] if falls else points[0][0]
    size = points[-1][1]
    rises = [point for point in points if point[0] >= since_ms]
    changed_ms = rises[-1][0]
    grown = size - rises[0][1]
    rate = 1_000 * grown / (changed_ms - since_ms) if changed_ms > since_ms else 0.0
    still = at_ms - changed_ms > _LONGER * max([later - at for (at, _), (later, _) in pairwise(rises)], default=at_ms)
    bounded = None if still else _bounded(rises, falls, begun, at_ms, grown)
    return StateForecast(
        vertex=vertex,
        instance=instance,
        at_ms=at_ms,
        size=size,
        peak=max(after for _, after in points),
        since_ms=since_ms,
        changed_ms=changed_ms,
        rate_per_s=round(rate, 3),
        shrank=bool(falls),
        limit=limit,
        limit_at_ms=_limit_at_ms(limit, size, rate, at_ms) if bounded is False else None,
        bounded=bounded,
    )


def _bounded(rises: Sequence[tuple[int, int]], falls: Sequence[int], begun: int, at_ms: int, grown: int) -> bool | None:
    growing = grown > 0 and len(rises) > _FEWEST
    if not falls:
        return False if growing else None
    longest = max(later - earlier for earlier, later in pairwise([begun, *falls]))
    return not (growing and at_ms - falls[-1] > _LONGER * longest)


def _limit_at_ms(limit: int | None, size: int, rate: float, at_ms: int) -> int | None:
    if limit is None or rate <= 0 or size >= limit:
        return None
    return at_ms + round(1_000 * (limit - size) / rate)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class FlowStragglers(Stragglers):
    """The holders of the watermark at a vertex over a run. Until every input has one, what it costs is unknown."""

    @property
    def sentence(self) -> str:
        """Who held it longest, in one sentence."""
        if not self.stragglers:
            return f"Over {span(self.run_ms)} nobody held the {self.bound} in {self.stream}."
        first, *_ = self.longest
        cost = "" if not first.cost_ms else f", which cost {self._ms(first.cost_ms)} of mean lag"
        return (
            f"Over {span(self.run_ms)} the {self.bound} in {self.stream} was held longest by {first.who} "
            f"({first.why}): for {self._ms(first.held_ms)}{cost}."
        )

    @property
    def longest(self) -> tuple[Straggler, ...]:
        """The holders, the longest first; those that still could go on before those that were all idle."""
        return tuple(sorted(self.stragglers, key=lambda one: (one.why == "idle", -one.held_ms, one.who)))


def stragglers_at(run: Run, rules: DataflowRules, *, vertex: str, key: int | None, instance: int | None) -> Stragglers:
    """The holders of the watermark of `vertex` from the first execution to the end, the most expensive first."""
    begun = run.executions[0]["started_ms"] if run.executions else 0
    end_ms = max(run.end_ms, begun) if rules.end_ms is None else rules.end_ms
    last = run.executions[-1] if run.executions else None
    if last is not None and last["ended_ms"] is not None:
        end_ms = last["ended_ms"]
    stretches = list(_stretches(run, rules, vertex, key, instance, (begun, end_ms)))
    run_ms = max(end_ms - begun, 1)
    found = stragglers_from(stretches, stream=run.stream, run_ms=run_ms)
    return FlowStragglers(stream=run.stream, run_ms=run_ms, stragglers=found.stragglers, bound=f"watermark at {vertex}")


def _stretches(
    run: Run, rules: DataflowRules, vertex: str, key: int | None, instance: int | None, whole: tuple[int, int]
) -> Iterator[Stretch]:
    for from_ms, to_ms in pairwise(_moments(run, *whole)):
        execution = run.execution(from_ms)
        if execution is None:
            continue
        search = Search(run, rules, execution, from_ms)
        for holder in (held := standing_of(search, vertex, key, instance).holders):
            yield Stretch((holder.name,), holder.kind, from_ms, to_ms, holder.behind_by, len(held))


def _moments(run: Run, begun: int, end_ms: int) -> list[int]:
    """The moments at which some watermark moved, thinned, with both ends."""
    moments = sorted({row["at_ms"] for row in run.rows("coalescing") if begun < row["at_ms"] < end_ms})
    if len(moments) > _MOMENTS:
        moments = [moments[(n + 1) * len(moments) // _MOMENTS - 1] for n in range(_MOMENTS)]
    return [begun, *moments, end_ms]
