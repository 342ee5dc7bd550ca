"""The order in which a process of a test run takes the files."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.conftest import SLOW_FIXTURES, slow_files_first


def item(name: str, *fixtures: str) -> Any:
    file, test = name.split("::")
    return SimpleNamespace(path=Path(file), name=test, fixturenames=fixtures)


def test_files_with_a_slow_test_come_first_whole_and_in_their_order() -> None:
    given = [item("a::1"), item("b::2"), item("b::3", "tmp_path", "spark"), item("c::4"), item("d::5", "made")]
    assert [each.name for each in slow_files_first(given)] == ["2", "3", "5", "1", "4"]


def test_every_slow_fixture_is_that_of_a_test() -> None:
    """A fixture that has another name by now would be slow no longer."""
    defined = "\n".join(path.read_text(encoding="utf-8") for path in Path(__file__).parents[1].rglob("*.py"))
    assert [name for name in sorted(SLOW_FIXTURES) if f"def {name}(" not in defined] == []
