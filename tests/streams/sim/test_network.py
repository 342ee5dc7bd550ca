"""The network: delay, loss, duplication, reordering, partitions, and the record of what was sent."""

from collections import Counter
from dataclasses import replace
from itertools import accumulate

import numpy as np
import pytest

from tests.streams.sim.worlds import clocked, run, scenario
from wmlab.core.simulation import Exponential, Fixed, LogNormal, Uniform, delays_ms, generator
from wmlab.core.values import Problems
from wmlab.streams.scenario import script
from wmlab.streams.scenario.network import Network
from wmlab.streams.scenario.parts import EventWriter, ReaderGroup, Stream

WRITERS = scenario().writers
QUIET = [EventWriter("w", rate_per_s=20)]


def draw(delay, count=4_000):
    stream = delays_ms(delay, generator(0, "test"))
    return np.array([next(stream) for _ in range(count)])


def told(network=None, **fields):
    """A run that keeps its messages."""
    return run(**({"writers": QUIET} | fields | {"network": replace(network or Network(), keep_messages=True)}))


@pytest.mark.parametrize(
    ("delay", "least", "most", "middle"),
    [
        (Fixed(7), 7, 7, 7),
        (Uniform(10, 20), 10, 20, 15),
        (Exponential(100.0, least_ms=30), 30, 1_500, 99),
        (LogNormal(50.0, 0.5), 1, 500, 50),
    ],
)
def test_delays_have_the_distribution_that_was_asked_for(delay, least, most, middle):
    drawn = draw(delay)
    assert least <= drawn.min() <= drawn.max() <= most
    assert np.median(drawn) == pytest.approx(middle, rel=0.1)
    assert (drawn == draw(delay)).all()


def test_a_uniform_delay_is_the_right_way_round():
    with pytest.raises(Problems, match="lies below low_ms"):
        Uniform(20, 10)


def test_a_fixed_delay_is_the_latency_of_the_scenario_and_keeping_messages_changes_nothing_else():
    plain, delayed, kept = (
        run(latency_ms=40),
        run(network=Network(delay=Fixed(40)), readers=ReaderGroup(readers=2, read_latency_ms=0)),
        told(writers=WRITERS, latency_ms=40),
    )
    assert plain.stream().journal.rows == delayed.stream().journal.rows == kept.stream().journal.rows
    assert not plain.rows("messages")
    assert set(kept.column("messages", "stream", kind="append")) == {"stream"}


def test_a_message_names_both_parties_and_its_times():
    world = told(latency_ms=30)
    noted = world.rows("messages", kind="note time")
    assert {(row["sender"], row["receiver"]) for row in noted} == {("w", "controller-0")}
    assert {row["received_ms"] - row["sent_ms"] for row in noted} == {30}
    assert len(world.rows("messages", kind="answer")) == len(noted) == 19
    assert noted[0]["content"].startswith("writer w, time ")
    assert "position {0@0: " in noted[0]["content"]
    acks = world.rows("messages", kind="acknowledge", sender="segment-store", receiver="w")
    assert len(acks) == len(world.rows("messages", kind="append", sender="w"))


def numbers(row):
    """The event number of an acknowledgement, the one before, and the offset it carries, if it does."""
    text = row["content"].partition(", event number ")[2].replace("previous ", "").replace("offset ", "")
    return tuple(map(int, text.split(", ")))


def test_an_acknowledgement_shows_event_numbers_and_offset_and_they_go_on_from_each_other():
    world = told(latency_ms=30)
    acks = [row for row in world.rows("messages", kind="acknowledge") if "for 0@0" in row["content"]]
    last, previous, offsets = zip(*map(numbers, acks), strict=True)
    assert len(acks) > 50
    assert list(previous) == [0, *last[:-1]]
    assert list(offsets) == [number * 108 for number in last]


def test_the_offset_on_an_acknowledgement_costs_8_bytes_and_saves_two_messages():
    new, old = (told(stream=Stream(acks_carry_offset=carry)) for carry in (True, False))
    assert set(new.column("messages", "bytes", kind="acknowledge")) == {48}
    assert not new.rows("messages", kind="get length")
    answers = {kind: old.column("messages", "bytes", kind=kind) for kind in ("acknowledge", "get length", "length")}
    assert [set(sizes) for sizes in answers.values()] == [{40}, {21}, {29}]
    assert len(set(map(len, answers.values()))) == 1


def test_an_append_counts_its_events_and_a_note_its_segments():
    world = told()
    for row in world.rows("messages", kind="append", sender="w"):
        assert row["bytes"] == 32 + 108 * int(row["content"].partition(" ")[0])
    for row in world.rows("messages", kind="note time"):
        assert row["bytes"] == 8 + 8 + 3 + 8 + 16 * row["content"].count("@")
    assert set(world.column("messages", "bytes", kind="answer")) == {None}


def test_notes_and_shutdowns_name_the_writer_id_which_processes_share():
    pair = EventWriter("w", rate_per_s=100, writer_id="shop-{name}", processes=2)
    world = told(writers=[pair], script=[script.ShutDownWriter(at_ms=9_000, writer="w/2")])
    noted = world.rows("messages", kind="note time")
    assert {(row["sender"], row["content"].split(", ")[0]) for row in noted} == {
        ("w", "writer shop-w"),
        ("w/2", "writer shop-w"),
    }
    (gone,) = world.rows("messages", kind="shut down")
    assert (gone["sender"], gone["content"], gone["bytes"]) == ("w/2", "writer shop-w", 8 + 8 + 8)


