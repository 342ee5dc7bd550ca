"""What the machine builds scenarios from: strategies for streams, writers, controllers, readers, and the network.

The first choice of every list is the plainest one, so that a failing scenario shrinks towards it. Runs are short:
rates are low, and periods are fractions of a second.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache, partial
from typing import Any, Final, TypeVar

from hypothesis import strategies as st

from wmlab.streams.scenario import network, noting
from wmlab.streams.scenario.network import Network
from wmlab.streams.scenario.parts import Clock, Controllers, EventWriter, ReaderGroup, Stream, TransactionalWriter
from wmlab.streams.scenario.rules import Rules

NEVER_MS: Final = 60_000
"""A timeout beyond the end of every run."""

CLOCKS = st.sampled_from([Clock(), Clock(skew_ms=400), Clock(skew_ms=-700, drift_ppm=20_000), Clock(drift_ppm=-50_000)])
NOTINGS = st.sampled_from(
    [noting.EarliestOpen(), noting.WallClock(), noting.LastEventTime(), noting.MaxMinusSlack(150), noting.Never()]
)
RATES = st.sampled_from([10, 0, 4, 30])
DELAYS = st.sampled_from([0, 40, 300])
KEYS = st.sampled_from(["0..1", "0..1/2", "2/3..1"])
BYTES = st.sampled_from([100, 0, 8_000])


Part = TypeVar("Part")
Makers = st.SearchStrategy[Callable[..., Part]]
"""What makes a part from the fields that only the caller knows."""


def built(kind: Callable[..., Part], **drawn: st.SearchStrategy[Any] | list[Any]) -> Makers[Part]:
    """Makers of that kind: some fields drawn, by a strategy or as one of a list.

    What only one run knows, such as names and moments, is left to the caller of the maker, so that strategies are made
    once: hypothesis takes longer to make and to validate them than to draw from them.
    """
    found = ((name, one_of(*draw) if isinstance(draw, list) else draw) for name, draw in drawn.items())
    return _together(*found).map(lambda values: partial(kind, **values))


@cache
def _together(*drawn: tuple[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(dict(drawn))


@lru_cache(maxsize=None, typed=True)
def one_of(*values: Any) -> st.SearchStrategy[Any]:
    """One of these values."""
    return st.sampled_from(values)


@cache
def event_writers() -> Makers[EventWriter]:
    """Event writers: by a policy, or automatic."""
    plain = built(
        EventWriter,
        rate_per_s=RATES,
        delay_mean_ms=DELAYS,
        keys=KEYS,
        noting=NOTINGS,
        note_every_ms=[200, 500, None],
        flush_before_note=st.booleans(),
        processes=[1, 2],
        clock=CLOCKS,
        event_bytes=BYTES,
    )
    automatic = built(
        partial(EventWriter, automatically_note_time=True),
        rate_per_s=RATES,
        delay_mean_ms=DELAYS,
        automatic_note_period_ms=[300, 700],
        clock=CLOCKS,
    )
    return plain | automatic


@cache
def transactional_writers() -> Makers[TransactionalWriter]:
    """Transactional writers, whose transactions overlap or not."""
    return built(
        TransactionalWriter,
        rate_per_s=RATES,
        delay_mean_ms=DELAYS,
        keys=KEYS,
        every_ms=[400, 800],
        open_ms=[None, 100, 1_000],
        commit_latency_ms=[0, 50, 300],
        lease_ms=[900, 90_000],
        noting=NOTINGS,
        clock=CLOCKS,
        event_bytes=BYTES,
    )


@cache
def streams(*timeouts_ms: int) -> Makers[Stream]:
    """Streams with one of these timeouts."""
    return built(
        Stream,
        segments=[1, 2, 3, 4],
        timestamp_aggregation_timeout_ms=[*timeouts_ms],
        start_delay_ms=[None, 200],
        expected_writers=[1, 1, 1, 3],
        acks_carry_offset=[True, False],
        commit_batch=[100, 1],
    )


@cache
def controllers(*, slow: bool) -> Makers[Controllers]:
    """Controllers; the clocks of `slow` ones may be wrong."""
    return built(
        Controllers,
        count=[1, 2, 3],
        buckets=[1, 4],
        period_ms=[300, 500],
        start_delay_ms=[None, 0],
        period_jitter_ms=[0, 60],
        session_timeout_ms=[500, 1_500],
        redistribute_every_ms=[100, 700],
        contact=["round_robin", "random", "sticky"],
        clocks=[(), (Clock(skew_ms=900, drift_ppm=30_000),)] if slow else [()],
    )


@cache
def networks(*, slow: bool) -> Makers[Network]:
    """Networks with delay, loss, duplication and reordering; in `slow` ones the controllers wait for the stores."""
    inside = [network.Fixed(0), network.Fixed(3), network.Exponential(15.0)] if slow else [network.Fixed(0)]
    return built(
        Network,
        delay=[None, network.Uniform(0, 60), network.Exponential(25.0, least_ms=2), network.LogNormal(20.0, 1.0)],
        inside=inside,
        loss=[0.0, 0.2],
        duplication=[0.0, 0.2],
        reordering=[0.0, 0.2],
        reordering_ms=[400],
        keep_messages=[False, True],
    )


@cache
def rules(*, shares_times: bool) -> Makers[Rules]:
    """Rules with any option that keeps the promises; the caller gives the faults as options, and these count."""
    return built(
        partial(Rules, read_side="document") if shares_times else Rules,
        timeout_from=["first_behind", "last_note"],
        forgets=["behind", "all"],
        cycles=["while_noted", "unconditional"],
        note_rule=["implementation", "design"],
        txn_marks=["per_batch", "per_transaction"],
        committer=["by_hash", "leader"],
        probe_on_seal=[True, False],
        auto_note_survives_close=st.booleans(),
        enters_time=["at_publish", "on_passing"] if shares_times else ["at_publish"],
        publish_timer=["fixed", "pravega"],
        distribution=["even", "contest"],
    )


@cache
def reader_groups(*, shares_times: bool) -> Makers[ReaderGroup]:
    """A group of readers with any way to share the work; those that share a map of times all look at the marks."""
    return built(
        ReaderGroup,
        readers=[1, 2, 3],
        rate_per_s=[None, 15.0],
        publish_every_ms=[200, 350],
        time_windows=[True] if shares_times else [True, True, True, False],
        tracker_ms=[0, 90],
        read_every_ms=[100, 60],
        group_refresh_ms=[300],
        state_latency_ms=[0, 20, None],
        rebalance=["segments", "bytes", "time"],
        rebalance_slack_bytes=[500],
        rebalance_slack_ms=[200],
    )
