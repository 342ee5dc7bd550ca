"""Executes notebooks again and stores them so that the same notebook always has the same bytes.

    python -m tools.notebooks [PATH ...]            # store them; without a path, all below notebooks/
    python -m tools.notebooks --check [PATH ...]    # say which would change, and fail if any

What differs from run to run or from machine to machine is not stored: execution times, widget state and the random
ids of widget views, random cell ids, and the version of the Python that ran it. What is left is the notebook's
answer, and a change of it is a change of the answer.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from traitlets.config import Config

from tools.kernels import own_sockets
from wmlab.core.errors import WmlabError

ROOT: Final = Path("notebooks")
"""Where notebooks are looked for if none is named, relative to the working directory."""

KERNELSPEC: Final = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
LANGUAGE: Final = {
    "codemirror_mode": {"name": "ipython", "version": 3},
    "file_extension": ".py",
    "mimetype": "text/x-python",
    "name": "python",
    "nbconvert_exporter": "python",
    "pygments_lexer": "ipython3",
}


class NotebookError(WmlabError):
    """A notebook that cannot be read or executed; names the notebook and, if there is one, the cell."""


def find(paths: Sequence[Path | str] = ()) -> list[Path]:
    """The notebooks that `paths` name, in order: a file stands for itself, a directory for all below it.

    Without `paths`, all below `notebooks/`. Raises `NotebookError` if a path is neither.
    """
    notebooks: dict[Path, None] = {}
    for path in map(Path, paths or [ROOT]):
        if path.is_dir():
            below = (p for p in sorted(path.rglob("*.ipynb")) if ".ipynb_checkpoints" not in p.parts)
            notebooks |= dict.fromkeys(below)
        elif path.is_file() and path.suffix == ".ipynb":
            notebooks[path] = None
        else:
            raise NotebookError(
                f"{path} is neither a notebook nor a directory.",
                remedy="name .ipynb files or directories, seen from the working directory.",
            )
    return list(notebooks)


def main(arguments: Sequence[str] | None = None) -> int:
    """Carries out the command; returns the exit code: 0 done, 1 refused or, with `--check`, not as stored."""
    command = argparse.ArgumentParser(prog="python -m tools.notebooks", description="Execute notebooks, store them.")
    command.add_argument("paths", nargs="*", metavar="PATH", help="notebooks or directories (default: notebooks/)")
    command.add_argument("--check", action="store_true", help="store nothing; say which would change, and fail if any")
    options = command.parse_args(arguments)
    try:
        paths = find(options.paths)
        changed = set(stale(paths) if options.check else store(paths))
    except WmlabError as mistake:
        print(mistake, file=sys.stderr)
        return 1
    word = "would change" if options.check else "changed"
    for path in paths:
        print(f"{path}: {word if path in changed else 'unchanged'}")
    return 1 if options.check and changed else 0


def execute(path: Path | str) -> bytes:
    """What the notebook at `path` is to be stored as after a fresh execution in its own directory.

    The file is only read. Raises `NotebookError` if it is not a notebook or if a cell fails.
    """
    path = Path(path)
    notebook = _read(path)
    begun: list[int] = []
    client = NotebookClient(
        notebook,
        kernel_name=KERNELSPEC["name"],
        config=Config(KernelManager=own_sockets()),
        extra_arguments=["--IPKernelApp.log_level=ERROR"],
        resources={"metadata": {"path": str(path.parent)}},
        timeout=600,  # s, for each cell
        startup_timeout=120,
        record_timing=False,
        store_widget_state=False,
        coalesce_streams=True,
        on_cell_execute=lambda cell, cell_index: begun.append(cell_index + 1),  # noqa: ARG005 (nbclient names them)
    )
    try:
        client.execute()
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as failure:
        reason = f"{failure.ename}: {failure.evalue}" if isinstance(failure, CellExecutionError) else str(failure)
        raise NotebookError(
            f"{path}, cell {begun[-1] if begun else 1} of {len(notebook.cells)}: {reason}",
            remedy="correct the cell, or what it calls, and run the notebook again.",
        ) from None
    return canonical(notebook)


def canonical(notebook: NotebookNode) -> bytes:
    """The stored form of an executed notebook: equal answers are equal bytes. Changes `notebook`."""
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    notebook.metadata.pop("widgets", None)
    notebook.metadata.update(kernelspec=KERNELSPEC, language_info=LANGUAGE)
    seen: Counter[str] = Counter()
    for cell in notebook.cells:
        cell["id"] = _cell_id(cell, seen)
        cell.metadata.pop("execution", None)
        for output in cell.get("outputs", ()):
            output.get("data", {}).pop("application/vnd.jupyter.widget-view+json", None)
        if "outputs" in cell:
            # What held nothing but a widget shows nothing any more.
            cell.outputs = [output for output in cell.outputs if output.get("data", True)]
    text: str = nbformat.writes(notebook, version=nbformat.NO_CONVERT)
    return (text.rstrip("\n") + "\n").encode()


def store(paths: Iterable[Path | str]) -> list[Path]:
    """Executes each notebook again and replaces its file; returns those whose bytes changed.

    A file is replaced whole or not at all: if a cell fails, `NotebookError` is raised and the old file stays, as do
    the notebooks after it.
    """
    changed = []
    for path in map(Path, paths):
        before, after = path.read_bytes(), execute(path)
        if before != after:
            _replace(path, after)
            changed.append(path)
    return changed


def stale(paths: Iterable[Path | str]) -> list[Path]:
    """The notebooks whose stored bytes differ from a fresh execution; no file is touched."""
    return [path for path in map(Path, paths) if path.read_bytes() != execute(path)]


def _read(path: Path) -> NotebookNode:
    """The notebook without its outputs; nbclient leaves those of empty cells as they are."""
    try:
        notebook: NotebookNode = nbformat.reads(path.read_text(encoding="utf-8"), as_version=4)
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = [], None
        canonical(notebook)
        nbformat.validate(notebook)
    except (OSError, ValueError, TypeError, LookupError, AttributeError, nbformat.ValidationError) as failure:
        raise NotebookError(
            f"{path} cannot be read as a notebook: {str(failure).partition(chr(10))[0]}",
            remedy="restore the file from version control.",
        ) from None
    return notebook


def _cell_id(cell: NotebookNode, seen: Counter[str]) -> str:
    """An id that depends on the cell's text, so that a cell put in before leaves it as it is."""
    digest = hashlib.sha256(f"{cell.cell_type}\n{cell.source}".encode()).hexdigest()[:8]
    seen[digest] += 1
    return digest if seen[digest] == 1 else f"{digest}-{seen[digest]}"


def _replace(path: Path, content: bytes) -> None:
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_bytes(content)
        shutil.copymode(path, beside)
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main())
