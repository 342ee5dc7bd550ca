"""The effect of each sentence of a document: a scenario under one set of rules, and again with one other option.

Two sets of rules differ in some options. Each of them is changed alone, so that a difference between two runs has one
cause. The same scenario and seed give the same run, so an option that does nothing changes no row.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any, ClassVar, Final, cast

import pyarrow as pa
import pyarrow.compute as pc

from wmlab.core.answers import TableAnswer, text_table
from wmlab.core.errors import ScenarioError
from wmlab.core.overlap import TimesApartWarning
from wmlab.core.recording import Recording
from wmlab.core.run_measures import BoundSteps, RunMeasures
from wmlab.core.words import counted, listed, rounded

_ALL: Final = "all of them"
_UNKNOWN: Final = "–"


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionEffect:
    """One option set as in the other rules, and its effect on the run.

    `part` is the class that the `option` is about, `before` and `after` are its values; `sentence` is what the document
    says. `parts_ms` is the
    first moment (clock, ms) at which anything recorded differs, None if nothing does; `bound_ms` the first at which the
    bound by which a run is judged does. `lag_change_ms` is the change of the mean lag of that bound, and
    `width_change_ms` the change of the mean distance of upper and lower bound; None if one of the runs has none.
    `breaks` and `mends` are the invariants that are violated only with it and only without it. `late_change` is by how
    many more came late, as `measures().late` counts them; None if unknown. `refused` says why such a scenario cannot be
    run: then the other fields are None.
    """

    option: str
    part: str
    before: str
    after: str
    sentence: str
    parts_ms: int | None = None
    bound_ms: int | None = None
    lag_change_ms: float | None = None
    width_change_ms: float | None = None
    breaks: tuple[str, ...] = ()
    mends: tuple[str, ...] = ()
    late_change: int | None = None
    refused: str | None = None

    @property
    def weight(self) -> tuple[int, int, float, float, bool]:
        """How much the option matters: invariants first, then late ones, lag and width (ms), then whether anything
        differs.
        """
        return (
            len(self.breaks) + len(self.mends),
            abs(self.late_change or 0),
            abs(self.lag_change_ms or 0),
            abs(self.width_change_ms or 0),
            self.parts_ms is not None,
        )

    @property
    def effect(self) -> str:
        """What the option does, as a phrase that follows its name."""
        if self.refused is not None:
            return "cannot be changed alone"
        if self.parts_ms is None:
            return "changes nothing"
        parts = [f"lets the runs part at {rounded(self.parts_ms)}"]
        parts += [f"breaks {listed(self.breaks)}"] if self.breaks else []
        parts += [f"mends {listed(self.mends)}"] if self.mends else []
        parts += [f"changes what is late by {self.late_change:+}"] if self.late_change else []
        changes = {"mean lag": self.lag_change_ms, "width": self.width_change_ms}
        parts += [f"changes the {name} by {_signed(value)}" for name, value in changes.items() if value]
        return listed(parts)

    @property
    def broken_names(self) -> str:
        """The invariants that the option breaks, and those that it repairs, each with a minus."""
        return ", ".join([*self.breaks, *(f"−{name}" for name in self.mends)])


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Ablation(TableAnswer[OptionEffect]):
    """A scenario under the rules `from_rules`, and with each option of `to_rules` changed alone.

    `together` is the effect of all of them at once, the run under `to_rules`. `unaffected` are the options that the
    scenario sets itself, or that belong to parts that it does not have: the rules do not change them.
    """

    name: str
    from_rules: str
    to_rules: str
    options: tuple[OptionEffect, ...]
    together: OptionEffect
    unaffected: tuple[str, ...] = ()

    entries: ClassVar[str] = "options"
    heads: ClassVar[tuple[str, ...]] = (
        "option",
        "part",
        "sentence",
        "runs part at",
        "bound moves from",
        "mean lag",
        "width",
        "late",
        "breaks",
    )
    left: ClassVar[tuple[int, ...]] = (0, 1, 2, 8)
    columns: ClassVar[Mapping[str, str]] = {
        "part": "the part of a scenario that the option is about",
        "runs part at": "the first moment at which anything recorded differs",
        "bound moves from": "the first moment at which the bound by which a run is judged differs",
        "mean lag": "by how much the mean lag of that bound grows",
        "width": "by how much the mean distance of upper and lower bound grows",
        "late": "how many more events, rows or buffers came late",
        "breaks": "the invariants that are violated only with the option; with a minus, only without it",
    }
    schema: ClassVar[pa.Schema] = pa.schema(
        [(name, pa.string()) for name in ("option", "part", "before", "after", "sentence")]
        + [(name, pa.int64()) for name in ("parts_ms", "bound_ms")]
        + [(name, pa.float64()) for name in ("lag_change_ms", "width_change_ms")]
        + [("late_change", pa.int64()), ("broken_names", pa.string()), ("refused", pa.string())]
    )

    @property
    def sentence(self) -> str:
        """How many of the options change the run, and which of them matters most."""
        apart = [effect for effect in self.options if effect.parts_ms is not None]
        text = (
            f"Of {counted(len(self.options), 'option')} in which the rules {self.from_rules!r} and {self.to_rules!r} "
            f"differ for {self.name!r}, {len(apart) or 'none'} {'changes' if len(apart) == 1 else 'change'} the run"
        )
        if not apart:
            return f"{text}."
        most = max(apart, key=lambda effect: effect.weight)
        return f"{text}. The option {most.option} matters most: {most.after} instead of {most.before} {most.effect}."

    def to_dict(self) -> dict[str, Any]:
        """The sentence, and each effect as a dict."""
        rows = [{name: getattr(effect, name) for name in self.schema.names} for effect in (*self, self.together)]
        return {"sentence": self.sentence, "options": rows[:-1], "together": rows[-1]}

    def __repr__(self) -> str:
        heads = (*self.heads[:2], *self.heads[3:])
        rows = [(*row[:2], *row[3:]) for row in map(_cells, (*self, self.together))]
        texts = [f"{effect.option}: {effect.sentence}" for effect in self if effect.parts_ms is not None]
        return "\n".join([self.sentence, *text_table([heads, *rows], right=range(2, 7)), *texts])

    def _rows(self) -> Iterable[tuple[str, ...]]:
        return map(_cells, (*self, self.together))


def ablate(
    scenario: Any, from_rules: str = "sound", to_rules: str = "design", *, stream: str | None = None
) -> Ablation:
    """The effect of each option in which two sets of rules differ: one run per option, with only that option changed.

    The base is the scenario under `from_rules`, with the options that it sets itself; each row sets one of the others
    as in `to_rules`. `stream` chooses one of several streams or queries. Raises `ScenarioError` for rules
    that the scenario does not have, `RecordingError` for a stream that is not there.
    """
    for rules in (from_rules, to_rules):
        scenario.rule_set(rules)  # refuses what is no set
    base = scenario.with_rules(from_rules)
    reached = _Reached.of(base, stream)
    options, unaffected = list[OptionEffect](), list[str]()
    for name, said, make in base.option_changes(to_rules):
        if make is None:
            unaffected.append(name)
            continue
        effect = OptionEffect(
            option=name,
            part=", ".join(said.parts),
            before=repr(said.values[from_rules]),
            after=repr(said.values[to_rules]),
            sentence=f"“{said.sentence}” ({said.source})",
        )
        options.append(_with_effect(effect, reached, make, stream))
    both = OptionEffect(option=_ALL, part="", before=repr(from_rules), after=repr(to_rules), sentence="")
    return Ablation(
        name=scenario.name,
        from_rules=from_rules,
        to_rules=to_rules,
        options=tuple(options),
        together=_with_effect(both, reached, lambda: scenario.with_rules(to_rules), stream),
        unaffected=tuple(unaffected),
    )


def record_quietly(scenario: Any) -> Any:
    """The recording of a scenario without a bar of progress and without warnings of inputs that have no common time."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TimesApartWarning)
        bar = {"progress": False} if "progress" in signature(scenario.record).parameters else {}
        return scenario.record(**bar)


