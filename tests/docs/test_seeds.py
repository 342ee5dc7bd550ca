"""Every requirement of the documents has a row in docs/seeds.md, and what the row names exists."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

import wmlab as wm
from wmlab.streams.recording import StreamRecording

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "seeds.md").read_text()
LINES = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| requirement |")]
ROW = re.compile(r"\| ([^|]+) \| ([^|]+) \| (?P<names>[^|]+) \| (?P<notebook>[^|]+) \| `(?P<test>[^`|]+)` \|")
MADE = re.compile(r"([A-Z]\w+)\(([^)]*)\)")


@pytest.mark.parametrize("line", LINES, ids=lambda line: line[2:60])
def test_what_a_row_names_exists(line: str) -> None:
    row = ROW.fullmatch(line)
    assert row is not None, "a row has requirement, section, name in wmlab, notebook and test"
    path, _, name = row["test"].partition("::")
    text = (ROOT / "tests" / path).read_text()
    assert not name or f"def {name}(" in text
    assert notebooks(row["notebook"]) != []
    for quoted in re.findall(r"`([^`]+)`", row["names"]):
        assert exists(quoted), quoted


def notebooks(named: str) -> list[Path]:
    """The notebook with this number or name, or behind this link."""
    if link := re.search(r"\]\(\.\./([^)]+)\)", named):
        return list(ROOT.glob(link[1]))
    return list(ROOT.glob(f"notebooks/tutorials/{named}_*.ipynb" if named.isdigit() else f"notebooks/*/{named}.ipynb"))


def exists(quoted: str) -> bool:
    """Whether there is such a class with these options, such an action, method or file; other names are not checked."""
    if made := MADE.fullmatch(quoted):
        found = [getattr(place, made[1]) for place in (wm, wm.dataflow, wm.progress) if hasattr(place, made[1])]
        options = set(re.findall(r"(\w+)=", made[2]))
        return any(options <= {field.name for field in dataclasses.fields(one)} for one in found)
    if quoted.startswith("script."):
        return hasattr(wm.script, quoted.removeprefix("script."))
    if quoted.startswith("recording."):
        return hasattr(StreamRecording, quoted.removeprefix("recording.").partition("(")[0])
    return "/" not in quoted or (ROOT / quoted).exists()


def test_all_five_documents_are_there() -> None:
    assert len(LINES) > 100
    assert [line for line in PAGE.splitlines() if line.startswith("## ")] != []
