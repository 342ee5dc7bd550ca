"""The second judge on stream cuts: I3, I4 and I5, key by key.

The bounds of all key ranges of a stream part its key space into atoms, so a range is a set of atoms and everything is
said for each atom: which segment of a cut is the latest there, and how far it reaches.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import pairwise
from typing import Any

from tests.machine.judge_log import log_of

Row = dict[str, Any]
Rows = Mapping[str, list[Row]]
Answer = tuple[int, list[int]]
Place = tuple[int, float]
"""A segment and how far in it: bytes, beyond all of them, or before its start."""


def cut_never_moves_back(rows: Rows) -> Answer:
    """I3, of neighbours in the log that name known segments only."""
    atoms = _atoms(rows)
    judged, broken = 0, []
    for earlier, later in pairwise(log_of(rows)):
        if not (earlier["cut"].keys() | later["cut"].keys()) - atoms.keys():
            judged += 1
            if _behind(_ends(earlier["cut"]), _ends(later["cut"]), atoms):
                broken.append(later["emitted_ms"])
    return judged, broken


def cut_beyond_writers(rows: Rows) -> Answer:
    """I4: of the marks that a cycle can have counted, one at least is not ahead of the cut."""
    atoms = _atoms(rows)
    judged, broken = 0, []
    for entry in log_of(rows):
        if entry["cut"].keys() - atoms.keys():
            continue
        reach = _ends(entry["cut"])
        for writer in sorted(entry["writers"]):
            positions = list(counted_positions(rows, entry, writer))
            judged += bool(positions)
            if positions and all(_behind(_starts(position), reach, atoms) for position in positions):
                broken.append(entry["emitted_ms"])
                break
    return judged, broken


def cut_complete(rows: Rows) -> Answer:
    """I5: every atom once, and every ancestor of the segments of the cut is behind the cut at each of its atoms."""
    atoms, ancestors = _atoms(rows), _ancestors(rows)
    space = frozenset().union(*(atoms[segment] for segment in _members(rows).get(0, ())))
    log = log_of(rows)
    return len(log), [row["emitted_ms"] for row in log if not _complete(row["cut"], atoms, space, ancestors)]


def counted_positions(rows: Rows, entry: Row, writer: str) -> Iterator[dict[int, int | None]]:
    """The positions of the marks that the cycle of a watermark can have counted for a writer."""
    time, read_ms = entry["writers"][writer], read_at(rows, entry)
    marks = [
        mark
        for mark in rows["writer_marks"]
        if (mark["writer"], mark["time"], mark["outcome"]) == (writer, time, "success")
        and mark["received_ms"] <= entry["emitted_ms"]
    ]
    since = max((mark["received_ms"] for mark in marks if mark["received_ms"] < read_ms), default=None)
    return (mark["position"] for mark in marks if since is None or mark["received_ms"] >= since)


def read_at(rows: Rows, entry: Row) -> int:
    """When the cycle that appended a watermark began: it had the entry before for its previous lower bound.

    Where no such cycle is written down, because its controller crashed, it is the last one of that controller.
    """
    before = [row["lower"] for row in log_of(rows) if row["seq"] < entry["seq"]]
    previous_lower = before[-1] if before else None
    own = [row for row in rows["cycles"] if row["controller"] == entry["controller"]]
    began = [row["at_ms"] for row in own if (row["outcome"], row["previous_lower"]) == ("emitted", previous_lower)]
    return max(began or [row["at_ms"] for row in own if row["at_ms"] <= entry["emitted_ms"]] or [entry["emitted_ms"]])


def _atoms(rows: Rows) -> dict[int, frozenset[int]]:
    """The atoms of every segment."""
    ranges = {row["segment_id"]: tuple(map(Fraction, row["keys"].split(".."))) for row in rows["segments"]}
    bounds = sorted({bound for low_high in ranges.values() for bound in low_high})
    place = {bound: number for number, bound in enumerate(bounds)}
    return {segment: frozenset(range(place[low], place[high])) for segment, (low, high) in ranges.items()}


def overlapping(rows: Rows) -> dict[int, set[int]]:
    """The segments over some of a segment's keys, by segment."""
    atoms = _atoms(rows)
    return {one: {other for other in atoms if other != one and atoms[one] & atoms[other]} for one in atoms}


def _members(rows: Rows) -> dict[int, list[int]]:
    return {row["epoch"]: row["segment_ids"] for row in rows["epochs"]}


def _ancestors(rows: Rows) -> dict[int, set[int]]:
    """Everything that each segment came from, directly or not."""
    atoms, members = _atoms(rows), _members(rows)
    parents = defaultdict(set)
    for epoch, ids in members.items():
        gone = set(members.get(epoch - 1, ())) - set(ids)
        for segment in set(ids) - set(members.get(epoch - 1, ())):
            parents[segment] = {parent for parent in gone if atoms[parent] & atoms[segment]}
    ancestors: dict[int, set[int]] = {}
    for segment in sorted(atoms):
        ancestors[segment] = parents[segment].union(*(ancestors[parent] for parent in parents[segment]))
    return ancestors


def _complete(
    cut: Mapping[int, int | None],
    atoms: Mapping[int, frozenset[int]],
    space: frozenset[int],
    ancestors: Mapping[int, set[int]],
) -> bool:
    if cut.keys() - atoms.keys() or sum(len(atoms[segment]) for segment in cut) != len(space):
        return False
    at = {atom: segment for segment in cut for atom in atoms[segment]}
    waited_for = set().union(*(ancestors[segment] for segment in cut))
    return at.keys() == space and all(at[atom] > old for old in waited_for for atom in atoms[old])


def _behind(position: Mapping[int, float], cut: Mapping[int, float], atoms: Mapping[int, frozenset[int]]) -> bool:
    """Whether the cut lies behind the position at some atom that both cover."""
    reach = _latest(cut, atoms)
    return any(
        atom in reach and reach[atom] < (segment, offset)
        for segment, offset in position.items()
        for atom in atoms.get(segment, ())
    )


def _latest(cut: Mapping[int, float], atoms: Mapping[int, frozenset[int]]) -> dict[int, Place]:
    return {atom: (segment, cut[segment]) for segment in sorted(cut) for atom in atoms[segment]}


def _ends(cut: Mapping[int, int | None]) -> dict[int, float]:
    return {segment: float("inf") if offset is None else offset for segment, offset in cut.items()}


def _starts(position: Mapping[int, int | None]) -> dict[int, float]:
    return {segment: -1 if offset is None else offset for segment, offset in position.items()}
