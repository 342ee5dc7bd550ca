"""Writing in a transaction when the script says so: early into an open one, an error into any other."""

from tests.streams.sim.worlds import rows, run
from wmlab.streams.scenario import script
from wmlab.streams.scenario.parts import TransactionalWriter


def txn_writer(**fields):
    return TransactionalWriter("t", **({"rate_per_s": 50, "every_ms": 2_000} | fields))


def txns(world):
    return {row["txn"]: row for row in rows(world, "transactions")}


def test_writing_in_what_is_not_open_is_an_error_and_the_events_go_into_the_next_transaction():
    actions = [
        script.WriteInTransaction(at_ms=at, writer="t", transaction=txn) for at, txn in ((3_550, "t-1"), (3_600, "t-9"))
    ]
    world, calm = (run(writers=[txn_writer(every_ms=2_000, batch_ms=500)], script=taken) for taken in (actions, []))
    assert [(row["at_ms"], row["call"], row["problem"]) for row in rows(world, "errors")] == [
        (3_550, "write in", "t-1: Cannot write in a transaction that is committed."),
        (3_600, "write in", "There is no transaction t-9."),
    ]
    assert [row["events"] for row in txns(world).values()] == [row["events"] for row in txns(calm).values()]


def test_writing_in_a_transaction_takes_what_its_batch_would_have_taken_later():
    write = script.WriteInTransaction(at_ms=5_800, writer="t", transaction="t-1")
    writer = txn_writer(every_ms=3_000, open_ms=6_000, batch_ms=2_000)
    world, calm = (run(writers=[writer], script=taken) for taken in ([write], []))
    gained = txns(world)["t-1"]["events"] - txns(calm)["t-1"]["events"]
    happened = world.journal.events(("t",)).event_time
    assert gained == ((happened > 4_000) & (happened <= 5_800)).sum() > 0
    assert txns(world)["t-2"]["events"] < txns(calm)["t-2"]["events"]
