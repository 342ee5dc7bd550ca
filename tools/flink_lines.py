"""Runs the lines that are written for Flink on Flink, and compares the watermarks of each with those that are said.

    python tools/flink_lines.py DIRECTORY
    ... --write FILE        also keep the lines that were accepted, for a test that needs no Flink

DIRECTORY is that of `oracle_flink.py`. A line of SQL is part of a table over a file with event times as a log has them;
each row is asked for its time and for the watermark before it. A line of the DataStream API is compiled as it stands,
and its generator receives the same times.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any, Final
from zoneinfo import ZoneInfo

from tools.oracle_flink import Oracle
from wmlab.strategies.model.bounded import BoundedOutOfOrderness
from wmlab.strategies.model.writers import PerWriterMinimum
from wmlab.strategies.recipes import EventTimeColumn, settings

BOUNDS: Final = (0, 1, 59_999, 5_284_000, 99 * 86_400_000 + 999, 400 * 86_400_000)
ROWS: Final = 12
START_MS: Final = 1_700_000_000_000
PLAIN: Final = "%Y-%m-%d %H:%M:%S"
ORIGIN_MS: Final = -2_209_161_600_000
"""The day 0 of spreadsheets."""


def written(form: str, zone: str | None = None, digits: int = 6) -> Callable[[int], str]:
    """How a form of `datetime.strftime` writes a time."""

    def text(time_ms: int) -> str:
        at = datetime.fromtimestamp(time_ms / 1_000, UTC if zone is None else ZoneInfo(zone))
        return at.strftime(form.replace("%f", f"{at.microsecond:06}"[:digits]))

    return text


COLUMNS: Final[dict[str, tuple[EventTimeColumn, str, int, Callable[[int], str]]]] = {
    "timestamp": (EventTimeColumn("at"), "TIMESTAMP(3)", 1, written(f"{PLAIN}.%f", digits=3)),
    "with a zone": (EventTimeColumn("at"), "TIMESTAMP_LTZ(3)", 1, written(f"{PLAIN}.%fZ", digits=3)),
    "a word of SQL": (EventTimeColumn("time"), "TIMESTAMP(3)", 1, written(f"{PLAIN}.%f", digits=3)),
    "a name with a blank": (EventTimeColumn("taken at", "text"), "STRING", 1_000, written(PLAIN)),
    "ISO": (EventTimeColumn("at", "text"), "STRING", 1, written("%Y-%m-%dT%H:%M:%S.%fZ")),
    "dates": (EventTimeColumn("at", "text"), "STRING", 86_400_000, written("%Y-%m-%d")),
    "local ISO": (EventTimeColumn("at", "text", zone="Asia/Kolkata"), "STRING", 1_000, written(PLAIN, "Asia/Kolkata")),
    "local": (EventTimeColumn("at", zone="Asia/Tokyo"), "TIMESTAMP(3)", 1_000, written(PLAIN, "Asia/Tokyo")),
    "days": (EventTimeColumn("at", "d", ORIGIN_MS), "DOUBLE", 1_000, lambda ms: str((ms - ORIGIN_MS) / 86_400_000)),
    "seconds": (EventTimeColumn("at", "s"), "BIGINT", 1_000, lambda ms: str(ms // 1_000)),
    "parts of seconds": (EventTimeColumn("at", "s"), "DOUBLE", 1, lambda ms: f"{ms / 1_000:.3f}"),
    "texts of seconds": (EventTimeColumn("at", "s"), "STRING", 1, lambda ms: f"{ms / 1_000:.3f}"),
    "milliseconds": (EventTimeColumn("at", "ms"), "BIGINT", 1, str),
    "inside of a row": (EventTimeColumn("geo.time", "ms"), "ROW<`time` BIGINT>", 1, str),
    "from an origin": (EventTimeColumn("at", "ms", 5_000), "BIGINT", 1, lambda ms: str(ms - 5_000)),
    "microseconds": (EventTimeColumn("at", "us"), "BIGINT", 1, lambda ms: f"{ms}007"),
    "texts of nanoseconds": (EventTimeColumn("at", "ns"), "STRING", 1, lambda ms: f"{ms}000013"),
    "numbers of digits": (EventTimeColumn("at", "%Y%m%d%H%M%S"), "BIGINT", 1_000, written("%Y%m%d%H%M%S")),
} | {
    form: (EventTimeColumn("at", form), "STRING", tick_ms, written(form, digits=digits))
    for form, tick_ms, digits in (
        ("%d.%m.%Y %H:%M:%S.%f", 1, 3),
        ("%Y/%m/%dT%H:%M:%S.%fZ", 100, 1),
        ("%m/%d/%Y %I:%M:%S %p", 1_000, 6),
        ("%d/%m/%Y %H:%M", 60_000, 6),
        ("%d.%m.%Y at %H:%M:%S", 1_000, 6),
        ("[%d/%b/%Y:%H:%M:%S]", 1_000, 6),
        ("%d %B %y, %H h %M'%S", 1_000, 6),
        ("%Y-%j", 86_400_000, 6),
        ("%y%m%d", 86_400_000, 6),
    )
}
"""A column of each form: how Flink declares it, its tick in ms, and how it writes a time."""
IMPOSSIBLE: Final = ("offset", "minutes", "other", "several", "columns", "%d.%m.%Y %H:%M:%S %z")
"""Forms for which no line is given."""


class Lines:
    """Flink's SQL and its compiler for single lines, in one Java process."""

    def __init__(self, oracle: Oracle, folder: Path) -> None:
        self.oracle, self.jvm, self.folder, self.count = oracle, oracle.jvm, folder, 0
        api = self.jvm.org.apache.flink.table.api
        self.tables = api.TableEnvironment.create(api.EnvironmentSettings.inStreamingMode())
        for key, value in (("parallelism.default", "1"), ("pipeline.auto-watermark-interval", "0 ms")):
            self.tables.getConfig().set(key, value)
        self.tables.getConfig().set("table.local-time-zone", "UTC")

    def of_sql(self, code: str, column: EventTimeColumn, declared: str, values: list[str]) -> list[tuple[int, int]]:
        """Of each row its event time and the watermark before it, ms; a first one has none, -1."""
        self.count += 1
        where = self.folder / str(self.count)
        where.mkdir()
        (where / "rows.jsonl").write_text("".join(json.dumps(_nested(column.name, value)) + "\n" for value in values))
        if before := re.match(r"SET '(.*)' = '(.*)';\n", code):
            self.tables.getConfig().set(before[1], before[2])
            code = code[before.end() :]
        files = f"'connector'='filesystem', 'path'='{where}', 'format'='json', 'json.timestamp-format.standard'='SQL'"
        columns = f"`{column.name.split('.')[0]}` {declared}, {code}"
        self.tables.executeSql(f"CREATE TEMPORARY TABLE t{self.count} ({columns}) WITH ({files})")
        time = f"`{column.computed or column.name}`"
        cast = "DATE_FORMAT({0}, 'yyyy-MM-dd HH:mm:ss.SSS')"
        asked = f"SELECT {cast.format(time)}, {cast.format(f'CURRENT_WATERMARK({time})')} FROM t{self.count}"
        rows, found = self.tables.executeSql(asked).collect(), []
        while rows.hasNext():
            row = rows.next()
            found.append((_ms(row.getField(0)), _ms(row.getField(1))))
        return found

    def of_stream(self, code: str, times: list[int]) -> list[tuple[int, int]]:
        """The same of a line of the DataStream API."""
        events = ", ".join(f"{time}L" for time in times)
        shell, answer = self.jvm.jdk.jshell.JShell.builder().executionEngine("local").build(), ""
        shell.addToClasspath(self.oracle.classpath)
        for line in (*_IMPORTS, f"var strategy = {code};", *_GENERATOR, _EVENTS.format(events), "answer.toString()"):
            for event in shell.eval(line):
                if event.status().toString() != "VALID" or event.exception() is not None:
                    raise SystemExit(f"Flink does not accept {line!r}: {event}")
                answer = event.value() or ""
        marks = [-1 if mark == -(2**63) else mark for mark in map(int, answer.strip('"').split())]
        return list(zip(times, marks, strict=True))


