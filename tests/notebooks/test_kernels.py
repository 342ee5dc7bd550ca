"""No kernel listens at a port, which another process could have taken before the kernel does."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import nbval.kernel
import pytest
from jupyter_client.connect import LocalPortCache
from nbformat.v4 import new_code_cell, new_notebook

from tests.conftest import module_of
from tools import notebooks
from tools.kernels import own_sockets

CONFTEST = Path(__file__).resolve().parents[2] / "notebooks" / "conftest.py"
SOCKET_PATH_BYTES = 103


@pytest.fixture
def no_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("a kernel manager asks for a port")

    monkeypatch.setattr(LocalPortCache, "find_available_port", refuse)


@pytest.fixture
def sockets_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty directory, which stands for that of temporary files; those of pytest have too long a name."""
    with tempfile.TemporaryDirectory() as directory:
        monkeypatch.setattr(tempfile, "gettempdir", lambda: directory)
        yield Path(directory)


@pytest.mark.usefixtures("no_ports")
def test_a_notebook_that_is_executed_needs_no_port_and_leaves_no_socket(tmp_path: Path, sockets_in: Path) -> None:
    """Its kernel is asked where it listens."""
    listens = "import os; from ipykernel.kernelapp import IPKernelApp as app; os.path.dirname(app.instance().ip)"
    path = tmp_path / "a.ipynb"
    nbformat.write(new_notebook(cells=[new_code_cell(listens)]), path)
    (cell,) = nbformat.reads(notebooks.execute(path).decode(), as_version=4).cells
    assert cell.outputs[0].data["text/plain"] == repr(str(sockets_in))
    assert list(sockets_in.iterdir()) == []


@pytest.mark.usefixtures("no_ports")
def test_nbval_gives_every_kernel_sockets_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nbval.kernel, "KernelManager", None)
    module_of(CONFTEST).pytest_configure()
    managers = [nbval.kernel.KernelManager(kernel_name="python3") for _ in range(20)]
    assert {manager.transport for manager in managers} == {"ipc"}
    assert len({manager.ip for manager in managers}) == len(managers)


def test_the_path_of_a_socket_leaves_room_for_a_long_directory() -> None:
    name = os.path.basename(own_sockets()["ip"])
    mac = "/var/folders/zz/zyxvpxvq6csfxvn_n0000000000000/T"
    assert len(f"{mac}/{name}-5") <= SOCKET_PATH_BYTES
