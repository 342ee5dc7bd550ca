"""Executing a notebook again: equal answers are equal bytes, and a failure leaves everything as it was."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tools import notebooks

UNSTEADY = """
import sys, time
print("out")
print("err", file=sys.stderr)
print("out again")
"""
WIDGETS = """
import ipywidgets
from tqdm.auto import tqdm
for _ in tqdm(range(3)):
    pass
ipywidgets.IntSlider()
"""

SLOW_RUN = """
import itertools, tqdm.std
import wmlab as wm
tqdm.std.time = itertools.count(step=60).__next__  # a minute passes between two looks at the clock
scenario = wm.Scenario("slow", writers=[wm.EventWriter("w1", rate_per_s=1)], duration_ms=1_000)
scenario.record().counts["events"] > 0
"""


def write(path: Path, *code: str, **metadata: object) -> Path:
    cells = [new_markdown_cell("# Title"), *(new_code_cell(text.strip()) for text in code)]
    nbformat.write(new_notebook(cells=cells, metadata=metadata), path)
    return path


def read(path: Path) -> nbformat.NotebookNode:
    return nbformat.read(path, as_version=4)


def test_nothing_of_the_run_or_the_machine_is_stored_so_two_executions_are_byte_equal(tmp_path: Path) -> None:
    stray = {"widgets": {"state": {}}, "language_info": {"name": "python", "version": "3.9.1"}}
    path = write(tmp_path / "a.ipynb", UNSTEADY, WIDGETS, **stray)
    assert notebooks.store([path]) == [path]
    first, stored = path.read_bytes(), read(path)
    assert dict(stored.metadata) == {"kernelspec": notebooks.KERNELSPEC, "language_info": notebooks.LANGUAGE}
    assert "version" not in stored.metadata.language_info
    assert all("execution" not in cell.metadata for cell in stored.cells)
    shown = [output.data for output in stored.cells[2].outputs]
    assert shown[-1] == {"text/plain": "IntSlider(value=0)"}
    assert all("model_id" not in str(data) for data in shown)
    assert notebooks.stale([path]) == []
    assert notebooks.store([path]) == []
    assert path.read_bytes() == first


def test_outputs_come_from_this_execution_in_the_own_directory_without_progress_bars(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "data.txt").write_text("here")
    path = write(tmp_path / "inner" / "a.ipynb", "open('data.txt').read()", "", SLOW_RUN)
    old = read(path)
    for cell in old.cells[1:]:
        cell.outputs = [nbformat.v4.new_output("stream", text="stale")]
    nbformat.write(old, path)
    notebooks.store([path])
    assert [[output.get("data") for output in cell.outputs] for cell in read(path).cells[1:]] == [
        [{"text/plain": "'here'"}],
        [],
        [{"text/plain": "True"}],
    ]


def test_a_cell_put_in_before_leaves_the_ids_of_the_others(tmp_path: Path) -> None:
    one = write(tmp_path / "one.ipynb", "a = 1", "a = 1", "a")
    two = write(tmp_path / "two.ipynb", "b = 0", "a = 1", "a = 1", "a")
    notebooks.store([one, two])
    ids_one, ids_two = ([cell.id for cell in read(path).cells] for path in (one, two))
    assert len(set(ids_one)) == len(ids_one)
    assert [ids_two[0], *ids_two[2:]] == ids_one


def test_a_failing_cell_is_named_and_the_file_is_left_alone(tmp_path: Path) -> None:
    path = write(tmp_path / "bad.ipynb", "1 + 1", "{}['lost']", "2")
    before = path.read_bytes()
    with pytest.raises(notebooks.NotebookError, match=r"bad\.ipynb, cell 3 of 4: KeyError: 'lost'"):
        notebooks.store([path])
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["bad.ipynb"]


def test_a_failing_replacement_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.ipynb", "1")
    before = path.read_bytes()

    def refuse(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(notebooks.os, "replace", refuse)
    with pytest.raises(OSError, match="no space left"):
        notebooks.store([path])
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["a.ipynb"]


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"cells": 3, "nbformat": 4, "nbformat_minor": 5}'])
def test_what_is_no_notebook_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "broken.ipynb"
    path.write_text(text)
    with pytest.raises(notebooks.NotebookError, match=r"broken\.ipynb cannot be read as a notebook"):
        notebooks.execute(path)


def test_directories_stand_for_the_notebooks_below_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("notebooks/b/two.ipynb", "notebooks/one.ipynb", "notebooks/.ipynb_checkpoints/one.ipynb"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        write(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    assert [str(path) for path in notebooks.find()] == ["notebooks/b/two.ipynb", "notebooks/one.ipynb"]
    twice = notebooks.find(["notebooks/one.ipynb", "notebooks"])
    assert [str(path) for path in twice] == ["notebooks/one.ipynb", "notebooks/b/two.ipynb"]
    with pytest.raises(notebooks.NotebookError, match=r"lost\.ipynb is neither"):
        notebooks.find(["lost.ipynb"])


def test_the_command_stores_and_checks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "a.ipynb", "6 * 7")
    unstored = path.read_bytes()
    assert notebooks.main(["--check", str(tmp_path)]) == 1
    assert path.read_bytes() == unstored
    assert notebooks.main([str(path)]) == 0
    assert notebooks.main(["--check", str(path)]) == 0
    assert capsys.readouterr().out == f"{path}: would change\n{path}: changed\n{path}: unchanged\n"
    assert notebooks.main([str(tmp_path / "none")]) == 1
    assert "is neither a notebook nor a directory" in capsys.readouterr().err
