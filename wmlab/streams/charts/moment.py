"""The chart of a moment: the key space with the newest cut, and below it what writers noted and readers saw.

All panels have one axis of time, on which the moment is a line. An offset lies where the segment became that long: so a
stream cut or a reader's position is left of the moment by what was written since. Times that were noted or are seen lie
where the axis has them. Where event times are not on the scale of the clock, the axis has event times only. An offset
then lies at the largest event time up to there.

Source: PDP-33, Stream Cuts, Watermark Computation and Watermarking in the Reader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from wmlab.core.arguments import the_moment
from wmlab.core.charts.axis import Axis, Coordinate, Numbers, Tick, duration_unit, time_words
from wmlab.core.charts.chart import Chart, chart_of, columns, drawn_words, one_stream, share_of
from wmlab.core.charts.scene import Blocks, Box, Dots, Layer, Panel, Path, Rule, dots
from wmlab.core.errors import ChartError
from wmlab.core.recording import Recording, moment_of_run
from wmlab.core.words import is_instant
from wmlab.streams.answers.curves import LOG, Curve
from wmlab.streams.answers.explain import explain_curve
from wmlab.streams.answers.head_labels import asked
from wmlab.streams.answers.moment import (
    Clock,
    ReaderState,
    RecordedStates,
    SegmentState,
    StreamState,
    WatermarkState,
    WriterState,
    note_words,
    read_states,
    size_words,
    window_words,
)
from wmlab.streams.answers.run_state import Note
from wmlab.streams.model.segment import segment_name

_MOST_LANES: Final = 8
"""Writers drawn, and readers: those that are furthest behind."""
_NEAR: Final = 5
_FAR: Final = 15
_SAMPLE: Final = 2_000
"""Over how many usual lags the axis goes back at least and at most, and from how many times the usual one is taken."""
_WITHOUT_TIMES_MS: Final = 30_000
"""How far the axis goes back at most if no time is known."""
_MOST_CUTS: Final = 100
"""Of how many watermarks the cuts are drawn, the newest ones."""
_LANE: Final = 46.0
_KEYS: Final = 200.0
_MARKS: Final = (0.04, 0.42)
"""From where to where the marks of a lane are, from its middle; above them are its words."""
_LETTERS: Final = 60
"""How many letters of a lane have room in a narrow picture, about."""
_LEAST_LETTERS: Final = 6
"""What is left of a long name at least."""
_QUARTERS: Final = tuple(Tick(quarter / 4, str(Fraction(quarter, 4))) for quarter in range(5))


def moment(
    recording: Recording,
    at_ms: int | str,
    *,
    stream: str | None = None,
    group: str | None = None,
    title: str | None = None,
) -> Chart:
    """Draw the segments, notes, stream cuts and reads of a stream at `at_ms` (clock, ms, or a text such as "36 s").

    The upper part shows the key space: its segments, the events that the group has not read yet, the cuts of the newest
    watermarks, the group's position, and the position of each writer's last note. The lower part has a lane for each
    writer with its noted times, for the newest watermark, and for the window of each reader. Of many writers and
    readers, the 8 furthest behind are drawn. `group` is by default the first by name. Raises `ChartError` if there are
    several streams and none is chosen, `RecordingError` for a group that did not read, a moment outside the run, or a
    stream in which nothing happened.
    """
    name = one_stream(recording, stream, "segments")
    the_moment(at_ms, ChartError, start_ms=recording.start_ms)
    at = moment_of_run(recording, at_ms)
    return draw_moment(MomentView.of(read_states(recording, name, group=group)), at, title=title)


@dataclass(frozen=True, slots=True)
class MomentView:
    """The states of a stream, and how long the axis of its moments is: `behind` and `ahead` (ms)."""

    states: RecordedStates
    behind: int
    ahead: int

    @classmethod
    def of(cls, states: RecordedStates) -> MomentView:
        """The axis reaches back over nearly all lags of noted times and bounds, and ahead to the times beyond now."""
        sample = share_of(list(states.known_times()), _SAMPLE)
        lags = sorted(_now(states, until_ms) - time for _, until_ms, time in sample)
        ahead = sorted(time - _now(states, from_ms) for from_ms, _, time in sample)
        if not lags:  # nobody has noted a time
            return cls(states, min(states.high_ms - states.low_ms, _WITHOUT_TIMES_MS), _WITHOUT_TIMES_MS // 20)
        usual = max(lags[len(lags) // 2], 20)
        behind = min(max(lags[-1], _NEAR * usual), _FAR * usual)
        return cls(states, behind + behind // 10, min(max(ahead[-1], 0), behind) + behind // 20)

    def axis(self, at_ms: int) -> Axis:
        """The axis of a moment; it begins with the run and then moves along with the moment."""
        states, now = self.states, _now(self.states, at_ms)
        low, high = now - self.behind, now + self.ahead
        if states.shares_clock and low < states.low_ms:
            low, high = states.low_ms, states.low_ms + high - low
        name = "clock and event time" if states.shares_clock else "event time"
        instants = is_instant([low, high], clock=[states.low_ms])
        return Axis(name, low, high, instants, duration_unit(high - low))


def _now(states: RecordedStates, at_ms: int) -> int:
    """Where a moment is on the axis: at the clock, or at the largest event time so far."""
    return at_ms if states.shares_clock else states.newest_time(at_ms)


def draw_moment(view: MomentView, at_ms: int, *, title: str | None = None) -> Chart:
    """The chart of a moment of a recording whose states have been read; raises `RecordingError` as `moment` does.

    It says what holds the bound at the position of the drawn group, or that in the log if nobody reads.
    """
    state, axis = view.states.at(at_ms), view.axis(at_ms)
    words = time_words([axis.low, axis.high], clock=[view.states.low_ms])
    drawn = _Drawn(state, view.states, axis, words)
    lanes: list[_Lane] = [*_furthest(state.writers), _newest(state), *_furthest(state.readers)]
    parties = len(state.writers) + len(state.readers)
    fewer = drawn_words((len(lanes) - 1, parties, "writers and readers, those furthest behind"))
    states, now = view.states, _now(view.states, at_ms)
    curve = LOG if states.group is None else Curve(group=states.group)
    answer = explain_curve(states.curves, curve, states.stream, at_ms)
    return chart_of(
        answer.headline,
        columns([*_facts(state)], "party", "what", "segment", "value"),
        facts=answer.facts,
        title=title or asked("moment", stream=state.stream, moment=words_of_clock(view, at_ms)),
        note=fewer,
        across=axis,
        panels=[_key_space(drawn), _lanes(drawn, lanes)],
        rules=[Rule(now, f"now, {words(now)}" if view.states.shares_clock else "newest event time")],
    )


def words_of_clock(view: MomentView, at_ms: int) -> str:
    """A moment of the clock in words, as exact as next to a chart: "36.0 s", "Jan 3, 14:20:05"."""
    length_ms = view.behind + view.ahead
    return time_words([at_ms, at_ms + length_ms], clock=[view.states.low_ms])(at_ms)


def _newest(state: StreamState) -> WatermarkState:
    row = state.watermark
    return WatermarkState() if row is None else WatermarkState(row["lower"], row["upper"], row["emitted_ms"])


_Lane = WriterState | ReaderState | WatermarkState
_Party = WriterState | ReaderState


def _furthest(parties: Sequence[_Party]) -> list[_Party]:
    """As many as have a lane, those that are furthest behind, in the order of their names."""
    behind = sorted(parties, key=_time_of)[:_MOST_LANES]
    return [party for party in parties if party in behind]


def _time_of(party: _Party) -> float:
    if isinstance(party, ReaderState):
        return float("-inf") if party.lower is None else party.lower
    return float("-inf") if party.newest is None else party.newest.time


@dataclass(frozen=True, slots=True)
class _Drawn:
    """A state, and where its offsets and times are on the axis."""

    state: StreamState
    states: RecordedStates
    axis: Axis
    words: Clock

    def inside(self, x: int) -> int:
        """The value itself, or the end of the axis that is nearest to it."""
        return min(max(x, self.axis.low), self.axis.high)

    def covers(self, x: int | None) -> bool:
        """Whether a known time is on the axis."""
        return x is not None and self.axis.low <= x <= self.axis.high

    def x_of(self, segment: SegmentState, length: int) -> int:
        """Where on the axis a segment became so long."""
        appends = self.states.appends.get(segment.segment_id)
        entry = None if appends is None else appends.reached(length)
        if appends is None or entry is None:
            return segment.created_ms if self.states.shares_clock else self.axis.low
        return int((appends.at_ms if self.states.shares_clock else appends.newest)[entry])

    def ends(self, segment: SegmentState) -> tuple[int, int]:
        """From where to where a segment is on the axis, cut off at its low end."""
        low, high = self.x_of(segment, 0), self.x_of(segment, segment.length)
        if self.states.shares_clock:
            high = self.state.at_ms if segment.sealed_ms is None else segment.sealed_ms
        return self.inside(low), self.inside(max(low, high))


def _key_space(drawn: _Drawn) -> Panel:
    state = drawn.state
    # A sealed segment whose stretch has left the axis is drawn no more.
    segments = [segment for segment in state.segments if drawn.ends(segment)[1] > drawn.axis.low]
    recent = [row for row in state.watermarks[-_MOST_CUTS:] if row["emitted_ms"] > drawn.axis.low]
    earlier = [_line(drawn, segments, row["cut"], share=0.5) for row in recent[:-1]]
    newest = [_line(drawn, segments, row["cut"]) for row in state.watermarks[-1:]]
    position = [_line(drawn, segments, state.position)]
    layers: list[Layer] = [*_segments(drawn, segments)]
    if state.group is not None:
        layers.append(_unread(drawn, segments, state.group))
    layers.append(_path("earlier cuts", "fourth", earlier, thin=True, legend=False))
    layers.append(_path("newest cut, earlier ones thin", "fourth", newest))
    if state.group is not None:
        layers.append(_path(f"position of {state.group}", "third", position))
    layers.append(_noted_positions(drawn, segments))
    title = "Segments by keys: what was written, cut and read"
    return Panel(up=Numbers("key space", 0.0, 1.0, _QUARTERS), height=_KEYS, layers=layers, title=[title])


def _segments(drawn: _Drawn, segments: Sequence[SegmentState]) -> list[Blocks]:
    """The segments, and in the upper half of each its words."""
    blocks, words = [], []
    for segment in segments:
        left, right = drawn.ends(segment)
        middle, hover = (segment.low + segment.high) / 2, segment.words
        blocks.append(Box(left, right, segment.low, segment.high, hover=hover))
        room = drawn.axis.high if segment.sealed_ms is None else right  # nothing is drawn behind an open segment
        words.append(Box(left, room, middle, segment.high, segment.title, hover))
    seen = Blocks(name="segment", role="unknown", boxes=blocks, opacity=0.16, legend=False)
    return [seen, _unseen(words)]


def _unseen(boxes: Sequence[Box]) -> Blocks:
    """Words that stand in boxes which are not seen."""
    return Blocks(name="words", role="text", boxes=boxes, opacity=0, legend=False, outlined=False)


def _unread(drawn: _Drawn, segments: Sequence[SegmentState], group: str) -> Blocks:
    """What the group has not read: in the lower half of each segment, below the words of the segment."""
    boxes = []
    for segment in segments:
        if segment.offset is not None:
            left, right = drawn.inside(drawn.x_of(segment, segment.offset)), drawn.ends(segment)[1]
            middle, unread = (segment.low + segment.high) / 2, segment.unread
            right = right if unread else left
            hover = f"segment {segment.name}: {size_words(unread)} not read by {group}"
            boxes.append(Box(left, right, segment.low, middle, hover=hover))
    return Blocks(name=f"not read by {group}", role="third", boxes=boxes, opacity=0.2, outlined=False)


_Line = tuple[list[Coordinate | None], list[Coordinate | None]]


def _line(
    drawn: _Drawn, segments: Sequence[SegmentState], offsets: Mapping[int, int | None], *, share: float | None = None
) -> _Line:
    """Up through the segments of a cut or position, in the order of their keys.

    With `share` a stroke for each segment, which is not higher than that part of it, and none beyond the axis.
    """
    xs: list[Coordinate | None] = []
    ys: list[Coordinate | None] = []
    for segment in segments:
        if segment.segment_id in offsets:
            offset = offsets[segment.segment_id]
            x = drawn.x_of(segment, segment.length if offset is None else offset)
            if share is None:
                xs += [drawn.inside(x)] * 2
                ys += [segment.low, segment.high]
            elif drawn.covers(x):
                xs += [x, x, None]
                ys += [segment.low, segment.low + share * (segment.high - segment.low), None]
    return xs, ys


def _path(name: str, role: str, lines: Iterable[_Line], *, thin: bool = False, legend: bool = True) -> Path:
    """Lines of one meaning; they are in the legend even if there is none, so that the picture keeps its height."""
    xs: list[Coordinate | None] = [None]
    ys: list[Coordinate | None] = [None]
    for line_xs, line_ys in lines:
        xs += [*line_xs, None]
        ys += [*line_ys, None]
    return Path(name=name, role=role, xs=xs, ys=ys, thin=thin, legend=legend)


def _noted_positions(drawn: _Drawn, segments: Sequence[SegmentState]) -> Dots:
    """How far each writer had written when it last noted a time: in each segment a dot, below the segment's words."""
    points = []
    writers = [(writer.name, note) for writer in drawn.state.writers if (note := writer.newest)]
    for number, (writer, note) in enumerate(writers, start=1):
        for segment in segments:
            if segment.segment_id in note.position:
                offset = note.position[segment.segment_id]
                height = segment.low + (segment.high - segment.low) * (0.1 + 0.3 * number / (len(writers) + 1))
                hover = f"{writer} noted {drawn.words(note.time)} at {size_words(offset)} of segment {segment.name}"
                points.append((drawn.inside(drawn.x_of(segment, offset)), height, hover))
    return dots("where a writer last noted a time", "text", "circle", points, size=3.0)


