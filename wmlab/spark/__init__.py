"""The questions, as functions from DataFrame to DataFrame, and the session they run in."""

from wmlab.spark.happenings import with_happenings
from wmlab.spark.schemas import SCHEMAS, dataframe
from wmlab.spark.session import log_path, spark_session

__all__ = ["SCHEMAS", "dataframe", "log_path", "spark_session", "with_happenings"]
