"""Where the kernel of a notebook listens: at sockets of its own in the file system, not at ports.

A kernel manager looks for free ports and lets them go again; until its kernel listens there, any other process may
take one. A kernel that does not get its iopub port neither answers nor ends (ipykernel 7.4).
"""

from __future__ import annotations

import tempfile
import uuid
from pathlib import Path


def own_sockets() -> dict[str, str]:
    """Options of a kernel manager of jupyter_client by which its kernel shares no address with any other.

    The kernel manager removes the sockets when it shuts the kernel down. Their names are short, for the path of a
    socket has at most 103 bytes on macOS.
    """
    return {"transport": "ipc", "ip": str(Path(tempfile.gettempdir(), f"kernel-{uuid.uuid4().hex[:12]}"))}
