"""bytewax 0.21 has no release for Python 3.13 and later."""

from __future__ import annotations

import sys

collect_ignore = [] if sys.version_info < (3, 13) else ["test_bytewax.py"]
