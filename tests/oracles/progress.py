"""What holds the global watermark of a query plan, computed from the recorded tables and the script alone.

Nothing of `wmlab.progress` is used but what a scenario says. The rules are those of the document:

- a sequence is complete by its chunks, and the rule of the scenario says when; what breaks the protocol does not count;
- the prefix of an origin is the longest run of complete sequences from 1 on, and its local watermark follows from it;
- the global watermark is the smallest local one of all declared origins, unknown while one of them has none.

An origin holds the watermark if its local one is the global one. What it lacks is the sequence behind its prefix. If it
is an operator that has given all it could, what holds the watermark there holds this one.

Source: "Watermarking and Progress", ChunkNumber, OriginId and Reasoning about progress.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from tests.oracles.present import present

Row = Mapping[str, Any]
Values = dict[str, Any]


class Plan:
    """The origins of a query by their ids, and those that each operator which follows time waits for."""

    def __init__(self, query: Any) -> None:
        self.ids: dict[str, int] = {}
        self.inputs: dict[str, list[int]] = {}
        self.windows: dict[str, Any] = {}
        self.sources = [*_sources(query)]
        for source in self.sources:
            self.ids[source.name] = len(self.ids) + 1
        self.inputs["scan"] = [*self.ids.values()]
        self.inputs["sink"], self.last = self._through(query)
        self.names = {number: name for name, number in self.ids.items()}

    def _through(self, part: Any) -> tuple[list[int], str]:
        """The origins that come out of a part, and the last windows that all of it came through."""
        if part in self.sources:
            origins, last = [self.ids[part.name]], "sink"
        else:
            below = [self._through(each) for each in part.sources]
            origins = list(dict.fromkeys(number for numbers, _ in below for number in numbers))
            last = below[0][1] if len(below) == 1 else "sink"
        for operator in part.operators:
            kind = type(operator).__name__
            if kind not in {"Renumber", "InOrder", "Aggregate", "Join"}:
                continue
            name = getattr(operator, "name", None) or self._of_windows(operator)
            self.inputs[name] = origins
            if kind in {"Aggregate", "Join"}:
                last = name
            if kind != "InOrder":
                self.ids[name] = len(self.ids) + 1
                origins = [self.ids[name]]
            if kind in {"Aggregate", "Join"}:
                self.inputs[name.replace("build", "probe")] = origins
        return origins, last

    def _of_windows(self, operator: Any) -> str:
        name = "build" if not self.windows else f"build-{len(self.windows) + 1}"
        self.windows[name] = operator
        return name


def _sources(part: Any) -> Iterator[Any]:
    for each in part.sources:
        yield from (_sources(each) if hasattr(each, "sources") else [each])


class Arrived(NamedTuple):
    """What has come of a sequence: chunk, whether it is the last one, and the watermark of each buffer that counts."""

    buffers: tuple[tuple[int, bool, int], ...] = ()

    def refuses(self, chunk: int, last: bool) -> bool:
        """Whether one more chunk contradicts these, by the set of chunks."""
        lasts = [number for number, is_last, _ in self.buffers if is_last]
        numbers = [number for number, _, _ in self.buffers]
        return bool(numbers) and (
            chunk in numbers or (bool(lasts) and chunk > lasts[-1]) or (last and (bool(lasts) or max(numbers) > chunk))
        )

    def is_complete(self, rule: str, base: int) -> bool:
        """Whether it is complete by a rule."""
        lasts = [number for number, is_last, _ in self.buffers if is_last]
        count = len(self.buffers)
        match rule:
            case "balance":
                return count > 0 and sum(n - base if is_last else -1 for n, is_last, _ in self.buffers) == 0
            case "set":
                return bool(lasts) and {n for n, _, _ in self.buffers} >= set(range(base, lasts[-1] + 1))
            case "count":
                return bool(lasts) and count == lasts[-1] - base + 1
        return bool(lasts) and count == lasts[-1]

    def missing(self, base: int) -> list[int]:
        """The chunks that are known to be missing."""
        numbers = {number for number, _, _ in self.buffers}
        return [number for number in range(base, max(numbers, default=base - 1)) if number not in numbers]

    def has_all(self, base: int) -> bool:
        """Whether its last chunk has come, and all before it."""
        return any(is_last for _, is_last, _ in self.buffers) and not self.missing(base)

    @property
    def watermark(self) -> int:
        """The largest watermark of its chunks."""
        return max(watermark for _, _, watermark in self.buffers)


class Local(NamedTuple):
    """An origin at an operator: its prefix, its local watermark, what has come of the next sequence, and behind it."""

    prefix: int = 0
    watermark: int | None = None
    next: Arrived = Arrived()
    behind: int = 0


class Holding(NamedTuple):
    """One that holds: its name, the operator where its sequence is missing, why, and what is known of that."""

    name: str
    operator: str
    sequence: int
    chunks: tuple[int, ...]
    behind: int
    state: str
    since: int | None
    until: int | None
    worker: int | None


class PlanOracle:
    """What has to be said of a query of a recording of plans."""

    def __init__(self, scenario: Any, recording: Any, query: str, *, has_script: bool = True) -> None:
        self.scenario = scenario.resolved
        self.has_script = has_script
        self.query = query
        part = next(each for each in self.scenario.queries if each.name == query)
        self.plan = Plan(part)
        self.begin_ms = self.start_ms = self.scenario.start_ms
        self.end_ms = self.begin_ms + self.scenario.duration_ms
        tables = {
            name: [row for row in recording.table(name).to_pylist() if row["stream"] == query]
            for name in ("buffers", "windows_fired", "incidents")
        }
        self.arrivals: dict[str, list[Row]] = defaultdict(list)
        for row in sorted(tables["buffers"], key=lambda row: row["arrival"]):
            self.arrivals[row["operator"]].append(row)
        self.incidents, self.fired = tables["incidents"], tables["windows_fired"]
        self.sent: dict[tuple[str, int], int] = {}
        for row in reversed(self.arrivals["scan"]):
            self.sent[row["emitter"], row["sequence"]] = row["arrived_ms"]
        for row in self.fired:
            self.sent[row["operator"], row["sequence"]] = row["fired_ms"]
        if not has_script:
            self._as_log()
        self._locals = {name: [*self._followed(name)] for name in self.plan.inputs}
        self._times = {name: [row["arrived_ms"] for row in self.arrivals[name]] for name in self.plan.inputs}

    @property
    def is_sound(self) -> bool:
        """Whether the operators follow time by the sound rules, which are those of a log without a script."""
        return (self.scenario.rules.local, self.scenario.rules.complete) == ("running_max", "set")

    def _as_log(self) -> None:
        """Take as plan and time what the table of buffers tells: no script is there."""
        rows = [row for rows in self.arrivals.values() for row in rows]
        self.plan.names = defaultdict(lambda: "unheard of", {row["origin"]: row["emitter"] for row in rows})
        self.plan.inputs = {}
        self.arrivals = defaultdict(list, {operator: mine for operator, mine in self.arrivals.items() if mine})
        for operator, mine in self.arrivals.items():
            came = {row["origin"] for row in mine}
            others = [number for number in range(1, 100) if number not in came]
            self.plan.inputs[operator] = sorted([*came, *others[: mine[0]["origins"] - len(came)]])
        self.begin_ms = min(row["arrived_ms"] for row in rows)
        self.end_ms = max(row["arrived_ms"] for row in rows)

    def _followed(self, operator: str) -> Iterator[dict[str, Local]]:
        """What is known of each origin of an operator before any arrival, and after each."""
        base, rule = self.scenario.rules.chunk_base, self.scenario.rules.complete
        sequences: dict[str, dict[int, Arrived]] = defaultdict(lambda: defaultdict(Arrived))
        done: dict[str, set[int]] = defaultdict(set)
        known = {self.plan.names[number]: Local() for number in self.plan.inputs[operator]}
        yield dict(known)
        for row in self.arrivals[operator]:
            name, number = row["emitter"], row["sequence"]
            have = sequences[name][number]
            if number not in done[name] and not (rule == "set" and have.refuses(row["chunk"], row["last"])):
                have = Arrived((*have.buffers, (row["chunk"], row["last"], row["watermark"])))
                sequences[name][number] = have
                if have.is_complete(rule, base):
                    done[name].add(number)
                known[name] = self._local(sequences[name], done[name])
            yield dict(known)

    def _local(self, sequences: Mapping[int, Arrived], done: set[int]) -> Local:
        prefix = next(number for number in range(1, len(done) + 2) if number not in done) - 1
        inside = [sequences[number].watermark for number in range(1, prefix + 1)]
        following = sequences.get(prefix + 1, Arrived())
        watermark = (max(inside) if self.scenario.rules.local == "running_max" else inside[-1]) if inside else None
        if self.scenario.rules.local == "literal" and following.buffers:
            watermark = following.watermark
        behind = sum(len(each.buffers) for number, each in sequences.items() if number > prefix + 1)
        return Local(prefix, watermark, following, behind)

    def origins(self, operator: str, at_ms: int) -> dict[str, Local]:
        """What an operator knows of each of its origins at a moment, in the order declared."""
        return self._locals[operator][bisect_right(self._times[operator], at_ms)]

    def watermark(self, operator: str, at_ms: int) -> int | None:
        """The global watermark of an operator."""
        return _smallest(self.origins(operator, at_ms))

    def since(self, operator: str, at_ms: int) -> int | None:
        """When it last changed, as the operator has recorded it."""
        before, since = None, None
        for row in self.arrivals[operator]:
            if row["arrived_ms"] <= at_ms and row["reached"] != before:
                before, since = row["reached"], row["arrived_ms"]
        return since

    def direct(self, operator: str, at_ms: int) -> list[str]:
        """The origins whose local watermark is the global one."""
        origins = self.origins(operator, at_ms)
        return [name for name, local in origins.items() if local.watermark == _smallest(origins)]

    def others(self, operator: str, at_ms: int) -> list[tuple[int, str]]:
        """The other origins with a local watermark, the lowest first."""
        origins, holding = self.origins(operator, at_ms), self.direct(operator, at_ms)
        known = [(n, local.watermark, name) for n, (name, local) in enumerate(origins.items()) if name not in holding]
        return [
            (mark, name) for mark, _, name in sorted((mark, n, name) for n, mark, name in known if mark is not None)
        ]

    def holders(self, operator: str, at_ms: int) -> list[Holding]:
        """What holds the watermark of an operator, each once; for an operator that waits, what holds that."""
        found: dict[Holding, None] = {}
        origins = self.origins(operator, at_ms)
        for name in self.direct(operator, at_ms):
            found |= dict.fromkeys(self._of_origin(operator, name, origins[name], at_ms))
        return list(found)

    def _of_origin(self, operator: str, name: str, local: Local, at_ms: int) -> list[Holding]:
        sequence, base = local.prefix + 1, self.scenario.rules.chunk_base
        chunks = tuple(local.next.missing(base))[:10]

        def holding(state: str, since: int | None = None, until: int | None = None, worker: int | None = None) -> Any:
            return [Holding(name, operator, sequence, chunks, local.behind, state, since, until, worker)]

        if local.next.has_all(base):
            return holding("not complete by the rule")
        if name in self.plan.inputs:
            sent = self.sent.get((name, sequence), at_ms + 1)
            if not name.startswith("build"):
                upper, last = self.watermark(name, at_ms), local.watermark
                given = sum(each.prefix for each in self.origins(name, at_ms).values())
                raised = upper is not None and given > local.prefix and (last is None or upper > last)
                sent = (self.since(name, at_ms) or at_ms) if raised else at_ms + 1
            return holding("on its way", sent) if sent <= at_ms else self.holders(name, at_ms)
        return holding(*self._of_source(name, sequence, at_ms))

    def _of_source(self, name: str, sequence: int, at_ms: int) -> tuple[Any, ...]:
        """What has become of a sequence of a source, since when, until when, and the worker that has it."""
        happened = [row for row in self.incidents if row["at_ms"] <= at_ms]
        buffer = f"{name} {sequence}"
        hit = [row for row in happened if row["target"] == buffer or row["target"].startswith(f"{buffer} chunk ")]
        lost = [row["at_ms"] for row in hit if row["kind"] == "loss"]
        if lost:
            return ("lost", min(lost))
        delays = [
            (row["at_ms"] + self._by_ms(row["target"]), -row["at_ms"]) for row in hit if row["kind"] == "delay"
        ]  # fmt: skip
        delays = [each for each in delays if each[0] > at_ms]
        if delays and self.has_script:
            return ("delayed", -max(delays)[1], max(delays)[0])
        stalls = [
            (until, -row["at_ms"], stall.worker)
            for stall in self.scenario.script
            if type(stall).__name__ == "StallWorker"
            and self.start_ms + stall.at_ms <= at_ms < (until := self.start_ms + stall.at_ms + stall.for_ms)
            for row in happened
            if row["kind"] == "held" and row["target"] == f"{buffer} on worker {stall.worker}"
            and self.start_ms + stall.at_ms <= row["at_ms"]
        ]  # fmt: skip
        if stalls and self.has_script:
            until, begun, worker = max(stalls)
            return ("held by a worker", -begun, until, worker)
        if self.sent.get((name, sequence), at_ms + 1) <= at_ms:
            return ("on its way", self.sent[name, sequence])
        silent = self.silent_ms(name)
        if silent is not None and silent <= at_ms and not self._was_begun(name, sequence, at_ms):
            return ("silent", silent)
        if not self.has_script:
            return ("missing",)
        return ("ended", self.end_ms) if at_ms >= self.end_ms else ("not sent yet",)

    def _was_begun(self, source: str, sequence: int, at_ms: int) -> bool:
        """Whether a buffer has its first record by then: one that comes, or is lost when it is sent."""
        own = [row for row in self.arrivals["scan"] if (row["emitter"], row["sequence"]) == (source, sequence)]
        is_lost = ("loss", f"{source} {sequence}") in {(row["kind"], row["target"]) for row in self.incidents}
        return is_lost or any(row["created_ms"] <= at_ms for row in own)

    def silent_ms(self, source: str) -> int | None:
        """From when on a source is silent, by the script."""
        acts = [
            act.at_ms for act in self.scenario.script if type(act).__name__ == "SilenceSource" and act.source == source
        ]
        begun = [at_ms for at_ms in acts if at_ms < self.scenario.duration_ms]
        return self.start_ms + min(begun) if begun else None

    def _by_ms(self, target: str) -> int:
        for act in self.scenario.script:
            if type(act).__name__ == "DelayBuffer" and target == _target(act):
                return int(act.by_ms)
        raise AssertionError(f"no act of the script delays {target}")

    def never_happened(self) -> list[str]:
        """The buffers, chunks and sources of the acts that have no incident: each is the first of its kind, or none."""
        kinds = {
            "LoseBuffer": "loss", "DelayBuffer": "delay", "DuplicateBuffer": "duplicate", "EmptyBuffer": "empty",
            "SilenceSource": "silence",
        }  # fmt: skip
        done = Counter((row["kind"], row["target"]) for row in self.incidents)
        found = []
        for act in self.scenario.script:
            kind = kinds.get(type(act).__name__)
            if kind is None or act.source not in {source.name for source in self.plan.sources}:
                continue
            target = act.source if kind == "silence" else _target(act)
            if done[kind, target] > 0 and (
                kind != "silence" or self.start_ms + act.at_ms == self.silent_ms(act.source)
            ):
                done[kind, target] -= 1
            else:
                found.append(target)
        return sorted(found)

    def breaks(self, until_ms: int) -> list[int]:
        """All moments of a run at which anything can change, with its begin and its end."""
        times = {self.begin_ms, self.end_ms, until_ms}
        times |= {row["arrived_ms"] for rows in self.arrivals.values() for row in rows}
        times |= {row["fired_ms"] for row in self.fired}
        for row in self.incidents:
            times |= {row["at_ms"], *([row["at_ms"] + self._by_ms(row["target"])] if row["kind"] == "delay" else [])}
        for act in self.scenario.script:
            if type(act).__name__ == "StallWorker":
                begun = self.start_ms + act.at_ms
                times |= {begun, begun + act.for_ms}
        return sorted(time for time in times if self.begin_ms <= time <= until_ms)

    @property
    def until_ms(self) -> int:
        """The end of the run: the planned one, or that of the last buffer."""
        return max([self.end_ms, *(row["arrived_ms"] for rows in self.arrivals.values() for row in rows)])

    def stretches(self, operator: str) -> list[tuple[str, str, int, int]]:
        """Who held the watermark of an operator, why, from when to when."""
        return [
            (*held, begin, end)
            for begin, end in pairwise(self.breaks(self.until_ms))
            for held in dict.fromkeys((each.name, each.state) for each in self.holders(operator, begin))
        ]

    def longest_stop(self, operator: str) -> tuple[int, int, int] | None:
        """From when to when the watermark kept one known value for longest, and the value."""
        steps: list[tuple[int, int | None]] = []
        for row in self.arrivals[operator]:
            if not steps or steps[-1][1] != row["reached"]:
                steps.append((row["arrived_ms"], row["reached"]))
        ends = [at_ms for at_ms, _ in steps[1:]] + [self.until_ms] * bool(steps)
        known = [
            (end - at_ms, -n, at_ms, end, mark)
            for n, ((at_ms, mark), end) in enumerate(zip(steps, ends, strict=True))
            if mark is not None
        ]
        if not known or max(known)[0] == 0:
            return None
        return max(known)[2:]

    def of_moment(self, operator: str, at_ms: int) -> Values:
        """Each label of an answer at a moment, with its value."""
        holders, others = self.holders(operator, at_ms), self.others(operator, at_ms)
        return present(
            {
                "moment": at_ms,
                "operator": operator,
                "watermark": self.watermark(operator, at_ms),
                "watermark since": self.since(operator, at_ms),
                "holder": tuple(each.name for each in holders),
                "holder state": tuple(each.state for each in holders),
                "holder since": tuple(each.since for each in holders),
                "holder until": tuple(each.until for each in holders),
                "worker": tuple(each.worker for each in holders),
                "missing at": tuple(each.operator for each in holders),
                "missing sequence": tuple(each.sequence for each in holders),
                "missing chunks": tuple(_listed(each.chunks) for each in holders),
                "waiting behind": tuple(each.behind for each in holders),
                "query": self.query,
                "rule": self.scenario.rules.complete if any("rule" in each.state for each in holders) else None,
                "others": tuple(name for _, name in others),
                "others at": tuple(mark for mark, _ in others),
            }.items()
        )

    def table(self, operator: str) -> list[tuple[str, str, int, int]]:
        """Who held the watermark over the run, why, in how many stretches, and for how long: the longest first."""
        by_holder: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
        for who, why, begin, end in self.stretches(operator):
            by_holder[who, why].append((begin, end))
        rows = [
            (-sum(end - begin for begin, end in mine), why, who, 1 + sum(a[1] != b[0] for a, b in pairwise(mine)))
            for (who, why), mine in by_holder.items()
        ]
        return [(who, why, number, -held) for held, why, who, number in sorted(rows)]

    def completed_ms(self, operator: str, name: str, sequence: int) -> int | None:
        """When an operator has recorded a sequence of an origin as complete; None: never in the run."""
        rows = [row for row in self.arrivals[operator] if (row["emitter"], row["sequence"]) == (name, sequence)]
        return next((row["arrived_ms"] for row in rows if row["completed"]), None)

    def raised_ms(self, operator: str, at_ms: int) -> int | None:
        """When the watermark next became known, or rose; None: not before windows fired at the end of the stream."""
        now = self.watermark(operator, at_ms)
        flushed = [row["fired_ms"] for row in self.fired if row["cause"] == "end of stream"]
        until_ms = min(flushed, default=self.until_ms + 1)
        later = (
            row
            for row in self.arrivals[operator]
            if at_ms < row["arrived_ms"] < until_ms and row["reached"] is not None
        )
        return next((row["arrived_ms"] for row in later if now is None or row["reached"] > now), None)

    def windows(self, operator: str) -> tuple[list[tuple[Any, ...]], dict[tuple[int, int], int]]:
        """Each window that the watermark released: start, end, records, arrival; and the records of those left."""
        part = self.plan.windows[operator]
        size, slide, highest = part.size_ms, part.slide_ms or part.size_ms, -1
        counts: Counter[tuple[int, int]] = Counter()
        out: list[tuple[Any, ...]] = []

        def is_over(end: int) -> bool:
            return end <= highest if self.scenario.rules.trigger == "exact" else end < highest

        for row in self.arrivals[operator]:
            for begun, records in zip(row["slices"], row["slice_records"], strict=True):
                for start in range(begun // slide * slide, max(begun - size, -1), -slide):
                    if not is_over(start + size):
                        counts[start, start + size] += records
            highest = max(highest, -1 if row["reached"] is None else row["reached"])
            for span in sorted(counts):
                if is_over(span[1]):
                    out.append((*span, counts.pop(span), row["arrival"]))
        return out, dict(counts)

    def head_of_progress(self, operator: str, *, alone: bool = False) -> Values:
        """Each label of the head of the chart of watermarks: its longest stop is that of the answer about the run.

        Of the table `alone` nobody is known who held it, and the last stop ends with the last row.
        """
        rows = self.arrivals[operator]
        spans = _spans([(row["arrived_ms"], row["reached"]) for row in rows])
        known = [span for span in spans if span[2] is not None]
        facts: Values = {
            "unknown for": sum(end - begin for begin, end, mark, _ in spans if mark is None) or None,
            "steps back": sum(b[2] < a[2] for a, b in pairwise(known)) or None,
        }
        if known:
            begin, end, mark, _ = max(known, key=lambda span: span[1] - span[0])
            facts |= {"longest stop": end - begin, "from": begin, "to": end, "at": mark}
        else:
            heard = {row["emitter"] for row in rows if row["reached_local"] is not None}
            origins = sorted({(row["origin"], row["emitter"]) for row in rows})
            facts["unheard of"] = tuple(name for _, name in origins if name not in heard)
        of_run = self.of_run(operator)
        if not alone and "longest stop" in of_run:
            facts |= {label: of_run[label] for label in ("longest stop", "from", "to", "at")}
            facts["held by"] = of_run["stop held by"]
        return present(facts.items())

    def head_of_prefix(self, operator: str, name: str) -> Values:
        """Each label of the head of the chart of a prefix: the longest time in which something came behind a gap."""
        rows = [row for row in self.arrivals[operator] if row["emitter"] == name]
        steps: list[tuple[int, int | None]] = []
        for n, row in enumerate(rows):
            is_behind = any(other["sequence"] > row["reached_prefix"] + 1 for other in rows[: n + 1])
            steps.append((row["arrived_ms"], row["reached_prefix"] if is_behind else None))
        gaps = [span for span in _spans(steps) if span[2] is not None]
        facts: Values = {"emitter": name}
        if gaps:
            begin, end, prefix, inside = max(gaps, key=lambda span: span[1] - span[0])
            is_over = inside[-1] + 1 < len(rows)
            facts |= {"waited for": prefix + 1, "waited from": begin, "waited to": end if is_over else None}
        return present(facts.items())

    def head_of_windows(self, operator: str) -> Values:
        """Each label of the head of the chart of windows."""
        rows = [row for row in self.fired if row["operator"] == operator]
        times = sorted(row["fired_ms"] for row in rows)
        return present(
            {
                "query": self.query,
                "windows": len(rows),
                "fired at the end": sum(row["cause"] == "end of stream" for row in rows),
                "longest without": max((b - a for a, b in pairwise(times)), default=None),
            }.items()
        )

    def of_run(self, operator: str) -> Values:
        """Each label of an answer about a whole run, with its value."""
        facts: Values = {"bound": f"global watermark of {self.query}"}
        for who, why, _, held_ms in self.table(operator)[:1]:
            facts |= {"held by": who, "cause": why, "held for": held_ms}
        stop = self.longest_stop(operator)
        if stop is not None:
            begin, end, mark = stop
            held = Counter[tuple[str, str]]()
            for who, why, from_ms, to_ms in self.stretches(operator):
                held[who, why] += max(0, min(to_ms, end) - max(from_ms, begin))
            who, why = min(held, key=lambda each: (-held[each], each[1], each[0]))
            facts |= {"longest stop": end - begin, "from": begin, "to": end, "at": mark}
            facts |= {"stop held by": who, "stop cause": why}
        if self.scenario.rules.complete == "literal" and self.scenario.rules.chunk_base == 0:
            facts["complete when"] = "literal"
        return facts


def _spans(steps: Sequence[tuple[int, int | None]]) -> list[tuple[int, int, int | None, list[int]]]:
    """The stretches of equal values: from when to when, the value, and the rows."""
    found: list[tuple[int, int, int | None, list[int]]] = []
    for n, (at_ms, value) in enumerate(steps):
        end = steps[min(n + 1, len(steps) - 1)][0]
        if found and found[-1][2] == value:
            found[-1] = (found[-1][0], end, value, [*found[-1][3], n])
        else:
            found.append((at_ms, end, value, [n]))
    return found


def _target(act: Any) -> str:
    chunk = getattr(act, "chunk", None)
    return f"{act.source} {act.sequence}" + ("" if chunk is None else f" chunk {chunk}")


def _smallest(origins: Mapping[str, Local]) -> int | None:
    marks = [local.watermark for local in origins.values()]
    return None if None in marks else min(mark for mark in marks if mark is not None)


def _listed(chunks: Sequence[int]) -> str | None:
    """Chunks in words: "1, 2 and 5"."""
    *first, last = map(str, chunks or [""])
    return (f"{', '.join(first)} and {last}" if first else last) or None
