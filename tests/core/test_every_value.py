"""What holds of every class of values: what a field refuses, in which words, and that a value comes back equal.

A test walks all classes and collects the fields for which its rule does not hold.
"""

from __future__ import annotations

import dataclasses
import datetime
import math
import pickle
import re
from pathlib import Path
from types import NoneType
from typing import Any, Final

import numpy as np
import pandas as pd
import pytest
import yaml
from pydantic import TypeAdapter

import wmlab
from tests.core.value_types import (
    FIELDS,
    NO_FLAGS,
    TYPES,
    Field,
    example,
    is_inherited,
    refused,
    refused_at,
)
from wmlab import dataflow as flow
from wmlab.core.values import MAX_MS, is_function, plain

WRONG: Final[tuple[Any, ...]] = (
    None, True, "x", "", 1.5, -1, 10**30, float("nan"), float("inf"), 1e300, 1j, b"x", "x" * 1_000, "\x00", "\ud800",
    [], {}, (), [1], {"a": 1}, {3: 4}, ("a", "b"), ["a", "a"], [[]], [{}], [None], {1}, [1, 2, 3], object(), int,
    {"kind": "zzz"}, {"kind": None}, {"kind": ["x"]}, [{"kind": "zzz"}], lambda *_: 1, datetime.datetime(2020, 1, 1),
    wmlab.EventWriter("w", rate_per_s=1), [wmlab.EventWriter("w", rate_per_s=1)], wmlab.Stream("s"), range(3),
    flow.Sink("out"), iter([1]), np.arange(3), pd.DataFrame({"a": [1]}), Path("x"), wmlab.EventWriter,
)  # fmt: skip
NUMBERS: Final = [field for field in FIELDS if {int, float} & {*field.choices} and field.name != "initial"]
"""The fields with a number, but for the state of a function, which may be anything plain."""
DURATIONS: Final = [field for field in NUMBERS if field.name == "ms" or field.name.endswith("_ms")]
TEXTS: Final = [field for field in FIELDS if str in field.choices and field.name != "initial"]
NEGATIVE: Final = {
    "drift_ppm", "key", "skew_ms", "starting_time", "time", "streams.StepClock.by_ms",
    "streams.Scenario.start_ms", "streams.StreamScenario.start_ms", "streams.ScenarioFields.start_ms",
}  # fmt: skip
"""The fields that may be negative, by their name in all classes or in one."""
FRACTIONS: Final = {
    "mean_ms", "median_ms", "delay_mean_ms", "service_mean_ms", "event_time_record_ms", "jitter_ms", "rate_per_s",
    "sigma", "growth",
    "progress.Filter.keep",
}  # fmt: skip
SHARES: Final = {"loss", "duplication", "reordering"}
"""Parts of a whole, below 1."""
ABOVE_ZERO: Final = {
    "automatic_note_period_ms", "batch_ms",
    "buckets", "buffer_records", "capacity", "commit_batch", "count", "duration_ms", "expected_writers", "first",
    "flush_every_ms", "for_ms", "group_refresh_ms", "growth", "hold_ms", "into", "keys", "lease_ms",
    "limit", "median_ms", "note_every_ms", "noticed_after_ms", "open_ms", "parallelism",
    "partitions", "period_ms", "poll_ms", "processes", "publish_every_ms", "queue_size", "read_every_ms", "readers",
    "recreate_after_ms", "reordering_ms", "restart_after_ms", "segments", "sequence",
    "session_timeout_ms", "size_ms", "slide_ms", "snapshot_every_ms", "timeout_ms", "ttl_ms", "unit_ms", "worker",
    "dataflow.AddPartition.at_ms", "dataflow.RemovePartition.at_ms", "dataflow.Restart.at_ms",
    "dataflow.LatePartition.by_ms", "dataflow.Disorder.by_ms", "dataflow.SlowCalls.by_ms",
    "progress.DelayBuffer.by_ms", "streams.TransactionalWriter.every_ms", "streams.ReaderGroup.rate_per_s",
}  # fmt: skip
"""The fields that may not be 0."""
NAMES_OF_OTHERS: Final = {
    "a", "b", "controller", "group", "party", "reader", "segment", "source", "stream", "target", "trace",
    "transaction", "vertex", "writer",
}  # fmt: skip
"""Texts without a limit: each is looked up among names that have one."""
OWN_LIMIT: Final = {
    "dataflow.Source.group", "streams.AddReader.reader", "streams.ReaderGroup.stream", "streams.WriterPart.stream",
    "streams.EventWriter.stream", "streams.TransactionalWriter.stream",
}  # fmt: skip
"""Texts of such a name that have a limit in their class."""


