"""The index segment in motion: every watermark gets a record, and whoever appends next repairs what is missing.

Source: PDP-33, Future Possibilities. A record is written right after the watermark; the append is conditional on the
length that was read, so of two leaders only one writes each record.
"""

from __future__ import annotations

from wmlab.core.journal import Journal
from wmlab.streams.model.index import MarksIndex, missing
from wmlab.streams.model.log import MarksLog, Watermark


class IndexSegment:
    """The index of one stream's marks segment."""

    def __init__(self, journal: Journal) -> None:
        self.content = MarksIndex()
        self._journal = journal

    def catch_up(self, log: MarksLog[Watermark], controller: str, now_ms: int, *, emitted: int | None = None) -> None:
        """Append a record for every entry that has none; `emitted` is the lower bound of the one appended just now.

        Records of others are marked as recovered: a leader stopped before it could write them.
        """
        records = missing(self.content, log)
        before = len(self.content)
        self.content, _ = self.content.append_if(len(self.content.content), records)
        for count, record in enumerate(records, 1):
            self._journal.write(
                "watermark_index",
                place=before + count - 1,
                time=record.time,
                offset=record.offset,
                controller=controller,
                appended_ms=now_ms,
                recovered=record.time != emitted,
            )