@dataclass(frozen=True, slots=True)
class _Reached:
    """A run, its measures, and the invariants that it violates."""

    recording: Any
    measures: RunMeasures
    violated: tuple[str, ...]

    @classmethod
    def of(cls, scenario: Any, stream: str | None) -> _Reached:
        recording = record_quietly(scenario)
        return cls(recording, recording.measures(stream), recording.check().violated)


def _with_effect(effect: OptionEffect, base: _Reached, make: Callable[[], Any], stream: str | None) -> OptionEffect:
    """The effect of a scenario that `make` makes, or why it cannot be made."""
    try:
        changed = make()
    except ScenarioError as refusal:
        return replace(effect, refused=refusal.problem)
    other = _Reached.of(changed, stream)
    before, after = base.measures, other.measures
    return replace(
        effect,
        parts_ms=first_difference_ms(base.recording, other.recording),
        bound_ms=_first_step_apart_ms(before.steps, after.steps),
        lag_change_ms=_change(before.lag_ms, after.lag_ms),
        width_change_ms=_change(before.width_ms, after.width_ms),
        breaks=tuple(name for name in other.violated if name not in base.violated),
        mends=tuple(name for name in base.violated if name not in other.violated),
        late_change=None
        if before.late is None or after.late is None
        else after.late.count("late") - before.late.count("late"),
    )


