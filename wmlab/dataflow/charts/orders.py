"""The chart of interleavings: every distinct output as a bar as long as the number of orders that give it."""

from __future__ import annotations

from typing import Any, Final

from wmlab.core.charts.axis import Numbers
from wmlab.core.charts.chart import Chart
from wmlab.core.charts.rows import SERIES, columns
from wmlab.core.charts.scene import Blocks, Box, Layer, Scene, lanes
from wmlab.core.errors import ChartError
from wmlab.core.words import grouped

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
    fewer = f" Drawn are the {_MOST} most frequent of {grouped(len(outcomes))} outputs."
    left_out = fewer if len(outcomes) > _MOST else ""
    most = max(outcome.count for outcome in shown)
    scene = Scene(
        title=title or "Does what comes out depend on the order?",
        subtitle=permutations.sentence + left_out,
        across=Numbers("orders that give it", 0, most + max(most // 20, 1)),
        panels=[lanes([_short(permutations.shown(outcome)) for outcome in shown], _bars(permutations, shown))],
    )
    rows = [(entry.count, list(entry.output), entry.final, entry.failure, list(entry.example)) for entry in outcomes]
    data = columns(rows, "count", "output", "final", "failure", "example")
    return Chart(sentence=permutations.sentence, data=data, scene=scene)


def _bars(permutations: Any, shown: list[Any]) -> list[Layer]:
    ends = [final for final in permutations.finals if final != _FAILS]
    roles = dict(zip(ends, SERIES, strict=False)) | {_FAILS: "alarm"}
    boxes: dict[str, list[Box]] = {}
    for lane, outcome in enumerate(shown):
        example = " ".join(outcome.example)
        hover = f"{grouped(outcome.count)} orders: {permutations.shown(outcome)}; for example {_short(example, 120)}"
        box = Box(0, outcome.count, lane - 0.34, lane + 0.34, f"{grouped(outcome.count)} · {_short(example)}", hover)
        boxes.setdefault(outcome.final if outcome.final in roles else _OTHERS, []).append(box)
    legend = {name: name if permutations.ends == "result" else f"ends with {name}" for name in ends}
    return [
        Blocks(name=legend.get(name, name), role=roles.get(name, "unknown"), boxes=bars, opacity=0.3)
        for name, bars in boxes.items()
    ]


def _short(text: str, longest: int = _LONGEST) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
