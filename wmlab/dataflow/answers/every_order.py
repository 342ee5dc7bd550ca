"""Every order: the distinct outputs of merging inputs, and the distinct results of a dataflow."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Literal

import pyarrow as pa

from wmlab.core.errors import ModelError, ScenarioError
from wmlab.dataflow.answers.permutations import Permutations, Permuted, permuted
from wmlab.dataflow.model import permute
from wmlab.dataflow.model.deviations import Deviations, Mode
from wmlab.dataflow.model.deviations import deviations as of_mode
from wmlab.dataflow.model.items import DONE, IDLE, Event, Item, require_watermark
from wmlab.dataflow.scenario.dataflow import OPTIONS, DataflowScenario
from wmlab.dataflow.sim.world import Choose
from wmlab.dataflow.simulate import simulate

MergeRule = Literal["hazelcast", "no flush"]


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
