"""Charts: a table in, a picture with its answer as a sentence out. `wmlab.chart` is another name of this package."""

from wmlab.view.bounds import time_bounds
from wmlab.view.chart import Chart
from wmlab.view.holders import holder_costs
from wmlab.view.messages import space_time
from wmlab.view.progress import prefix, progress

__all__ = ["Chart", "holder_costs", "prefix", "progress", "space_time", "time_bounds"]
