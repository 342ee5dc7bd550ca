"""Random histories for Flink's classes, and the answers of our rules in the form of theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final

from tests.strategies.oracles import flink_rules
from wmlab.strategies.model import alignment, flink
from wmlab.strategies.model.bounded import BoundedOutOfOrderness
from wmlab.strategies.model.strategy import END, UNKNOWN, Record, Tick

SEED: Final = 14
KINDS: Final = ("bounded", "idleness", "valve", "multiplexer", "alignment", "source")
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
    "FLINK-40093": {
        "kind": "source",
        "splits": 1, "buffer": 0, "timeout": 10,
        "steps": [["record", 0, 0, 100], ["limit", 12, 30], ["probe", 0], ["limit", 0, 200]],
    },
}  # fmt: skip
"""Histories in which an error of 2.3.0 shows, by issue."""


def history(kind: str, random: Random) -> dict[str, Any]:
    """One history of a class: its parameters and up to 25 steps."""
    length, now, spread = random.randrange(1, 26), 1, random.choice((3, 20, 10**6))
    given: dict[str, Any] = {"steps": [], **_parameters(kind, random, spread)}
    there: list[int] = []
    for _ in range(length):
        time, now = random.randrange(-spread // 4, spread), now + random.randrange(1, 15)
        if kind in ("bounded", "idleness"):
            step = ["record", time] if random.random() < 0.5 else ["probe", now]
        elif kind == "valve":
            step = _said(random, random.randrange(given["inputs"]), time)
        elif kind == "alignment":
            step = _of_group(random, time)
        elif kind == "source":
            step = _aligned(random, given["splits"], time)
        else:
            step = _of_source(random, there, time)
        given["steps"].append(step)
    return given


def _parameters(kind: str, random: Random, spread: int) -> dict[str, Any]:
    match kind:
        case "bounded":
            return {"bound": random.choice((0, 1, random.randrange(spread)))}
        case "idleness":
            return {"timeout": random.randrange(1, 40)}
        case "valve":
            return {"inputs": random.randrange(1, 5)}
        case "multiplexer":
            return {"immediate": [split for split in range(4) if random.random() < 0.5]}
        case "alignment":
            return {"drift": random.choice((0, 1, spread, 2**62))}
    buffer, timeout = random.choice((0, 1, 3)), random.choice((1, random.randrange(1, 60), 10**6))
    return {"splits": random.randrange(1, 4), "buffer": buffer, "timeout": timeout}


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


def _of_group(random: Random, time: int) -> list[Any]:
    step: list[Any] = [random.choice(("report", "report", "announce", "announce", "assigned")), random.randrange(2)]
    subtask, reported = random.randrange(3), random.choice((time, time, END, END - 1, UNKNOWN + 1))
    return [*step, *{"report": (subtask, reported), "assigned": (subtask,), "announce": ()}[step[0]]]


def _aligned(random: Random, splits: int, time: int) -> list[Any]:
    step = random.choice(("record", "record", "record", "limit", "sample", "probe"))
    values = {"record": (random.randrange(splits), time), "limit": (random.choice((time, time, time, END)),)}
    return [step, random.randrange(20), *values.get(step, ())]


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
    timer, idle, largest, said = flink_rules.IdlenessTimer(), False, UNKNOWN, UNKNOWN
    for step, time in given["steps"]:
        emitted: list[Any] = []
        if step == "record":
            timer, largest = timer._replace(active=True), max(largest, time - 1)
        else:
            timer, quiet = flink_rules.probe(timer, time, given["timeout"])
            if quiet and not idle:
                emitted, idle = [flink.STATUS_IDLE], True
            elif not quiet and largest > said:
                emitted = [flink.STATUS_ACTIVE, largest] if idle else [largest]
                idle, said = False, largest
        yield emitted


def _valve(given: dict[str, Any], rule: Any) -> Iterator[list[Any]]:
    state = flink.initially_combined(range(given["inputs"]))
    for step, channel, *time in given["steps"]:
        if step == "wm":
            state, emitted = flink.channel_watermark(state, channel, *time)
        else:
            state, emitted = flink.channel_status(state, channel, step == "idle", rule)
        yield emitted


def _multiplexer(given: dict[str, Any], rule: Any) -> Iterator[list[Any]]:
    state = flink.initially_combined()
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
    known: dict[Any, int] = {}
    assigned = set()
    for step, source, *values in given["steps"]:
        told = [name for name in reports if name[0] == source and step == "announce"]
        if step == "report":
            reports[source, values[0]] = values[1]
        elif step == "assigned":
            assigned.add((source, *values))
        for name in told:
            limit = alignment.limit(reports, given["drift"])
            known[name] = alignment.known_limit(known.get(name, END), limit, assigned=name in assigned)
        yield [known[name] for name in told]


def _source(given: dict[str, Any], rule: Any) -> Iterator[list[Any]]:
    """The source compares the watermark that it emits, a split its own."""
    named: alignment.AlignmentRule = "flink_40093" if rule == RULE else "fixed"
    whole, *splits = (alignment.AlignedSource((UNKNOWN,) * given["buffer"]) for _ in range(given["splits"] + 1))
    output, now = flink.initially_combined(range(given["splits"])), 0
    for step, wait, *values in given["steps"]:
        emitted, now = [], now + wait
        read = step == "record" and not whole.waits and splits[values[0]].paused_since is None
        if read:
            alignment.advance_split(splits[values[0]], values[1] - 1, now)
        if read or step == "probe":
            for name, split in enumerate(splits):
                alignment.find_idle(split, now, given["timeout"], named)
                output.inputs[name] = flink.Partial(split.watermark, split.idle)
            output, emitted = flink.combine(output, rule)
            whole.watermark = output.out
        for source in (whole, *splits):
            if step == "limit":
                source.limit = values[0]
            elif step == "sample":
                alignment.sample_split(source)
        for split in splits:
            alignment.check_split(split, now, named)
        if step == "sample" and whole.watermark > UNKNOWN:
            emitted = [alignment.report(whole.watermark, idle=output.idle, rule=named)]
        yield [emitted, whole.waits, [name for name, split in enumerate(splits) if split.paused_since is not None]]


RULES: Final[dict[str, Callable[[dict[str, Any], Any], Iterator[list[Any]]]]] = {
    "bounded": _bounded,
    "idleness": _idleness,
    "valve": _valve,
    "multiplexer": _multiplexer,
    "alignment": _alignment,
    "source": _source,
}
