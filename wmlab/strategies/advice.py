"""Which watermark suits a log: chosen on its first half, judged on its second, with the assumptions.

Each kind of watermark gets its parameters from the first half: the least bound that keeps the target there, and the
idle timeout with the least lag. All run over the whole log. Of those that keep the target on the second half, the
simplest is taken whose median lag is at most 5% above the least. What is advised is that watermark, with the parameters
that were judged, so `compare` says the same of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

from wmlab.core.facts import FactAnswer, Facts, Value
from wmlab.core.traces import Trace
from wmlab.core.words import rounded, wrapped
from wmlab.strategies.candidates import Candidates
from wmlab.strategies.comparison import Outcome, missed_text, outcome, short_name
from wmlab.strategies.doubts import AdviceCase, findings_of_advice
from wmlab.strategies.findings import Finding, findings_html, findings_of
from wmlab.strategies.judging import chosen, judge
from wmlab.strategies.model.strategy import ShareBetween, Strategy, require_argument
from wmlab.strategies.recipes import ConstantBound, EventTimeColumn, Setting, settings
from wmlab.strategies.replay import as_trace, path_of_records
from wmlab.strategies.vocabulary import ADVICE_EXPECTED, ADVICE_HEADLINES, ADVICE_LABELS
from wmlab.strategies.windows import LogWindows, Windows, windows_of


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Advice(FactAnswer):
    """The recommended strategy, and what to expect from it; times in ms, shares from 0 to 1.

    `strategy` has the parameters that were chosen on the first half of the log. `missed_share` is compared with
    `target`: the share of records that `windows` lose, or of late records if no windows are known. `missed_share`,
    `lag_ms` (the median) and their `_range` (95%, around the value) were measured on the second half: the rows from
    number `unseen_from` on, in order of arrival from 1. So was `unseen`, the outcome of `compare` on these rows.
    `whole` is the outcome of `compare` over the whole log. That it goes on like this is assumed.

    `settings` is how engines write the strategy, with the log's own name of the event time; if an engine cannot have
    it, the constant bound that was judged with it, `judged[0]`, or if that misses the target, `kept_by_ms`. Each line
    says what it misses, and its lag, on the unseen half. `bound_ms` is the constant bound that the complete log
    needs, as in `lateness_curve`; for sessions it may be longer than necessary.

    `findings` say what is wrong with the log, and what its numbers are worth. Those in `doubts` stand against the
    advice, which is a guess then; it is supported if there is none. `judged` has the outcomes of all candidates on the
    second half, the constant bound first.
    """

    name: str
    """The name of the log."""
    target: float
    strategy: Strategy[Any]
    windows: Windows | None
    unseen: Outcome
    missed_range: tuple[float, float]
    """The smallest and largest share missed on the unseen half, at 95%."""
    lag_ms: int
    lag_range: tuple[int, int]
    """The smallest and largest median lag on the unseen half at 95%, in ms."""
    unseen_from: int
    whole: Outcome
    bound_ms: int
    kept_by_ms: int
    """The least constant bound that keeps the target on the unseen half, in ms; one that moves or not."""
    settings: Mapping[str, Setting]
    findings: tuple[Finding, ...]
    judged: tuple[Outcome, ...]

    @property
    def missed_share(self) -> float:
        """The share of records of the unseen half that are lost, or late if no windows are known."""
        return self.unseen.missed_share

    @property
    def doubts(self) -> tuple[Finding, ...]:
        """The findings that are doubts about the advice."""
        return tuple(finding for finding in self.findings if finding.doubt)

    @property
    def supported(self) -> bool:
        """Whether the log supports the advice."""
        return not self.doubts

    @property
    def facts(self) -> Facts:  # type: ignore[override]
        """What the advised strategy did on the unseen half, and what stands against it."""
        facts: dict[str, Value] = {
            "log": self.name,
            "windows": None if self.windows is None else str(self.windows),
            "strategy": short_name(self.strategy),
            "target": self.target,
            "doubts": tuple(dict.fromkeys(doubt.kind.value for doubt in self.doubts)),
            "missed": self.missed_share,
            "late": None if self.windows is None else self.unseen.late_share,
            "lag": self.unseen.lag_p50_ms,
        }
        return Facts(ADVICE_LABELS, facts)

    @property
    def templates(self) -> tuple[str, ...]:  # type: ignore[override]
        """Whether to take the strategy, and what it did on the unseen half."""
        return self.facts.chosen(ADVICE_HEADLINES, ADVICE_EXPECTED)

    def to_dict(self) -> dict[str, Any]:
        """The advice as dicts, lists and scalars."""
        return FactAnswer.to_dict(self) | {
            "strategy": repr(self.strategy),
            "supported": self.supported,
            "missed_share": self.missed_share,
            "windows": None if self.windows is None else asdict(self.windows),
            "unseen": _numbers(self.unseen),
            "settings": {engine: str(setting) for engine, setting in self.settings.items()},
            "whole": _numbers(self.whole),
            "findings": [finding.to_dict() for finding in self.findings],
            "judged": [_numbers(outcome) for outcome in self.judged],
        }

    def __repr__(self) -> str:
        lines = [wrapped(self.sentence), *(f"- {finding}" for finding in self.findings)]
        return "\n".join([*lines, *(f"  {engine}{self._guess}: {line}" for engine, line in self.settings.items())])

    @property
    def _guess(self) -> str:
        """What stands behind the name of an engine where the line is a guess."""
        return "" if self.supported else " (a guess)"

    def _repr_html_(self) -> str:
        lines = "".join(self._engine(engine, setting) for engine, setting in self.settings.items())
        return f"{FactAnswer._repr_html_(self)}{findings_html(self.findings)}{lines}"

    def _engine(self, engine: str, setting: Setting) -> str:
        """The code of an engine as a block, with what is to be said of it above."""
        code, note = setting.code, setting.remark
        if not setting.possible:
            note = f"cannot have it: {note}"
            if (instead := setting.instead) is not None:
                code, note = instead.code, f"{note}; a constant bound instead, {instead.remark}"
        block = f"<pre><code>{escape(code)}</code></pre>" if code else ""
        return f"<p><b>{escape(engine)}{self._guess}</b>{': ' if note else ''}{escape(note)}</p>{block}"


def advise(
    trace: Trace | Any,
    late_share: float = 0.001,
    *,
    window_ms: int | str | None = None,
    slide_ms: int | str | None = None,
    gap_ms: int | str | None = None,
    allowed_lateness_ms: int | str = 0,
) -> Advice:
    """Recommend the strategy that keeps the late share of a log at or below `late_share` with the smallest lag.

    With windows, as in `compare`, the target is about the share of lost records: far fewer, because a window accepts a
    late record until its end. The log is a trace, or a data frame with the columns of one.

    Candidates are a constant bound; the minimum over writers, with and without an idle timeout; conformal inference and
    percentiles, which find their bound themselves; and, if records are ahead of their arrival, a guard around the first
    two. They run over the whole log, as in `compare`. The first half gives the parameters, the second half the numbers.
    Of those that keep the target there, the simplest one with about the smallest median lag is taken; one that stands
    still there is none: X does not rise on the second half, or its median lag beyond the median delay of the records is
    a third of the length of that half. If the log is too short or has wrong clocks, or if the target is missed,
    `findings` say so, and the advice is a guess. Raises `ModelError` for a target that is not between 0 and 1,
    or a window below 1 ms.
    """
    require_argument("late_share", late_share, ShareBetween)
    windows = windows_of(window_ms, slide_ms, gap_ms, allowed_lateness_ms)
    trace = as_trace(trace)
    of_log = findings_of(trace, late_share, windows)
    candidates = Candidates(trace, late_share, guard=of_log.any_ahead, windows=windows)
    log, middle = candidates.log, candidates.middle
    of_half = None if windows is None else LogWindows.of(log.of_rows(slice(middle, None)), windows)
    judged = [judge(each, log, middle, of_half) for each in candidates.all()]
    best, constant = chosen(judged, late_share), judged[0]
    kept_by_ms = constant.candidate.bound_of(slice(middle, None), late_share)
    # Where the constant bound of the first half misses the target, engines are given the one that keeps it.
    kept = judge(constant.candidate.with_bound(kept_by_ms), log, middle, of_half)
    instead = kept if not constant.keeps(late_share) and kept.moves else constant
    case = AdviceCase(
        trace=trace,
        target=late_share,
        windows=windows,
        clocks=of_log.writers,
        best=best,
        constant=constant,
        bound_ms=of_log.bound_ms,
        kept_by_ms=kept_by_ms,
    )
    in_log = None if windows is None else LogWindows.of(log, windows)
    return Advice(
        name=trace.name,
        target=late_share,
        strategy=best.strategy,
        windows=windows,
        unseen=best.unseen,
        missed_range=best.missed_range,
        lag_ms=best.lag_ms,
        lag_range=best.lag_range,
        unseen_from=middle + 1,
        whole=outcome(best.strategy, log, path_of_records(log, best.candidate.met, best.candidate.x), in_log),
        bound_ms=of_log.bound_ms,
        kept_by_ms=kept_by_ms,
        settings=settings(
            best.strategy,
            ConstantBound(instead.candidate.bound_ms, _expected_of(instead.unseen)),
            expected=_expected_of(best.unseen),
            event_time=EventTimeColumn(
                trace.event_time_column, trace.event_time_form, trace.event_time_origin_ms, trace.event_time_zone
            ),
        ),
        findings=(*of_log.findings, *findings_of_advice(case)),
        judged=tuple(each.unseen for each in judged),
    )


def _numbers(of: Outcome) -> dict[str, Any]:
    shares = {"late_share": of.late_share, "lost_share": of.lost_share}
    return {"name": of.name, "rows": of.rows, **shares, "lag_ms": of.lag_p50_ms}


def _expected_of(unseen: Outcome) -> str:
    """What is expected of a line of an engine."""
    lag = "no watermark" if unseen.lag_p50_ms is None else rounded(unseen.lag_p50_ms)
    return f"with {missed_text(unseen)} for a median lag of {lag} on the unseen half"
