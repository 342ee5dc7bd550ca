"""Facts and causes of Flink jobs of which no real run is kept; none is sure where it may be wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import wmlab as wm
from tests.engines.jobs import BEGIN_MS, END_MS, JOIN, POLLS, SOURCE, STEP_MS, job_of, source
from wmlab.core.facts import Facts
from wmlab.engines import moments
from wmlab.engines.answers import advise, explain
from wmlab.engines.facts import grown
from wmlab.engines.flink_view import View
from wmlab.engines.moments import Instance, Job, Step
from wmlab.engines.tables import NONE_YET

OTHER = "Source: other[5] -> WatermarkAssigner[6]"


def answer(job: Job) -> tuple[str, str, str | None]:
    first = explain((job,))
    return first.cause, first.certainty, first.whose


def planned(job: Job, scan: str = "[1]:TableSourceScan(table=[[default_catalog, default_database, in]])") -> Job:
    """The job as one of SQL, whose tables make their watermark in an operator of its own."""
    text = f"{scan}<br/>+- [2]:WatermarkAssigner(rowtime=[ts], watermark=[(ts - 2000:INTERVAL SECOND)])"
    return replace(job, plans=dict.fromkeys(job.tasks, text) | {JOIN: "[3]:IntervalJoin(joinType=[InnerJoin])"})


def test_all_inputs_far_behind_the_clock_may_be_old_rows_or_a_backlog() -> None:
    job = job_of(source(0, behind_ms=1_200_000), source(1, behind_ms=1_200_000))
    explanation = explain((job,))
    assert {each.cause for each in explanation.candidates} >= {"source behind", "delay larger than needed"}
    assert (explanation.verdict, explanation.certainty) == ("held", "candidates")


def test_a_subtask_without_records_holds_the_others() -> None:
    job = job_of(source(0), source(1, until=4))
    assert answer(job) == ("silent subtask or partition", "sure", "subtask 1 of in[1]")
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
    assert answer(never) == ("silent subtask or partition", "sure", "subtask 1 of in[1]")
    assert "has read 0 rows" in explain((never,)).sentence


def test_a_short_silence_is_none() -> None:
    job = job_of(source(0, delay_ms=2_000), source(1, until=POLLS - 2, delay_ms=2_000))
    assert answer(job) == ("no fault", "sure", None)


def test_two_silent_subtasks_at_different_watermarks_are_one_silent_source() -> None:
    job = job_of(source(0, until=3), source(1, until=4), source(0, task=OTHER))
    assert answer(job) == ("silent source", "sure", "in[1]")


def test_a_source_that_reads_while_its_watermark_stands_may_have_a_silent_partition() -> None:
    stuck = source(0, output_watermark_ms=1_700_000_000_000)
    assert answer(job_of(stuck, source(0, task=OTHER))) == ("silent subtask or partition", "candidates", "in[1]")
    causes = [each.cause for each in explain((job_of(stuck, source(0, task=OTHER)),)).candidates]
    assert causes == ["silent subtask or partition", "rows are no newer", "watermark generator"]


def test_a_source_that_has_read_and_never_given_a_watermark() -> None:
    job = job_of(source(0, output_watermark_ms=NONE_YET), source(0, task=OTHER))
    assert answer(job) == ("source without watermark", "candidates", "in[1]")
    assert answer(planned(job))[0] == "cannot tell"  # the plan declares one
    undeclared = replace(job, plans=dict.fromkeys(job.tasks, "[1]:TableSourceScan(table=[[in]])<br/>"))
    assert answer(undeclared) == ("source without watermark", "candidates", "in[1]")
    assert [each.name for each in advise((undeclared,))] == ["WATERMARK FOR"]
    assert [each.name for each in advise((job,))] == ["WatermarkStrategy"]


def test_a_subtask_behind_and_a_source_that_catches_up() -> None:
    assert answer(job_of(source(0), source(1, behind_ms=60_000)))[::2] == ("source behind", "subtask 1 of in[1]")
    slow = source(0)
    moments = [
        replace(m, output_watermark_ms=m.output_watermark_ms - 80_000 + 5_000 * n) for n, m in enumerate(slow.moments)
    ]
    explanation = explain((job_of(Instance(SOURCE, 0, tuple(moments)), source(0, task=OTHER)),))
    assert (explanation.verdict, explanation.facts["source behind"]) == ("no fault", True)
    assert explanation.facts["gap changes"] is True
    assert explanation.lag_ms == 27_000


def test_that_rows_wait_excludes_that_there_are_none() -> None:
    assert answer(job_of(source(0, until=3), source(1, until=3))) == ("no new data", "candidates", None)
    none = {"until": 3, "pending_records": 0}
    assert answer(job_of(source(0, **none), source(1, **none))) == ("no new data", "candidates", None)
    assert answer(job_of(source(0, until=3, pending_records=5)))[:2] == ("cannot tell", "candidates")


def test_back_pressure_is_a_candidate_if_a_busy_task_makes_the_watermark_fall_behind() -> None:
    pressed = source(0, back_pressured_share=0.9)
    assert explain((job_of(pressed),)).facts["pressed"] is True
    slow = [replace(m, output_watermark_ms=m.output_watermark_ms - 2_000 * n) for n, m in enumerate(pressed.moments)]
    job = job_of(Instance(SOURCE, 0, tuple(slow)), busy_share=1.0)
    assert answer(job) == ("back pressure", "candidates", "Join[3]")


def test_a_source_is_not_blamed_for_a_watermark_that_does_not_arrive() -> None:
    """All sources have sent more than the join has got, so none of them holds it, silent or not."""
    job = job_of(source(0), source(0, task=OTHER, until=4), input_watermark_ms=1_600_000_000_000)
    first, second = explain((job,)).candidates
    assert (first.cause, first.whose) == ("operator does not pass it on", "Join[3], subtask 0")
    assert (second.cause, second.whose) == ("back pressure", "Join[3]")
    assert not len(advise((job,)))


def test_a_jump_is_one_only_ahead_of_the_clock() -> None:
    normal = source(1, behind_ms=10_000)
    ahead = [
        replace(m, output_watermark_ms=m.output_watermark_ms + 3_600_000 * (n > 5))
        for n, m in enumerate(normal.moments)
    ]
    job = job_of(Instance(SOURCE, 1, tuple(ahead)), source(0))
    explanation = explain((job,))
    assert "jump into the future" in [each.cause for each in explanation.candidates]
    assert (explanation.verdict, explanation.facts["jumped"]) == ("no fault", True)  # no row was lost yet
    lost = [replace(at, late_records=max(number - 6, 0)) for number, at in enumerate(job.observed[0].moments)]
    losing = replace(job, tasks=job.tasks | {JOIN: (Instance(JOIN, 0, tuple(lost)),)})
    assert answer(losing) == ("jump into the future", "sure", "subtask 1 of in[1]")
    assert explain((losing,)).candidates[0].facts[0].values["since"] == END_MS - 5 * STEP_MS
    caught_up = [
        replace(m, output_watermark_ms=m.output_watermark_ms - 3_600_000 * (n < 6))
        for n, m in enumerate(normal.moments)
    ]
    assert answer(job_of(Instance(SOURCE, 1, tuple(caught_up)), source(0)))[0] != "jump into the future"


def test_a_job_of_one_poll_tells_nothing() -> None:
    job = job_of(source(0, until=0), source(0, task=OTHER))
    first = {task: tuple(Instance(i.task, i.subtask, i.moments[:1]) for i in made) for task, made in job.tasks.items()}
    short = replace(job, tasks=first, at_ms=job.observed[0].moments[0].at_ms)
    assert answer(short) == ("cannot tell", "candidates", None)


def test_counters_that_fall_are_a_restart_also_of_a_job_that_is_well_since() -> None:
    begun = source(0, delay_ms=2_000)
    again = [replace(each, records=number - 5) if number >= 6 else each for number, each in enumerate(begun.moments)]
    job = job_of(Instance(SOURCE, 0, tuple(again)), source(1, delay_ms=2_000))
    explanation = explain((job,))
    assert (explanation.verdict, explanation.cause, explanation.certainty) == ("no fault", "restarts", "sure")
    values = explanation.candidates[0].facts[0].values
    assert (values["rows_before"], values["rows"]) == (60, 1)


def test_a_job_that_starts_again_and_again_is_held_and_so_is_one_that_has_not_moved_since() -> None:
    begun = source(0, delay_ms=2_000)
    counts = [10, 20, 5, 10, 15, 20, 5, 10, 15, 20, 25, 30]
    again = tuple(replace(each, records=count) for each, count in zip(begun.moments, counts, strict=True))
    twice = explain((job_of(Instance(SOURCE, 0, again), source(1, delay_ms=2_000)),))
    assert (twice.verdict, twice.cause, twice.certainty) == ("held", "restarts", "sure")
    last = tuple(replace(each, records=1) if number == POLLS - 1 else each for number, each in enumerate(begun.moments))
    stopped = tuple(replace(each, output_watermark_ms=last[-2].output_watermark_ms) for each in last[-1:])
    just = explain((job_of(Instance(SOURCE, 0, (*last[:-1], *stopped)), source(1, delay_ms=2_000)),))
    assert (just.verdict, just.cause) == ("held", "restarts")


def test_a_subtask_that_has_never_read_holds_a_job_without_a_watermark_also_when_the_others_have_stopped() -> None:
    job = job_of(source(0, until=3), source(1, until=0))
    assert answer(job) == ("silent subtask or partition", "sure", "subtask 1 of in[1]")
    # Where the job has a watermark, the one that has never read is idle, and holds nothing.
    idle = replace(job, tasks=job.tasks | {JOIN: job_of(source(0, until=3)).tasks[JOIN]})
    assert answer(idle)[0] == "no new data"


@pytest.mark.parametrize(("counts", "growth"), [([0], 0), ([3, 5, 5], 2), ([3, 5, 1, 2], 4), ([7, 0, 0], 0)])
def test_a_counter_that_begins_anew_has_grown_by_what_it_shows(counts: list[int], growth: int) -> None:
    assert grown(counts) == growth


def test_an_input_that_the_watermark_has_passed_is_idle_and_holds_nothing() -> None:
    """It shows its last watermark for ever, which is the smallest; nobody waits for it."""
    job = job_of(source(0), source(1, until=3))
    passed = Instance(JOIN, 0, job_of(source(0)).tasks[JOIN][0].moments)
    idle = replace(job, tasks=job.tasks | {JOIN: (passed,)})
    assert answer(idle)[:2] == ("no fault", "sure")
    assert explain((idle,)).facts["idle"] is True
    assert answer(job)[0] == "silent subtask or partition"


def test_the_state_of_a_job_comes_first() -> None:
    job = job_of(source(0), source(1, until=3))
    for state, cause in (("FAILED", "failed"), ("CANCELED", "cancelled"), ("RESTARTING", "restarting")):
        states = ((BEGIN_MS, "RUNNING"), (BEGIN_MS + STEP_MS, state), (END_MS, state))
        explanation = explain((replace(job, state=state, states=states, exception="Boom: 7"),))
        assert (explanation.cause, explanation.certainty, explanation.verdict) == (cause, "sure", "not running")
        assert explanation.candidates[0].facts[0].values["since"] == BEGIN_MS + STEP_MS
        assert ("Boom: 7" in explanation.sentence) == (cause != "cancelled")
        assert len(explanation.candidates) == 1


def test_whole_quarters_of_an_hour_are_a_time_zone_and_no_other_distance_is() -> None:
    zone = {"behind_ms": 5 * 3_600_000 + 30 * 60_000 + 5_000}
    both = explain((job_of(source(0, **zone), source(1, **zone)),))
    assert [each.cause for each in both.candidates][:2] == ["delay larger than needed", "time zone"]
    local = "[1]:TableSourceScan()\n[2]:Calc(select=[LOCALTIMESTAMP() AS ts])\n[3]:WatermarkAssigner(rowtime=[ts])"
    job = job_of(source(0, delay_ms=2_000, **zone), source(1, delay_ms=2_000, **zone))
    declared = replace(job, plans=dict.fromkeys(job.tasks, local))
    assert answer(declared)[:2] == ("time zone", "candidates")  # the clock of whoever asks may be off as well
    other = {"behind_ms": 5 * 3_600_000 + 37 * 60_000}
    causes = [each.cause for each in explain((job_of(source(0, **other), source(1, **other)),)).candidates]
    assert causes == ["source behind", "delay larger than needed"]


def test_alignment_that_is_set_is_not_advised_and_who_is_paused_is_said() -> None:
    behind = source(0, task=OTHER, behind_ms=60_000)
    paused = source(0, until=7, behind_ms=2_000)
    free = explain((job_of(behind, source(0)),))
    assert [each.name for each in advise((job_of(behind, source(0)),))] == ["withWatermarkAlignment"]
    assert free.facts["aligned"] is False
    aligned = Instance(SOURCE, 0, tuple(replace(at, drift_ms=500) for at in paused.moments))
    job = job_of(behind, aligned)
    assert explain((job,)).facts["aligned"] is True
    assert not len(advise((job,)))


def test_of_several_ends_the_worst_is_answered_and_the_others_are_kept() -> None:
    fine = job_of(source(0, delay_ms=2_000))
    silent = job_of(source(0), source(1, until=3))
    explanation = explain((fine, silent))
    assert explanation.cause == "silent subtask or partition"
    assert [each.cause for each in explanation.others] == ["no fault"]
    assert any(line.startswith("Another end: ") for line in explanation.lines)


def test_pipelines_that_share_a_sink_are_judged_before_it() -> None:
    """A real run: the sink has no watermark, since a window by processing time writes to it, too."""
    explanation = wm.engine.read(Path(__file__).with_name("one_sink.jsonl")).explain()
    assert (explanation.operator, explanation.cause, explanation.certainty, explanation.whose) == (
        "IntervalJoin[14]",
        "source behind",
        "sure",
        "other[10]",
    )
    assert [(each.operator, each.cause) for each in explanation.others] == [("WindowAggregate[4]", "no fault")]


def test_without_the_plan_nothing_about_inputs_is_sure() -> None:
    job = replace(job_of(source(0), source(1, until=4)), has_plan=False)
    assert answer(job) == ("silent subtask or partition", "candidates", "subtask 1 of in[1]")


def facts_of(job: Job) -> Facts:
    return explain((job,)).facts


@pytest.mark.parametrize(("gap_ms", "is_behind"), [(9_000, False), (11_000, True)])
def test_a_subtask_is_behind_by_more_than_a_metric_may_be_old(gap_ms: int, is_behind: bool) -> None:
    job = job_of(source(0), source(1, behind_ms=2_000 + gap_ms))
    assert facts_of(job)["subtask behind"] is is_behind


@pytest.mark.parametrize(("delay_ms", "is_small"), [(9_000, True), (11_000, False)])
def test_a_stated_delay_is_small_below_what_a_metric_may_be_old(delay_ms: int, is_small: bool) -> None:
    assert facts_of(job_of(source(0, delay_ms=delay_ms)))["delay small"] is is_small


@pytest.mark.parametrize(("behind_ms", "is_far"), [(59_000, False), (61_000, True)])
def test_a_watermark_is_far_from_a_minute_on(behind_ms: int, is_far: bool) -> None:
    facts = facts_of(job_of(source(0, behind_ms=behind_ms)))
    assert (facts["far"], facts["near"]) == (is_far, not is_far)


@pytest.mark.parametrize(
    ("polls_ago", "is_quiet", "is_silent"), [(1, False, False), (2, True, False), (3, True, False), (4, False, True)]
)
def test_a_subtask_is_quiet_before_it_counts_as_silent(polls_ago: int, is_quiet: bool, is_silent: bool) -> None:
    facts = facts_of(job_of(source(0), source(1, until=POLLS - polls_ago)))
    assert (facts["subtask quiet"], facts["subtask silent"]) == (is_quiet, is_silent)


def falling(instance: Instance, step_ms: int) -> Instance:
    """The same, each poll so much further behind than the one before."""
    moments = (
        replace(at, output_watermark_ms=at.output_watermark_ms - number * step_ms)
        for number, at in enumerate(instance.moments)
    )
    return replace(instance, moments=tuple(moments))


@pytest.mark.parametrize(("step_ms", "grows"), [(1_000, False), (1_200, True)])
def test_a_distance_has_grown_by_more_than_both_ends_may_be_old(step_ms: int, grows: bool) -> None:
    facts = facts_of(job_of(falling(source(0), step_ms)))
    assert (facts["grows"], facts["distance changes"], facts["queue grows"]) == (grows, grows, False)


@pytest.mark.parametrize(("step_ms", "grows"), [(1_000, False), (1_200, True)])
def test_what_lies_between_the_sources_and_the_operator_grows(step_ms: int, grows: bool) -> None:
    job = job_of(falling(source(0), step_ms))
    job = replace(job, tasks={**job.tasks, SOURCE: (source(0),)})
    facts = facts_of(job)
    assert (facts["queue grows"], facts["grows"]) == (grows, False)
    assert explain((job,)).verdict == ("held" if grows else "no fault")


@pytest.mark.parametrize(
    ("own", "other", "goes_on"),
    [
        ([1, 2, 2, 2], [1, 2, 3, 4], True),
        ([1, 2, 2, 2], [1, 2, 2, 2], False),  # it is silent, and sends what it has
        ([1, 2, 2, 2], [1, 1, 1, 2], False),  # the other one catches up
        ([1, 2, 3, 4], [1, 2, 4, 5], False),  # it goes on itself
        ([None, None, None, None], [1, 2, 3, 4], False),
        ([NONE_YET, NONE_YET, NONE_YET, NONE_YET], [1, 2, 3, 4], False),  # a source that never reports its splits'
    ],
)
def test_a_split_has_left_where_others_go_on_and_it_stands(
    own: list[int | None], other: list[int | None], goes_on: bool
) -> None:
    at_ms = range(4)
    assert moments._goes_on(dict(zip(at_ms, own, strict=True)), dict(zip(at_ms, other, strict=True))) is goes_on


def test_a_watermark_that_stands_ahead_of_the_clock_while_rows_come_may_have_jumped_before_the_log() -> None:
    ahead = source(0, output_watermark_ms=END_MS + 3_600_000)
    assert answer(job_of(ahead)) == ("jump into the future", "candidates", "in[1]")
    moves = job_of(source(0, behind_ms=-3_600_000))
    assert answer(moves) == ("ahead of the clock", "candidates", "in[1]")


def test_watermarks_do_not_begin_behind_an_input_that_has_one() -> None:
    """One input of the join is idle and has never had a watermark, so the join goes by the other one."""
    job = job_of(source(0), source(0, task=OTHER, until=0))
    moments_of_join = (
        replace(each, output_watermark_ms=each.input_watermark_ms) for each in job_of(source(0)).observed[0].moments
    )
    job = replace(job, tasks={**job.tasks, JOIN: (Instance(JOIN, 0, tuple(moments_of_join)),)})
    assert View(job).has_sent(JOIN)
    assert {each.task for each in View(job).origins} == {SOURCE, OTHER}
    assert {each.task for each in View(job).live} == {SOURCE}


@pytest.mark.parametrize(
    ("plan", "needs_none"),
    [
        ("[3]:GroupAggregate(groupBy=[id], select=[id, COUNT(*)])<br/>+- sink[4]: Writer<br/>", True),
        ("[3]:Calc(select=[id])<br/>+- [4]:WindowAggregate(window=[TUMBLE(win_end=[$e])])<br/>", False),
        (
            "[3]:MiniBatchAssigner(interval=[10000ms], mode=[RowTime])<br/>+- [4]:GroupAggregate(groupBy=[n])<br/>",
            False,
        ),
        ("[3]:GroupAggregate(groupBy=[id])<br/>+- PartitionCommitter<br/>", False),
        ("Timers<br/>", False),
        ("", None),  # nobody knows what it waits for
    ],
)
def test_a_plan_of_tables_without_time_waits_for_no_watermark(plan: str, needs_none: bool | None) -> None:
    """One source is silent; only a plan that is known to wait for its watermark proves that it holds anything."""
    job = planned(job_of(source(0), source(0, task=OTHER, until=2), written=5))
    explanation = explain((replace(job, plans=dict(job.plans or {}) | {JOIN: plan}),))
    is_unknown = "needs none" in explanation.facts["not known"]
    assert (None if is_unknown else explanation.facts["needs none"]) is needs_none
    assert explanation.verdict == ("no fault" if needs_none else "held")
    assert explanation.certainty == ("sure" if needs_none is False else "candidates")


@pytest.mark.parametrize(("states", "restarts_on"), [("RR.", False), ("R.R", True), ("R..", False), ("...", False)])
def test_a_job_that_was_seen_to_restart_twice_restarts_on(states: str, restarts_on: bool) -> None:
    seen = [("RUNNING", "RESTARTING")[each == "R"] for each in f".{states}."]
    job = replace(job_of(source(0)), states=tuple((BEGIN_MS + at * STEP_MS, state) for at, state in enumerate(seen)))
    assert explain((job,)).facts["restarts on"] is restarts_on


@pytest.mark.parametrize(("until", "has_ended"), [(POLLS, False), (POLLS - 2, False), (POLLS - 3, True)])
def test_a_source_that_has_sent_the_last_watermark_and_reads_on_has_not_ended(until: int, has_ended: bool) -> None:
    job = job_of(source(0), source(0, task=OTHER, until=until, ended=True))
    assert explain((job,)).facts["source ended"] is has_ended


def in_plan(text: str, *, rows: int = 10, stands: bool = True, comes: bool = False) -> Job:
    """A job with this last operator, out of which rows have come, and may still come."""
    job = job_of(source(0), source(1, until=3 if stands else POLLS))
    written = [replace(at, written=rows + number * comes) for number, at in enumerate(job.observed[0].moments)]
    plans = {SOURCE: "Source: in<br/>+- [2]:Calc(select=[id, PROCTIME() AS pt])", JOIN: text}
    return replace(job, tasks=job.tasks | {JOIN: (Instance(JOIN, 0, tuple(written)),)}, plans=plans)


@pytest.mark.parametrize(
    ("operator", "needs_none"),
    [
        ("[3]:GroupAggregate(groupBy=[id], select=[id, COUNT(*)])", True),
        ("[3]:Deduplicate(keep=[FirstRow], key=[id], order=[PROCTIME], outputInsertOnly=[true])", True),
        ("[3]:Deduplicate(keep=[LastRow], key=[id], order=[ROWTIME], outputInsertOnly=[false])", False),
        ("[3]:OverAggregate(partitionBy=[id], orderBy=[pt ASC], select=[id, COUNT(*) AS w0$o0])", True),
        ("[3]:OverAggregate(partitionBy=[id], orderBy=[ts ASC], select=[id, COUNT(*) AS w0$o0])", False),
        ("[3]:WindowAggregate(window=[TUMBLE(time_col=[pt], size=[5 s])], select=[COUNT(*)])", True),
        ("[3]:WindowAggregate(window=[TUMBLE(time_col=[ts], size=[5 s])], select=[COUNT(*)])", False),
        ("[3]:IntervalJoin(joinType=[InnerJoin], windowBounds=[isRowTime=false, leftLowerBound=-1])", True),
        ("[3]:IntervalJoin(joinType=[InnerJoin], windowBounds=[isRowTime=true, leftLowerBound=-1])", False),
        ("Window(TumblingEventTimeWindows(5000), EventTimeTrigger, Count, Emit)", False),
        ("Window(TumblingProcessingTimeWindows(5000), ProcessingTimeTrigger, Count, Emit)<br/>+- sink: Writer", True),
        ("[3]:Sink(table=[default_catalog.default_database.out], fields=[id])", True),
        ("[3]:StreamRecordTimestampInserter(rowtime field: 2)<br/>+- sink[4]: Writer", True),
    ],
)
def test_the_plan_says_whether_an_operator_waits_for_the_watermark(operator: str, needs_none: bool) -> None:
    assert explain((in_plan(operator, comes=True),)).facts["needs none"] is needs_none


@pytest.mark.parametrize(
    ("comes", "stands", "needs_none"), [(False, True, False), (True, True, None), (False, False, None)]
)
def test_a_function_of_the_jobs_own_waits_if_no_row_has_come_out_since_the_watermark_stands(
    comes: bool, stands: bool, needs_none: bool | None
) -> None:
    explanation = explain((in_plan("enrich<br/>+- sink: Writer", comes=comes, stands=stands),))
    assert explanation.facts.get("needs none") is needs_none
    if stands:
        assert explanation.certainty == ("sure" if needs_none is False else "candidates")
        assert (explanation.verdict, explanation.cause) == ("held", "silent subtask or partition")


def test_behind_an_operator_that_sends_the_watermark_later_nobody_may_wait() -> None:
    job = job_of(source(0), source(1))
    later = tuple(
        replace(
            at,
            written=10,
            output_watermark_ms=(at.output_watermark_ms or 0) - 600_000,
            steps=(
                Step(
                    operator="later",
                    got_ms=at.output_watermark_ms,
                    sent_ms=(at.output_watermark_ms or 0) - 600_000,
                    records_in=1,
                    records_out=1,
                ),
            ),
        )
        for at in source(0).moments
    )
    sink, middle = "sink", "[9]:later"
    tasks = {
        **job.tasks,
        middle: (Instance(middle, 0, later),),
        sink: (Instance(sink, 0, tuple(replace(at, input_watermark_ms=at.output_watermark_ms) for at in later)),),
    }
    inputs = {SOURCE: (), middle: (SOURCE,), sink: (middle,)}
    waiting = {SOURCE: "Source: in", middle: "[9]:IntervalJoin(joinType=[LeftOuterJoin])"}
    of_sink = replace(job, tasks=tasks, inputs=inputs, observed_task=sink, operator=sink)
    free = explain((replace(of_sink, plans={**waiting, sink: "sink[10]: Writer"}),))
    assert (free.verdict, free.facts["operator later"], free.facts["needs none"]) == ("no fault", True, True)
    held = explain((replace(of_sink, plans={**waiting, sink: "[10]:WindowAggregate(window=[TUMBLE(time_col=[ts])])"}),))
    assert (held.verdict, held.cause, held.certainty) == ("held", "operator sends it later", "sure")


@pytest.mark.parametrize(("pending", "reads", "waits"), [(5, True, False), (500, True, True), (5, False, True)])
def test_some_rows_wait_in_every_source_that_reads_more_than_it_reads_in_a_poll_or_two_in_none(
    pending: int, reads: bool, waits: bool
) -> None:
    job = job_of(source(0, pending_records=pending, until=POLLS if reads else 3))
    explanation = explain((job,))
    assert explanation.facts["pending"] is waits
    assert (explanation.verdict == "held") is waits


@pytest.mark.parametrize(("later_ms", "restarts_on"), [(0, True), (200_000, True), (400_000, False)])
def test_a_job_that_has_been_well_for_long_does_not_restart_on(later_ms: int, restarts_on: bool) -> None:
    states = ((BEGIN_MS, "RESTARTING"), (BEGIN_MS + 5_000, "RUNNING"), (BEGIN_MS + 10_000, "RESTARTING"))
    job = replace(job_of(source(0)), states=((BEGIN_MS - 1, "RUNNING"), *states), at_ms=END_MS + later_ms)
    assert explain((job,)).facts["restarts on"] is restarts_on


def test_a_job_without_any_watermark_that_has_started_again_once_is_well() -> None:
    none = {"output_watermark_ms": NONE_YET}
    counts = [10, 20, 30, 40, 5, 10, 15, 20, 25, 30, 35, 40]
    again = tuple(replace(at, records=n) for at, n in zip(source(0, **none).moments, counts, strict=True))
    job = job_of(Instance(SOURCE, 0, again), input_watermark_ms=NONE_YET, written=10)
    once = explain((replace(job, plans={SOURCE: "Source: in", JOIN: "parse<br/>+- sink: Writer"}),))
    assert (once.facts["restarted"], once.facts["restarts on"], once.verdict) == (True, False, "no fault")
    assert [each.cause for each in once.candidates] == ["restarts"]
