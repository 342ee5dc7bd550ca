"""The faults of a dataflow as values: times are ms after its start; without `for_ms` a fault lasts to the end.

A fault of a vertex, partition or instance that does not exist is refused. One that turns out not to happen, because
its partition is not there then, is written down in the table `incidents`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY
from typing import Annotated, Final

from pydantic import Field

from wmlab.core.grouping import rows_by
from wmlab.core.values import Flag, Ms, Period, Problem, after_the_end, tagged, unknown, value
from wmlab.dataflow.scenario.source import Source
from wmlab.dataflow.scenario.vertices import AnyStep, AsyncMap, Filter

OrdinalNumber = Annotated[int, Field(ge=0, lt=1_000, strict=True)]
"""A partition or an instance, from 0."""


@value
class Lasting:
    """The base of the faults that last, from `at_ms` on."""

    _: KW_ONLY
    at_ms: Ms = 0
    for_ms: Period | None = None


@value
class OfPartition:
    """The base of the faults that happen to a partition of a source."""

    source: str
    partition: OrdinalNumber


@tagged
class SilentPartition(OfPartition, Lasting):
    """Rows of a partition that would arrive in that period never arrive."""


@tagged
class LatePartition(OfPartition, Lasting):
    """Rows of a partition that would arrive in that period arrive `by_ms` later; later rows do not overtake them."""

    _: KW_ONLY
    by_ms: Period


@tagged
class AddPartition(OfPartition):
    """A partition that its source does not know before `at_ms`; its earlier rows arrive at that moment."""

    _: KW_ONLY
    at_ms: Period


@tagged
class RemovePartition(OfPartition):
    """A partition that is removed at `at_ms`, with all its future rows."""

    _: KW_ONLY
    at_ms: Period


@tagged
class Disorder(Lasting):
    """Rows of a source that would arrive in that period arrive up to `by_ms` later, each by its own random draw."""

    source: str
    _: KW_ONLY
    by_ms: Period


@tagged
class SlowCalls(Lasting):
    """Calls of an asynchronous vertex in that period take `by_ms` longer; only the `first` ones, if given."""

    vertex: str
    _: KW_ONLY
    by_ms: Period
    first: Annotated[int, Field(ge=1, le=10**9, strict=True)] | None = None


@tagged
class FailCall:
    """The first call of an asynchronous vertex from `at_ms` on fails when it returns, and then the job fails."""

    vertex: str
    _: KW_ONLY
    at_ms: Ms = 0


@tagged
class Stall(Lasting):
    """A vertex, or one of its instances, stops: it takes no items, and a source reads no rows."""

    vertex: str
    _: KW_ONLY
    instance: OrdinalNumber | None = None


@tagged
class SwallowAll(Lasting):
    """A filter, or the filter of a source, lets no row pass."""

    vertex: str


@tagged
class Restart:
    """The job is stopped at once and begins again from its last complete snapshot; sources read again from there.

    With `after_snapshot`, a terminal snapshot is taken first, and the job restarts from it when it is complete.
    """

    at_ms: Period
    _: KW_ONLY
    after_snapshot: Flag = False


_OfSource = SilentPartition | LatePartition | AddPartition | RemovePartition | Disorder
_OfVertex = SlowCalls | FailCall | Stall | SwallowAll
AnyFault = Annotated[_OfSource | _OfVertex | Restart, Field(discriminator="kind")]
"""Any entry of a dataflow's `faults`."""
_HITS: Final[dict[type, tuple[tuple[type, ...], str]]] = {
    SlowCalls: ((AsyncMap,), "asynchronous map"),
    FailCall: ((AsyncMap,), "asynchronous map"),
    Stall: ((object,), "vertex"),
    SwallowAll: ((Filter, Source), "filter"),
}
"""The kinds of vertices that a fault can happen to, and what to call them; all others happen to sources."""


def problems_of_faults(
    faults: Sequence[AnyFault], vertices: Sequence[Source | AnyStep], *, duration_ms: int, has_snapshots: bool
) -> Iterator[Problem]:
    """The mistakes that the faults of a dataflow show only together with the rest of it."""
    for number, fault in enumerate(faults):
        location = ("faults", number)
        yield from after_the_end((*location, "at_ms"), fault.at_ms, duration_ms)
        if not isinstance(fault, Restart):
            yield from _target_problems(vertices, location, fault)
        elif fault.after_snapshot and not has_snapshots:
            yield Problem(
                (*location, "after_snapshot"),
                "without a guarantee there are no snapshots; choose a guarantee, or leave it out",
            )


