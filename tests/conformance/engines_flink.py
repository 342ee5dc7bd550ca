"""Flink: generators, the idleness timer, the valve, the multiplexer and alignment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest

from tests.conformance.fields import Fields, UnknownFormatError, expect, expect_if, known, steps_of
from tests.strategies.oracles import flink_rules
from wmlab.core.errors import ModelError
from wmlab.strategies.model import alignment, flink
from wmlab.strategies.model.bounded import BoundedOutOfOrderness
from wmlab.strategies.model.strategy import END, UNKNOWN, Record, Tick

VALVES: Final[dict[str, flink.ValveRule]] = {"classic": "flink_2_3_0", "flush": "flush", "newest": "fixed"}
MULTIPLEXERS: Final[dict[str, flink.MultiplexerRule]] = {"classic": "flink_38454", "newest": "fixed"}


def versions_of(case: Fields, rules: Mapping[str, Any]) -> list[str]:
    """The versions that a case holds for, all unless it names some."""
    versions = case.take("versions", list(rules))
    if not versions or not rules.keys() >= set(versions):
        raise UnknownFormatError(f"versions {versions!r}")
    return versions


def run_bounded(case: Fields) -> None:
    """Records, and what the generator emits when it is probed."""
    strategy = BoundedOutOfOrderness(case.take("B"))
    state = strategy.start()
    for step in steps_of(case):
        if "ts" in step:
            state, _, _ = strategy.step(state, Record(step.take("ts"), 0))
        if "emit" in step:
            state, x, native = strategy.step(state, Tick(0))
            expect("emit", native, step.take("emit"))
            assert x in (UNKNOWN, native + 1)


def run_idleness(case: Fields) -> None:
    """Events and probes, and whether a probe finds the split idle."""
    timeout, timer = case.take("timeout"), flink_rules.IdlenessTimer()
    if "error" in case:
        expect("error", case.take("error"), True)
        with pytest.raises(ModelError):
            flink.Flink(0, idle_ms=timeout)
        return
    for step in steps_of(case):
        if "event" in step:
            step.take("event")
            timer = timer._replace(active=True)
        else:
            timer, idle = flink_rules.probe(timer, step.take("probe"), timeout)
            expect("idle", idle, step.take("idle"))


def run_valve(case: Fields) -> None:
    """Watermarks and statuses of channels and what each of them makes the valve emit, by each version it applies to."""
    channels, steps = case.take("channels"), case.take("steps")
    for version in versions_of(case, VALVES):
        state = flink.initially_combined(range(channels))
        for step in steps_of(Fields({"steps": steps}, version)):
            operation, channel = step.take("op"), step.take("ch")
            if known("operation", operation, ("wm", "idle", "active")) == "wm":
                state, emitted = flink.channel_watermark(state, channel, step.take("v"))
            else:
                state, emitted = flink.channel_status(state, channel, operation == "idle", VALVES[version])
            expect_if(step, emit=emitted)


def run_multiplexer(case: Fields) -> None:
    """Watermarks and statuses of outputs, and what downstream has been told, by each version."""
    outputs, steps = case.take("outputs"), case.take("steps")
    if unknown := set(outputs.values()) - {"imm", "def", "both"}:
        raise UnknownFormatError(f"outputs {unknown!r}")
    for version in versions_of(case, MULTIPLEXERS):
        downstream: list[Any] = []
        state = flink.initially_combined(outputs)
        for step in steps:
            if isinstance(step, list):
                state, emitted = multiplexed(state, step, outputs, MULTIPLEXERS[version])
                downstream += emitted
                continue
            with Fields(step, "step") as fields, Fields(fields.take("expect"), version) as wanted:
                fields.take("note", None)
                marks = [value for value in downstream if isinstance(value, int)]
                expect_if(wanted, wm=marks[-1] if marks else None, idle=downstream[-1:] == [flink.STATUS_IDLE])


def multiplexed(
    state: flink.Combined, step: list[Any], outputs: dict[str, str], rule: flink.MultiplexerRule
) -> tuple[flink.Combined, flink.Downstream]:
    match step:
        case ["periodic"]:
            return flink.combine(state, rule)
        case ["remove", name]:
            del state.inputs[name]
            return state, []
        case ["wm" | "wm_imm" | "wm_def" as operation, name, watermark]:
            immediate = operation == "wm_imm" or (operation == "wm" and outputs[name] == "imm")
            return flink.split_watermark(state, name, watermark, rule, immediate=immediate)
        case ["idle" | "active" as status, name]:
            return flink.split_status(state, name, status == "idle", rule, immediate=outputs[name] == "imm")
        case ["add", name]:
            state.inputs[name] = flink.Partial()
            return state, []
    raise UnknownFormatError(f"operation {step!r}")


def run_coordinator(case: Fields) -> None:
    """Reports of sources, and how far their group may read after each."""
    drift = case.take("max_drift")
    if "groups" in case:
        groups: dict[str, dict[int, int]] = {}
        for reports, allowed in (("groups", "allowed"), ("then", "allowed_then")):
            for name, pairs in case.take(reports, {}).items():
                groups.setdefault(name, {}).update(pairs)
            if allowed in case:
                expect(allowed, {g: alignment.limit(r, drift) for g, r in groups.items()}, case.take(allowed))
        return
    latest: dict[int, int] = {}
    for step in steps_of(case):
        latest.update([step.take("report")])
        expect_if(step, allowed=alignment.limit(latest, drift))


def run_aggregator(case: Fields) -> None:
    """Watermarks by key and the least after each."""
    latest: dict[Any, int] = {}
    for step in steps_of(case):
        latest[step.take("key")] = step.take("watermark")
        expect("min after", alignment.limit(latest, 0), step.take("min after"))


def run_source(case: Fields) -> None:
    """A source that waits while its watermark is above the limit."""
    watermark, limit = UNKNOWN, END
    for step in steps_of(case):
        watermark, limit = step.take("wm", watermark), step.take("allowed", limit)
        expect("paused", alignment.paused(watermark, limit), step.take("paused"))


def run_split(case: Fields) -> None:
    """The same for each split of a source."""
    watermarks: dict[str, int] = {}
    limit = END
    for step in steps_of(case):
        watermarks.update(step.take("split_wm", {}))
        limit = step.take("allowed", limit)
        expect("paused", sorted(s for s, w in watermarks.items() if alignment.paused(w, limit)), step.take("paused"))