_IMPORTS: Final = (
    "import java.time.Duration;",
    "import org.apache.flink.types.Row;",
    "import org.apache.flink.api.common.eventtime.*;",
)
_GENERATOR: Final = (
    "var said = new long[] {Long.MIN_VALUE};",
    """var output = new WatermarkOutput() {
        public void emitWatermark(Watermark mark) { said[0] = mark.getTimestamp(); }
        public void markIdle() {}
        public void markActive() {}
    };""",
    """var context = new WatermarkGeneratorSupplier.Context() {
        public org.apache.flink.metrics.MetricGroup getMetricGroup() { return null; }
        public org.apache.flink.util.clock.RelativeClock getInputActivityClock() {
            return org.apache.flink.util.clock.SystemClock.getInstance();
        }
    };""",
    "var generator = strategy.createWatermarkGenerator(context);",
    "var answer = new StringBuilder();",
)
"""The generator of a strategy, and what it says."""
_EVENTS: Final = """for (long time : new long[] {{{0}}}) {{
    answer.append(said[0]).append(' ');
    generator.onEvent(null, time, output);
    generator.onPeriodicEmit(output);
}}"""


def _nested(path: str, value: str) -> dict[str, Any]:
    """A document with a value at a path."""
    first, *rest = path.split(".", 1)
    return {first: _nested(rest[0], value) if rest else value}


