from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from wmlab.core.errors import ChartError
from wmlab.streams.charts.bounds_facts import Happening, read_bounds

Bounds = Callable[..., pd.DataFrame]


class Remote:
    """Stands in for a Spark DataFrame: columns, a selection, and toArrow."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame
        self.columns = list(frame.columns)

    def __getitem__(self, names: list[str]) -> Remote:
        return Remote(self._frame[names])

    def toArrow(self) -> pa.Table:  # noqa: N802
        return pa.Table.from_pandas(self._frame, preserve_index=False)


class Struct:
    """Stands in for a Spark Row."""

    def __init__(self, **fields: object) -> None:
        self._fields = fields

    def asDict(self) -> dict[str, object]:  # noqa: N802
        return self._fields


def test_rows_come_in_the_order_of_the_clock_with_unknowns_as_none(bounds: Bounds) -> None:
    table = read_bounds(bounds().sample(frac=1, random_state=3))
    assert table.at_ms == list(range(0, 61_000, 1_000))
    assert table.lower[:4] == [None, None, None, 1_000]
    assert table.upper[-2:] == [None, None]
    assert (table.stream, table.group) == ("orders", "billing")
    assert {type(value) for value in [*table.at_ms, *table.upper]} == {int, type(None)}


def test_a_remote_table_reads_like_a_local_one(bounds: Bounds) -> None:
    assert read_bounds(Remote(bounds())) == read_bounds(bounds())


def test_times_beyond_the_reach_of_a_double_are_kept() -> None:
    times = pa.table({"stream": ["s", "s"], "at_ms": [1, 2], "lower": [None, 2**63 - 1], "upper": [None, 2**53 + 1]})

    class Spark(Remote):
        def __init__(self) -> None:
            self.columns = times.column_names

        def __getitem__(self, names: list[str]) -> Spark:
            return self

        def toArrow(self) -> pa.Table:  # noqa: N802
            return times

    assert (read_bounds(Spark()).lower, read_bounds(Spark()).upper) == ([None, 2**63 - 1], [None, 2**53 + 1])


def test_floats_that_hold_whole_times_are_times(bounds: Bounds) -> None:
    frame = bounds()
    assert read_bounds(frame.astype({"lower": "float64", "upper": "float64"})) == read_bounds(frame)


def test_rows_of_one_moment_are_ordered_by_version() -> None:
    frame = pd.DataFrame({"stream": "s", "at_ms": 5, "version": [2, 1], "lower": [8, 9], "upper": [10, 10]})
    assert read_bounds(frame).lower == [9, 8]


def test_rows_of_one_moment_without_version_have_one_order() -> None:
    frame = pd.DataFrame({"stream": "s", "at_ms": 5, "lower": [8, 9, 7], "upper": [10, 10, 10]})
    assert read_bounds(frame) == read_bounds(frame[::-1])


def test_happenings_are_gathered_once_from_dicts_rows_and_arrays(bounds: Bounds, happened: list[object]) -> None:
    expected = [Happening(20_000, "scale", "0@0 → 2@1, 3@1"), Happening(30_000, "crash", "w2")]
    expected.append(Happening(55_000, "restart", "w2"))
    assert read_bounds(bounds(happened=happened)).happened == expected
    arrays = [
        None if cell is None else np.array([Struct(**entry) for entry in cell], dtype=object) for cell in happened
    ]
    assert read_bounds(bounds(happened=arrays)).happened == expected


@pytest.mark.parametrize("missing", ["stream", "at_ms", "lower", "upper"])
def test_a_missing_column_is_named(bounds: Bounds, missing: str) -> None:
    with pytest.raises(ChartError, match=f"has no column .{missing}.; it has .*perfect_watermark") as caught:
        read_bounds(bounds().drop(columns=missing))
    assert "recording.time_bounds(spark)" in caught.value.remedy


@pytest.mark.parametrize(
    ("column", "values"),
    [("lower", 1.5), ("upper", "soon"), ("at_ms", None), ("lower", float("inf")), ("perfect_watermark", "7")],
)
def test_a_time_that_is_none_is_shown(bounds: Bounds, column: str, values: object) -> None:
    frame = bounds().astype({column: object})
    frame.at[4, column] = values
    with pytest.raises(ChartError, match=f"Column '{column}' holds .*which is no whole number"):
        read_bounds(frame)


def test_several_groups_are_listed_with_a_filter_to_copy(bounds: Bounds) -> None:
    frame = bounds()
    frame.loc[3:, "group"] = "audit"
    with pytest.raises(ChartError, match=r"shows one group, but the table has 2: audit, billing\.") as caught:
        read_bounds(frame)
    assert "table[table['group'] == 'billing']" in caught.value.remedy


def test_rows_of_several_segments_are_refused(bounds: Bounds) -> None:
    with pytest.raises(ChartError, match="shows one segment, but the table has 61"):
        read_bounds(bounds(segment_id=range(61)))


def test_an_empty_table_is_refused(bounds: Bounds) -> None:
    with pytest.raises(ChartError, match="has no rows"):
        read_bounds(bounds()[:0])


def test_something_that_is_no_table_is_refused() -> None:
    with pytest.raises(ChartError, match="cannot be drawn from a dict"):
        read_bounds({"lower": [1]})


@pytest.mark.parametrize("cell", [[{"at_ms": 1, "kind": "scale"}], ["scale"]])
def test_a_happening_without_its_fields_is_shown(bounds: Bounds, cell: list[object]) -> None:
    with pytest.raises(ChartError, match=r"Column 'happened' holds .*scale"):
        read_bounds(bounds(happened=[cell] * 61))


@pytest.mark.parametrize(
    ("kind", "what", "subject", "label"),
    [
        ("crash", "w2", "w2", "w2 crashes"),
        ("crash", "w2 crashes", "w2", "w2 crashes"),
        ("restart", "w2 restarts", "w2", "w2 restarts"),
        ("silence", "w2 falls silent", "w2", "w2 falls silent"),
        ("speak", "w2 speaks again", "w2", "w2 speaks again"),
        ("scale", "0@0 → 2@1, 3@1", "0@0 → 2@1, 3@1", "scale 0@0 → 2@1, 3@1"),
        ("pause", None, "", "pause"),
    ],
)
def test_a_happening_has_a_subject_and_a_label(
    bounds: Bounds, kind: str, what: str | None, subject: str, label: str
) -> None:
    cell = [{"at_ms": 7, "kind": kind, "what": what}]
    (found,) = read_bounds(bounds(happened=[cell] * 61)).happened
    assert (found.what, found.label) == (subject, label)
