"""Charts of dataflows: a recording in, a picture with its answer as a sentence out."""

from wmlab.core import namespace
from wmlab.dataflow.charts.levels import coalescing, interleavings
from wmlab.dataflow.charts.state import queue_diagram, state_size

__all__ = ["coalescing", "interleavings", "queue_diagram", "state_size"]
namespace(__name__)
