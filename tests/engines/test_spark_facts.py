"""Facts and causes of Spark, on queries of which no real run is kept: what each batch says, in the form of Spark."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from wmlab.core.facts import Facts
from wmlab.engines.answers import EngineLog, JobExplanation
from wmlab.engines.reading import Lines
from wmlab.engines.spark_query import of_plan

BEGIN_S = 1_700_000_000


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def batch(
    at_s: float,
    newest_s: float | None,
    watermark_s: float | None,
    *,
    took_s: float = 0.3,
    run: str = "1",
    **counts: Any,
) -> dict[str, Any]:
    """A batch that begins so many seconds after the first; with a newest event time it has ten rows of each source."""
    rows = [10 if newest_s is not None else 0] * counts.get("sources", 1)
    times = {} if newest_s is None else {"max": _time(BEGIN_S + newest_s), "min": _time(BEGIN_S + newest_s - 9)}
    mark = 0 if watermark_s is None else BEGIN_S + watermark_s
    return {
        "id": "q",
        "runId": run,
        "name": "q",
        "timestamp": _time(BEGIN_S + at_s),
        "batchId": round(at_s * 10),
        "numInputRows": sum(rows),
        "durationMs": {"triggerExecution": round(took_s * 1_000)},
        "eventTime": times | {"watermark": _time(mark)},
        "stateOperators": [
            {
                "operatorName": "stateStoreSave",
                "numRowsTotal": 5,
                "numRowsRemoved": counts.get("removed", 0),
                "numRowsDroppedByWatermark": counts.get("dropped", 0),
            }
        ],
        "sources": [
            {"description": f"Kafka[{n}]", "numInputRows": count, "metrics": counts.get("metrics")}
            for n, count in enumerate(rows)
        ],
        "sink": {"numOutputRows": 0},
    }


def answer(lines: Sequence[dict[str, Any]], *, after_s: float = 0.0, **known: Any) -> JobExplanation:
    """The answer so long after the last batch."""
    last = lines[-1]
    end_ms = (
        round(datetime.fromisoformat(last["timestamp"]).timestamp() * 1_000) + last["durationMs"]["triggerExecution"]
    )
    return EngineLog("q", Lines("spark", tuple(lines), until_ms=end_ms + round(after_s * 1_000), **known)).explain()


def healthy(every_s: float = 3.0, count: int = 6) -> list[dict[str, Any]]:
    """Ten rows of ten seconds a batch, each followed by one without rows, which moves the watermark."""
    lines = []
    for n in range(count):
        newest, before = 10 * n + 9, 10 * n - 11 if n else None
        lines += [batch(n * every_s, newest, before), batch(n * every_s + 0.5, None, newest - 10)]
    return lines


def test_a_query_that_waits_for_shorter_than_usual_is_healthy() -> None:
    for after_s in (0.1, 1.0, 2.5, 10.0):
        explanation = answer(healthy(), after_s=after_s, waits=True)
        assert (explanation.cause, explanation.certainty) == ("no fault", "candidates")
    late = answer(healthy(), after_s=60.0, waits=True)
    assert (late.cause, late.certainty, late.verdict) == ("no new data", "candidates", "held")
    assert late.because[0].values["since"] == 1_000 * (BEGIN_S + 15)  # the last batch with rows


def test_batches_back_to_back_are_a_query_too_slow_for_its_source() -> None:
    slow = [batch(3.0 * n, 10 * n + 9, 10 * n - 11 if n else None, took_s=2.95) for n in range(4)]
    explanation = answer(slow, waits=False)
    assert (explanation.cause, explanation.certainty) == ("query too slow for its source", "candidates")
    pauses = [batch(3.0 * n, 10 * n + 9, 10 * n - 11 if n else None, took_s=1.0) for n in range(4)]
    assert answer(pauses).cause != "query too slow for its source"


def test_records_that_wait_in_the_source_are_counted() -> None:
    behind = {"metrics": {"maxOffsetsBehindLatest": "500"}}
    fast = [batch(0.3 * n, 10 * n + 9, 10 * n - 11 if n else None, took_s=0.3, **behind) for n in range(4)]
    explanation = answer(fast, waits=False)
    assert (explanation.cause, explanation.certainty) == ("query too slow for its source", "candidates")
    assert explanation.facts["pending"] is True


def test_without_batches_without_rows_the_watermark_stays_a_batch_behind() -> None:
    lines = [batch(1.0 * n, 10 * n + 9, 10 * n - 11 if n else None) for n in range(4)]
    explanation = answer(lines, after_s=5.0, waits=True)
    assert (explanation.cause, explanation.certainty) == ("no batches without rows", "candidates")
    assert explanation.stands
    assert "noDataMicroBatches" in str(explanation.whose)


def test_of_two_delays_the_longest_holds_and_old_rows_do_not() -> None:
    def batches(removed: int) -> list[dict[str, Any]]:
        marks = [None, *(10 * n - 1 - 3_600 for n in range(1, 8))]
        return [batch(2.0 * n, 10 * n + 9, mark, sources=2, removed=removed) for n, mark in enumerate(marks)]

    keeps_all = answer(batches(removed=0))
    assert (keeps_all.cause, keeps_all.certainty, keeps_all.whose) == ("delay larger than needed", "candidates", None)
    behind = answer(batches(removed=3))
    assert (behind.cause, behind.certainty) == ("source behind", "candidates")
    assert (keeps_all.facts["frees rows"], behind.facts["frees rows"]) == (False, True)
    marks = [None, *(-1 + 4_000 * n for n in range(6))]
    risen = [batch(2.0 * n, mark + 3_610 if mark else 9, mark, sources=2, removed=3) for n, mark in enumerate(marks)]
    assert answer(risen).facts["frees rows"] is False  # it has risen by more than the distance


def test_a_longer_delay_after_a_new_start_is_said() -> None:
    before = healthy(count=4)
    after = [batch(20.0 + 2 * n, 49 + 10 * n, 29, run="2") for n in range(4)]
    explanation = answer([*before, *after])
    assert (explanation.cause, explanation.certainty) == ("delay larger than needed", "candidates")
    assert "started again" in explanation.sentence


def test_what_is_known_of_the_state_of_a_query_comes_first() -> None:
    dead = answer(healthy(), state="FAILED", exception="Boom")
    assert (dead.cause, dead.certainty, dead.verdict) == ("failed", "sure", "not running")
    unknown = answer(healthy(), after_s=1.0, waits=False)
    assert [each.cause for each in unknown.candidates] == ["no fault", "state is not freed", "not running"]
    running = answer(healthy(), after_s=1.0, waits=False, state="RUNNING")
    assert [each.cause for each in running.candidates] == ["no fault", "state is not freed"]


def test_what_the_session_and_the_plan_say_are_facts() -> None:
    off = {"spark.sql.streaming.noDataMicroBatches.enabled": "false", "output mode": "Append"}
    lines = [batch(1.0 * n, 10 * n + 9, 10 * n - 11 if n else None) for n in range(4)]
    asked = answer(lines, after_s=5.0, waits=True, settings=off)
    assert (asked.cause, asked.certainty) == ("no batches without rows", "sure")
    assert asked.facts["no-data off"] is True
    declared = answer(lines, settings={"watermarks of the plan": "ts 10 seconds, ts 1 hours"})
    assert declared.facts["all declare"] is False
    assert "all declare" in answer(lines).facts["not known"]


SLIDING = (
    "end, knownnullable(precisetimestampconversion((((precisetimestampconversion(ts#1-T5000ms, TimestampType, LongType)"
    " - CASE WHEN (x < 0) THEN (x + 5000000) ELSE x END) - 0) + 20000000), LongType, TimestampType)))"
)
PLAN = f"""== Analyzed Logical Plan ==
~Aggregate [window#9-T5000ms], [window#9-T5000ms, count(1) AS count#8L]
+- ~Project [named_struct({SLIDING} AS window#9-T5000ms]
   +- ~EventTimeWatermark 1b-2c, ts#1: timestamp, 5 seconds

== Physical Plan ==
+- StreamingSymmetricHashJoin [a#1], [a#2], Inner, stateStoreCkptIds = None, 0, 1795947066611, \
state cleanup [ left value predicate: (ts#1-T5000ms <= 1795947064610000), right = null ], 2, Append
"""
"""As Spark 4.3 writes it: a window of 20 s that slides by 5 s, and a join with a range on one side."""


def test_the_plan_says_for_how_long_rows_are_kept() -> None:
    assert of_plan(PLAN.replace("\\\n", "")) == {
        "watermarks of the plan": "ts 5 seconds",
        "state without watermark": "",
        "rows of the plan are kept": "20000, 2001, for ever",
    }
    within = (
        "== Analyzed Logical Plan ==\n~DeduplicateWithinWatermark [dev#2]\n"
        "~EventTimeWatermark 1, ts#1: timestamp, 5 seconds"
    )
    assert of_plan(within)["state without watermark"] == ""
    assert of_plan(within.replace("WithinWatermark", ""))["state without watermark"] == "dev"


def planned(kept: str) -> JobExplanation:
    """A query in order that runs, whose rows have covered 60 s, with what its plan says of them."""
    plan = {"watermarks of the plan": "ts 10 seconds", "state without watermark": "", "rows of the plan are kept": kept}
    lines = [{**each, "batchId": number} for number, each in enumerate(healthy())]
    return answer(lines, after_s=1.0, waits=True, settings=plan)


@pytest.mark.parametrize(("kept_s", "is_due"), [(40, True), (60, False), (3_600, False)])
def test_state_that_keeps_all_is_due_once_the_watermark_has_passed_the_oldest_row_by_so_much(
    kept_s: int, is_due: bool
) -> None:
    """The watermark is at 49 s, the oldest row at 0 s."""
    explanation = planned(f"5000, {1_000 * kept_s}")
    assert explanation.facts["not due"] is not is_due
    causes = [each.cause for each in explanation.candidates]
    assert (explanation.certainty, causes) == (
        ("candidates", ["no fault", "state is not freed"]) if is_due else ("sure", ["no fault"])
    )


def test_a_join_that_keeps_a_side_for_ever_does_not_free_its_state() -> None:
    explanation = planned("60000, for ever")
    assert (explanation.verdict, explanation.cause, explanation.certainty) == ("no fault", "state is not freed", "sure")
    assert "kept for ever" in answer(healthy()).facts["not known"]


def with_offsets(count: int) -> list[dict[str, Any]]:
    """Batches without a row, whose source has gone on so many times."""
    lines = [batch(10.0 * n, None, None) for n in range(6)]
    for number, line in enumerate(lines):
        line["sources"][0]["endOffset"] = {"logOffset": min(number, count)}
    return lines


@pytest.mark.parametrize(("count", "goes_on"), [(2, False), (3, True), (5, True)])
def test_offsets_that_go_on_without_a_row_are_told_from_no_new_data(count: int, goes_on: bool) -> None:
    explanation = answer(with_offsets(count), after_s=30.0, waits=True)
    assert explanation.facts["offsets go on"] is goes_on
    causes = [each.cause for each in explanation.candidates]
    assert causes == (["no row reaches the watermark", "no new data"] if goes_on else ["no new data"])


@pytest.mark.parametrize(("ahead_s", "is_ahead"), [(59, False), (62, True)])
def test_rows_that_are_all_ahead_of_the_clock_are_no_sound_query_for_sure(ahead_s: int, is_ahead: bool) -> None:
    lines = [batch(10.0 * n, 10 * n + ahead_s, 10 * n + ahead_s - 20 if n else None, dropped=0) for n in range(6)]
    explanation = answer(lines, after_s=1.0, waits=True)
    assert explanation.facts["ahead"] is is_ahead
    assert ("ahead of the clock" in [each.cause for each in explanation.candidates]) is is_ahead


def test_two_batches_with_rows_are_no_short_log_and_missing_batches_leave_open_what_was_dropped() -> None:
    def facts(count: int, step: int) -> Facts:
        lines = [batch(10.0 * n, 9, None) | {"batchId": n * step} for n in range(count)]
        return answer(lines, waits=True).facts

    assert [facts(count, step=1)["short log"] for count in (1, 2, 5)] == [True, False, False]
    assert facts(2, step=1)["late"] is False
    assert "late" in str(facts(2, step=2)["not known"])


def test_a_row_a_day_ahead_is_the_first_candidate_for_what_is_lost_since() -> None:
    lines = [batch(10.0 * n, 10 * n - 1, 10 * n - 21 if n else None) for n in range(3)]
    lines += [batch(30.0, 30 + 86_400, 9)]
    lines[-1]["eventTime"]["min"] = _time(BEGIN_S + 20)
    lines += [batch(10.0 * n, 10 * n - 1, 20 + 86_400, dropped=5) for n in range(4, 7)]
    explanation = answer([{**each, "batchId": number} for number, each in enumerate(lines)], waits=True)
    assert (explanation.verdict, explanation.cause) == ("rows lost", "jump into the future")
    assert explanation.certainty == "candidates"


@pytest.mark.parametrize("mode", ["Complete", "Append", "Update"])
@pytest.mark.parametrize("plan", [PLAN, "== Analyzed Logical Plan ==\n~Aggregate [dev#1], []\n"])
def test_the_plan_says_the_output_mode_with_a_watermark_or_without(mode: str, plan: str) -> None:
    save = (
        f"StateStoreSave [dev#1], state info [ ver = 5, numPartitions = 2] stateStoreCkptIds = None, {mode}, 17, 17, 2"
    )
    assert of_plan(plan.replace("\\\n", "") + save)["output mode"] == mode


@pytest.mark.parametrize(
    ("operator", "settings", "needs_none"),
    [
        ("stateStoreSave", {"output mode": "Append"}, False),
        ("stateStoreSave", {"output mode": "Update"}, True),
        ("stateStoreSave", {"output mode": "Complete"}, True),
        ("stateStoreSave", {}, None),
        ("stateStoreSave", {"state without watermark": "dev"}, True),
        ("stateStoreSave", {"state without watermark": ""}, None),
        ("dedupe", {}, True),
        ("dedupeWithinWatermark", {}, True),
        ("symmetricHashJoin", {}, False),
        ("applyInPandasWithState", {"output mode": "Update"}, None),
        ("transformWithStateInPandasExec", {}, None),
    ],
)
def test_whether_anybody_waits_is_known_of_an_operator_or_by_the_output_mode_alone(
    operator: str, settings: dict[str, str], needs_none: bool | None
) -> None:
    lines = healthy()
    for line in lines:
        line["stateOperators"][0]["operatorName"] = operator
    facts = answer(lines, waits=True, settings=settings).facts
    assert facts.get("needs none") is needs_none
    assert ("needs none" in str(facts.get("not known"))) is (needs_none is None)


@pytest.mark.parametrize(("sizes", "needs_none"), [((3, 3), True), ((3, 4), None)])
def test_without_a_watermark_a_state_that_does_not_grow_need_not_be_freed(
    sizes: tuple[int, int], needs_none: bool | None
) -> None:
    lines = healthy()
    for number, line in enumerate(lines):
        line["eventTime"] = {}
        line["stateOperators"][0]["numRowsTotal"] = sizes[number > 4]
    assert answer(lines, waits=True).facts.get("needs none") is needs_none


def test_of_a_jump_in_the_last_batch_no_row_tells_whether_it_is_one() -> None:
    lines = [batch(10.0 * n, 10 * n - 1, 10 * n - 21 if n else None) for n in range(4)]
    lines += [batch(40.0, 40 + 86_400, 19), batch(41.0, None, 30 + 86_400)]
    last = answer([{**each, "batchId": number} for number, each in enumerate(lines)], waits=True)
    assert (last.verdict, last.cause, last.certainty) == ("cannot tell", "jump into the future", "candidates")
    assert [each.name for each in last.because] == ["jumped last"]


def test_no_millisecond_of_a_delay_that_is_advised_is_rounded_away() -> None:
    lost = [*healthy(), batch(20.0, 61.0, 49, dropped=3)]
    lost[-1]["eventTime"]["min"] = _time(BEGIN_S + 24.551)
    explanation = answer(lost)
    (sure,) = explanation.candidates
    assert (sure.cause, sure.facts[0].values["needed"]) == ("delay smaller than the lateness", 34_449)
    assert sure.settings[0].value == "a delay of more than 34.449 s instead of 10 s"
    assert "a row was 34.449 s behind" in explanation.sentence
