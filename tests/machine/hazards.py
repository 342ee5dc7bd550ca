"""Machines that look for what is known to break: Pravega's own cuts, issue 6510, and stale marks without a timeout.

Each keeps to the few rules that its hazard needs, and has the option on that makes the hazard; `mended` is the same
scenario without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.machine.base import GAPS_MS, Machine
from tests.machine.parts import NEVER_MS
from wmlab.streams.api import Scenario
from wmlab.streams.model.history import StreamHistory
from wmlab.streams.scenario import script
from wmlab.streams.scenario.parts import Controllers, EventWriter, ReaderGroup, Stream
from wmlab.streams.scenario.rules import Rules

Options = Mapping[str, Any]


class Hazard(Machine):
    """A machine whose runs may break a promise."""

    sound: ClassVar[Options] = {}
    """What the options that make the hazard are in a sound run."""

    @classmethod
    def mended(cls, scenario: Scenario) -> Scenario:
        """The same scenario by sound rules."""
        return scenario.with_rules(**cls.sound)


class PravegaCuts(Hazard):
    """Writers that note partial positions in several epochs, which Pravega's cut cannot put together."""

    faults: ClassVar[Options] = {"cut_algorithm": "pravega"}
    sound: ClassVar[Options] = {"cut_algorithm": "sound"}
    tail_ms = 700

    def furnish(self, data: st.DataObject) -> None:
        """A stream that was merged and split; its writers write nothing and note what the rules say."""
        self.follows = Rules(**self.faults)
        self.streams = [
            Stream("orders", segments=2, timestamp_aggregation_timeout_ms=NEVER_MS, visit_order="newest_first")
        ]
        self.writers = [EventWriter(name, rate_per_s=0, note_every_ms=None) for name in ("w1", "w2", "w3")]
        self.controllers = Controllers(period_ms=100, start_delay_ms=100)
        self.histories = {"orders": StreamHistory.create(2)}
        self.scale_all(10, 1)
        self.scale_all(10, 2)

    @rule(gap_ms=GAPS_MS, into=st.sampled_from([1, 2]))
    def scale_all(self, gap_ms: int, into: int) -> None:
        """The whole stream is merged, or split in two."""
        sealed = [segment.name for segment in self.histories["orders"].active.segments]
        self.histories["orders"] = self.histories["orders"].scale(sealed, into)
        self.happens(script.Scale(at_ms=self.after(gap_ms), seal=sealed, into=into))

    @rule(data=st.data())
    def note(self, data: st.DataObject) -> None:
        """Everybody notes the present and a place in one segment or two; a cycle runs before the next rule."""
        known = sorted(segment.name for segment in self.histories["orders"].segments.values())
        places = st.dictionaries(st.sampled_from(known), st.integers(1, 1_000), min_size=1, max_size=2)
        at_ms = self.after(150)
        for writer in self.writers:
            position = data.draw(places)
            self.happens(script.NoteTime(at_ms=at_ms, writer=writer.name, time=at_ms, position=position))


class EndsThatAreNone(Hazard):
    """Writers with little to say, so that some segment has no acknowledgement when the time is noted (issue 6510)."""

    faults: ClassVar[Options] = {"bug_6510": True}
    sound: ClassVar[Options] = {"bug_6510": False}
    tail_ms = 1_500

    def furnish(self, data: st.DataObject) -> None:
        """Several segments and one quiet writer."""
        self.follows = Rules(**self.faults)
        self.streams = [Stream("orders", segments=data.draw(st.integers(2, 4)))]
        self.writers = [EventWriter("w1", rate_per_s=4, note_every_ms=200)]
        self.controllers = Controllers(period_ms=200)
        self.groups = [ReaderGroup("readers1", publish_every_ms=200)]
        self.seed = data.draw(st.integers(0, 999))

    @rule(gap_ms=GAPS_MS, rate_per_s=st.sampled_from([1, 4, 10]))
    def add_writer(self, gap_ms: int, rate_per_s: int) -> None:
        """One more writer, as quiet."""
        writer = EventWriter(self.name("v"), rate_per_s=rate_per_s, note_every_ms=200, starts_ms=self.after(gap_ms))
        self.writers.append(writer)


class StaleMarks(Hazard):
    """A leader is held up after it has read the marks; who notes meanwhile is left out when nobody is waited for."""

    tail_ms = 1_500

    @classmethod
    def mended(cls, scenario: Scenario) -> Scenario:
        """The same scenario with a timeout that never comes."""
        return scenario.replace(stream=replace(scenario.stream, timestamp_aggregation_timeout_ms=NEVER_MS))

    def furnish(self, data: st.DataObject) -> None:
        """Writers whose events come out of order, two controllers, and readers that look often."""
        self.streams = [Stream("orders", timestamp_aggregation_timeout_ms=0)]
        delays = st.sampled_from([0, 300])
        self.writers = [
            EventWriter(name, rate_per_s=30, delay_mean_ms=data.draw(delays), note_every_ms=every_ms)
            for name, every_ms in (("w1", 100), ("w2", 250))
        ]
        self.controllers = Controllers(2, period_ms=200, session_timeout_ms=500, redistribute_every_ms=100)
        self.groups = [ReaderGroup("readers1", publish_every_ms=100)]
        self.seed = data.draw(st.integers(0, 999))
        self.now_ms = 600

    @rule(gap_ms=GAPS_MS, for_ms=st.sampled_from([150, 300, 900]))
    def hold_up(self, gap_ms: int, for_ms: int) -> None:
        """The leader is paused between reading the marks and reading the log."""
        at_ms = self.after(gap_ms)
        self.happens(script.PauseController(at_ms=at_ms, for_ms=for_ms, point="after_marks"))

    @rule(gap_ms=GAPS_MS)
    def expire(self, gap_ms: int) -> None:
        """The leader loses its session, so that there are two for a while."""
        self.happens(script.ExpireSession(at_ms=self.after(gap_ms), notice_after_ms=600))
