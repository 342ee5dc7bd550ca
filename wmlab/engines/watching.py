"""Watching a job: a view in a notebook that is updated, and a page with one answer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Final

import ipywidgets as ui

from wmlab.core.charts.svg import draw_svg, svg_for_page
from wmlab.core.errors import EngineError
from wmlab.core.files import as_path, write
from wmlab.core.live_view import HIDES_THE_STILL, display_live
from wmlab.core.words import SECOND_MS, clock_words
from wmlab.engines.answers import EngineLog, JobExplanation
from wmlab.engines.charts import watermarks

_STYLE: Final = f"<style>{HIDES_THE_STILL}</style>"


class WatchedJob:
    """A job in a notebook: its watermarks and the answer, redrawn as long as the kernel runs or until `stop()`.

    `log` is what it has reported so far, `changes` the answers that differed from the one before, with their moments,
    `lost` why the job cannot be asked any more, None if it can.
    """

    def __init__(self, log: EngineLog, every_ms: int) -> None:
        self.log = log.again()
        self.every_ms = every_ms
        self.changes: list[tuple[int, JobExplanation]] = []
        self.lost: str | None = None
        self._stopped = threading.Event()
        self._words, self._picture = ui.HTML(), ui.HTML()
        self._button = ui.Button(description="Stop", icon="stop", tooltip="Ask the job no more")
        self._button.on_click(lambda _: self.stop())
        self.widget = ui.VBox([ui.HTML(_STYLE, layout=ui.Layout(height="0")), self._button, self._words, self._picture])
        self.widget.add_class("wmlab-live")
        self._show()

    def refresh(self) -> None:
        """Ask the job once more and redraw; if it cannot be reached, what it has reported stays."""
        try:
            self.log, self.lost = self.log.again(), None
        except EngineError as wrong:
            self.lost = wrong.problem
        self._show()

    def stop(self) -> None:
        """Ask the job no more; the last picture stays."""
        self._stopped.set()
        self._button.disabled = True

    def _show(self) -> None:
        explanation = self.log.explain()
        if not self.changes or _is_other(self.changes[-1][1], explanation):
            self.changes.append((explanation.at_ms, explanation))
        earlier = [f"{clock_words(at_ms)}: {each.cause}" for at_ms, each in self.changes[:-1]]
        lost = [f"It cannot be asked any more: {self.lost}"] if self.lost else []
        # The chart has the sentence.
        others = [line for line in explanation.lines if line != explanation.sentence]
        texts = [*lost, *others, *([f"Before: {'; '.join(earlier[-5:])}."] if earlier else [])]
        self._words.value = "".join(f"<p>{escape(text)}</p>" for text in texts)
        self._picture.value = svg_for_page(watermarks(self.log).scene)

    def _ask_again(self) -> None:
        while not self._stopped.wait(self.every_ms / SECOND_MS):
            self.refresh()

    def _ipython_display_(self) -> None:
        display_live(self.widget, draw_svg(watermarks(self.log).scene), repr(self), "job")
        if not self._stopped.is_set():
            threading.Thread(target=self._ask_again, daemon=True).start()

    def __repr__(self) -> str:
        return f"{self.log!r}\n{self.log.explain()!r}"


def _is_other(before: JobExplanation, after: JobExplanation) -> bool:
    """Whether an answer differs from the one before by its cause, or which writer it concerns."""
    return (before.verdict, before.cause, before.whose) != (after.verdict, after.cause, after.whose)


def answers_of(
    log: EngineLog, every_ms: int, *, most: int | None = None
) -> Iterator[tuple[EngineLog, JobExplanation, bool]]:
    """The log, the answer, and whether the answer has changed: at once and after each further poll.

    It polls `most` times, or for ever. Raises `EngineError` when the job no longer answers.
    """
    before: JobExplanation | None = None
    waiting, count = threading.Event(), 0
    while True:
        explanation = log.explain()
        is_other = before is None or _is_other(before, explanation)
        before = explanation
        yield log, explanation, is_other
        if most is not None and count >= most:
            return
        count += 1
        waiting.wait(every_ms / SECOND_MS)
        log = log.again()


def save_page(log: EngineLog, explanation: JobExplanation, path: str | Path) -> Path:
    """Write the answer, its facts, the advice and the chart as a page for a ticket; return its path.

    The suffix decides: `.html` is one file, `.md` has the chart in an SVG next to it. Raises `EngineError` for another
    suffix, or if the file exists.
    """
    target = as_path(path, EngineError)
    chart, advice = watermarks(log, at_ms=explanation.at_ms), log.advise(explanation.at_ms)
    heading = f"{explanation.job}: {explanation.verdict}"
    if target.suffix == ".html":
        body = f"<h1>{escape(heading)}</h1>{explanation._repr_html_()}{chart.svg}{advice._repr_html_()}"
        files = {target: f"<!DOCTYPE html><meta charset='utf-8'><title>{escape(heading)}</title><body>{body}</body>\n"}
    elif target.suffix == ".md":
        picture = target.with_suffix(".svg")
        facts = "\n".join(f"- {each}" for each in explanation.because)
        text = "\n\n".join(
            [f"# {heading}", *explanation.lines, facts, advice.sentence, f"![{heading}]({picture.name})"]
        )
        files = {target: f"{text}\n", picture: chart.svg}
    else:
        raise EngineError(f"{target.name} is not a page.", remedy="name a file that ends with .html or .md.")
    for file, content in files.items():
        write(file, content.encode(), EngineError, is_new=True)
    return target