def first_difference_ms(one: Recording, other: Recording) -> int | None:
    """The first moment (clock, ms) of a row that only one of two recordings of a kind has; None: they are equal.

    The moment of a row is that of its first column in ms, when what it is about began. A table without one says how a
    run is built, not what happened. Rows that a run has left out, because they follow from others, count as well.
    """
    moments = (_first_row_ms(one, other, name) for name in one.schemas)
    return min((at_ms for at_ms in moments if at_ms is not None), default=None)


def _first_row_ms(one: Recording, other: Recording, name: str) -> int | None:
    """The first moment of a row of the table `name` that occurs more often in one of the recordings."""
    moment = next((column for column in one.schemas[name].names if column.endswith("_ms")), None)
    tables = one.complete(name), other.complete(name)
    if moment is None or tables[0].equals(tables[1]):
        return None
    sides = [
        table.append_column("side", pa.repeat(side, table.num_rows))
        for table, side in zip(tables, (1, -1), strict=True)
    ]
    both = pa.concat_tables(sides)
    # Arrow groups by no nested values.
    for index, column in enumerate(both.schema):
        if pa.types.is_nested(column.type):
            texts = pa.array(map(repr, both.column(index).to_pylist()), pa.string())
            both = both.set_column(index, column.name, texts)
    counted_rows = both.group_by(one.schemas[name].names).aggregate([("side", "sum")])
    return cast("int | None", pc.min(counted_rows.filter(pc.not_equal(counted_rows["side_sum"], 0))[moment]).as_py())


def _first_step_apart_ms(one: BoundSteps, other: BoundSteps) -> int | None:
    """The first moment at which two bounds differ; both are unknown before their first step."""
    values: dict[int, list[int | None]] = {}
    current: list[int | None] = [None, None]
    steps = [(at, run, value) for run, row in enumerate((one, other)) for at, value in row]
    for at, run, value in sorted(steps, key=lambda step: step[0]):
        current[run] = value
        values[at] = current.copy()
    return next((at for at, (left, right) in values.items() if left != right), None)


def _change(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else round(after - before, 1)


def _signed(change_ms: float) -> str:
    return f"{'+' if change_ms > 0 else ''}{rounded(round(change_ms))}"


def _cells(effect: OptionEffect) -> tuple[str, ...]:
    """A row of the table; "nowhere" where the runs do not part."""
    if effect.refused is not None:
        return effect.option, effect.part, effect.sentence, "refused", *(_UNKNOWN,) * 5
    moments = ("nowhere" if at is None else rounded(at) for at in (effect.parts_ms, effect.bound_ms))
    changes = (
        _UNKNOWN if change is None else _signed(change) for change in (effect.lag_change_ms, effect.width_change_ms)
    )
    late = _UNKNOWN if effect.late_change is None else f"{effect.late_change:+}" if effect.late_change else "0"
    return effect.option, effect.part, effect.sentence, *moments, *changes, late, effect.broken_names or _UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightiestOption:
    """An option, the tried scenario in which it matters most, and its effect there."""

    effect: OptionEffect
    scenario: Any

    @property
    def sentence(self) -> str:
        """What the option does in that scenario."""
        return f"{self.effect.option}: {self.effect.after} instead of {self.effect.before} {self.effect.effect}."

    def __repr__(self) -> str:
        return self.sentence


def weightiest(ablations: Iterable[tuple[Any, Ablation]]) -> tuple[WeightiestOption, ...]:
    """For each option the scenario in which it matters most, the weightiest option first."""
    most: dict[str, WeightiestOption] = {}
    for scenario, ablation in ablations:
        for effect in ablation:
            known = most.get(effect.option)
            if known is None or effect.weight > known.effect.weight:
                most[effect.option] = WeightiestOption(effect=effect, scenario=scenario)
    return tuple(sorted(most.values(), key=lambda option: option.effect.weight, reverse=True))
