"""Makes the gallery of charts: `python tools/gallery.py` writes docs/gallery.md and its pictures.

Every public chart has an entry with the code that draws it. The code of an entry follows that of its section, which
stands once at the section's begin; the last line of an entry is the chart. A picture is the chart's `svg`, a diagram
stands in the page as Mermaid text. Equal code gives equal bytes.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from wmlab.core.charts.chart import Chart

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs" / "gallery.md"
IMAGES: Final = ROOT / "docs" / "images" / "gallery"
HEAD: Final = """# Gallery

Every chart of wmlab, with the code that draws it, run from the directory of the repository. Each chart asks one
question; the sentence below the question is the answer, computed from all rows. In a notebook a chart is interactive;
`chart.save("file.svg")` writes the picture that is shown here. `python tools/gallery.py` makes this page.
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """A chart by its public name, and the code that draws it."""

    name: str
    code: str

    @property
    def picture(self) -> Path:
        """Where its picture is kept."""
        return IMAGES / f"{self.name.removeprefix('wm.').replace('.chart.', '.').replace('.', '_')}.svg"


@dataclass(frozen=True, slots=True)
class Section:
    """Charts that are drawn of the same things; `start` is the code that makes these."""

    title: str
    start: str
    entries: tuple[Entry, ...]


SECTIONS: Final = (
    Section(
        "Streams",
        """
import wmlab as wm

scenario = wm.Scenario.load("first_bounds")
recording = scenario.record()
spark = wm.spark_session()
""",
        (
            Entry("wm.chart.time_bounds", "wm.chart.time_bounds(recording.time_bounds(spark), recording=recording)"),
            Entry("wm.chart.key_space", "wm.chart.key_space(recording)"),
            Entry("wm.chart.stream_cut", "wm.chart.stream_cut(recording, at_ms=21_500)"),
            Entry("wm.chart.moment", "wm.chart.moment(recording, 36_000)"),
            Entry("wm.chart.writer_marks", "wm.chart.writer_marks(recording)"),
            Entry("wm.chart.watermark_cycles", "wm.chart.watermark_cycles(recording)"),
            Entry("wm.chart.holders", "wm.chart.holders(recording.explain())"),
            Entry("wm.chart.event_vs_arrival", "wm.chart.event_vs_arrival(recording)"),
            Entry("wm.chart.lag", "wm.chart.lag(recording)"),
            Entry("wm.chart.lag_distribution", "wm.chart.lag_distribution(recording)"),
            Entry(
                "wm.chart.reader_times",
                """
pause = wm.script.PauseReader(at_ms=20_500, reader="readers-1", for_ms=8_000)
readers = wm.ReaderGroup(readers=2, publish_every_ms=1_000)
shared = scenario.replace(readers=readers, rules=wm.Rules(read_side="document"), script=[pause])
wm.chart.reader_times(shared.record())
""",
            ),
            Entry(
                "wm.chart.alignment",
                """
streams = [wm.Stream("orders"), wm.Stream("deliveries")]
shop = wm.EventWriter("shop", rate_per_s=20, delay_mean_ms=200, stream="orders")
van = wm.EventWriter("van", rate_per_s=5, delay_mean_ms=3_000, stream="deliveries")
both = wm.ReaderGroup("joiner", streams=["orders", "deliveries"])
joined = wm.Scenario("a join", streams=streams, writers=[shop, van], readers=both, duration_ms=60_000).record()
wm.chart.alignment(joined)
""",
            ),
            Entry(
                "wm.chart.generations",
                """
back = wm.script.CrashWriter(at_ms=10_000, writer="w2", restart_after_ms=30_000)
wm.chart.generations(scenario.replace(script=[back]).record())
""",
            ),
            Entry(
                "wm.chart.bucket_ownership",
                """
crash = wm.script.CrashController(at_ms=20_000, restart_after_ms=20_000)
wm.chart.bucket_ownership(scenario.replace(controllers=wm.Controllers(3), script=[crash]).record())
""",
            ),
            Entry(
                "wm.chart.replay",
                """
rules = {"as recorded": {}, "4 s": {"timeout_ms": 4_000}}
wm.chart.replay(recording.replay(spark, rules), recording)
""",
            ),
            Entry(
                "wm.chart.sweep",
                """
runs = scenario.sweep(spark, seeds=range(4), timeout_ms=[1_000, 4_000, 15_000])
wm.chart.sweep(runs, by="timeout_ms")
""",
            ),
            Entry(
                "wm.chart.message_diagram",
                """
small = scenario.replace(
    writers=[wm.EventWriter("w1", rate_per_s=1), wm.EventWriter("w2", rate_per_s=1)],
    network=wm.script.network.Network(keep_messages=True),
)
messages = small.record().to_pandas("messages")
wm.chart.message_diagram(messages[messages.kind.str.contains("note")], around_ms=20_000, span_ms=4_000)
""",
            ),
            Entry("wm.chart.lineage", "wm.chart.lineage(recording)"),
            Entry("wm.chart.topology", "wm.chart.topology(recording)"),
        ),
    ),
    Section(
        "Dataflows",
        """
import wmlab as wm

flow = wm.dataflow.Dataflow.load("join_over_join").record()
""",
        (
            Entry("wm.dataflow.chart.coalescing", 'wm.dataflow.chart.coalescing(flow, vertex="joinOuter")'),
            Entry("wm.dataflow.chart.state_size", 'wm.dataflow.chart.state_size(flow, vertex="joinOuter")'),
            Entry(
                "wm.dataflow.chart.queue_diagram",
                """
flow = wm.dataflow.Dataflow.load("hazelcast_26474")
wm.dataflow.chart.queue_diagram(flow.replace(rules="implementation").record())
""",
            ),
            Entry(
                "wm.dataflow.chart.interleavings",
                """
inputs = {"fast": [200, 600, 1_000, "idle"], "slow": [100, 500, "idle"]}
wm.dataflow.chart.interleavings(wm.dataflow.permutations(inputs, rules=wm.dataflow.Rules(highest_held_back=True)))
""",
            ),
        ),
    ),
    Section(
        "A job that runs",
        """
import wmlab as wm

job = wm.engine.read("data/engine_logs/flink/hour_behind.jsonl")
""",
        (Entry("wm.engine.chart.watermarks", "wm.engine.chart.watermarks(job)"),),
    ),
    Section(
        "Progress of query plans",
        """
import wmlab as wm

plan = wm.progress.PlanScenario.load("progress_flights").record()
""",
        (
            Entry("wm.progress.chart.progress", "wm.progress.chart.progress(plan)"),
            Entry("wm.progress.chart.sequence_prefix", 'wm.progress.chart.sequence_prefix(plan, emitter="UA")'),
            Entry("wm.progress.chart.windows_firing", "wm.progress.chart.windows_firing(plan)"),
            Entry("wm.progress.chart.plan", "wm.progress.chart.plan(plan)"),
        ),
    ),
    Section(
        "Strategies over one log",
        """
import wmlab as wm

log = wm.trace.load("flights").between("2013-07-15", "2013-07-17")
hour = 3_600_000
bounded = [wm.strategy.BoundedOutOfOrderness(hours * hour) for hours in (2, 6)]
found = wm.strategy.compare(log, [*bounded, wm.strategy.ConformalWatermark(0.01)])
""",
        (
            Entry("wm.strategy.chart.writers", "wm.strategy.chart.writers(log)"),
            Entry("wm.strategy.chart.lateness_curve", "wm.strategy.chart.lateness_curve(found)"),
            Entry("wm.strategy.chart.idleness", "wm.strategy.chart.idleness(wm.strategy.idleness(log))"),
            Entry("wm.strategy.chart.lag", "wm.strategy.chart.lag(found)"),
            Entry(
                "wm.strategy.chart.uncertainty",
                "wm.strategy.chart.uncertainty(log, wm.strategy.PravegaWatermark(period_ms=600_000, "
                "timeout_ms=8 * hour))",
            ),
        ),
    ),
)


