"""Charts of dataflows: a recording in, a picture with its answer as a sentence out."""

from wmlab.dataflow.charts.merging import coalescing, input_activity
from wmlab.dataflow.charts.orders import interleavings
from wmlab.dataflow.charts.queue_diagram import queue_diagram
from wmlab.dataflow.charts.state import state_size

__all__ = ["coalescing", "input_activity", "interleavings", "queue_diagram", "state_size"]
