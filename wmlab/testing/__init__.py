"""Tests for your own watermark code: wmlab draws histories, runs them, and compares the answers with a rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wmlab.core import lazy

if TYPE_CHECKING:
    from wmlab.testing.compare import Disagreement as Disagreement
    from wmlab.testing.compare import DisagreementError as DisagreementError
    from wmlab.testing.compare import compare_with_rule as compare_with_rule
    from wmlab.testing.compare import find_disagreement as find_disagreement
    from wmlab.testing.conforming import Conformance as Conformance
    from wmlab.testing.conforming import conformance as conformance
    from wmlab.testing.drawn import histories as histories
    from wmlab.testing.known_rules import RULES as RULES
    from wmlab.testing.known_rules import History as History
    from wmlab.testing.known_rules import Machine as Machine
    from wmlab.testing.known_rules import Rule as Rule
    from wmlab.testing.program import ProgramError as ProgramError

lazy(__name__)
