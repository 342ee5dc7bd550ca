"""A listener of Spark that keeps all that a query reports; `recentProgress` has only the last hundred batches."""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql.streaming.listener import StreamingQueryListener

from wmlab.core.arguments import the_number
from wmlab.core.errors import EngineError

_MOST: Final = 100_000


class Listener(StreamingQueryListener):
    """Keeps the progress of the query of one name; give it to `spark.streams.addListener`, then to `wm.engine.spark`.

    `progress` has the last `most` batches, ascending. Without a name every query is kept, and `wm.engine.spark` refuses
    the progress of several. Raises `EngineError` for `most` that is not a whole number from 1 to 100 000.
    """

    def __init__(self, name: str | None = None, *, most: int = 10_000) -> None:
        self.name = name
        self.most = the_number(most, EngineError, name="most", least=1, most=_MOST)
        self.progress: list[Any] = []

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802  # Spark's name
        """Nothing is kept of it."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Keep the progress of a batch."""
        if self.name is None or event.progress.name == self.name:
            self.progress.append(event.progress)
            del self.progress[: -self.most]

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Nothing is kept of it."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Nothing is kept of it."""
