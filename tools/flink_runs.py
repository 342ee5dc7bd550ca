"""Makes the kept runs of real Flink jobs again, which `make oracles FLINK_RUNS=DIRECTORY` does.

    python tools/flink_runs.py DIRECTORY data/engine_logs/flink [NAME ...]

DIRECTORY has the folder `lib` of a Flink; the wheel `apache-flink-libraries`, unpacked, has it below `pyflink`. A
cluster of one job manager and one task manager runs on loopback while the jobs do, with metrics at their default
interval of ten seconds. Each job is polled by `wm.engine.flink` as a user's would be, and some of its polls are kept.
Jobs of the DataStream API are those of `StreamJob.java`, which `javac` compiles; `PartitionsTable.java` makes tables of
their sources.

Some runs are others with the setting that `wm.engine` advises there. Their answer has to be another one, and must not
advise the setting again.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import wmlab as wm
from tools.remedies import require_remedies

PORT: Final = 8099
REST: Final = f"http://127.0.0.1:{PORT}"
START_S: Final = 120
POLLS: Final = 40
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


def _by_processing_time(name: str) -> str:
    """A table of the same source, whose time is that of processing."""
    return (
        f"CREATE TABLE {name} (id BIGINT, ts AS PROCTIME()) WITH "
        "('connector' = 'datagen', 'rows-per-second' = '20', 'fields.id.min' = '0', 'fields.id.max' = '9');"
    )


def _of_files(name: str, options: str = "") -> str:
    """A table over the files of a folder, which is looked at again each second."""
    return (
        f"CREATE TABLE {name} (id BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND) WITH "
        f"('connector' = 'filesystem', 'path' = 'file://{{folder}}', 'format' = 'csv', "
        f"'source.monitor-interval' = '1s'{options});"
    )


def _of_partitions(name: str, partitions: str, options: str = "") -> str:
    """A table of the sources of `StreamJob`, which takes its watermark into its scan."""
    return (
        f"CREATE TABLE {name} (id BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND) WITH "
        f"('connector' = 'partitions', 'partitions' = '{partitions}'{options});"
    )


@dataclass(frozen=True)
class Run:
    """A job by its statements; `rows` are written to one file of the folder before it begins.

    Of the polls `kept` are kept, the first and the last among them. `stream` are the arguments of `StreamJob` for a job
    of the DataStream API, and `cancel_after_s` is when the job is cancelled while it is polled.
    """

    statements: tuple[str, ...] = ()
    stream: tuple[str, ...] = ()
    cancel_after_s: float = 0.0
    settings: dict[str, str] = field(default_factory=dict)
    rows: int = 0
    kept: int = 6


_NOW: Final = "LOCALTIMESTAMP"
_AN_HOUR_AGO: Final = "TIMESTAMPADD(HOUR, -1, LOCALTIMESTAMP)"
_TWENTY_MINUTES_AGO: Final = "TIMESTAMPADD(MINUTE, -20, LOCALTIMESTAMP)"
_ORDERS: Final = _generated("orders", _NOW)
_CLICKS: Final = _WINDOW.format(table="clicks", size="'5' SECOND")
_SILENT: Final = "0/1000/8000,0/1000/8000"
_ALIGNED: Final = ", 'scan.watermark.alignment.group' = 'g', 'scan.watermark.alignment.max-drift' = '1 min'"
_UNDECLARED: Final = (
    "CREATE TABLE orders (id BIGINT, ts AS LOCALTIMESTAMP) WITH ('connector' = 'datagen', 'rows-per-second' = '20', "
    "'fields.id.min' = '0', 'fields.id.max' = '9');"
)
_NONE_PASSES: Final = "INSERT INTO sink SELECT id, COUNT(*) FROM orders WHERE id > 10 GROUP BY id;"
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
        settings={"table.exec.source.idle-timeout": "3 s"},
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
        settings={"pipeline.operator-chaining.enabled": "false", "table.optimizer.agg-phase-strategy": "ONE_PHASE"},
        kept=5,
    ),
    "join_idle_timeout": Run(
        (_ORDERS, _of_files("other"), _JOIN),
        settings={"table.exec.source.idle-timeout": "5 s"},
    ),
    "processing_time": Run(
        (
            _by_processing_time("orders"),
            _WINDOW.format(table="orders", size="'5' SECOND"),
        )
    ),
    "time_zone": Run(
        (_ORDERS, _WINDOW.format(table="orders", size="'5' SECOND")),
        settings={"table.local-time-zone": "America/Los_Angeles"},
    ),
    "two_pipelines": Run(
        (
            _ORDERS,
            _generated("other", _TWENTY_MINUTES_AGO),
            _by_processing_time("clicks"),
            f"EXECUTE STATEMENT SET BEGIN {_CLICKS} {_JOIN} END;",
        ),
        kept=4,
    ),
    "sources_of_one_name": Run(stream=("Kafka Source=0,0", "Kafka Source+=1200000,1200000")),
    "stock_source_behind": Run(stream=("numbers=stock/0", "old numbers=stock/1200000")),
    "cancelled": Run(stream=("orders=0,0",), cancel_after_s=15),
    "source_silent": Run(stream=("orders=0,0", "payments=0/1000/10000,0/1000/10000")),
    "waits_to_restart": Run(
        stream=(
            "fail=600",
            "setting=restart-strategy.type:fixed-delay",
            "setting=restart-strategy.fixed-delay.delay:600s",
            "orders=1000,1000",
        )
    ),
    "partition_silent": Run(stream=("subtasks=1", "orders=1000,1000/1000/5000")),
    "partition_behind": Run(stream=("subtasks=1", "orders=1000,600000")),
    "aligned": Run(stream=("drift=3000", "orders=1000,1000", "payments=1000/200,1000/200")),
    "idle_subtask": Run(stream=("idle=5000", "subtasks=4", "orders=1000,1000,1000,1000/1000/10000")),
    "join_side_idle": Run(
        stream=("shape=join", "idle=5000", "orders=1000,1000", "payments=1000/1000/8000,1000/1000/8000")
    ),
    "failed": Run(stream=("fail=600", "setting=restart-strategy.type:none", "orders=1000,1000"), kept=3),
    "ahead_of_clock": Run(stream=("orders=-600000,1000",)),
    "silent_in_scan": Run((_of_partitions("orders", "0,0"), _of_partitions("other", _SILENT), _JOIN), kept=4),
    "silent_in_scan_idle_timeout": Run(
        (
            _of_partitions("orders", "0,0"),
            _of_partitions("other", _SILENT, ", 'scan.watermark.idle-timeout' = '5 s'"),
            _JOIN,
        ),
        kept=4,
    ),
    "behind_in_scan": Run((_of_partitions("orders", "0,0"), _of_partitions("other", "1200000,1200000"), _JOIN), kept=4),
    "behind_in_scan_aligned": Run(
        (_of_partitions("orders", "0,0", _ALIGNED), _of_partitions("other", "1200000,1200000", _ALIGNED), _JOIN),
        kept=4,
    ),
    "partition_idle_timeout": Run(
        stream=("idle=5000", "subtasks=1", "orders=1000,1000/1000/5000"),
    ),
    "source_idle_timeout": Run(
        stream=("idle=5000", "orders=0,0", "payments=0/1000/10000,0/1000/10000"),
    ),
    "stock_source_aligned": Run(
        stream=("drift=60000", "numbers=stock/0", "old numbers=stock/1200000"),
    ),
    "time_zone_utc": Run(
        (_ORDERS, _WINDOW.format(table="orders", size="'5' SECOND")),
        settings={"table.local-time-zone": "UTC"},
        kept=4,
    ),
    "no_watermark": Run(stream=("shape=unmarked", "orders=0,0"), kept=4),
    "watermark_strategy": Run(stream=("orders=0,0",), kept=4),
    "no_interval": Run(stream=("setting=pipeline.auto-watermark-interval:0", "orders=0,0"), kept=4),
    "interval": Run(stream=("setting=pipeline.auto-watermark-interval:200ms", "orders=0,0"), kept=4),
    "undeclared": Run((_UNDECLARED, _NONE_PASSES), kept=4),
    "declared": Run((_ORDERS, _NONE_PASSES), kept=4),
    "restarts": Run(
        (
            _ORDERS,
            "CREATE VIEW risky AS SELECT 100 / NULLIF(dice, 299) / (dice - 298) AS q, ts FROM orders;",
            "INSERT INTO sink SELECT SUM(q), COUNT(*) FROM "
            "TABLE(TUMBLE(TABLE risky, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY window_start, window_end;",
        ),
        settings={
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "1000",
            "restart-strategy.fixed-delay.delay": "1 s",
        },
    ),
}
REMEDIES: Final = (
    ("other_silent", "table.exec.source.idle-timeout", "join_idle_timeout"),
    ("one_subtask_without_rows", "table.exec.source.idle-timeout", "all_idle"),
    ("silent_in_scan", "scan.watermark.idle-timeout", "silent_in_scan_idle_timeout"),
    ("behind_in_scan", "scan.watermark.alignment.group", "behind_in_scan_aligned"),
    ("partition_silent", "withIdleness", "partition_idle_timeout"),
    ("source_silent", "withIdleness", "source_idle_timeout"),
    ("stock_source_behind", "withWatermarkAlignment", "stock_source_aligned"),
    ("time_zone", "table.local-time-zone", "time_zone_utc"),
    ("no_watermark", "WatermarkStrategy", "watermark_strategy"),
    ("no_interval", "pipeline.auto-watermark-interval", "interval"),
    ("undeclared", "WATERMARK FOR", "declared"),
)
"""A run, a setting that is advised there, and the same run with it."""


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


_JAVA: Final = ("StreamJob", "PartitionsTable")


def jar_of_streams(flink: Path, home: Path) -> Path:
    """The jar with the classes of `StreamJob.java` and `PartitionsTable.java`, compiled once."""
    jar, classes = home / "streams.jar", home / "classes"
    if not jar.exists():
        sources = [str(Path(__file__).with_name(f"{name}.java")) for name in _JAVA]
        subprocess.run(["javac", "-cp", _class_path(flink), "-d", str(classes), *sources], check=True)
        services = classes / "META-INF" / "services"
        services.mkdir(parents=True)
        (services / "org.apache.flink.table.factories.Factory").write_text("PartitionsTable\n", encoding="utf-8")
        subprocess.run(["jar", "cf", str(jar), "-C", str(classes), "."], check=True)
    return jar


def submit(flink: Path, home: Path, name: str, run: Run) -> None:
    """Send a job to the cluster."""
    jar = jar_of_streams(flink, home)
    path = os.pathsep.join([_class_path(flink), str(jar)])
    if run.stream:
        _send(name, ["java", *_OPEN, "-cp", path, "StreamJob", str(PORT), str(jar), name, *run.stream])
        return
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
    settings = [f"{key}={setting}" for key, setting in {"pipeline.jars": f"file://{jar}", **run.settings}.items()]
    program = Path(__file__).with_name("FlinkJob.java")
    _send(name, ["java", *_OPEN, "-cp", path, str(program), str(PORT), str(script), *settings])


def _send(name: str, command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if "Job ID" not in done.stdout:
        raise SystemExit(f"{name}: {done.stdout[-3000:]}{done.stderr[-2000:]}")


def cancel_all() -> None:
    """Cancel each job that runs."""
    for job in _ask("/jobs/overview")["jobs"]:
        if job["state"] not in ("FINISHED", "CANCELED", "FAILED"):
            _ask(f"/jobs/{job['jid']}?mode=cancel", "PATCH")


def record(flink: Path, home: Path, name: str, target: Path) -> None:
    """Run a job, poll it, end it, and keep some of its polls."""
    submit(flink, home, name, RUNS[name])
    job = max(_ask("/jobs/overview")["jobs"], key=lambda each: each["start-time"])["jid"]
    canceller = threading.Timer(RUNS[name].cancel_after_s, cancel_all)
    if RUNS[name].cancel_after_s:
        canceller.start()
    log = wm.engine.flink(REST, job=job, polls=POLLS)
    cancel_all()
    while any(job["state"] in ("RUNNING", "CANCELLING", "RESTARTING") for job in _ask("/jobs/overview")["jobs"]):
        time.sleep(0.5)
    header, *polls = log.reports.text().replace(str(home), "/data").splitlines(keepends=True)
    count = RUNS[name].kept
    chosen = [polls[round(number * (len(polls) - 1) / (count - 1))] for number in range(count)]
    target.write_text("".join([header, *chosen]), encoding="utf-8")
    print(f"{name}: {wm.engine.read(target).explain().sentence}", flush=True)
    require_remedies(REMEDIES, target)


def main() -> None:
    """Make the runs that are named, or all."""
    parser = argparse.ArgumentParser(description="make the kept runs of Flink again")
    parser.add_argument("flink", type=Path, help="the folder with lib")
    parser.add_argument("target", type=Path, help="where the runs are written")
    parser.add_argument("names", nargs="*", help=f"any of {', '.join(RUNS)}; default all")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="wmlab-flink-") as folder, cluster(options.flink, Path(folder)):
        for name in options.names or RUNS:
            record(options.flink, Path(folder), name, options.target / f"{name}.jsonl")


if __name__ == "__main__":
    main()
