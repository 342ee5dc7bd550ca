"""The files of a feed, which a live query reads in time order."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from wmlab.core.arguments import the_duration
from wmlab.core.errors import ModelError
from wmlab.core.words import shown


def write_feed(feed: Any, path: str | Path, every_ms: int) -> list[Path]:
    """Write a recorded feed as files in `path`, one for each `every_ms` (clock), in time order.

    `feed` is a DataFrame of Spark with a column `at_ms`, as `wm.spark.feed` makes it; it passes through the driver.
    `spark.readStream.schema(wm.spark.FEED).parquet(path)` reads the files in that order. Returns the files.
    Raises `ModelError` for another `feed`, an `every_ms` that is not a whole number, 1 or more, and for a folder that
    is not empty.
    """
    every_ms = the_duration(every_ms, ModelError, name="every_ms", least_ms=1)
    folder = Path(path)
    if folder.exists() and any(folder.iterdir()):
        raise ModelError(f"{folder} is not empty.", remedy="Write a feed to a new folder; a query reads all it has.")
    # The type is asked: a DataFrame of Spark Connect answers to any name.
    if not hasattr(type(feed), "toArrow") or "at_ms" not in feed.columns:
        raise ModelError(
            f"The feed has the columns {', '.join(feed.columns)}."
            if hasattr(type(feed), "toArrow")
            else f"The feed is {shown(feed)}.",
            remedy="Give a Spark DataFrame with a column at_ms, such as wm.spark.feed(...).",
        )
    folder.mkdir(parents=True, exist_ok=True)
    rows = feed.toArrow().sort_by("at_ms")
    slices = pc.divide(rows["at_ms"], pa.scalar(every_ms, pa.int64()))
    files = []
    for number, chosen in enumerate(pc.unique(slices)):
        file = folder / f"{number:06}.parquet"
        pq.write_table(rows.filter(pc.equal(slices, chosen)), file)
        # A stream of files goes by the time of their last change.
        os.utime(file, (number, number))
        files.append(file)
    return files
