"""The scrubber: a recording that one steps through, both ways, in a notebook or in a page that needs no kernel.

A browser is given the frames as JSON, and the still picture of a moment as SVG.

`frame_parts` and `static/scrubber.js` draw the same items by the same description, `frames.ITEM_SHAPES`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import traitlets

from wmlab.core.answers import Verdicts
from wmlab.core.arguments import the_moment
from wmlab.core.charts import svg
from wmlab.core.charts.chart import save_as
from wmlab.core.charts.style import FONT, ROLES, text_width, wrap
from wmlab.core.errors import ChartError
from wmlab.core.live_view import HIDES_THE_STILL, LiveView, shared_script, theme
from wmlab.core.recording import Recording
from wmlab.core.words import is_short
from wmlab.streams.answers.history import the_stream
from wmlab.streams.answers.stream_bound import sentences
from wmlab.streams.scrubber.frames import (
    ITEM_SHAPES,
    STYLES,
    VALUES,
    VIOLATION,
    FrameItem,
    FramePanel,
    ScrubberFrames,
    Text,
    capitalized,
)
from wmlab.streams.scrubber.layout import frames_of

_STATIC: Final = Path(__file__).with_name("static")
_COLOUR: Final = re.compile(r' (?:fill|stroke)="(?:#\w+|none)"| stroke-linejoin="round"')
"""What the style sheet gives an SVG element: its colours, by its class, and how its lines meet."""
_PANEL: Final = ("left", "top", "width", "head_px", "lanes", "lane_px", "low", "high", "relative", "cursor")
"""What a browser is told of a panel besides its items and what never changes."""
_MARGIN: Final = 16.0
_SMALL, _BESIDE, _NOW_PX = 11.5, 12.0, 32.0
"""Font sizes of labels on items and beside lanes, and how far below a panel's top the word "now" stands."""


@cache
def script() -> str:
    """The ES module of the scrubber; its default export is what anywidget renders."""
    return f"{shared_script()}\n{(_STATIC / 'scrubber.js').read_text(encoding='utf-8')}"


@cache
def style_sheet() -> str:
    """The style sheet: colours by theme, and layout."""
    return f"{theme('.wmlab-scrubber')}\n{(_STATIC / 'scrubber.css').read_text(encoding='utf-8')}"


