"""Charts of a log, and of strategies over it.

They show who sends when, what a lower latency costs, where a watermark stands while records arrive, and how far the two
bounds of Pravega are apart.

An axis covers the bulk of its values (`wmlab.core.charts.axis.bulk`); what lies beyond stands at the rim, and is
counted in words on the chart.
"""

from wmlab.core import namespace
from wmlab.strategies.charts.curves import lag, lateness_curve, uncertainty
from wmlab.strategies.charts.idle_timeouts import idleness
from wmlab.strategies.charts.writers import writers

__all__ = ["idleness", "lag", "lateness_curve", "uncertainty", "writers"]
__getattr__, __dir__ = namespace(__name__)
