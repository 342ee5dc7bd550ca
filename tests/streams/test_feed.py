"""What a feed refuses before it writes anything; `tests/streams/bounds/test_live.py` reads feeds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from wmlab.core.errors import ModelError
from wmlab.streams.feed import write_feed


@pytest.mark.parametrize("feed", [None, [1], pd.DataFrame({"at_ms": [1]})], ids=lambda feed: type(feed).__name__)
def test_what_is_no_dataframe_of_spark_is_refused(feed: Any, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"(?s)The feed is .*Give a Spark DataFrame with a column at_ms"):
        write_feed(feed, tmp_path / "feed", 1_000)
    assert not (tmp_path / "feed").exists()


def test_a_feed_without_times_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="The feed has the columns x"):
        write_feed(spark.createDataFrame([(1,)], "x long"), tmp_path / "feed", 1_000)
    assert not (tmp_path / "feed").exists()
