"""A scenario that cannot be run is refused, with all its mistakes and their places; one that can be is a value."""

import dataclasses
from functools import partial
from typing import Any

import numpy as np
import pytest

from wmlab.core.values import Problems
from wmlab.streams.api import Scenario
from wmlab.streams.scenario import script as do
from wmlab.streams.scenario.parts import Controllers, EventWriter, ReaderGroup, Stream, TransactionalWriter

W = EventWriter("w", rate_per_s=1)
TWO = [EventWriter("w1", rate_per_s=5, processes=2), EventWriter("w1/2", rate_per_s=5)]
AT, SEAL, READER = "script[0].at_ms", "script[0].seal", "script[0].reader"
LATE = [ReaderGroup("early"), ReaderGroup("late", starts_ms=5_000)]
ODD = [EventWriter(name, rate_per_s=5, writer_id="id") for name in ("src/main", "Jörg <j@x.de>", "w1/x")]


def scenario(*acts: Any, **fields: Any) -> Scenario:
    given = {"writers": [W], "readers": ReaderGroup(readers=2), "script": acts, "duration_ms": 9_000}
    return Scenario("s", **(given | fields))


def scale(at_ms: int, *seal: str, into: int = 1) -> do.Scale:
    return do.Scale(at_ms=at_ms, seal=seal, into=into)


def refused(places: str, words: str, *acts: Any, **fields: Any) -> tuple[str, str, Any, dict[str, Any]]:
    return places, words, acts, fields


T = TransactionalWriter("t", rate_per_s=5)
APART = "script[0].b"


def cut_off(a: str, b: str) -> do.Partition:
    return do.Partition(at_ms=5, a=a, b=b)


