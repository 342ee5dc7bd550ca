"""Charts of a log, and of strategies over it.

They show who sends when, and what a lower latency costs. They show where a watermark is while records arrive, and how
far the two bounds of Pravega are apart.

An axis leaves out few far values (`wmlab.core.charts.axis.shown_range`), and the chart says how far they are.
"""

from wmlab.core import namespace
from wmlab.strategies.charts.curves import lag, lateness_curve, uncertainty
from wmlab.strategies.charts.idle_timeouts import idleness
from wmlab.strategies.charts.writers import writers

__all__ = ["idleness", "lag", "lateness_curve", "uncertainty", "writers"]
namespace(__name__)
