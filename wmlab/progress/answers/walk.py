"""Who holds the global watermark of an operator: the trackers of a query, buffer by buffer, from moment to moment."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, pairwise
from operator import itemgetter
from typing import Final, NamedTuple

from wmlab.core.holders import Stretch
from wmlab.core.words import listed
from wmlab.progress.answers.recorded_query import Fate, RecordedQuery
from wmlab.progress.answers.vocabulary import State
from wmlab.progress.model.chunks import Chunks
from wmlab.progress.model.numbers import stamp_of
from wmlab.progress.model.tracker import OriginProgress, ProgressTracker
from wmlab.progress.scenario import is_build

_UNHEARD: Final = "unheard of"


class Holding(NamedTuple):
    """An origin that holds a watermark, the operator where a sequence of it is missing, and what has become of that.

    `chunks` names those that are known to be missing, `waiting` counts the buffers of later sequences.
    """

    name: str
    operator: str
    sequence: int
    chunks: str | None
    waiting: int
    fate: Fate


class QueryWalk:
    """The trackers of an operator of a query, `tracker`, and of all operators before it; they have come to `at_ms`."""

    def __init__(self, query: RecordedQuery, operator: str) -> None:
        self._query, self._operator = query, operator
        self._emitters = query.emitters
        self._trackers: dict[str, ProgressTracker] = {}
        operators = [operator]
        for name in operators:
            self._trackers[name] = ProgressTracker(query.origins(name), query.rules)
            before = dict.fromkeys(map(self._name, query.origins(name)))
            operators += [other for other in before if other in query.operators and other not in operators]
        self._rows = [row for row in query.buffers if row["operator"] in self._trackers]
        self.tracker = self._trackers[operator]
        self._taken = 0
        self.at_ms = 0

    def to(self, at_ms: int) -> None:
        """Take the buffers up to a moment (clock), this included."""
        while self._taken < len(self._rows) and self._rows[self._taken]["arrived_ms"] <= at_ms:
            row, self._taken = self._rows[self._taken], self._taken + 1
            self._trackers[row["operator"]].step(stamp_of(row), row["arrived_ms"])
        self.at_ms = at_ms

    def stretches(self, begin_ms: int, end_ms: int) -> Iterator[Stretch]:
        """Who holds the watermark, and by what state, from one moment to the next one at which that can change."""
        times = {begin_ms, end_ms, self._query.end_ms, *self._query.sent.values()}
        times |= {
            time for fate in chain.from_iterable(self._query.faults.values()) for time in (fate.since_ms, fate.until_ms)
        }
        known = sorted(time for time in times.union(row["arrived_ms"] for row in self._rows) if time is not None)
        for from_ms, to_ms in pairwise(time for time in known if begin_ms <= time <= end_ms):
            self.to(from_ms)
            for name, state in dict.fromkeys((holding.name, holding.fate.state) for holding in self.holders()):
                yield Stretch(name, state, from_ms, to_ms)

    def holders(self) -> tuple[Holding, ...]:
        """Who holds the watermark, in the order declared; of an operator that waits those that hold what it has."""
        return tuple(dict.fromkeys(self._holders(self._operator)))

    def others(self) -> list[tuple[int, str]]:
        """The local watermarks of the other origins that have one, with their names, the lowest first."""
        ahead = (
            (progress.local, self._name(origin))
            for origin, progress in self.tracker.origins.items()
            if progress.local is not None and progress.local != self.tracker.watermark
        )
        return sorted(ahead, key=itemgetter(0))

    def _name(self, origin: int) -> str:
        return self._emitters.get(origin, _UNHEARD)

    def _holders(self, operator: str) -> Iterator[Holding]:
        tracker = self._trackers[operator]
        for origin in tracker.holding():
            progress, name = tracker.origins[origin], self._name(origin)
            chunks = progress.beyond.get(progress.prefix + 1, Chunks(tracker.rules.chunk_base))
            fate = self._fate(name, progress, chunks)
            if fate is None:
                yield from self._holders(name)
                continue
            yield Holding(
                name,
                operator,
                sequence=progress.prefix + 1,
                chunks=listed(list(map(str, chunks.missing()))) or None,
                waiting=progress.waiting - chunks.buffers,
                fate=fate,
            )

    def _fate(self, name: str, progress: OriginProgress, chunks: Chunks) -> Fate | None:
        """What has become of the sequence behind a prefix; None: it waits for what an operator waits for."""
        if chunks.last is not None and not chunks.missing():
            return Fate(State.NOT_COMPLETE)
        if name not in self._trackers:
            return self._query.fate(name, progress.prefix + 1, self.at_ms)
        fired_ms = self._query.sent.get((name, progress.prefix + 1))
        sent_ms = fired_ms if is_build(name) else self._renumbered_ms(name, progress)
        return None if sent_ms is None or sent_ms > self.at_ms else Fate(State.ON_ITS_WAY, sent_ms)

    def _renumbered_ms(self, name: str, progress: OriginProgress) -> int | None:
        """When an operator put out a buffer that raises a local watermark and has not come; None: it has not."""
        tracker = self._trackers[name]
        if tracker.watermark is None or sum(each.prefix for each in tracker.origins.values()) <= progress.prefix:
            return None
        return tracker.moved_ms if progress.local is None or tracker.watermark > progress.local else None
