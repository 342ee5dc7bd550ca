"""What each instance of a source is going to read: rows in the order of their arrival, after all faults of arrival."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from wmlab.core.clock import generator
from wmlab.dataflow.scenario.dataflow import DataflowScenario
from wmlab.dataflow.scenario.faults import AddPartition, Disorder, LatePartition, RemovePartition, SilentPartition
from wmlab.dataflow.scenario.source import Reading, Source
from wmlab.dataflow.sim.queue import spread


@dataclass(frozen=True, slots=True)
class Arrival:
    """A row that a source reads: clock time in ms, its partition, its number in the source, and its values."""

    at_ms: int
    partition: int
    number: int
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """A partition that appears or goes, or a lower bound that is promised for it (None: for all partitions)."""

    at_ms: int
    partition: int | None
    kind: str
    bound: int | None = None


@dataclass(frozen=True, slots=True)
class Feed:
    """All that one instance reads; `partitions` are those it has from the start. Both lists by clock time."""

    arrivals: tuple[Arrival, ...]
    changes: tuple[Change, ...]
    partitions: tuple[int, ...]


def feeds(dataflow: DataflowScenario, source: Source, reading: Reading | None) -> tuple[Feed, ...]:
    """What every instance of `source` reads; partition p belongs to instance p modulo the parallelism."""
    count = source.partitions if reading is None else reading.partitions
    rows = list(_listed(dataflow, source) if reading is None else _read(source, reading))
    arrivals = _in_order(_faulty(dataflow, source, rows))
    changes = sorted(_changes(dataflow, source, reading), key=lambda change: change.at_ms)
    added = {change.partition for change in changes if change.kind == "add"}
    instances = range(source.parallelism)
    shares = [[p for p in range(count) if p % source.parallelism == number] for number in instances]
    return tuple(
        Feed(
            tuple(arrival for arrival in arrivals if arrival.partition in share),
            tuple(change for change in changes if change.partition is None or change.partition in share),
            tuple(partition for partition in share if partition not in added),
        )
        for share in map(set, shares)
    )


def _listed(dataflow: DataflowScenario, source: Source) -> Iterator[Arrival]:
    by = None if source.partition_by is None else source.columns.index(source.partition_by)
    arrival = None if source.arrival is None else source.columns.index(source.arrival)
    begin = dataflow.start_ms + source.starts_ms
    for number, values in enumerate(source.rows or ()):
        at_ms = begin + (number * source.every_ms if arrival is None else values[arrival])
        yield Arrival(at_ms, partition_of(values, by, number, source.partitions), number, values)


def partition_of(values: tuple[Any, ...], by: int | None, number: int, partitions: int) -> int:
    """The partition of a row: in turn, or what its column says; a whole number is that of the partition."""
    if by is None:
        return number % partitions
    value = values[by]
    return (value if type(value) is int else spread((value,))) % partitions


def _read(source: Source, reading: Reading) -> Iterator[Arrival]:
    by = None if source.partition_by is None else source.row_columns.index(source.partition_by)
    for number, (at_ms, partition, values) in enumerate(reading.rows):
        if partition is None or by is not None:
            partition = partition_of(values, by, number, reading.partitions)
        yield Arrival(at_ms, partition, number, values)


def _faulty(dataflow: DataflowScenario, source: Source, rows: list[Arrival]) -> list[Arrival]:
    """The rows after everything that keeps, delays or loses some of them, fault by fault."""
    for place, fault in enumerate(dataflow.faults):
        if getattr(fault, "source", None) != source.name:
            continue
        begin = dataflow.start_ms + fault.at_ms
        for_ms = getattr(fault, "for_ms", None)
        end = None if for_ms is None else begin + for_ms
        hit = [
            begin <= row.at_ms
            and (end is None or row.at_ms < end)
            and getattr(fault, "partition", row.partition) == row.partition
            for row in rows
        ]
        match fault:
            case SilentPartition() | RemovePartition():
                rows = [row for row, is_hit in zip(rows, hit, strict=True) if not is_hit]
            case LatePartition(by_ms=by_ms):
                rows = [replace(row, at_ms=row.at_ms + by_ms) if h else row for row, h in zip(rows, hit, strict=True)]
                rows = _without_overtaking(rows, fault.partition)
            case AddPartition(partition=partition):
                rows = [
                    replace(row, at_ms=max(row.at_ms, begin)) if row.partition == partition else row for row in rows
                ]
            case Disorder(by_ms=by_ms):
                draws = generator(dataflow.seed, f"disorder {place} of {source.name}").integers(0, by_ms + 1, len(rows))
                delays = [int(draw) if is_hit else 0 for draw, is_hit in zip(draws, hit, strict=True)]
                rows = [replace(row, at_ms=row.at_ms + delay) for row, delay in zip(rows, delays, strict=True)]
    return rows


def _without_overtaking(rows: list[Arrival], partition: int) -> list[Arrival]:
    latest, kept = None, []
    for row in rows:
        if row.partition == partition:
            latest = row.at_ms if latest is None else max(latest, row.at_ms)
            row = replace(row, at_ms=latest)
        kept.append(row)
    return kept


def _in_order(rows: list[Arrival]) -> list[Arrival]:
    return sorted(rows, key=lambda row: (row.at_ms, row.number))


def _changes(dataflow: DataflowScenario, source: Source, reading: Reading | None) -> Iterator[Change]:
    for fault in dataflow.faults:
        if isinstance(fault, AddPartition | RemovePartition) and fault.source == source.name:
            kind = "add" if isinstance(fault, AddPartition) else "remove"
            yield Change(dataflow.start_ms + fault.at_ms, fault.partition, kind)
    for at_ms, partition, bound in () if reading is None else reading.bounds:
        yield Change(at_ms, partition, "bound", bound)
