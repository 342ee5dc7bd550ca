"""A rule is written once. Four are written a second time for Spark, on purpose, and compared with each other."""

from __future__ import annotations

import ast
import re
from typing import Final, NamedTuple

import pytest

from tests.project import source


class Twin(NamedTuple):
    """A rule that stands twice: the folder and name of each writing, and the tests that compare the two."""

    model: tuple[str, str]
    spark: tuple[str, str]
    compared_by: tuple[str, ...]
    words: str


TWINS: Final = (
    Twin(
        ("streams/model", "Tracker"),
        ("streams/bounds", "time_bounds"),
        (
            "test_every_position_gets_what_a_fresh_tracker_says",
            "test_every_version_gets_what_a_tracker_that_follows_says",
            "test_spark_gives_groups_the_bounds_of_a_tracker_that_follows_them",
            "test_spark_gives_places_the_bounds_of_a_tracker_that_begins_there",
            "test_spark_and_the_reader_model_agree_on_every_version",
        ),
        "the comparison of a reader with a stream cut",
    ),
    Twin(
        ("streams/model", "advance"),
        ("streams/bounds", "replayed"),
        (
            "test_over_arrays_the_watermarks_are_those_of_the_rule",
            "test_every_stream_and_configuration_has_the_watermarks_of_the_rule",
        ),
        "the cycle",
    ),
    Twin(
        ("dataflow/model", "Coalescer"),
        ("dataflow/checks", "coalesced"),
        ("test_every_step_is_that_of_the_pure_rule_and_of_the_recording",),
        "coalescing",
    ),
    Twin(
        ("progress/model", "OriginProgress"),
        ("progress/checks", "progress"),
        ("test_every_arrival_is_that_of_the_pure_tracker", "test_the_rules_that_count_are_those_of_the_pure_tracker"),
        "the progress tracker",
    ),
)

NOT_COMPARED: Final = {
    "Configuration",
    "History",
    "StreamHistory",
    "KeyRange",
    "Position",
    "ReaderPosition",
    "Segment",
    "Watermark",
}

"""Values of a model that tests of Spark functions use as input."""

ORACLES: Final = "tests/strategies/oracles/"
"""Tests in which an engine, Spark among them, is the judge of a rule about itself."""


def defined_in(folder: str) -> set[str]:
    """The classes and functions at the top of the files below a folder of the package."""
    return {
        node.name
        for path in (source.PACKAGE / folder).rglob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef | ast.FunctionDef)
    }


def files_of_tests() -> dict[str, str]:
    return {name: text for name, text in source.texts().items() if re.fullmatch(r"tests/.*/test_\w+\.py", name)}


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.words)
def test_both_writings_and_their_comparison_exist(twin: Twin) -> None:
    for folder, name in (twin.model, twin.spark):
        assert name in defined_in(folder), f"{name} is not defined in wmlab/{folder}"
    compared = " ".join(files_of_tests().values())
    assert [test for test in twin.compared_by if f"def {test}(" not in compared] == []


def test_the_readme_names_these_four_and_no_other() -> None:
    text = " ".join((source.ROOT / "README.md").read_text(encoding="utf-8").split())
    (sentence,) = re.findall(r"Four rules stand twice on purpose, [^.]*\.", text)
    assert [twin.words for twin in TWINS if twin.words not in sentence] == []
    assert len(TWINS) == 4


def test_only_their_comparisons_drive_a_model_beside_spark() -> None:
    """A test file with a Spark session that also runs rules of a model has to be one that compares a twin."""
    comparisons = {test for twin in TWINS for test in twin.compared_by}
    others = [
        name
        for name, text in files_of_tests().items()
        if "spark: SparkSession" in text
        and not name.startswith(ORACLES)
        and runs_a_model(text)
        and not any(f"def {test}(" in text for test in comparisons)
    ]
    assert others == []


def runs_a_model(text: str) -> bool:
    imported = re.findall(r"^from wmlab\.\w+\.model[.\w]* import (.*)$", text, re.MULTILINE)
    return any(name.strip() not in NOT_COMPARED for names in imported for name in names.split(","))
