"""The network: delay, loss, duplication, reordering, partitions, and the record of what was sent."""

from collections import Counter

import numpy as np
import pytest

from tests.streams.sim.worlds import events_of, rows, run, scenario
from wmlab.core.simulation import Exponential, Fixed, LogNormal, Uniform, delays_ms, generator
from wmlab.core.values import Problems
from wmlab.streams.scenario import noting, script
from wmlab.streams.scenario.network import Network, Retry
from wmlab.streams.scenario.parts import EventWriter, Stream

QUIET = [EventWriter("w", rate_per_s=20)]


def draw(delay, count=4_000):
    stream = delays_ms(delay, generator(0, "test"))
    return np.array([next(stream) for _ in range(count)])


def messages(world, **where):
    found = world.shared.rows.get("messages", [])
    return [row for row in found if all(row[name] == value for name, value in where.items())]


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


def test_a_fixed_delay_is_the_latency_of_the_scenario():
    by_latency = run(latency_ms=40)
    by_network = run(network=Network(delay=Fixed(40)))
    assert by_latency.stream().journal.rows == by_network.stream().journal.rows


def test_keeping_messages_changes_nothing_else():
    plain, kept = run(), run(network=Network(keep_messages=True))
    assert plain.stream().journal.rows == kept.stream().journal.rows
    assert not messages(plain)
    assert {row["stream"] for row in messages(kept, kind="append")} == {"stream"}


def test_a_message_names_both_parties_and_its_times():
    world = run(writers=QUIET, network=Network(keep_messages=True), latency_ms=30)
    noted = messages(world, kind="note time")
    assert {(row["sender"], row["receiver"]) for row in noted} == {("w", "controller-0")}
    assert {row["received_ms"] - row["sent_ms"] for row in noted} == {30}
    assert len(messages(world, kind="answer")) == len(noted) == 19
    assert noted[0]["content"].startswith("time ")
    assert "position {0@0: " in noted[0]["content"]
    acks = messages(world, kind="acknowledge", sender="segment-store", receiver="w")
    assert len(acks) == len(messages(world, kind="append", sender="w"))


def numbers(row):
    """The event number of an acknowledgement, the one before, and the offset it carries, if it does."""
    text = row["content"].partition(", event number ")[2].replace("previous ", "").replace("offset ", "")
    return tuple(map(int, text.split(", ")))


def test_an_acknowledgement_shows_event_numbers_and_offset_and_they_go_on_from_each_other():
    world = run(writers=QUIET, network=Network(keep_messages=True), latency_ms=30)
    acks = [row for row in messages(world, kind="acknowledge") if "for 0@0" in row["content"]]
    last, previous, offsets = zip(*map(numbers, acks), strict=True)
    assert len(acks) > 50
    assert list(previous) == [0, *last[:-1]]
    assert list(offsets) == [number * 108 for number in last]


def test_the_offset_on_an_acknowledgement_costs_8_bytes_and_saves_two_messages():
    new, old = (
        run(writers=QUIET, stream=Stream(acks_carry_offset=carry), network=Network(keep_messages=True))
        for carry in (True, False)
    )
    carried, bare = messages(new, kind="acknowledge"), messages(old, kind="acknowledge")
    assert {row["bytes"] for row in carried} == {48}
    assert {row["bytes"] for row in bare} == {40}
    assert not messages(new, kind="get length")
    asked, told = messages(old, kind="get length"), messages(old, kind="length")
    assert len(asked) == len(told) == len(bare)
    assert {row["bytes"] for row in asked} == {21}
    assert {row["bytes"] for row in told} == {29}


def test_an_append_counts_its_events_and_a_note_its_segments():
    world = run(writers=QUIET, network=Network(keep_messages=True))
    for row in messages(world, kind="append", sender="w"):
        assert row["bytes"] == 32 + 108 * int(row["content"].partition(" ")[0])
    for row in messages(world, kind="note time"):
        assert row["bytes"] == 8 + 8 + 3 + 8 + 16 * row["content"].count("@")
    assert {row["bytes"] for row in messages(world, kind="answer")} == {None}


def test_a_message_under_way_at_the_end_has_not_arrived():
    world = run(writers=QUIET, network=Network(keep_messages=True), latency_ms=1_200)
    late = [row for row in messages(world, sender="w") if row["sent_ms"] > 18_800]
    assert late
    assert {row["received_ms"] for row in late} == {None}


def test_a_lost_note_is_as_if_it_had_never_been_called():
    world = run(network=Network(loss=0.3, keep_messages=True))
    noted = messages(world, kind="note time")
    lost = [row for row in noted if row["received_ms"] is None]
    assert 0.15 < len(lost) / len(noted) < 0.45
    judged = {(row["writer"], row["noted_ms"]) for row in rows(world, "writer_marks")}
    assert not judged & {(row["sender"], row["sent_ms"]) for row in lost}
    assert rows(world, "watermarks")


def test_a_connection_loses_nothing_but_time():
    calm, lossy = run(latency_ms=5), run(latency_ms=5, network=Network(loss=0.5, retransmit_ms=700))
    for writer in ("w1", "w2"):
        before, after = events_of(calm, writer), events_of(lossy, writer)
        assert {t for t, _ in before if t < 12_000} == {t for t, _ in after if t < 12_000}
        assert len({t for t, _ in after}) <= len(after) <= len(before)
        assert max(at - t for t, at in after) > 700