REFUSED = {
    **{
        f"between {a} and {b}": refused(APART, f"nothing ever passes between {a!r} and {b!r}", cut_off(a, b))
        for a, b in (
            ("w", "writers"),
            ("w", "readers-0"),
            ("readers", "controllers"),
            ("readers-0", "readers-1"),
            ("w", "coordinator"),
            ("readers", "metadata-store"),
            ("coordinator", "segment-store"),
            ("controller-0", "controllers"),
            ("metadata-store", "writers"),
        )
    },
    "a partition of no readers": refused(
        "script[0].a", "the scenario has no readers", cut_off("readers", "segment-store"), readers=None
    ),
    **{
        f"{kind.__name__} of another name": refused(
            "script[0].transaction",
            "the transactions of 't' are called t-1, t-2 and so on (got 'one')",
            kind(at_ms=5, writer="t", transaction="one"),
            writers=[T],
        )
        for kind in (do.CommitTransaction, do.AbortTransaction, do.WriteInTransaction)
    },
    **{
        f"{act.kind} before it joins": refused(
            f"script[0].{field}", "starts at 700 ms (got 5 ms)", act, do.AddController(at_ms=700)
        )
        for field, act in (
            ("controller", do.CrashController(at_ms=5, controller="controller-1")),
            ("controller", do.PauseController(at_ms=5, for_ms=5, controller="controller-1")),
            ("controller", do.ExpireSession(at_ms=5, controller="controller-1")),
            ("controller", do.RemoveController(at_ms=5, controller="controller-1")),
            ("party", do.StepClock(at_ms=5, party="controller-1", by_ms=5)),
        )
    },
    "a stream sealed twice": refused(
        "script[1].at_ms", "the stream 'stream' is sealed then", do.SealStream(at_ms=5), do.SealStream(at_ms=6)
    ),
    "a cut at a segment that never is": refused(
        "script[0].cut.7@0", "has no segment of that number; there are: 0", do.TruncateStream(at_ms=5, cut={"7@0": 1})
    ),
    "a segment that never is, given back": refused(
        "script[0].segment",
        "the stream 'stream' has no segment of that number; there are: 0, 1, 2",
        do.ReleaseSegment(at_ms=5, reader="readers-0", segment="9@0"),
        do.Scale(at_ms=100, seal=["0@0"], into=2),
    ),
    "a stream that its group does not read": refused(
        "script[0].stream",
        "no stream of group 'readers' is called 'b'; there are: a",
        do.ReleaseSegment(at_ms=5, reader="readers-0", segment="0@0", stream="b"),
        streams=[Stream(name="a"), Stream(name="b")],
        writers=[EventWriter("w", rate_per_s=1, stream="a")],
        readers=ReaderGroup(stream="a"),
    ),
    "mistakes across parts are gathered": refused(
        "writers[0].name writers[1].name script[0].at_ms script[0].writer script[2].seal",
        "another writer is called 'w' too",
        *(do.CrashWriter(at_ms=9_000, writer="nobody"), scale(1, "0@0"), scale(2, "0@0")),
        writers=[W, W],
    ),
    "others than neighbours": refused(SEAL, "do not adjoin", scale(1, "0@0", "2@0"), stream=Stream(segments=3)),
    "a segment that is not there": refused(SEAL, "not active", scale(1, "9@0")),
    "a segment that is none": refused(SEAL, "zero", scale(1, "zero")),
    "ranges beside those of the doubles of Pravega": refused(
        SEAL,
        "do not cover exactly",
        do.Scale(at_ms=1, seal=["0@0"], into=["0..1/6", "1/6..1/3"]),
        stream=Stream(segments=3),
        rules="implementation",
    ),
    "a process of another writer": refused("writers[1].name", "has a process called 'w1/2'", writers=TWO),
    "readers where there are none": refused(
        "script[0]", "concerns readers, and the scenario has none", do.RemoveReader(at_ms=5, reader="r"), readers=None
    ),
    "an unknown reader": refused(READER, "no reader is called", do.CrashReader(at_ms=5, reader="readers-2")),
    "a reader without a name": refused(READER, "no reader is called", do.CrashReader(at_ms=5, reader="")),
    "a reader twice": refused(READER, "another reader is called", do.AddReader(at_ms=5, reader="readers-1")),
    "a new reader twice": refused(
        f"{READER} script[1].reader", "another reader is called", *(do.AddReader(at_ms=n, reader="r") for n in (5, 6))
    ),
    "a new reader before it joins": refused(
        READER, "starts at 6 ms", do.PauseReader(at_ms=5, reader="r"), do.AddReader(at_ms=6, reader="r")
    ),
    "a checkpoint twice": refused(
        "script[0].name script[1].name", "another checkpoint", *(do.Checkpoint(at_ms=n, name="c") for n in (5, 6))
    ),
    "an unknown checkpoint": refused(
        "script[0].checkpoint", "no checkpoint is called", do.ResetToCheckpoint(at_ms=5, checkpoint="c")
    ),
    "a release of what is not a segment": refused(
        "script[0].segment", "zero", do.ReleaseSegment(at_ms=5, reader="readers-0", segment="zero")
    ),
    "a pause at the start": refused(
        AT, "before or at the start of the readers, 0 ms", do.PauseReader(at_ms=0, reader="readers-1")
    ),
    "a group that has not started": refused(
        f"{AT} script[1].at_ms",
        "lies before or at the start of the readers, 5 s (got 5 ms)",
        *(do.AddReader(at_ms=5, reader="r", group="late"), do.PauseReader(at_ms=5, reader="late-0")),
        readers=LATE,
    ),
}


@pytest.mark.parametrize(("places", "words", "acts", "fields"), REFUSED.values(), ids=REFUSED)
def test_all_mistakes_are_found_with_their_places(places: str, words: str, acts: Any, fields: Any) -> None:
    with pytest.raises(Problems) as raised:
        scenario(*acts, **fields)
    assert words in str(raised.value)
    assert [problem.path for problem in raised.value.problems] == places.split()


