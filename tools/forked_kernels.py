"""Kernels that are forked from one process in which wmlab and its libraries are imported already.

A kernel of its own imports them in two seconds of processor time, which is most of what a short notebook takes. The
kernels of `make test` come from here; `make notebooks` and users start theirs as Jupyter does.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from jupyter_client.provisioning import local_provisioner

ROOT: Final = Path(__file__).resolve().parents[1]
_FORKING: Final = get_context("forkserver")


def fork_kernels() -> None:
    """Have each kernel of this process forked; what they all import is imported once, when the first one starts."""
    _FORKING.set_forkserver_preload(["tools.kernel_imports"])
    local_provisioner.launch_kernel = launch


def launch(command: Sequence[str], cwd: str | None = None, env: dict[str, str] | None = None, **_: Any) -> ForkedKernel:
    """Stands for the function of jupyter_client that starts `command`, and like it gives what resembles a Popen."""
    arguments = list(command[command.index("-f") :])
    started, starts = _FORKING.Pipe(duplex=False)
    process = _FORKING.Process(target=_run, args=(arguments, cwd, dict(env or os.environ), starts), daemon=True)
    process.start()
    started.recv()  # until then a signal for the kernel's group of processes would reach this process
    return ForkedKernel(process)


class ForkedKernel:
    """The part of `subprocess.Popen` that jupyter_client uses of a kernel."""

    stdin = stdout = stderr = None

    def __init__(self, process: Any) -> None:
        self.pid: int = process.pid
        self._process = process

    def poll(self) -> int | None:
        """The exit code, or None while the kernel runs."""
        code: int | None = self._process.exitcode
        return code

    def wait(self) -> int | None:
        """Wait until the kernel has ended."""
        self._process.join()
        return self.poll()

    def send_signal(self, signal: int) -> None:
        """Send the kernel a signal, if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, signal)

    def terminate(self) -> None:
        """Ask the kernel to end."""
        self._process.terminate()

    def kill(self) -> None:
        """End the kernel."""
        self._process.kill()


def _run(arguments: list[str], cwd: str | None, environment: dict[str, str], starts: Connection) -> None:
    """Be a kernel; runs in the forked process."""
    from ipykernel.kernelapp import IPKernelApp

    os.setsid()
    starts.send(None)
    os.environ.clear()
    os.environ.update(environment, JPY_PARENT_PID=str(os.getppid()))
    if cwd is not None:
        os.chdir(cwd)
    sys.path[:] = [folder for folder in sys.path if folder and Path(folder) != ROOT]
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)
    IPKernelApp.launch_instance(arguments)
