"""Damaged and hostile input is refused by an error of wmlab, quickly, and leaves nothing half-written."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.mutants import TEXTS, VALUES, Recorded, attempt, limited
from tests.repetitions import Count, repetitions
from wmlab.core.errors import ScenarioError
from wmlab.streams.api import Scenario

SHARDS, MUTANTS, LEAST = repetitions((4, 100, 4), long=(8, 250, 9))
"""How many shards, how many mutants in each, and of how many each of three outcomes has to have more."""
SEED = 1
"""Where chance begins; with this seed every shard has that many of each."""
WRITER = {"name": "w", "rate_per_s": 1}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return Recorded.under(tmp_path_factory.mktemp("recorded"))


@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_mutant_is_accepted_or_refused_in_two_seconds(
    recorded: Recorded, tmp_path: Path, shard: int, count: Count
) -> None:
    outcomes = [attempt(SEED, number, tmp_path, recorded) for number in range(shard * MUTANTS, (shard + 1) * MUTANTS)]
    assert [outcome for outcome in outcomes if outcome.verdict == "broken"] == []
    verdicts = Counter((outcome.kind, outcome.verdict) for outcome in outcomes)
    assert (
        min(verdicts["scenario", "accepted"], verdicts["scenario", "refused"], verdicts["recording", "refused"]) > LEAST
    )
    assert {kind for kind, _ in verdicts} == {"scenario", "recording", "command"}
    count(len(outcomes), "damaged inputs that were accepted or refused")


@pytest.mark.parametrize("number", range(len(TEXTS)))
def test_a_hostile_text_is_refused_at_once(number: int) -> None:
    with limited(), pytest.raises(ScenarioError, match="To repair it"):
        Scenario.from_yaml(f"wmlab: 1\nname: x\nwriters: [{{name: w, rate_per_s: 1}}]\nx: {TEXTS[number]}")


@pytest.mark.parametrize("field", ["duration_ms", "start_ms", "latency_ms", "seed", "script", "readers", "network"])
def test_a_hostile_value_is_admitted_or_refused_by_the_name_of_its_field(field: str) -> None:
    told = [_told({"name": "x", "writers": [WRITER], "duration_ms": 1, field: offered}) for offered in VALUES]
    assert all(field in text for text in told if text)
    assert sum(map(bool, told)) > len(VALUES) / 2


def _told(fields: dict[str, Any]) -> str:
    try:
        Scenario(**fields)
    except ScenarioError as refused:
        return str(refused)
    return ""