def page(frames: ScrubberFrames, at_ms: int) -> str:
    """The scrubber as one HTML file that opens at `at_ms`: frames, program and looks inside, nothing is fetched.

    Where programs do not run it shows the picture of that moment.
    """
    # In a script element, text ends at the first "</script", wherever it stands.
    content = frames_json(frames).replace("<", "\\u003c")
    start = f"""
const frames = readFrames(document.getElementById("frames").textContent)
const scrubber = new Scrubber(frames, {{ at: {json.dumps(at_ms)}, reader: {json.dumps(frames.reader)} }})
document.querySelector("main").replaceChildren(scrubber.root)
scrubber.root.focus()"""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>{escape(frames.title)}</title>
<style>
body{{margin:16px;font-family:{FONT}}}
h1{{max-width:992px;margin:0 auto 12px;font-size:18px}}
main{{max-width:992px;margin:0 auto}}
{style_sheet()}
</style>
</head>
<body>
<h1>{escape(frames.title)}</h1>
<main>{still_picture(frames, at_ms)}</main>
<script type="application/json" id="frames">{content}</script>
<script type="module">
{script()}
{start}
</script>
</body>
</html>
"""


def still_picture(frames: ScrubberFrames, at_ms: int, notice: str = "") -> str:
    """The frame at a moment as a document, with the sentence above it."""
    paragraphs = [*capitalized(frames.sentence(at_ms)), *([f"{notice}."] if notice else [])]
    lines = [line for text in paragraphs for line in wrap(text, width=frames.width - 2 * _MARGIN, size=13)]
    head_px = 34.0 + 19 * len(lines) + 12
    heading = frames.heading(at_ms)
    parts = [svg.text(_MARGIN, 26, heading, "title", size=17, bold=True)]
    parts += [svg.text(_MARGIN, 48 + 19 * number, line, "text", size=13) for number, line in enumerate(lines)]
    body = "\n".join(frame_parts(frames, at_ms))
    parts.append(f'<g transform="translate(0 {head_px:g})">{body}</g>')
    return svg.document(frames.width, frames.height + head_px, title=heading, desc=frames.text(at_ms), parts=parts)


def frame_parts(frames: ScrubberFrames, at_ms: int) -> Iterator[str]:
    """What is drawn at a moment: of each panel what never changes, its items, and the cursor."""
    for panel in frames.panels:
        yield panel.still
        items = panel.items_at(at_ms)
        clock = at_ms if panel.relative else 0
        origins = {item.lane: item.high for item in items if STYLES[item.style].shape == "origin"}
        for item in items:
            yield from _drawn(panel, item, origins.get(item.lane, clock))
        if panel.cursor:
            x = panel.x(at_ms - clock)
            yield svg.line([(x, panel.top + _NOW_PX + 3), (x, panel.bottom)], "title")
            yield svg.text(x, panel.top + _NOW_PX, "now", "title", size=_SMALL, anchor="middle")


def _drawn(panel: FramePanel, item: FrameItem, origin: int) -> Iterator[str]:
    style = STYLES[item.style]
    kind, outlines, text, _ = ITEM_SHAPES[style.shape]
    low, high = (min(max(value - origin, panel.low), panel.high) for value in (item.low, item.high))
    if (kind == "area" and low >= high) or (kind == "point" and low != item.low - origin):
        return
    left, length = panel.x(low), panel.x(high) - panel.x(low)
    top = panel.lanes_top + (item.lane or 0) * panel.lane_px
    height = panel.lane_px if item.lane is not None else panel.lanes * panel.lane_px
    for filled, corners in outlines:
        points = [(left + along * length + px, top + share * height + down) for along, px, share, down in corners]
        yield svg.polygon(points, style.role, opacity=style.opacity) if filled else svg.line(points, style.role)
    if text is not None:
        yield from _label(
            panel, item.label, text.role or style.role, text, left, length, top + text.share * height + text.down
        )


def _label(panel: FramePanel, label: str, role: str, text: Text, left: float, length: float, y: float) -> Iterator[str]:
    right, width = panel.left + panel.width, text_width(label, _SMALL)
    if text.side == "left":
        yield svg.text(panel.left - 8, y, label, role, size=_BESIDE, anchor="end")
    elif text.side == "right":
        yield svg.text(right + 8, y, label, role, size=_BESIDE)
    elif text.side == "middle":
        wishes = (label, label.partition(" ")[0])
        if fitting := next((wish for wish in wishes if text_width(wish, _SMALL) + 6 <= length), ""):
            yield svg.text(left + length / 2, y, fitting, role, size=_SMALL, anchor="middle")
    elif left - width - 4 >= panel.left if text.side == "before" else left + width + 4 > right:
        yield svg.text(left - 4, y, label, role, size=_SMALL, anchor="end")
    else:
        yield svg.text(left + 4, y, label, role, size=_SMALL)


def frames_json(frames: ScrubberFrames) -> str:
    """The frames as JSON text for `readFrames`; the same frames give the same text.

    Moments count from `low`; in columns, numbers are differences to the row before. An item that stays to the end lives
    -1 ms, one across all lanes has the lane -1. `texts` holds each text once; items, incidents, sentences and the
    lines of overviews name it by its index.
    """
    texts: dict[str, int] = {}
    low_ms = frames.low_ms
    content = {
        "title": frames.title,
        "low": low_ms,
        "high": frames.high_ms,
        "instants": frames.instants,
        "short": is_short(low_ms, frames.high_ms),
        "width": frames.width,
        "height": frames.height,
        "sizes": {"small": _SMALL, "beside": _BESIDE, "now": _NOW_PX, "character": text_width("m", _SMALL)},
        "roles": {name: [role.width, role.dash] for name, role in ROLES.items()},
        "shapes": ITEM_SHAPES,
        "styles": list(STYLES.values()),
        "panels": [_panel(panel, low_ms, texts, still=panel is not frames.panels[-1]) for panel in frames.panels],
        "values": VALUES,
        "violation": VIOLATION,
        "kinds": list(frames.kinds),
        "overviews": {
            reader: [_index(line, texts) for line in _COLOUR.sub("", still).splitlines()]
            for reader, still in frames.overviews.items()
        },
        "changes": _steps(low_ms, frames.changes),
        "incidents": {
            "at": _steps(low_ms, [incident.at_ms for incident in frames.incidents]),
            "kind": [_index(incident.kind, texts) for incident in frames.incidents],
            "text": [_index(incident.text, texts) for incident in frames.incidents],
        },
        "sentences": {
            "from": _steps(low_ms, [from_ms for from_ms, _ in frames.sentences]),
            "text": [_index(text, texts) for _, text in frames.sentences],
        },
        "texts": list(texts),
    }
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def _panel(panel: FramePanel, low_ms: int, texts: dict[str, int], *, still: bool) -> dict[str, Any]:
    styles = list(STYLES)
    return {
        **{name: getattr(panel, name) for name in _PANEL},
        "still": _COLOUR.sub("", panel.still) if still else "",
        "items": {
            "lane": [-1 if item.lane is None else item.lane for item in panel.items],
            "from": _steps(low_ms, [item.from_ms for item in panel.items]),
            "life": [-1 if item.to_ms is None else item.to_ms - item.from_ms for item in panel.items],
            "low": _steps(0, [item.low for item in panel.items]),
            "length": [item.high - item.low for item in panel.items],
            "style": [styles.index(item.style) for item in panel.items],
            "text": [_index(item.label, texts) for item in panel.items],
        },
    }


def _steps(start: int, values: Iterable[int]) -> list[int]:
    return [later - earlier for earlier, later in pairwise([start, *values])]


def _index(text: str, texts: dict[str, int]) -> int:
    return texts.setdefault(text, len(texts))


class Scrubber(LiveView):
    """The frames of a run at a moment, `at_ms` (clock, ms), which the browser and Python both may move.

    `reader` is whose bounds the overview of the whole run draws; one that cannot be drawn raises `ChartError`.
    A moment outside the recording becomes the nearest one inside, and `notice` says so; one that is no whole number
    raises `ChartError`. A notebook stores the picture and the words of the moment, never all frames; a running kernel
    shows the live scrubber instead. Make one with `recording.scrub()`.
    """

    noun = "scrubber"
    _esm = script()
    _css = HIDES_THE_STILL + style_sheet()

    frames_json = traitlets.Unicode().tag(sync=True)
    at_ms = traitlets.Any().tag(sync=True)
    notice = traitlets.Unicode().tag(sync=True)
    reader = traitlets.Unicode(None, allow_none=True).tag(sync=True)

    def __init__(self, frames: ScrubberFrames, *, at_ms: int | None = None) -> None:
        self.frames = frames
        super().__init__(frames_json=frames_json(frames), reader=frames.reader)
        if at_ms is None:
            violation = frames.next_incident(frames.low_ms - 1, VIOLATION)
            at_ms = frames.step((frames.low_ms + frames.high_ms) // 2, 0) if violation is None else violation.at_ms
        self.at_ms = at_ms

    @traitlets.validate("at_ms")
    def _inside(self, proposal: dict[str, Any]) -> int:
        at_ms, notice = self.frames.clamp(proposal["value"])
        self.notice = notice
        return at_ms

    @traitlets.validate("reader")
    def _can_be_drawn(self, proposal: dict[str, Any]) -> str | None:
        self.frames = self.frames.seen_by(proposal["value"])
        return self.frames.reader

    def step(self, changes: int = 1) -> Scrubber:
        """Move so many recorded changes on, or back if negative, and return the scrubber."""
        self.at_ms = self.frames.step(self.at_ms, changes)
        return self

    def jump(self, kind: str | None = None, *, backwards: bool = False) -> Scrubber:
        """Move to the next incident of a kind, such as "scale" (None: of any), and return the scrubber.

        If there is none it stays, and `notice` says so. Raises `ChartError` for a kind of which the run has none.
        """
        if kind is not None and kind not in self.frames.kinds:
            raise ChartError(
                f"Nothing of the kind {kind!r} happened.",
                remedy=f"Choose one of: {', '.join(self.frames.kinds) or 'there is none'}.",
            )
        incident = self.frames.next_incident(self.at_ms, kind, backwards=backwards)
        if incident is None:
            self.notice = f"There is no {'earlier' if backwards else 'later'} {kind or 'happening'}"
        else:
            self.at_ms = incident.at_ms
        return self

    @property
    def sentence(self) -> str:
        """What holds the lower bound at the moment."""
        return self.frames.sentence(self.at_ms)

    def save(self, path: str | Path) -> Path:
        """Write the scrubber and return where to; the suffix decides what.

        `.html`: all of it, to step through in any browser without a kernel; `.svg` and `.txt`: picture and words of the
        moment. Raises `ChartError` for any other suffix.
        """
        return save_as(path, "scrubber", self, _WRITERS)

    def __repr__(self) -> str:
        text = self.frames.text(self.at_ms)
        return f"{text}\n({self.notice})" if self.notice else text

    def still(self) -> tuple[str, str]:
        """The picture of the moment as SVG, and the same in words."""
        return still_picture(self.frames, self.at_ms, self.notice), repr(self)


_WRITERS: Final[dict[str, Callable[[Scrubber], bytes]]] = {
    ".html": lambda scrubber: page(scrubber.frames, scrubber.at_ms).encode(),
    ".svg": lambda scrubber: still_picture(scrubber.frames, scrubber.at_ms, scrubber.notice).encode(),
    ".txt": lambda scrubber: f"{scrubber!r}\n".encode(),
}


def scrub(
    recording: Recording,
    *,
    at_ms: int | str | None = None,
    stream: str | None = None,
    group: str | None = None,
    reader: str | None = None,
    bounds: Any = None,
    verdicts: Verdicts | None = None,
) -> Scrubber:
    """Step through a stream of a recording, both ways, beginning at `at_ms` (clock, ms).

    Without `at_ms` it begins at the first violation, or else halfway through. `stream` is needed when there are
    several; `group` is by default the first by name. `reader` is whose bounds the overview of the whole run draws, by
    default the one of the group that knew a lower bound for longest. `bounds`, a table of `time_bounds` for that group,
    adds the perfect watermark, and `verdicts`, of `check`, add the violations. Raises `RecordingError` for a stream
    that the recording does not have or that has no segments, and `ChartError` for a group that did not read, a reader
    that it does not have, other bounds, or an empty stream.
    """
    name = the_stream(recording, stream)
    broken = () if verdicts is None else _violations(verdicts, stream=name)
    frames = frames_of(recording, stream=name, group=group, reader=reader, bounds=bounds, violations=broken)
    texts = sentences(recording, name, frames.changes)
    begin_ms = None if at_ms is None else the_moment(at_ms, ChartError, start_ms=recording.start_ms)
    return Scrubber(replace(frames, sentences=texts), at_ms=begin_ms)


_CLOCKS: Final = ("emitted_ms", "received_ms", "append_ms", "at_ms")
"""When a row of evidence came to be, whichever of these columns it has."""


def _violations(verdicts: Verdicts, *, stream: str) -> tuple[tuple[int, str], ...]:
    """The first violation of each invariant in this stream: (when the last row of its evidence came, in words)."""
    violations = []
    for verdict in verdicts:
        rows = [proof.row for proof in verdict.evidence if proof.row.get("stream", stream) == stream]
        times = [row[name] for row in rows for name in _CLOCKS if row.get(name) is not None]
        if verdict.verdict == "violated" and times:
            violations.append((max(times), f"{verdict.invariant} violated: {verdict.what or verdict.statement}"))
    return tuple(sorted(violations))
