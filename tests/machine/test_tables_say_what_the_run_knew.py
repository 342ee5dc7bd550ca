"""What a watermark and a window say of where they come from agrees with the other tables, in every run."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from tests.machine.campaign import Made

Row = dict[str, Any]
Streams = dict[str, dict[str, list[Row]]]
"""By the name of a stream, which begins with that of its machine, the rows of each table."""
TABLES = ("cycles", "group_updates", "incidents", "positions", "watermarks", "windows", "writer_marks")


@pytest.fixture(scope="module")
def streams(made: list[Made]) -> Streams:
    """The rows of every stream of every run, by table."""
    found: dict[str, dict[str, list[Row]]] = defaultdict(lambda: {table: [] for table in TABLES})
    for shard in made:
        for table in TABLES:
            for row in shard.tables[table].to_pylist(maps_as_pydicts="strict"):
                found[row["stream"]][table].append(row)
    return dict(found)


def accepted(rows: dict[str, list[Row]]) -> dict[str, list[Row]]:
    """The accepted marks of each writer, as they were received."""
    marks = defaultdict(list)
    for row in rows["writer_marks"]:
        if row["outcome"] == "success":
            marks[row["writer"]].append(row)
    return marks


def test_what_was_counted_is_an_accepted_mark_that_the_cycle_can_have_read(streams: Streams) -> None:
    seen: Counter[str] = Counter()
    for rows in streams.values():
        marks = accepted(rows)
        for entry in rows["watermarks"]:
            assert entry["counted"].keys() == entry["writers"].keys()
            for writer, received_ms in entry["counted"].items():
                noted = [row["time"] for row in marks[writer] if row["received_ms"] == received_ms]
                assert entry["writers"][writer] in noted
                before = [row["received_ms"] for row in marks[writer] if row["received_ms"] < entry["cycle_ms"]]
                assert max(before, default=received_ms) <= received_ms <= entry["emitted_ms"]
                seen["counted"] += 1
                same = [row for row in marks[writer] if row["time"] == entry["writers"][writer]]
                seen["times noted again"] += len(same) > 1
                seen["read after the cycle began"] += received_ms > entry["cycle_ms"]
    assert min(seen[name] for name in ("counted", "times noted again", "read after the cycle began")) > 5, seen


def test_the_cycle_of_a_watermark_is_the_one_that_emitted_it(streams: Streams) -> None:
    """A cycle that its controller did not live to finish has no row.

    A controller that goes on after a pause may begin two cycles in one ms, if the stream left its bucket and came back
    in between: each row is that of one watermark.
    """
    seen: Counter[str] = Counter()
    for rows in streams.values():
        ran: dict[tuple[str, int], list[Row]] = defaultdict(list)
        for row in rows["cycles"]:
            ran[row["controller"], row["at_ms"]].append(row)
        log = sorted(rows["watermarks"], key=lambda row: int(row["seq"]))
        for before, entry in zip([None, *log], log, strict=False):
            assert entry["cycle_ms"] <= entry["emitted_ms"]
            cycles = ran[entry["controller"], entry["cycle_ms"]]
            seen["with a cycle" if cycles else "without"] += 1
            if cycles and entry["writers"]:
                previous_lower = before["lower"] if before and before["writers"] else None
                emitting = [
                    row for row in cycles if (row["outcome"], row["previous_lower"]) == ("emitted", previous_lower)
                ]
                assert emitting != []
                cycles.remove(emitting[0])
        assert [row for cycles in ran.values() for row in cycles if row["outcome"] == "emitted"] == []
    assert min(seen["with a cycle"], 100 * seen["without"]) > 100, seen


def bounds_of(window: Row) -> Iterator[tuple[str, int | None, int | None]]:
    for bound in ("lower", "upper"):
        yield bound, window[bound], window[f"{bound}_seq"]


def test_the_bounds_of_a_window_are_those_of_the_watermarks_that_it_names(streams: Streams) -> None:
    seen: Counter[str] = Counter()
    for name, rows in streams.items():
        log = {row["seq"]: row for row in rows["watermarks"]}
        assert sorted(log) == list(range(len(log)))
        truncated = any(row["kind"] == "truncate" and row["subject"] == "marks segment" for row in rows["incidents"])
        for window in rows["windows"]:
            for bound, time, seq in bounds_of(window):
                assert (time is None) == (seq is None)
                if seq is not None:
                    assert (log[seq][bound], bool(log[seq]["writers"])) == (time, True)
                    assert log[seq]["emitted_ms"] <= window["at_ms"]
                    seen[bound] += 1
                    seen["after a truncation"] += truncated
                    seen["alike"] += sum(entry[bound] == time for entry in log.values()) > 1
            if name.startswith("sound-") and None not in (window["lower_seq"], window["upper_seq"]):
                assert window["lower_seq"] < window["upper_seq"]
    assert min(seen[name] for name in ("lower", "upper", "after a truncation", "alike")) > 20, seen


def test_positions_are_new_with_every_reset_and_with_nothing_else(streams: Streams) -> None:
    """A reset writes down all that the group has open afterwards, in one version, whether it moved or not.

    Only a group that has nothing open before and afterwards, such as one at the end of a sealed stream, has no row.
    """
    seen: Counter[str] = Counter()
    for rows in streams.values():
        resets = Counter(
            (row["group"], row["at_ms"])
            for row in rows["group_updates"]
            if (row["operation"], row["outcome"]) == ("reset", "applied")
        )
        versions: dict[tuple[str, int], list[Row]] = defaultdict(list)
        for row in rows["positions"]:
            versions[row["group"], row["version"]].append(row)
        position: dict[str, dict[int, int]] = defaultdict(dict)
        reset: Counter[tuple[str, int]] = Counter()
        nothing_open: dict[str, list[tuple[int, bool]]] = defaultdict(list)
        for (group, _), changes in sorted(versions.items()):
            assert len({(row["reset"], row["at_ms"]) for row in changes}) == 1
            position[group] |= {row["segment_id"]: row["offset"] for row in changes}
            for row in changes:
                if row["finished"]:
                    del position[group][row["segment_id"]]
            if changes[0]["reset"]:
                opened = {row["segment_id"]: row["offset"] for row in changes if not row["finished"]}
                assert opened == position[group]
                reset[group, changes[0]["at_ms"]] += 1
            nothing_open[group].append((changes[0]["at_ms"], not position[group]))
        assert reset - resets == Counter()
        for group, reset_ms in resets - reset:
            assert [is_empty for at_ms, is_empty in nothing_open[group] if at_ms <= reset_ms][-1:] == [True]
        seen["resets"] += resets.total()
    assert seen["resets"] > 10, seen
