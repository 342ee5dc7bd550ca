"""What became of one window: it came out and what let it, it waits and for whom, or it holds nothing.

Source: "Keyed watermark support", Changes to window aggregation processors.
"""

from __future__ import annotations

from wmlab.core.errors import RecordingError
from wmlab.core.words import counted, moment
from wmlab.dataflow.answers.explanation import FlowExplanation, FlowHolder
from wmlab.dataflow.answers.holders import Search
from wmlab.dataflow.answers.rules import FlowRules, WindowRules
from wmlab.dataflow.answers.run import Row, Run
from wmlab.dataflow.answers.told import held_by, release_ms, released_by
from wmlab.dataflow.answers.windows import Fired, Open, base, fired, open_windows


def explain_window(
    run: Run, rules: FlowRules | None, window: int | tuple[int, int], *, vertex: str | None, at_ms: int
) -> FlowExplanation:
    """Why a window, by its end or (start, end), has or has not come out at `at_ms`.

    Raises `RecordingError` if there is no window vertex, several and none is named, or nothing had begun.
    """
    name = the_window(run, rules, vertex)
    assert rules is not None
    execution = run.execution(at_ms)
    if execution is None:
        raise RecordingError(f"at {at_ms} ms nothing had begun.", remedy="ask later.")
    start, end = window if isinstance(window, tuple) else (None, window)
    search = Search(run, rules, execution, at_ms)
    came = fired(search, name, rules.windows[name], end, start)
    if came:
        return _came_out(search, name, rules.windows[name], came)
    waiting = [
        one for one in open_windows(search, name, rules.windows[name]) if one.end == end and start in {None, one.start}
    ]
    if waiting:
        return _waits(search, name, rules.windows[name], waiting[0])
    return _holds_nothing(search, name, rules.windows[name], start, end)


def the_window(run: Run, rules: FlowRules | None, vertex: str | None) -> str:
    """The window vertex asked for, or the only one."""
    known = list(rules.windows) if rules is not None else []
    if vertex is not None and run.vertex(vertex)["vertex"] in known:
        return vertex
    if vertex is None and len(known) == 1:
        return known[0]
    asked = f"{vertex!r} is no window" if vertex is not None else f"there are {len(known)} windows"
    raise RecordingError(
        f"{asked} of {run.stream!r}; its windows: {', '.join(known) or 'none'}.",
        remedy="name one of them with vertex=..." if known else "ask a recording of a dataflow with a window.",
    )


def _came_out(search: Search, vertex: str, rules: WindowRules, came: list[Fired]) -> FlowExplanation:
    first = came[0]
    start, end = first.row["start"], first.row["end"]
    let = "at the end of its inputs" if first.step is None else _let(search.run, vertex, first.step, rules.key)
    return FlowExplanation(
        at_ms=search.at_ms,
        stream=search.run.stream,
        asked="window",
        vertex=vertex,
        instance=first.instance,
        key=rules.key,
        cause="came out",
        watermark=None if first.step is None else dict(first.step["emitted"])[rules.key],
        since_ms=first.at_ms,
        needed=rules.needs(end),
        sentence=(
            f"{_named(start, end)} of {vertex} came out at {moment(first.at_ms)} "
            f"with {counted(len(came), 'result')}: {let}"
        ),
    )


def _let(run: Run, vertex: str, step: Row, key: int) -> str:
    """What the last input did that let the watermark through."""
    value = dict(step["emitted"])[key]
    source = next((q["source"] for q in run.queues if q["target"] == vertex and q["edge"] == step["input"]), vertex)
    did = {"idle": "became idle", "done": "ended"}.get(step["stimulus"], "brought it")
    return f"the watermark reached {moment(value)} when {source} {did}"


def _waits(search: Search, vertex: str, rules: WindowRules, window: Open) -> FlowExplanation:
    needed = rules.needs(window.end)
    node = vertex
    holders: tuple[FlowHolder, ...] = ()
    for instance in window.instances:
        node = base(search, vertex)
        holders += search.at_inputs(node, instance, rules.key, needed)
    holders = tuple(dict.fromkeys(holders))
    until = release_ms(holders, search.at_ms)
    parts = [
        f"{_named(window.start, window.end)} of {vertex} holds {counted(window.rows, 'row')} and waits for watermark "
        f"{moment(needed)} of key {rules.key}",
        held_by(search.run, holders),
        released_by(search.run, holders, until),
    ]
    mark = search.merged(node, window.instances[0], "global").emitted.get(rules.key)
    return FlowExplanation(
        at_ms=search.at_ms,
        stream=search.run.stream,
        asked="window",
        vertex=vertex,
        instance=window.instances[0],
        key=rules.key,
        cause="waiting",
        watermark=None if mark is None else mark[0],
        since_ms=None if mark is None else mark[1],
        needed=needed,
        holders=holders,
        release_ms=until,
        sentence="; ".join(part for part in parts if part),
    )


def _holds_nothing(search: Search, vertex: str, rules: WindowRules, start: int | None, end: int) -> FlowExplanation:
    begins = end - rules.size_ms if start is None else start
    node = base(search, vertex)
    late = [
        drop
        for drop in search.run.drops
        if drop["vertex"] == node and drop["at_ms"] <= search.at_ms and begins <= drop["time"] < end
    ]
    lost = f"; {counted(len(late), 'row')} of its time came too late and were dropped" if late else ""
    return FlowExplanation(
        at_ms=search.at_ms,
        stream=search.run.stream,
        asked="window",
        vertex=vertex,
        key=rules.key,
        cause="empty",
        needed=rules.needs(end),
        sentence=(
            f"{_named(begins, end)} of {vertex} holds no row at {moment(search.at_ms)}, and a window without rows "
            f"gives no result{lost}"
        ),
    )


def _named(start: int, end: int) -> str:
    return f"the window from {moment(start)} to {moment(end)}"
