"""The scrubber: moments that widgets, Python and a saved page go to."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from tests.streams.everything import LENGTH_MS, everything, unread
from wmlab.core import live_view
from wmlab.core.charts.svg import draw_svg
from wmlab.core.errors import ChartError, RecordingError
from wmlab.core.invariants import Evidence, Verdict, Verdicts
from wmlab.streams import charts
from wmlab.streams.api import Scenario
from wmlab.streams.recording import StreamRecording
from wmlab.streams.scenario.parts import EventWriter
from wmlab.streams.scrub import Scrubber

BUDGET_BYTES = 100_000


def slide(scrubber: Scrubber, step: int) -> None:
    """What a browser does when the slider is moved."""
    scrubber._slider.value = step


def test_the_chart_and_the_sentence_are_those_of_the_moment() -> None:
    scrubber = everything().scrub(at_ms=0)
    for at_ms in (0, 1_234, 13_579, 26_500, LENGTH_MS):
        scrubber.at_ms = at_ms
        assert scrubber.chart == charts.moment(everything(), at_ms)
        assert scrubber.sentence == scrubber.chart.sentence
        assert scrubber.sentence in scrubber._words.value.replace("\u00a0", " ").replace("\u202f", " ")


def test_the_slider_goes_through_the_run_and_an_event_between_two_steps_stays_there() -> None:
    scrubber = everything().scrub(at_ms=0)
    slide(scrubber, 7)
    assert scrubber.at_ms == 7 * scrubber._step_ms
    slide(scrubber, scrubber._slider.max)
    assert scrubber.at_ms == LENGTH_MS
    scrubber.at_ms = 13_005
    assert scrubber.at_ms == 13_005
    assert scrubber._slider.value == 13_005 // scrubber._step_ms
    slide(scrubber, scrubber._slider.value + 1)
    assert scrubber.at_ms == (13_005 // scrubber._step_ms + 1) * scrubber._step_ms


def test_a_run_of_odd_length_ends_with_the_last_step() -> None:
    run = Scenario("odd", writers=[EventWriter("w", rate_per_s=10)], duration_ms=4_999, seed=1).record(progress=False)
    scrubber = run.scrub(at_ms=4_999)
    assert (scrubber.at_ms, scrubber._slider.value) == (4_999, scrubber._slider.max)
    slide(scrubber, 0)
    slide(scrubber, scrubber._slider.max)
    assert scrubber.at_ms == 4_999


def test_events_are_gone_through_in_both_directions() -> None:
    scrubber = everything().scrub(at_ms=0)
    times = sorted({event.at_ms for event in scrubber.events if event.at_ms > 0})
    forward = [scrubber.next_event().at_ms for _ in times]
    back = [scrubber.previous_event().at_ms for _ in times[1:]]
    assert (forward, back) == (times, times[-2::-1])
    assert f"Event 1 of {len(scrubber.events)}" not in scrubber._words.value


def test_the_events_of_a_party_and_what_is_said_where_there_is_no_other() -> None:
    scrubber = everything().scrub(at_ms=5_000)
    assert scrubber.next_event("w2").at_ms == 12_000
    assert ", at 12.0 s: w2 crashes." in scrubber._words.value.replace("\u00a0", " ").replace("\u202f", " ")
    while scrubber.next_event("w2").notice == "":
        pass
    last_ms = scrubber.at_ms
    assert (scrubber.notice, last_ms) == (
        "There is no later event.",
        max(e.at_ms for e in scrubber.events if "w2" in e.parties),
    )
    assert "There is no later event." in scrubber._words.value
    scrubber.at_ms = 0
    assert scrubber.previous_event("w2").notice == "There is no earlier event."
    with pytest.raises(ChartError, match=r"(?s)Nothing happened to 'w9'.*w1, w2"):
        scrubber.next_event("w9")


def test_the_buttons_go_to_the_events_of_the_chosen_party_and_are_off_where_there_is_none() -> None:
    scrubber = everything().scrub(at_ms=5_000)
    scrubber._party.value = "w2"
    scrubber._next.click()
    assert scrubber.at_ms == 12_000
    scrubber._previous.click()
    assert scrubber.at_ms < 5_000
    scrubber.at_ms = LENGTH_MS
    assert (scrubber._previous.disabled, scrubber._next.disabled) == (False, True)
    scrubber.at_ms = 0
    assert (scrubber._previous.disabled, scrubber._next.disabled) == (True, False)


def test_without_a_moment_it_begins_at_an_event_before_the_middle() -> None:
    scrubber = everything().scrub()
    assert scrubber.at_ms == max(event.at_ms for event in scrubber.events if event.at_ms <= LENGTH_MS // 2)


def widgets_of(scrubber: Scrubber) -> list[object]:
    return [widget for row in scrubber.widget.children for widget in getattr(row, "children", ())]


def verdicts() -> Verdicts:
    said = {"statement": "a promise", "judged": 3, "violations": 1, "what": "it moved back"}
    proofs = {"I3": 20_005, "I1": 5_005}
    found = (
        Verdict(
            invariant=name,
            verdict="violated",
            evidence=(Evidence("watermarks", {"stream": "orders", "emitted_ms": at_ms}),),
            **said,  # type: ignore[arg-type]
        )
        for name, at_ms in proofs.items()
    )
    return Verdicts("everything", tuple(found))


def test_it_begins_at_the_first_violation_and_goes_to_the_chosen_one() -> None:
    scrubber = everything().scrub(verdicts=verdicts())
    assert scrubber.at_ms == 5_005
    assert scrubber._violation.options == (
        "Go to a violation",
        "5.0 s: I1 is violated: it moved back",
        "20.0 s: I3 is violated: it moved back",
    )
    scrubber._violation.index = 2
    assert scrubber.at_ms == 20_005
    scrubber.next_event()
    assert scrubber._violation.index == 0, "so that the same violation can be chosen again"
    assert scrubber._violation in widgets_of(scrubber)
    without = everything().scrub()
    assert without._violation not in widgets_of(without)


def test_a_moment_outside_is_refused_at_first_and_later_the_nearest_one_inside() -> None:
    for at_ms, words in ((10**9, "11 d 13 h 46 min 40 s"), ("1 h", "1 h"), (-3, "−3 ms")):
        with pytest.raises(ChartError, match=f"{words} is outside the run, which lasts from 0 ms to 30 s.") as refused:
            everything().scrub(at_ms=at_ms)
        assert refused.value.remedy == "give a moment of the run."
    scrubber = everything().scrub()
    scrubber.at_ms = 10**9
    assert scrubber.at_ms == LENGTH_MS
    assert scrubber.notice == "11 d 13 h 47 min is after the recording, which ends at 30.0 s."
    assert scrubber.notice in repr(scrubber)
    assert scrubber.notice in scrubber._words.value.replace("\u00a0", " ").replace("\u202f", " ")
    scrubber.at_ms = LENGTH_MS
    assert scrubber.notice == ""
    scrubber.at_ms = -3
    assert (scrubber.at_ms, scrubber.notice) == (0, "−3 ms is before the recording, which begins at 0 s.")


def test_wrong_moments_streams_and_recordings_without_segments_are_refused() -> None:
    with pytest.raises(ChartError, match="not a moment"):
        everything().scrub(at_ms="5")
    with pytest.raises(RecordingError, match="'payments'"):
        everything().scrub(stream="payments")
    with pytest.raises(RecordingError, match="'flows' has no stream"):
        StreamRecording.from_tables({}, name="flows").scrub()


def test_a_move_reads_no_table_again(monkeypatch: pytest.MonkeyPatch) -> None:
    scrubber = everything().scrub(at_ms=14_000)
    for verb in ("table", "chunks"):
        monkeypatch.setattr(StreamRecording, verb, None)
    for at_ms in (20_000, 5_000):
        scrubber.at_ms = at_ms
        assert scrubber.sentence


def test_the_stored_form_is_the_same_every_time_and_small(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[dict[str, str]] = []
    monkeypatch.setattr(live_view, "publish", shown.append)
    for _ in range(2):
        everything().scrub(at_ms=14_000)._ipython_display_()
    first, note, live, second, same_note, other = shown
    assert set(first) == {"image/svg+xml", "text/plain"}
    assert first["image/svg+xml"] == charts.moment(everything(), 14_000).svg
    assert (first, note) == (second, same_note)
    assert "run this cell to bring it to life" in note["text/html"]
    assert live.keys() == other.keys() == {"application/vnd.jupyter.widget-view+json"}
    assert len(json.dumps(first)) < BUDGET_BYTES


def test_the_words_name_every_party() -> None:
    lines = repr(everything().scrub(at_ms=14_000)).splitlines()
    assert lines[0] == "everything at 14.0 s"
    assert lines[1] == everything().explain(14_000, group="billing").headline
    named = {" ".join(line.split()[:2]).rstrip(",") for line in lines[2:]}
    assert {"segment 1@3", "writer w1", "writer w2", "writer t1", "watermark 11.2", "reader billing-0"} <= named


def moments_of(page: str) -> list[str]:
    found = re.search(r'<script type="application/json" id="moments">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    moments: list[str] = json.loads(found[1])
    return moments


def test_the_page_has_the_moments_rendered_and_fetches_nothing(tmp_path: Path) -> None:
    scrubber = everything().scrub(at_ms=14_000)
    page = scrubber.save(tmp_path / "run.html").read_text(encoding="utf-8")
    moments = moments_of(page)
    assert 50 <= len(moments) <= 62
    assert "<b>0 s</b>" in moments[0].replace("\u00a0", " ").replace("\u202f", " ")
    assert "<b>30.0 s</b>" in moments[-1].replace("\u00a0", " ").replace("\u202f", " ")
    assert any("w2 crashes." in moment for moment in moments)
    here = page.partition("<main")[2].partition("</main>")[0]
    assert "<b>14.0 s</b>" in here.replace("\u00a0", " ").replace("\u202f", " ")
    assert here.partition(">")[2] in moments
    for text in re.findall(r"<svg.*?</svg>", here, re.DOTALL):
        ET.fromstring(text)
    assert draw_svg(scrubber.chart.scene, 540, headed=False, hover=True) in here
    assert re.findall(r"""(?:src|href)\s*=|@import|url\(|fetch\(|import\(|^import """, page, re.MULTILINE) == []
    assert set(re.findall(r"https?://[^\"' <\\\\]+", page)) == {"http://www.w3.org/2000/svg"}


def test_a_name_cannot_break_out_of_the_page(tmp_path: Path) -> None:
    run = unread()
    renamed = type(run)(replace(run.manifest, name="</script><b id=x>"), run.tables)
    page = renamed.scrub().save(tmp_path / "run.html").read_text(encoding="utf-8")
    assert "<b id" not in page
    assert page.count("</script>") == 2


def test_the_moment_can_be_saved(tmp_path: Path) -> None:
    scrubber = everything().scrub(at_ms=14_000)
    for suffix, begin in ((".svg", "<svg "), (".txt", "everything at 14.0 s")):
        assert scrubber.save(tmp_path / f"moment{suffix}").read_text(encoding="utf-8").startswith(begin)
    with pytest.raises(ChartError, match=r"(?s)'moment.gif'.*\.html"):
        scrubber.save(tmp_path / "moment.gif")


def test_a_run_that_nobody_read_can_be_scrubbed() -> None:
    assert "segment 0@0, open" in repr(unread().scrub(at_ms=5_000))
