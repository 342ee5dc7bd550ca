"""Case `dataflow`: a source, a window and a sink, a watermark for each row and throttled; next to an earlier commit.

Each contender is a Python process of its own that records the same dataflow from its own copy of wmlab. What counts is
its processor time for the recording, without imports: on a busy machine it says more than the clock.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

ROWS = 40_000
THREADS = 1
BEFORE: Final = "9ee1a3e4"
"""The last commit whose tables grew column by column, and whose instances looked twice at an empty queue."""
SHAPES: Final = {
    "a watermark for each row, 4,000 rows": (4_000, 1, 1),
    "a watermark for each row": (ROWS, 1, 1),
    "throttled to 100 ms": (ROWS, 100, 1),
    "2 instances each, a watermark for each row, 4,000 rows": (4_000, 1, 2),
}
"""By what they are: rows, the frame of watermarks (ms), instances."""
_RECORDED: Final = """
import sys, time
from wmlab import dataflow as flow
rows, frame_ms, copies = map(int, sys.argv[1:])
source = flow.Source("s", columns=["t", "k"], rows=[(10 * n, n % 4) for n in range(rows)], times="t", every_ms=10,
                     frame_ms=frame_ms, ends=True, parallelism=copies, partitions=copies)
window = flow.Window("w", 1_000, column="t", by="k", aggregates={"n": "count()"}, parallelism=copies)
dataflow = flow.Dataflow("measured", vertices=[source, window, flow.Sink("out")], edges=["s -> w -> out"],
                         duration_ms=10 * rows + 1_000)
begun = time.process_time()
recording = dataflow.record()
print(time.process_time() - begun, recording.table("source_rows").num_rows, recording.table("sunk").num_rows)
"""


def run(rows: int | None, runs: int) -> Iterator[str]:
    """The lines of the report."""
    here = Path(__file__).parent.parent
    with TemporaryDirectory() as directory:
        contenders = {"now": here}
        if _unpacked(here, Path(directory)):
            contenders[f"commit {BEFORE}"] = Path(directory)
        else:
            yield f"commit {BEFORE} is not in the history here, so wmlab is measured alone"
        for what, (count, frame_ms, copies) in SHAPES.items():
            arguments = (count if rows is None else min(rows, count), frame_ms, copies)
            seconds: dict[str, list[float]] = {name: [] for name in contenders}
            answers: set[tuple[str, ...]] = set()
            for _ in range(runs):
                for name, place in contenders.items():
                    second, *answer = _recorded(place, *arguments)
                    seconds[name].append(float(second))
                    answers.add(tuple(answer))
            if len(answers) > 1:
                raise AssertionError(f"the contenders read or put out different numbers of rows: {answers}")
            speeds = {name: arguments[0] / median(taken) for name, taken in seconds.items()}
            each = ", ".join(f"{name} {speed:,.0f}" for name, speed in speeds.items())
            ratio = "" if len(speeds) == 1 else f": {speeds['now'] / min(speeds.values()):.1f} times as fast"
            yield f"{what}, rows per second of a processor: {each}{ratio}"


def _recorded(place: Path, *arguments: int) -> list[str]:
    command = [sys.executable, "-c", _RECORDED, *map(str, arguments)]
    # What `-c` runs imports from the working directory first.
    environment = os.environ | {"PYTHONPATH": str(place)}
    ran = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=True)
    return ran.stdout.split()


def _unpacked(here: Path, target: Path) -> bool:
    """Put the package of the earlier commit into a directory; whether the commit is known."""
    archived = subprocess.run(["git", "archive", BEFORE, "wmlab"], cwd=here, capture_output=True, check=False)
    if archived.returncode:
        return False
    with tarfile.open(fileobj=BytesIO(archived.stdout)) as archive:
        archive.extractall(target, filter="data")
    return True
