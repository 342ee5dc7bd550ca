"""The chart of interleavings: every distinct output as a bar as long as the number of orders that give it."""

from __future__ import annotations

from typing import Any, Final

from wmlab.core.charts.axis import Numbers
from wmlab.core.charts.chart import Chart
from wmlab.core.charts.rows import SERIES
from wmlab.core.charts.scene import Blocks, Box, Layer, Panel, Scene, lanes
from wmlab.core.errors import ChartError

_MOST: Final = 16
_LONGEST: Final = 44
_FAILS: Final = "fails"
_OTHERS: Final = "other ends"


def interleavings(permutations: Any, *, title: str | None = None) -> Chart:
    """Draw the distinct outputs of the same inputs in different orders, the most frequent first.

    `permutations` is the answer of `wm.dataflow.permutations` or of `Dataflow.permutations`. Bars are coloured by what
    the output ends with. Raises `ChartError` if it is none.
    """
    if not hasattr(permutations, "outcomes") or not len(permutations):
        raise ChartError(
            f"A chart of interleavings is drawn of permutations (got {type(permutations).__name__}).",
            remedy="Draw the answer of wm.dataflow.permutations(...) or dataflow.permutations(...).",
        )
    outcomes = list(permutations)
    shown = outcomes[:_MOST]
    left_out = f" Drawn are the {_MOST} most frequent of {len(outcomes):,} outputs." if len(outcomes) > _MOST else ""
    panel: Panel = lanes([_short(permutations.shown(one)) for one in shown], _bars(permutations, shown))
    most = max(one.count for one in shown)
    scene = Scene(
        title=title or "Does what comes out depend on the order?",
        subtitle=permutations.sentence + left_out,
        across=Numbers("orders that give it", 0, most + max(most // 20, 1)),
        panels=[panel],
    )
    data: dict[str, list[Any]] = {
        "count": [one.count for one in outcomes],
        "output": [list(one.output) for one in outcomes],
        "final": [one.final for one in outcomes],
        "failure": [one.failure for one in outcomes],
        "example": [list(one.example) for one in outcomes],
    }
    return Chart(sentence=permutations.sentence, data=data, scene=scene)


def _bars(permutations: Any, shown: list[Any]) -> list[Layer]:
    ends = [final for final in permutations.finals if final != _FAILS]
    roles = dict(zip(ends, SERIES, strict=False)) | {_FAILS: "alarm"}
    boxes: dict[str, list[Box]] = {}
    for lane, one in enumerate(shown):
        name = one.final if one.final in roles else _OTHERS
        example = " ".join(one.example)
        told = f"{one.count:,} orders: {permutations.shown(one)}; for example {_short(example, 120)}"
        box = Box(0, one.count, lane - 0.34, lane + 0.34, f"{one.count:,} · {_short(example)}", told)
        boxes.setdefault(name, []).append(box)
    return [
        Blocks(name=_legend(permutations, name), role=roles.get(name, "unknown"), boxes=found, opacity=0.3)
        for name, found in boxes.items()
    ]


def _legend(permutations: Any, name: str) -> str:
    return name if name in {_FAILS, _OTHERS} or permutations.ends == "result" else f"ends with {name}"


def _short(text: str, longest: int = _LONGEST) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
