"""The same inputs in every order: what merging them gives, each distinct output with the number of its orders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Offers = Sequence[Sequence[Any]] | Mapping[str, Sequence[Any]]


def permutations(inputs: Offers, **options: Any) -> Any:
    """Merge the watermarks of `inputs` in every order that keeps the order within each.

    `inputs` is a list of inputs, or a dict of them by name; an item is a number (a watermark of key 0), a pair (key,
    number), "idle", "event" or "done". Options: `mode` "design" or "hz", or `deviations`, a list of names; `rule`
    "hazelcast", or "no flush", under which nothing is let through when the last active input becomes idle, as in
    Flink before FLINK-7728 and in Hazelcast before pull request 22156. Up to `limit` states side by side all orders
    are counted, beyond that `samples` are drawn with `seed`. Returns `wmlab.answers.Permutations`; raises `ModelError`
    for any other item or name.
    """
    from wmlab import lab

    return lab.merge_permutations(inputs, **options)
