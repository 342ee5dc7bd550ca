"""Data frames of others as Arrow tables: pandas, Polars, PyArrow, and Spark, also of Spark Connect.

A frame is known by its class. Nothing is asked of the frame itself, because one of Spark Connect answers every question
for an attribute with a column; and no library is imported for a frame that nobody has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from wmlab.core.errors import TraceError

_PROTOCOL: Final = "__arrow_c_stream__"
"""What a class has whose values Arrow can read: of PyArrow, pandas, Polars, DuckDB and others."""


def is_frame(offered: object) -> bool:
    """Whether a value is a table of some library."""
    return is_spark(offered) or _is_pandas(offered) or hasattr(type(offered), _PROTOCOL) or _is_lazy(offered)


def is_spark(offered: object) -> bool:
    """Whether a value is a DataFrame of Spark or of Spark Connect."""
    return _has_class(offered, "pyspark.sql", "DataFrame")


def _is_pandas(offered: object) -> bool:
    return _has_class(offered, "pandas", "DataFrame")


def _is_lazy(offered: object) -> bool:
    return _has_class(offered, "polars", "LazyFrame")


def _has_class(offered: object, package: str, name: str) -> bool:
    classes = type(offered).__mro__
    return any(kind.__name__ == name and f"{kind.__module__}.".startswith(f"{package}.") for kind in classes)


def opened(frame: Any) -> Any:
    """A frame of Spark or pandas as it is, and any other one as an Arrow table, which can be read more than once."""
    if is_spark(frame) or _is_pandas(frame) or isinstance(frame, pa.Table):
        return frame
    return pa.table(frame.collect() if _is_lazy(frame) else frame)


def names_of(frame: Any) -> list[str]:
    """The names of the columns of an opened frame."""
    return [str(name) for name in (frame.column_names if isinstance(frame, pa.Table) else frame.columns)]


def table_of(frame: Any, names: Sequence[str]) -> pa.Table:
    """Some columns of an opened frame; raises `TraceError` for one that Arrow cannot hold."""
    wanted = list(dict.fromkeys(names))
    if is_spark(frame):
        return frame.select(*("`" + name.replace("`", "``") + "`" for name in wanted)).toArrow()
    if _is_pandas(frame):
        return pa.table({name: _of_series(frame[name], name) for name in wanted})
    return frame.select(wanted)


def _of_series(series: Any, name: str) -> pa.Array:
    """A column of pandas; one of objects of several kinds becomes texts, as a file would have them."""
    try:
        return pa.array(series, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        missing = series.isna()
        return pa.array([None if nothing else str(value) for value, nothing in zip(series, missing, strict=True)])
    except pa.ArrowException as wrong:
        raise TraceError(
            f"column {name!r} is none that Arrow holds: {wrong}.", remedy="convert it to texts."
        ) from wrong
