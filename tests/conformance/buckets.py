"""Watermark buckets (kinds bucket_hash, bucket_distribution)."""

from __future__ import annotations

from collections.abc import Mapping

from tests.conformance.fields import Fields, expect, interpreted, known
from wmlab.core.errors import ModelError
from wmlab.streams.model.coordination import Coordination, Session, bucket_of, distribute
from wmlab.streams.model.cut import CutAlgorithm


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
        known("last step", expected.take("last_step"), {"unchanged map (same controllers)"})
        expect("last step", buckets, before)


def holds(text: str, controllers: list[str], count: int, buckets: Mapping[str, frozenset[int]]) -> bool:
    """Whether a property, written as text, holds."""
    loads = [len(held) for held in buckets.values()]
    buckets_held = sorted(bucket for held in buckets.values() for bucket in held)
    return interpreted(
        "property",
        text,
        {
            "keys == the controllers": lambda: sorted(buckets) == sorted(controllers),
            r"every bucket 0\.\.(\d+) exactly once": lambda last: (
                count == int(last) + 1 and buckets_held == list(range(count))
            ),
            r"max - min load <= (\d+)": lambda most: max(loads) - min(loads) <= int(most),
        },
    )


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
