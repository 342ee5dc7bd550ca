"""Why a stream's lower bound stands where it does at a moment.

The cause is taken from what was known by then; only the release is a prediction, by the rules, for the case that
nothing else happens.

Source: PDP-33, Periodic Watermark Workflow; upstream class `PeriodicWatermarking`.
"""

from __future__ import annotations

from wmlab.answers.cause import Cause, Hold, hold_of
from wmlab.answers.explanation import Explanation, HoldingWriter
from wmlab.answers.known import Known, known_at, of_stream, the_stream
from wmlab.answers.rules import Rules
from wmlab.answers.words import listed, moment, span
from wmlab.recording import Recording


def explain_log(
    recording: Recording, *, at_ms: int, rules: Rules | None = None, stream: str | None = None
) -> Explanation:
    """What holds the lower bound of the stream's marks log at `at_ms` (clock, ms).

    Without `rules` (a recording of the outside world) nothing is predicted. Raises `RecordingError` for a stream that
    the recording does not have, or when it has several and none is named.
    """
    name = the_stream(recording, stream)
    known = known_at(recording, name, at_ms)
    hold = hold_of(known)
    writers = tuple(_writer(known, writer, rules, hold.cause) for writer in hold.writers)
    release_ms = _release_ms(known, hold, writers, rules)
    sentence = f"{_standing(known, hold)}{_SAID[hold.cause](recording, name, known, hold, writers)}"
    return Explanation(
        at_ms=at_ms,
        stream=name,
        lower=known.lower,
        cause=_named(known, hold),
        writers=writers,
        since_ms=hold.since_ms,
        by_ms=hold.by_ms,
        release_ms=release_ms,
        sentence=f"{sentence}{_release(known, hold, writers, release_ms, rules)}",
    )


def _writer(known: Known, name: str, rules: Rules | None, cause: Cause) -> HoldingWriter:
    noted = known.on_record.get(name)
    lagging = cause is Cause.LAGGING
    return HoldingWriter(
        writer=name,
        state=known.states.get(name, ""),
        time=noted.time if noted else None,
        noted_ms=noted.noted_ms if noted else None,
        behind_since_ms=known.behind_since.get(name),
        dropped_ms=rules.drops_at_ms(known, name) if rules and lagging else None,
        refused=noted.refused if noted else None,
    )


def _release_ms(known: Known, hold: Hold, writers: tuple[HoldingWriter, ...], rules: Rules | None) -> int | None:
    """The cycle that moves the bound if nothing else happens; None if none will, or if it cannot be told."""
    if rules is None:
        return None
    following = rules.next_cycle_ms(known)
    if hold.cause is Cause.LAGGING:
        behind = [w.dropped_ms for w in writers if not _caught_up(known, w.writer)]
        drops = [at for at in behind if at is not None]
        return max(drops, default=following) if len(drops) == len(behind) else None
    if hold.cause is Cause.SLOWEST:
        return following if not _awaited(known) else None
    return following if hold.cause is Cause.FIRST_CYCLE else None


def _caught_up(known: Known, writer: str) -> bool:
    """Whether a writer has noted a time beyond the bound since the last cycle looked."""
    noted = known.on_record.get(writer)
    return noted is not None and (known.lower is None or noted.time > known.lower)


def _awaited(known: Known) -> list[str]:
    """The writers on record that have noted nothing beyond the bound."""
    return [name for name in sorted(known.on_record) if not _caught_up(known, name)]


def _named(known: Known, hold: Hold) -> str:
    return str(known.cycle["reason"]) if hold.cause is Cause.FAILED and known.cycle is not None else hold.cause.value


def _standing(known: Known, hold: Hold) -> str:
    if known.lower is None:
        return "no lower bound yet: "
    if hold.cause is Cause.SLOWEST:
        return f"lower bound is {moment(known.lower)} since {moment(hold.since_ms)}, "
    since = "" if hold.since_ms is None else f" since {moment(hold.since_ms)}"
    return f"lower bound held at {moment(known.lower)}{since} "


def _by_nobody(recording: Recording, stream: str, known: Known, hold: Hold, writers: tuple[HoldingWriter, ...]) -> str:
    if known.refused:
        told = listed([f"{name} ({outcome})" for name, outcome in sorted(known.refused.items())])
        return f"no noted time was accepted, those of {told} were refused"
    wrote = of_stream(recording.table("events"), stream, "append_ms", known.at_ms)["writer"].unique().to_pylist()
    if not wrote:
        return "no writer has noted a time or written an event"
    return f"no writer has noted a time, though {listed(sorted(wrote))} {'has' if len(wrote) == 1 else 'have'} written"