def entries() -> list[Entry]:
    """All entries, in the order of the page."""
    return [entry for section in SECTIONS for entry in section.entries]


def drawn(*names: str) -> Iterator[tuple[Entry, Any]]:
    """The charts of these names, or of all, each with its entry; their code runs in the current directory."""
    for section in SECTIONS:
        chosen = [entry for entry in section.entries if not names or entry.name in names]
        variables: dict[str, Any] = {}
        for number, entry in enumerate(chosen):
            if number == 0:
                exec(compile(section.start, str(PAGE), "exec"), variables)
            yield entry, _value(entry.code, variables)


def _value(code: str, variables: dict[str, Any]) -> Any:
    """What the last line of the code evaluates to; names that it sets are its own."""
    tree = ast.parse(code.strip())
    last = tree.body.pop()
    assert isinstance(last, ast.Expr), "the code of an entry ends with the chart"
    own = dict(variables)
    exec(compile(tree, str(PAGE), "exec"), own)
    return eval(compile(ast.Expression(last.value), str(PAGE), "eval"), own)


def written(sentences: dict[str, str], diagrams: dict[str, str]) -> str:
    """The page; `sentences` has what each chart answers, and `diagrams` the Mermaid text of each diagram, by name."""
    parts = [HEAD, " · ".join(f"[{entry.name}](#{_anchor(entry.name)})" for entry in entries()) + "\n"]
    for section in SECTIONS:
        parts.append(f"## {section.title}\n\n```python\n{section.start.strip()}\n```\n")
        for entry in section.entries:
            shown = (
                f"```mermaid\n{diagrams[entry.name].strip()}\n```"
                if entry.name in diagrams
                else f"![{sentences[entry.name]}]({entry.picture.relative_to(PAGE.parent).as_posix()})"
            )
            parts.append(f"### {entry.name}\n\n```python\n{entry.code.strip()}\n```\n\n{shown}\n")
    return "\n".join(parts)


def _anchor(name: str) -> str:
    """The anchor that GitHub gives the heading."""
    return name.replace(".", "").lower()


def main() -> None:
    """Write the page and its pictures, and remove pictures without an entry."""
    os.chdir(ROOT)
    sentences, diagrams = dict[str, str](), dict[str, str]()
    IMAGES.mkdir(parents=True, exist_ok=True)
    for entry, chart in drawn():
        if isinstance(chart, Chart):
            sentences[entry.name] = chart.sentence.replace("[", "(").replace("]", ")").replace("\n", " ")
            entry.picture.write_text(chart.svg, encoding="utf-8")
        else:
            diagrams[entry.name] = chart.mermaid
    for stale in {*IMAGES.glob("*.svg")} - {entry.picture for entry in entries() if entry.name in sentences}:
        stale.unlink()
    PAGE.write_text(written(sentences, diagrams), encoding="utf-8")


if __name__ == "__main__":
    main()
