"""Charts of coalescing: the watermarks of inputs and the coalesced one, what each input was when, all interleavings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice, pairwise
from typing import Final, Literal

from wmlab.core.answers import Answer
from wmlab.core.charts.axis import Numbers, held, shown_range, single, time_axis
from wmlab.core.charts.chart import SERIES, Chart, chart_of, columns, drawn_words, one_stream
from wmlab.core.charts.clicked import AnsweringChart
from wmlab.core.charts.scene import (
    Blocks,
    Box,
    Dots,
    Layer,
    Panel,
    Scene,
    Steps,
    Value,
    behind_furthest,
    lanes,
    thinned,
)
from wmlab.core.errors import ChartError
from wmlab.core.facts import Head
from wmlab.core.holders import FAILED
from wmlab.core.recording import Recording
from wmlab.core.words import clock_words, counted, grouped, joined, rounded
from wmlab.dataflow.answers.cause_facts import dataflow_facts, of_failure
from wmlab.dataflow.answers.explain import explain
from wmlab.dataflow.answers.permutations import Permutations, Permuted
from wmlab.dataflow.answers.run import DataflowRun, RecordedRow, read, run_of
from wmlab.dataflow.answers.sentences import row_words
from wmlab.dataflow.answers.vocabulary import LAST, LOST_ROWS

State = Literal["active", "idle", "done"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelHistory:
    """A level of coalescing of one instance over the clock: `names` of its inputs by number, `steps` in their order.

    It is of `instance` of `vertex`, which is called `name`. `begun_ms` and `end_ms` are the clock of the `execution`
    that is shown, `drops` the rows dropped there. `note` says which execution of `run` it is, where there are several.
    """

    name: str
    vertex: str
    instance: int
    names: Mapping[int, str]
    steps: Sequence[RecordedRow]
    drops: Sequence[RecordedRow]
    execution: int
    begun_ms: int
    end_ms: int
    note: str
    run: DataflowRun

    @property
    def keys(self) -> tuple[int, ...]:
        """The keys whose watermarks came in."""
        return tuple(sorted({row["key"] for row in self.steps if row["key"] is not None}))

    def watermarks(self, number: int, key: int) -> tuple[list[int], list[Value]]:
        """The watermark of an input over the clock, from the beginning to the end; None before the first."""
        mine = (row for row in self.steps if row["input"] == number and row["key"] == key)
        return self._curve((row["at_ms"], row["value"]) for row in mine if row["value"] is not None)

    @property
    def is_join(self) -> bool:
        """Whether it is of a join, which sends other watermarks than those that came in."""
        return self.vertex in self.run.rules.joins

    def coalesced(self, key: int) -> tuple[list[int], list[Value]]:
        """What came out over the clock."""
        if self.is_join:
            queue = self.run.out_of(self.vertex, self.instance)[0]["queue"]
            items = self.run.indexed("items").get((self.execution, queue), ())
            mine = (item for item in items if item["kind"] == "watermark" and item["key"] == key)
            return self._curve((item["put_ms"], item["value"]) for item in mine)
        emitted = ((row["at_ms"], dict(row["emitted"])) for row in self.steps)
        return self._curve((at_ms, watermarks[key]) for at_ms, watermarks in emitted if key in watermarks)

    def _curve(self, points: Iterable[tuple[int, int]]) -> tuple[list[int], list[Value]]:
        """One value for each moment, the last one that it had there."""
        values: dict[int, Value] = {self.begun_ms: None} | dict(points)
        last_ms = list(values)[-1]
        if last_ms < self.end_ms:
            values[self.end_ms] = values[last_ms]
        return list(values), list(values.values())

    def counted(self, key: int) -> tuple[list[int], dict[int, list[Value]]]:
        """The watermarks of the inputs that count, by the begin of each step; None while one is unknown or excluded."""
        marks: dict[int, Value] = {}
        watermarks: dict[int, list[Value]] = {number: [None] for number in self.names}
        for row in self.steps:
            if row["key"] == key and row["value"] is not None:
                marks[row["input"]] = row["value"]
            for number, values in watermarks.items():
                values.append(marks.get(number) if number in row["active"] else None)
        return self._begins, {number: [*values, values[-1]] for number, values in watermarks.items()}

    @property
    def _begins(self) -> list[int]:
        """When each step begins to hold, from the beginning, and the end."""
        return [self.begun_ms, *(row["at_ms"] for row in self.steps), self.end_ms]

    def stretches(self, number: int) -> list[tuple[int, int, State]]:
        """What an input was from when to when."""
        result: list[tuple[int, int, State]] = []
        state: State = "active"
        for (from_ms, to_ms), row in zip(pairwise(self._begins), [{}, *self.steps], strict=True):
            state = next((known for known in _LOOKS if number in row.get(known, ())), state)
            if result and result[-1][2] == state:
                result[-1] = (result[-1][0], to_ms, state)
            elif from_ms < to_ms:
                result.append((from_ms, to_ms, state))
        return result


def dataflow_run_of(recording: Recording) -> DataflowRun:
    """The recorded dataflow; raises `ChartError` for anything but a recording with exactly one."""
    one_stream(recording, None, "vertices")
    return run_of(recording)


def level_of(recording: Recording, vertex: str | None, instance: int) -> LevelHistory:
    """The level of coalescing that has the most to show at an instance: its edges, its queues, or its partitions.

    Without `vertex` it is the first one that coalesces several inputs. The last execution is shown. Raises `ChartError`
    for a vertex or instance that is not there, or that coalesced nothing.
    """
    run = dataflow_run_of(recording)
    known = run.vertex(vertex if vertex is not None else _coalescing_vertex(run), ChartError)
    name, copies = str(known["vertex"]), known["parallelism"]
    if type(instance) is not int or instance not in range(copies):
        raise ChartError(f"{name!r} has no instance {instance!r}.", remedy=f"Choose one below {copies}.")
    execution = max((row["execution"] for row in run.executions), default=1)
    steps, drops = (run.indexed(table).get((execution, name, instance), ()) for table in ("coalescing", "drops"))
    names, level = _inputs(run.into(name, instance), steps)
    of_level = [row for row in steps if row["level"] == level]
    if not of_level:
        raise ChartError(f"{name!r} has coalesced nothing.", remedy="Choose a vertex that watermarks have reached.")
    begun_ms, end_ms = run.clock_ms(execution)
    return LevelHistory(
        name=run.instance_name(name, instance),
        vertex=name,
        instance=instance,
        names=names,
        steps=of_level,
        drops=drops,
        execution=execution,
        begun_ms=begun_ms,
        end_ms=end_ms,
        note=f"Shown is execution {execution}, the last one." if execution > 1 else "",
        run=run,
    )


def _coalescing_vertex(run: DataflowRun) -> str | None:
    """The first vertex that coalesces several inputs, or the first that coalesces at all."""
    most: dict[str, int] = {}
    for row in run.rows("coalescing"):
        inputs = len(row["active"]) + len(row["idle"]) + len(row["done"])
        most[row["vertex"]] = max(most.get(row["vertex"], 0), inputs)
    names = [name for name in run.vertices if name in most]
    return next((name for name in names if most[name] > 1), next(iter(names), None))


def _inputs(queues: Sequence[RecordedRow], steps: Sequence[RecordedRow]) -> tuple[dict[int, str], str]:
    """The inputs of the level to show, by number, and the level."""
    if not queues:
        partitions = sorted({number for row in steps for number in (*row["active"], *row["idle"])})
        return {number: f"partition {number}" for number in partitions}, "partition"
    edges = {row["edge"]: row["source"] for row in queues}
    if len(edges) > 1:
        return edges, "global"
    if len(queues) == 1:
        return {queues[0]["input"]: queues[0]["source"]}, "edge"
    return {row["input"]: f"{row['source']}[{row['source_instance']}]" for row in queues}, "edge"


_ROLES: Final = ("upper", "third", "fourth", "perfect")
POINTS_DRAWN: Final = 400
_ARRIVALS_DRAWN: Final = 24
_BESIDE_A_MARK: Final = "\u2003"
"""What moves a label out of the mark at the begin of its box."""
_LOOKS: Final[dict[State, tuple[str, str, float]]] = {
    "active": ("active", "lower", 0.18),
    "idle": ("idle", "unknown", 0.4),
    "done": ("has ended", "third", 0.25),
}


def coalescing(
    recording: Recording,
    *,
    vertex: str | None = None,
    key: int | None = None,
    instance: int = 0,
    title: str | None = None,
) -> Chart:
    """Draw the watermarks of one key on every input of a vertex, the coalesced one, and the excluded inputs.

    Inputs are the input edges, the queues of a single edge, or the partitions of a source. `vertex` is by default the
    first that coalesces several, `key` its lowest. Rows that were dropped there are crosses. Of several executions the
    last is shown. Panels below show how far each counted input is behind the furthest, and when an input was excluded.
    If there are few watermarks, those without an output are dots. A click asks what held the watermark at that moment.
    Raises `ChartError` for a vertex, instance or key that is not there.
    """
    level = level_of(recording, vertex, instance)
    if not level.keys:
        raise ChartError(
            f"No watermark came to {level.name!r}.", remedy="Choose a vertex that watermarks have reached."
        )
    chosen = level.keys[0] if key is None else key
    if chosen not in level.keys:
        known = ", ".join(map(str, level.keys))
        raise ChartError(f"No watermark of key {key!r} came to {level.name!r}.", remedy=f"Choose one of: {known}.")
    inputs = zip(level.names.items(), cycle(_ROLES), strict=False)
    every = [(name, role, level.watermarks(number, chosen)) for (number, name), role in inputs]
    every.append(("sent" if level.is_join else "coalesced", "coalesced", level.coalesced(chosen)))
    *curves, coalesced_curve = [
        Steps(name=name, role=role, xs=xs, ys=ys)
        for name, role, points in every
        for xs, ys in [thinned(*points, POINTS_DRAWN)]
    ]
    rows = [(name, at, y) for name, _, points in every for at, y in zip(*points, strict=True)]
    fewer = drawn_words((sum(len(curve.xs) for curve in (*curves, coalesced_curve)), len(rows), "steps"))
    late = [row for row in level.drops if row["key"] == chosen]
    ends = shown_range(
        [held(*points) for *_, points in every],
        [single(row["time"] for row in late)],
        least_ms=level.end_ms - level.begun_ms,
    )
    up = time_axis("watermark", ends, pad_percent=5, clock=[level.run.times_ms])
    head = _head(level, chosen, len(late))
    scene = Scene(
        title=title or f"How far did the watermark of key {chosen} at {level.name} come?",
        subtitle=joined(head.sentence, fewer, level.note),
        across=time_axis("clock", [level.begun_ms, level.end_ms]),
        panels=[
            # The coalesced one lies on the curve of the input that holds it, so it is broad and beneath the others.
            Panel(up=up, layers=[coalesced_curve, *curves, *_without_output(level, chosen), _dropped(level.run, late)]),
            *_behind(level, chosen),
            *_activity(level),
        ],
    )

    def answer(at_ms: int) -> Answer:
        return explain(recording, at_ms, vertex=level.vertex, key=chosen, instance=level.instance)

    return AnsweringChart(
        sentence=head.sentence,
        facts=head.facts,
        data=columns(rows, "input", "at_ms", "watermark"),
        scene=scene,
        answer=answer,
    )


def _behind(level: LevelHistory, key: int) -> list[Panel]:
    """How far each input that counts is behind the furthest one."""
    xs, watermarks = level.counted(key)
    named = {level.names[number]: values for number, values in watermarks.items()}
    return behind_furthest(xs, named, [*islice(cycle(_ROLES), len(named))], most=POINTS_DRAWN)


def _without_output(level: LevelHistory, key: int) -> list[Layer]:
    """The watermarks that came and let nothing out, where they are few enough; steps of a join do not tell."""
    came = [row for row in level.steps if row["key"] == key and row["value"] is not None]
    if len(came) > _ARRIVALS_DRAWN or level.is_join:
        return []
    without_output = [row for row in came if key not in dict(row["emitted"])]
    return [
        Dots(
            name="no new output",
            role="perfect",
            shape="circle",
            xs=[row["at_ms"] for row in without_output],
            ys=[row["value"] for row in without_output],
            hover=[f"{level.names[row['input']]}: {level.run.time(row['value'])}" for row in without_output],
        )
    ]


def _dropped(run: DataflowRun, late: list[RecordedRow]) -> Dots:
    return Dots(
        name="dropped row",
        role="alarm",
        shape="cross",
        xs=[row["at_ms"] for row in late],
        ys=[row["time"] for row in late],
        hover=[
            f"{row['rule']}: {row_words(read(row['row']))}, {rounded(row['margin'])} below {run.time(row['limit'])}"
            for row in late
        ],
    )


def _activity(level: LevelHistory) -> list[Panel]:
    """A lane for each input: a block for every stretch, by what it was, and what its exclusion let through.

    Nothing where every input was active throughout.
    """
    if all(not row["idle"] and not row["done"] for row in level.steps):
        return []
    boxes: dict[State, list[Box]] = {state: [] for state in _LOOKS}
    released = _released(level)
    marked = set(zip(released.xs, released.ys, strict=True))
    for lane, (number, name) in enumerate(level.names.items()):
        for from_ms, to_ms, state in level.stretches(number):
            hover = f"{name}: {_LOOKS[state][0]} from {clock_words(from_ms)} to {clock_words(to_ms)}"
            label = f"{_BESIDE_A_MARK}{state}" if (from_ms, lane) in marked else state
            boxes[state].append(Box(from_ms, to_ms, lane - 0.32, lane + 0.32, label, hover))
    blocks: list[Layer] = [
        Blocks(name=name, role=role, boxes=boxes[state], opacity=opacity)
        for state, (name, role, opacity) in _LOOKS.items()
    ]
    return [lanes(level.names.values(), [*blocks, released])]


def _released(level: LevelHistory) -> Dots:
    """The steps at which an input that became idle or ended let a watermark through, in the lane of that input."""
    lane = {number: index for index, number in enumerate(level.names)}
    idle: set[int] = set()
    xs, ys, hover = list[int](), list[int](), list[str]()
    for row in level.steps:
        # At a source the clock excludes partitions; elsewhere the input says so.
        left = sorted(set(row["idle"]) - idle) if row["stimulus"] == "tick" else [row["input"]]
        idle = set(row["idle"])
        if row["stimulus"] in {"idle", "done", "tick"} and row["emitted"] and left:
            xs.append(row["at_ms"])
            ys.append(lane.get(left[0], 0))
            hover.append(", ".join(f"key {k}: {level.run.time(v)}" for k, v in row["emitted"]))
    return Dots(name="let a watermark through", role="upper", shape="diamond", xs=xs, ys=ys, hover=hover, size=5.0)


def _head(level: LevelHistory, key: int, dropped: int) -> Head:
    """How the job ended if it failed, the last watermark, and how many rows were dropped."""
    facts = dataflow_facts(
        level.run,
        {
            **of_failure(level.run.end_at()),
            "vertex": level.name,
            "watermark": level.coalesced(key)[1][-1],
            "dropped": dropped or None,
        },
    )
    return Head(facts=facts, templates=facts.chosen(FAILED, LAST, (LOST_ROWS,)))


_BARS_DRAWN: Final = 16
_LONGEST: Final = 44
_FAILS: Final = "fails"
_OTHERS: Final = "other ends"


def interleavings(permutations: Permutations, *, title: str | None = None) -> Chart:
    """Draw the distinct outputs of the same inputs in different orders, the most frequent first.

    `permutations` is the answer of `wm.dataflow.permutations` or of `Dataflow.permutations`. The colour of a bar is the
    last item of the output. Raises `ChartError` for anything else.
    """
    if not isinstance(permutations, Permutations) or not len(permutations):
        raise ChartError(
            f"A chart of interleavings is drawn of permutations (got {type(permutations).__name__}).",
            remedy="Draw the answer of wm.dataflow.permutations(...) or dataflow.permutations(...).",
        )
    outcomes = list(permutations)
    drawn = outcomes[:_BARS_DRAWN]
    fewer = drawn_words((len(drawn), len(outcomes), "outputs, the most frequent"))
    most = max(outcome.count for outcome in drawn)
    rows = [(entry.count, list(entry.output), entry.final, entry.failure, list(entry.example)) for entry in outcomes]
    data = columns(rows, "count", "output", "final", "failure", "example")
    return chart_of(
        permutations.sentence,
        data,
        title=title or "Does what comes out depend on the order?",
        note=fewer,
        across=Numbers("interleavings", 0, most + max(most // 20, 1)),
        panels=[lanes([_short(permutations.output_line(outcome)) for outcome in drawn], _bars(permutations, drawn))],
    )


def _bars(permutations: Permutations, drawn: Sequence[Permuted]) -> list[Layer]:
    ends = [final for final in permutations.finals if final != _FAILS]
    roles = dict(zip(ends, SERIES, strict=False)) | {_FAILS: "alarm"}
    boxes: dict[str, list[Box]] = {}
    for lane, outcome in enumerate(drawn):
        example = " ".join(outcome.example)
        number = counted(outcome.count, "interleaving")
        hover = f"{number}: {permutations.output_line(outcome)}; for example {_short(example, 120)}"
        box = Box(0, outcome.count, lane - 0.34, lane + 0.34, grouped(outcome.count), hover)
        boxes.setdefault(outcome.final if outcome.final in roles else _OTHERS, []).append(box)
    legend = {name: name if permutations.ends == "result" else f"ends with {name}" for name in ends}
    return [
        Blocks(name=legend.get(name, name), role=roles.get(name, "unknown"), boxes=bars, opacity=0.3, beside=True)
        for name, bars in boxes.items()
    ]


def _short(text: str, longest: int = _LONGEST) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
