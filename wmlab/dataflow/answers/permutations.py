"""Every order: the distinct outputs of merging inputs, and the distinct results of a dataflow."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from html import escape
from itertools import islice
from typing import Any, Final, Literal

import pyarrow as pa

from wmlab.core.answers.answer import TableAnswer
from wmlab.core.errors import ModelError, ScenarioError
from wmlab.core.words import counted, grouped
from wmlab.dataflow.model import permute
from wmlab.dataflow.model.items import DONE, IDLE, Event, Idle, Item, Watermark, require_watermark
from wmlab.dataflow.model.permute import Outcome
from wmlab.dataflow.model.processor import Deviations, Mode
from wmlab.dataflow.model.processor import deviations as of_mode
from wmlab.dataflow.scenario.dataflow import OPTIONS, DataflowScenario
from wmlab.dataflow.sim.world import Choose
from wmlab.dataflow.simulate import simulate

MergeRule = Literal["hazelcast", "no flush"]
_MOST: Final = 20
_NOTHING: Final = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Permuted:
    """One distinct output: what left in its order (of a dataflow, the rows of its sinks, sorted), what it ends with,
    the number of orders that give it, and one of them: the inputs in the order of their items, or how to run it again.

    `failure` says why it ended early; None: it did not.
    """

    output: tuple[str, ...]
    final: str
    count: int
    example: tuple[str, ...]
    failure: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Permutations(TableAnswer[Permuted]):
    """The distinct outputs, the most frequent first. `of` names what was run, `tried` counts the orders behind them,
    `total` all there are (None: unknown); `exact` says that none is missing.
    """

    of: str
    outcomes: tuple[Permuted, ...]
    tried: int
    total: int | None
    exact: bool
    ends: str = "final value"

    left = (1, 2, 3)
    schema = pa.schema(
        [
            pa.field("count", pa.int64(), nullable=False),
            ("output", pa.list_(pa.string())),
            ("final", pa.string()),
            ("failure", pa.string()),
            ("example", pa.list_(pa.string())),
        ]
    )

    @property
    def finals(self) -> tuple[str, ...]:
        """The distinct ends of the outputs, the most frequent first."""
        found: Counter[str] = Counter()
        for one in self.outcomes:
            found[one.final] += one.count
        return tuple(final for final, _ in found.most_common())

    @property
    def sentence(self) -> str:
        """What the orders say in one sentence."""
        which = "all" if self.exact else "drawn" if self.total is None else f"drawn of {grouped(self.total)}"
        kinds = f"{counted(len(self.outcomes), 'distinct output')} and {counted(len(self.finals), self.ends)}"
        failed = sum(one.count for one in self.outcomes if one.failure is not None)
        fails = f"; {grouped(failed)} of them fail" if failed else ""
        depends = self._verdict()
        return f"{self.of}: {counted(self.tried, 'interleaving')} ({which}) give {kinds}{fails}. {depends}"

    def _verdict(self) -> str:
        if len(self.finals) > 1:
            return f"What comes out depends on the order: {' or '.join(self.finals[:4])}."
        so_far = "" if self.exact else " in what was drawn"
        if len(self.outcomes) > 1:
            return f"The steps differ, the end does not{so_far}: {self.finals[0]}."
        return f"The order does not matter{so_far}."

    def _entries(self) -> tuple[Permuted, ...]:
        return self.outcomes

    def to_dict(self) -> dict[str, Any]:
        """The outputs as dicts, lists and scalars."""
        return asdict(self) | {"sentence": self.sentence}

    def __repr__(self) -> str:
        rows = [("orders", "output", self.ends, "for example"), *self._rows()]
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        lines = [
            f"  {row[0]:>{widths[0]}}  {row[1]:{widths[1]}}  {row[2]:{widths[2]}}  {row[3]}".rstrip() for row in rows
        ]
        return "\n".join([self.sentence, *lines, *self._more()])

    @property
    def heads(self) -> tuple[str, ...]:  # type: ignore[override]
        """The heads of the table."""
        return ("orders", "output", self.ends, "for example")

    def _repr_html_(self) -> str:
        more = "".join(f"<p>{escape(line.strip())}</p>" for line in self._more())
        return TableAnswer._repr_html_(self) + more

    def shown(self, one: Permuted) -> str:
        """The output in one line; what all outputs have in common is left out of rows, which have no order."""
        failed = f"fails: {one.failure}" if one.failure is not None else ""
        if self.total is not None:
            told = ", ".join(one.output) or _NOTHING
            return f"{told}, then {failed}" if failed else told
        common = Counter(self.outcomes[0].output)
        for other in self.outcomes[1:]:
            common &= Counter(other.output)
        own = sorted((Counter(one.output) - common).elements())
        shared = f"{counted(common.total(), 'row')} that all have" if common else ""
        return "; ".join(part for part in (shared, *own[:3], _rest(len(own) - 3), failed) if part) or _NOTHING

    def _rows(self) -> list[tuple[str, str, str, str]]:
        return [
            (grouped(one.count), self.shown(one), one.final, " ".join(one.example)) for one in self.outcomes[:_MOST]
        ]

    def _more(self) -> list[str]:
        left = len(self.outcomes) - _MOST
        return [f"  {grouped(left)} more, less frequent"] if left > 0 else []


def _rest(count: int) -> str:
    return f"{grouped(count)} more" if count > 0 else ""


def permutations(
    inputs: Sequence[Sequence[Any]] | Mapping[str, Sequence[Any]],
    *,
    mode: Mode = "design",
    deviations: Deviations | Sequence[str] | None = None,
    rule: MergeRule = "hazelcast",
    limit: int = 100_000,
    samples: int = 2_000,
    seed: int = 0,
) -> Permutations:
    """Merge the watermarks of `inputs` in every order that keeps the order within each.

    `inputs` is a list of inputs, or a dict of them by name; an item is a number (a watermark of key 0), a pair (key,
    number), "idle", "event" or "done". Options: `mode` "design" or "hz", or `deviations`, a list of names; `rule`
    "hazelcast", or "no flush", under which nothing is let through when the last active input becomes idle, as in
    Flink before FLINK-7728 and in Hazelcast before pull request 22156. Up to `limit` states side by side all orders
    are counted, beyond that `samples` are drawn with `seed`. Returns `Permutations`; raises `ModelError`
    for any other item or name.
    """
    named = dict(inputs) if isinstance(inputs, Mapping) else {chr(97 + n): items for n, items in enumerate(inputs)}
    items = [[_item(offered) for offered in offers] for offers in named.values()]
    rules = _deviations(mode, deviations)
    merge: permute.Rule[Any] = (
        permute.unflushed(len(items)) if rule == "no flush" else permute.merging(len(items), rules)
    )
    found = permute.explore(merge, items, limit=limit)
    total = permute.orders(items)
    exact = found is not None
    if found is None:
        found = permute.sample(merge, items, samples=samples, draw=random.Random(seed).randrange)
    return Permutations(
        of=f"merging {len(items)} inputs ({_merge_words(mode, deviations, rule, rules)})",
        outcomes=tuple(permuted(outcome, tuple(named)) for outcome in found),
        tried=total if exact else samples,
        total=total,
        exact=exact,
    )


def _merge_words(mode: Mode, deviations: object, rule: MergeRule, rules: Deviations) -> str:
    if rule == "no flush":
        return "without letting the highest through when all are idle"
    return mode if deviations is None else str(rules)


def _deviations(mode: Mode, offered: Deviations | Sequence[str] | None) -> Deviations:
    if offered is None:
        return of_mode(mode)
    if isinstance(offered, Deviations):
        return offered
    for name in offered:
        if name not in OPTIONS:
            raise ModelError(f"{name!r} is no deviation.", remedy=f"name some of: {', '.join(OPTIONS)}.")
    return Deviations(**dict.fromkeys(offered, True))


def _item(offered: Any) -> Item:
    named: dict[str, Item] = {"idle": IDLE, "event": Event(()), "done": DONE}
    match offered:
        case str() if offered in named:
            return named[offered]
        case int() if not isinstance(offered, bool):
            return require_watermark(0, offered)
        case (int() as key, int() as value):
            return require_watermark(key, value)
    raise ModelError(
        f"{offered!r} is nothing that can come on an input.",
        remedy="give a number (a watermark of key 0), (key, number), 'idle', 'event' or 'done'.",
    )


def permuted(outcome: Outcome, names: Sequence[str]) -> Permuted:
    """An outcome of merging in words; `names` are those of the inputs."""
    final = ", ".join(_mark(key, value, len(outcome.final) > 1 or key != 0) for key, value in outcome.final)
    end = (final or "no watermark") + (", idle" if outcome.idle else "")
    keyed = any(isinstance(item, Watermark) and item.key != 0 for item in outcome.output)
    told = tuple("idle" if isinstance(item, Idle) else _mark(item.key, item.value, keyed) for item in outcome.output)
    return Permuted(
        output=told,
        final="fails" if outcome.failure is not None else end,
        count=outcome.count,
        example=tuple(names[place] for place in outcome.example),
        failure=outcome.failure,
    )


def _mark(key: int, value: int, keyed: bool) -> str:
    return f"{key}:{grouped(value)}" if keyed else grouped(value)


def results(dataflow: DataflowScenario, runs: int = 100, *, exhaustive: bool = False, seed: int = 0) -> Permutations:
    """The distinct results of a dataflow over many orders; see `DataflowScenario.permutations`."""
    if runs < 1:
        raise ScenarioError(f"{runs} runs show nothing.", remedy="give at least one.")
    found: dict[tuple[tuple[str, ...], str | None], list[Permuted]] = {}
    tried, exact = 0, exhaustive
    for one in islice(_runs(dataflow, exhaustive, seed), runs + 1):
        if tried == runs:
            exact = False
            break
        tried += 1
        found.setdefault((one.output, one.failure), []).append(one)
    outcomes = [replace(same[0], count=len(same)) for same in found.values()]
    outcomes.sort(key=lambda one: -one.count)
    finals = {one.output: f"result {number}" for number, one in enumerate(outcomes, start=1)}
    outcomes = [one if one.failure is not None else replace(one, final=finals[one.output]) for one in outcomes]
    how = "every order of turns" if exhaustive else f"seeds {seed} to {seed + tried - 1}"
    return Permutations(
        of=f"{dataflow.name} ({how})",
        outcomes=tuple(outcomes),
        tried=tried,
        total=None,
        exact=exact and exhaustive,
        ends="result",
    )


def _runs(dataflow: DataflowScenario, exhaustive: bool, seed: int) -> Iterator[Permuted]:
    if not exhaustive:
        number = seed
        while True:
            yield _result(simulate(dataflow.replace(seed=number)), (f"seed={number}",))
            number += 1
    still = dataflow.replace(jitter_ms=0.0)

    def run(choose: Choose) -> Permuted:
        names: list[str] = []

        def noted(due: Sequence[str]) -> int:
            place = choose(due)
            names.append(due[place])
            return place

        return _result(simulate(still, choose=noted), tuple(names))

    yield from (result for result, _ in permute.every_choice(run))


def _result(tables: Mapping[str, pa.Table], example: tuple[str, ...]) -> Permuted:
    """The rows of all sinks, sorted, and why the job failed."""
    rows = tables["sunk"].to_pylist()
    sinks = {row["vertex"] for row in rows}
    last = tables["executions"].to_pylist()[-1]
    return Permuted(
        output=tuple(sorted(_told(row, len(sinks)) for row in rows if row["committed"])),
        final="fails" if last["outcome"] == "failed" else "result",
        count=1,
        example=example,
        failure=last["reason"] if last["outcome"] == "failed" else None,
    )


def _told(row: Mapping[str, Any], sinks: int) -> str:
    return str(row["row"]) if sinks < 2 else f"{row['vertex']}: {row['row']}"
