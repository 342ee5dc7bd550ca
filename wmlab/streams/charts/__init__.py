"""Charts: a table in, a picture with its answer as a sentence out. `wmlab.chart` is another name of this package.

A chart of your own is `Chart(sentence=..., data=..., scene=Scene(...))`, with panels of steps, paths and dots, and
rules across them.
"""

from wmlab.core import namespace
from wmlab.core.charts.axis import Numbers, Tick, time_axis
from wmlab.core.charts.chart import Chart, template
from wmlab.core.charts.diagram import Diagram
from wmlab.core.charts.scene import Dots, Panel, Path, Rule, Scene, Steps
from wmlab.streams.charts.alignment import alignment, reader_times
from wmlab.streams.charts.bounds import time_bounds
from wmlab.streams.charts.diagrams import lineage, message_diagram, topology
from wmlab.streams.charts.lag import event_vs_arrival, lag, lag_distribution, replay, sweep
from wmlab.streams.charts.moment import moment
from wmlab.streams.charts.parties import bucket_ownership, generations, holders, watermark_cycles, writer_marks
from wmlab.streams.charts.stream_cut import key_space, stream_cut

__all__ = [
    "Chart",
    "Diagram",
    "Dots",
    "Numbers",
    "Panel",
    "Path",
    "Rule",
    "Scene",
    "Steps",
    "Tick",
    "alignment",
    "bucket_ownership",
    "event_vs_arrival",
    "generations",
    "holders",
    "key_space",
    "lag",
    "lag_distribution",
    "lineage",
    "message_diagram",
    "moment",
    "reader_times",
    "replay",
    "stream_cut",
    "sweep",
    "template",
    "time_axis",
    "time_bounds",
    "topology",
    "watermark_cycles",
    "writer_marks",
]
namespace(__name__)
