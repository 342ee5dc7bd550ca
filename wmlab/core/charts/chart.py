"""A chart: what it takes from a recording or a table, and the finished picture with its answer as a sentence."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import resvg_py

from wmlab.core.charts.axis import AnyAxis
from wmlab.core.charts.scene import Panel, Rule, Scene, Shape
from wmlab.core.charts.style import ROLES
from wmlab.core.charts.svg import draw_svg, svg_for_page
from wmlab.core.charts.theme import PAGE_STYLE, themed
from wmlab.core.errors import ChartError, unknown_attribute
from wmlab.core.facts import NO_FACTS, Facts
from wmlab.core.files import as_path, write
from wmlab.core.recording import Recording
from wmlab.core.waiting import waiting_for
from wmlab.core.words import grouped, listed, shown

if TYPE_CHECKING:
    import plotly.graph_objects as go  # type: ignore[import-untyped]

_Entry = TypeVar("_Entry")

SHAPES: Final[dict[str, Shape]] = {
    "scale": "diamond",
    "crash": "cross",
    "restart": "triangle",
    "silence": "cross",
    "speak": "triangle",
}
"""Marker of an incident by its kind; any other is a circle."""

SERIES: Final = ("lower", "upper", "third", "fourth")
"""Roles of curves that differ in name only, in this order; each has its own colour and dash."""


def the_recording(offered: Any, *tables: str) -> Recording:
    """What a chart of a recording was given, if it is a recording that has these tables; else raises `ChartError`.

    A chart takes either a recording, and calls this, or a table, and calls `plain_columns`.
    """
    if not isinstance(offered, Recording):
        what = f"A {type(offered).__name__}" if _is_table(offered) else shown(offered)
        raise ChartError(f"{what} is not a recording.", remedy="Draw what scenario.record() gives.")
    for table in tables:
        if table not in offered.schemas:
            raise ChartError(
                f"Recording {offered.name!r} is one of {offered.kind}, which has no table {table!r}.",
                remedy="Draw a recording of the model that the chart belongs to.",
            )
    return offered


def one_stream(recording: Recording, stream: str | None, table: str) -> str:
    """The chosen stream, or the only one that has rows in `table`; raises `ChartError` if there is no one answer."""
    recording = the_recording(recording, table)
    present = {name for chunk in recording.chunks(table, "stream") for name in chunk["stream"].unique().to_pylist()}
    names = sorted(present - {None})
    if stream in names or (stream is None and len(names) == 1):
        return stream or str(names[0])
    remedy = "Choose one with stream=..." if names else "Record a scenario whose run fills this table."
    known = f"{len(names)} streams: {', '.join(names[:6])}" if names else "no stream"
    has = f"{known} in its table {table!r}"
    if stream is not None:
        has = f"no rows of stream {stream!r} in its table {table!r}; it has {', '.join(names) or 'no stream'}"
    raise ChartError(f"Recording {recording.name!r} has {has}.", remedy=remedy)


def stream_rows(recording: Recording, table: str, stream: str, *, by: str | None = None) -> list[dict[str, Any]]:
    """The rows of one stream as dicts, ascending by the column `by` if given."""
    every = recording.table(table)
    rows: list[dict[str, Any]] = every.filter(pc.equal(every["stream"], stream)).to_pylist()
    return rows if by is None else sorted(rows, key=itemgetter(by))


def columns_of(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, list[Any]]:
    """The rows as lists by column: the data of a chart."""
    return {name: [row[name] for row in rows] for name in names}


def columns(rows: Sequence[Sequence[Any]], *names: str) -> dict[str, list[Any]]:
    """Rows as the data of a chart: one list for each column, by its name."""
    return {name: [row[number] for row in rows] for number, name in enumerate(names)}


def share_of(rows: Sequence[_Entry], most: int) -> list[_Entry]:
    """At most `most` of the rows, evenly spread, the last one included."""
    if len(rows) <= most:
        return list(rows)
    return [rows[(n + 1) * len(rows) // most - 1] for n in range(most)]


def drawn_words(*parts: tuple[int, int, str]) -> str:
    """Which part of what there is a chart shows, as a sentence; "" if it shows all.

    >>> drawn_words((300, 1_200, "cycles"), (8, 8, "writers"))
    'Drawn are 300 of 1 200 cycles.'
    """
    shares = [f"{grouped(most)} of {grouped(count)} {what}" for most, count, what in parts if most < count]
    return f"Drawn are {listed(shares)}." if shares else ""


def faults(recording: Recording, stream: str, *, without: Sequence[str] = ()) -> list[Rule]:
    """What happened to a stream, as rules across a chart, but for some kinds."""
    rows = stream_rows(recording, "incidents", stream)
    return rules_of((row["at_ms"], row["kind"], row["detail"]) for row in rows if row["kind"] not in without)


def rules_of(incidents: Iterable[tuple[int, str, str]]) -> list[Rule]:
    """Incidents as rules across a chart, from when they were (clock, ms), their kind and detail.

    Those of one kind in one instant are one rule. Only the detail of a scale is not a sentence of its own.
    """
    details: dict[tuple[int, str], list[str]] = {}
    for at_ms, kind, detail in incidents:
        words = f"{kind} {detail}".strip() if kind == "scale" or not detail else detail
        details.setdefault((at_ms, kind), []).append(words)
    return [
        Rule(at_ms, ", ".join(dict.fromkeys(texts)), SHAPES.get(kind, "circle"))
        for (at_ms, kind), texts in sorted(details.items())
    ]


def plain_columns(
    table: Any,
    required: Sequence[str],
    optional: Sequence[str] = (),
    *,
    chart: str,
    example: str,
    recorded: str | None = None,
) -> dict[str, list[Any]]:
    """The columns of `table` as lists: the required ones, and those of the optional ones that it has; unknown is None.

    `table` is a pandas DataFrame; a Spark one, classic or of Connect; an Arrow table or what gives one (a DataFrame of
    polars); or an answer with `to_pandas`. All but the first and the last are read by way of Arrow, since pandas makes
    floats of whole numbers with unknowns. `recorded` names the table that is taken of a recording, if the chart draws a
    table that recordings have. `chart` names the picture and `example` a table that fits, for the error. Raises
    `ChartError` for anything else, and for a missing column.
    """
    if recorded is not None and isinstance(table, Recording):
        table = the_recording(table, recorded).table(recorded)
    if not _is_table(table):
        raise ChartError(
            f"{chart} cannot be drawn from a {type(table).__name__}.", remedy=f"Pass a table, for example {example}."
        )
    if _gives(table, "to_pandas") and not _gives(table, _ARROW):
        table = table.to_pandas()
    remote = _gives(table, "toArrow")
    if not remote and not isinstance(table, pd.DataFrame):
        table = pa.table(table)
    names = table.column_names if isinstance(table, pa.Table) else [str(name) for name in table.columns]
    if missing := [name for name in required if name not in names]:
        raise ChartError(
            f"The table has no column {listed([repr(name) for name in missing])}; "
            f"it has {listed(names) if names else 'no columns'}.",
            remedy=f"Pass a table with the columns {listed(required)}, for example {example}.",
        )
    chosen = [*required, *(name for name in optional if name in names)]
    if remote:
        with waiting_for("Spark computes what is drawn"):
            local = table[chosen].toArrow()
    else:
        local = table
    if isinstance(local, pd.DataFrame):
        return {name: _plain(local[name]) for name in chosen}
    return {name: local[name].to_pylist() for name in chosen}


_ARROW: Final = "__arrow_c_stream__"


def _gives(offered: Any, method: str) -> bool:
    """Whether values of this type have a method; nothing of the value itself is read.

    A DataFrame of Spark Connect answers to any name, with a column.
    """
    return hasattr(type(offered), method)


def _is_table(offered: Any) -> bool:
    """Whether `plain_columns` reads it."""
    if isinstance(offered, Recording):
        return False
    return isinstance(offered, pd.DataFrame) or any(_gives(offered, way) for way in ("toArrow", "to_pandas", _ARROW))


def _plain(column: Any) -> list[Any]:
    """Its values, numbers without fraction as `int`: a column with unknown values may have become floating-point."""
    values = column.astype(object).where(column.notna(), None)
    return [int(value) if isinstance(value, float) and value.is_integer() else value for value in values]


def one_value(column: str, values: Sequence[Any]) -> None:
    """Refuse a column in which not all values are the same, with a `ChartError`."""
    distinct = sorted({str(value) for value in values})
    if len(distinct) > 1:
        shown = ", ".join(distinct[:6]) + (", …" if len(distinct) > 6 else "")
        example = next(value for value in values if value is not None)
        raise ChartError(
            f"One chart shows one {column.removesuffix('_id')}, but the table has {len(distinct)}: {shown}.",
            remedy=f"Choose one with group={example!r}."
            if column == "group"
            else f"Keep one of them, for example with table[table[{column!r}] == {example!r}].",
        )


def whole(column: str, value: Any, *, unknown: bool = False) -> int | None:
    """The value as an integer, None only if it may be `unknown`; raises `ChartError` for anything else."""
    if value is None and unknown:
        return None
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is None or isinstance(value, bool | str) or number != value:
        raise ChartError(
            f"Column {column!r} holds {value!r}, which is not a whole number.",
            remedy="Give whole numbers, times in milliseconds; what is unknown is null, but never a clock time.",
        )
    return number


Drawing = TypeVar("Drawing")

_CONFIG = {"displaylogo": False, "responsive": False, "showSendToCloud": False}
"""A notebook redraws a chart itself; a plot that is responsive as well loses its height while it is scrolled out.
Nothing offers to upload a chart: its data stay on the machine."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Chart:
    """An answer as a picture.

    `sentence` states the answer in one line, `facts` has what it is made of and more, `data` contains the drawn values
    as plain lists (before any thinning), and `scene` describes the drawing. Nothing is drawn before it is needed:
    `figure()` returns the interactive picture, and `svg` the still one, which viewers without plotly show, such as
    GitHub.
    """

    sentence: str
    data: dict[str, list[Any]]
    scene: Scene
    facts: Facts = field(default_factory=lambda: NO_FACTS)

    if not TYPE_CHECKING:
        __getattr__ = unknown_attribute

    @property
    def svg(self) -> str:
        """The still picture as SVG text, in light and dark colours."""
        return draw_svg(self.scene)

    @property
    def html(self) -> str:
        """The still picture as HTML, readable in wide and in narrow columns."""
        return svg_for_page(self.scene)

    def figure(self) -> go.Figure:
        """The interactive picture, a new `plotly.graph_objects.Figure` at each call.

        It belongs to the caller: add traces, change the layout or export it; the chart itself does not change.

        >>> figure = chart.figure()                                        # doctest: +SKIP
        >>> figure.add_hline(y=30, line_dash="dot").update_layout(width=600)  # doctest: +SKIP
        """
        from wmlab.core.charts.plotly import draw_plotly  # plotly takes half a second to load

        return draw_plotly(self.scene)

    def __repr__(self) -> str:
        return self.sentence

    def _repr_mimebundle_(self, **_: object) -> dict[str, Any]:
        """The picture as a notebook stores it: the same JSON, SVG and text for the same data, in every process."""
        return {
            "application/vnd.plotly.v1+json": _stored_figure(self.scene) | {"config": _CONFIG},
            "image/svg+xml": draw_svg(self.scene, headed=False),
            "text/plain": self.sentence,
        }

    def _ipython_display_(self) -> None:
        """Question, answer and folded facts, and the picture below them."""
        self.show_heading()
        self.show_picture()

    def show_heading(self) -> None:
        """Show question and answer in a notebook, as HTML that wraps in wide and in narrow outputs."""
        from wmlab.core.charts.plotly import draw_heading  # plotly takes half a second to load

        _publish({"text/html": draw_heading(self.scene, self.facts), "text/plain": self.scene.title})

    def show_picture(self) -> None:
        """Show the picture in a notebook."""
        _publish(self._repr_mimebundle_())

    def save(self, path: str | Path) -> Path:
        """Write the chart and return its path; the suffix decides the format.

        `.html`: the interactive picture, on its own and offline; `.svg`: the still one; `.png`: the same in light
        colours at twice its size; `.json`: sentence, facts and data; `.txt`: the sentence and the facts. Raises
        `ChartError` for any other suffix.
        """
        return save_as(path, "chart", self, _WRITERS)