def test_there_are_values_and_flags_of_all_three_models() -> None:
    models = {"streams", "dataflow", "progress"}
    assert {made.__module__.split(".")[1] for made in TYPES} == models | {"core"}
    assert {field.made.__module__.split(".")[1] for field in FIELDS if bool in field.choices} == models
    assert len(TYPES) > 80


def test_a_field_has_one_mistake_which_shows_what_was_given() -> None:
    calls = [(field.made, (), {field.name: wrong}) for field in FIELDS if not is_inherited(field) for wrong in WRONG]
    for made in TYPES:
        assert refused(made, *range(50)), made
        assert refused(made, no_field=1)[-1].message.startswith("no such field"), made
        calls += [(made, range(50), {}), (made, (), {"no_field": 1}), (made, (), {})]
    for made, by_place, by_name in calls:
        problems = refused(made, *by_place, **by_name)
        assert len({problem.path for problem in problems}) == len(problems), f"one mistake a field: {made}, {by_name}"
        for problem in problems:
            text = problem.message.rpartition(" (got ")[0] or problem.message
            assert text[:1] == text[:1].lower(), problem
            assert not re.search("function-|constrained-|pydantic|<|value error", f"{problem.path} {text}"), problem


def test_a_flag_is_true_or_false_and_nothing_that_only_counts_as_one() -> None:
    for field in (field for field in FIELDS if bool in field.choices):
        for offered in NO_FLAGS:
            messages = [problem.message for problem in refused_at(*field[:2], offered)]
            assert [message.partition(" (got ")[0] for message in messages] == ["input should be a valid boolean"], (
                field,
                offered,
            )
        assert [refused_at(*field[:2], flag) for flag in (True, False, np.True_)] == [[], [], []], field


def test_no_name_is_given_twice() -> None:
    for field in (field for field in FIELDS if {*field.choices} - {NoneType} == {tuple[str, ...]}):
        for names, expected in ((["n0", "n0"], ["name each once; 'n0' is there twice"]), (["n0"], [])):
            messages = [problem.message.partition(" (got ")[0] for problem in refused_at(*field[:2], names)]
            assert [message for message in messages if "there twice" in message] == expected, field


def those(names: set[str], fields: list[Field] = NUMBERS) -> set[str]:
    """The fields of these names, whatever their class, and those of one class that are named with it."""
    return {str(field) for field in fields if {field.name, str(field)} & names}


@pytest.mark.parametrize(
    ("fields", "offered", "taking"),
    [
        (NUMBERS, True, set()),
        (NUMBERS, "soon", set()),
        (NUMBERS, math.nan, set()),
        (NUMBERS, -(10**30), set()),
        (NUMBERS, 10**30, set()),
        (NUMBERS, -1, those(NEGATIVE)),
        (NUMBERS, 0, {str(field) for field in NUMBERS} - those(ABOVE_ZERO)),
        (DURATIONS, MAX_MS + 1, set()),
        (DURATIONS, -MAX_MS - 1, set()),
        (NUMBERS, "1 s", {str(field) for field in DURATIONS}),
        (NUMBERS, 0.999, those(FRACTIONS | SHARES)),
        (NUMBERS, 1.0, those(FRACTIONS)),
        (TEXTS, "x" * 20_000, those(NAMES_OF_OTHERS, TEXTS) - OWN_LIMIT),
    ],
)  # fmt: skip
def test_a_field_takes_what_lies_within_the_limits_of_its_name(
    fields: list[Field], offered: object, taking: set[str]
) -> None:
    assert {str(field) for field in fields if not refused_at(*field[:2], offered)} == taking


def test_a_value_comes_back_equal_from_yaml_and_from_another_process() -> None:
    for made in TYPES:
        value = example(made)
        assert pickle.loads(pickle.dumps(value)) == value, made
        data = plain(value)
        if not any(is_function(getattr(value, field.name)) for field in dataclasses.fields(value)):
            assert TypeAdapter(made).validate_python(yaml.safe_load(yaml.safe_dump(data))) == value, made
