"""The timeline: what happened in a run, as rows that a person can read, in order of time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from html import escape

import pyarrow as pa

from wmlab.core.answers.answer import TableAnswer
from wmlab.core.recording import Recording
from wmlab.core.words import counted, grouped
from wmlab.streams.answers import moments
from wmlab.streams.answers.known import Row, the_stream
from wmlab.streams.answers.moments import Moment


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Timeline(TableAnswer[Moment]):
    """The moments of one stream, ascending; narrow it with `between` and `about`."""

    stream: str
    moments: tuple[Moment, ...]

    heads = ("at (ms)", "who", "what", "effect")
    left = left_heads = (1, 2, 3)
    schema = pa.schema(
        [
            ("stream", pa.string()),
            pa.field("at_ms", pa.int64(), nullable=False),
            pa.field("to_ms", pa.int64(), nullable=False),
            ("who", pa.string()),
            ("what", pa.string()),
            ("effect", pa.string()),
        ]
    )

    def between(self, from_ms: int | None = None, to_ms: int | None = None) -> Timeline:
        """The moments that touch the span, both ends included (clock, ms; None: open)."""
        kept = (
            m for m in self.moments if (from_ms is None or m.to_ms >= from_ms) and (to_ms is None or m.at_ms <= to_ms)
        )
        return replace(self, moments=tuple(kept))

    def about(self, *parties: str) -> Timeline:
        """The moments that concern any of these parties, groups, transactions ("t1-1") or segments ("0@0")."""
        return replace(self, moments=tuple(m for m in self.moments if set(parties) & set(m.parties)))

    def _entries(self) -> tuple[Moment, ...]:
        return self.moments

    @property
    def sentence(self) -> str:
        """The title of the table, with the number of moments."""
        return f"Timeline of {self.stream}: {counted(len(self.moments), 'moment')}"

    def __repr__(self) -> str:
        times = [_when(m) for m in self.moments]
        widths = [max(map(len, column), default=0) for column in (times, [m.who for m in self.moments])]
        lines = [
            f"{when:>{widths[0]}}  {m.who:{widths[1]}}  {m.what}{'; ' if m.effect else ''}{m.effect}"
            for when, m in zip(times, self.moments, strict=True)
        ]
        return "\n".join([self.sentence, *lines])

    def _caption(self) -> str:
        return f"Timeline of {escape(self.stream)}"

    def _rows(self) -> Iterator[tuple[str, ...]]:
        for m in self.moments:
            yield _when(m), m.who, m.what, m.effect


def timeline(recording: Recording, *, stream: str | None = None) -> Timeline:
    """What happened to the stream: its segments, faults, transactions, marks, cycles and watermarks, completions.

    Also which controllers owned its bucket, and the first lower bound of each reader.

    Raises `RecordingError` for a stream that the recording does not have, or when it has several and none is named.
    """
    name = the_stream(recording, stream)

    def rows(table: str) -> list[Row]:
        found = recording.table(table).to_pylist(maps_as_pydicts="strict")
        return [row for row in found if row["stream"] == name]

    cycles = rows("cycles")
    told = [
        *moments.of_epochs(rows("epochs")),
        *moments.of_seals(rows("segments")),
        *moments.of_faults(rows("incidents")),
        *moments.of_ownership(recording.table("ownership").to_pylist(), name),
        *moments.of_transactions(rows("transactions")),
        *moments.of_marks(rows("writer_marks"), cycles),
        *moments.of_cycles(cycles, rows("watermarks")),
        *moments.of_positions(rows("positions")),
        *moments.of_windows(rows("windows")),
    ]
    # A stable sort: what happens in one millisecond keeps the order of cause and effect above.
    return Timeline(stream=name, moments=tuple(sorted(told, key=lambda m: m.at_ms)))


def _when(told: Moment) -> str:
    return grouped(told.at_ms) if told.at_ms == told.to_ms else f"{grouped(told.at_ms)} – {grouped(told.to_ms)}"
