"""Generated streams: a history of splits and merges, a log of watermarks, and positions anywhere in it.

The logs are rougher than any controller writes them. Cuts move back, leave out keys, mix generations, name segments
that the segments table does not know, and end segments; positions are in segments that nobody knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from wmlab.core.errors import ModelError
from wmlab.streams.model.history import StreamHistory
from wmlab.streams.model.log import Watermark
from wmlab.streams.model.position import Position
from wmlab.streams.model.segment import Segment, segment_id
from wmlab.streams.model.window import Tracker

Row = dict[str, Any]


@dataclass(frozen=True)
class Stream:
    """One generated stream; `log` is in order, `seqs` are what its watermarks are called."""

    name: str
    segments: Mapping[int, Segment]
    log: tuple[Watermark, ...]
    seqs: tuple[int, ...]
    emitted_ms: tuple[int, ...]
    ids: tuple[int, ...]

    def bounds(self, tracker: Tracker) -> tuple[int | None, ...]:
        """What a tracker of the log knows: lower, upper, lower_seq, upper_seq."""
        places = (tracker.lower_seq, tracker.upper_seq)
        window, seqs = tracker.window, (None if place is None else self.seqs[place] for place in places)
        return window.lower, window.upper, *seqs

    def watermark_rows(self) -> Iterator[Row]:
        for seq, emitted_ms, mark in zip(self.seqs, self.emitted_ms, self.log, strict=True):
            times = {"lower": mark.lower, "upper": mark.upper, "emitted_ms": emitted_ms}
            yield {"stream": self.name, "seq": seq, **times, "cut": dict(mark.cut), "writers": dict(mark.writers)}


def segment_rows(stream: str, segments: Iterable[Segment]) -> list[Row]:
    return [
        {"stream": stream, "segment_id": part.id, "low": float(part.keys.low), "high": float(part.keys.high)}
        for part in segments
    ]


def streams(count: int, seed: int) -> list[Stream]:
    return [_stream(f"s{number}", Random(f"{seed}/{number}")) for number in range(count)]


def _stream(name: str, random: Random) -> Stream:
    history = a_history(random)
    strangers = [segment_id(random.randint(0, 9), random.randint(0, 6)) for _ in range(random.randint(0, 2))]
    ids = tuple(sorted({*history.segments, *strangers}))
    hidden = {segment for segment in ids if random.random() < 0.1}
    size = random.choice([0, 1, 2, 5, 12])
    log = tuple(_watermark(number, history, ids, random) for number in range(size))
    seqs = sorted(random.sample(range(100), size)) if random.random() < 0.5 else range(size)
    emitted_ms = sorted(random.randint(0, 100) for _ in range(size))
    known = {segment: part for segment, part in history.segments.items() if segment not in hidden}
    return Stream(name, known, log, tuple(seqs), tuple(emitted_ms), (*ids, segment_id(5, 9)))


def a_history(random: Random) -> StreamHistory:
    history = StreamHistory.create(random.randint(1, 3))
    for _ in range(random.randint(0, 4)):
        history = _scaled(history, random)
    return history


def _scaled(history: StreamHistory, random: Random) -> StreamHistory:
    active = sorted(history.active.segments, key=lambda segment: segment.keys.low)
    begin = random.randrange(len(active))
    sealed = active[begin : begin + random.randint(1, 2)]
    try:
        return history.scale([segment.id for segment in sealed], random.randint(1, 2))
    except ModelError:
        return history


def _watermark(number: int, history: StreamHistory, ids: tuple[int, ...], random: Random) -> Watermark:
    if random.random() < 0.7:
        # As a controller would write it: the segments of one epoch, offsets that mostly grow.
        named = [segment.id for segment in random.choice(history.epochs).segments]
    else:
        named = random.sample(ids, random.randint(0, len(ids)))
    cut = {segment: max(0, number * 2 + random.randint(-4, 4)) for segment in named}
    ends = {segment for segment in named if random.random() < 0.05}
    cut_or_end = {segment: None if segment in ends else offset for segment, offset in cut.items()}
    bounds = number * 10 + random.randint(0, 3), number * 10 + random.randint(4, 30)
    known = random.random() < 0.85
    return Watermark(*bounds, Position(cut_or_end), {"w": bounds[0]} if known else {}, known=known)