def chart_of(
    sentence: str,
    data: dict[str, list[Any]],
    *,
    facts: Facts = NO_FACTS,
    title: str,
    note: str = "",
    across: AnyAxis,
    panels: Sequence[Panel],
    rules: Sequence[Rule] = (),
) -> Chart:
    """A chart whose picture has under its title the sentence; `note` says which part of what there is is drawn."""
    scene = Scene(title=title, subtitle=sentence, note=note, across=across, panels=panels, rules=rules)
    return Chart(sentence=sentence, data=data, scene=scene, facts=facts)


def _publish(bundle: dict[str, Any]) -> None:
    import IPython.display  # needed where there is a notebook

    publish: Callable[[dict[str, Any]], None] = IPython.display.publish_display_data
    publish(bundle)


def template() -> go.layout.Template:
    """The plotly template of all charts, readable on light and dark pages, for your own figures."""
    from wmlab.core.charts.plotly import TEMPLATE  # plotly takes half a second to load

    return TEMPLATE


def _stored_figure(scene: Scene) -> dict[str, Any]:
    """The figure as JSON has it, in the colours of its page, without the question and the answer above it."""
    from wmlab.core.charts.plotly import draw_plotly

    return themed(json.loads(draw_plotly(scene, headed=False).to_json()))


def _html(chart: Chart) -> bytes:
    from plotly.io import to_html  # type: ignore[import-untyped]

    from wmlab.core.charts.plotly import draw_heading

    figure, config = _stored_figure(chart.scene), _CONFIG | {"responsive": True}
    page: str = to_html(figure, include_plotlyjs=True, config=config, div_id="wmlab-chart", validate=False)
    return (
        page.replace("<head>", f"<head>{PAGE_STYLE}", 1)
        .replace("<body>", f"<body>{draw_heading(chart.scene, chart.facts)}", 1)
        .encode()
    )


