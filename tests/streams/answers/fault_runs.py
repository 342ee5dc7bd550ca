"""Random runs with one to four faults, and an oracle: it removes what is named as the cause and runs again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from wmlab.streams.answers.cause import Cause, Party
from wmlab.streams.answers.curves import LOG, Curve, Curves
from wmlab.streams.answers.vocabulary import CauseKind
from wmlab.streams.api import Scenario
from wmlab.streams.recording import StreamRecording
from wmlab.streams.scenario import script
from wmlab.streams.scenario.parts import Clock, Controllers, EventWriter, ReaderGroup, Stream

END_MS = 40_000
GROUP = Curve(group="readers")


def scenario_of(seed: int) -> Scenario:
    """A scenario of two or three writers and one or two readers, with one to four faults of different parties."""
    draw = Random(seed)
    writers = [
        EventWriter(
            f"w{n}",
            rate_per_s=20,
            delay_mean_ms=draw.choice([0.0, 200.0, 1_500.0]),
            note_every_ms=draw.choice([500, 1_000, 2_000]),
            clock=Clock(skew_ms=draw.choice([0, 0, 0, -2_000])),
        )
        for n in range(1, draw.choice([3, 3, 4]))
    ]
    readers = ReaderGroup(
        readers=draw.choice([1, 2]),
        publish_every_ms=draw.choice([500, 1_000, 3_000]),
        rate_per_s=draw.choice([None, None, 25.0]),
    )
    controllers = Controllers(
        draw.choice([1, 1, 2]), period_ms=draw.choice([1_000, 3_000, 10_000]), session_timeout_ms=4_000
    )
    names = [writer.name for writer in writers]
    faults: list[Callable[[int, int], Any]] = [
        lambda at, length: script.CrashWriter(at_ms=at, writer=names[0], restart_after_ms=length),
        lambda at, length: script.SilenceWriter(at_ms=at, writer=names[1], for_ms=length),
        lambda at, length: script.Partition(at_ms=at, a=names[1], b="controllers", for_ms=length),
        lambda at, length: script.StoreUnavailable(at_ms=at, store="writer_marks", for_ms=length),
        lambda at, length: script.StoreUnavailable(at_ms=at, store="marks_segment", for_ms=length),
        lambda at, length: script.CrashController(at_ms=at, controller="controller-0", restart_after_ms=length),
        lambda at, length: script.PauseController(at_ms=at, controller="controller-0", for_ms=length),
        lambda at, length: script.PauseReader(at_ms=at, reader="readers-0", for_ms=length),
        lambda at, length: script.CrashReader(at_ms=at, reader="readers-0", restart_after_ms=length),
        lambda at, length: script.Scale(at_ms=at, seal=["0@0"]),
        lambda at, length: script.LoseMarksSegment(at_ms=at, for_ms=length),
    ]
    acts, at_ms = [], 5_000
    for fault in draw.sample(faults, draw.randint(1, 4)):
        length_ms = draw.choice([2_000, 5_000, 7_000])
        acts.append(fault(at_ms, length_ms))
        at_ms += length_ms + draw.choice([500, 1_500])
    timeout_ms = draw.choice([4_000, 15_000, 60_000])
    return Scenario(
        f"faults {seed}",
        stream=Stream("orders", segments=2, timestamp_aggregation_timeout_ms=timeout_ms),
        writers=writers,
        readers=readers,
        controllers=controllers,
        script=acts,
        duration_ms=END_MS,
        seed=seed,
    )


def moments_of(seed: int, count: int = 20) -> list[int]:
    """Moments of such a run at which the cause is asked for, ascending."""
    draw = Random(f"moments {seed}")
    return sorted(draw.sample(range(1_000, END_MS), count))


@dataclass(slots=True)
class Reruns:
    """A run and its variations, each recorded once."""

    scenario: Scenario
    recording: StreamRecording
    recordings: dict[str, Curves | None]

    @classmethod
    def of(cls, seed: int) -> Reruns:
        """The run of a seed."""
        scenario = scenario_of(seed)
        return cls(scenario, scenario.record(progress=False), {})

    def bound(self, changed: Scenario, curve: Curve, at_ms: int) -> int | None:
        """The value of a curve in a variation."""
        key = changed.to_yaml()
        if key not in self.recordings:
            self.recordings[key] = Curves(changed.record(progress=False), "orders")
        curves = self.recordings[key]
        return None if curves is None else curves.cause(curve, at_ms).bound

    def is_confirmed(self, cause: Cause, curve: Curve) -> bool | None:
        """Whether the curve is higher at that moment without the cause; None: nothing can be removed.

        Where a group knows the newest watermark, the cause is one of the log.
        """
        changed = self.without(cause)
        if changed is None:
            return None
        is_of_log = cause.kind is CauseKind.NEWEST
        bound = self.bound(changed, LOG if is_of_log else curve, cause.at_ms)
        return is_higher(bound, cause.log.bound if is_of_log and cause.log is not None else cause.bound)

    def without(self, cause: Cause) -> Scenario | None:
        """The scenario without what is named as the cause; None: nothing can be removed."""
        scenario = self.scenario
        if cause.kind is CauseKind.NEWEST:
            return None if cause.log is None else self.without(cause.log)
        slow = [
            party.name for party in cause.parties if party.subject == "writer" and not is_held_by_fault(cause, party)
        ]
        remaining = scenario.script
        for party in cause.parties:
            if party.name not in slow:
                remaining = tuple(action for action in remaining if not _is_of(action, party))
        if remaining != scenario.script and not slow:
            fast = [replace(scenario.groups[0], publish_every_ms=100, rate_per_s=None)]
            return scenario.replace(script=remaining, readers=fast if self.was_to_read(cause) else scenario.groups)
        scenario = scenario.replace(script=remaining)
        if slow:
            others = tuple(writer for writer in scenario.writers if writer.name not in slow)
            kept = {writer.name for writer in others}
            acts = [act for act in scenario.script if getattr(act, "writer", None) is None or act.writer in kept]
            acts = [act for act in acts if not (isinstance(act, script.Partition) and act.a not in kept)]
            acts = [act for act in acts if cause.kind is not CauseKind.CONTROLLER or not _is_of_controller(act)]
            return scenario.replace(writers=others, script=acts) if others else None
        groups = [replace(scenario.groups[0], publish_every_ms=100, rate_per_s=None)]
        if cause.kind in (CauseKind.UNREAD, CauseKind.PUBLICATION, CauseKind.NEXT_LOOK, CauseKind.ASSIGNMENT):
            return scenario.replace(readers=groups)
        if cause.kind in (CauseKind.PERIOD, CauseKind.FIRST_CYCLE, CauseKind.CONTROLLER):
            acts = [
                act for act in scenario.script if cause.kind is not CauseKind.CONTROLLER or not _is_of_controller(act)
            ]
            controllers = scenario.controllers
            if cause.kind is not CauseKind.CONTROLLER:
                controllers = replace(controllers, period_ms=20, start_delay_ms=20)
            return scenario.replace(script=acts, controllers=controllers)
        if cause.kind is CauseKind.CYCLE_FAILED:
            return scenario.replace(script=[])
        return None

    def was_to_read(self, cause: Cause) -> bool:
        """Whether a reader that holds a group had to read up to the next cut before its fault began."""
        marks = self.recording.table("watermarks").to_pylist()
        later = [row["emitted_ms"] for row in marks if cause.bound is None or row["lower"] > cause.bound]
        faults = [party.fault for party in cause.parties if party.subject == "reader" and party.fault is not None]
        return any(min(later, default=fault.since_ms) < fault.since_ms for fault in faults)


def _is_of_controller(action: Any) -> bool:
    return isinstance(action, script.CrashController | script.PauseController)


def _is_of(action: Any, party: Party) -> bool:
    """Whether an action made the fault of a party."""
    fault = party.fault
    if fault is None or action.at_ms != fault.since_ms:
        return False
    named = {getattr(action, name, None) for name in ("writer", "reader", "controller", "a", "b", "store")}
    is_general = isinstance(action, script.LoseMarksSegment | script.StoreUnavailable | script.CrashController)
    return party.name in named or is_general


def is_held_by_fault(cause: Cause, party: Party) -> bool:
    """Whether the fault is what keeps a writer back: as far as is known, cycles did not wait for it before."""
    waited_ms, fault = party.waited_ms, party.fault
    was_behind = fault is not None and waited_ms is not None and waited_ms < fault.since_ms
    is_waited_for = cause.kind is CauseKind.LAGGING and not was_behind
    return fault is not None and is_waited_for


def is_higher(bound: int | None, than: int | None) -> bool:
    """Whether a bound is higher, where an unknown one is below all."""
    return bound is not None and (than is None or bound > than)


CURVES = (LOG, GROUP)
