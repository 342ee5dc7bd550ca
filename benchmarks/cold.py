"""Case `cold`: the first picture in a fresh process, as a user meets it who runs the first lines of the README.

Each run is a process of its own with a JVM of its own, which nothing has warmed up. The variables by which `make test`
tunes its JVM and its Spark are taken away. There are no rows and no peers.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from benchmarks.measure import processor_s

THREADS = 2
TUNING = ("JDK_JAVA_OPTIONS", "PYSPARK_SUBMIT_ARGS", "WMLAB_SPARK")
ROOT = Path(__file__).parents[1]
PARTS = ("import", "load", "record", "session", "bounds", "chart")


def run(_rows: int | None, runs: int) -> Iterator[str]:
    """The lines of the report."""
    processes = [in_a_fresh_process() for _ in range(runs)]
    yield f"{'':8}  median s    min s    max s  processors s"
    for part in (*PARTS, "all"):
        seconds, used_s = zip(*(process[part] for process in processes), strict=True)
        yield f"{part:8}  {median(seconds):8.2f} {min(seconds):8.2f} {max(seconds):8.2f}  {median(used_s):12.2f}"
    classes, jobs = zip(*(process["classes and jobs"] for process in processes), strict=True)
    yield f"{median(classes):,.0f} classes of Java, {median(jobs):.0f} Spark jobs"


def in_a_fresh_process() -> dict[str, list[float]]:
    """For each part seconds and seconds of processors; and how many classes Java loaded and how many jobs Spark ran."""
    of_users = {name: text for name, text in os.environ.items() if name not in TUNING}
    command = [sys.executable, "-m", "benchmarks.cold"]
    done = subprocess.run(command, cwd=ROOT, env=of_users, stdout=subprocess.PIPE, text=True, check=True)
    measured: dict[str, list[float]] = json.loads(done.stdout)
    return measured


def first_picture() -> dict[str, tuple[float, float]]:
    """What a fresh process does: the first lines of the README, part by part."""
    spent: dict[str, tuple[float, float]] = {}

    def timed(part: str, act: Callable[[], Any]) -> Any:
        begin, used_s = perf_counter(), processor_s()
        result = act()
        spent[part] = (perf_counter() - begin, processor_s() - used_s)
        return result

    wm: Any = timed("import", lambda: __import__("wmlab"))
    scenario = timed("load", lambda: wm.Scenario.load(ROOT / "data/scenarios/first_bounds.yaml"))
    recording = timed("record", lambda: scenario.record(progress=False))
    spark = timed("session", wm.spark_session)
    bounds = timed("bounds", lambda: recording.time_bounds(spark).toPandas())
    timed("chart", lambda: wm.chart.time_bounds(bounds)._repr_mimebundle_())
    spent["all"] = (sum(seconds for seconds, _ in spent.values()), sum(used_s for _, used_s in spent.values()))
    classes = spark._jvm.java.lang.management.ManagementFactory.getClassLoadingMXBean().getTotalLoadedClassCount()
    return spent | {"classes and jobs": (classes, spark._jsparkSession.sparkContext().dagScheduler().numTotalJobs())}


if __name__ == "__main__":
    print(json.dumps(first_picture()))
