"""What notebooks import: all of wmlab, and the libraries of charts, widgets and Spark."""

import gc
import importlib
import pkgutil

import ipykernel.zmqshell
import ipywidgets
import pandas as pd
import plotly.graph_objects
import plotly.io
import pyspark.sql.streaming

import wmlab

LIBRARIES = (ipykernel.zmqshell, ipywidgets, plotly.graph_objects, plotly.io, pyspark.sql.streaming)
PACKAGE = [
    importlib.import_module(module.name)
    for module in pkgutil.walk_packages(wmlab.__path__, "wmlab.")
    if not module.name.endswith("__main__")
]

# Imported before there is a kernel, pandas would take the width of a terminal.
pd.set_option("display.max_columns", 20)
# What is imported stays; a collector that looked through it in each kernel would copy its pages.
gc.collect()
gc.freeze()