def _lanes(drawn: _Drawn, lanes: Sequence[_Lane]) -> Panel:
    """A lane for each party: its words, and below them its times as marks."""
    newest, last = drawn.state.watermark, len(lanes) - 1
    lower = None if newest is None else newest["lower"]
    across = [_upright(lane, lower) for lane in range(last + 1) if drawn.covers(lower)]
    bounds = [
        (lane, party.lower, party.upper) for lane, party in enumerate(lanes) if not isinstance(party, WriterState)
    ]
    writers = [(lane, party) for lane, party in enumerate(lanes) if isinstance(party, WriterState)]
    layers: list[Layer] = [
        _words(drawn, lanes),
        *_windows(drawn, bounds),
        _path("lower bound of the newest watermark", "lower", across, thin=True, legend=False),
        _path("lower bound", "lower", [_upright(lane, x) for lane, x, _ in bounds if drawn.covers(x)]),
        _path("upper bound", "upper", [_upright(lane, x) for lane, _, x in bounds if drawn.covers(x)]),
        *_notes(drawn, writers),
        _beyond(drawn, writers, bounds),
    ]
    between = tuple(Tick(lane + 0.5, "") for lane in range(last))
    up, title = Numbers("", last + 0.5, -0.5, between), "Event times: what was noted, and what is known"
    return Panel(up=up, height=_LANE * len(lanes), layers=layers, title=[title])


