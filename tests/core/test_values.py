"""The parts of a scenario as values."""

from __future__ import annotations

import pickle
from typing import Annotated

import numpy as np
import pytest
from pydantic import Discriminator, Tag

import wmlab as wm
from wmlab.core.simulation import Uniform
from wmlab.core.values import Problems, branch, value

_LIST, _PART = branch("list"), branch("part")
_Parts = Annotated[
    Annotated[Uniform, Tag(_PART)] | Annotated[tuple[Uniform, ...], Tag(_LIST)],
    Discriminator(lambda offered: _LIST if isinstance(offered, list | tuple) else _PART),
]


@value
class Whole:
    parts: _Parts


def test_fields_by_place_are_those_by_name() -> None:
    """Numbers of numpy are numbers, and a mistake is at the name of its field."""
    assert Uniform(np.int64(1), np.int64(5)) == Uniform(low_ms=1, high_ms=5)
    for offered, said in (
        ((-1, 5), r"low_ms: .*\(got -1\)"),
        ((1, 5, 6), "unexpected positional argument"),
    ):
        with pytest.raises(Problems, match=said):
            Uniform(*offered)
    with pytest.raises(Problems, match="low_ms: got multiple values for argument"):
        Uniform(1, high_ms=5, low_ms=2)


def test_mistakes_of_a_value_come_through_from_another_process() -> None:
    with pytest.raises(Problems) as raised:
        Uniform(-1, 5)
    copied = pickle.loads(pickle.dumps(raised.value))
    assert (str(copied), copied.problems) == (str(raised.value), raised.value.problems)


@pytest.mark.parametrize(
    ("parts", "path"),
    [
        ({"low_ms": -1, "high_ms": 1}, "parts.low_ms"),
        ([{"low_ms": 0, "high_ms": 1}, {"high_ms": 1}], "parts[1].low_ms"),
        ([5], "parts[0]"),
        (5, "parts"),
        ({"low_ms": 0, "high_ms": 1, "list": 1}, "parts.list"),
    ],
)
def test_a_mistake_below_a_union_is_where_it_was_written_whichever_branch_was_chosen(parts: object, path: str) -> None:
    with pytest.raises(Problems) as raised:
        Whole(parts)
    assert [problem.path for problem in raised.value.problems] == [path]


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"readers": 5}, "readers"),
        ({"readers": [{"readers": 0}]}, "readers[0].readers"),
        ({"writers": [5]}, "writers[0]"),
        ({"writers": [{"name": "w", "kind": "unheard-of"}]}, "writers[0].kind"),
        ({"writers": [{"name": "w", "kind": "transactional", "every_ms": 0}]}, "writers[0].every_ms"),
    ],
)
def test_a_mistake_in_a_scenario_is_where_it_was_written(fields: dict[str, object], path: str) -> None:
    parts = {"writers": [wm.EventWriter("w", rate_per_s=1)], "duration_ms": 10} | fields
    with pytest.raises(Problems) as raised:
        wm.Scenario("s", **parts)
    assert [problem.path for problem in raised.value.problems] == [path]
