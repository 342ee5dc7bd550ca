"""Windows and joins of a dataflow: what waits for a watermark before it lets a result go."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY
from typing import Literal

from wmlab.core.values import Ms, Name, Period, Problem, Problems, value
from wmlab.dataflow.scenario.expressions import Expression
from wmlab.dataflow.scenario.parts import Aggregates, Column, Copies, Grouping, Size


@value
class Window:
    """Aggregates of the rows in windows of `size_ms`, sliding by `slide_ms` (None: tumbling), per group `by`.

    The watermark of `column`'s key closes them; all other watermarks end here. A result has the columns `start`,
    `end`, those of `by`, and the aggregates; the key goes on to `end`. `limit` is the most accumulators it may hold
    (None: any number), one per frame and group. With two `stages` the first collects frames where the rows are, the
    second combines them per group.
    Source: upstream class `SlidingWindowP`.
    """

    name: Name
    size_ms: Period
    _: KW_ONLY
    column: Column
    slide_ms: Period | None = None
    by: Grouping = ()
    aggregates: Aggregates
    stages: Literal[1, 2] = 1
    limit: Size | None = None
    parallelism: Copies = 1
    turn_ms: Ms = 0
    kind: Literal["window"] = "window"

    def __post_init__(self) -> None:
        problems = tuple(_window_problems(self))
        if problems:
            raise Problems(f"Window {self.name!r}", problems)

    @property
    def step_ms(self) -> int:
        """The distance of two window ends: the slide, or the size of a tumbling window."""
        return self.size_ms if self.slide_ms is None else self.slide_ms

    @property
    def detail(self) -> str:
        """What it does, in one line."""
        slide = "" if self.slide_ms is None else f" sliding by {self.slide_ms} ms"
        stages = ", two stages" if self.stages == 2 else ""
        return f"{', '.join(self.aggregates.values())} over {self.size_ms} ms{slide} of {self.column}{stages}"


@value
class SessionWindow:
    """Aggregates of the rows of a group that follow each other within less than `timeout_ms`.

    Results, keys and columns as in `Window`. Source: upstream class `SessionWindowP`.
    """

    name: Name
    timeout_ms: Period
    _: KW_ONLY
    column: Column
    by: Grouping = ()
    aggregates: Aggregates
    parallelism: Copies = 1
    turn_ms: Ms = 0
    kind: Literal["session_window"] = "session_window"

    def __post_init__(self) -> None:
        problems = tuple(_result_problems(self.by, self.aggregates))
        if problems:
            raise Problems(f"SessionWindow {self.name!r}", problems)

    @property
    def detail(self) -> str:
        """What it does, in one line."""
        return f"{', '.join(self.aggregates.values())} per session of {self.timeout_ms} ms by {self.column}"


@value
class Join:
    """Rows of the first input (`left`) with rows of the second (`right`) for which `condition` holds.

    It is an expression over `left.column` and `right.column`. Its top-level parts joined by `and` that compare a
    time of the one side with a time of the other, plus or minus a number, are the bounds of the join; it needs one in
    each direction: `left.t - 5000 <= right.t and right.t <= left.t + 5000`. `outer` names the side whose rows come out
    without a partner too. `emit` chooses the output watermark, `state` as in 5.3 and later or `buffer` as in the
    design text; `limit` is the most rows it may hold. Columns of the right side whose name the left side has too are
    called `right_NAME`. Source: "Stream-to-stream join"; upstream class `StreamToStreamJoinP`.
    """

    name: Name
    condition: Expression
    _: KW_ONLY
    outer: Literal["left", "right"] | None = None
    emit: Literal["state", "buffer"] = "state"
    limit: Size | None = None
    parallelism: Copies = 1
    turn_ms: Ms = 0
    kind: Literal["join"] = "join"

    @property
    def detail(self) -> str:
        """What it does, in one line."""
        return f"{'inner' if self.outer is None else f'{self.outer} outer'}, {self.condition}"


def _window_problems(window: Window) -> Iterator[Problem]:
    if window.slide_ms is not None and window.size_ms % window.slide_ms:
        message = f"must divide size_ms, {window.size_ms}, without a rest (got {window.slide_ms})"
        yield Problem(("slide_ms",), message)
    yield from _result_problems(window.by, window.aggregates)


def _result_problems(by: tuple[str, ...], aggregates: dict[str, str]) -> Iterator[Problem]:
    taken = [*by, "start", "end"]
    for name in aggregates:
        if name in taken:
            yield Problem(("aggregates", name), f"another result column is called {name!r} too")
    for number, name in enumerate(by):
        if name in {"start", "end"} or name in by[:number]:
            yield Problem(("by", number), f"another result column is called {name!r} too")
