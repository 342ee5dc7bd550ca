"""map_time_bounds over small tables: what a row has, and when there is one."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.streams.bounds.frames import rows_of
from wmlab.core.errors import ModelError
from wmlab.streams.bounds.maps import map_time_bounds

POSITIONS = "stream string, group string, version long, at_ms long, reader string"
UPDATES = (
    "stream string, group string, at_ms long, revision long, outcome string, reader string, operation string, "
    "lower long, upper long"
)


def positions_at(spark: SparkSession, *at_ms: int) -> DataFrame:
    """The versions of one group at these times, each with two segments."""
    return spark.createDataFrame([("s", "g", version, at, "r") for version, at in enumerate(at_ms)] * 2, POSITIONS)


def updates_of(spark: SparkSession, *rows: tuple[int, int | None, int | None], outcome: str = "applied") -> DataFrame:
    """Updates from at_ms, lower and upper, in the order of their revisions; stored in another order."""
    found = [("s", "g", at, number, outcome, "r", "time", *bounds) for number, (at, *bounds) in enumerate(rows)]
    return spark.createDataFrame(found[::-1], UPDATES)


def bounds(
    positions: DataFrame, updates: DataFrame, until_ms: int | Mapping[str, int] | None = None
) -> list[tuple[object, ...]]:
    found = map_time_bounds(positions, updates, until_ms=until_ms)
    return sorted(rows_of(found, "version", "at_ms", "change", "lower", "upper", "lower_seq", "upper_seq"))


def test_a_row_has_the_map_at_the_end_of_its_millisecond(spark: SparkSession) -> None:
    updates = updates_of(
        spark, (10, None, None), (10, 3, None), (15, 3, None), (17, 4, 9), (17, 5, 9), (20, 6, 9), (33, None, None)
    )
    assert bounds(positions_at(spark, 0, 10, 20, 20), updates, until_ms=50) == [
        (0, 0, "position", None, None, None, None),
        (1, 10, "position", 3, None, None, None),
        (1, 17, "times", 5, 9, None, None),
        (2, 20, "position", 6, 9, None, None),
        (3, 20, "position", 6, 9, None, None),
        (3, 33, "times", None, None, None, None),
        (3, 50, "end", None, None, None, None),
    ]


def test_versions_of_one_millisecond_have_the_window_of_their_update(spark: SparkSession) -> None:
    """Reader a publishes and shares its time, then b; or the group is taken back, and then both start again."""
    steps = [
        (10, "a", "publish", 1),
        (10, "a", "time", 2),
        (10, "b", "acquire", 2),
        (10, "b", "publish", 3),
        (10, "b", "time", 4),
        (20, "a", "time", 5),
        (20, None, "reset", None),
        (20, "a", "publish", None),
        (20, "a", "time", 1),
    ]
    updates = [
        ("s", "g", at, place, "applied", who, what, low, None) for place, (at, who, what, low) in enumerate(steps)
    ]
    made = [(0, 0, None), (1, 10, "a"), (2, 10, "b"), (2, 10, None), (3, 20, None), (4, 20, "a")]
    positions = spark.createDataFrame([("s", "g", *row) for row in made], POSITIONS)
    assert [row[:4] for row in bounds(positions, spark.createDataFrame(updates, UPDATES))] == [
        (0, 0, "position", None),
        (1, 10, "position", 1),
        (2, 10, "position", 4),
        (3, 20, "position", None),
        (4, 20, "position", 1),
    ]


def test_no_row_is_later_than_the_end_of_its_stream(spark: SparkSession) -> None:
    updates, positions = updates_of(spark, (17, 4, 9), (33, 6, 9)), positions_at(spark, 0, 40)
    rows = bounds(positions, updates, until_ms={"s": 20, "other": 90})
    assert [row[1:4] for row in rows] == [(0, "position", None), (17, "times", 4), (20, "end", 4)]
    assert [row[1] for row in bounds(positions, updates, until_ms={"s": 17})] == [0, 17]
    assert [row[1] for row in bounds(positions, updates, until_ms={"other": 17})] == [0, 17, 33, 40]


def test_what_was_refused_and_what_is_of_other_groups_does_not_count(spark: SparkSession) -> None:
    refused = updates_of(spark, (5, 1, 2), outcome="conflict")
    assert [row[1:4] for row in bounds(positions_at(spark, 0, 10), refused)] == [
        (0, "position", None),
        (10, "position", None),
    ]
    assert bounds(positions_at(spark), updates_of(spark, (5, 1, 2))) == []


def test_a_missing_column_is_named(spark: SparkSession) -> None:
    positions, updates = positions_at(spark, 0), updates_of(spark, (5, 1, 2))
    with pytest.raises(ModelError, match="group_updates has no column 'revision'"):
        bounds(positions, updates.drop("revision"))
    with pytest.raises(ModelError, match="positions has no column 'version'"):
        bounds(positions.drop("version"), updates)
