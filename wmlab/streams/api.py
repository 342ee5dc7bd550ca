"""What a user reaches of streams: the scenario with its verbs."""

from __future__ import annotations

from wmlab.core.ablation import ablate
from wmlab.core.values import value
from wmlab.streams.panel import panel
from wmlab.streams.recording import record
from wmlab.streams.scenario.scenario import StreamScenario
from wmlab.streams.sweep import sweep


@value
class Scenario(StreamScenario):
    """A stream or several, and what happens to them; the fields are those of `StreamScenario`."""

    record = record
    panel = panel
    sweep = sweep
    ablate = ablate
