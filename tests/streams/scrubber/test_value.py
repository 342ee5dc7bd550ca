from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from tests.streams.scrubber.runs import LENGTH_MS, everything, unread
from wmlab.core import live_view
from wmlab.core.answers import Proof, Verdict, Verdicts
from wmlab.core.errors import ChartError, RecordingError
from wmlab.streams.api import Scenario
from wmlab.streams.recording import StreamRecording

BUDGET_BYTES = 100_000


def test_the_sentence_is_that_of_explain_at_every_change() -> None:
    scrubber = everything().scrub(at_ms=0)
    for at_ms in (*scrubber.frames.changes, 1_234, 13_579, 26_500):
        scrubber.at_ms = at_ms
        assert scrubber.sentence == everything().explain(at_ms=at_ms).sentence


def test_steps_go_both_ways_over_all_changes() -> None:
    scrubber = everything().scrub(at_ms=0)
    moments = [scrubber.at_ms] + [scrubber.step().at_ms for _ in scrubber.frames.changes[1:]]
    back = [scrubber.at_ms] + [scrubber.step(-1).at_ms for _ in scrubber.frames.changes[1:]]
    assert moments == list(scrubber.frames.changes) == back[::-1]
    assert scrubber.step(-1).at_ms == 0


def test_jumps_go_to_incidents_and_say_when_there_is_none() -> None:
    scrubber = everything().scrub(at_ms=0)
    assert scrubber.jump("scale").at_ms == 8_000
    assert scrubber.jump("fault").at_ms == 12_000
    assert scrubber.jump("scale", backwards=True).jump("scale", backwards=True).at_ms == 8_000
    assert scrubber.notice == ""
    scrubber.jump("scale", backwards=True)
    assert (scrubber.at_ms, scrubber.notice) == (8_000, "There is no earlier scale")
    with pytest.raises(ChartError, match=r"(?s)'storm'.*scale"):
        scrubber.jump("storm")


def test_a_moment_outside_is_clamped_and_said_wherever_it_is_given() -> None:
    scrubber = everything().scrub(at_ms=10**9)
    assert scrubber.at_ms == LENGTH_MS
    said = "11 d 13 h 46 min 40 s is after the recording, which ends at 30 000 ms"
    assert repr(scrubber).endswith(f"({said})")
    assert said in scrubber.still()[0].replace("\u00a0", " ")
    scrubber.at_ms = LENGTH_MS
    assert scrubber.notice == ""
    scrubber.at_ms = -3
    assert (scrubber.at_ms, scrubber.notice) == (0, "-3 ms is before the recording, which begins at 0 ms")
    scrubber.at_ms = 0
    assert scrubber.notice == ""


def test_wrong_moments_streams_and_recordings_without_segments_are_refused() -> None:
    with pytest.raises(ChartError, match="no moment"):
        everything().scrub(at_ms="5")
    with pytest.raises(RecordingError, match="'payments'"):
        everything().scrub(stream="payments")
    with pytest.raises(RecordingError, match="'flows' has no stream"):
        StreamRecording.from_tables({}, name="flows").scrub()


