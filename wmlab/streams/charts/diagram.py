"""Drawings in Mermaid: who talks to whom in a run, and how the segments of a stream descend from each other.

JupyterLab draws the text itself. Every other viewer shows the text, which reads well as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path

import pyarrow as pa

from wmlab.core.charts.chart import save_as
from wmlab.core.charts.rows import one_stream, stream_rows
from wmlab.core.errors import ChartError
from wmlab.core.recording import Recording
from wmlab.core.words import counted, in_mermaid, moment, segment_name
from wmlab.streams.answers.history import segments_of


@dataclass(frozen=True, slots=True)
class Diagram:
    """A drawing as Mermaid text, with the sentence that says what it shows."""

    sentence: str
    mermaid: str

    def __repr__(self) -> str:
        return f"{self.sentence}\n{self.mermaid}"

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        """The text for JupyterLab to draw, and the text as it is."""
        return {"text/vnd.mermaid": self.mermaid, "text/plain": repr(self)}

    def save(self, path: str | Path) -> Path:
        """Write the Mermaid text to `path`, a `.mmd` file, and return it; raises `ChartError` for another suffix."""
        return save_as(path, "diagram", self, {".mmd": lambda diagram: diagram.mermaid.encode()})


def lineage(recording: Recording, *, stream: str | None = None) -> Diagram:
    """Which segment came out of which, by overlap of their keys at a seal.

    Raises `ChartError` if there are several streams and none is chosen.
    """
    name = one_stream(recording, stream, "segments")
    rows = stream_rows(recording, "segments", name, by="segment_id")
    lines = ["flowchart LR"]
    for row in rows:
        until = "open" if row["sealed_ms"] is None else f"sealed at {moment(row['sealed_ms'])}"
        lines.append(f'  s{row["segment_id"]}["{segment_name(row["segment_id"])}: keys {row["keys"]}, {until}"]')
    segments = segments_of(recording, name)
    epochs = [set(row["segment_ids"]) for row in stream_rows(recording, "epochs", name, by="epoch")]
    lines += [
        f"  s{old} --> s{new}"
        for before, after in pairwise(epochs)
        for old, new in product(sorted(before - after), sorted(after - before))
        if segments[old].keys.overlaps(segments[new].keys)
    ]
    sealed = sum(row["sealed_ms"] is not None for row in rows)
    return Diagram(
        f"Stream {name}: {counted(len(rows), 'segment')}, {sealed} of them sealed and succeeded.", "\n".join(lines)
    )


def topology(recording: Recording) -> Diagram:
    """Who wrote, which controllers combined the marks of which stream, and who read.

    Raises `ChartError` for a recording without streams.
    """
    streams = sorted(set(recording.table("segments")["stream"].to_pylist()))
    if not streams:
        raise ChartError(
            f"Recording {recording.name!r} has no stream to draw.",
            remedy="Draw the plan or the dataflow that was recorded instead.",
        )
    writers = _pairs(recording, "writer_marks", "writer") | _pairs(recording, "events", "writer")
    controllers = _pairs(recording, "cycles", "controller")
    readers = _pairs(recording, "windows", "reader") | _pairs(recording, "positions", "reader")
    lines = ["flowchart LR"]
    lines += [f'  {_id(stream)}[("{in_mermaid(stream)}")]' for stream in streams]
    counts = [counted(len(streams), "stream")]
    for noun, pairs, link, shape in (
        ("writer", writers, "{party} -- events and marks --> {stream}", '(["{name}"])'),
        ("controller", controllers, "{party} -. watermarks .-> {stream}", '{{{{"{name}"}}}}'),
        ("reader", readers, "{stream} -- events and bounds --> {party}", '(["{name}"])'),
    ):
        names = sorted({party for _, party in pairs})
        counts.append(counted(len(names), noun))
        lines += [f"  {_id(party)}{shape.format(name=in_mermaid(party))}" for party in names]
        lines += ["  " + link.format(party=_id(party), stream=_id(stream)) for stream, party in sorted(pairs)]
    return Diagram(f"{', '.join(counts)}.", "\n".join(lines))


def _pairs(recording: Recording, table: str, column: str) -> set[tuple[str, str]]:
    chunks = recording.chunks(table, "stream", column)
    pairs = pa.concat_tables(chunk.group_by(["stream", column]).aggregate([]) for chunk in chunks)
    return {(row["stream"], row[column]) for row in pairs.to_pylist() if row[column] is not None}


def _id(name: str) -> str:
    """A name that Mermaid takes as an identifier."""
    return "n_" + "".join(letter if letter.isalnum() else f"_{ord(letter):x}_" for letter in name)
