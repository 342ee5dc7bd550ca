"""Curves that would hide each other are drawn as one."""

from __future__ import annotations

from wmlab.core.charts.axis import time_axis
from wmlab.core.charts.scene import Panel, Rule, Scene, Steps, joined


def steps(name: str, role: str, ys: list[int | None], xs: list[int] | None = None) -> Steps:
    return Steps(name=name, role=role, xs=xs or list(range(len(ys))), ys=ys)


def test_equal_curves_are_one_with_all_names() -> None:
    curves = [steps("a", "lower", [1, 2, 3]), steps("b", "upper", [1, 2, 4]), steps("c", "third", [1, 2, 3])]
    found = joined(curves)
    assert [(curve.name, curve.role) for curve in found] == [("a and c", "third"), ("b", "upper")]


def test_rows_that_change_nothing_make_no_other_curve() -> None:
    curves = [steps("a", "lower", [1, 1, 2], [0, 1, 5]), steps("b", "upper", [1, 2], [0, 5])]
    assert [curve.name for curve in joined(curves)] == ["a and b"]


def test_a_rule_beyond_the_ends_of_the_axis_is_left_out() -> None:
    axis = time_axis("clock", [10, 20])
    rules = [Rule(at_ms, str(at_ms)) for at_ms in (5, 10, 20, 25)]
    scene = Scene(title="", subtitle="", across=axis, panels=[Panel(up=axis, layers=[], height=10)], rules=rules)
    assert [rule.label for rule in scene.rules] == ["10", "20"]
