"""The public scenario of streams, with its verbs."""

from __future__ import annotations

from wmlab.core.ablation import ablate
from wmlab.core.values import value
from wmlab.streams.panel import panel
from wmlab.streams.recording import record
from wmlab.streams.scenario.scenario import StreamScenario
from wmlab.streams.sweep import sweep


@value
class Scenario(StreamScenario):
    """One or several streams, their writers and readers, and the faults that happen to them.

        crash = wm.script.CrashWriter(at_ms="20 s", writer="w")
        writer = wm.EventWriter("w", rate_per_s=50)
        wm.Scenario("crash", writers=[writer], readers=wm.ReaderGroup(), script=[crash], duration_ms="1 min")

    Give `name`, `writers` and `duration_ms` (simulated time); then `readers`, `stream` with its segments and timeout,
    and the faults of `script`. Durations are milliseconds or texts such as "10s". `start_ms` is when the run begins, a
    date or milliseconds since 1970. `seed` decides all chance; `rules` decides between the design, the implementation
    and sound rules. The fields are described by `StreamScenario`.
    """

    record = record
    panel = panel
    sweep = sweep
    ablate = ablate
