"""The first time bounds without a notebook: `wmlab demo` runs an example and says what its readers knew.

It needs neither a clone nor a file of your own; the scenario comes with wmlab.
"""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any, Final

import wmlab as wm
from wmlab.core.errors import WmlabError
from wmlab.core.files import DATA, as_path, write
from wmlab.core.waiting import waiting_for
from wmlab.core.words import rounded

SCENARIO: Final = DATA / "scenarios" / "first_bounds.yaml"
"""A stream of two segments; one of them is split, and one of its two writers crashes."""

MOMENTS: Final = 24
"""How many moments of the run the picture for the terminal shows, evenly spread."""
_WIDTH: Final = 60

LEGEND: Final = "[ lower bound   ] upper bound   # between them   - no upper bound known   | now"
MEANING: Final = """\
The lower bound is a promise: no event that the reader has yet to read happened before it.
The upper bound says how recent the times are that writers had noted up to the reader's position.
A reader knows an upper bound only where a watermark lies ahead of it, that is, while it lags behind."""


class DemoError(WmlabError):
    """The page of the demo cannot be written where it was asked for."""


def demo(page: str | Path) -> str:
    """Run the example, write it as one HTML page, and return the same as text for a terminal.

    Raises `DemoError` if there is something at `page` already, before anything is run.
    """
    path = as_path(page, DemoError)
    if path.exists():
        raise DemoError(f"there is something at {path}.", remedy="name a file that does not exist: --page FILE.html")
    scenario = wm.Scenario.load(SCENARIO)
    recording = scenario.record()
    bounds = recording.time_bounds(wm.spark_session())
    with waiting_for("Spark computes the bounds"):
        rows = bounds.select("at_ms", "lower", "upper").orderBy("version", "at_ms").toArrow().to_pylist()
    crash_ms = next(act.at_ms for act in scenario.script if isinstance(act, wm.script.CrashWriter))
    why = recording.explain(at_ms=crash_ms + 6_000)
    chart = wm.chart.time_bounds(bounds, recording=recording)
    html_page = _page(scenario, chart, why).encode()
    write(path, html_page, DemoError, is_new=True, remedy="name another file: --page FILE.html")
    return "\n\n".join(
        [repr(recording), terminal_picture(rows, scenario.duration_ms), LEGEND, chart.sentence, MEANING, str(why)]
    )


def terminal_picture(rows: list[dict[str, Any]], duration_ms: int) -> str:
    """The bounds as lines of text: one line a moment, event time to the right.

    `rows` are those of `time_bounds` in their order (`at_ms`, `lower`, `upper` in ms, None for unknown). Each line has
    the bounds in force at its moment: `[` the lower one, `]` the upper one, `#` between them, `|` the moment itself. A
    lower bound without an upper one is followed by `-` up to the moment.
    """

    def column(time_ms: int) -> int:
        return min(_WIDTH - 1, max(0, time_ms * _WIDTH // duration_ms))

    lines = [f"{'at':>8}  {'lower':>8}  {'upper':>8}   event time from 0 to {rounded(duration_ms)} →"]
    for moment in range(1, MOMENTS + 1):
        at_ms = duration_ms * moment // MOMENTS
        row = next((row for row in reversed(rows) if row["at_ms"] <= at_ms), None)
        lower, upper = (row["lower"], row["upper"]) if row else (None, None)
        cells = [" "] * _WIDTH
        cells[column(at_ms)] = "|"
        if lower is not None:
            end = at_ms if upper is None else upper
            cells[column(lower) : column(end)] = ("-" if upper is None else "#") * (column(end) - column(lower))
            cells[column(lower)] = "["
        if upper is not None:
            cells[column(upper)] = "]"
        numbers = "  ".join(f"{'unknown' if time is None else f'{time / 1_000:.1f} s':>8}" for time in (lower, upper))
        lines.append(f"{at_ms / 1_000:6.1f} s  {numbers}   {''.join(cells).rstrip()}")
    return "\n".join(lines)


def _page(scenario: Any, chart: Any, why: Any) -> str:
    """One HTML page that needs nothing else: the scenario, the picture, what it means, and why a bound stopped."""
    meaning = "".join(f"<li>{html.escape(line)}</li>" for line in MEANING.splitlines())
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>wmlab: {html.escape(scenario.name)}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root {{ color-scheme: light dark }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }}
svg {{ max-width: 100%; height: auto }}
pre {{ overflow-x: auto; font-size: 13px; line-height: 1.4 }}
</style></head><body>
<h1>First time bounds: {html.escape(scenario.name)}</h1>
{chart.html}
<h2>What the two bounds mean</h2><ul>{meaning}</ul>
<h2>Why did the lower bound stop?</h2>
<pre>{html.escape(str(why))}</pre>
<h2>The scenario</h2>
<p>In code: <code>wm.Scenario.from_yaml(text).record().time_bounds(wm.spark_session())</code>, where the text is</p>
<pre>{html.escape(scenario.to_yaml())}</pre>
</body></html>
"""
