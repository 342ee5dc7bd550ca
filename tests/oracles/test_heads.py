"""What stands above the charts of random runs is what their tables say: the title, the headline, and every fact."""

from __future__ import annotations

import warnings
from collections import Counter
from functools import cache

import wmlab as wm
from tests.oracles import heads
from tests.oracles.charts import Pair, charts_of, partly_noted_run, struck_cycles_run, with_messages
from tests.oracles.runs import moments_of
from tests.oracles.streams import Curve, Oracle, differences
from tests.oracles.test_streams import scenario_of, sentences
from tests.oracles.timeline import timeline
from tests.repetitions import Count, repetitions
from wmlab.core.facts import Facts
from wmlab.core.overlap import TimesApartWarning
from wmlab.streams.answers.head_labels import HEAD_LABELS, HEADS
from wmlab.streams.answers.timeline import EFFECT_LABELS, EFFECTS

OF_OWN_SHAPE = -4
STRUCK = -1_000
"""From this seed on down, leaders are struck in the middle of their cycles."""
TELLING = (0, 4, 7, 9, 14, 53, 57, 60)
"""Of these the ones with a conflict, cycles that overlap or died, and writers waited for in turn."""
MORE = tuple(STRUCK - number for number in range(100, 100 + repetitions(1, long=200)))
"""Further ones, for what is said of cycles."""
RUNS = (
    *range(OF_OWN_SHAPE, repetitions(14, long=400)),
    *(14, 15, 36, 42, 67, 92, 100, 124, 129, -10),
    *(STRUCK - number for number in TELLING),
)
"""The seeds of drawn runs; those below zero are runs of a shape of their own."""
EVERY = 3
"""Of so many runs one keeps its messages."""


@cache
def oracle_of(seed: int) -> Oracle:
    if seed <= STRUCK:
        scenario = struck_cycles_run(STRUCK - seed)
    else:
        scenario = partly_noted_run(seed) if seed == OF_OWN_SHAPE else scenario_of(seed)
    if seed % EVERY == 0:
        scenario = with_messages(scenario)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TimesApartWarning)
        return Oracle(scenario, scenario.record(progress=False))


@cache
def drawn(seed: int) -> list[Pair]:
    return list(charts_of(oracle_of(seed).run, seed))


def test_what_stands_above_a_chart_is_what_the_tables_say(count: Count) -> None:
    labels = 0
    for seed in RUNS:
        for name, chart, said in drawn(seed):
            where = f"seed {seed}, {name}"
            found = differences(chart.facts, said.facts)
            assert not found, f"{where}: (said, computed) {found}"
            assert chart.sentence == chart.facts.fill(said.template), where
            assert (chart.scene.title, chart.scene.subtitle) == (said.title, chart.sentence), where
            labels += len(said.facts)
    count(labels, "labels above charts compared")


def test_the_chart_of_a_moment_says_what_is_to_be_said_of_its_group() -> None:
    for seed in range(OF_OWN_SHAPE, 12, 2):
        oracle = oracle_of(seed)
        recording = oracle.run.recording
        for stream in oracle.run.titles:
            groups = sorted({row["group"] for row in oracle.run.all_rows("positions", stream)})
            curve = Curve(stream, group=groups[0] if groups else None)
            for at_ms in (at for at in moments_of(f"{seed} {curve}", 3) if at < oracle.run.end_ms):
                chart = wm.chart.moment(recording, at_ms, stream=stream, group=curve.group)
                computed = oracle.facts(curve, at_ms)
                assert not differences(chart.facts, computed), f"seed {seed}, {curve}, {at_ms} ms"
                template = sentences(oracle, curve, at_ms, computed)[0]
                assert chart.sentence == chart.scene.subtitle == chart.facts.fill(template)
                title = f"What was written, noted and read of {stream} at "
                assert chart.scene.title.startswith(title)


def test_the_sentence_of_a_diagram_counts_what_the_tables_have() -> None:
    for seed in RUNS:
        run = oracle_of(seed).run
        for stream in run.titles:
            assert wm.chart.lineage(run.recording, stream=stream).sentence == heads.lineage(run, stream)
        assert wm.chart.topology(run.recording).sentence == heads.topology(run)


def test_the_timeline_is_what_the_tables_say(count: Count) -> None:
    rows, said = 0, Counter[str]()
    for seed in (*RUNS, *MORE):
        run = oracle_of(seed).run
        for stream in run.titles:
            moments = list(run.recording.timeline(stream=stream))
            for at_ms, to_ms, who, what, effect, facts in timeline(run, stream):
                where = f"seed {seed}, {stream}: {at_ms}, {who}, {what}"
                words = Facts(EFFECT_LABELS, dict(facts), clock_ms=at_ms).fill(effect)
                found = [
                    moment
                    for moment in moments
                    if (moment.at_ms, moment.to_ms, moment.who, moment.effect) == (at_ms, to_ms, who, words)
                    if moment.facts == dict(facts)
                    if moment.what.startswith(what) or what.endswith(moment.what)
                ]
                assert found, where
                moments.remove(found[0])
                said[effect] += 1
                rows += 1
            assert not moments, f"seed {seed}, {stream}: said, and not in the tables"
    count(rows, "moments of timelines compared")
    assert {effect for effects in EFFECTS.values() for effect in effects} - set(said) == set()


def test_every_label_and_headline_is_reached_by_a_drawn_run() -> None:
    labels, said = Counter[str](), Counter[str]()
    for seed in RUNS:
        for _, chart, above in drawn(seed):
            labels.update(list(chart.facts))
            said[above.template] += 1
    assert set(HEAD_LABELS) - set(labels) == set()
    assert {template for templates in HEADS.values() for template in templates} - set(said) == set()