def _by_delay(recording: Recording, stream: str, known: Known, hold: Hold, writers: tuple[HoldingWriter, ...]) -> str:
    names = sorted(known.on_record)
    return f"{listed(names)} {'has' if len(names) == 1 else 'have'} noted a time, but no cycle has run"


def _by_lagging(recording: Recording, stream: str, known: Known, hold: Hold, writers: tuple[HoldingWriter, ...]) -> str:
    behind = "" if hold.by_ms is None else f", {span(hold.by_ms)} behind the others"
    if len(writers) == 1:
        return f"by writer {writers[0].writer}: {_told(known, writers[0])}{behind}"
    return f"by writers {listed([f'{w.writer} ({_told(known, w)})' for w in writers])}{behind}"


def _told(known: Known, writer: HoldingWriter) -> str:
    if writer.time is None:
        return "removed meanwhile"
    parts = [writer.state] if writer.state else []
    parts.append(f"last mark {moment(writer.time)} noted at {moment(writer.noted_ms)}")
    parts += ["beyond the bound, not yet seen by a cycle"] if _caught_up(known, writer.writer) else []
    parts += [f"a later note was refused ({writer.refused})"] if writer.refused else []
    return ", ".join(parts)


def _by_slowest(recording: Recording, stream: str, known: Known, hold: Hold, writers: tuple[HoldingWriter, ...]) -> str:
    names = listed([writer.writer for writer in writers])
    ahead = "" if hold.by_ms is None else f", {span(hold.by_ms)} behind what the others have noted since"
    return f"the time that {names} had noted{ahead}"


def _by_failure(recording: Recording, stream: str, known: Known, hold: Hold, writers: tuple[HoldingWriter, ...]) -> str:
    reason = "" if known.cycle is None else known.cycle["reason"]
    said = reason or "the watermark was not appended"
    return f"because the cycles end with: {said}" if known.lower is not None else f"the cycles end with: {said}"


def _by_emptiness(recording: Recording, stream: str, known: Known, hold: Hold, writers: tuple[HoldingWriter, ...]) -> str:
    return "because no active writer is left" if known.lower is not None else "no active writer is left"


_SAID = {
    Cause.NO_MARK: _by_nobody,
    Cause.FIRST_CYCLE: _by_delay,
    Cause.LAGGING: _by_lagging,
    Cause.SLOWEST: _by_slowest,
    Cause.FAILED: _by_failure,
    Cause.NOBODY_LEFT: _by_emptiness,
}
"""How each cause is told, after the words for where the bound stands."""


def _release(
    known: Known, hold: Hold, writers: tuple[HoldingWriter, ...], release_ms: int | None, rules: Rules | None
) -> str:
    """What will release the bound, as the last part of the sentence."""
    if hold.cause in (Cause.NO_MARK, Cause.NOBODY_LEFT):
        return "; it waits for a noted time"
    if rules is None:
        return ""
    if hold.cause is Cause.LAGGING:
        return _release_of_lagging(known, writers, release_ms)
    following = rules.next_cycle_ms(known)
    if following is None:
        return "; it waits for a noted time"
    if hold.cause is Cause.FIRST_CYCLE:
        return f"; the first cycle runs at {moment(following)}"
    if hold.cause is Cause.FAILED:
        return f"; the next cycle tries again at {moment(following)}"
    if awaited := _awaited(known):
        return f"; the next cycle, at {moment(following)}, needs a newer mark of {listed(awaited)}"
    raised = min(noted.time for noted in known.on_record.values())
    return f"; the next cycle, at {moment(following)}, raises it to {moment(raised)}"


def _release_of_lagging(known: Known, writers: tuple[HoldingWriter, ...], release_ms: int | None) -> str:
    if release_ms is None:
        return ""
    behind = [writer for writer in writers if not _caught_up(known, writer.writer)]
    if not behind:
        return f"; the next cycle sees it at {moment(release_ms)}"
    if len(writers) == 1:
        return f"; it times out at {moment(release_ms)}"
    return f"; the last of them times out at {moment(release_ms)}"
