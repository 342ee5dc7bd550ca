"""No chart of streams writes a sentence; each has one short headline over its facts."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.project import source
from tests.streams.everything import everything
from wmlab.core.charts.chart import Chart
from wmlab.streams import charts

CHARTS = sorted((source.ROOT / "wmlab" / "streams" / "charts").glob("*.py"))
MOST_WORDS = 25
_END = re.compile(r"\w\.(\s|$)")
DRAWN: dict[str, Callable[[], Chart]] = {
    "age of an event": lambda: charts.event_vs_arrival(everything(), stream="orders"),
    "alignment": lambda: charts.alignment(everything(), by="reader"),
    "cycles": lambda: charts.watermark_cycles(everything(), stream="orders"),
    "holders": lambda: charts.holders(everything().explain(stream="orders")),
    "generations": lambda: charts.generations(everything(), stream="orders"),
    "key space": lambda: charts.key_space(everything(), stream="orders"),
    "lag": lambda: charts.lag(everything(), stream="orders"),
    "marks": lambda: charts.writer_marks(everything(), stream="orders"),
    "moment": lambda: charts.moment(everything(), 14_000, stream="orders"),
    "stream cut": lambda: charts.stream_cut(everything(), stream="orders"),
    "windows": lambda: charts.time_bounds(
        everything().to_pandas("windows").query("stream == 'orders' and reader == 'billing-0'"), recording=everything()
    ),
}


def sentences(tree: ast.AST, *, is_error: bool = False) -> Iterator[str]:
    """The texts of a module that are sentences, but for docstrings, and what an error says."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        within_error = is_error or isinstance(node, ast.Raise)
        if isinstance(node, ast.JoinedStr | ast.Constant) and not within_error:
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in parts)
            if _END.search(text):
                yield ast.unparse(node)
            continue
        yield from sentences(node, is_error=within_error)


@pytest.mark.parametrize("path", CHARTS, ids=lambda path: path.stem)
def test_no_chart_writes_a_sentence(path: Any) -> None:
    assert list(sentences(ast.parse(path.read_text(encoding="utf-8")))) == []


@pytest.mark.parametrize("code", ['f"{who} fell."', 'x = "None. Two"', 'a + " It stopped. "', 'f"Drawn is {n}. {m}"'])
def test_a_sentence_in_code_is_seen(code: str) -> None:
    assert len(list(sentences(ast.parse(code)))) == 1


@pytest.mark.parametrize(
    "code", ['"""A module."""', 'raise ValueError(f"{x} is wrong.")', 'Axis("event time", x)', 'f"{a}: {b}, held"']
)
def test_a_docstring_an_error_and_a_label_are_none(code: str) -> None:
    assert list(sentences(ast.parse(code))) == []


@pytest.mark.parametrize("name", sorted(DRAWN))
def test_a_chart_has_one_short_headline_and_its_facts(name: str) -> None:
    chart = DRAWN[name]()
    assert chart.scene.subtitle == chart.sentence
    assert len(chart.sentence.split()) <= MOST_WORDS
    assert chart.facts
    for label in chart.facts:
        assert chart.facts.label(label).meaning
