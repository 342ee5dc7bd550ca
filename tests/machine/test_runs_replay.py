"""The same scenario gives the same bytes: in one process and another, before and after it was a YAML file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.machine.batch import Batch, given_of
from tests.machine.campaign import Made, Shard as OneShard, make
from wmlab.core.recording import Recording
from wmlab.streams.api import Scenario
from wmlab.streams.tables import TABLES

REPLAYED = 20


def contents(recording: Recording, path: Path) -> dict[str, bytes]:
    """Every file of a recording, by its place in the directory."""
    recording.save(path)
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


def test_a_run_made_again_is_the_same_byte_by_byte(made: list[Made], tmp_path: Path) -> None:
    texts = [text for one in made for text in one.scenarios.values()]
    for number, text in enumerate(texts[:: len(texts) // REPLAYED]):
        scenario = Scenario.from_yaml(text)
        assert scenario.to_yaml() == text
        once = contents(scenario.record(progress=False), tmp_path / f"{number}-once")
        again = contents(Scenario.from_yaml(text).record(progress=False), tmp_path / f"{number}-again")
        assert once == again
        assert len(once) == len(TABLES) + 1
    assert number + 1 >= REPLAYED


@pytest.mark.parametrize("machine", ["sound", "stale"])
def test_a_shard_made_in_another_process_is_the_same(made: list[Made], machine: str) -> None:
    """The shared runs come from child processes; made here, from the texts of their scenarios, they are equal."""
    theirs = next(one for one in made if one.shard.machine == machine)
    run = list(theirs.scenarios)[7]
    mine = Batch()
    mine.add(run, given_of(Scenario.from_yaml(theirs.scenarios[run]).record(progress=False)))
    for name, table in theirs.tables.items():
        rows = [row for row in table.to_pylist() if row["stream"].startswith(f"{run}/")]
        assert rows == mine.table(name).to_pylist()


def test_a_shard_depends_on_its_seed_alone() -> None:
    once, again, other = (make(OneShard("stale", 5, seed)) for seed in (3, 3, 4))
    assert once.scenarios == again.scenarios
    assert once.findings == again.findings
    assert list(once.scenarios.values()) != list(other.scenarios.values())
