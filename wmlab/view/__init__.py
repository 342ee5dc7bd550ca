"""Charts: a table in, a picture with its answer as a sentence out. `wmlab.chart` is another name of this package."""

from wmlab.view.bounds import time_bounds
from wmlab.view.buckets import bucket_ownership
from wmlab.view.chart import Chart
from wmlab.view.cycles import watermark_cycles
from wmlab.view.dataflow_merging import activity, coalescing
from wmlab.view.dataflow_orders import interleavings
from wmlab.view.dataflow_queues import queues
from wmlab.view.dataflow_state import state_size
from wmlab.view.diagram import Diagram, lineage, topology
from wmlab.view.firing import windows_firing
from wmlab.view.holders import holder_costs
from wmlab.view.key_space import key_space
from wmlab.view.lag import lag, lag_distribution
from wmlab.view.messages import space_time
from wmlab.view.plane import event_time_plane
from wmlab.view.progress import prefix, progress
from wmlab.view.writer_marks import writer_marks

__all__ = [
    "Chart",
    "Diagram",
    "activity",
    "bucket_ownership",
    "coalescing",
    "event_time_plane",
    "holder_costs",
    "interleavings",
    "key_space",
    "lag",
    "lag_distribution",
    "lineage",
    "prefix",
    "progress",
    "queues",
    "space_time",
    "state_size",
    "time_bounds",
    "topology",
    "watermark_cycles",
    "windows_firing",
    "writer_marks",
]
