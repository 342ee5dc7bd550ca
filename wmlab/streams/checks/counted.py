"""Which marks a watermark counted: the recording's marks, matched with the times that the watermark carries.

Source: PDP-33, Periodic Watermark Workflow; upstream class `PeriodicWatermarking`.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F


def accepted(marks: DataFrame) -> DataFrame:
    """The marks that were stored: stream, writer, time, received_ms, position."""
    return marks.where(F.col("outcome") == "success").select("stream", "writer", "time", "received_ms", "position")


def with_counted(watermarks: DataFrame, marks: DataFrame, cycles: DataFrame) -> DataFrame:
    """The watermarks with `counted`: the marks of every counted writer that the cycle can have read.

    A mark was counted with its time. Of several with that time the cycle read the last one before it ran, or one that
    arrived in the same millisecond or until the append. `counted` is null when there is none.
    """
    counted = read_at(watermarks, cycles).select(
        "stream", "seq", "emitted_ms", "read_ms", F.explode("writers").alias("writer", "time")
    )
    pairs = counted.join(accepted(marks), ["stream", "writer", "time"]).where("received_ms <= emitted_ms")
    one_writer = Window.partitionBy("stream", "seq", "writer")
    last_before = F.max(F.when(F.col("received_ms") < F.col("read_ms"), F.col("received_ms"))).over(one_writer)
    readable = pairs.withColumn("since_ms", last_before).where("since_ms is null or received_ms >= since_ms")
    mark = F.struct("writer", "received_ms", "time", "position")
    listed = readable.groupBy("stream", "seq").agg(F.collect_list(mark).alias("counted"))
    return watermarks.join(listed, ["stream", "seq"], "left")


def read_at(watermarks: DataFrame, cycles: DataFrame) -> DataFrame:
    """The watermarks with `read_ms`: when the cycle that emitted each one began, to read the marks first of all.

    That cycle is the one of the same controller whose previous lower bound is that of the entry before. A controller
    that goes down after the append leaves no row of it; then the controller's last cycle before that counts, which is
    earlier, and without any the moment of the append.
    """
    log = Window.partitionBy("stream").orderBy("seq", "revision")
    entries = watermarks.withColumn("previous_lower", F.lag("lower").over(log)).alias("entry")
    ran = cycles.where(F.col("outcome") == "emitted").groupBy("stream", "controller", "previous_lower")
    began = F.broadcast(ran.agg(F.max("at_ms").alias("began_ms"))).alias("ran")
    same = [
        F.col(f"entry.{name}").eqNullSafe(F.col(f"ran.{name}")) for name in ("stream", "controller", "previous_lower")
    ]
    matched = entries.join(began, same, "left").select("entry.*", "began_ms").drop("previous_lower")
    others = cycles.select("stream", "controller", F.col("at_ms").alias("emitted_ms"), F.col("at_ms").alias("last_ms"))
    both = matched.unionByName(others, allowMissingColumns=True)
    by_time = Window.partitionBy("stream", "controller").orderBy("emitted_ms", F.col("seq").asc_nulls_first())
    last_ms = F.last("last_ms", ignorenulls=True).over(by_time)
    read_ms = F.coalesce("began_ms", last_ms, "emitted_ms")
    return both.withColumn("read_ms", read_ms).where("seq is not null").drop("began_ms", "last_ms")
