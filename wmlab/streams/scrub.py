"""The scrubber: the chart of a moment, widgets that move the moment, and a page of moments that needs no kernel."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import Any, Final

import ipywidgets as ui

from wmlab.core.arguments import the_moment
from wmlab.core.charts.axis import nice_step
from wmlab.core.charts.chart import save_as, share_of
from wmlab.core.charts.scene import Scene
from wmlab.core.charts.style import FONT, jupyter_style
from wmlab.core.charts.svg import draw_svg
from wmlab.core.charts.theme import PAGE_STYLE
from wmlab.core.errors import ChartError
from wmlab.core.facts import folded_facts
from wmlab.core.invariants import Verdicts
from wmlab.core.live_view import HIDES_THE_STILL, KeyGuard, display_live
from wmlab.core.recording import Recording, moment_of_run
from wmlab.core.waiting import waiting_for
from wmlab.core.words import counted, unbroken
from wmlab.streams.answers.history import the_stream
from wmlab.streams.answers.moment import read_states, violations
from wmlab.streams.answers.timeline import Moment, timeline
from wmlab.streams.charts.moment import MomentView, describe_moment, draw_moment, words_of_clock

_WIDTHS: Final = (540, 760, 1060)
"""How wide (px) the picture of a moment is drawn; the widest one that fits is shown, and fills what there is."""
_FITTING: Final = "".join(
    f"@container (min-width:{low}px) and (max-width:{high}px){{.wmlab-pictures>.wmlab-px{width}{{display:block}}}}"
    for width, low, high in zip(_WIDTHS, (0, 740, 1040), (739.9, 1039.9, 1e6), strict=True)
)
_PICTURES: Final = (
    ".wmlab-pictures{container-type:inline-size}.wmlab-pictures>div{display:none}"
    f".wmlab-pictures svg{{display:block;width:100%;height:auto}}{_FITTING}"
)
_STYLE: Final = f"""<style>
{HIDES_THE_STILL}
{jupyter_style(".wmlab-scrubber")}
{_PICTURES}
.wmlab-scrubber .widget-html-content {{line-height:1.4;white-space:normal}}
.wmlab-scrubber .widget-html-content p {{margin:0 0 4px;max-width:900px}}
</style>"""
_PAGE_STYLE: Final = (
    f"{PAGE_STYLE}<style>body{{font:14px {FONT};max-width:1290px;margin:16px auto;padding:0 8px}}"
    f"h1{{font-size:18px}}input{{width:100%}}{_PICTURES}</style>"
)
_STEPS: Final = 400
"""How many steps of the slider, and of playing, a run has, about."""
_STEP_MS: Final = 100
"""How long a step takes while a run is played."""
_EVENTS_OF_PAGE: Final = 36
_MOMENTS_OF_PAGE: Final = 24
"""How many moments a page has: of events at most, and evenly spread."""


class Scrubber:
    """The chart of a moment of a run, `at_ms` (clock, ms), which widgets and Python both may move.

    `chart` is that of the moment; its `facts` are what is known of what holds the bound then. `events` are the moments
    of the run's timeline, and `violations` those of the verdicts that it was made with. Set to one outside the run,
    `at_ms` becomes the nearest inside, and `notice` says so; one that is not a whole number raises `ChartError`. A
    notebook stores the picture and the words of the moment; while a kernel runs the widgets are shown instead. Make one
    with `recording.scrub()`.
    """

    def __init__(
        self, recording: Recording, view: MomentView, *, at_ms: int | None, violated: Sequence[Moment] = ()
    ) -> None:
        self._recording, self._view = recording, view
        self.events = timeline(recording, stream=view.states.stream).moments
        self.violations = tuple(violated)
        self.notice = ""
        self._make_widgets()
        self.at_ms = self._begin_ms if at_ms is None else at_ms

    @property
    def at_ms(self) -> int:
        """The moment (clock, ms)."""
        return self._at_ms

    @at_ms.setter
    def at_ms(self, offered: int) -> None:
        """Go to a moment."""
        at_ms, states = the_moment(offered, ChartError), self._view.states
        self._at_ms = min(max(at_ms, states.low_ms), states.high_ms)
        self.notice = ""
        if at_ms != self._at_ms:
            side, edge = ("before", "begins") if at_ms < self._at_ms else ("after", "ends")
            self.notice = f"{self._clock(at_ms)} is {side} the recording, which {edge} at {self._clock(self._at_ms)}."
        self.chart = draw_moment(self._view, self._at_ms)
        self._show()

    @property
    def sentence(self) -> str:
        """What holds the bound at the position of the group at the moment, or that in the log if nobody reads."""
        return self.chart.sentence

    def next_event(self, party: str | None = None) -> Scrubber:
        """Move to the next event, about a party such as "w1" if one is named, and return the scrubber.

        If there is none it stays, and `notice` says so. Raises `ChartError` for a party to which nothing happened.
        """
        return self._go(self._events_of(party), +1)

    def previous_event(self, party: str | None = None) -> Scrubber:
        """Move to the event before, as `next_event` does to the one after."""
        return self._go(self._events_of(party), -1)

    def _events_of(self, party: str | None) -> list[Moment]:
        of_party = [event for event in self.events if party is None or party in event.parties]
        if party is not None and not of_party:
            raise ChartError(
                f"Nothing happened to {party!r}.", remedy=f"Name one of: {', '.join(self._parties) or 'there is none'}."
            )
        return of_party

    def _go(self, of_party: Sequence[Moment], way: int) -> Scrubber:
        times = [event.at_ms for event in of_party]
        index = bisect_right(times, self.at_ms) if way > 0 else bisect_left(times, self.at_ms) - 1
        if 0 <= index < len(times):
            self.at_ms = times[index]
        else:
            self.notice = f"There is no {'later' if way > 0 else 'earlier'} event."
            self._show()
        return self

    @property
    def _parties(self) -> list[str]:
        return sorted({event.who for event in self.events})

    @property
    def _begin_ms(self) -> int:
        """The first violation, or else the last event before the middle of the run, or the middle."""
        middle_ms = (self._view.states.low_ms + self._view.states.high_ms) // 2
        before = [event.at_ms for event in self.events if event.at_ms <= middle_ms]
        return self.violations[0].at_ms if self.violations else before[-1] if before else middle_ms

    def _clock(self, at_ms: int) -> str:
        return words_of_clock(self._view, at_ms)

    def _make_widgets(self) -> None:
        span_ms = self._view.states.high_ms - self._view.states.low_ms
        # They count steps: a slider of ms would round an event between two steps to one of them.
        self._step_ms = nice_step(span_ms, _STEPS)
        last = -(-span_ms // self._step_ms)
        self._play = ui.Play(max=last, interval=_STEP_MS, show_repeat=False)
        self._slider = ui.IntSlider(max=last, readout=False, tooltip="Clock", layout=ui.Layout(flex="1 1 200px"))
        self._when, self._words, self._picture = ui.HTML(), ui.HTML(), ui.HTML()
        self._previous = ui.Button(description="Previous event", icon="step-backward")
        self._next = ui.Button(description="Next event", icon="step-forward")
        of_parties = [("everybody", ""), *((party, party) for party in self._parties)]
        self._party = ui.Dropdown(
            options=of_parties,
            description="Events about",
            layout=ui.Layout(width="220px"),
            style={"description_width": "initial"},
        )
        shown = [f"{self._clock(event.at_ms)}: {_in_words(event)}" for event in self.violations]
        self._violation = ui.Dropdown(options=["Go to a violation", *shown], layout=ui.Layout(width="320px"))
        ui.jslink((self._play, "value"), (self._slider, "value"))
        self._slider.observe(self._slid, "value")
        self._previous.on_click(lambda _: self.previous_event(self._party.value or None))
        self._next.on_click(lambda _: self.next_event(self._party.value or None))
        self._party.observe(lambda _: self._show(), "value")
        self._violation.observe(self._chosen, "index")
        wrapped = ui.Layout(flex_flow="row wrap", align_items="center")
        jumps = [self._previous, self._next, self._party, *([self._violation] if self.violations else [])]
        rows = [ui.HBox([self._play, self._slider, self._when], layout=wrapped), ui.HBox(jumps, layout=wrapped)]
        style, guard = ui.HTML(_STYLE, layout=ui.Layout(height="0")), KeyGuard()
        self.widget = ui.VBox([style, guard, *rows, self._words, self._picture])
        for name in ("wmlab-live", "wmlab-scrubber", "wmlab-keys"):
            self.widget.add_class(name)

    @property
    def _step(self) -> int:
        """The step of the slider at the moment; at the end of the run the last one."""
        states = self._view.states
        past_ms = self.at_ms - states.low_ms
        return -(-past_ms // self._step_ms) if self.at_ms == states.high_ms else past_ms // self._step_ms

    def _slid(self, change: dict[str, Any]) -> None:
        if change["new"] != self._step:
            low_ms, high_ms = self._view.states.low_ms, self._view.states.high_ms
            self.at_ms = min(low_ms + change["new"] * self._step_ms, high_ms)

    def _chosen(self, change: dict[str, Any]) -> None:
        if change["new"]:
            self.at_ms = self.violations[change["new"] - 1].at_ms

    def _show(self) -> None:
        self._slider.value = self._step
        if self._violation.index and self.violations[self._violation.index - 1].at_ms != self.at_ms:
            self._violation.index = 0
        self._when.value = f"<b>{escape(self._clock(self.at_ms))}</b>"
        of_party = self._events_of(self._party.value or None)
        times = [event.at_ms for event in of_party]
        self._previous.disabled = not times or self.at_ms <= times[0]
        self._next.disabled = not times or self.at_ms >= times[-1]
        words = [self.sentence, self._last_event(of_party, self.at_ms), self.notice]
        said = "".join(f"<p>{escape(unbroken(text))}</p>" for text in words if text)
        self._words.value = said + folded_facts(self.chart.facts)
        self._picture.value = pictures(self.chart.scene)

    def _last_event(self, of_party: Sequence[Moment], at_ms: int) -> str:
        """The newest event up to a moment, in words, with all others of its millisecond."""
        count = bisect_right(of_party, at_ms, key=lambda event: event.at_ms)
        if not count:
            return f"No event yet, of {len(of_party)}." if of_party else ""
        newest_ms = of_party[count - 1].at_ms
        texts = [_in_words(event) for event in of_party[:count] if event.at_ms == newest_ms]
        return f"Event {count} of {len(of_party)}, at {self._clock(newest_ms)}: {'; '.join(texts)}."

    def save(self, path: str | Path) -> Path:
        """Write the scrubber and return where to; the suffix decides what.

        `.html`: pictures of some 60 moments, events among them, to step through in any browser without a kernel;
        `.svg` and `.txt`: picture and words of the moment. Raises `ChartError` for any other suffix.
        """
        return save_as(path, "scrubber", self, _WRITERS)

    def page(self) -> str:
        """The moments as one HTML file that opens at this moment; nothing is fetched.

        Where programs do not run it shows the picture of this moment.
        """
        states = self._view.states
        happened = share_of(sorted({event.at_ms for event in self.events}), _EVENTS_OF_PAGE)
        span_ms = states.high_ms - states.low_ms
        evenly = [states.low_ms + number * span_ms // _MOMENTS_OF_PAGE for number in range(_MOMENTS_OF_PAGE + 1)]
        times = sorted({*happened, *evenly, *(event.at_ms for event in self.violations), self.at_ms})
        with waiting_for(f"{counted(len(times), 'moment')} are drawn"):
            moments = [self._moment_of_page(at_ms) for at_ms in times]
        # In a script element, text ends at the first "</script", wherever it stands.
        data = json.dumps(moments, ensure_ascii=False).replace("<", "\\u003c")
        here = times.index(self.at_ms)
        return _PAGE.format(
            title=escape(f"{self._recording.name}: moments of {states.stream}"),
            style=_PAGE_STYLE,
            last=len(times) - 1,
            here=here,
            moment=moments[here],
            data=data,
        )

    def _moment_of_page(self, at_ms: int) -> str:
        chart = draw_moment(self._view, at_ms)
        words = (self._clock(at_ms), chart.sentence, self._last_event(self.events, at_ms))
        when, *texts = (escape(unbroken(text)) for text in words)
        said = "".join(f"<p>{text}</p>" for text in texts if text)
        return f"<p><b>{when}</b></p>{said}{folded_facts(chart.facts)}{pictures(chart.scene)}"

    def _ipython_display_(self) -> None:
        display_live(self.widget, draw_svg(self.chart.scene), repr(self), "scrubber")

    def __repr__(self) -> str:
        lines = [f"{self._recording.name} at {self._clock(self.at_ms)}", self.sentence, self.notice]
        return "\n".join([*filter(None, lines), *(f"  {line}" for line in describe_moment(self._view, self.at_ms))])


def _in_words(event: Moment) -> str:
    return f"{event.who} {event.what}"


_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>{style}</head>
<body><h1>{title}</h1>
<input type="range" min="0" max="{last}" value="{here}" aria-label="Moment"><main aria-live="polite">{moment}</main>
<script type="application/json" id="moments">{data}</script>
<script>
const moments = JSON.parse(document.getElementById("moments").textContent)
document.querySelector("input").oninput = ({{ target }}) => {{
  document.querySelector("main").innerHTML = moments[target.value]
}}
</script></body></html>
"""

