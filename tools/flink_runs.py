"""Makes the kept runs of real Flink jobs anew, which `make oracles FLINK_RUNS=DIRECTORY` does.

    python tools/flink_runs.py DIRECTORY data/engine_logs/flink [NAME ...]

DIRECTORY has the folder `lib` of a Flink; the wheel `apache-flink-libraries`, unpacked, has it below `pyflink`. A
cluster of one job manager and one task manager runs on loopback while the jobs do. Each job is polled by
`wm.engine.flink` as a user's would be, and some of its polls are kept.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import wmlab as wm

PORT: Final = 8099
REST: Final = f"http://127.0.0.1:{PORT}"
START_S: Final = 120
POLLS: Final = 30
_CONFIG: Final = f"""
jobmanager.rpc.address: 127.0.0.1
jobmanager.rpc.port: 6199
jobmanager.bind-host: 127.0.0.1
rest.address: 127.0.0.1
rest.bind-address: 127.0.0.1
rest.port: {PORT}
taskmanager.host: 127.0.0.1
taskmanager.bind-host: 127.0.0.1
taskmanager.numberOfTaskSlots: 4
taskmanager.cpu.cores: 4.0
taskmanager.memory.task.heap.size: 256m
taskmanager.memory.task.off-heap.size: 0m
taskmanager.memory.managed.size: 64m
taskmanager.memory.network.min: 64m
taskmanager.memory.network.max: 64m
taskmanager.memory.framework.heap.size: 128m
taskmanager.memory.framework.off-heap.size: 64m
taskmanager.memory.jvm-metaspace.size: 256m
taskmanager.memory.jvm-overhead.min: 128m
taskmanager.memory.jvm-overhead.max: 128m
jobmanager.memory.process.size: 1024m
execution.target: remote
parallelism.default: 2
metrics.fetcher.update-interval: 500
"""
_OPEN: Final = [
    f"--add-opens=java.base/java.{name}=ALL-UNNAMED"
    for name in ("lang", "util", "net", "io", "nio", "time", "text", "lang.reflect", "util.concurrent")
]
_ROLES: Final = ("StandaloneSessionClusterEntrypoint", "TaskManagerRunner")
_SINK: Final = "CREATE TABLE sink (a BIGINT, n BIGINT) WITH ('connector' = 'blackhole');"
_WINDOW: Final = (
    "INSERT INTO sink SELECT CAST(NULL AS BIGINT), COUNT(*) FROM "
    "TABLE(TUMBLE(TABLE {table}, DESCRIPTOR(ts), INTERVAL {size})) GROUP BY window_start, window_end;"
)
_JOIN: Final = (
    "INSERT INTO sink SELECT o.id, p.id FROM orders o JOIN other p ON o.id = p.id "
    "AND o.ts BETWEEN p.ts - INTERVAL '5' SECOND AND p.ts + INTERVAL '5' SECOND;"
)


def _generated(name: str, ts: str, *, delay: str = "'2' SECOND", options: str = "", per_s: int = 20) -> str:
    """A table of the source `datagen`: ids from 0 to 9, and a time by an expression."""
    return (
        f"CREATE TABLE {name} (id BIGINT, dice INT, ts AS {ts}, WATERMARK FOR ts AS ts - INTERVAL {delay}) WITH "
        f"('connector' = 'datagen', 'rows-per-second' = '{per_s}', 'fields.id.min' = '0', 'fields.id.max' = '9', "
        f"'fields.dice.min' = '0', 'fields.dice.max' = '299'{options});"
    )


def _of_files(name: str, options: str = "") -> str:
    """A table over the files of a folder, which is looked at again each second."""
    return (
        f"CREATE TABLE {name} (id BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND) WITH "
        f"('connector' = 'filesystem', 'path' = 'file://{{folder}}', 'format' = 'csv', "
        f"'source.monitor-interval' = '1s'{options});"
    )


@dataclass(frozen=True)
class Run:
    """A job by its statements; `rows` are written to one file of the folder before it begins.

    Of the polls `kept` are kept, the first and the last among them.
    """

    statements: tuple[str, ...]
    settings: dict[str, str] = field(default_factory=dict)
    rows: int = 0
    kept: int = 6


_NOW: Final = "LOCALTIMESTAMP"
_AN_HOUR_AGO: Final = "TIMESTAMPADD(HOUR, -1, LOCALTIMESTAMP)"
_ORDERS: Final = _generated("orders", _NOW)
RUNS: Final = {
    "healthy": Run((_ORDERS, _WINDOW.format(table="orders", size="'5' SECOND"))),
    "hour_behind": Run((_ORDERS, _generated("other", _AN_HOUR_AGO, per_s=2), _JOIN)),
    "other_ends": Run(
        (_ORDERS, _generated("other", _NOW, options=", 'number-of-rows' = '24'", per_s=2), _JOIN),
    ),
    "other_silent": Run((_ORDERS, _of_files("other"), _JOIN)),
    "future_row": Run(
        (
            _generated("orders", "TIMESTAMPADD(DAY, CASE WHEN dice = 0 THEN 1 ELSE 0 END, LOCALTIMESTAMP)"),
            _WINDOW.format(table="orders", size="'5' SECOND"),
        )
    ),
    "late_rows": Run(
        (
            _generated("orders", "TIMESTAMPADD(SECOND, -CAST(dice / 10 AS INT), LOCALTIMESTAMP)"),
            _WINDOW.format(table="orders", size="'5' SECOND"),
        )
    ),
    "delay_too_large": Run(
        (_generated("orders", _NOW, delay="'1' HOUR"), _WINDOW.format(table="orders", size="'5' SECOND"))
    ),
    "window_not_over": Run((_ORDERS, _WINDOW.format(table="orders", size="'1' HOUR"))),
    "one_subtask_without_rows": Run((_of_files("orders"), _WINDOW.format(table="orders", size="'5' SECOND")), rows=500),
    "all_idle": Run(
        (
            _of_files("orders", ", 'scan.watermark.idle-timeout' = '3s'"),
            _WINDOW.format(table="orders", size="'5' SECOND"),
        ),
        {"table.exec.source.idle-timeout": "3 s"},
        rows=500,
    ),
    "union_behind": Run(
        (
            _ORDERS,
            _generated("other", _AN_HOUR_AGO, per_s=2),
            "CREATE VIEW everything AS SELECT id, ts FROM orders UNION ALL SELECT id, ts FROM other;",
            _WINDOW.format(table="everything", size="'5' SECOND"),
        )
    ),
    "back_pressure": Run(
        (
            _generated("orders", _NOW, per_s=2_000),
            "CREATE VIEW heavy AS SELECT id, ts, SHA512(REPEAT(CAST(RAND() AS STRING), 40000)) AS digest FROM orders;",
            "INSERT INTO sink SELECT id, COUNT(DISTINCT digest) FROM "
            "TABLE(TUMBLE(TABLE heavy, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY id, window_start, window_end;",
        ),
        {"pipeline.operator-chaining.enabled": "false", "table.optimizer.agg-phase-strategy": "ONE_PHASE"},
        kept=5,
    ),
    "restarts": Run(
        (
            _ORDERS,
            "CREATE VIEW risky AS SELECT 100 / NULLIF(dice, 299) / (dice - 298) AS q, ts FROM orders;",
            "INSERT INTO sink SELECT SUM(q), COUNT(*) FROM "
            "TABLE(TUMBLE(TABLE risky, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY window_start, window_end;",
        ),
        {
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "1000",
            "restart-strategy.fixed-delay.delay": "1 s",
        },
    ),
}


def _class_path(flink: Path) -> str:
    return os.pathsep.join(map(str, sorted((flink / "lib").glob("*.jar"))))


@contextlib.contextmanager
def cluster(flink: Path, home: Path) -> Iterator[None]:
    """A cluster on loopback while the block runs."""
    (home / "conf").mkdir()
    (home / "conf" / "config.yaml").write_text(_CONFIG + f"io.tmp.dirs: {home}\n", encoding="utf-8")
    begin = ["java", "-Xmx700m", *_OPEN, "-cp", _class_path(flink)]
    packages = ("org.apache.flink.runtime.entrypoint", "org.apache.flink.runtime.taskexecutor")
    with contextlib.ExitStack() as stack:
        for package, role in zip(packages, _ROLES, strict=True):
            log = stack.enter_context((home / f"{role}.log").open("wb"))
            command = [*begin, f"{package}.{role}", "--configDir", str(home / "conf")]
            process = subprocess.Popen(command, stdout=log, stderr=log)
            stack.callback(process.wait)
            stack.callback(process.terminate)
        deadline = time.monotonic() + START_S
        while not _slots():
            if time.monotonic() > deadline:
                raise SystemExit(f"the cluster does not come up; see {home}")
            time.sleep(1)
        yield


def _slots() -> int:
    try:
        return int(_ask("/overview")["slots-available"])
    except OSError:
        return 0


def _ask(path: str, method: str = "GET") -> Any:
    with urllib.request.urlopen(urllib.request.Request(REST + path, method=method), timeout=10) as answer:
        return json.loads(answer.read() or b"{}")


def submit(flink: Path, home: Path, name: str, run: Run) -> None:
    """Send a job to the cluster."""
    folder = home / f"rows-{name}"
    folder.mkdir()
    if run.rows:
        begin_s = 1_767_225_600  # 1 January 2026
        lines = (
            f"{n % 10},{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(begin_s + n // 10))}\n" for n in range(run.rows)
        )
        (folder / "rows.csv").write_text("".join(lines), encoding="utf-8")
    statements = [statement.replace("{folder}", str(folder)) for statement in (_SINK, *run.statements)]
    script = home / f"{name}.sql"
    script.write_text("\n".join(statements) + "\n", encoding="utf-8")
    settings = [f"{key}={setting}" for key, setting in run.settings.items()]
    program = Path(__file__).with_name("FlinkJob.java")
    command = ["java", *_OPEN, "-cp", _class_path(flink), str(program), str(PORT), str(script), *settings]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if "Job ID" not in done.stdout:
        raise SystemExit(f"{name}: {done.stdout[-3000:]}{done.stderr[-2000:]}")


def record(flink: Path, home: Path, name: str, target: Path) -> None:
    """Run a job, poll it, end it, and keep some of its polls."""
    submit(flink, home, name, RUNS[name])
    log = wm.engine.flink(REST, polls=POLLS)
    for job in _ask("/jobs/overview")["jobs"]:
        if job["state"] not in ("FINISHED", "CANCELED", "FAILED"):
            _ask(f"/jobs/{job['jid']}?mode=cancel", "PATCH")
    while any(job["state"] in ("RUNNING", "CANCELLING", "RESTARTING") for job in _ask("/jobs/overview")["jobs"]):
        time.sleep(0.5)
    header, *polls = log.reports.text().replace(str(home), "/data").splitlines(keepends=True)
    count = RUNS[name].kept
    chosen = [polls[round(number * (len(polls) - 1) / (count - 1))] for number in range(count)]
    target.write_text("".join([header, *chosen]), encoding="utf-8")
    print(f"{name}: {wm.engine.read(target).explain().sentence}", flush=True)


def main() -> None:
    """Make the runs that are named, or all."""
    parser = argparse.ArgumentParser(description="make the kept runs of Flink anew")
    parser.add_argument("flink", type=Path, help="the folder with lib")
    parser.add_argument("target", type=Path, help="where the runs are written")
    parser.add_argument("names", nargs="*", help=f"any of {', '.join(RUNS)}; default all")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="wmlab-flink-") as folder, cluster(options.flink, Path(folder)):
        for name in options.names or RUNS:
            record(options.flink, Path(folder), name, options.target / f"{name}.jsonl")


if __name__ == "__main__":
    main()
