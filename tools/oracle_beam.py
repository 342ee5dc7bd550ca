"""Beam's Python SDK: estimators, the watermarks of a transform, and pipelines in its direct runner. It is installed by

    python -m venv DIRECTORY
    DIRECTORY/bin/pip install apache-beam==2.77.0

KafkaIO is not in it: the watermarks of its partitions are scripted, and what is asked is what a pipeline makes of them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import apache_beam as beam
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator, MonotonicWatermarkEstimator
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.direct.direct_runner import BundleBasedDirectRunner
from apache_beam.runners.direct.watermark_manager import _TransformWatermarks
from apache_beam.testing.test_stream import PairWithTiming, TestStream
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP, Duration, Timestamp
from apache_beam.utils.windowed_value import PaneInfoTiming

from tests.strategies.oracles.beam import partitions
from wmlab.strategies.model.strategy import END, UNKNOWN

VERSION: Final = "2.77.0"
MILLI: Final = 1_000
TIMINGS: Final = {PaneInfoTiming.ON_TIME: "on time", PaneInfoTiming.LATE: "late"}
MET: Final[list[int]] = []
"""The watermark at each record, in the order of the records."""
PANES: Final[list[list[Any]]] = []
"""The panes that came out: the end of the window, the timing and the numbers of the records."""


def stamp(time: int, unit: int = 1) -> Any:
    """A time of a history; its unit is the microsecond, and in a script the millisecond, the finest that it admits."""
    return {UNKNOWN: MIN_TIMESTAMP, END: MAX_TIMESTAMP}.get(time) or Timestamp(micros=time * unit)


def shown(time: Any, unit: int = 1) -> int:
    """The time of a history."""
    return {MIN_TIMESTAMP: UNKNOWN, MAX_TIMESTAMP: END}.get(time) or time.micros // unit


def met(pair: Any) -> None:
    """Notes the watermark at a record."""
    MET.append(shown(pair[1].watermark, MILLI))


def came(pair: Any, window: Any = beam.DoFn.WindowParam, pane: Any = beam.DoFn.PaneInfoParam) -> None:
    """Notes a pane."""
    PANES.append([shown(window.end, MILLI), TIMINGS[pane.timing], sorted(pair[1])])


class Waiting:
    """A bundle of one element that waits."""

    def __init__(self, time: int) -> None:
        self.elements = [SimpleNamespace(timestamp=stamp(time))]

    def get_elements_iterable(self) -> Iterable[Any]:
        """Of a bundle."""
        return self.elements


class Oracle:
    """The answers of the SDK."""

    version = VERSION

    def __init__(self, _: Path) -> None:
        if beam.__version__ != VERSION:
            raise SystemExit(f"This is Beam {beam.__version__}, not {VERSION}: see the head of tools/oracle_beam.py.")
        logging.disable(logging.WARNING)

    def close(self) -> None:
        """There is nothing to end."""

    def answers(self, kind: str, history: dict[str, Any]) -> list[Any]:
        """What Beam answers to a history."""
        outcomes: list[Any] = getattr(self, kind)(history)
        return outcomes

    def manual(self, history: dict[str, Any]) -> list[Any]:
        """The estimator that a source sets."""
        estimator, watermarks = ManualWatermarkEstimator(MIN_TIMESTAMP), []
        for time in history["steps"]:
            try:
                estimator.set_watermark(stamp(time))
                watermarks.append(shown(estimator.current_watermark()))
            except ValueError:
                watermarks.append("refused")
        return watermarks

    def monotonic(self, history: dict[str, Any]) -> list[Any]:
        """The estimator that sees the records; None asks it."""
        estimator, watermarks = MonotonicWatermarkEstimator(MIN_TIMESTAMP), []
        for time in history["steps"]:
            if time is None:
                watermarks.append(shown(estimator.current_watermark()))
            else:
                estimator.observe_timestamp(stamp(time))
        return watermarks

    def transform(self, history: dict[str, Any]) -> list[Any]:
        """The watermarks of a transform after each thing that changes them."""
        upstream = [SimpleNamespace(output_watermark=MIN_TIMESTAMP) for _ in range(history["inputs"])]
        transform, watermarks, waiting = _TransformWatermarks(None, {}, "transform"), [], {}
        transform.update_input_transform_watermarks(upstream)
        for step, *values in history["steps"]:
            if step == "out":
                upstream[values[0]].output_watermark = stamp(values[1])
            elif step == "hold":
                transform.hold({values[0]: None if values[1] is None else stamp(values[1])})
            elif step == "wait":
                transform.add_pending(waiting.setdefault(values[0], Waiting(values[0])))
            else:
                transform.remove_pending(waiting.pop(values[0]))
            transform.refresh()
            watermarks.append([shown(transform.input_watermark), shown(transform.output_watermark)])
        return watermarks

    def windows(self, history: dict[str, Any]) -> list[Any]:
        """A pipeline of several sources and fixed windows: the watermark at each record, and the panes."""
        self.run(history["inputs"], history["steps"], history["size"], history["lateness"])
        return [[*MET], sorted(PANES)]

    def delay(self, history: dict[str, Any]) -> list[Any]:
        """The watermark at each record of a pipeline whose sources have the watermarks of partitions."""
        self.run(history["inputs"], partitions(history))
        return [*MET]

    def run(self, inputs: int, steps: Iterable[Any], size: int = 1, lateness: int = 0) -> None:
        """Runs the steps of all sources as one script; fills `MET` and `PANES`."""
        MET.clear()
        PANES.clear()
        # A script must have two sources or more, so one is at its end from the beginning.
        script, number = TestStream().advance_watermark_to_infinity(tag="ended"), 0
        marks = dict.fromkeys(range(inputs), UNKNOWN)
        for step, source, time in steps:
            if step == "record":
                script.add_elements([TimestampedValue(("key", number), stamp(time, MILLI))], tag=str(source))
                number += 1
            elif time > marks[source]:
                script.advance_watermark_to(stamp(time, MILLI), tag=str(source))
                marks[source] = time
        for source in marks:
            script.advance_watermark_to_infinity(tag=str(source))
        pipeline = beam.Pipeline(runner=BundleBasedDirectRunner(), options=PipelineOptions(["--streaming"]))
        out = pipeline | script
        union = tuple(out.values()) | beam.Flatten()
        union | "met" >> PairWithTiming() | beam.Map(met)
        windows = beam.WindowInto(
            FixedWindows(Duration(micros=size * MILLI)),
            trigger=AfterWatermark(late=AfterCount(1)),
            accumulation_mode=AccumulationMode.DISCARDING,
            allowed_lateness=Duration(micros=lateness * MILLI),
        )
        union | windows | beam.GroupByKey() | "panes" >> beam.Map(came)
        pipeline.run().wait_until_finish()
