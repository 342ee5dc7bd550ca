"""What is true of each run of a real engine that is kept: written from what was started, not from what is answered.

A run has the verdicts that are right at its end, the causes that are true of it, and what holds its watermark. Whoever
is sure at any moment of it, or after parts of its log were taken away, has to name one of these causes and holders.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import wmlab as wm

HERE: Final = Path(__file__).parent / "logs"
FINE: Final = "no fault"
_FIRST_BATCHES: Final = frozenset({"rows are no newer", "no new data"})


@dataclass(frozen=True)
class Truth:
    """What is right of a run; `holders` has every name that may be said to hold it, in full or in part."""

    verdicts: frozenset[str]
    causes: frozenset[str]
    holders: tuple[str, ...]


def _truth(verdicts: str, causes: str, *holders: str) -> Truth:
    return Truth(frozenset(verdicts.split(" | ")), frozenset(causes.split(" | ")), holders)


_HEALTHY: Final = _truth("no fault", "no fault")
_BEHIND: Final = "source behind | source falls behind"
_DELAYS: Final = "delay larger than needed"
_SPARK_FINE: Final = _truth("no fault | cannot tell", "no fault")
_SILENT_PART: Final = "silent subtask or partition"
_MAX: Final = "watermark of the fastest source"

_KEPT: Final = {
    "flink/healthy": _HEALTHY,
    "flink/hour_behind": _truth("held", _BEHIND, "other[5]"),
    "flink/other_ends": _truth("no fault", "ended | no fault", "other[5]"),
    "flink/other_silent": _truth("held", "silent source", "other[5]"),
    "flink/future_row": _truth("rows lost", "jump into the future", "subtask 0 of orders[1]", "orders[1]"),
    "flink/late_rows": _truth("rows lost", "delay smaller than the lateness"),
    "flink/delay_too_large": _truth("held", _DELAYS, "orders[1]"),
    "flink/window_not_over": _HEALTHY,
    "flink/one_subtask_without_rows": _truth("held", _SILENT_PART, "subtask 1 of orders[1]"),
    "flink/all_idle": _truth("held", "no new data"),
    "flink/union_behind": _truth("held", _BEHIND, "other[4]"),
    "flink/back_pressure": _truth("held", "back pressure", "Calc[4]", "orders[1]"),
    "flink/partition_silent": _truth("held", _SILENT_PART, "partition p1 of orders, subtask 0"),
    "flink/partition_behind": _truth("held", _BEHIND, "partition p1 of orders, subtask 0"),
    "flink/aligned": _truth("held", f"{_BEHIND} | paused by alignment", "payments"),
    "flink/idle_subtask": _HEALTHY,
    "flink/join_side_idle": _HEALTHY,
    "flink/join_idle_timeout": _HEALTHY,
    "flink/failed": _truth("not running", "failed"),
    "flink/cancelled": _truth("not running", "cancelled"),
    "flink/waits_to_restart": _truth("not running", "restarting"),
    "flink/ahead_of_clock": _truth("no fault | held", "ahead of the clock", "subtask 0 of orders", "partition p0"),
    "flink/processing_time": _HEALTHY,
    "flink/time_zone": _truth("held", "time zone", "orders[1]"),
    "flink/two_pipelines": _truth("held", f"{_BEHIND} | time zone", "other[10]"),
    "flink/sources_of_one_name": _truth("held", _BEHIND, "Kafka Source (2)"),
    "flink/stock_source_behind": _truth("held", _BEHIND, "old numbers"),
    "flink/source_silent": _truth("held", "silent source", "payments"),
    "flink/restarts": _truth("held", "restarts"),
    "flink/silent_in_scan": _truth("held", "silent source", "other"),
    "flink/silent_in_scan_idle_timeout": _HEALTHY,
    "flink/behind_in_scan": _truth("held", _BEHIND, "other"),
    "flink/behind_in_scan_aligned": _truth("held", f"{_BEHIND} | paused by alignment", "other"),
    "flink/partition_idle_timeout": _HEALTHY,
    "flink/source_idle_timeout": _HEALTHY,
    "flink/stock_source_aligned": _truth("held", f"{_BEHIND} | paused by alignment", "old numbers"),
    "flink/no_watermark": _truth("held", "source without watermark", "orders"),
    "flink/watermark_strategy": _HEALTHY,
    "flink/no_interval": _truth("held", "watermark interval", "orders"),
    "flink/interval": _HEALTHY,
    "flink/undeclared": _truth(
        "held", "source without watermark | no row reaches the watermark", "orders[1]", "Calc[2]"
    ),
    "flink/declared": _HEALTHY,
    "flink/time_zone_utc": _HEALTHY,
    "spark/healthy": _SPARK_FINE,
    "spark/future_row": _truth("rows lost", "jump into the future"),
    "spark/late_rows": _truth("rows lost", "delay smaller than the lateness"),
    "spark/no_more_data": _truth("no fault | cannot tell | held", "no new data"),
    "spark/one_source_silent": _truth("held", "silent source", "FileStreamSource[file:/data/b]"),
    "spark/source_without_records": _truth("held", "silent source", "FileStreamSource[file:/data/b]"),
    "spark/one_source_behind": _truth("held", _BEHIND),
    "spark/delay_too_large": _truth("held", _DELAYS, "the delay"),
    "spark/no_newer_rows": _truth("held", "rows are no newer", "FileStreamSource[file:/data/a]"),
    "spark/no_watermark": _truth("held", "source without watermark"),
    "spark/chained_windows": _SPARK_FINE,
    "spark/two_delays": _truth("held", _DELAYS, "the longest delay"),
    "spark/fastest_decides": _truth("rows lost", _MAX),
    "spark/no_batches_without_rows": _truth("held | cannot tell", "no batches without rows", "noDataMicroBatches"),
    "spark/session_open": _SPARK_FINE,
    "spark/restart": _SPARK_FINE,
    "spark/one_source_silent_max": _SPARK_FINE,
    "spark/source_without_records_max": _SPARK_FINE,
    "spark/slowest_decides": _truth("held", f"{_DELAYS} | {_BEHIND}", "the longest delay"),
    "spark/late_rows_longer_delay": _SPARK_FINE,
}
_FURTHER: Final = {
    "flink/future_row": _KEPT["flink/future_row"],
    "flink/healthy": _HEALTHY,
    "flink/hour_behind": _KEPT["flink/hour_behind"],
    "flink/other_ends": _KEPT["flink/other_ends"],
    "flink/other_silent": _KEPT["flink/other_silent"],
    "flink2/aligned_and_slow": _KEPT["flink/aligned"],
    "flink2/cancelled_before": _truth("not running", "cancelled"),
    "flink2/datastream_join_idle_timeout_set": _HEALTHY,
    "flink2/datastream_processing_time": _HEALTHY,
    "flink2/idle_subtask_fell_silent": _HEALTHY,
    "flink2/idle_subtask_never_read": _HEALTHY,
    "flink2/kafka_like_join_20_minutes_behind": _truth("held", _BEHIND, "payments"),
    "flink2/kafka_like_partition_silent": _truth("held", _SILENT_PART, "subtask 0 of orders", "orders"),
    "flink2/no_task_behind_the_source": _truth("held", _SILENT_PART, "subtask 1 of orders"),
    "flink2/scan_idle_timeout_without_effect": _truth("held", "silent source", "other[5]"),
    "flink2/session_time_zone_ahead": _truth("no fault | held", "time zone", "orders[1]"),
    # Before its task manager was gone, one of its tables read an empty folder.
    "flink2/task_manager_gone": _truth("not running", "failed | silent source", "other[5]"),
    "flink2/two_pipelines_one_job": _truth("held", f"{_BEHIND} | time zone", "other[11]"),
    "flink3/f01_split_never_gives": _truth("held", _SILENT_PART, "partition p2 of orders, subtask 0"),
    "flink3/f02_align_other_pipeline": _truth("held", f"paused by alignment | {_BEHIND}", "payments", "orders"),
    "flink3/f03_delay_hour_stream": _truth("held", _DELAYS, "orders"),
    "flink3/f04_seconds": _truth("held | no fault", "unit of time", "orders"),
    "flink3/f05_micros": _truth("no fault", "unit of time", "orders"),
    "flink3/f06_bad_record_before": _truth("rows lost", "jump into the future", "orders"),
    "flink3/f07_bad_record_one_split": _truth("no fault", "jump into the future | no fault", "subtask 0 of orders"),
    "flink3/f17_interval_zero": _truth("held", "watermark interval", "orders"),
    "flink3/f24_assigner_behind_shuffle_never": _truth("held", _SILENT_PART, "subtask 1 of timestamps"),
    "flink3/f26_async_hangs": _truth("held", "operator does not pass it on", "lookup, subtask 0"),
    "flink3/f28b_async_unordered_hangs": _truth("held", "operator does not pass it on", "lookup, subtask 0"),
    "flink3/f36_times_uptime": _truth("held | no fault", "times not since 1970", "orders"),
    "flink3/f37_hour_interval_join_then_window": _truth(
        "held | no fault", "operator sends it later", "IntervalJoin[9]"
    ),
    "flink3/f40_nanos": _truth("no fault", "unit of time", "orders"),
    "flink3/f42_single_half_speed": _truth("held", "source falls behind", "orders"),
    "flink3/f50_healthy_assigner_behind_shuffle": _HEALTHY,
    "flink3/f58_one_source_delay_hour_stream": _truth("held", _DELAYS, "payments"),
    "spark/future_row": _KEPT["spark/future_row"],
    "spark/healthy": _SPARK_FINE,
    "spark/late_rows": _KEPT["spark/late_rows"],
    "spark/no_more_data": _KEPT["spark/no_more_data"],
    "spark/one_source_silent": _truth("held", "silent source", "FileStreamSource"),
    "spark2/availnow": _SPARK_FINE,
    # Its log has no word of how it ended.
    "spark2/failed_query": _SPARK_FINE,
    "spark2/healthy_asked_between_batches": _SPARK_FINE,
    "spark2/healthy_trigger_4s": _SPARK_FINE,
    "spark2/nodata_off": _KEPT["spark/no_batches_without_rows"],
    "spark2/outer_two_delays_min": _truth("held", _DELAYS, "the longest delay"),
    "spark2/session_never_closes": _SPARK_FINE,
    "spark2/slow_batches_backlog": _truth("held | cannot tell", "query too slow for its source", "the query"),
    "spark2/union_two_delays_max": _truth("rows lost", _MAX),
    "spark2/union_two_delays_min": _truth("held", _DELAYS, "the longest delay"),
    "spark3/s01_wrong_column": _truth("no fault | cannot tell | held", "state is not freed"),
    "spark3/s02_future_row_first_batch": _truth("rows lost", "jump into the future"),
    "spark3/s05b_rate_micro_batch_stands_trigger_8s": _truth("held", "rows are no newer", "RatePerMicroBatchStream"),
    "spark3/s09_nulls_of_one_side": _truth("held", "event times are null", "/b]"),
    "spark3/s13_outer_join_hour_range": _truth("no fault | cannot tell", "no fault"),
    "spark3/s15_epoch_ms_as_seconds": _truth("no fault | cannot tell | held", "unit of time"),
    "spark3/s21_backfill_unordered": _truth("rows lost", "delay smaller than the lateness"),
    "spark3/s23_one_source_slow": _truth("held", _BEHIND, "/b]"),
    "spark3/s31b_steady_default_trigger": _SPARK_FINE,
    "spark3/s34_healthy_rate_quick": _SPARK_FINE,
}
# Jobs of somebody who had not read the rules; each truth was written before its answer was seen.
_NEW: Final = {
    "flink4/d01_split_moves_away": _truth("held", "silent subtask or partition", "subtask 0 of orders"),
    "flink4/d02_split_moves_idle": _truth("held", "silent subtask or partition", "subtask 0 of orders"),
    "flink4/d03_new_split_old_rows": _truth(
        "rows lost | held", "source behind | source falls behind | delay smaller than the lateness", "p1"
    ),
    "flink4/d04_three_sinks": _truth("no fault", "no fault"),
    "flink4/d05_operator_swallows": _truth("held", "operator does not pass it on", "enrich"),
    "flink4/d06_operator_ten_minutes": _truth("held", "operator sends it later", "buffer"),
    "flink4/d07_restarts_once": _truth("no fault | cannot tell | held", "restarts | no fault"),
    "flink4/d08_slow_process": _truth("held", "back pressure", "lookup"),
    "flink4/d10_one_reads_four_count": _truth("no fault", "no fault"),
    "flink4/d11_allowed_lateness": _truth("no fault", "no fault"),
    "flink4/d12_late_to_side_output": _truth("no fault", "no fault"),
    "flink4/d12b_late_dropped": _truth("rows lost", "delay smaller than the lateness"),
    "flink4/d13_count_windows": _truth("no fault | cannot tell", "no fault"),
    "flink4/d15_assigner_after_union": _truth("rows lost", "delay smaller than the lateness"),
    "flink4/d16_alignment_with_silent": _truth("held", "silent source | paused by alignment", "payments", "orders"),
    "flink4/d17_no_chaining": _truth("no fault", "no fault"),
    "flink4/d18_one_input_ahead": _truth("no fault", "no fault | ahead of the clock", "payments"),
    "flink4/d20_second_input_ended": _truth("no fault", "no fault | ended", "rules"),
    "flink4/d23_two_of_three_behind": _truth(
        "held", "source behind | source falls behind | delay larger than needed", "refunds"
    ),
    "flink4/d25_split_slow_time": _truth("held", "source behind | source falls behind", "p1"),
    "flink4/d26_marks_by_marker_rows": _truth("no fault", "no fault"),
    "flink4/d27_split_ends_for_good": _truth("no fault", "no fault"),
    "flink4/d28_second_assigner_no_watermarks": _truth(
        "held", "source without watermark | operator does not pass it on", "again"
    ),
    "flink4/d29_own_timers_no_window": _truth("no fault", "no fault"),
    "flink4/d30_bound_of_two_minutes": _truth("held", "delay larger than needed", "orders"),
    "flink4/d31_cascade": _truth("no fault", "no fault"),
    "flink4/d32_split_moves_long": _truth("held", "silent subtask or partition", "subtask 0 of orders"),
    "flink4/d33_split_moves_idle_long": _truth("held", "silent subtask or partition", "subtask 0 of orders"),
    "flink4/d34_restart_mid": _truth("no fault | cannot tell | held", "restarts | no fault"),
    "flink4/d35_task_manager_lost": _truth("not running", "restarting | restarts"),
    "flink4/d36_third_subtask_reads_later": _truth("no fault", "no fault"),
    "flink4/d37_operator_stuck_on_a_key": _truth("held", "back pressure | operator does not pass it on", "enrich"),
    "flink4/d38_split_moves_minute": _truth("held", "silent subtask or partition", "subtask 0 of orders"),
    "flink4/d39_split_moves_idle_minute": _truth("held", "silent subtask or partition", "subtask 0 of orders"),
    "flink4/d40_alignment_idle_timeout": _truth("no fault", "no fault"),
    "flink4/q01_two_time_attributes": _truth("no fault", "no fault"),
    "flink4/q02_ltz_tokyo": _truth("no fault", "no fault"),
    "flink4/q03_wrong_column_two_days": _truth("no fault | held", "ahead of the clock | no fault", "orders"),
    "flink4/q04_topn_of_windows": _truth("no fault", "no fault"),
    "flink4/q05_match_recognize": _truth("no fault", "no fault"),
    "flink4/q06_cumulate_day": _truth("no fault", "no fault"),
    "flink4/q07_group_by_ttl": _truth("no fault", "no fault"),
    "flink4/q08_sinks_one_pipeline_silent": _truth("held", "silent subtask or partition", "subtask 1 of other", "p1"),
    "flink4/q09_late_one_percent": _truth("rows lost", "delay smaller than the lateness"),
    "flink4/q10_delay_of_a_day_second_table": _truth("held", "delay larger than needed", "other"),
    "flink4/q11_pipeline_silent_long": _truth("held", "silent subtask or partition", "subtask 1 of other", "p1"),
    "flink4/q12_scan_idle": _truth("no fault", "no fault"),
    "flink4/q13_job_idle": _truth("no fault", "no fault"),
    "spark4/n01_tws_dies_first_rows": _truth("not running", "failed"),
    "spark4/n02_two_queries_min": _truth("held", "source behind | source falls behind | delay larger than needed", "b"),
    "spark4/n03_two_queries_max": _truth("rows lost", "watermark of the fastest source"),
    "spark4/n04_rate_one_row": _truth("no fault | cannot tell", "no fault"),
    "spark4/n06_restart_longer_delay": _truth("held", "delay larger than needed", "the delay"),
    "spark4/n07_static_join_window": _truth("no fault | cannot tell", "no fault"),
    "spark4/n08_join_then_window": _truth("no fault | cannot tell", "no fault"),
    "spark4/n09_session_zone": _truth("no fault | cannot tell", "no fault"),
    "spark4/n10_filter_takes_all": _truth("held | cannot tell", "no row reaches the watermark | event times are null"),
    "spark4/n11_times_are_midnight": _truth("held", "rows are no newer", "a"),
    "spark4/n12_complete_late": _truth("no fault | cannot tell", "no fault"),
    "spark4/n13_dedup_late_then_well": _truth("rows lost", "delay smaller than the lateness"),
    "spark4/n14_pandas_state_no_timeout": _truth("no fault | cannot tell", "no fault | cannot tell"),
    "spark4/n15_stateless_b_silent": _truth("no fault | cannot tell", "no fault"),
    "spark4/n16_b_resumes": _truth("no fault | cannot tell", "no fault"),
    "spark4/n17_backfill_max_files": _truth(
        "held | cannot tell", "source behind | source falls behind | query too slow for its source", "a", "query"
    ),
    "spark4/n18_foreach_batch_state": _truth("no fault | cannot tell", "no fault"),
    "spark4/n19_join_range_one_sided": _truth("no fault | cannot tell", "no fault | state is not freed"),
    "spark4/n20_union_two_delays_40s": _truth(
        "held | no fault", "delay larger than needed | source behind | source falls behind", "b", "longest delay"
    ),
    "spark4/n21_tws_healthy": _truth("no fault | cannot tell", "no fault"),
    "spark4/n22_clock_five_hours_ahead": _truth("no fault | held", "ahead of the clock | time zone | no fault", "a"),
    "spark4/n23_foreach_batch_dies": _truth("not running", "failed"),
    "spark4/n24_rows_in_turns_40s": _truth("rows lost", "delay smaller than the lateness"),
    "spark4/n25_tws_union_silent": _truth("held", "silent source", "b"),
    "spark4/n26_tws_processing_time": _truth("no fault | cannot tell", "no fault | cannot tell"),
    "spark4/n27_dedup_delay_100s": _truth(
        "no fault | cannot tell | held", "no fault | delay larger than needed", "the delay"
    ),
    "spark4/n28_delay_40s": _truth("no fault | cannot tell", "no fault"),
    "spark4/n29_tws_union_max": _truth("no fault | cannot tell", "no fault"),
}
# Jobs of a third person, who recorded them before the rules of splits that move, queues and plans were finished.
_LATER: Final = {
    "flink5/e01_sinks_one_behind": _truth("held", f"{_BEHIND} | {_DELAYS}", "returns"),
    # Between its first split and the next one, subtask 0 had none.
    "flink5/e02_split_moves_another_comes": _truth("no fault", f"no fault | {_SILENT_PART}", "subtask 0 of orders"),
    "flink5/e03_split_ends_reader_empty": _truth("held", _SILENT_PART, "subtask 0 of orders"),
    "flink5/e04_replay_of_an_hour": _truth("rows lost", "delay smaller than the lateness"),
    # What writes is at work in 0.74 of its time, and keeps up.
    "flink5/e05_slow_sink": _HEALTHY,
    # Payments are silent for fifteen seconds, and a metric may be ten seconds old.
    "flink5/e06_restart_then_silent": _truth("held | cannot tell", "restarts | silent source", "payments", "orders"),
    # One of the two subtasks of the broadcast source has no split.
    "flink5/e07_broadcast_behind": _truth("held", _SILENT_PART, "subtask 1 of rules"),
    "flink5/e08_stream_interval_joins": _HEALTHY,
    "flink5/e09_skewed_key": _truth("held", "back pressure", "score"),
    "flink5/e10_late_of_one_pipeline": _truth("rows lost", "delay smaller than the lateness"),
    "flink5/e11_all_idle": _truth("held", "no new data"),
    "flink5/e12_two_behind_equal": _truth("held", f"{_BEHIND} | {_DELAYS}", "payments", "refunds"),
    "flink5/e13_one_of_four_splits_gets_slow": _truth("held", _BEHIND, "subtask 2 of orders", "p2"),
    "flink5/e14_split_moves_idle_two": _truth("held", _SILENT_PART, "subtask 0 of orders"),
    "flink5/e15_split_ends_idle": _truth("held", _SILENT_PART, "subtask 0 of orders"),
    "flink5/q21_over_and_processing_time_silent": _truth("held", _SILENT_PART, "subtask 1 of other", "p1"),
    "flink5/q22_sinks_other_delay_five_minutes": _truth("held", _DELAYS, "other"),
    "flink5/q23_keep_last_of_id": _HEALTHY,
    "flink5/q24_join_then_window_ten_seconds": _truth("no fault", "no fault | operator sends it later", "Join"),
    "spark5/m01_tws_late_dropped": _truth("rows lost", "delay smaller than the lateness"),
    "spark5/m02_two_queries_delay_ten_minutes": _truth("held", _DELAYS, "the delay"),
    "spark5/m03_restart_then_b_silent": _truth("held", "silent source", "b]"),
    "spark5/m04_session_window_b_behind": _truth("held", f"{_BEHIND} | {_DELAYS}", "b]", "longest delay"),
    "spark5/m05_outer_join_ten_minutes": _SPARK_FINE,
    "spark5/m06_dedup_within_watermark_half_null": _SPARK_FINE,
    "spark5/m07_tws_none_mode": _SPARK_FINE,
    "spark5/m08_b_two_hours_ahead": _SPARK_FINE,
    "spark5/m09_foreach_batch_state_b_older": _truth("rows lost", _MAX),
    "spark5/m10_window_30_min": _SPARK_FINE,
    "spark5/m11_join_one_sided": _truth("no fault | cannot tell", "no fault | state is not freed"),
    "spark5/m12_join_without_time": _truth("no fault | cannot tell", "no fault | state is not freed"),
    "spark5/m13_join_then_window": _SPARK_FINE,
}
_LAST: Final = {
    # Each hundredth row is 30 s ahead.
    "flink6/g09_some_rows_ahead": _truth("rows lost", "delay smaller than the lateness | jump into the future"),
    # A filter before the assigner takes every row from 9 s on.
    "flink6/g11_filter_takes_all_later": _truth("held", "no row reaches the watermark", "valid"),
    # An operator passes a watermark on, or a marker row gives one, each 12 s.
    "flink6/g16_passes_each_twelve_seconds": _truth("no fault | cannot tell", "no fault"),
    "flink6/g17_marker_each_twelve_seconds": _truth("no fault | cannot tell", "no fault | watermark generator"),
    # The control stream sends the last watermark of all, and goes on.
    "flink6/g22_control_sends_the_last_watermark": _HEALTHY,
    "flink6/g23_one_split_in_seconds": _truth("held", "unit of time", "p1", "subtask 1 of orders"),
    "flink6/g27_fails_after_six_seconds": _truth("held | not running", "restarts | restarting"),
    "flink6/g30_early_results_split_silent": _truth("held", _SILENT_PART, "subtask 1 of orders", "p1"),
    # GROUP BY without time over a union with a silent table: nobody needs the watermark.
    "flink6/q31_silent_group_without_time": _HEALTHY,
    "flink6/q33_mini_batch_window": _HEALTHY,
    "spark6/k01_pandas_event_timeout_b_silent": _truth("held", "silent source", "b]"),
    # Another source is silent, and nobody needs the watermark.
    "spark6/k03_dedup_without_time_b_silent": _truth("no fault | cannot tell", "no fault | state is not freed"),
    "spark6/k04_complete_b_silent": _truth("no fault | cannot tell", "no fault | state is not freed"),
    "spark6/k07_times_in_seconds": _truth("held", "unit of time"),
}
# Jobs of a fourth person, who had read neither the rules nor their answers.
_STRANGE: Final = {
    # A map throws each six seconds, and no operator has a watermark.
    "flink7/h01_restart_loop_no_watermarks": _truth("held | not running", "restarts | restarting"),
    "flink7/h13_rescaled": _truth("no fault", "no fault | restarts"),
    # All rows since go to a side output, so that none counts as dropped.
    "flink7/h17_future_row_side_output": _truth("held | rows lost", "jump into the future", "orders"),
    "flink7/h18_clock_back": _truth(
        "rows lost | held", f"delay smaller than the lateness | rows are no newer | {_BEHIND}", "orders"
    ),
    "flink7/h21_row_each_27_s": _truth(
        "no fault | cannot tell | held", f"no fault | {_SILENT_PART}", "p1", "subtask 1 of orders"
    ),
    # One of its two pipelines throws each six seconds, the other one goes on.
    "flink7/h35_region_restarts": _truth("held | not running", "restarts | restarting"),
    # Its function has timers of the clock alone, so that nobody waits for the watermark; no metric says so.
    "flink7/h37_only_processing_timers": _truth(
        "no fault | held | cannot tell", "no fault | silent source", "payments"
    ),
    "flink7/q41_temporal_join_silent": _truth("held", f"silent source | {_SILENT_PART}", "rates"),
    # It takes the first row of each id by the clock.
    "flink7/q43_first_row_silent": _HEALTHY,
    # Its source hangs in a call from 10 s on.
    "flink7/i14_reader_hangs": _truth("held", "operator does not pass it on | back pressure", "subtask 1 of orders"),
    # It sends the watermark ten minutes later, to a sink, which does not wait.
    "flink7/q64_left_join_other_sink": _HEALTHY,
    "spark7/p01_update_without_watermark": _SPARK_FINE,
    "spark7/p01_update_without_watermark_bare": _SPARK_FINE,
    "spark7/p02_complete_without_watermark": _SPARK_FINE,
    "spark7/p07_available_now": _truth("not running", "not running"),
    "spark7/p18_left_join_b_never": _truth("held", "silent source", "/b]"),
    "spark7/r01_update_b_silent": _SPARK_FINE,
    "spark7/r08_times_cut_to_the_day": _truth("held", "rows are no newer", "a]"),
    # Between two looks for rows no batch runs, so that the last windows stay.
    "spark7/r09_no_batches_without_rows": _truth("held | cannot tell", "no batches without rows", "noDataMicroBatches"),
    # Each row comes out at once, and is kept for a day, to tell the next one of its kind.
    "spark7/p24_dedup_delay_a_day": _SPARK_FINE,
}
RUNS: Final = {f"kept {name}": truth for name, truth in _KEPT.items()} | {
    f"further {name}": truth for name, truth in (_FURTHER | _NEW | _LATER | _LAST | _STRANGE).items()
}
"""Every run: "kept" ones come with wmlab, "further" ones are logs of the tests alone."""
FURTHER_REMEDIES: Final = (
    ("flink4/q11_pipeline_silent_long", "scan.watermark.idle-timeout", "flink4/q12_scan_idle"),
    ("flink4/q11_pipeline_silent_long", "table.exec.source.idle-timeout", "flink4/q13_job_idle"),
    ("flink4/d16_alignment_with_silent", "withIdleness", "flink4/d40_alignment_idle_timeout"),
    ("spark4/n24_rows_in_turns_40s", "withWatermark", "spark4/n28_delay_40s"),
    ("spark4/n25_tws_union_silent", "spark.sql.streaming.multipleWatermarkPolicy", "spark4/n29_tws_union_max"),
)
"""A further run, a setting that is advised there, and the same job with it."""
SHOWN: Final = [name for name in RUNS if name.startswith(("further flink3", "further spark3"))]
"""Situations that were found after the first rules were written; the log of one more, of no batch, is a stub."""


def file_of(run: str) -> Path:
    """Where the log of a run is."""
    kind, _, name = run.partition(" ")
    return wm.engine.DIRECTORY / f"{name}.jsonl" if kind == "kept" else HERE / f"{name}.jsonl.gz"


def is_sure_and_wrong(
    run: str, answer: wm.engine.JobExplanation, *, at_end: bool = True, also: frozenset[str] = frozenset()
) -> bool:
    """Whether an answer is sure of what is not true, of any end of the plan.

    That nothing is wrong may be said before the end, and of a better end of the plan.
    """
    truth = RUNS[run]
    fine = frozenset({FINE})
    may_be_fine = not at_end or FINE in truth.verdicts
    return _is_wrong(truth, answer, also | fine if may_be_fine else also) or any(
        _is_wrong(truth, each, also | fine) for each in answer.others
    )


def _is_wrong(truth: Truth, answer: wm.engine.JobExplanation, also: frozenset[str]) -> bool:
    if answer.certainty != "sure":
        return False
    if answer.cause not in truth.causes | also:
        return True
    holder = answer.whose or ""
    return bool(holder and answer.cause != FINE) and not any(each in holder for each in truth.holders)


def problem_at_end(run: str, answer: wm.engine.JobExplanation) -> str | None:
    """What is wrong in the answer at the end of a log: its verdict, or that the right cause is not in it."""
    truth = RUNS[run]
    if answer.verdict not in truth.verdicts:
        return f"the verdict is {answer.verdict}"
    causes = [answer.cause] if answer.certainty == "sure" else [each.cause for each in answer.candidates]
    if not truth.causes.intersection(causes):
        return f"the causes are {causes}, {answer.certainty}"
    return "it is sure and wrong" if is_sure_and_wrong(run, answer) else None
