"""Chunks, sequences and origins: everything that moves a watermark."""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from tests.conformance.fields import Fields, UnknownFormatError, expect, expect_if, known, lookup, matched, steps_of
from wmlab.core.errors import ModelError
from wmlab.progress.model.chunks import Chunks, Completed, CompletenessRule, ProtocolViolation, ViolationKind
from wmlab.progress.model.numbers import INITIAL, TupleBuffer
from wmlab.progress.model.tracker import OriginProgress, ProgressRules, ProgressTracker

RULES: dict[str, CompletenessRule] = {
    "seed_literal_seen_eq_last": "literal",
    "count_seen_eq_last_minus_base_plus_1": "count",
    "set": "set",
    "g3_counter": "balance",
}
ERROR = "error"
CHUNKS = r"uniform 1\.\.(\d+) \(\+1\)"
ORACLE = "per sequence: count seen; complete when seen == last-base+1; value = max; local = prefix head"
ROUNDS = "after each update global <= seq; after the last origin of a round global == seq; before that == seq-1"


def native(watermark: int | None) -> int:
    """The watermark as NebulaStream writes it: 0 for unknown."""
    return INITIAL if watermark is None else watermark


def run_chunks(case: Fields) -> None:
    """Buffers (sequence, chunk, last, watermark) and the sequence that each one completes."""
    rules = ProgressRules(chunk_base=case.take("chunk_base"))
    offered, wanted = [], []
    for fields in steps_of(case):
        offered.append(fields.take("in"))
        wanted.append(fields.take("out"))
    expect("steps", completions(offered, rules), wanted)
    final = case.take("final", wanted[-1])
    if case.take("permute", False):
        for order in itertools.permutations(offered):
            expect(f"final of {order}", completions(order, rules)[-1], final)
    else:
        expect("final", wanted[-1], final)


def completions(offered: Iterable[Sequence[Any]], rules: ProgressRules) -> list[Any]:
    """What each buffer completes: [sequence, watermark], None, or an error."""
    tracker, found = ProgressTracker([1], rules), []
    for sequence, chunk, last, watermark in offered:
        try:
            effects = tracker.step(TupleBuffer(1, sequence, chunk, last, watermark))
        except ModelError:
            found.append(ERROR)
            continue
        done: list[Any] = [[e.sequence, e.watermark] for e in effects if isinstance(e, Completed)]
        broken = any(isinstance(e, ProtocolViolation) and e.kind is not ViolationKind.REPEATED for e in effects)
        found.append(ERROR if broken else done[0] if done else None)
    return found


def run_rules(case: Fields) -> None:
    """After which arrival each rule first takes a sequence for complete; -1: never."""
    base, arrivals = case.take("chunk_base"), case.take("arrivals")
    for name, wanted in case.take("complete_at").items():
        rule, chunks, first = lookup("rule", name, RULES), Chunks(base), -1
        for place, (chunk, last) in enumerate(arrivals):
            chunks.add(chunk, last, 0)
            if first < 0 and chunks.complete(rule):
                first = place
        expect(name, first, wanted)


def run_sequences(case: Fields) -> None:
    """Whole sequences (sequence, value) of one origin and the local watermark after each."""
    tracker = ProgressTracker([1], rules_of(case))
    for fields in steps_of(case):
        sequence, value = fields.take("put")
        effects = tracker.step(TupleBuffer(1, sequence, 0, True, value))
        found = ERROR if any(isinstance(e, ProtocolViolation) for e in effects) else native(tracker.watermark)
        expect_if(fields, current=found)
    expect_if(case, final=native(tracker.watermark))


def rules_of(case: Fields) -> ProgressRules:
    """The rules of a case that may ask for the value at the head of the prefix."""
    return ProgressRules(local=known("mode", case.take("mode", "running_max"), ("head", "running_max")))


