"""Edge case 15: what idle inputs do to a merge and to a join that stand behind a join. Both are the document's own."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dataflow.model.driving import MODES, plain, rows
from wmlab.dataflow.model.aggregate import Aggregate
from wmlab.dataflow.model.deviations import deviations
from wmlab.dataflow.model.frames import WindowShape
from wmlab.dataflow.model.items import IDLE, Event, Item, Watermark
from wmlab.dataflow.model.join import StreamJoin
from wmlab.dataflow.model.processor import Processor
from wmlab.dataflow.model.tasklet import InputEdge, Tasklet
from wmlab.dataflow.model.transform import Transform
from wmlab.dataflow.model.window import Window

MODE = pytest.mark.parametrize("mode", MODES)


class Tree:
    """Processors of two inputs or one, each of which sends to an edge of the next one by `links`."""

    def __init__(self, mode: str, links: dict[str, tuple[str, int]], **processors: tuple[int, Processor[Any]]) -> None:
        self.runtimes = {
            name: Tasklet(processor=made, edges=(InputEdge(1),) * edges, deviations=deviations(mode), name=name)
            for name, (edges, made) in processors.items()
        }
        self.states = {name: runtime.start() for name, runtime in self.runtimes.items()}
        self.links = links
        self.out: dict[str, list[Any]] = {name: [] for name in processors}

    def put(self, name: str, edge: int, *items: Item) -> None:
        runtime = self.runtimes[name]
        self.states[name] = runtime.push(self.states[name], edge=edge, queue=0, items=items)
        while (turn := runtime.step(self.states[name])).progress:
            self.states[name] = turn.state
            self.out[name] += plain(turn.out)
            if name in self.links and turn.out:
                self.put(*self.links[name], *turn.out)


def joined(left: dict[int, int], right: dict[int, int], width: int) -> StreamJoin:
    """Equality of the first key's columns of both sides."""
    (one, at), (other, there) = next(iter(left.items())), next(iter(right.items()))
    return StreamJoin(
        kind="left outer",
        keys=(left, right),
        widths=(width, 1),
        bounds={one: {other: 0}, other: {one: 0}},
        condition=lambda row: row[at] == row[width + there],
    )


@MODE
def test_edge_case_15_a_merge_goes_on_without_an_idle_join(mode: str) -> None:
    window = Window(shape=WindowShape(10, 10), time=0, aggregates=(Aggregate("count"),))
    tree = Tree(
        mode,
        {"join": ("merge", 0), "merge": ("aggregation", 0)},
        join=(2, joined({0: 0}, {1: 0}, 1)),
        merge=(2, Transform.merge()),
        aggregation=(1, window),
    )
    tree.put("merge", 1, Event((3, 3)), Watermark(0, 15))
    assert tree.out["aggregation"] == []
    tree.put("join", 0, IDLE)
    assert tree.out["aggregation"] == []
    tree.put("join", 1, IDLE)
    assert tree.out["join"] == ["idle"]
    assert tree.out["aggregation"] == [(0, 10, 1), ("wm", 0, 15)]


@MODE
def test_edge_case_15_an_outer_join_stalls_behind_an_idle_one(mode: str) -> None:
    outer = joined({0: 0, 1: 1}, {2: 0}, 2)
    tree = Tree(
        mode,
        {"inner": ("outer", 0)},
        inner=(2, joined({0: 0}, {1: 0}, 1)),
        outer=(2, outer),
    )
    tree.put("inner", 0, IDLE)
    tree.put("inner", 1, IDLE)
    for time in range(20):
        tree.put("outer", 1, Event((time,)), Watermark(2, time + 1))
        assert outer.size(tree.states["outer"].processor) == time + 1
    assert tree.out == {"inner": ["idle"], "outer": []}
    tree.put("inner", 0, Event((21,)), Watermark(0, 21))
    tree.put("inner", 1, Watermark(1, 21))
    assert rows(tree.out["outer"]) == []
    assert outer.size(tree.states["outer"].processor) == 0
    assert tree.out["outer"] == [("wm", 0, 20), ("wm", 2, 20)]
