"""A pytest plugin, which comes with wmlab: a fixture that compares your own watermark code with a rule.

pytest loads this file wherever wmlab is installed, so nothing else is imported before the fixture is used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from wmlab.testing.known_rules import Machine


class AgreesWithRule(Protocol):
    """What the fixture gives."""

    def __call__(self, mine: Callable[..., Machine], rule: str, *, examples: int | None = None) -> None:
        """Fail the test if a machine does not answer as a rule."""


def pytest_addoption(parser: Any) -> None:
    """Add `--watermark-examples`."""
    parser.getgroup("wmlab").addoption(
        "--watermark-examples",
        type=int,
        metavar="N",
        help="how many histories `agrees_with_rule` draws where a test does not say it (default: 500)",
    )


@pytest.fixture
def agrees_with_rule(request: pytest.FixtureRequest) -> AgreesWithRule:
    """A function of a machine of your own and a rule, which fails the test if the machine does not answer as the rule.

        def test_my_valve(agrees_with_rule):
            agrees_with_rule(MyValve, "flink-valve")

    The failure has the smallest history in which they differ, as a test that can be pasted. `examples` is how many
    histories are drawn, by default what `--watermark-examples` says, or else 500; they are the same ones each time.
    """
    from wmlab.testing.compare import EXAMPLES, find_disagreement

    asked: int | None = request.config.getoption("--watermark-examples")

    def compare(mine: Callable[..., Machine], rule: str, *, examples: int | None = None) -> None:
        __tracebackhide__ = True
        drawn = next((count for count in (examples, asked) if count is not None), EXAMPLES)
        if disagreement := find_disagreement(mine, rule, examples=drawn):
            pytest.fail(f"{disagreement.sentence} As a test:\n\n{disagreement.test}", pytrace=False)

    return compare