def _ms(text: Any) -> int:
    if text is None:
        return -1
    return round(datetime.fromisoformat(str(text)).replace(tzinfo=UTC).timestamp() * 1_000)


def said(times: list[int], bound_ms: int) -> list[tuple[int, int]]:
    """What a constant bound does: a record is late below the largest time less the bound; Flink has 1 ms less."""
    largest = [max(times[:row], default=None) for row in range(len(times))]
    return [(time, -1 if most is None else most - bound_ms - 1) for time, most in zip(times, largest, strict=True)]


def main() -> None:
    """Runs every kind of line, and prints how many agree; ends with the first that does not."""
    parser = argparse.ArgumentParser(description="the lines for Flink on Flink")
    parser.add_argument("directory", type=Path, help="where Flink is installed")
    parser.add_argument("--write", type=Path, help="the file of the accepted lines")
    options = parser.parse_args()
    oracle, random, accepted = Oracle(options.directory), Random("lines"), []
    with tempfile.TemporaryDirectory() as folder:
        lines = Lines(oracle, Path(folder))
        try:
            for name, (column, declared, tick_ms, write) in COLUMNS.items():
                for bound_ms in BOUNDS if name in ("timestamp", "ISO") else random.sample(BOUNDS, 1):
                    spread = max(1, 400_000 // tick_ms) if tick_ms < 60_000 else 60
                    times = [START_MS // tick_ms * tick_ms + tick_ms * random.randrange(spread) for _ in range(ROWS)]
                    idle_ms = random.choice((None, 8_500))
                    strategy = (
                        BoundedOutOfOrderness(bound_ms) if idle_ms is None else PerWriterMinimum(bound_ms, idle_ms)
                    )
                    code = settings(strategy, event_time=column)["Flink SQL"].code
                    of_flink = lines.of_sql(code, column, declared, [*map(write, times)])
                    _compare(name, code, of_flink, said(times, bound_ms))
                    accepted.append({**asdict(column), "bound_ms": bound_ms, "idle_ms": idle_ms, "code": code})
            for form in IMPOSSIBLE:
                assert not settings(0, event_time=EventTimeColumn("at", form))["Flink SQL"].possible, form
            print(f"SQL: {lines.count} tables, no difference", flush=True)
            for strategy in (PerWriterMinimum(0), PerWriterMinimum(5_284, 8_500), PerWriterMinimum(99)):
                code = settings(strategy)["Flink"].code
                times = [START_MS + random.randrange(20_000) for _ in range(ROWS)]
                _compare("DataStream", code, lines.of_stream(code, times), said(times, strategy.bound))
            print("DataStream: 3 lines, no difference", flush=True)
        finally:
            oracle.close()
    if options.write:
        options.write.write_text("[\n" + ",\n".join(map(json.dumps, accepted)) + "\n]\n", encoding="utf-8")


def _compare(name: str, code: str, of_flink: list[tuple[int, int]], of_wmlab: list[tuple[int, int]]) -> None:
    """Ends the run where a line has other times or watermarks than are said."""
    if of_flink != of_wmlab:
        raise SystemExit(f"{name}: {code}\nFlink {of_flink}\nwmlab {of_wmlab}")


if __name__ == "__main__":
    sys.exit(main())
