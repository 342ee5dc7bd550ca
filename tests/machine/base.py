"""The frame of the machines that make scenarios up: what there is so far, and what becomes of it in the end.

A run goes forward: every action happens a while after the one before, so the machine knows what is there. When it has
gone far enough, the scenario is recorded, judged, and given to `done`.

In a run that is `slow`, time passes between two steps of a cycle, so that a mark may be stale when it is counted. The
timeout is then far beyond the end of the run, because a timeout that is not well above such a delay may leave out a
writer that has noted a time meanwhile, which is a hazard of the design and not a mistake of this program.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize

from tests.machine import parts
from tests.machine.batch import Given, given_of
from tests.machine.judge import Findings, judge, violated
from tests.overlaps import without_overlaps
from wmlab.streams.api import Scenario
from wmlab.streams.model.history import StreamHistory
from wmlab.streams.scenario.fields import processes_of
from wmlab.streams.scenario.network import Network
from wmlab.streams.scenario.parts import Controllers, EventWriter, ReaderGroup, Stream, TransactionalWriter
from wmlab.streams.scenario.rules import Rules
from wmlab.streams.scenario.script import Action

AnyWriter = EventWriter | TransactionalWriter
GAPS_MS = st.sampled_from([100, 0, 1, 250, 600])
"""How long after the action before an action happens."""


class Violated(AssertionError):
    """A run broke a promise; the message is the scenario as YAML."""

    def __init__(self, invariants: Set[str], scenario: Scenario) -> None:
        self.invariants = frozenset(invariants)
        self.scenario = scenario
        super().__init__(f"{', '.join(sorted(invariants))} violated by this scenario:\n{scenario.to_yaml()}")

    def __reduce__(self) -> tuple[Any, ...]:
        return Violated, (self.invariants, self.scenario)


class Machine(RuleBasedStateMachine):
    """A scenario in the making; what may be added to it is said by the rules that a subclass mixes in."""

    faults: ClassVar[Mapping[str, Any]] = {}
    """Options of the rules that are off by default."""
    timeouts_ms: ClassVar[tuple[int, ...]] = (1_200, 600, parts.NEVER_MS)
    timeouts_when_slow_ms: ClassVar[tuple[int, ...]] = (parts.NEVER_MS,)
    shares_times: ClassVar[bool] = False
    """Whether reader groups share a map of times, as in the document's design, or offsets."""
    tail_ms: ClassVar[int] = 2_000
    """How long a run goes on after the last action."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 1
        self.made = 0
        self.slow = False
        self.streams: list[Stream] = []
        self.histories: dict[str, StreamHistory] = {}
        self.controllers = Controllers()
        self.follows = Rules()
        self.network = Network()
        self.writers: list[AnyWriter] = []
        self.groups: list[ReaderGroup] = []
        self.script: list[Action] = []
        self.closed: set[str] = set()
        self.latency_ms = 5
        self.seed = 0

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        """What there is from the start."""
        self.furnish(data)
        self.histories = {s.name: StreamHistory.create(s.segments) for s in self.streams} | self.histories

    def furnish(self, data: st.DataObject) -> None:
        """One stream or two, their controllers and their network, one writer and, as a rule, readers."""
        self.slow = data.draw(st.booleans())
        timeouts = self.timeouts_when_slow_ms if self.slow else self.timeouts_ms
        names = data.draw(st.sampled_from([["orders"], ["orders", "trades"]]))
        self.streams = [data.draw(parts.streams(*timeouts))(name=name) for name in names]
        self.follows = data.draw(parts.rules(shares_times=self.shares_times))(**self.faults)
        self.controllers = data.draw(parts.controllers(slow=self.slow))()
        self.network = data.draw(parts.networks(slow=self.slow))()
        self.latency_ms = data.draw(st.sampled_from([5, 0, 30]))
        self.seed = data.draw(st.integers(0, 999))
        drawn = data.draw(st.sampled_from([parts.event_writers, parts.event_writers, parts.transactional_writers]))
        self.writers.append(data.draw(drawn())(name=self.name("w"), stream="orders", starts_ms=0))
        if data.draw(st.sampled_from([True, True, True, False])):
            self.join_group(data)

    def name(self, kind: str) -> str:
        """A name that nobody has."""
        self.made += 1
        return f"{kind}{self.made}"

    def after(self, gap_ms: int) -> int:
        """The moment of the next action."""
        self.now_ms += gap_ms
        return self.now_ms

    def happens(self, action: Action) -> None:
        """Add an action to the script, unless it overlaps with another one."""
        self.script = without_overlaps([*self.script, action], self.streams, self.controllers)

    def a_stream(self, data: st.DataObject) -> str:
        """Any stream."""
        return data.draw(st.sampled_from([stream.name for stream in self.streams]))

    def a_process(self, data: st.DataObject, *kinds: type[AnyWriter]) -> str:
        """A process of any writer of these kinds."""
        writers = [writer for writer in self.writers if isinstance(writer, kinds)]
        return data.draw(st.sampled_from([name for name, _, _ in processes_of(writers, self.script)]))

    def has(self, kind: type[AnyWriter]) -> bool:
        """Whether there is a writer of that kind."""
        return any(isinstance(writer, kind) for writer in self.writers)

    def join_group(self, data: st.DataObject) -> None:
        """A reader group begins to read a stream, or all of them."""
        names = [stream.name for stream in self.streams]
        which = data.draw(st.sampled_from([[name] for name in names] + ([names] if len(names) > 1 else [])))
        read: dict[str, Any] = {"stream": which[0]} if len(which) == 1 else {"streams": tuple(which)}
        name = self.name("readers")
        drawn = parts.reader_groups(shares_times=self.shares_times)
        self.groups.append(data.draw(drawn)(name=name, starts_ms=self.now_ms, **read))
        self.now_ms += 1

    @property
    def all_processes(self) -> list[str]:
        """All processes of all writers there are by now."""
        return [name for name, _, _ in processes_of(self.writers, self.script)]

    @property
    def controller_names(self) -> tuple[str, ...]:
        """The controllers there are by now."""
        return self.scenario.controller_names

    @property
    def reader_names(self) -> tuple[str, ...]:
        """The readers there are by now."""
        return self.scenario.reader_names

    @property
    def scenario(self) -> Scenario:
        """The scenario as it is now."""
        shared: dict[str, Any] = {"stream": self.streams[0]} if len(self.streams) == 1 else {"streams": self.streams}
        return Scenario(
            "made up",
            **shared,
            writers=self.writers,
            readers=self.groups[0] if len(self.groups) == 1 else (tuple(self.groups) or None),
            controllers=self.controllers,
            network=self.network,
            rules=self.follows,
            script=self.script,
            duration_ms=self.now_ms + self.tail_ms,
            latency_ms=self.latency_ms,
            seed=self.seed,
        )

    def teardown(self) -> None:
        """Record what was made up, judge it, and hand it over."""
        if self.writers:
            scenario = self.scenario
            given = given_of(scenario.record(progress=False))
            self.done(scenario, given, judge(given))

    def done(self, scenario: Scenario, given: Given, found: Findings) -> None:
        """Raise `Violated` for a run that broke a promise."""
        if broken := violated(found):
            raise Violated(broken, scenario)
