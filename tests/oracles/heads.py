"""What stands above the charts of streams, computed a second time: from the recorded tables and the script alone.

Nothing of the answers, charts or bounds of streams is used. Each function gives the title, the headline as a template
over labels, and all labels with their values; a label without a value is not there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from statistics import median, median_high
from typing import Any

from tests.oracles.group_facts import Group
from tests.oracles.present import present
from tests.oracles.run_facts import RunCurve, Stop, held_by, held_longest
from tests.oracles.tables import Row, Run

Bound = int | None
Steps = list[tuple[int, Bound]]
"""From when on (clock, ms) a bound has which value; None: it is unknown."""


@dataclass(frozen=True)
class Above:
    """What stands above one chart."""

    title: str
    template: str
    facts: dict[str, Any]


def above(title: str, facts: Mapping[str, Any], template: str) -> Above:
    """With the facts that have a value; a tuple of one is that value."""
    return Above(title, template, present(facts.items()))


def lengths(times: Sequence[int]) -> list[int]:
    """For how long each row is valid: until the next one, the last one for no time (ms)."""
    return [after - before for before, after in zip(times, [*times[1:], *times[-1:]], strict=True)]


def longest_stop(rows: Sequence[tuple[int, Bound]]) -> Stop | None:
    """The first of the longest times in which rows have one known value; it ends with another one, or the last row."""
    stops = []
    for value, of_value in groupby(rows, key=lambda row: row[1]):
        begin = next(of_value)[0]
        end = next((at for at, other in rows if at >= begin and other != value and at > begin), rows[-1][0])
        if value is not None and end > begin:
            stops.append(Stop(value, begin, end))
    return max(stops, key=lambda stop: stop.length_ms, default=None)


def of_stop(curve: RunCurve | None, stop: Stop | None) -> dict[str, Any]:
    """The labels of a longest stop."""
    if stop is None:
        return {}
    parties = () if curve is None else held_by(held_longest(curve, stop)[0])
    return {
        "longest stop": stop.length_ms,
        "at": stop.value,
        "from": stop.from_ms,
        "to": stop.to_ms,
        "held by": parties,
    }


# Time bounds.


@dataclass(frozen=True)
class BoundRows:
    """The table of bounds that is drawn: clock, lower, upper, and the smallest event time still to come."""

    rows: list[tuple[int, Bound, Bound, Bound]]
    group: str | None = None
    reader: str | None = None


def time_bounds(run: Run, stream: str, table: BoundRows, *, alone: bool = False) -> Above:
    """The bounds at the position of a group, with what its readers saw, or those that one reader saw.

    Of the table `alone`, without the recording, nobody is known who held or saw them.
    """
    at_ms = [row[0] for row in table.rows]
    held_for = lengths(at_ms)
    lower = [row[1] for row in table.rows]
    excess = [low - perfect for _, low, _, perfect in table.rows if low is not None and perfect is not None]
    known = [low for low in lower if low is not None]
    curve = None
    if not alone:
        assert table.group is not None
        curve = RunCurve(run, stream, Group(run, stream, table.group), table.reader)
    whose = f" at the position of {table.group}" if table.reader is None else f" seen by {table.reader}"
    stop = longest_stop(list(zip(at_ms, lower, strict=True)))
    above_for = [
        time
        for (_, low, _, perfect), time in zip(table.rows, held_for, strict=True)
        if low is not None and perfect is not None and low > perfect
    ]
    facts = {
        "bound": f"The lower bound{whose}",
        "last": known[-1] if known else None,
        "above perfect for": sum(above_for) if excess else None,
        "above perfect by": max(0, *excess, 0) if excess else None,
        **of_stop(curve, stop),
    }
    question = f"Which time bounds does {stream} have at the position of {table.group}?"
    if table.reader is not None:
        question = f"Which time bounds of {stream} did {table.reader} see?"
    if stop is not None:
        held = "" if alone else ", held by {held by}"
        template = f"{{bound}} stood still for {{longest stop}} from {{from}}{held}."
    elif known:
        template = "{bound} is {last}."
    else:
        template = "{bound} is unknown all the time."
    return above(question, facts, template)


def group_rows(run: Run, stream: str, group: str) -> BoundRows:
    """The bound at the position of a group from its first moment to the end of the run, with perfect watermarks."""
    steps = sorted(dict(Group(run, stream, group).steps()).items())
    end_ms = max([run.ends(stream), *(at for at, _ in steps)])
    marks = run.watermarks(stream, run.end_ms)
    rows = []
    for at, lower in [*steps, (end_ms, steps[-1][1])]:
        later = [row["event_time"] for row in run.after("events", stream, at)]
        upper = next((row["upper"] for row in marks if lower is not None and row["lower"] > lower), None)
        rows.append((at, lower, upper, min(later, default=None)))
    return BoundRows(rows, group)


def reader_rows(run: Run, stream: str, group: str, reader: str) -> BoundRows:
    """What a reader saw at its polls, until it left or the run ended."""
    seen = [row for row in run.all_rows("windows", stream) if (row["group"], row["reader"]) == (group, reader)]
    rows = [(row["at_ms"], row["lower"], row["upper"], None) for row in seen]
    end_ms = RunCurve(run, stream, Group(run, stream, group), reader).ends_ms
    if end_ms > rows[-1][0]:
        rows.append((end_ms, *rows[-1][1:]))
    return BoundRows(rows, group, reader)


# Parties.


def writer_marks(run: Run, stream: str) -> Above:
    """The longest stop of the watermark in the log."""
    curve = RunCurve(run, stream)
    stop = curve.longest()
    stood = "The watermark in the log stood still for {longest stop}, held by {held by}."
    template = "There is no watermark in the log." if stop is None else stood
    return above(f"Who noted time in {stream}, and who held its watermark?", of_stop(curve, stop), template)


def holders(run: Run, stream: str) -> Above:
    """Who held the watermark in the log for longest by one cause, the cycle period after all others."""
    curve = RunCurve(run, stream)
    first_ms = min(row["created_ms"] for row in run.all_rows("segments", stream))
    changes = curve.changes(Stop(0, first_ms, run.ends(stream)))
    held_ms: Counter[tuple[str, str]] = Counter()
    for begin, end in zip(changes, [*changes[1:], run.ends(stream)], strict=True):
        held = curve.held(begin)
        for party in held_by(held):
            held_ms[party, held.cause] += end - begin
    (party, cause), time = min(held_ms.items(), key=lambda item: (-item[1], item[0][1], item[0][0]))
    facts = {"bound": f"watermark in the log of {stream}", "held by": party, "cause": cause, "held for": time}
    return above(
        f"Who held the watermark in the log of {stream}, and for how long?",
        facts,
        "The {bound} was held longest by {held by} ({cause}), for {held for}.",
    )


def watermark_cycles(run: Run, stream: str) -> Above:
    """How many cycles appended a watermark, one that died after that too, and whom those waited for that did not."""
    rows = run.all_rows("cycles", stream)
    ran = {(row["controller"], row["at_ms"]) for row in rows}
    emitted = {(row["controller"], row["cycle_ms"]) for row in run.all_rows("watermarks", stream) if row["writers"]}
    waited = Counter(name for row in rows for name in row["lagging"])
    most = min(waited, key=lambda name: (-waited[name], name), default=None)
    facts = {
        "cycles": len(ran | emitted),
        "emitted": len(emitted),
        "waited for most": most,
        "waited for in": None if most is None else waited[most],
    }
    template = "Cycles that emitted a watermark: {emitted} of {cycles}."
    if most is not None:
        template = template.replace(".", "; that waited for {waited for most}: {waited for in}.")
    return above(f"When did the watermark cycle of {stream} emit, and why not?", facts, template)


def generations(run: Run, stream: str) -> Above:
    """Who was left out of most generations in a row: a cycle that failed has none, one that died after its mark has."""
    rows = run.all_rows("cycles", stream)
    with_generation = [row for row in rows if row["participating"] or row["lagging"] or row["removed"]]
    ran = {(row["controller"], row["at_ms"]) for row in rows}
    with_generation += [
        {"at_ms": mark["cycle_ms"], "participating": list(mark["writers"]), "lagging": [], "removed": []}
        for mark in run.all_rows("watermarks", stream)
        if mark["writers"] and (mark["controller"], mark["cycle_ms"]) not in ran
    ]
    with_generation.sort(key=lambda row: row["at_ms"])
    in_cycle = [{*row["participating"], *row["lagging"], *row["removed"]} for row in with_generation]
    known = sorted(set().union(*in_cycle))
    total = Counter(name for row in with_generation for name in row["lagging"])
    stretches = []
    for name in sorted(known, key=lambda name: (-total[name], name)):
        of_writer = [row for row, names in zip(with_generation, in_cycle, strict=True) if name in names]
        for is_out, rows in groupby(of_writer, key=lambda row, name=name: name in row["lagging"]):
            if is_out:
                stretches.append((name, [row["at_ms"] for row in rows]))
    name, times = max(stretches, key=lambda each: len(each[1]), default=(None, []))
    facts = {
        "left out longest": name,
        "left out of": len(times) or None,
        "left out from": times[0] if times else None,
    }
    template = "Generations in a row without {left out longest}: {left out of}, from {left out from} on."
    if name is None:
        template = "Every known writer was in every generation."
    return above(f"Which writers of {stream} were in each generation, and why were others not?", facts, template)


def bucket_ownership(run: Run) -> Above:
    """The longest gap between two owners of a bucket."""
    rows = run.recording.table("ownership").to_pylist()
    gaps = []
    by_bucket: dict[int, list[Row]] = {}
    for row in sorted(rows, key=lambda row: (row["bucket"], row["from_ms"])):
        by_bucket.setdefault(row["bucket"], []).append(row)
    for bucket, of_bucket in by_bucket.items():
        starts = [*(row["from_ms"] for row in of_bucket[1:]), run.end_ms]
        for row, next_ms in zip(of_bucket, starts, strict=True):
            if row["to_ms"] is not None and next_ms > row["to_ms"]:
                gaps.append((bucket, row["to_ms"], next_ms))
    longest = max(gaps, key=lambda gap: gap[2] - gap[1], default=None)
    facts = {
        "longest gap": None if longest is None else longest[2] - longest[1],
        "bucket": None if longest is None else str(longest[0]),
        "gap from": None if longest is None else longest[1],
    }
    template = "No bucket was without an owner once it had one."
    if longest is not None:
        template = "Bucket {bucket} was without an owner for longest, for {longest gap} from {gap from}."
    return above("Who owned which bucket of streams?", facts, template)


# Bounds side by side.


def value_at(steps: Steps, at_ms: int) -> tuple[bool, Bound]:
    """Whether a curve has begun by then, and its value; of several rows of one moment the last counts."""
    by_then = [value for at, value in steps if at <= at_ms]
    return bool(by_then), by_then[-1] if by_then else None


def least_of(curves: Iterable[Steps], at_ms: int) -> Bound:
    """The smallest of the curves that have begun; unknown while one of them is."""
    begun = [value for has_begun, value in (value_at(steps, at_ms) for steps in curves) if has_begun]
    known = [value for value in begun if value is not None]
    return min(known) if known and len(known) == len(begun) else None


def alignment(run: Run, by: str) -> Above | None:
    """Lower bounds of streams, or of the readers of one stream, side by side; that of a deleted stream has ended.

    None: there are too few or too many, no two are ever known at once, or readers are of several streams.
    """
    windows = run.recording.table("windows").to_pylist()
    ends = [
        {"at_ms": end_ms, "lower": None, "stream": row["stream"], "reader": row["reader"]}
        for row in windows
        if by == "stream"
        if (end_ms := run.incident(row["stream"], "delete", run.end_ms)) is not None
    ]
    curves: dict[str, dict[str, Steps]] = {}
    for row in sorted([*windows, *ends], key=lambda row: row["at_ms"]):
        curves.setdefault(row[by], {}).setdefault(row["reader"], []).append((row["at_ms"], row["lower"]))
    if by == "reader" and len({row["stream"] for row in windows}) > 1:
        return None
    names = sorted(curves)
    times = sorted({at for of_name in curves.values() for steps in of_name.values() for at, _ in steps})
    rows = [{name: least_of(curves[name].values(), at) for name in names} for at in times]
    behind_ms = Counter(dict.fromkeys(names, 0))
    apart = -1
    for row, time in zip(rows, lengths(times), strict=True):
        known = [bound for bound in row.values() if bound is not None]
        if len(known) < 2:
            continue
        low, high = min(known), max(known)
        apart = max(apart, high - low)
        for name, bound in row.items():
            if bound == low < high:
                behind_ms[name] += time
    if not 2 <= len(names) <= 4 or apart < 0:
        return None
    facts: dict[str, Any] = {"apart at most": apart}
    template = "The bounds were never apart."
    if apart:
        name = min(names, key=lambda name: (-behind_ms[name], name))
        facts |= {"behind": name, "behind for": behind_ms[name]}
        template = "{behind} was behind for {behind for}, and the bounds were {apart at most} apart at most."
    return above(f"Which {by} held the others back, and how far apart were they?", facts, template)


def reader_times(run: Run, stream: str, group: str) -> Above | None:
    """Whose time was the least one in the map that a group shares; None: it shares none."""
    rows = [
        row
        for row in run.all_rows("group_updates", stream)
        if row["group"] == group and row["outcome"] == "applied" and row["lowers"] is not None
    ]
    if not any(row["lowers"] for row in rows):
        return None
    least_ms: Counter[str] = Counter()
    known_ms = 0
    for row, time in zip(rows, lengths([row["at_ms"] for row in rows]), strict=True):
        entries = row["lowers"]
        if not entries or None in entries.values():
            continue
        least = min(entries.values())
        known_ms += time
        behind = [reader for reader, passed in entries.items() if passed == least]
        if len(behind) < len(entries):
            least_ms.update(dict.fromkeys(behind, time))
    facts: dict[str, Any] = {"least time for": known_ms or None}
    template = "All readers in the map had passed the same watermark, for {least time for}."
    if not known_ms:
        template = "The map had no least time."
    if any(least_ms.values()):
        name = max(least_ms, key=lambda name: least_ms[name])
        facts |= {"behind": name, "behind for": least_ms[name]}
        template = "The least time in the map was that of {behind} for {behind for}."
    return above(f"Whose time is the least one in the map of {group}?", facts, template)


# What readers saw, and when events arrived.


def _at_most(pieces: Sequence[tuple[int, int, int]], value: int) -> Fraction:
    """For how long a value was this or less, that rises evenly from the first to the last one in each piece (ms)."""
    time = Fraction(0)
    for first, last, length in pieces:
        if first == last:
            time += length if first <= value else 0
        else:
            time += Fraction(length * min(max(value - first, 0), last - first), last - first)
    return time


def median_over_time(pieces: Sequence[tuple[int, int, int]]) -> int:
    """The least whole number that the value did not exceed for half of the time, or more."""
    total = sum(length for *_, length in pieces)
    if not total:
        pieces, total = [(first, last, 1) for first, last, _ in pieces], len(pieces)
    low, high = min(first for first, _, _ in pieces), max(last for _, last, _ in pieces)
    while low < high:
        middle = (low + high) // 2
        if 2 * _at_most(pieces, middle) >= total:
            high = middle
        else:
            low = middle + 1
    return low


def lag_facts(run: Run, stream: str) -> tuple[dict[str, Any], str]:
    """How far the lower bounds that readers saw were behind their clocks."""
    seen: dict[tuple[str, str], list[Row]] = {}
    for row in run.all_rows("windows", stream):
        seen.setdefault((row["group"], row["reader"]), []).append(row)
    lags = []
    for rows in seen.values():
        for row, after in zip(rows, [*rows[1:], rows[-1]], strict=True):
            at, until = row["at_ms"], after["at_ms"]
            if row["lower"] is not None:
                lags.append((at - row["lower"], until - row["lower"], until - at))
    facts = {
        "median lag": median_over_time(lags) if lags else None,
        "worst lag": max(last for _, last, _ in lags) if lags else None,
    }
    template = "The lag of what readers saw was at most {median lag} for half of the time, and {worst lag} at worst."
    return facts, template if lags else "No reader saw a lower bound."


def lag(run: Run, stream: str) -> Above:
    """The chart of lags over the clock."""
    facts, template = lag_facts(run, stream)
    title = f"How far were the bounds that readers saw of {stream} behind their clocks, and apart?"
    return above(title, facts, template)


def lag_distribution(run: Run, stream: str) -> Above | None:
    """The chart of how the lags are spread; None: nobody saw a lower bound."""
    facts, template = lag_facts(run, stream)
    if facts["median lag"] is None:
        return None
    return above(f"How long did readers of {stream} see which lag and uncertainty?", facts, template)


def event_vs_arrival(run: Run, stream: str) -> Above:
    """How long events took from their time to their arrival."""
    delays = [row["append_ms"] - row["event_time"] for row in run.all_rows("events", stream)]
    facts = {"median delay": median_high(delays), "longest delay": max(delays)}
    template = "Half of the events arrived within {median delay} of their time, the slowest after {longest delay}."
    return above(f"When did the events of {stream} happen, and when did they arrive?", facts, template)


# Stream cuts, segments, messages.


def _offset_words(run: Run, stream: str, segment: int, offset: int | None) -> str:
    row = next(row for row in run.all_rows("segments", stream) if row["segment_id"] == segment)
    return f"{row['number']}@{row['epoch']}/{'end' if offset is None else offset}"


def _cut_words(run: Run, stream: str, offsets: Mapping[int, int | None]) -> str:
    return f"({', '.join(_offset_words(run, stream, segment, offsets[segment]) for segment in sorted(offsets))})"


def stream_cut(run: Run, stream: str, at_ms: int, words: str) -> Above | None:
    """The cut of the newest watermark of a moment; None: it counts no writers.

    `words` is when it was made, in words.
    """
    marks = run.watermarks(stream, at_ms)
    if not marks or not marks[-1]["writers"]:
        return None
    facts = {"cut": _cut_words(run, stream, marks[-1]["cut"])}
    return above(f"How did the stream cut of {stream} at {words} come about?", facts, "The stream cut is {cut}.")


def key_space(run: Run, stream: str) -> Above:
    """How many watermarks cut the stream, and how many segments it had."""
    segments = run.all_rows("segments", stream)
    facts = {
        "watermarks": len(run.all_rows("watermarks", stream)),
        "segments": len(segments),
        "open segments": sum(row["sealed_ms"] is None for row in segments),
    }
    return above(
        f"Which segment held which keys of {stream}, and where did the cuts pass?",
        facts,
        "Stream cuts: {watermarks}, one for each watermark; segments: {segments}, open at the end: {open segments}.",
    )


def message_diagram(about: Sequence[Row], stream: str, around_ms: int, span_ms: int, words: str) -> Above | None:
    """Those of some messages that were on their way around a moment; None: none was. `words` is the moment in words."""
    low, high = around_ms - span_ms // 2, around_ms + span_ms - span_ms // 2
    rows = [
        row
        for row in about
        if row["sent_ms"] <= high
        if (row["sent_ms"] if row["received_ms"] is None else row["received_ms"]) >= low
    ]
    if not rows:
        return None
    took = [row["received_ms"] - row["sent_ms"] for row in rows if row["received_ms"] is not None]
    facts = {
        "messages": len(rows),
        "parties": len({row[end] for row in rows for end in ("sender", "receiver")}),
        "slowest took": max(took, default=None),
    }
    arrived = "Messages: {messages}, between {parties} parties; the slowest took {slowest took}."
    lost = "Messages: {messages}, between {parties} parties; none of them arrived."
    return above(f"What was said in {stream} around {words}?", facts, arrived if took else lost)


# Configurations.


def replay(run: Run, stream: str, logs: Mapping[str, Sequence[Row]]) -> Above:
    """Of the logs that configurations gave: the mean lag of each, and the share of events that were late by it."""
    events = run.all_rows("events", stream)
    figures = []
    for config, log in logs.items():
        ends = [*(row["emitted_ms"] for row in log[1:]), max(run.end_ms, log[-1]["emitted_ms"] + 1)]
        area = known_ms = late = 0
        for row, until in zip(log, ends, strict=True):
            if row["writers"]:
                area += (row["emitted_ms"] + until - 2 * row["lower"]) * (until - row["emitted_ms"])
                known_ms += until - row["emitted_ms"]
        for event in events:
            before = [row for row in log if row["emitted_ms"] < event["append_ms"]]
            late += bool(before and before[-1]["writers"] and before[-1]["lower"] > event["event_time"])
        figures.append((round(round(area / 2 / known_ms, 1)) if known_ms else 0, config, late / len(events)))
    figures.sort()
    fewest = min(share for *_, share in figures)
    best_lag, best = min((time, config) for time, config, share in figures if share == fewest)
    facts = {
        "best": best,
        "best lag": best_lag,
    }
    return above(
        f"Which configuration would {stream} have needed?",
        facts,
        "Of the configurations with the fewest late events {best} has the least mean lag, {best lag}.",
    )


def sweep(field: str, words: Callable[[Any], str], runs: Sequence[tuple[Any, float, float]]) -> Above:
    """How the lag of the median run changes with a field; `runs` have its value, their mean lag and late share."""
    values = sorted({value for value, _, _ in runs})
    lags = {value: median(round(time) for each, time, _ in runs if each == value) for value in values}
    facts = {
        "field": field,
        "first value": words(values[0]),
        "last value": words(values[-1]),
        "lag of the first": round(lags[values[0]]),
        "lag of the last": round(lags[values[-1]]),
    }
    template = (
        "From a {field} of {first value} to {last value} the lag goes from {lag of the first} to {lag of the last}."
    )
    return above(f"How does the {field} trade lag against late events?", facts, template)


# Diagrams.


def lineage(run: Run, stream: str) -> str:
    """The sentence above the lineage of segments."""
    segments = run.all_rows("segments", stream)
    return f"Segments: {len(segments)}; open at the end: {sum(row['sealed_ms'] is None for row in segments)}."


def topology(run: Run) -> str:
    """The sentence above the parties of a run."""

    def names(*columns: tuple[str, str]) -> int:
        rows = ((row, column) for table, column in columns for row in run.recording.table(table).to_pylist())
        return len({row[column] for row, column in rows} - {None})

    counts = {
        "Streams": names(("segments", "stream")),
        "writers": names(("writer_marks", "writer"), ("events", "writer")),
        "controllers": names(("cycles", "controller")),
        "readers": names(("windows", "reader"), ("positions", "reader")),
    }
    return f"{'; '.join(f'{kind}: {number}' for kind, number in counts.items())}."