_WRITERS: Final[dict[str, Callable[[Scrubber], bytes]]] = {
    ".html": lambda scrubber: scrubber.page().encode(),
    ".svg": lambda scrubber: draw_svg(scrubber.chart.scene).encode(),
    ".txt": lambda scrubber: f"{scrubber!r}\n".encode(),
}


def pictures(scene: Scene) -> str:
    """The scene as HTML, without its heading, drawn in several widths; the style sheet shows one of them."""
    drawn = ((width, draw_svg(scene, width, headed=False, hover=True)) for width in _WIDTHS)
    return f"<div class='wmlab-pictures'>{''.join(f'<div class=wmlab-px{px}>{svg}</div>' for px, svg in drawn)}</div>"


def scrub(
    recording: Recording,
    *,
    at_ms: int | str | None = None,
    stream: str | None = None,
    group: str | None = None,
    verdicts: Verdicts | None = None,
) -> Scrubber:
    """Look at the moments of a stream of a recording, beginning at `at_ms`; `recording.scrub` calls this."""
    name = the_stream(recording, stream)
    view = MomentView.of(read_states(recording, name, group=group))
    begin_ms = None if at_ms is None else moment_of_run(recording, at_ms, error=ChartError)
    violated = () if verdicts is None else violations(verdicts, name)
    return Scrubber(recording, view, at_ms=begin_ms, violated=violated)
