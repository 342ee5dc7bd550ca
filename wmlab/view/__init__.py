"""Charts: a table in, a picture with its answer as a sentence out. `wmlab.chart` is another name of this package."""

from wmlab.view.bounds import time_bounds
from wmlab.view.chart import Chart

__all__ = ["Chart", "time_bounds"]
