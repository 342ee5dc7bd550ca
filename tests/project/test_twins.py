"""A rule is written once. Four are written a second time for Spark, on purpose, and compared with each other."""

from __future__ import annotations

import ast
import inspect
import re
from typing import Final, NamedTuple

import pytest

from tests.project import source
from wmlab import spark as of_streams
from wmlab.dataflow import spark as of_dataflows
from wmlab.progress import spark as of_plans
from wmlab.strategies import spark as of_logs


class Twin(NamedTuple):
    """A rule that stands twice: folder and names of each writing, the tests that compare the two, and the reason."""

    model: tuple[str, ...]
    spark: tuple[str, ...]
    compared_by: tuple[str, ...]
    words: str
    reason: str


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
        "Spark looks up the bounds of millions of positions by a compiled search and sends none of them to Python",
    ),
    Twin(
        ("strategies", "lateness_curve"),
        ("strategies", "lateness_curve"),
        ("test_the_lateness_curve_of_spark_is_that_of_the_trace",),
        "the lateness curve",
        "Spark reads a log that does not fit into memory in parts, many at once",
    ),
)

FOR_SPARK_ALONE: Final = {
    "group_perfect_watermark",
    "perfect_watermark",
    "quality_of_bounds",
    "stragglers",
    "with_slack",
}
"""Functions of Spark whose rule stands nowhere else."""

NO_RULES: Final = {
    "coalesced", "dataframe", "feed", "fired_windows", "group_time_bounds", "live", "log_path", "progress",
    "of_log", "replay", "spark_session", "write_feed",
}  # fmt: skip
"""Functions of a Spark namespace that make a session, move tables, or call a rule of a model, of core or of a twin."""

NOT_COMPARED: Final = frozenset(
    [
        "Configuration",
        "DESIGN",
        "Deviations",
        "History",
        "SHIPPED",
        "SOUND",
        "StreamHistory",
        "KeyRange",
        "Position",
        "Segment",
        "Watermark",
    ]
)
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
    for folder, *names in (twin.model, twin.spark):
        assert set(names) <= defined_in(folder), f"not all of {names} are defined in wmlab/{folder}"
    compared = " ".join(text for text in files_of_tests().values() if has_a_session(text))
    assert [test for test in twin.compared_by if f"def {test}(" not in compared] == []


@pytest.mark.parametrize("name", ["README.md", "docs/design.md"])
def test_readme_and_design_name_these_two_and_no_other_and_give_the_reasons(name: str) -> None:
    assert len(TWINS) == 2
    text = (source.ROOT / name).read_text(encoding="utf-8")
    (listed,) = re.findall(r"Two rules are [^.]*:\n\n((?:- .*\n(?:  .*\n)*)+)", text)
    reasons = [" ".join(entry.split()) for entry in listed.removeprefix("- ").split("\n- ")]
    assert reasons == [f"{twin.words}: {twin.reason}" for twin in TWINS]


def test_every_function_of_a_spark_namespace_is_a_twin_or_known_to_be_none() -> None:
    """A new function of Spark has to say whether its rule stands elsewhere."""
    twins = {name for twin in TWINS for name in twin.spark[1:]}
    assert functions_of_spark() - twins == FOR_SPARK_ALONE | NO_RULES


def functions_of_spark() -> set[str]:
    """The public functions of the namespaces of Spark."""
    return {
        name
        for module in (of_streams, of_dataflows, of_plans, of_logs)
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if not name.startswith("_")
        if name in getattr(module, "__all__", ()) or function.__module__ == module.__name__
    }


def test_only_their_comparisons_drive_a_model_beside_spark() -> None:
    """A test file with a Spark session that also runs rules of a model has to be one that compares a twin."""
    comparisons = {test for twin in TWINS for test in twin.compared_by}
    others = [
        name
        for name, text in files_of_tests().items()
        if has_a_session(text)
        and not name.startswith(ORACLES)
        and runs_a_model(text)
        and not any(f"def {test}(" in text for test in comparisons)
    ]
    assert others == []


def has_a_session(text: str) -> bool:
    return re.search(r"^def test_\w+\([^)]*\bspark\b", text, re.MULTILINE) is not None


def runs_a_model(text: str) -> bool:
    imported = re.findall(r"^from wmlab\.\w+\.model[.\w]* import (.*)$", text, re.MULTILINE)
    return any(name.strip() not in NOT_COMPARED for names in imported for name in names.split(","))