def _upright(lane: int, x: int | None) -> _Line:
    """A stroke in a lane, below its words."""
    return [x, x], [lane + end for end in _MARKS]


def _words(drawn: _Drawn, lanes: Sequence[_Lane]) -> Blocks:
    """The words of each lane, which have its whole width."""
    boxes = []
    for lane, party in enumerate(lanes):
        text = party.words(drawn.words)
        label = text if isinstance(party, WatermarkState) else _with_short_name(text, party.name)
        boxes.append(Box(drawn.axis.low, drawn.axis.high, lane - 0.5, lane, label, text))
    return _unseen(boxes)


def describe_moment(view: MomentView, at_ms: int) -> list[str]:
    """What the chart of a moment shows, a line for each segment and each party."""
    state, axis = view.states.at(at_ms), view.axis(at_ms)
    clock = time_words([axis.low, axis.high], clock=[view.states.low_ms])
    parties: list[_Lane] = [*state.writers, _newest(state), *state.readers]
    segments = [segment for segment in state.segments if segment.sealed_ms is None or segment.offset is not None]
    return [*(segment.words for segment in segments), *(party.words(clock) for party in parties)]


def _with_short_name(text: str, name: str) -> str:
    """The words of a lane with as much of a long name as a narrow picture has room for, at least some letters."""
    letters = max(len(name) - max(len(text) - _LETTERS, 0), _LEAST_LETTERS)
    return text if len(name) <= letters else text.replace(name, f"{name[: letters - 1]}…", 1)