def test_what_is_on_a_connection_arrives_in_order():
    world = run(network=Network(delay=Exponential(80.0), loss=0.2, keep_messages=True))
    for writer in ("w1", "w2"):
        arrived = [row["received_ms"] for row in messages(world, sender=writer, kind="append")]
        known = [at for at in arrived if at is not None]
        assert known == sorted(known)
        assert arrived[: len(known)] == known


def test_a_duplicated_note_succeeds_twice():
    world = run(writers=QUIET, network=Network(duplication=0.999))
    judged = Counter(row["noted_ms"] for row in rows(world, "writer_marks"))
    assert set(judged.values()) == {2}
    assert {row["outcome"] for row in rows(world, "writer_marks")} == {"success"}


def test_an_overtaken_note_is_refused_as_older():
    writer = EventWriter("w", rate_per_s=200, noting=noting.WallClock(), note_every_ms=200)
    world = run(writers=[writer], network=Network(reordering=0.3, reordering_ms=900))
    assert Counter(row["outcome"] for row in rows(world, "writer_marks"))["invalid time"] > 10
    accepted = [row["time"] for row in rows(world, "writer_marks", outcome="success")]
    assert accepted == sorted(accepted)


def test_a_partition_from_the_controllers_holds_the_bound_and_loses_the_notes():
    cut = script.Partition(at_ms=5_000, a="w1", b="controllers", for_ms=3_000)
    world = run(script=[cut])
    assert not [row for row in rows(world, "writer_marks", writer="w1") if 5_000 < row["received_ms"] < 8_000]
    assert [at for _, at in events_of(world, "w1") if 5_000 < at < 8_000]
    reasons = [row["reason"] for row in rows(world, "cycles") if 6_500 < row["at_ms"] < 8_000]
    assert all(reason.startswith("waits for w1") for reason in reasons)
    assert [(row["kind"], row["target"]) for row in rows(world, "incidents")] == [
        ("partition", "w1 and controllers"),
        ("heal", "w1 and controllers"),
    ]


def test_held_calls_arrive_when_the_partition_ends():
    cut = script.Partition(at_ms=5_500, a="writers", b="controllers", for_ms=3_000, calls="held")
    world = run(script=[cut])
    late = [row for row in rows(world, "writer_marks") if row["received_ms"] - row["noted_ms"] > 400]
    assert {row["noted_ms"] for row in late} == {6_000, 7_000, 8_000}
    assert {row["received_ms"] for row in late} == {8_505}


def test_a_partition_from_the_store_delays_events_but_loses_none():
    cut = script.Partition(at_ms=5_000, a="segment-store", b="w1", for_ms=4_000)
    calm, world = run(), run(script=[cut])
    assert not [at for _, at in events_of(world, "w1") if 5_010 < at < 9_000]
    assert sorted(t for t, _ in events_of(world, "w1")) == sorted(t for t, _ in events_of(calm, "w1"))
    held = [row["time"] for row in rows(world, "writer_marks", writer="w1") if 6_000 < row["noted_ms"] < 9_000]
    assert max(held) < 5_200


def test_retries_back_off_and_give_up():
    retry = Retry()
    assert [retry.wait_ms(failures) for failures in range(1, 7)] == [1, 10, 100, 1_000, 10_000, 20_000]
    gone = script.StoreUnavailable(at_ms=900, for_ms=19_000)
    world = run(writers=[EventWriter("w", rate_per_s=1, note_every_ms=15_000)], script=[gone],
                network=Network(retry=Retry(attempts=4)))  # fmt: skip
    tried = [row["received_ms"] - 15_000 for row in rows(world, "writer_marks")]
    assert tried == [5, 5 + 11, 5 + 11 + 20, 5 + 11 + 20 + 110]
    assert {row["outcome"] for row in rows(world, "writer_marks")} == {"unavailable"}


def test_a_writer_that_waits_for_answers_repeats_a_lost_note():
    network = Network(loss=0.4, retry=Retry(answer_within_ms=300))
    noted = {row["noted_ms"] for row in rows(run(writers=QUIET, network=network), "writer_marks")}
    assert set(range(1_000, 18_000, 1_000)) <= noted
    assert len(rows(run(writers=QUIET, network=Network(loss=0.4)), "writer_marks")) < 17


def test_another_party_leaves_the_draws_of_a_link_as_they_were():
    network = Network(delay=Exponential(60.0), loss=0.1)
    alone = run(writers=QUIET, network=network)
    beside = run(writers=[EventWriter("v", rate_per_s=20), *QUIET], network=network)
    assert events_of(alone, "w") == events_of(beside, "w")


def test_parties_that_nobody_is_are_refused():
    with pytest.raises(Problems) as raised:
        scenario(script=[
            script.Partition(at_ms=1, a="w1", b="controller-7"),
            script.StepClock(at_ms=1, party="readers-0", by_ms=5),
            script.CrashController(at_ms=1, controller="boss"),
            script.SealStream(at_ms=1, stream="river"),
        ])  # fmt: skip
    assert [problem.path for problem in raised.value.problems] == [
        "script[0].b",
        "script[1].party",
        "script[2].controller",
        "script[3].stream",
    ]
    with pytest.raises(Problems, match="same side"):
        script.Partition(at_ms=1, a="w1", b="w1")
