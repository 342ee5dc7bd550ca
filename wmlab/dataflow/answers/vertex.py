"""Why nothing comes out of a vertex at a moment: where its watermark stands, who holds it, what would release it.

Source: "Keyed watermark support", Description of current behavior; "Stream-to-stream join", Implementation of multiple
watermarks.
"""

from __future__ import annotations

from dataclasses import dataclass

from wmlab.core.errors import RecordingError
from wmlab.core.words import counted, moment
from wmlab.dataflow.answers.explanation import FlowExplanation, FlowHolder
from wmlab.dataflow.answers.holders import Search
from wmlab.dataflow.answers.partitions import START
from wmlab.dataflow.answers.rules import FlowRules
from wmlab.dataflow.answers.run import Row, Run
from wmlab.dataflow.answers.state import forecast
from wmlab.dataflow.answers.told import held_by, release_ms, released_by
from wmlab.dataflow.answers.windows import Open, open_windows


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
    run: Run, rules: FlowRules | None, *, vertex: str, key: int | None, instance: int | None, at_ms: int
) -> FlowExplanation:
    """Why nothing comes out of `vertex` at `at_ms`; raises `RecordingError` if no watermark can reach it."""
    execution = run.execution(at_ms)
    if execution is None:
        began = run.executions[0]["started_ms"] if run.executions else None
        raise RecordingError(f"at {at_ms} ms nothing had begun.", remedy=f"ask from {began} ms on.")
    search = Search(run, rules, execution, at_ms)
    standing = standing_of(search, vertex, key, instance)
    limit = search.rules.limits.get(vertex)
    state = forecast(run, vertex, standing.instance, execution=search.number, at_ms=at_ms, limit=limit)
    cause = _cause(execution, standing.holders, at_ms)
    until = release_ms(standing.holders, at_ms) if cause in {"held", "idle"} else None
    told = _over(execution) if cause in {"failed", "completed"} else _told(search, standing, until)
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
        holders=standing.holders if cause not in {"failed", "completed"} else (),
        release_ms=until,
        state=state,
        sentence=f"{vertex} at {moment(at_ms)}: {told}{growth}",
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
    found = [_standing(search, vertex, number, one) for one in keys for number in chosen]
    return min(found, key=lambda one: (one.weight[0], one.key if vertex not in search.rules.joins else 0, one.weight))


def _keys(search: Search, vertex: str, key: int | None) -> tuple[int, ...]:
    known = search.run.keys(vertex)
    window = search.rules.windows.get(vertex)
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
    return (window.key,) if window is not None else known


def _standing(search: Search, vertex: str, instance: int, key: int) -> Standing:
    join, window = search.rules.joins.get(vertex), search.rules.windows.get(vertex)
    kind = search.run.vertex(vertex)["kind"]
    if join is not None or kind == "source":
        mark = search.sent(vertex, instance, key)
    else:
        mark = search.merged(vertex, instance, "global").emitted.get(key)
    waiting = None
    needed = START if mark is None else mark[0] + 1
    if window is not None:
        waiting = next((one for one in open_windows(search, vertex, window) if instance in one.instances), None)
        needed = needed if waiting is None else max(needed, window.needs(waiting.end))
    outwards = join is not None or kind == "source"
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


def _over(execution: Row) -> str:
    reason = f": {execution['reason']}" if execution["reason"] else ""
    return (
        f"the job {_ENDED.get(execution['outcome'], execution['outcome'])} at {moment(execution['ended_ms'])}{reason}"
    )


_ENDED = {"failed": "failed", "completed": "was complete", "restarted": "was being restarted"}


def _told(search: Search, standing: Standing, until_ms: int | None) -> str:
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