_NOT_YET: Final = "it was not there before {}"
_GONE: Final = "it was gone from {} on"


def never_happening(faults: Sequence[AnyFault]) -> dict[int, tuple[str, int]]:
    """The faults of partitions that are not there then, by number: why, with {} for a moment, and that moment (ms).

    A partition is added once and then removed once, of several times at the earliest. One that is gone is neither
    silent nor late; nor is one late before it is added, since all its rows of that time arrive when it is.
    """
    never: dict[int, tuple[str, int]] = {}
    in_order = sorted(enumerate(faults), key=lambda entry: entry[1].at_ms)
    of_partitions = ((number, fault) for number, fault in in_order if isinstance(fault, OfPartition))
    for faults_of_one in rows_by(of_partitions, lambda entry: (entry[1].source, entry[1].partition)).values():
        added = [(number, fault.at_ms) for number, fault in faults_of_one if isinstance(fault, AddPartition)]
        added_ms = added[0][1] if added else 0
        removed = [(number, fault.at_ms) for number, fault in faults_of_one if isinstance(fault, RemovePartition)]
        never |= {number: ("it was there already from {} on", added_ms) for number, _ in added[1:]}
        early = [number for number, at_ms in removed if at_ms <= added_ms]
        never |= dict.fromkeys(early, (_NOT_YET, added_ms))
        removed = [entry for entry in removed if entry[0] not in early]
        removed_ms = removed[0][1] if removed else math.inf
        for number, fault in faults_of_one:
            if isinstance(fault, SilentPartition | LatePartition) and fault.at_ms >= removed_ms:
                never[number] = _GONE, int(removed_ms)
            until_ms = math.inf
            if isinstance(fault, LatePartition) and fault.for_ms is not None:
                until_ms = fault.at_ms + fault.for_ms + fault.by_ms
            if until_ms <= added_ms:
                never[number] = _NOT_YET, added_ms
        never |= {number: (_GONE, int(removed_ms)) for number, _ in removed[1:]}
    return never


def _target_problems(
    vertices: Sequence[Source | AnyStep], location: tuple[str | int, ...], fault: _OfSource | _OfVertex
) -> Iterator[Problem]:
    """A vertex, partition or instance that does not exist, or to which the fault cannot happen."""
    field = "source" if isinstance(fault, _OfSource) else "vertex"
    name = getattr(fault, field)
    kinds, what = _HITS.get(type(fault), ((Source,), "source"))
    fitting = [vertex for vertex in vertices if isinstance(vertex, kinds)]
    vertex = next((vertex for vertex in fitting if vertex.name == name), None)
    if vertex is None:
        yield from unknown((*location, field), what, name, [vertex.name for vertex in fitting])
        return
    if isinstance(fault, SwallowAll) and isinstance(vertex, Source) and vertex.where is None:
        yield Problem((*location, field), f"source {name!r} has no filter; give it where=")
    partitions = known_partitions(vertex) if isinstance(vertex, Source) else None
    for field, limit in (("partition", partitions), ("instance", vertex.parallelism)):
        number = getattr(fault, field, None)
        if number is not None and limit is not None and number >= limit:
            yield Problem((*location, field), no_such_number(name, field, limit, number))


def no_such_number(name: str, what: str, count: int, number: int) -> str:
    """The message about a partition or an instance that a vertex does not have."""
    return f"{name!r} has {what}s 0 to {count - 1} (got {number})"


def known_partitions(source: Source) -> int | None:
    """How many partitions a source has; None: that is known only when the stream is read."""
    if source.stream is None:
        return source.partitions
    if isinstance(source.stream, str):
        return None
    readers = sum(len(group.reader_names()) for group in source.groups_read)
    names = {group.name for group in source.groups_read}
    joining = sum(
        getattr(action, "kind", "") == "add_reader" and getattr(action, "group", None) in {None, *names}
        for action in source.stream.script
    )
    return readers + joining or source.partitions