def _windows(drawn: _Drawn, bounds: Sequence[tuple[int, int | None, int | None]]) -> list[Blocks]:
    """From the lower bound of each lane to its upper one; where one is unknown, to the end of the axis."""
    known: list[Box] = []
    half: list[Box] = []
    top, bottom = _MARKS
    for lane, lower, upper in bounds:
        left = drawn.axis.low if lower is None else drawn.inside(lower)
        right = drawn.axis.high if upper is None else drawn.inside(upper)
        box = Box(left, right, lane + top, lane + bottom, hover=window_words(lower, upper, drawn.words))
        if lower is not None and upper is not None:
            known.append(box)
        elif lower is not None or upper is not None:
            half.append(box)
    return [
        Blocks(name="between the bounds", role="lower", boxes=known, opacity=0.25, legend=False, outlined=False),
        Blocks(name="one bound is unknown", role="unknown", boxes=half, opacity=0.2, legend=False, outlined=False),
    ]


def _notes(drawn: _Drawn, writers: Sequence[tuple[int, WriterState]]) -> list[Dots]:
    """The times that writers noted: the newest one large, refused ones as crosses."""
    on_axis = [(lane, writer, note) for lane, writer in writers for note in writer.notes if drawn.covers(note.time)]

    def points(chosen: Callable[[WriterState, Note], bool]) -> Iterator[tuple[int, float, str]]:
        for lane, writer, note in on_axis:
            if chosen(writer, note):
                yield note.time, lane + sum(_MARKS) / 2, note_words(writer.name, note, drawn.words)

    earlier = points(lambda writer, note: note.accepted and note is not writer.newest)
    newest = points(lambda writer, note: note is writer.newest)
    refused = points(lambda _, note: not note.accepted)
    return [
        dots("earlier noted time", "text", "circle", earlier, size=2.5, legend=False),
        dots("newest noted time", "title", "diamond", newest, size=5.0),
        dots("refused note", "alarm", "cross", refused, size=3.5),
    ]