def test_the_stored_form_is_the_same_every_time_and_small(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[dict[str, str]] = []
    monkeypatch.setattr(live_view, "publish", shown.append)
    for _ in range(2):
        everything().scrub(at_ms=14_000)._ipython_display_()
    first, note, live, second, same_note, other = shown
    assert set(first) == {"image/svg+xml", "text/plain"}
    assert (first, note) == (second, same_note)
    assert "run this cell to bring it to life" in note["text/html"]
    assert live.keys() == other.keys() == {"application/vnd.jupyter.widget-view+json"}
    assert len(json.dumps(first)) < BUDGET_BYTES


def test_a_minute_is_at_most_90_kilobytes() -> None:
    minute = Scenario.load("data/scenarios/first_bounds.yaml").record(progress=False)
    assert minute.scenario["duration_ms"] == 60_000
    assert len(minute.scrub().frames_json.encode()) < 90_000


def test_the_words_name_every_lane() -> None:
    lines = repr(everything().scrub(at_ms=14_000)).splitlines()
    assert lines[0].startswith("everything at 14 000 ms, change ")
    assert lines[1] == everything().explain(at_ms=14_000).sentence.replace("lower", "Lower", 1) + "."
    told = [line.partition(":")[0].strip() for line in lines[2:]]
    assert {"append to", "newest cut", "read", "w1", "w2", "t1", "watermark", "billing-0 sees"} <= set(told)


def test_the_picture_is_well_formed_and_told_to_a_screen_reader() -> None:
    scrubber = everything().scrub(at_ms=14_000)
    root = ET.fromstring(scrubber.still()[0])
    space = {"svg": "http://www.w3.org/2000/svg"}
    assert root.get("role") == "img"
    assert root.findtext("svg:desc", namespaces=space) == scrubber.frames.text(14_000)


def verdicts(*evidence: Proof, verdict: str = "violated") -> Verdicts:
    broken = Verdict(
        invariant="I3",
        statement="the cut never moves back",
        verdict=verdict,  # type: ignore[arg-type]
        judged=3,
        violations=1,
        what="it moved back",
        evidence=evidence,
    )
    return Verdicts("everything", (broken,))


def test_it_begins_at_the_first_violation() -> None:
    rows = (
        Proof("watermarks", {"stream": "orders", "seq": 1, "emitted_ms": 4_005}),
        Proof("watermarks", {"stream": "orders", "seq": 2, "emitted_ms": 5_005}),
        Proof("segments", {"stream": "orders", "segment_id": 0}),
    )
    scrubber = everything().scrub(verdicts=verdicts(*rows))
    assert scrubber.at_ms == 5_005
    assert scrubber.frames.next_incident(0, "violation").text == "I3 violated: it moved back"


@pytest.mark.parametrize(
    "found",
    [
        verdicts(Proof("watermarks", {"stream": "payments", "emitted_ms": 4_005})),
        verdicts(Proof("segments", {"stream": "orders", "segment_id": 0})),
        verdicts(verdict="unknown"),
    ],
)
def test_what_is_no_violation_of_this_stream_at_a_moment_is_no_incident(found: Verdicts) -> None:
    scrubber = everything().scrub(verdicts=found)
    assert "violation" not in scrubber.frames.kinds
    assert scrubber.at_ms == scrubber.frames.step(LENGTH_MS // 2, 0)


def test_the_page_holds_everything_and_fetches_nothing(tmp_path: Path) -> None:
    scrubber = everything().scrub(at_ms=14_000)
    page = scrubber.save(tmp_path / "run.html").read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="frames">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    assert json.loads(found[1]) == json.loads(scrubber.frames_json)
    assert re.findall(r"""(?:src|href)\s*=|@import|url\(|fetch\(|import\(|^import """, page, re.MULTILINE) == []
    assert set(re.findall(r"https?://[^\"' <]+", page)) == {"http://www.w3.org/2000/svg"}
    assert scrubber.frames.heading(14_000) in page


def test_a_name_cannot_break_out_of_the_page(tmp_path: Path) -> None:
    run = unread()
    renamed = type(run)(replace(run.manifest, name="</script><b>"), run.tables)
    page = renamed.scrub().save(tmp_path / "run.html").read_text(encoding="utf-8")
    assert "<b>" not in page
    assert page.count("</script>") == 2


def test_the_moment_can_be_saved(tmp_path: Path) -> None:
    scrubber = everything().scrub(at_ms=14_000)
    for suffix, begin in ((".svg", "<svg "), (".txt", "everything at 14 000 ms")):
        assert scrubber.save(tmp_path / f"moment{suffix}").read_text(encoding="utf-8").startswith(begin)
    with pytest.raises(ChartError, match=r"(?s)'moment.gif'.*\.html"):
        scrubber.save(tmp_path / "moment.gif")


def test_beside_a_lane_the_day_is_written_once() -> None:
    start_ms = 1_388_757_600_000
    lines = repr(everything(start_ms=start_ms).scrub(at_ms=start_ms + 14_000)).splitlines()
    assert any(re.fullmatch(r"  watermark: Jan 3, 14:00:\d\d to 14:00:\d\d", line) for line in lines)


def test_a_run_that_nobody_read_can_be_scrubbed() -> None:
    scrubber = unread().scrub(at_ms=5_000)
    assert scrubber.frames.kinds == ()
    assert "append to: 0@0" in repr(scrubber)


def test_any_reader_can_be_chosen_for_the_overview() -> None:
    scrubber = everything().scrub(at_ms=14_000)
    readers = list(scrubber.frames.overviews)
    assert len(readers) > 1
    for reader in readers:
        scrubber.reader = reader
        assert f"The bounds that {reader} of group billing sees" in scrubber.still()[0].replace("\u00a0", " ")
        assert f"lower, {reader}" in scrubber.still()[0].replace("\u00a0", " ")
        assert scrubber.frames.panels[-1].still == everything().scrub(reader=reader).frames.panels[-1].still
    with pytest.raises(ChartError, match=rf"(?s)'nobody'.*{readers[0]}"):
        scrubber.reader = "nobody"
    assert scrubber.reader == readers[-1]