def _json(chart: Chart) -> bytes:
    whole = {"sentence": chart.sentence, "facts": chart.facts.to_dict(), "data": chart.data}
    return f"{json.dumps(whole, ensure_ascii=False, indent=1)}\n".encode()


_WRITERS: dict[str, Callable[[Chart], bytes]] = {
    ".html": _html,
    ".svg": lambda chart: chart.svg.encode(),
    ".png": lambda chart: bytes(resvg_py.svg_to_bytes(svg_string=chart.svg, zoom=2.0, background=ROLES["paper"].light)),
    ".json": _json,
    ".txt": lambda chart: (f"{chart.sentence}\n" + (f"\n{chart.facts!r}\n" if chart.facts else "")).encode(),
}


def save_as(path: str | Path, noun: str, value: Drawing, writers: Mapping[str, Callable[[Drawing], bytes]]) -> Path:
    """Write what the writer of the path's suffix makes of the value; raises `ChartError` without, or if it cannot."""
    target = as_path(path, ChartError)
    make = writers.get(target.suffix.lower())
    if make is None:
        raise ChartError(
            f"A {noun} cannot be saved as {target.name!r}: its suffix is {target.suffix!r}.",
            remedy=f"Choose one of {', '.join(writers)}.",
        )
    return write(target, make(value), ChartError)
