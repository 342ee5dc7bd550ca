"""Where the lower bound of readers loses time, against the bounds at every millisecond, and what has no answer."""

from __future__ import annotations

from bisect import bisect_right
from statistics import fmean

import pytest

from tests.streams.sim.worlds import scenario
from wmlab.core.errors import RecordingError
from wmlab.streams.scenario.parts import EventWriter, ReaderGroup


def run(**group):
    readers = ReaderGroup("readers", readers=2, rate_per_s=200.0, **group)
    return scenario(writers=[EventWriter("w", rate_per_s=20, note_every_ms=700)], readers=readers).record()


def at_each_ms(steps, from_ms, to_ms):
    moments = [at_ms for at_ms, _ in steps]
    return [steps[bisect_right(moments, at_ms) - 1][1] for at_ms in range(from_ms, to_ms)]


@pytest.mark.parametrize("read_side", ["implementation", "document"])
def test_the_parts_are_what_the_bounds_at_every_millisecond_give(read_side: str) -> None:
    recording = run(publish_every_ms=900, read_side=read_side)
    answer = recording.delays(from_ms=6_000)
    marks, windows = recording.to_pandas("watermarks"), recording.to_pandas("windows").dropna(subset="lower")
    log = list(zip(marks.emitted_ms, marks.lower, strict=True))
    group = [(at_ms, window.lower) for at_ms, window in recording.group_windows()["readers"]]
    seen = [list(zip(rows.at_ms, rows.lower, strict=True)) for _, rows in windows.groupby("reader")]
    newest, known, *looked = (fmean(at_each_ms(steps, 6_000, answer.to_ms)) for steps in (log, group, *seen))
    clock = fmean([6_000, answer.to_ms])
    parts = (answer.watermark_ms, answer.publish_ms, answer.poll_ms)
    assert parts == (round(clock - newest), round(newest - known), round(known - fmean(looked)))
    assert min(parts) >= 0
    assert answer.age_ms == sum(parts) > 0


def test_they_begin_when_all_readers_know_a_bound() -> None:
    recording = run(publish_every_ms=900)
    windows = recording.to_pandas("windows").dropna(subset="lower")
    assert recording.delays().from_ms == windows.groupby("reader").at_ms.min().max()
    with pytest.raises(RecordingError, match="not all readers of readers knew a lower bound at 0 ms"):
        recording.delays(from_ms=0)
    with pytest.raises(RecordingError, match="has no reader group 'other'"):
        recording.delays(group="other")


def test_a_reader_that_looks_less_often_loses_time_in_its_poll_and_the_log_is_the_same() -> None:
    often, seldom = (run(publish_every_ms=every_ms).delays(from_ms=8_000) for every_ms in (200, 2_000))
    assert often.watermark_ms == seldom.watermark_ms
    assert often.poll_ms < seldom.poll_ms
    assert "readers knew the time of stream" in often.sentence
