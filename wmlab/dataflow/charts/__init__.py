"""Charts of dataflows: a recording in, a picture with its answer as a sentence out."""

from wmlab.dataflow.charts.merging import activity, coalescing
from wmlab.dataflow.charts.orders import interleavings
from wmlab.dataflow.charts.queues import queues
from wmlab.dataflow.charts.state import state_size

__all__ = ["activity", "coalescing", "interleavings", "queues", "state_size"]
