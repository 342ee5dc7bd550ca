"""Keeps the classes of Spark, loaded and verified, in a file of the environment: Spark then starts in half the time.

    python tools/spark_classes.py

Java writes them when it ends (class data sharing), after a Spark that has computed the bounds of a run. Another Java or
another Spark does not take the file and starts without it; it may be deleted, and made again, at any time.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

import wmlab as wm
from wmlab.core.spark.session import CLASSES

SCENARIO: Final = Path(__file__).parents[1] / "data" / "scenarios" / "first_bounds.yaml"


def main() -> None:
    """Make the file; on failure there is none, and the exit code is 1."""
    CLASSES.unlink(missing_ok=True)
    part = CLASSES.with_suffix(".part")
    # The first compiler is enough for one short query.
    options = f"spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:ArchiveClassesAtExit={part}"
    os.environ["PYSPARK_SUBMIT_ARGS"] = f'--conf "{options}" pyspark-shell'
    spark = wm.spark_session("local[2]")
    wm.Scenario.load(SCENARIO).record().time_bounds(spark).toPandas()
    java = spark.sparkContext._gateway.proc  # type: ignore[union-attr]
    spark.stop()
    java.stdin.close()
    if java.wait() != 0 or not part.is_file():
        part.unlink(missing_ok=True)
        sys.exit("Java wrote no file of Spark's classes; Spark works without it and starts more slowly.")
    part.rename(CLASSES)


if __name__ == "__main__":
    main()
