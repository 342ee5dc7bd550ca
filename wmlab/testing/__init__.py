"""Tests for your own watermark code: wmlab draws histories, runs them, and compares the answers with a rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wmlab.core import lazy

if TYPE_CHECKING:
    from wmlab.testing.compare import (
        Disagreement as Disagreement,
        DisagreementError as DisagreementError,
        compare_with_rule as compare_with_rule,
        find_disagreement as find_disagreement,
    )
    from wmlab.testing.conforming import Conformance as Conformance, conformance as conformance
    from wmlab.testing.drawn import histories as histories
    from wmlab.testing.known_rules import RULES as RULES, History as History, Machine as Machine, Rule as Rule
    from wmlab.testing.program import ProgramError as ProgramError

lazy(__name__)
