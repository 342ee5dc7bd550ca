"""Every order: the distinct outputs of merging inputs, and the distinct results of a dataflow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import reduce
from html import escape
from operator import and_
from typing import Any, Final

import pyarrow as pa

from wmlab.core.answers import TableAnswer, text_table
from wmlab.core.errors import ModelError, ScenarioError
from wmlab.core.words import counted, grouped
from wmlab.dataflow.model import permute
from wmlab.dataflow.model.coalescer import KeyedCoalescer
from wmlab.dataflow.model.items import DONE, IDLE_MESSAGE, Idle, Item, watermark_instance
from wmlab.dataflow.model.permute import OrderOutcome
from wmlab.dataflow.rules import Rules
from wmlab.dataflow.scenario.dataflow import DataflowScenario
from wmlab.dataflow.simulate import readings_of, simulate

_ROWS_SHOWN: Final = 20
_NOTHING: Final = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Permuted:
    """One distinct output: what left in its order (of a dataflow, the rows of its sinks, sorted), what it ends with,
    the number of orders that give it, and one of them: the inputs in the order of their items, or the seed of a run.

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
    `total` all there are (None: unknown, since seeds were tried); `exact` says that none is missing.
    """

    of: str
    outcomes: tuple[Permuted, ...]
    tried: int
    total: int | None
    ends: str = "final value"

    entries = "outcomes"
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
    def exact(self) -> bool:
        """Whether every order was followed, so that no output is missing."""
        return self.total is not None

    @property
    def finals(self) -> tuple[str, ...]:
        """The distinct ends of the outputs, the most frequent first."""
        counts: Counter[str] = Counter()
        for outcome in self.outcomes:
            counts[outcome.final] += outcome.count
        return tuple(final for final, _ in counts.most_common())

    @property
    def sentence(self) -> str:
        """What the orders show, in one sentence."""
        which = "all" if self.exact else "drawn"
        kinds = f"{counted(len(self.outcomes), 'distinct output')} and {counted(len(self.finals), self.ends)}"
        failed = sum(outcome.count for outcome in self.outcomes if outcome.failure is not None)
        fails = f"; {grouped(failed)} of them fail" if failed else ""
        so_far = "" if self.exact else " in what was drawn"
        if len(self.finals) > 1:
            depends = f"What comes out depends on the order: {' or '.join(self.finals[:4])}."
        elif len(self.outcomes) > 1:
            depends = f"The steps differ, the end does not{so_far}: {self.finals[0]}."
        else:
            depends = f"The order does not matter{so_far}."
        return f"{self.of}: {counted(self.tried, 'interleaving')} ({which}) give {kinds}{fails}. {depends}"

    def to_dict(self) -> dict[str, Any]:
        """The outputs as dicts, lists and scalars."""
        return asdict(self) | {"sentence": self.sentence}

    def output_line(self, outcome: Permuted) -> str:
        """The output in one line; what all outputs have in common is left out of rows, which have no order."""
        failed = f"fails: {outcome.failure}" if outcome.failure is not None else ""
        if self.total is not None:
            text = ", ".join(outcome.output) or _NOTHING
            return f"{text}, then {failed}" if failed else text
        common = reduce(and_, (Counter(other.output) for other in self.outcomes))
        own = sorted((Counter(outcome.output) - common).elements())
        shared = f"{counted(common.total(), 'row')} that all have" if common else ""
        more = f"{grouped(len(own) - 3)} more" if len(own) > 3 else ""
        return "; ".join(part for part in (shared, *own[:3], more, failed) if part) or _NOTHING

    def __repr__(self) -> str:
        lines = text_table([self._heads(), *self._rows()], right=(0,))
        return "\n".join([self.sentence, *(f"  {line}" for line in [*lines, *self._more()])])

    def _repr_html_(self) -> str:
        return TableAnswer._repr_html_(self) + "".join(f"<p>{escape(line)}</p>" for line in self._more())

    def _heads(self) -> tuple[str, ...]:
        return ("orders", "output", self.ends, "for example")

    def _rows(self) -> list[tuple[str, ...]]:
        return [
            (grouped(entry.count), self.output_line(entry), entry.final, " ".join(entry.example))
            for entry in self.outcomes[:_ROWS_SHOWN]
        ]

    def _more(self) -> list[str]:
        left = len(self.outcomes) - _ROWS_SHOWN
        return [f"{grouped(left)} more, less frequent"] if left > 0 else []


def permutations(
    inputs: Sequence[Sequence[Any]] | Mapping[str, Sequence[Any]],
    *,
    rules: Rules | str = "sound",
    limit: int = 100_000,
) -> Permutations:
    """Merge the watermarks of `inputs` in every order that keeps the order within each.

    `inputs` is a list of inputs, or a dict of them by name; an item is a number (a watermark of key 0), a pair (key,
    number), "idle", "event" or "done". `rules` is a set of rules, or `Rules` with other options. With
    `highest_held_back` nothing is emitted when no input is active, as by `design` and in Flink before FLINK-7728.
    Orders that reach the same state are followed together, up to `limit` states at once. Returns `Permutations`; raises
    `ModelError` for any other item, and for more states, `ScenarioError` for rules that are none.
    """
    named = dict(inputs) if isinstance(inputs, Mapping) else {chr(97 + n): items for n, items in enumerate(inputs)}
    items = [[_item(offered) for offered in offers] for offers in named.values()]
    rules = rules if isinstance(rules, Rules) else Rules(rules)  # type: ignore[arg-type]
    coalescer = KeyedCoalescer(len(items), rules.deviations)
    total = permute.orders(items)
    outcomes = permute.explore(coalescer, items, limit=limit)
    if outcomes is None:
        raise ModelError(
            f"{counted(total, 'order')} of {counted(sum(map(len, items)), 'item')} lead to more than {grouped(limit)} "
            "states at once.",
            remedy="give shorter inputs, or a higher limit.",
        )
    return Permutations(
        of=f"Merging {counted(len(items), 'input')} ({rules})",
        outcomes=tuple(_permuted(outcome, tuple(named)) for outcome in outcomes),
        tried=total,
        total=total,
    )


def _item(offered: Any) -> Item:
    named: dict[str, Item] = {"idle": IDLE_MESSAGE, "event": (), "done": DONE}
    match offered:
        case str() if offered in named:
            return named[offered]
        case int() if not isinstance(offered, bool):
            return watermark_instance(0, offered)
        case (int() as key, int() as value):
            return watermark_instance(key, value)
    raise ModelError(
        f"{offered!r} is nothing that can come on an input.",
        remedy="give a number (a watermark of key 0; 2^63 - 1 is idle), (key, number), 'idle', 'event' or 'done'.",
    )


def _permuted(outcome: OrderOutcome, names: Sequence[str]) -> Permuted:
    """An outcome of merging in words; `names` are those of the inputs."""
    keyed = any(key != 0 for key, _ in outcome.final)

    def mark(key: int, value: int) -> str:
        return f"{key}:{grouped(value)}" if keyed else grouped(value)

    final = ", ".join(mark(key, value) for key, value in outcome.final)
    end = (final or "no watermark") + (", idle" if outcome.idle else "")
    return Permuted(
        output=tuple("idle" if isinstance(item, Idle) else mark(item.key, item.value) for item in outcome.output),
        final="fails" if outcome.failure is not None else end,
        count=outcome.count,
        example=tuple(names[number] for number in outcome.example),
        failure=outcome.failure,
    )


def results(dataflow: DataflowScenario, runs: int = 100, *, seed: int = 0) -> Permutations:
    """The distinct results of a dataflow over so many seeds, from `seed` on; see `DataflowScenario.permutations`."""
    if runs < 1:
        raise ScenarioError(f"{runs} runs show nothing.", remedy="give at least one.")
    seeded = {number: dataflow.replace(seed=number) for number in range(seed, seed + runs)}
    ran = [_result(simulate(each, readings_of(each)), (f"seed={number}",)) for number, each in seeded.items()]
    first = {(result.output, result.failure): result for result in reversed(ran)}
    counts = Counter((result.output, result.failure) for result in ran).most_common()
    finals = {output: f"result {number}" for number, ((output, _), _) in enumerate(counts, start=1)}
    return Permutations(
        of=f"{dataflow.name} (seeds {seed} to {seed + runs - 1})",
        outcomes=tuple(
            replace(first[output, failure], count=count, final="fails" if failure is not None else finals[output])
            for (output, failure), count in counts
        ),
        tried=runs,
        total=None,
        ends="result",
    )


def _result(tables: Mapping[str, pa.Table], example: tuple[str, ...]) -> Permuted:
    """The rows of all sinks, sorted, and why the job failed."""
    rows = tables["sunk"].to_pylist()
    several = len({row["vertex"] for row in rows}) > 1
    last = tables["executions"].to_pylist()[-1]
    failed = last["outcome"] == "failed"
    named = (f"{row['vertex']}: {row['row']}" if several else str(row["row"]) for row in rows if row["committed"])
    return Permuted(
        output=tuple(sorted(named)),
        final="fails" if failed else "result",
        count=1,
        example=example,
        failure=last["reason"] if failed else None,
    )
