"""The timeline: what happened in a run, as rows that a person can read, in order of time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from html import escape
from typing import Any

import pyarrow as pa

from wmlab.core.recording import Recording
from wmlab.core.words import counted, grouped
from wmlab.streams.answers import moments
from wmlab.streams.answers.known import Row, the_stream
from wmlab.streams.answers.moments import Moment


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Timeline:
    """The moments of one stream, ascending; narrow it with `between` and `about`."""

    stream: str
    moments: tuple[Moment, ...]

    def between(self, from_ms: int | None = None, to_ms: int | None = None) -> Timeline:
        """The moments that touch the span, both ends included (clock, ms; None: open)."""
        kept = (
            m for m in self.moments if (from_ms is None or m.to_ms >= from_ms) and (to_ms is None or m.at_ms <= to_ms)
        )
        return replace(self, moments=tuple(kept))

    def about(self, *parties: str) -> Timeline:
        """The moments that concern any of these parties, groups, transactions ("t1-1") or segments ("0@0")."""
        return replace(self, moments=tuple(m for m in self.moments if set(parties) & set(m.parties)))

    def __iter__(self) -> Iterator[Moment]:
        return iter(self.moments)

    def __len__(self) -> int:
        return len(self.moments)

    def to_dict(self) -> dict[str, Any]:
        """The timeline as dicts, lists and scalars."""
        return asdict(self)

    def to_json(self) -> str:
        """The timeline as JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=2) + "\n"

    def to_pandas(self) -> Any:
        """One row per moment as a pandas DataFrame: stream, at_ms, to_ms, who, what, effect."""
        texts = {name: pa.array([getattr(m, name) for m in self.moments], pa.string()) for name in _TEXTS}
        times = {name: pa.array([getattr(m, name) for m in self.moments], pa.int64()) for name in ("at_ms", "to_ms")}
        stream = pa.array([self.stream] * len(self.moments), pa.string())
        return pa.table({"stream": stream, **times, **texts}).to_pandas()

    def __repr__(self) -> str:
        times = [_when(m) for m in self.moments]
        widths = [max(map(len, column), default=0) for column in (times, [m.who for m in self.moments])]
        lines = [
            f"{when:>{widths[0]}}  {m.who:{widths[1]}}  {m.what}{'; ' if m.effect else ''}{m.effect}"
            for when, m in zip(times, self.moments, strict=True)
        ]
        return "\n".join([f"Timeline of {self.stream}: {counted(len(self.moments), 'moment')}", *lines])

    def _repr_html_(self) -> str:
        left = "style='text-align:left'"
        rows = "".join(
            f"<tr><td>{_when(m)}</td>"
            + "".join(f"<td {left}>{escape(getattr(m, name))}</td>" for name in _TEXTS)
            + "</tr>"
            for m in self.moments
        )
        head = f"<tr><th>at (ms)</th><th {left}>who</th><th {left}>what</th><th {left}>effect</th></tr>"
        return f"<table><caption>Timeline of {escape(self.stream)}</caption>{head}{rows}</table>"


_TEXTS = ("who", "what", "effect")


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
