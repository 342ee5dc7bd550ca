"""Watermark buckets (kinds bucket_hash, bucket_distribution)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tests.conformance.fields import Fields, UnknownFormatError, expect
from wmlab.core.errors import ModelError
from wmlab.streams.model.coordination import Coordination, Session, bucket_of, distribute
from wmlab.streams.model.cut import CutAlgorithm

ONCE = re.compile(r"every bucket 0\.\.(\d+) exactly once")
LOAD = re.compile(r"max - min load <= (\d+)")


def run_hash(inputs: Fields, expected: Fields, algorithm: CutAlgorithm) -> None:
    """The bucket of each name for each count."""
    counts = inputs.take("counts")
    for name in inputs.take("names"):
        found = {str(count): bucket_of(name, count) for count in counts}
        expect(name, found, expected.take(name))


def run_distribution(inputs: Fields, expected: Fields, algorithm: CutAlgorithm) -> None:
    """Buckets over controllers that come and go, or the ownership of single buckets."""
    if "take" in inputs:
        count = inputs.take("bucket_count")
        expect("results", taken(inputs.take("take"), count), expected.take("results"))
    else:
        run_controllers(inputs, expected)


def run_controllers(inputs: Fields, expected: Fields) -> None:
    """Each set of controllers follows on the one before."""
    if "empty" in inputs:
        with Fields(inputs.take("empty"), "empty") as empty:
            found = distribute(empty.take("controllers"), empty.take("buckets"))
        expect("size without controllers", len(found), expected.take("empty_result_size"))
    count = inputs.take("bucket_count")
    properties = expected.take("each_step")
    buckets: Mapping[str, frozenset[int]] = {}
    for controllers in inputs.take("controller_sets"):
        before, buckets = buckets, distribute(controllers, count, buckets)
        for text in properties:
            assert holds(text, controllers, count, buckets), f"{text}: {buckets} for {controllers}"
    if "last_step" in expected:
        if expected.take("last_step") != "unchanged map (same controllers)":
            raise UnknownFormatError("last_step")
        expect("last step", buckets, before)


def holds(text: str, controllers: list[str], count: int, buckets: Mapping[str, frozenset[int]]) -> bool:
    """Whether a property, written as text, holds."""
    if text == "keys == the controllers":
        return sorted(buckets) == sorted(controllers)
    if match := ONCE.fullmatch(text):
        return count == int(match[1]) + 1 and sorted(b for held in buckets.values() for b in held) == list(range(count))
    if match := LOAD.fullmatch(text):
        loads = [len(held) for held in buckets.values()]
        return max(loads) - min(loads) <= int(match[1])
    raise UnknownFormatError(f"property {text!r}")


def taken(buckets: list[int], count: int) -> list[bool | str]:
    """The answers to one controller that takes buckets in turn, and each that it owns again."""
    session = Session("c", 1)
    service = Coordination(count).open(session)
    answers: list[bool | str] = []
    for bucket in buckets:
        try:
            service, owned = service.take(bucket, session)
        except ModelError:
            answers.append("ILLEGAL_ARGUMENT")
        else:
            answers.append(owned and service.take(bucket, session)[1])
    return answers
