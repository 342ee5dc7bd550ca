"""The scrubber: a recording that one steps through, both ways, in a notebook or in a page of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import anywidget
import traitlets

from wmlab.core.answers.verdicts import Verdicts
from wmlab.core.charts.chart import save_as
from wmlab.core.errors import ChartError
from wmlab.core.recording import Recording
from wmlab.streams.answers.explain import sentences, violations
from wmlab.streams.answers.history import recorded_rules, the_stream
from wmlab.streams.scrubber.frames import VIOLATION, Frames
from wmlab.streams.scrubber.layout import frames_of
from wmlab.streams.scrubber.page import frames_json, page, script, still_picture, style_sheet


class Scrubber(anywidget.AnyWidget):
    """The frames of a run at a moment, `at_ms` (clock, ms), which the browser and Python both may move.

    A moment outside the recording becomes the nearest one inside, and `notice` says so; one that is no whole number
    raises `ChartError`. A notebook stores the picture and the words of the moment, never all frames; a running kernel
    shows the live scrubber instead. Make one with `recording.scrub()`.
    """

    _esm = script()
    _css = style_sheet()

    frames_json = traitlets.Unicode().tag(sync=True)
    at_ms = traitlets.Any().tag(sync=True)
    notice = traitlets.Unicode().tag(sync=True)

    def __init__(self, frames: Frames, *, at_ms: int | None = None) -> None:
        self.frames = frames
        super().__init__(frames_json=frames_json(frames))
        if at_ms is None:
            violation = frames.next_incident(frames.low_ms - 1, VIOLATION)
            at_ms = frames.step((frames.low_ms + frames.high_ms) // 2, 0) if violation is None else violation.at_ms
        self.at_ms = at_ms

    @traitlets.validate("at_ms")
    def _inside(self, proposal: dict[str, Any]) -> int:
        at_ms, notice = self.frames.clamp(proposal["value"])
        self.notice = notice
        return at_ms

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

    def _repr_mimebundle_(self, **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The live view for a running kernel, and the same picture and text for the same moment, which are stored."""
        still = {"image/svg+xml": still_picture(self.frames, self.at_ms, self.notice), "text/plain": repr(self)}
        live, metadata = super()._repr_mimebundle_(**options) or ({}, {})
        return live | still, metadata


_WRITERS: Final[dict[str, Callable[[Scrubber], bytes]]] = {
    ".html": lambda scrubber: page(scrubber.frames, scrubber.at_ms).encode(),
    ".svg": lambda scrubber: still_picture(scrubber.frames, scrubber.at_ms, scrubber.notice).encode(),
    ".txt": lambda scrubber: f"{scrubber!r}\n".encode(),
}


def scrub(
    recording: Recording,
    *,
    at_ms: int | None = None,
    stream: str | None = None,
    group: str | None = None,
    bounds: Any = None,
    verdicts: Verdicts | None = None,
) -> Scrubber:
    """Step through a stream of a recording, both ways, beginning at `at_ms` (clock, ms).

    Without `at_ms` it begins at the first violation, or else halfway through. `stream` is needed when there are
    several; `group` is by default the first by name. `bounds`, a table of `time_bounds` for that group, adds the
    perfect watermark, and `verdicts`, of `check`, add the violations. Raises `RecordingError` for a stream that the
    recording does not have or that has no segments, and `ChartError` for a group that did not read, other bounds, or an
    empty stream.
    """
    name = the_stream(recording, stream)
    broken = () if verdicts is None else violations(verdicts, stream=name)
    frames = frames_of(recording, stream=name, group=group, bounds=bounds, violations=broken)
    texts = sentences(recording, frames.changes, stream=name, rules=recorded_rules(recording, name))
    return Scrubber(replace(frames, sentences=texts), at_ms=at_ms)
