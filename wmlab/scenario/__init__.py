"""What to run, as validated values: the scenario, its parties, their noting policies, and the script of events."""

from wmlab.scenario import network, noting, script
from wmlab.scenario.clock import Clock
from wmlab.scenario.controllers import Controllers
from wmlab.scenario.network import Network
from wmlab.scenario.parts import EventWriter, ReaderGroup, Stream
from wmlab.scenario.scenario import Scenario
from wmlab.scenario.value import Problem, Problems

__all__ = [
    "Clock",
    "Controllers",
    "EventWriter",
    "Network",
    "Problem",
    "Problems",
    "ReaderGroup",
    "Scenario",
    "Stream",
    "network",
    "noting",
    "script",
]
