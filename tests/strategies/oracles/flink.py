"""Random histories for Flink's classes, and the answers of our rules in the form of theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final

from wmlab.strategies.model import alignment, flink
from wmlab.strategies.model.bounded import BoundedOutOfOrderness
from wmlab.strategies.model.strategy import UNKNOWN, Record, Tick

SEED: Final = 14
KINDS: Final = ("bounded", "idleness", "valve", "multiplexer", "alignment")
RULE: Final = "flink_2_3_0"


WITNESSES: Final[dict[str, dict[str, Any]]] = {
    "FLINK-40475": {
        "kind": "valve",
        "inputs": 3,
        "steps": [
            ["wm", 0, 10], ["wm", 1, 30], ["wm", 2, 5], ["idle", 2], ["active", 2], ["idle", 1], ["idle", 0],
            ["idle", 2], ["active", 1], ["wm", 1, 30], ["wm", 1, 31],
        ],
    },
    "FLINK-40504": {
        "kind": "multiplexer",
        "immediate": [0, 1],
        "steps": [
            ["add", 0], ["add", 1], ["wm", 0, 10], ["wm", 1, 4], ["idle", 0], ["idle", 1], ["active", 1],
            ["wm", 1, 6], ["wm", 1, 9], ["wm", 1, 11],
        ],
    },
}  # fmt: skip
"""Histories in which an error of 2.3.0 shows, by issue."""


def history(kind: str, random: Random) -> dict[str, Any]:
    """One history of a class: its parameters and up to 25 steps."""
    steps: list[Any] = []
    given: dict[str, Any] = {"steps": steps}
    length, now, spread = random.randrange(1, 26), 1, random.choice((3, 20, 10**6))
    if kind == "bounded":
        given["bound"] = random.choice((0, 1, random.randrange(spread)))
    elif kind == "idleness":
        given["timeout"] = random.randrange(1, 40)
    elif kind == "valve":
        given["inputs"] = random.randrange(1, 5)
    elif kind == "multiplexer":
        given["immediate"] = [split for split in range(4) if random.random() < 0.5]
    there: list[int] = []
    for _ in range(length):
        time, now = random.randrange(-spread // 4, spread), now + random.randrange(1, 15)
        if kind in ("bounded", "idleness"):
            steps.append(["record", time] if random.random() < 0.5 else ["probe", now])
        elif kind == "valve":
            steps.append(_said(random, random.randrange(given["inputs"]), time))
        elif kind == "alignment":
            steps.append([random.randrange(4), random.choice((time, time, 2**63 - 1))])
        else:
            steps.append(_of_source(random, there, time))
    return given


def _said(random: Random, name: int, time: int) -> list[Any]:
    return ["wm", name, time] if random.random() < 0.5 else [random.choice(("idle", "idle", "active")), name]


def _of_source(random: Random, there: list[int], time: int) -> list[Any]:
    chance = random.random()
    if len(there) < 4 and (not there or chance < 0.1):
        there.append(split := random.choice([split for split in range(4) if split not in there]))
        return ["add", split]
    if chance < 0.15:
        there.remove(split := random.choice(there))
        return ["remove", split]
    return ["periodic"] if chance < 0.35 else _said(random, random.choice(there), time)


def answer(kind: str, given: dict[str, Any], rule: Any = RULE) -> list[Any]:
    """What our rule answers to each step of a history."""
    return list(RULES[kind](given, rule))


def _bounded(given: dict[str, Any], _: Any) -> Iterator[list[Any]]:
    strategy, said = BoundedOutOfOrderness(given["bound"]), UNKNOWN
    state = strategy.start()
    for step, time in given["steps"]:
        state, _x, native = strategy.step(state, Record(time, 0) if step == "record" else Tick(time))
        rises = step == "probe" and native > said
        said = native if rises else said
        yield [native] if rises else []


def _idleness(given: dict[str, Any], _: Any) -> Iterator[list[Any]]:
    timer, idle, largest, said = flink.Timer(), False, UNKNOWN, UNKNOWN
    for step, time in given["steps"]:
        emitted: list[Any] = []
        if step == "record":
            timer, largest = timer._replace(active=True), max(largest, time - 1)
        else:
            timer, quiet = flink.probe(timer, time, given["timeout"])
            if quiet and not idle:
                emitted, idle = [flink.IDLE], True
            elif not quiet and largest > said:
                emitted = [flink.ACTIVE, largest] if idle else [largest]
                idle, said = False, largest
        yield emitted


def _valve(given: dict[str, Any], rule: Any) -> Iterator[list[Any]]:
    state = flink.combined(range(given["inputs"]))
    for step, channel, *time in given["steps"]:
        if step == "wm":
            state, emitted = flink.channel_watermark(state, channel, *time)
        else:
            state, emitted = flink.channel_status(state, channel, step == "idle", rule)
        yield emitted


def _multiplexer(given: dict[str, Any], rule: Any) -> Iterator[list[Any]]:
    state = flink.combined()
    for step, *values in given["steps"]:
        immediate, emitted = bool(values) and values[0] in given["immediate"], []
        if step == "add":
            state.inputs[values[0]] = flink.Partial()
        elif step == "remove":
            del state.inputs[values[0]]
        elif step == "periodic":
            state, emitted = flink.combine(state, rule)
        elif step == "wm":
            state, emitted = flink.split_watermark(state, *values, rule, immediate=immediate)
        else:
            state, emitted = flink.split_status(state, values[0], step == "idle", rule, immediate=immediate)
        yield emitted


def _alignment(given: dict[str, Any], _: Any) -> Iterator[list[Any]]:
    reports: dict[Any, int] = {}
    for source, time in given["steps"]:
        reports[source] = time
        yield [alignment.limit(reports, 0)]


RULES: Final[dict[str, Callable[[dict[str, Any], Any], Iterator[list[Any]]]]] = {
    "bounded": _bounded,
    "idleness": _idleness,
    "valve": _valve,
    "multiplexer": _multiplexer,
    "alignment": _alignment,
}
