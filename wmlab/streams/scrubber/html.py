"""The parts of the scrubber that run in a browser, and a page that holds all of them and needs no kernel."""

from __future__ import annotations

import json
from functools import cache
from html import escape
from pathlib import Path
from typing import Final

from wmlab.core.charts.style import FONT, ROLES
from wmlab.streams.scrubber.film import Film
from wmlab.streams.scrubber.json import film_json
from wmlab.streams.scrubber.still import still_picture

_STATIC: Final = Path(__file__).with_name("static")
_MODULE: Final = ("draw.js", "scrubber.js")


@cache
def script() -> str:
    """The ES module of the scrubber; its default export is what anywidget renders."""
    return "\n".join((_STATIC / name).read_text(encoding="utf-8") for name in _MODULE)


@cache
def style_sheet() -> str:
    """The style sheet: the colours of `wmlab.core.charts.style` by theme, JupyterLab's before the desktop's; layout."""
    light = "".join(f"--wmlab-{name}:{role.light};" for name, role in ROLES.items())
    dark = "".join(f"--wmlab-{name}:{role.dark};" for name, role in ROLES.items())
    rules = [
        f".wmlab-scrubber{{{light}font-family:{FONT}}}",
        f"@media (prefers-color-scheme:dark){{.wmlab-scrubber{{{dark}}}}}",
        f'[data-jp-theme-light="true"] .wmlab-scrubber{{{light}}}',
        f'[data-jp-theme-light="false"] .wmlab-scrubber{{{dark}}}',
    ]
    for name in ROLES:
        rules += [f".wmlab-scrubber .wmlab-{kind}-{name}{{{kind}:var(--wmlab-{name})}}" for kind in ("fill", "stroke")]
    return "\n".join([*rules, (_STATIC / "scrubber.css").read_text(encoding="utf-8")])


def page(film: Film, at_ms: int) -> str:
    """The scrubber as one HTML file that stands at `at_ms`: film, program and looks inside, nothing is fetched.

    Where programs do not run it shows the picture of that moment.
    """
    # In a script element, text ends at the first "</script", wherever it stands.
    content = film_json(film).replace("<", "\\u003c")
    start = f"""
const film = readFilm(document.getElementById("film").textContent)
const scrubber = new Scrubber(film, {{ at: {json.dumps(at_ms)} }})
document.querySelector("main").replaceChildren(scrubber.root)
scrubber.root.focus()"""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>{escape(film.title)}</title>
<style>
body{{margin:16px;font-family:{FONT}}}
h1{{max-width:992px;margin:0 auto 12px;font-size:18px}}
main{{max-width:992px;margin:0 auto}}
{style_sheet()}
</style>
</head>
<body>
<h1>{escape(film.title)}</h1>
<main>{still_picture(film, at_ms)}</main>
<script type="application/json" id="film">{content}</script>
<script type="module">
{script()}
{start}
</script>
</body>
</html>
"""
