"""By `design` coalescing is what the document's text says, compared with a coalescer that was written from it alone."""

from __future__ import annotations

from tests.dataflow.model.driving import DESIGN, SHIPPED
from tests.dataflow.model.literal import LiteralCoalescer, Out, Sent, drawn_history
from tests.repetitions import Count, repetitions
from wmlab.dataflow.model.coalescer import KeyedCoalescer
from wmlab.dataflow.model.items import IDLE_MESSAGE, Item, Watermark
from wmlab.dataflow.model.processor import SOUND, Deviations
from wmlab.dataflow.model.source import EventTimeMapper, FixedLag

HISTORIES = repetitions(2_000, long=20_000)


def as_item(sent: Sent) -> Item:
    if sent[0] == "wm":
        return Watermark(*sent[2:])
    return IDLE_MESSAGE if sent[0] == "idle" else ()


def let_out(deviations: Deviations, inputs: int, history: list[Sent]) -> list[list[Out]]:
    coalescer = KeyedCoalescer(inputs, deviations)
    steps = [coalescer.step(sent[1], as_item(sent)) for sent in history]
    return [[(each.key, each.value) if isinstance(each, Watermark) else "idle" for each in step] for step in steps]


def by_the_text(inputs: int, history: list[Sent]) -> list[list[Out]]:
    literal = LiteralCoalescer(inputs)
    return [literal.take(sent) for sent in history]


def test_by_design_what_comes_out_is_what_the_text_says(count: Count) -> None:
    histories = [drawn_history(seed) for seed in range(HISTORIES)]
    differing = [seed for seed, of in enumerate(histories) if let_out(DESIGN, *of) != by_the_text(*of)]
    assert differing == []
    count(HISTORIES, "histories of coalescing, by the text and by design")


def test_sound_rules_and_those_that_ship_say_more_when_the_last_input_becomes_idle() -> None:
    """It is a rule of Hazelcast and Flink; without it the highest watermark never leaves."""
    history: list[Sent] = [("wm", 0, 0, 10), ("wm", 1, 0, 30), ("idle", 1), ("idle", 0)]
    assert by_the_text(2, history)[-1] == let_out(DESIGN, 2, history)[-1] == ["idle"]
    assert let_out(SOUND, 2, history)[-1] == let_out(SHIPPED, 2, history)[-1] == [(0, 30), "idle"]
    more = 0
    for seed in range(400):
        inputs, drawn = drawn_history(seed)
        pairs = list(zip(let_out(SOUND, inputs, drawn), by_the_text(inputs, drawn), drawn, strict=True))
        first = next((pair for pair in pairs if pair[0] != pair[1]), None)
        assert first is None or (first[1] == ["idle"] and first[0][-1] == "idle" and first[2][0] == "idle"), seed
        more += first is not None
    assert more > 20


def test_partitions_of_a_source_are_coalesced_by_the_same_rule() -> None:
    def sent_at_last(deviations: Deviations) -> tuple[Item, ...]:
        mapper = EventTimeMapper(policy=FixedLag(0), idle_timeout_ms=10, deviations=deviations)
        state = mapper.start(2, now_ms=0)
        mapper.report(state, partition=0, time=50, now_ms=1)
        mapper.report(state, partition=1, time=20, now_ms=15)
        return mapper.tick(state, now_ms=40)

    assert sent_at_last(DESIGN) == (IDLE_MESSAGE,)
    assert sent_at_last(SOUND) == sent_at_last(SHIPPED) == (Watermark(0, 50), IDLE_MESSAGE)
