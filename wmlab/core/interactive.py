"""Whether a person looks on."""

from __future__ import annotations

import sys

from IPython import get_ipython


def is_interactive() -> bool:
    """Whether a person looks on: at a terminal, or at a notebook whose front end could answer `input()`.

    Programs that execute notebooks (nbclient, nbval, papermill) send cells with `allow_stdin` false, so what they
    store has no progress bar, however slow the machine.

    Source: https://jupyter-client.readthedocs.io/en/stable/messaging.html#execute
    """
    kernel = getattr(get_ipython(), "kernel", None)
    if kernel is None:
        return sys.stderr.isatty()
    return bool(kernel.get_parent().get("content", {}).get("allow_stdin"))
