"""The log of watermarks seen from one segment: from which offset on a position in it has passed each of them.

The readers' rule (`wmlab.streams.model.window.compare`) has four cases for one segment: the cut names the segment, then
its offset decides; or it names only older segments over those keys, then every position in this one is beyond it; or
only newer ones, then none is; or both, then the answer is "mixed" whatever the offset. A segment of unknown range
overlaps every other.

What a cut names is one number per watermark and segment. The rest depends on which segments the cut names and on
nothing else, so it is worked out once per run of consecutive watermarks that name the same segments, about one run
per epoch. Everything is in columns: these functions run on Spark's executors, over logs of millions of watermarks.

Source: PDP-33, Client Changes; upstream class `WatermarkReaderImpl` (compare).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Longs = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Reals = npt.NDArray[np.float64]

ALWAYS: Final = 0
"""A reach that every offset has: the watermark is passed by being in the segment at all."""
NEVER: Final = 2**63 - 1
"""A reach that no offset has: the end of the segment, or a cut that names only later ones."""
BELOW: Final = -(2**63)
"""Before every segment id."""


@dataclass(frozen=True, slots=True)
class Marks:
    """A stream's watermarks in the order of the log, and the entries of all their cuts.

    Entry i says that watermark `place[i]` (from 0) cuts segment `segment[i]` at `offset[i]` bytes, or `NEVER`.
    """

    seq: Longs
    lower: Longs
    upper: Longs
    emitted_ms: Longs
    place: Longs
    segment: Longs
    offset: Longs

    @classmethod
    def from_arrow(cls, table: pa.Table) -> Marks:
        """From rows of seq, lower, upper, cut and emitted_ms, in any order; cuts without offset are ends."""
        seq = column(table, "seq")
        if np.any(seq[1:] < seq[:-1]):
            table = table.sort_by("seq")
            seq = column(table, "seq")
        cuts: Any = pa.chunked_array(table["cut"]).combine_chunks()
        bounds = np.asarray(cuts.offsets)
        entries = slice(bounds[0], bounds[-1]) if len(bounds) else slice(0, 0)
        offset = cuts.items[entries].fill_null(NEVER).to_numpy(zero_copy_only=False)
        place = np.repeat(np.arange(len(cuts)), np.diff(bounds))
        segment = cuts.keys[entries].to_numpy(zero_copy_only=False)
        by_place = np.lexsort((segment, place)) if _unsorted(place, segment) else slice(None)
        lower, upper, emitted_ms = (column(table, name) for name in ("lower", "upper", "emitted_ms"))
        return cls(seq, lower, upper, emitted_ms, place[by_place], segment[by_place], offset[by_place])


@dataclass(frozen=True, slots=True)
class Extremes:
    """A stream's watermarks in the order of the log, and the least and the most segment id of each cut.

    A cut that names nothing has `NEVER` as its least and `BELOW` as its most.
    """

    seq: Longs
    lower: Longs
    upper: Longs
    least: Longs
    most: Longs

    @classmethod
    def from_arrow(cls, table: pa.Table) -> Extremes:
        """From rows with those columns, in any order."""
        by_seq = np.argsort(column(table, "seq"), kind="stable")
        return cls(*(column(table, name)[by_seq] for name in ("seq", "lower", "upper", "least", "most")))


@dataclass(frozen=True, slots=True)
class Ranges:
    """Key ranges of a stream's segments; NaN bounds for a segment that is not known."""

    known: dict[int, tuple[float, float]]

    @classmethod
    def from_arrow(cls, table: pa.Table) -> Ranges:
        """From rows of segment_id, low and high."""
        rows = zip(*(table[name].to_pylist() for name in ("segment_id", "low", "high")), strict=True)
        return cls({segment: (low, high) for segment, low, high in rows if low is not None and high is not None})

    def of(self, segments: Longs) -> tuple[Reals, Reals]:
        """Lower and upper ends of the ranges of some segments."""
        pairs = [self.known.get(int(segment), (np.nan, np.nan)) for segment in segments]
        low, high = np.array(pairs, np.float64).reshape(-1, 2).T
        return low, high


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs of consecutive watermarks whose cuts name the same segments.

    Run r is the watermarks at places `first[r]` to `last[r]`. Entry i says that run `run[i]` names `segment[i]`, and
    that the run's first watermark does so in entry `entry[i]` of the log.
    """

    first: Longs
    last: Longs
    run: Longs
    entry: Longs
    segment: Longs
    low: Reals
    high: Reals

    @classmethod
    def of(cls, marks: Marks, ranges: Ranges) -> Runs:
        """The runs of a log."""
        count = len(marks.seq)
        sizes = np.bincount(marks.place, minlength=count)
        opens = np.ones(count, np.bool_)
        opens[1:] = sizes[1:] != sizes[:-1]
        # An entry's counterpart in the watermark before it stands one cut earlier, where the cuts are of one size.
        alike = np.flatnonzero(~opens[marks.place])
        differs = marks.segment[alike] != marks.segment[alike - sizes[marks.place[alike]]]
        opens[marks.place[alike[differs]]] = True
        first = np.flatnonzero(opens)
        last = np.append(first[1:], count) - 1
        entry = np.flatnonzero(opens[marks.place])
        segment = marks.segment[entry]
        return cls(first, last, np.searchsorted(first, marks.place[entry]), entry, segment, *ranges.of(segment))

    def cuts_of(self, segment: int, marks: Marks) -> tuple[Longs, Longs]:
        """The places of the watermarks that name the segment, ascending, and the offsets they give it."""
        places, offsets = [_NONE], [_NONE]
        sizes = np.bincount(self.run, minlength=len(self.first))
        for named in np.flatnonzero(self.segment == segment):
            run, entry = self.run[named], self.entry[named]
            count = self.last[run] - self.first[run] + 1
            places.append(np.arange(self.first[run], self.last[run] + 1))
            offsets.append(marks.offset[entry : entry + (count - 1) * sizes[run] + 1 : sizes[run]])
        return np.concatenate(places), np.concatenate(offsets)

    def sides(self, segment: int, low: float, high: float) -> tuple[Flags, Flags]:
        """Per run that does not name the segment, whether its cut names older ones over these keys, and newer ones.

        Bounds of NaN, an unknown range, overlap everything.
        """
        overlaps = ~((low >= self.high) | (self.low >= high))
        return self._any(overlaps & (self.segment < segment)), self._any(overlaps & (self.segment > segment))

    def naming(self, segment: int) -> Flags:
        """Per run, whether its cut names the segment."""
        return self._any(self.segment == segment)

    def _any(self, entries: Flags) -> Flags:
        return np.bincount(self.run[entries], minlength=len(self.first)) > 0


_NONE: Final = np.zeros(0, np.int64)


def column(table: pa.Table, name: str) -> Longs:
    """A column of whole numbers; null is 0, so ask only for columns in which null has no meaning."""
    values: Longs = table[name].fill_null(0).to_numpy().astype(np.int64, copy=False)
    return values


def _unsorted(place: Longs, segment: Longs) -> bool:
    return bool(np.any((place[1:] == place[:-1]) & (segment[1:] < segment[:-1])))
