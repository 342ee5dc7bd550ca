"""Case `load`: a CSV file of a million rows with two columns of dates, from the file to numbers.

pandas takes it as it is; `load` also looks for rows that are none, and sorts by arrival.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from benchmarks.measure import Answer, Contender, measured, table
from wmlab.core.traces import load

ROWS = 1_000_000
THREADS = 2
WRITERS = 64
MEAN_LAG_MS = 400.0
START_MS = 1_700_000_000_000


def run(rows: int | None, runs: int) -> Iterator[str]:
    """The lines of the report."""
    with tempfile.TemporaryDirectory() as folder:
        for form, time_format in (
            ("ISO 8601", "%Y-%m-%dT%H:%M:%SZ"),
            ("as databases write it", "%Y-%m-%d %H:%M:%S UTC"),
        ):
            file = Path(folder) / "log.csv"
            write_log(file, ROWS if rows is None else rows, time_format, seed=1)
            yield f"{rows or ROWS:,} rows of CSV, {form}, {file.stat().st_size / 2**20:.0f} MiB"
            contenders = [
                Contender("wmlab", lambda file=file: by_load(file)),
                Contender("pandas", lambda file=file: by_pandas(file)),
            ]
            yield table(measured(contenders, runs), "pandas")


def write_log(file: Path, rows: int, time_format: str, *, seed: int) -> None:
    """Records in the order of arrival, one every ten milliseconds."""
    random = np.random.default_rng(seed)
    arrival_ms = START_MS + 10 * np.arange(rows, dtype=np.int64)
    event_ms = arrival_ms - random.exponential(MEAN_LAG_MS, rows).astype(np.int64)
    texts = {
        name: pc.strftime(pa.array(times, pa.timestamp("ms")), format=time_format)
        for name, times in (("happened", event_ms), ("arrived", arrival_ms))
    }
    names = pa.array([f"w{number:02}" for number in range(WRITERS)])
    device = pa.DictionaryArray.from_arrays(pa.array(random.integers(0, WRITERS, rows)), names).cast(pa.string())
    pyarrow.csv.write_csv(pa.table({"id": np.arange(rows), **texts, "device": device}), file)


def by_load(file: Path) -> Answer:
    """The columns by `wm.trace.load`."""
    log = load(file, event_time="happened", arrival="arrived", writer="device", key=None).table
    return {
        "rows": log.num_rows,
        "event": pc.sum(log["event_time"]).as_py(),
        "arrival": pc.sum(log["arrival_ms"]).as_py(),
        "writers": pc.count_distinct(log["writer"]).as_py(),
    }


def by_pandas(file: Path) -> Answer:
    """The columns by `pandas.read_csv` and `pandas.to_datetime`."""
    log = pd.read_csv(file)
    event, arrival = (pd.to_datetime(log[name]).astype("int64") // 1_000_000 for name in ("happened", "arrived"))
    return {
        "rows": len(log),
        "event": int(event.sum()),
        "arrival": int(arrival.sum()),
        "writers": int(log["device"].nunique()),
    }
