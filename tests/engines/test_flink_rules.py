"""The rules for Flink, one situation each, of which no real run is kept; none is sure where it may be wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import wmlab as wm
from tests.engines.jobs import BEGIN_MS, END_MS, JOIN, POLLS, SOURCE, STEP_MS, job_of, source
from wmlab.engines.answers import advise, explain
from wmlab.engines.causes import Cause, grown
from wmlab.engines.moments import Instance, Job

OTHER = "Source: other[5] -> WatermarkAssigner[6]"


def answer(job: Job) -> tuple[Cause, str, str | None]:
    first = explain((job,))
    return first.cause, first.certainty, first.whose


def planned(job: Job, scan: str = "[1]:TableSourceScan(table=[[default_catalog, default_database, in]])") -> Job:
    """The job as one of SQL, whose tables make their watermark in an operator of its own."""
    text = f"{scan}<br/>+- [2]:WatermarkAssigner(rowtime=[ts], watermark=[(ts - 2000:INTERVAL SECOND)])"
    return replace(job, plans={task: "" if task == JOIN else text for task in job.tasks})


def test_all_inputs_far_behind_the_clock_may_be_old_rows_or_a_backlog() -> None:
    job = job_of(source(0, behind_ms=1_200_000), source(1, behind_ms=1_200_000))
    assert answer(job) == (Cause.SOURCE_BEHIND, "candidates", None)
    assert explain((job,)).verdict == "cannot tell"


def test_a_subtask_without_records_holds_the_others() -> None:
    job = job_of(source(0), source(1, until=4))
    assert answer(job) == (Cause.SILENT_SUBTASK, "sure", "subtask 1 of in[1]")
    assert [each.name for each in advise((job,))] == ["withIdleness"]
    assert [each.name for each in advise((planned(job),))] == ["table.exec.source.idle-timeout"]
    in_scan = planned(
        job, "[1]:TableSourceScan(table=[[default_catalog, default_database, in, watermark=[-(ts, 5000)]]])"
    )
    assert [each.name for each in advise((in_scan,))] == [
        "scan.watermark.idle-timeout",
        "table.exec.source.idle-timeout",
    ]
    never = job_of(source(0), source(1, until=0))
    assert answer(never) == (Cause.SILENT_SUBTASK, "sure", "subtask 1 of in[1]")
    assert "has never read a record" in explain((never,)).sentence


def test_a_short_silence_is_none() -> None:
    assert answer(job_of(source(0, delay_ms=2_000), source(1, until=POLLS - 2, delay_ms=2_000)))[1:] == (
        "candidates",
        None,
    )


def test_two_silent_subtasks_at_different_watermarks_are_one_silent_source() -> None:
    job = job_of(source(0, until=3), source(1, until=4), source(0, task=OTHER))
    assert answer(job) == (Cause.SILENT_SOURCE, "sure", "in[1]")


def test_a_source_that_reads_while_its_watermark_stands_may_have_a_silent_partition() -> None:
    stuck = source(0, output_watermark_ms=1_700_000_000_000)
    assert answer(job_of(stuck, source(0, task=OTHER))) == (Cause.SILENT_SUBTASK, "candidates", "subtask 0 of in[1]")
    assert not len(advise((job_of(stuck, source(0, task=OTHER)),)))


def test_a_source_that_has_read_and_never_given_a_watermark() -> None:
    job = job_of(source(0, output_watermark_ms=None), source(0, task=OTHER))
    assert answer(job) == (Cause.NO_WATERMARK, "likely", "in[1]")
    assert answer(planned(job)) == (Cause.NO_WATERMARK, "sure", "in[1]")
    assert [each.name for each in advise((planned(job),))] == ["WATERMARK FOR"]
    assert [each.name for each in advise((job,))] == ["WatermarkStrategy"]


def test_a_subtask_behind_and_a_source_that_catches_up() -> None:
    assert answer(job_of(source(0), source(1, behind_ms=60_000)))[::2] == (Cause.SOURCE_BEHIND, "subtask 1 of in[1]")
    slow = source(0)
    moments = [
        replace(m, output_watermark_ms=m.output_watermark_ms - 80_000 + 5_000 * n) for n, m in enumerate(slow.moments)
    ]
    explanation = explain((job_of(Instance(SOURCE, 0, tuple(moments)), source(0, task=OTHER)),))
    assert (explanation.cause, explanation.certainty) == (Cause.SOURCE_BEHIND, "sure")
    assert explanation.findings[0].shift_ms == 25_000
    assert "55.0 s less than when the log began" in explanation.sentence


def test_nothing_to_read_is_sure_only_if_nothing_is_pending() -> None:
    assert answer(job_of(source(0, until=3), source(1, until=3))) == (Cause.NO_NEW_DATA, "likely", None)
    none = {"until": 3, "pending_records": 0}
    assert answer(job_of(source(0, **none), source(1, **none))) == (Cause.NO_NEW_DATA, "sure", None)
    assert answer(job_of(source(0, until=3, pending_records=5)))[:2] == (Cause.CANNOT_TELL, "candidates")


def test_back_pressure_is_likely_if_a_busy_task_makes_the_watermark_fall_behind() -> None:
    pressed = source(0, back_pressured_share=0.9)
    assert (Cause.BACK_PRESSURE, "candidates") in [(f.cause, f.certainty) for f in explain((job_of(pressed),)).findings]
    slow = [replace(m, output_watermark_ms=m.output_watermark_ms - 2_000 * n) for n, m in enumerate(pressed.moments)]
    job = job_of(Instance(SOURCE, 0, tuple(slow)), busy_share=1.0)
    assert answer(job) == (Cause.BACK_PRESSURE, "likely", "Join[3]")


def test_a_source_is_not_blamed_for_a_watermark_that_does_not_arrive() -> None:
    """All sources have sent more than the join has got, so none of them holds it, silent or not."""
    job = job_of(source(0), source(0, task=OTHER, until=4), input_watermark_ms=1_600_000_000_000)
    assert answer(job) == (Cause.BACK_PRESSURE, "candidates", "Join[3]")
    assert not len(advise((job,)))


def test_a_jump_is_one_only_ahead_of_the_clock() -> None:
    normal = source(1, behind_ms=10_000)
    ahead = [
        replace(m, output_watermark_ms=m.output_watermark_ms + 3_600_000 * (n > 5))
        for n, m in enumerate(normal.moments)
    ]
    job = job_of(Instance(SOURCE, 1, tuple(ahead)), source(0))
    assert answer(job) == (Cause.JUMP, "sure", "subtask 1 of in[1]")
    assert explain((job,)).findings[0].since_ms == END_MS - 5 * STEP_MS
    caught_up = [
        replace(m, output_watermark_ms=m.output_watermark_ms - 3_600_000 * (n < 6))
        for n, m in enumerate(normal.moments)
    ]
    assert answer(job_of(Instance(SOURCE, 1, tuple(caught_up)), source(0)))[0] is not Cause.JUMP


def test_a_job_of_one_poll_tells_nothing() -> None:
    job = job_of(source(0, until=0), source(0, task=OTHER))
    first = {task: tuple(Instance(i.task, i.subtask, i.moments[:1]) for i in made) for task, made in job.tasks.items()}
    short = replace(job, tasks=first, at_ms=job.observed[0].moments[0].at_ms)
    assert answer(short) == (Cause.CANNOT_TELL, "candidates", None)


def test_counters_that_fall_are_a_restart_and_no_sound_job() -> None:
    begun = source(0, delay_ms=2_000)
    again = [replace(each, records=number - 5) if number >= 6 else each for number, each in enumerate(begun.moments)]
    job = job_of(Instance(SOURCE, 0, tuple(again)), source(1, delay_ms=2_000))
    assert answer(job) == (Cause.RESTARTS, "sure", None)
    (finding,) = explain((job,)).findings
    assert "once" in finding.what
    assert [each.values for each in finding.evidence] == [(("records", 60),), (("records", 1),)]


def test_a_subtask_that_has_never_read_holds_a_job_without_a_watermark_also_when_the_others_have_stopped() -> None:
    job = job_of(source(0, until=3), source(1, until=0))
    assert answer(job) == (Cause.SILENT_SUBTASK, "sure", "subtask 1 of in[1]")
    # Where the job has a watermark, the one that has never read is idle, and holds nothing.
    idle = replace(job, tasks=job.tasks | {JOIN: job_of(source(0, until=3)).tasks[JOIN]})
    assert answer(idle)[0] is Cause.NO_NEW_DATA


@pytest.mark.parametrize(("counts", "growth"), [([0], 0), ([3, 5, 5], 2), ([3, 5, 1, 2], 4), ([7, 0, 0], 0)])
def test_a_counter_that_begins_anew_has_grown_by_what_it_shows(counts: list[int], growth: int) -> None:
    assert grown(counts) == growth


def test_an_input_that_the_watermark_has_passed_is_idle_and_holds_nothing() -> None:
    """It shows its last watermark for ever, which is the smallest; nobody waits for it."""
    job = job_of(source(0), source(1, until=3))
    passed = Instance(JOIN, 0, job_of(source(0)).tasks[JOIN][0].moments)
    idle = replace(job, tasks=job.tasks | {JOIN: (passed,)})
    assert answer(idle) == (Cause.NO_FAULT, "likely", None)
    assert "idle by its timeout" in explain((idle,)).sentence
    assert answer(job)[0] is Cause.SILENT_SUBTASK


def test_the_state_of_a_job_comes_first() -> None:
    job = job_of(source(0), source(1, until=3))
    for state, cause in (("FAILED", Cause.FAILED), ("CANCELED", Cause.CANCELLED), ("RESTARTING", Cause.RESTARTING)):
        states = ((BEGIN_MS, "RUNNING"), (BEGIN_MS + STEP_MS, state), (END_MS, state))
        explanation = explain((replace(job, state=state, states=states, exception="Boom: 7"),))
        assert (explanation.cause, explanation.certainty, explanation.verdict) == (cause, "sure", "not running")
        assert explanation.findings[0].since_ms == BEGIN_MS + STEP_MS
        assert "Boom: 7" in explanation.sentence
        assert len(explanation.findings) == 1


def test_whole_quarters_of_an_hour_are_a_time_zone_and_no_other_distance_is() -> None:
    zone = {"behind_ms": 5 * 3_600_000 + 30 * 60_000 + 5_000}
    assert answer(job_of(source(0, **zone), source(1, **zone)))[:2] == (Cause.TIME_ZONE, "candidates")
    local = "[1]:TableSourceScan()\n[2]:Calc(select=[LOCALTIMESTAMP() AS ts])\n[3]:WatermarkAssigner(rowtime=[ts])"
    job = job_of(source(0, **zone), source(1, **zone))
    assert answer(replace(job, plans=dict.fromkeys(job.tasks, local)))[:2] == (Cause.TIME_ZONE, "sure")
    other = {"behind_ms": 5 * 3_600_000 + 37 * 60_000}
    assert answer(job_of(source(0, **other), source(1, **other)))[0] is Cause.SOURCE_BEHIND


def test_alignment_that_is_set_is_not_advised_and_who_is_paused_is_said() -> None:
    behind = source(0, task=OTHER, behind_ms=60_000)
    paused = source(0, until=7, behind_ms=2_000)
    free = explain((job_of(behind, source(0)),))
    assert [each.name for each in advise((job_of(behind, source(0)),))] == ["withWatermarkAlignment"]
    assert "paused" not in free.sentence
    aligned = Instance(SOURCE, 0, tuple(replace(at, drift_ms=500) for at in paused.moments))
    job = job_of(behind, aligned)
    assert "in[1] is paused by alignment" in explain((job,)).sentence
    assert not len(advise((job,)))


def test_of_several_ends_the_worst_is_answered_and_the_others_are_kept() -> None:
    fine = job_of(source(0, delay_ms=2_000))
    held = job_of(source(0), source(1, until=3))
    explanation = explain((fine, held))
    assert explanation.cause is Cause.SILENT_SUBTASK
    assert [each.cause for each in explanation.others] == [Cause.NO_FAULT]
    assert any(line.startswith("Another end: ") for line in explanation.lines)


def test_pipelines_that_share_a_sink_are_judged_before_it() -> None:
    """A real run: the sink has no watermark, since a window by processing time writes to it, too."""
    explanation = wm.engine.read(Path(__file__).with_name("one_sink.jsonl")).explain()
    assert (explanation.operator, explanation.cause, explanation.certainty, explanation.whose) == (
        "IntervalJoin[14]",
        Cause.SOURCE_BEHIND,
        "sure",
        "other[10]",
    )
    assert [(each.operator, each.cause) for each in explanation.others] == [("WindowAggregate[4]", Cause.NO_FAULT)]


def test_without_the_plan_nothing_about_inputs_is_sure() -> None:
    job = replace(job_of(source(0), source(1, until=4)), has_plan=False)
    assert answer(job) == (Cause.SILENT_SUBTASK, "likely", "subtask 1 of in[1]")
