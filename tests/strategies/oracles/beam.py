"""Random histories for Beam's Python SDK, and the answers of our rules in the form of its own."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final

from tests.strategies.oracles import beam_rules
from wmlab.core.errors import ModelError
from wmlab.strategies.model.engines import LimitedDelay
from wmlab.strategies.model.strategy import END, UNKNOWN, Record, run

SEED: Final = 14
KINDS: Final = ("manual", "monotonic", "transform", "windows", "delay")
RULE: Final = "python_2_77"

WITNESSES: Final[dict[str, dict[str, Any]]] = {
    "a hold below the output": {"kind": "transform", "inputs": 1, "steps": [["out", 0, 10], ["hold", "k", 4]]},
    "a waiting element": {"kind": "transform", "inputs": 1, "steps": [["wait", 7], ["out", 0, 10], ["done", 7]]},
    "a record at the end of the lateness": {
        "kind": "windows",
        "inputs": 1,
        "size": 10,
        "lateness": 5,
        "steps": [["wm", 0, 15], ["record", 0, 4], ["wm", 0, 16], ["record", 0, 4]],
    },
    "beam_40176": {
        "kind": "delay",
        "inputs": 2,
        "delay": 100,
        "rule": "beam_40176",
        "steps": [[0, 1_000, 1_000], [0, 4_000, 5_000]],
    },
}
"""Histories in which the Python SDK, or KafkaIO, departs from the rule, by what departs."""


def history(kind: str, random: Random) -> dict[str, Any]:
    """One history of a class, or of a pipeline with a few sources: its parameters and up to 20 steps."""
    steps: list[Any] = []
    given: dict[str, Any] = {"steps": steps}
    spread, now = random.choice((8, 40, 10**6)), random.randrange(-5, 5)
    if kind not in ("manual", "monotonic"):
        given["inputs"] = random.randrange(1, 4)
    if kind == "windows":
        given |= {"size": random.randrange(1, spread), "lateness": random.choice((0, random.randrange(spread)))}
    elif kind == "delay":
        given |= {"delay": random.randrange(spread), "rule": random.choice(("fixed", "beam_40176"))}
    waiting: list[int] = []
    for _ in range(random.randrange(1, 21)):
        time, now = random.randrange(-spread // 4, spread), now + random.randrange(spread // 4)
        if kind == "manual":
            steps.append(time)
        elif kind == "monotonic":
            steps.append(time if random.random() < 0.6 else None)
        elif kind == "delay":
            steps.append([random.randrange(given["inputs"]), now + random.randrange(-spread, spread // 4), now])
        elif kind == "windows":
            steps.append([random.choice(("wm", "record")), random.randrange(given["inputs"]), time])
        else:
            steps.append(_of_transform(random, given["inputs"], waiting, time))
    return given


def _of_transform(random: Random, inputs: int, waiting: list[int], time: int) -> list[Any]:
    if waiting and random.random() < 0.2:
        return ["done", waiting.pop(random.randrange(len(waiting)))]
    chance = random.random()
    if chance < 0.2 and time not in waiting:
        waiting.append(time)
        return ["wait", time]
    if chance < 0.4:
        return ["hold", random.choice("kl"), random.choice((time, time, None))]
    return ["out", random.randrange(inputs), time]


def answer(kind: str, given: dict[str, Any], rule: Any = RULE) -> list[Any]:
    """What our rule answers: to each step of a class, to each record of a pipeline, and in which panes it comes."""
    return RULES[kind](given, rule)


def _manual(given: dict[str, Any], _: Any) -> list[Any]:
    watermark, found = UNKNOWN, []
    for time in given["steps"]:
        try:
            watermark = beam_rules.manual(watermark, time)
            found.append(watermark)
        except ModelError:
            found.append("refused")
    return found


def _monotonic(given: dict[str, Any], _: Any) -> list[Any]:
    watermark, last, found = UNKNOWN, UNKNOWN, []
    for time in given["steps"]:
        if time is None:
            found.append(watermark := beam_rules.monotonic(watermark, last))
        else:
            last = time
    return found


def _transform(given: dict[str, Any], rule: Any) -> list[Any]:
    state, upstream, waiting, holds = beam_rules.TransformWatermarks(), [UNKNOWN] * given["inputs"], set(), {}
    found = []
    for step, *values in given["steps"]:
        if step == "out":
            upstream[values[0]] = values[1]
        elif step == "hold":
            holds[values[0]] = END if values[1] is None else values[1]
        else:
            (waiting.add if step == "wait" else waiting.discard)(values[0])
        state = beam_rules.transform(state, upstream, waiting, holds.values(), rule)
        found.append(list(state))
    return found


def _windows(given: dict[str, Any], rule: Any) -> list[Any]:
    """The watermark that each record meets, and the panes of fixed windows: end, "on time" or "late", the records."""
    marks, held = [UNKNOWN] * given["inputs"], {}
    met: list[int] = []
    panes: list[list[Any]] = []
    for step, source, time in [*given["steps"], *(["wm", source, END] for source in range(given["inputs"]))]:
        if step == "wm":
            marks[source] = max(marks[source], time)
            for end in [end for end in held if end <= min(marks)]:
                panes.append([end, "on time", held.pop(end)])
            continue
        end = (time // given["size"] + 1) * given["size"]
        if min(marks) < end:
            held.setdefault(end, []).append(len(met))
        elif beam_rules.takes_records(end, min(marks), given["lateness"], rule):
            panes.append([end, "late", [len(met)]])
        met.append(min(marks))
    return [met, sorted(panes)]


def partitions(given: dict[str, Any]) -> list[list[Any]]:
    """The watermark of each partition of KafkaIO at each record, before and after it: steps of a pipeline."""
    largest, steps = [UNKNOWN] * given["inputs"], []
    for partition, time, now in given["steps"]:
        for after in (False, True):
            if after:
                largest[partition] = max(largest[partition], time)
                steps.append(["record", partition, time])
            for source, most in enumerate(largest):
                mark = beam_rules.limited_delay(most, now, given["delay"], check=now, rule=given["rule"])
                steps.append(["wm", source, mark])
    return steps


def _delay(given: dict[str, Any], _: Any) -> list[Any]:
    reports: dict[Any, int | None] = dict.fromkeys(range(given["inputs"]))
    found = []
    for step, source, time in partitions(given):
        if step == "wm":
            reports = beam_rules.aggregate(reports, source, time)
        else:
            found.append(beam_rules.aggregated(reports))
    return found


def limited_delay(given: dict[str, Any]) -> list[int]:
    """What a history of "delay" meets by the strategy, in which the watermark of a partition may fall."""
    names = tuple(map(str, range(given["inputs"])))
    records = [Record(time, now, str(partition)) for partition, time, now in given["steps"]]
    return [step.met for step in run(LimitedDelay(given["delay"], names, given["rule"]), records)]


RULES: Final[dict[str, Callable[[dict[str, Any], Any], list[Any]]]] = {
    "manual": _manual,
    "monotonic": _monotonic,
    "transform": _transform,
    "windows": _windows,
    "delay": _delay,
}
