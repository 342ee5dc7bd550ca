"""The process from which Spark forks its Python workers on this machine, with what all of them import.

Spark's own has nothing imported, because a thread that runs before the fork is lost in the workers. So each of them
imports for itself, and looks through all of that for garbage after every task. What is imported here starts no thread.
"""

from __future__ import annotations

import gc
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("JE_ARROW_MALLOC_CONF", "background_thread:false")

import numpy  # noqa: F401
import pandas  # noqa: F401
import pyarrow.compute  # noqa: F401
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

if __name__ == "__main__":
    gc.freeze()
    manager()