def _beyond(
    drawn: _Drawn,
    writers: Sequence[tuple[int, WriterState]],
    bounds: Sequence[tuple[int, int | None, int | None]],
) -> Dots:
    """A triangle at the end of the axis beyond which a newest note or a bound is."""
    times = [(lane, writer.newest.time) for lane, writer in writers if writer.newest]
    times += [(lane, bound) for lane, *both in bounds for bound in both if bound is not None]
    points = (
        (drawn.inside(time), lane + sum(_MARKS) / 2, f"{drawn.words(time)}, beyond the axis")
        for lane, time in times
        if not drawn.covers(time)
    )
    return dots("beyond the axis", "text", "triangle", points, legend=False)


def _facts(state: StreamState) -> Iterator[tuple[str, str, str | None, int | None]]:
    """Everything that was known, a row each: the party, what, in which segment, and a time (ms) or bytes."""
    for segment in state.segments:
        yield segment.name, "length", segment.name, segment.length
        if segment.offset is not None:
            yield segment.reader or "", "position", segment.name, segment.offset
    for writer in state.writers:
        if (note := writer.newest) is not None:
            yield writer.name, "noted", None, note.time
            yield from ((writer.name, "position", segment_name(at), offset) for at, offset in note.position.items())
    if (newest := state.watermark) is not None:
        yield "watermark", "lower", None, newest["lower"]
        yield "watermark", "upper", None, newest["upper"]
        yield from (("watermark", "cut", segment_name(at), offset) for at, offset in newest["cut"].items())
    for reader in state.readers:
        yield reader.name, "lower", None, reader.lower
        yield reader.name, "upper", None, reader.upper
