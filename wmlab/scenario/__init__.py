"""What to run, as validated values: the scenario, its parties, their noting policies, and the script of events."""

from wmlab.scenario import noting, script
from wmlab.scenario.parts import Clock, Controllers, EventWriter, ReaderGroup, Stream
from wmlab.scenario.scenario import Scenario
from wmlab.scenario.transactional import TransactionalWriter
from wmlab.scenario.value import Problem, Problems

__all__ = [
    "Clock",
    "Controllers",
    "EventWriter",
    "Problem",
    "Problems",
    "ReaderGroup",
    "Scenario",
    "Stream",
    "TransactionalWriter",
    "noting",
    "script",
]
