"""Random runs of streams: every action of a script, one to four in a run, and every shape that an answer depends on.

The actions are dealt from one deck, so that a few runs contain each of them. A run has what its actions need: a writer
with transactions, a second stream, a second group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

import wmlab as wm
from wmlab.core.errors import WmlabError
from wmlab.streams.api import Scenario
from wmlab.streams.scenario import network, noting, script
from wmlab.streams.scenario.script import Action

LENGTH_MS: Final = 40_000
ORDERS: Final = "orders"
TRADES: Final = "trades"
GROUP: Final = "readers"
_LENGTHS_MS: Final = (2_000, 5_000, 7_000)


@dataclass(frozen=True, slots=True)
class Target:
    """What an action can be about in one run: its names, and the random numbers to choose with."""

    draw: Random
    writers: tuple[str, ...]
    readers: tuple[str, ...]
    controllers: tuple[str, ...]

    @property
    def writer(self) -> str:
        """A writer of events."""
        return self.draw.choice(self.writers)

    @property
    def reader(self) -> str:
        """A reader of the first group."""
        return self.draw.choice(self.readers)

    @property
    def controller(self) -> str:
        """A controller, by name or by its role."""
        return self.draw.choice((*self.controllers, "leader", "leader"))

    @property
    def for_ms(self) -> int:
        """How long something lasts."""
        return self.draw.choice(_LENGTHS_MS)

    @property
    def for_ms_or_ever(self) -> int | None:
        """How long something lasts; None: until the end."""
        return self.draw.choice((*_LENGTHS_MS, None))


Deal = Callable[[int, Target], Action]
_POINTS: Final = ("after_marks", "after_log", "before_append", "after_append")

DECK: Final[Mapping[type, Deal]] = {
    script.CrashWriter: lambda at, of: script.CrashWriter(
        at_ms=at, writer=of.writer, restart_after_ms=of.for_ms_or_ever, backlog=of.draw.choice(("lost", "kept"))
    ),
    script.SilenceWriter: lambda at, of: script.SilenceWriter(at_ms=at, writer=of.writer, for_ms=of.for_ms_or_ever),
    script.NoteTime: lambda at, of: script.NoteTime(
        at_ms=at,
        writer=of.writer,
        time=of.draw.choice((at, at - 3_000, 200_000)),
        position=of.draw.choice((None, None, (("77@77", 5),), ())),
    ),
    script.ShutDownWriter: lambda at, of: script.ShutDownWriter(
        at_ms=at, writer=of.writer, last_note=of.draw.random() < 0.5, restart_after_ms=of.for_ms_or_ever
    ),
    script.MarkIdle: lambda at, of: script.MarkIdle(at_ms=at, writer=of.writer, for_ms=of.for_ms_or_ever),
    script.DuplicateWriter: lambda at, of: script.DuplicateWriter(
        at_ms=at, writer=of.writer, load=of.draw.choice(("moves", "copied"))
    ),
    script.UpgradeWriter: lambda at, of: script.UpgradeWriter(
        at_ms=at, writer=of.writer, writer_id=of.draw.choice(("{name}", None, "{name}-new"))
    ),
    script.CommitTransaction: lambda at, of: script.CommitTransaction(
        at_ms=at, writer="t1", time=of.draw.choice(("policy", None, at - 500))
    ),
    script.AbortTransaction: lambda at, of: script.AbortTransaction(
        at_ms=at, writer="t1", backlog=of.draw.choice(("lost", "kept"))
    ),
    script.WriteInTransaction: lambda at, of: script.WriteInTransaction(at_ms=at, writer="t1"),
    script.SlowTransaction: lambda at, of: script.SlowTransaction(at_ms=at, writer="t1", hold_ms=of.for_ms),
    script.LoseMergeReply: lambda at, of: script.LoseMergeReply(at_ms=at, noticed_after_ms=of.for_ms),
    script.CrashCommitHandler: lambda at, of: script.CrashCommitHandler(
        at_ms=at, point=of.draw.choice(("before_merge", "after_merge", "after_noting")), restart_after_ms=of.for_ms
    ),
    script.Partition: lambda at, of: _partition(at, of),
    script.StoreUnavailable: lambda at, of: script.StoreUnavailable(
        at_ms=at, for_ms=of.for_ms, store=of.draw.choice(("writer_marks", "segment_metadata", "marks_segment"))
    ),
    script.StepClock: lambda at, of: script.StepClock(
        at_ms=at, party=of.draw.choice((*of.writers, "controller-0")), by_ms=of.draw.choice((-3_000, -800, 2_000))
    ),
    script.CrashController: lambda at, of: script.CrashController(
        at_ms=at,
        controller=of.controller,
        point=of.draw.choice((None, None, *_POINTS)),
        restart_after_ms=of.for_ms_or_ever,
    ),
    script.PauseController: lambda at, of: script.PauseController(
        at_ms=at, controller=of.controller, point=of.draw.choice((None, None, *_POINTS)), for_ms=of.for_ms
    ),
    script.ExpireSession: lambda at, of: script.ExpireSession(at_ms=at, controller=of.controller),
    script.LoseBucketOwner: lambda at, of: script.LoseBucketOwner(at_ms=at, for_ms=of.for_ms),
    script.AddController: lambda at, of: script.AddController(at_ms=at),
    script.RemoveController: lambda at, of: script.RemoveController(at_ms=at, controller="controller-0"),
    script.Scale: lambda at, of: script.Scale(
        at_ms=at, seal=("0@0",), into=of.draw.choice((1, 2, 3)), seal_every_ms=of.draw.choice((None, None, 1_000))
    ),
    script.TruncateStream: lambda at, of: script.TruncateStream(at_ms=at),
    script.SealStream: lambda at, of: script.SealStream(at_ms=at),
    script.CreateStream: lambda at, of: script.CreateStream(at_ms=at, stream=TRADES),
    script.DeleteStream: lambda at, of: script.DeleteStream(at_ms=at, recreate_after_ms=of.for_ms_or_ever),
    script.LoseMarksSegment: lambda at, of: script.LoseMarksSegment(at_ms=at, for_ms=of.for_ms),
    script.TruncateMarks: lambda at, of: script.TruncateMarks(at_ms=at, keep=of.draw.choice((0, 1, 3))),
    script.CrashReader: lambda at, of: script.CrashReader(
        at_ms=at,
        reader=of.reader,
        offline_after_ms=of.draw.choice((0, 2_000, None)),
        restart_after_ms=of.for_ms_or_ever,
    ),
    script.PauseReader: lambda at, of: script.PauseReader(at_ms=at, reader=of.reader, for_ms=of.for_ms_or_ever),
    script.AddReader: lambda at, of: script.AddReader(at_ms=at, reader="late", group=GROUP),
    script.RemoveReader: lambda at, of: script.RemoveReader(at_ms=at, reader=of.reader),
    script.ReleaseSegment: lambda at, of: script.ReleaseSegment(
        at_ms=at, reader=of.reader, segment="0@0", keep_free_ms=of.for_ms
    ),
    script.Checkpoint: lambda at, of: script.Checkpoint(at_ms=at, name="kept", group=GROUP),
    script.TakeStreamCut: lambda at, of: script.TakeStreamCut(at_ms=at, name="cut", group=GROUP),
    script.ResetToCheckpoint: lambda at, of: script.ResetToCheckpoint(
        at_ms=at, ranges=of.draw.random() < 0.5, group=GROUP
    ),
}
"""How each kind of action is drawn. `network` and `noting` are no actions."""
_OF_TRANSACTIONS: Final = (
    script.CommitTransaction,
    script.AbortTransaction,
    script.WriteInTransaction,
    script.SlowTransaction,
    script.LoseMergeReply,
    script.CrashCommitHandler,
)
_OF_READERS: Final = (
    script.CrashReader,
    script.PauseReader,
    script.AddReader,
    script.RemoveReader,
    script.ReleaseSegment,
    script.Checkpoint,
    script.TakeStreamCut,
    script.ResetToCheckpoint,
)
_SIDES: Final = (
    ("w1", "controllers"),
    ("w2", "controllers"),
    ("w1", "segment-store"),
    ("writers", "controller-0"),
    ("controllers", "metadata-store"),
    ("controllers", "segment-store"),
    ("controller-0", "coordinator"),
    ("readers", "segment-store"),
)


def _partition(at_ms: int, of: Target) -> Action:
    a, b = of.draw.choice([sides for sides in _SIDES if of.readers or "readers" not in sides])
    return script.Partition(
        at_ms=at_ms, a=a, b=b, for_ms=of.for_ms_or_ever, calls=of.draw.choice(("lost", "lost", "held"))
    )


def drawn_run(seed: int) -> Scenario:
    """The scenario of a seed: two to four writers, up to two streams and groups, one to four actions."""
    draw = Random(f"run {seed}")
    kinds = _dealt(seed, draw)
    with_readers = draw.random() < 0.9 or any(kind in _OF_READERS for kind in kinds)
    with_transactions = draw.random() < 0.15 or any(kind in _OF_TRANSACTIONS for kind in kinds)
    with_trades = draw.random() < 0.15 or script.CreateStream in kinds
    by_itself = Random(f"by itself {seed}")
    streams = [_stream(ORDERS, draw), *([_stream(TRADES, draw)] if with_trades else [])]
    writers: list[wm.EventWriter | wm.TransactionalWriter] = [
        _perhaps_by_itself(_writer(f"w{number}", ORDERS, draw), by_itself)
        for number in range(1, draw.choice((3, 3, 4)))
    ]
    events = tuple(writer.name for writer in writers)
    if with_transactions:
        writers.append(
            wm.TransactionalWriter(
                "t1", rate_per_s=10, every_ms=2_000, open_ms=draw.choice((None, 1_000)), stream=ORDERS
            )
        )
    if with_trades:
        writers.append(_writer("v1", TRADES, draw))
    starts_ms = 0 if any(kind in _OF_READERS for kind in kinds) else draw.choice((0, 0, 8_000))
    groups = _groups(starts_ms, draw, with_trades=with_trades) if with_readers else []
    controllers = wm.Controllers(
        draw.choice((1, 1, 2)),
        period_ms=draw.choice((1_000, 3_000, 10_000)),
        session_timeout_ms=4_000,
        start_delay_ms=draw.choice((None, None, 500)),
    )
    scenario = Scenario(
        f"drawn {seed}",
        streams=tuple(streams),
        writers=tuple(writers),
        readers=tuple(groups) or None,
        controllers=controllers,
        network=_network(draw),
        rules=wm.Rules(
            draw.choice(("sound",) * 6 + ("implementation", "design")),
            publish_timer=draw.choice(("fixed", "fixed", "pravega")),
        ),
        duration_ms=LENGTH_MS,
        seed=seed,
    )
    first = groups[0].reader_names() if groups else ()
    target = Target(draw, events, first, tuple(f"controller-{n}" for n in range(controllers.count)))
    return _with_actions(scenario, kinds, target)


def _dealt(seed: int, draw: Random) -> list[type]:
    """The kinds of actions of a run: two of the deck in turn, or one and others by chance, or one alone."""
    deck = list(DECK)
    Random(0).shuffle(deck)
    own = [deck[(2 * seed + nth) % len(deck)] for nth in range(2)]
    return own + draw.sample(deck, draw.choice((0, 0, 1, 2)))


def _with_actions(scenario: Scenario, kinds: list[type], target: Target) -> Scenario:
    """The scenario with an action of each kind; one that it refuses is drawn again, some times."""
    at_ms = target.draw.choice((1_500, 5_000, 5_000, 9_000))
    together = target.draw.random() < 0.2
    for kind in kinds:
        for _ in range(4):
            try:
                action = DECK[kind](at_ms, target)
                scenario = scenario.replace(script=[*scenario.script, action])
            except WmlabError:
                continue
            break
        if kind is script.ExpireSession:
            scenario = _expired_again(scenario, target)
        at_ms += 0 if together else target.draw.choice((1_000, 4_000, 8_000))
    return scenario


def _expired_again(scenario: Scenario, target: Target) -> Scenario:
    """A session that expired expires once more: before the controller has noticed it, or later, or not."""
    chance = Random(f"again {scenario.name}")
    act = scenario.script[-1] if scenario.script else None
    if not isinstance(act, script.ExpireSession) or chance.random() < 0.3:
        return scenario
    again = replace(act, at_ms=act.at_ms + chance.choice((1_000, 3_000, 8_000)))
    return scenario.replace(script=[*scenario.script, again])


def _stream(name: str, draw: Random) -> wm.Stream:
    return wm.Stream(
        name,
        segments=draw.choice((1, 2, 2, 3)),
        timestamp_aggregation_timeout_ms=draw.choice((4_000, 15_000, 60_000)),
        expected_writers=draw.choice((1, 1, 1, 3)),
    )


def _writer(name: str, stream: str, draw: Random) -> wm.EventWriter:
    return wm.EventWriter(
        name,
        stream=stream,
        rate_per_s=draw.choice((20, 20, 20, 0)),
        delay_mean_ms=draw.choice((0.0, 200.0, 1_500.0)),
        note_every_ms=draw.choice((500, 1_000, 2_000)),
        noting=draw.choice((noting.EarliestOpen(), noting.EarliestOpen(), noting.WallClock(), noting.Never())),
        clock=wm.Clock(skew_ms=draw.choice((0, 0, 0, -2_000))),
        starts_ms=draw.choice((0, 0, 0, 6_000)),
    )


def _perhaps_by_itself(writer: wm.EventWriter, chance: Random) -> wm.EventWriter:
    """The writer, or one that notes its clock by itself."""
    if chance.random() < 0.85:
        return writer
    return replace(
        writer,
        noting=noting.EarliestOpen(),
        note_every_ms=1_000,
        automatically_note_time=True,
        automatic_note_period_ms=chance.choice((500, 2_000)),
    )


def _groups(starts_ms: int, draw: Random, *, with_trades: bool) -> list[wm.ReaderGroup]:
    """One group or two, of which one may read both streams."""
    shape: dict[str, Any] = {"stream": ORDERS}
    if with_trades and draw.random() < 0.4:
        shape = {"streams": (ORDERS, TRADES)}
    groups = [_group(GROUP, shape, starts_ms, draw)]
    if draw.random() < 0.25:
        groups.append(_group("audit", {"stream": TRADES if with_trades else ORDERS}, draw.choice((0, 8_000)), draw))
    return groups


def _group(name: str, shape: Mapping[str, Any], starts_ms: int, draw: Random) -> wm.ReaderGroup:
    return wm.ReaderGroup(
        name,
        readers=draw.choice((1, 2)),
        publish_every_ms=draw.choice((500, 1_000, 3_000)),
        rate_per_s=draw.choice((None, None, 25.0)),
        starts_ms=starts_ms,
        **shape,
    )


def _network(draw: Random) -> network.Network:
    return network.Network(
        delay=draw.choice((None, None, None, network.Uniform(5, 60), network.Exponential(40.0))),
        inside=draw.choice((network.Fixed(0), network.Fixed(0), network.Fixed(20), network.Exponential(15.0))),
        loss=draw.choice((0.0, 0.0, 0.0, 0.2)),
        duplication=draw.choice((0.0, 0.0, 0.0, 0.1)),
    )


def moments_of(seed: object, count: int) -> list[int]:
    """Random moments of a run (clock, ms), ascending."""
    return sorted(Random(f"moments {seed}").sample(range(500, LENGTH_MS), count))
