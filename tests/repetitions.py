"""How often tests repeat random cases: enough to meet every fault in `make test`, all of them in `make test-long`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

T = TypeVar("T")
Count = Callable[[int, str], None]
"""What the fixture `count` is: takes an amount, and what it is of, in words that follow the number."""

COUNTED = "counted"
"""The property of a test's report that holds what the test counted."""

_long = False


def configure(config: pytest.Config) -> None:
    """Take the option `--long` of the test run; called before any test is collected."""
    global _long
    _long = config.getoption("long")


def repetitions(few: T, *, long: T) -> T:
    """How many random cases a test runs, or which ones: `few` by default, `long` with `pytest --long`."""
    return long if _long else few


def counted(node: Any, amount: int, what: str) -> None:
    """Have the summary of the test run say how much a test has counted, such as 2,230 "runs by two judges"."""
    node.user_properties.append((COUNTED, (what, amount)))


def summary(reports: list[Any]) -> list[str]:
    """A line for each kind of thing that tests have counted, summed up over the tests."""
    totals: dict[str, int] = {}
    for report in (report for report in reports if getattr(report, "when", "") == "teardown"):
        for name, value in report.user_properties:
            if name == COUNTED:
                what, amount = value
                totals[what] = totals.get(what, 0) + amount
    return [f"{amount:,} {what}" for what, amount in sorted(totals.items())]
