"""Tests for watermark code of your own: histories are drawn, run, and compared with the rule that it claims to be."""

from __future__ import annotations

from typing import Final

from wmlab.core import lazy

_NAMES: Final = {
    "compare": "Disagreement DisagreementError compare_with_rule find_disagreement",
    "conforming": "Conformance conformance",
    "drawn": "histories",
    "program": "ProgramError",
    "known_rules": "History Machine RULES Rule",
}
_HOMES: Final = {name: f"wmlab.testing.{module}:{name}" for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy(__name__, _HOMES)
