"""An explanation of a stream's lower bound in one sentence: where it stands, what holds it, what will release it.

Source: PDP-33, Periodic Watermark Workflow; upstream class `PeriodicWatermarking`.
"""

from __future__ import annotations

from dataclasses import dataclass

from wmlab.core.words import listed, moment, span
from wmlab.streams.answers.cause import Cause, Hold
from wmlab.streams.answers.explanation import HoldingWriter
from wmlab.streams.answers.known import Known
from wmlab.streams.answers.rules import Rules


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What an explanation rests on; `wrote` are the writers that have written events, for a stream without marks."""

    known: Known
    hold: Hold
    writers: tuple[HoldingWriter, ...]
    wrote: tuple[str, ...]
    rules: Rules | None

    @property
    def next_cycle_ms(self) -> int | None:
        """When the next cycle runs; None if that cannot be told or none is planned."""
        return None if self.rules is None else self.rules.next_cycle_ms(self.known)

    @property
    def release_ms(self) -> int | None:
        """The cycle that moves the bound if nothing else happens; None if none will, or if it cannot be told."""
        if self.hold.cause is Cause.LAGGING and self.rules is not None:
            drops = [writer.dropped_ms for writer in self.behind]
            known = [at for at in drops if at is not None]
            return max(known, default=self.next_cycle_ms) if len(known) == len(drops) else None
        if self.hold.cause is Cause.FIRST_CYCLE or (self.hold.cause is Cause.SLOWEST and not self.awaited):
            return self.next_cycle_ms
        return None

    @property
    def behind(self) -> tuple[HoldingWriter, ...]:
        """The holding writers that have not noted a time beyond the bound since the last cycle looked."""
        return tuple(writer for writer in self.writers if not self.caught_up(writer.writer))

    @property
    def awaited(self) -> list[str]:
        """The writers on record that have noted nothing beyond the bound."""
        return [name for name in sorted(self.known.on_record) if not self.caught_up(name)]

    def caught_up(self, writer: str) -> bool:
        """Whether a writer's mark lies beyond the bound."""
        noted, lower = self.known.on_record.get(writer), self.known.lower
        return noted is not None and (lower is None or noted.time > lower)


def sentence_of(case: Case) -> str:
    """The explanation in one sentence, without a full stop."""
    return f"{_standing(case)}{_SAID[case.hold.cause](case)}{_release(case)}"


def _standing(case: Case) -> str:
    lower, since_ms = case.known.lower, case.hold.since_ms
    if lower is None:
        return "no lower bound yet: "
    if case.hold.cause is Cause.SLOWEST:
        return f"lower bound is {moment(lower)} since {moment(since_ms)}, "
    since = "" if since_ms is None else f" since {moment(since_ms)}"
    because = "" if case.hold.cause is Cause.LAGGING else "because "
    return f"lower bound held at {moment(lower)}{since} {because}"


def _no_mark(case: Case) -> str:
    if case.known.refused:
        told = listed([f"{name} ({outcome})" for name, outcome in sorted(case.known.refused.items())])
        return f"no noted time was accepted, those of {told} were refused"
    if not case.wrote:
        return "no writer has noted a time or written an event"
    return f"no writer has noted a time, though {listed(case.wrote)} {_have(case.wrote)} written"


def _first_cycle(case: Case) -> str:
    names = sorted(case.known.on_record)
    return f"{listed(names)} {_have(names)} noted a time, but no cycle has run"


def _lagging(case: Case) -> str:
    behind = "" if case.hold.by_ms is None else f", {span(case.hold.by_ms)} behind the others"
    if len(case.writers) == 1:
        return f"by writer {case.writers[0].writer}: {_writer(case, case.writers[0])}{behind}"
    told = [f"{writer.writer} ({_writer(case, writer)})" for writer in case.writers]
    return f"by writers {listed(told)}{behind}"


def _writer(case: Case, writer: HoldingWriter) -> str:
    if writer.time is None:
        return "removed meanwhile"
    parts = [writer.state] if writer.state else []
    parts.append(f"last mark {moment(writer.time)} noted at {moment(writer.noted_ms)}")
    parts += ["beyond the bound, not yet seen by a cycle"] if case.caught_up(writer.writer) else []
    parts += [f"a later note was refused ({writer.refused})"] if writer.refused else []
    return ", ".join(parts)


def _slowest(case: Case) -> str:
    names = listed([writer.writer for writer in case.writers])
    ahead = "" if case.hold.by_ms is None else f", {span(case.hold.by_ms)} behind what the others have noted since"
    return f"the time that {names} had noted{ahead}"


def _failed(case: Case) -> str:
    reason = "" if case.known.cycle is None else case.known.cycle["reason"]
    return f"the cycles end with: {reason or 'the watermark was not appended'}"


def _nobody_left(_: Case) -> str:
    return "no active writer is left"


_SAID = {
    Cause.NO_MARK: _no_mark,
    Cause.FIRST_CYCLE: _first_cycle,
    Cause.LAGGING: _lagging,
    Cause.SLOWEST: _slowest,
    Cause.FAILED: _failed,
    Cause.NOBODY_LEFT: _nobody_left,
}
"""How each cause is told, after the words for where the bound stands."""


def _release(case: Case) -> str:
    """What will release the bound, as the last part of the sentence; nothing if it cannot be told."""
    if not case.known.on_record:
        return "; it waits for a noted time"
    following = case.next_cycle_ms
    if following is None:
        return ""
    if case.hold.cause is Cause.LAGGING:
        return _release_of_lagging(case)
    if case.hold.cause is Cause.FIRST_CYCLE:
        return f"; the first cycle runs at {moment(following)}"
    if case.hold.cause is not Cause.SLOWEST:
        return f"; the next cycle tries again at {moment(following)}"
    if case.awaited:
        return f"; the next cycle, at {moment(following)}, needs a newer mark of {listed(case.awaited)}"
    raised = min(noted.time for noted in case.known.on_record.values())
    return f"; the next cycle, at {moment(following)}, raises it to {moment(raised)}"


def _release_of_lagging(case: Case) -> str:
    if case.release_ms is None:
        return ""
    if not case.behind:
        return f"; the next cycle sees it at {moment(case.release_ms)}"
    who = "it" if len(case.writers) == 1 else "the last of them"
    return f"; {who} times out at {moment(case.release_ms)}"


def _have(names: tuple[str, ...] | list[str]) -> str:
    return "has" if len(names) == 1 else "have"
