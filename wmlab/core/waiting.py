"""A line on the screen while a slow step runs; shown only if somebody is watching."""

from __future__ import annotations

import contextvars
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from IPython.core.getipython import get_ipython
from IPython.display import DisplayHandle

PROGRESS_AFTER_S: Final = 5
"""After how long a run of many steps shows a progress bar."""
SAID_AFTER_S: Final = 0.4
"""After how long something is said about one step whose length is unknown."""


def is_interactive() -> bool:
    """Whether a person looks on: at a terminal, or at a notebook whose front end could answer `input()`.

    Programs that execute notebooks (nbclient, nbval, papermill) send cells with `allow_stdin` false, so what they
    store has no progress bar and no line of `waiting_for`, however slow the machine.

    Source: https://jupyter-client.readthedocs.io/en/stable/messaging.html#execute
    """
    kernel = getattr(get_ipython(), "kernel", None)
    if kernel is None:
        return sys.stderr.isatty()
    return bool(kernel.get_parent().get("content", {}).get("allow_stdin"))


@contextmanager
def waiting_for(what: str) -> Iterator[None]:
    """While the block runs, say `what` is being done to a person who looks on; nothing of it stays.

    The line appears after `SAID_AFTER_S`, so that what is quick says nothing. Within a block that says something
    already, nothing else is said.
    """
    if not is_interactive() or not _said.acquire(blocking=False):
        yield
        return
    handle: Any = DisplayHandle() if hasattr(get_ipython(), "kernel") else None  # type: ignore[no-untyped-call]
    appeared = threading.Event()

    def show() -> None:
        appeared.set()
        if handle is None:
            print(f"{what} ...", end="", file=sys.stderr, flush=True)
        else:
            handle.display({"text/plain": f"{what} ..."}, raw=True)

    # What a notebook displays belongs to the cell that runs in this context.
    context = contextvars.copy_context()
    timer = threading.Timer(SAID_AFTER_S, context.run, [show])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        if appeared.is_set() and handle is None:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
        elif appeared.is_set():
            handle.update({"text/html": "", "text/plain": ""}, raw=True)
        _said.release()


_said: Final = threading.Lock()
"""Held while a line is displayed or due."""
