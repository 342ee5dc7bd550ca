"""Jobs that run elsewhere: why the watermark of a Flink job or a Spark query does not advance, from its metrics.

`flink` and `spark` read a job, `chart` draws what they read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wmlab.core import lazy

if TYPE_CHECKING:
    from wmlab.engines import charts
    from wmlab.engines.answers import DIRECTORY as DIRECTORY, EngineLog as EngineLog, JobExplanation as JobExplanation
    from wmlab.engines.api import (
        flink as flink,
        flink_jobs as flink_jobs,
        prometheus as prometheus,
        read as read,
        spark as spark,
    )
    from wmlab.engines.cause_table import CAUSES as CAUSES
    from wmlab.engines.flink_rest import is_address as is_address
    from wmlab.engines.reading import queries_in as queries_in
    from wmlab.engines.tables import ENGINE_TABLE as ENGINE_TABLE
    from wmlab.engines.verdicts import SEVERITY as SEVERITY
    from wmlab.engines.watching import answers_of as answers_of, save_page as save_page

    chart = charts

lazy(__name__)
