"""The timeline of a stream, computed a second time: from the recorded tables alone.

Nothing of the answers of streams is used. A row is when, until when, who, what in its first words, and what came of it
as typed values.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from tests.oracles.tables import SUCCESS, Row, Run

Told = tuple[int, int, str, str, str, tuple[tuple[str, Any], ...]]
_TOGETHER_MS = 5_000


def told(at_ms: int, to_ms: int | None, who: str, what: str, effect: str = "", **facts: Any) -> Told:
    """A row; `effect` is a template over the facts. Those without a value are not there; `_` in a name is a blank."""
    known = {name.replace("_", " "): value for name, value in facts.items() if value is not None}
    return at_ms, at_ms if to_ms is None else to_ms, who, what, effect, tuple(sorted(known.items()))


def timeline(run: Run, stream: str) -> list[Told]:
    """All rows, ascending."""
    kinds = (_segments, _faults, _owners, _transactions, _marks, _refusals, _cycles, _positions, _windows)
    return sorted(row for kind in kinds for row in kind(run, stream))


def _name(segment: int) -> str:
    return f"{segment % 2**32}@{segment // 2**32}"


def _names(segments: Any) -> str:
    return ", ".join(map(_name, segments))


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _epochs(run: Run, stream: str) -> list[Row]:
    rows = [row for row in run.recording.table("epochs").to_pylist() if row["stream"] == stream]
    return sorted(rows, key=lambda row: row["epoch"])


def _segments(run: Run, stream: str) -> Iterator[Told]:
    before: list[int] | None = None
    for row in _epochs(run, stream):
        there = row["segment_ids"]
        if before is None:
            yield told(row["at_ms"], None, stream, "is created", "with {segments}", segments=_names(there))
        else:
            gone, new = [s for s in before if s not in there], [s for s in there if s not in before]
            deed = "scales" if row["kind"] == "scale" else f"changes ({row['kind']})"
            what = f"{deed}: {_names(gone)} → {_names(new)}"
            now = {"epoch": row["epoch"], "segments": _names(there)}
            yield told(row["at_ms"], None, stream, what, "epoch {epoch}: {segments}", **now)
        before = there
    for row in run.all_rows("segments", stream):
        if row["sealed_ms"] is not None:
            yield told(row["sealed_ms"], None, stream, f"seals {_name(row['segment_id'])}")


def _faults(run: Run, stream: str) -> Iterator[Told]:
    errors = run.recording.table("errors").to_pylist()
    refused = {(row["at_ms"], row["process"]): row["problem"] for row in errors if row["call"] == "note time"}
    for row in run.all_rows("incidents", stream):
        problem = refused.get((row["at_ms"], row["target"])) if row["kind"] == "note" else None
        effect = "refused: {refused as}" if problem else ""
        if row["outcome"] != "done" or row["kind"] not in ("scale", "create"):
            yield told(row["at_ms"], None, row["target"], row["detail"], effect, refused_as=problem)


def _owners(run: Run, stream: str) -> Iterator[Told]:
    for row in run.recording.table("ownership").to_pylist():
        if stream.partition("#")[0] in row["streams"]:
            yield told(row["from_ms"], row["to_ms"], row["controller"], f"owns bucket {row['bucket']}")


def _transactions(run: Run, stream: str) -> Iterator[Told]:
    for row in run.recording.table("transactions").to_pylist():
        if row["stream"] == stream:
            effect = "{state} to the end, events: {events}"
            for fate in ("aborted", "committed"):
                if row[f"{fate}_ms"] is not None:
                    effect = f"{fate} at {{{fate} at}}, events: {{events}}"
            ends = [row[at] for at in ("commit_requested_ms", "committed_ms", "aborted_ms") if row[at] is not None]
            yield told(
                row["begun_ms"],
                max(ends, default=None),
                row["writer"],
                f"begins transaction {row['txn']}",
                effect,
                committed_at=row["committed_ms"],
                aborted_at=row["aborted_ms"],
                state=row["state"],
                events=row["events"],
            )


def _marks(run: Run, stream: str) -> Iterator[Told]:
    """The accepted marks with which a writer came on record."""
    drops = [(row["at_ms"], name) for row in run.all_rows("cycles", stream) for name in row["removed"]]
    last_ms: dict[str, int] = {}
    for row in run.all_rows("writer_marks", stream):
        if row["outcome"] == SUCCESS:
            at_ms, writer = row["received_ms"], row["writer"]
            since_ms = last_ms.get(writer)
            if since_ms is None:
                yield told(at_ms, None, writer, "notes the time", "is on record")
            elif any(name == writer and since_ms <= dropped_ms <= at_ms for dropped_ms, name in drops):
                yield told(at_ms, None, writer, "notes the time", "is on record again")
            last_ms[writer] = at_ms


def _refusals(run: Run, stream: str) -> Iterator[Told]:
    rows = [row for row in run.all_rows("writer_marks", stream) if row["outcome"] != SUCCESS]
    for outcome in sorted({row["outcome"] for row in rows}):
        group: list[Row] = []
        for row in [row for row in rows if row["outcome"] == outcome] + [None]:
            if group and (row is None or row["received_ms"] - group[-1]["received_ms"] > _TOGETHER_MS):
                writers = sorted({each["writer"] for each in group})
                who = _listed(writers)
                what = "notes the time" if len(group) == 1 else "notes a time" if len(writers) == 1 else "note a time"
                yield told(
                    group[0]["received_ms"],
                    group[-1]["received_ms"],
                    who,
                    what,
                    "refused: {refused as}",
                    refused_as=outcome,
                )
                group = []
            group += [] if row is None else [row]


def _cycles(run: Run, stream: str) -> Iterator[Told]:
    """Watermarks of one controller in a row, when they were appended; between them, cycles that ended alike.

    Of a cycle that appended none only its beginning is known, and so it is told what the cycle began with.
    """
    cycles = run.all_rows("cycles", stream)
    for row in cycles:
        for writer in row["removed"]:
            yield told(row["at_ms"], None, row["controller"], f"begins a cycle that drops {writer}")
    appended = [row for row in run.watermarks(stream, run.end_ms) if row["writers"]]
    held = [row for row in cycles if row["outcome"] != "emitted"]
    steps = [(row["at_ms"], 0, row) for row in held] + [(row["emitted_ms"], 1, row) for row in appended]

    def alike(step: tuple[int, int, Row]) -> tuple[Any, ...]:
        _, is_watermark, row = step
        if is_watermark:
            return (row["controller"],)
        return row["controller"], tuple(sorted(row["lagging"])), "" if row["lagging"] else row["reason"]

    for of, group in groupby(sorted(steps, key=lambda step: step[:2]), key=alike):
        together = list(group)
        from_ms, to_ms, last = together[0][0], together[-1][0], together[-1][2]
        if len(of) == 1:
            lowers = [row["lower"] for _, _, row in together]
            effect = "lower bound {bound}" if len(lowers) == 1 else "lower bound {bound before} → {bound}"
            before = lowers[0] if len(lowers) > 1 else None
            what = f"emits {len(lowers)} watermark"
            yield told(from_ms, to_ms, of[0], what, effect, bound=lowers[-1], bound_before=before)
            continue
        newest = run.watermarks(stream, to_ms)[-1:]
        ends = [row for row in run.all_rows("watermarks", stream) if not row["writers"] and row["cycle_ms"] is not None]
        own = [row for row in ends if (row["controller"], row["cycle_ms"]) == (of[0], to_ms)]
        newest = own or newest
        ended_ms = newest[0]["emitted_ms"] if newest and not newest[0]["writers"] else None
        bound = newest[0]["lower"] if newest and ended_ms is None else None
        effect = "no lower bound yet" if not newest else "lower bound stays at {bound}"
        effect = effect if ended_ms is None else "no lower bound since {no bound since}"
        # A watermark came while the last of them ran.
        is_late = bool(newest) and last["previous_lower"] not in (None, newest[0]["lower"]) and not own
        if "another leader appended first" in last["reason"] or is_late:
            effect, bound, ended_ms = "", None, None
        end = f"waits for {_listed(sorted(last['lagging']))}" if last["lagging"] else last["reason"]
        what = f"begins {len(together)} cycle{'s' if len(together) > 1 else ''} ({end})"
        yield told(from_ms, to_ms, of[0], what, effect, bound=bound, no_bound_since=ended_ms)


def _positions(run: Run, stream: str) -> Iterator[Told]:
    """Segments that a group has finished, and resets."""
    rows = sorted(run.all_rows("positions", stream), key=lambda row: row["version"])
    waiting: set[tuple[str, int]] = set()
    for row in rows:
        key = row["group"], row["segment_id"]
        was_waiting = key in waiting
        (waiting.add if row["waits"] else waiting.discard)(key)
        has_finished = row["finished"] or row["waits"]
        if has_finished and not row["reset"] and not (row["finished"] and was_waiting):
            together = [r for r in rows if (r["group"], r["version"]) == (row["group"], row["version"])]
            free = sorted(r["segment_id"] for r in together if not r["finished"] and r["reader"] is None)
            is_last = row["segment_id"] in _epochs(run, stream)[-1]["segment_ids"]
            effect = "it has no successors" if is_last else "its successors wait for other segments"
            effect = "{segments} can be read" if free else effect
            who, what = row["reader"] or row["group"], f"finishes {_name(row['segment_id'])}"
            yield told(row["at_ms"], None, who, what, effect, segments=_names(free) or None)
    updates = sorted({(row["group"], row["version"]) for row in rows})
    for group, version in updates:
        changed = [row for row in rows if (row["group"], row["version"]) == (group, version)]
        if all(row["reset"] for row in changed):
            going_on = sorted((r["segment_id"], r["offset"]) for r in changed if not r["finished"] and not r["waits"])
            places = [f"{_name(segment)} at {offset:,}".replace(",", " ") for segment, offset in going_on]
            named = [*places[:4], *([f"{len(places) - 4} more"] if len(places) > 4 else [])]
            text = _listed(named) if named else None
            effect = "reads on in {reads on in} bytes" if text else ""
            yield told(changed[0]["at_ms"], None, group, "is taken back", effect, reads_on_in=text)


def _windows(run: Run, stream: str) -> Iterator[Told]:
    seen: set[tuple[str, str]] = set()
    for row in run.all_rows("windows", stream):
        if row["lower"] is not None and (row["group"], row["reader"]) not in seen:
            seen.add((row["group"], row["reader"]))
            yield told(row["at_ms"], None, row["reader"], "saw its first lower bound", "{saw}", saw=row["lower"])