def run_generated(case: Fields) -> None:
    """Long orders that are described, not listed."""
    if "chunks_per_seq" in case:
        run_random(case)
        return
    count, missing = case.take("n"), case.take("missing_seq", None)
    expect("value", case.take("value"), "seq")
    order = order_of(case.take("order"), count, missing)
    tracker, seen = ProgressTracker([1]), []
    for sequence in order:
        tracker.step(TupleBuffer(1, sequence, 0, True, sequence))
        seen.append(native(tracker.watermark))
    if "current_after_k" in case:
        expect("after each", case.take("current_after_k"), "k")
        expect("after each", seen, list(range(1, count + 1)))
    if "current_until_last" in case:
        expect("until the last", seen[:-1], [case.take("current_until_last")] * (count - 1))
    if missing is not None:
        expect("while one is missing", seen[missing - 1 : -1], [case.take("stuck_value")] * (count - missing))
    expect("final", seen[-1], case.take("final"))


def order_of(text: str, count: int, missing: int | None) -> list[int]:
    """The order of arrival that a text describes."""
    up = list(range(1, count + 1))
    orders = {"1..n": up, "n..1": up[::-1]}
    if missing is not None:
        others = [number for number in up if number != missing]
        orders = {"1..n without the missing one, then the missing one": [*others, missing]}
    return lookup("order", text, orders)


def run_random(case: Fields) -> None:
    """Random chunks in a random order, against the rule written out."""
    most_chunks = int(matched("chunks per sequence", case.take("chunks_per_seq"), CHUNKS)[1])
    expect("order", case.take("order"), "random over all chunks")
    expect("oracle", case.take("oracle"), ORACLE)
    count, draws = case.take("n"), random.Random(case.take("seed"))
    buffers = []
    for sequence in range(1, count + 1):
        last = draws.randint(1, most_chunks) + 1
        buffers += [
            TupleBuffer(1, sequence, chunk, chunk == last, draws.randrange(10**6)) for chunk in range(1, last + 1)
        ]
    draws.shuffle(buffers)
    origin = OriginProgress(ProgressRules(chunk_base=1, local="head"))
    seen: dict[int, list[TupleBuffer]] = defaultdict(list)
    done: dict[int, int] = {}
    prefix = 0
    for buffer in buffers:
        origin.step(buffer)
        chunks = seen[buffer.sequence]
        chunks.append(buffer)
        lasts = [chunk.chunk for chunk in chunks if chunk.last]
        if lasts and len(chunks) == lasts[0] - 1 + 1:
            done[buffer.sequence] = max(chunk.watermark for chunk in chunks)
        while prefix + 1 in done:
            prefix += 1
        assert (origin.prefix, origin.local) == (prefix, done.get(prefix)), f"after {buffer}"
    expect("all complete", prefix, count)


def run_origins(case: Fields) -> None:
    """Several origins and the global watermark."""
    origins = case.take("origins")
    tracker = ProgressTracker(origins, rules_of(case))
    if "generator" in case:
        run_rounds(case, tracker, origins)
    else:
        for fields in steps_of(case):
            origin, sequence, watermark = fields.take("u")
            tracker.step(TupleBuffer(origin, sequence, 0, True, watermark))
            expect(f"after {sequence} of {origin}", native(tracker.watermark), fields.take("global"))
    expect_if(case, final=native(tracker.watermark))


def run_rounds(case: Fields, tracker: ProgressTracker, origins: Sequence[int]) -> None:
    """Sequence after sequence, each from all origins in turn."""
    with Fields(case.take("generator"), "generator") as fields:
        count, order = fields.take("n"), fields.take("order")
        expect("wm", fields.take("wm"), "seq")
    rule = case.take("rule", None)
    if (order, rule) not in {("1..n", None), ("for seq: for origin", ROUNDS)} or (rule is None) != (len(origins) == 1):
        raise UnknownFormatError(f"order {order!r}, rule {rule!r}")
    for sequence in range(1, count + 1):
        for origin in origins:
            tracker.step(TupleBuffer(origin, sequence, 0, True, sequence))
            wanted = sequence if origin == origins[-1] else sequence - 1
            expect(f"after {sequence} of {origin}", native(tracker.watermark), wanted)