def test_a_message_under_way_at_the_end_has_not_arrived():
    sent = told(latency_ms=1_200).rows("messages", sender="w")
    assert {row["received_ms"] for row in sent if row["sent_ms"] > 18_800} == {None}


def test_a_lost_note_is_as_if_it_had_never_been_called():
    world = told(Network(loss=0.3), writers=WRITERS)
    noted = world.rows("messages", kind="note time")
    lost = [row for row in noted if row["received_ms"] is None]
    assert 0.15 < len(lost) / len(noted) < 0.45
    judged = {(row["writer"], row["noted_ms"]) for row in world.rows("writer_marks")}
    assert not judged & {(row["sender"], row["sent_ms"]) for row in lost}
    assert world.rows("watermarks")


def test_a_connection_loses_nothing_but_time():
    calm, lossy = run(latency_ms=5), run(latency_ms=5, network=Network(loss=0.8))
    for writer in ("w1", "w2"):
        before, after = calm.events_of(writer), lossy.events_of(writer)
        assert {t for t, _ in before if t < 12_000} == {t for t, _ in after if t < 12_000}
        assert len({t for t, _ in after}) <= len(after) <= len(before)
        assert max(at - t for t, at in after) > 700


def test_what_is_on_a_connection_arrives_in_order():
    world = told(Network(delay=Exponential(80.0), loss=0.2), writers=WRITERS)
    for writer in ("w1", "w2"):
        arrived = world.column("messages", "received_ms", sender=writer, kind="append")
        known = [at for at in arrived if at is not None]
        assert known == sorted(known)
        assert arrived[: len(known)] == known


def test_a_duplicated_note_succeeds_twice():
    world = run(writers=QUIET, network=Network(duplication=0.999))
    judged = Counter(row["noted_ms"] for row in world.rows("writer_marks"))
    assert set(judged.values()) == {2}
    assert set(world.outcomes()) == {"success"}


def test_an_overtaken_note_is_refused_as_older():
    world = run(writers=[clocked(note_every_ms=200)], network=Network(reordering=0.3, reordering_ms=900))
    assert world.outcomes().count("invalid time") > 10
    accepted = world.column("writer_marks", "time", outcome="success")
    assert accepted == sorted(accepted)


def test_a_partition_from_the_controllers_holds_the_bound_and_loses_the_notes():
    world = run(script=[script.Partition(at_ms=5_000, a="w1", b="controllers", for_ms=3_000)])
    assert not [row for row in world.rows("writer_marks", writer="w1") if 5_000 < row["received_ms"] < 8_000]
    assert [at for _, at in world.events_of("w1") if 5_000 < at < 8_000]
    reasons = world.column("cycles", "reason", 6_500, 8_000)
    assert all(reason.startswith("waits for w1") for reason in reasons)
    assert world.column("incidents", "kind") == ["partition", "heal"]
    assert set(world.column("incidents", "target")) == {"w1 and controllers"}


def test_held_calls_arrive_when_the_partition_ends():
    cut = script.Partition(at_ms=5_500, a="writers", b="controllers", for_ms=3_000, calls="held")
    world = run(script=[cut])
    late = [row for row in world.rows("writer_marks") if row["received_ms"] - row["noted_ms"] > 400]
    assert {(row["noted_ms"], row["received_ms"]) for row in late} == {(at, 8_505) for at in (6_000, 7_000, 8_000)}


def test_a_partition_from_the_store_delays_events_but_loses_none():
    cut = script.Partition(at_ms=5_000, a="segment-store", b="w1", for_ms=4_000)
    calm, world = run(), run(script=[cut])
    assert not [at for _, at in world.events_of("w1") if 5_010 < at < 9_000]
    assert world.times_of("w1") == calm.times_of("w1")
    held = [row["time"] for row in world.rows("writer_marks", writer="w1") if 6_000 < row["noted_ms"] < 9_000]
    assert max(held) < 5_200


def test_retries_back_off_and_give_up():
    writer, gone = clocked(rate_per_s=0, note_every_ms=150_000), script.StoreUnavailable(at_ms=900, for_ms=298_000)
    world = run(writers=[writer], script=[gone], duration_ms=299_000)
    waits_ms = [1, 10, 100, 1_000, 10_000, 20_000, 20_000, 20_000, 20_000]
    # Between two attempts lie the wait, the answer to the first and the way of the second.
    expected = accumulate(waits_ms, lambda at_ms, wait_ms: at_ms + 10 + wait_ms, initial=150_005)
    assert world.column("writer_marks", "received_ms") == list(expected)
    assert set(world.outcomes()) == {"unavailable"}


def test_another_party_leaves_the_draws_of_a_link_as_they_were():
    network = Network(delay=Exponential(60.0), loss=0.1)
    alone, beside = (run(writers=[*more, *QUIET], network=network) for more in ([], [clocked("v")]))
    assert alone.events_of("w") == beside.events_of("w")


def test_parties_that_nobody_is_are_refused():
    actions = [
        script.Partition(at_ms=1, a="w1", b="controller-7"),
        script.StepClock(at_ms=1, party="readers-0", by_ms=5),
        script.CrashController(at_ms=1, controller="boss"),
        script.SealStream(at_ms=1, stream="river"),
    ]
    with pytest.raises(Problems) as raised:
        scenario(script=actions)
    fields = ("b", "party", "controller", "stream")
    assert [problem.path for problem in raised.value.problems] == [f"script[{n}].{f}" for n, f in enumerate(fields)]
    with pytest.raises(Problems, match="same side"):
        script.Partition(at_ms=1, a="w1", b="w1")