@pytest.mark.parametrize(
    ("part", "fields", "mistakes"),
    [
        (
            partial(EventWriter, "w"),
            {"rate_per_s": -1, "note_every_ms": 0, "colour": "red"},
            [
                "rate_per_s: input should be greater than or equal to 0 (got -1)",
                "note_every_ms: input should be greater than 0 (got 0)",
                "colour: no such field",
            ],
        ),
        (partial(EventWriter, "w"), {}, ["rate_per_s: "]),
        (partial(EventWriter, "w"), {"rate_per_s": 1, "trace": "flights"}, ["rate_per_s: "]),
        (do.Scale, {"at_ms": 1, "seal": []}, ["seal: "]),
        (do.StepClock, {"at_ms": 5, "party": "w", "by_ms": 0}, ["by_ms: sets no clock; give ms forward"]),
        (do.Partition, {"at_ms": 5, "a": "w", "b": "w"}, ["b: is the same side as a (got 'w')"]),
    ],
)
def test_a_part_finds_its_own_mistakes(part: Any, fields: dict[str, Any], mistakes: list[str]) -> None:
    with pytest.raises(Problems) as raised:
        part(**fields)
    for problem, mistake in zip(raised.value.problems, mistakes, strict=True):
        assert str(problem).startswith(mistake)


ACCEPTED: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "scales are tried in order of time": (
        [scale(20, "2@1", "3@1"), scale(10, "0@0", into=2)],
        {"stream": Stream(segments=2)},
    ),
    "a writer has any name, even that of a path": (
        [
            do.DuplicateWriter(at_ms=2_000, writer="src/main"),
            do.NoteTime(at_ms=3_000, writer="src/main/2", time=5),
            do.CrashWriter(at_ms=4_000, writer="w1/x"),
        ],
        {"writers": ODD},
    ),
    "a reader that joins can be named": (
        [do.AddReader(at_ms=5, reader="late"), do.RemoveReader(at_ms=50, reader="late")],
        {},
    ),
    "a reader begins with its own group": ([do.CrashReader(at_ms=5, reader="early-0")], {"readers": LATE[::-1]}),
}


@pytest.mark.parametrize(("acts", "fields"), ACCEPTED.values(), ids=ACCEPTED)
def test_what_can_be_run_is_accepted(acts: Any, fields: Any) -> None:
    assert scenario(*acts, **fields).script == tuple(acts)


def test_values_are_frozen_and_replaced() -> None:
    one = scenario()
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.seed = 2
    assert (one.replace(seed=2).seed, one.seed) == (2, 0)


def test_the_html_escapes_names() -> None:
    assert "<b>" not in Scenario("<b>x", writers=[W], duration_ms=1)._repr_html_()


def test_numbers_may_be_those_of_numpy() -> None:
    writer = EventWriter("w", rate_per_s=np.float64(5), batch_ms=np.int64(50))
    assert writer == EventWriter("w", rate_per_s=5.0, batch_ms=50)
    assert type(writer.batch_ms) is int


def test_an_estimate_names_the_period_of_automatic_noting_that_the_stream_asks_for() -> None:
    costs = {cost.field: cost.count for cost in scenario(stream=Stream(automatically_note_time=True)).estimate().costs}
    assert costs["writers[0].automatic_note_period_ms"] == 9_000 // 5_000
    assert "writers[0].note_every_ms" not in costs


def test_a_card_says_how_often_a_watermark_is_made_and_whether_that_was_chosen() -> None:
    default = Scenario("x", writers=[W], duration_ms=60_000)._repr_html_()
    assert "a cycle every 10\N{NO-BREAK SPACE}s, Pravega" in default
    assert "at most 6 watermarks in this run; controllers=wm.Controllers(period_ms=1_000) has one a second" in default
    chosen = Scenario("x", writers=[W], controllers=Controllers(period_ms=500), duration_ms=60_000)._repr_html_()
    assert "a cycle every 500\N{NO-BREAK SPACE}ms<" in chosen


def test_what_happens_after_the_end_is_refused_with_both_times() -> None:
    message = r"at_ms: lies at or after the end of the run, 12 s \(got 1 min 40 s\)"
    with pytest.raises(Problems, match=message):
        Scenario("x", writers=[W], script=[do.CrashWriter(at_ms=100_000, writer="w")], duration_ms="12 s")
