"""Mistakes of a scenario that no single field shows: unknown names, and actions that cannot be executed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, get_args

from wmlab.core.durations import duration_text
from wmlab.core.errors import ModelError
from wmlab.core.mistakes import Location
from wmlab.core.values import Problem, after_the_end, arguments, in_words, unknown
from wmlab.core.words import exactly
from wmlab.streams.model.coordination import DEFAULT_SCOPE, qualified_name
from wmlab.streams.model.segment import parse_segment, segment_name, split_id
from wmlab.streams.scenario import script
from wmlab.streams.scenario.fields import AT_THE_START, ScenarioFields, processes_of
from wmlab.streams.scenario.noting import EarliestOpen
from wmlab.streams.scenario.parts import (
    EVERY,
    SERVICES,
    EventWriter,
    ReaderGroup,
    Stream,
    TransactionalWriter,
    WriterPart,
    controller_name,
)
from wmlab.streams.scenario.rules import created_history, enters_on_passing

_ON_TRANSACTIONS = (
    script.AbortTransaction,
    script.CommitTransaction,
    script.SlowTransaction,
    script.WriteInTransaction,
)


def clients_of(
    writer: WriterPart, process: str, actions: Sequence[script.Action]
) -> list[tuple[tuple[int, int], WriterPart]]:
    """What a process of a writer runs with: at first, and from each upgrade on, by its time and its index."""
    upgrades = sorted(
        ((action.at_ms, index), action)
        for index, action in enumerate(actions)
        if isinstance(action, script.UpgradeWriter) and action.writer == process
    )
    clients = [(AT_THE_START, writer)]
    for moment, upgrade in upgrades:
        clients.append((moment, upgrade.client(clients[-1][1])))
    return clients


def _writer_problems(scenario: ScenarioFields) -> Iterator[Problem]:
    """Actions that their writer cannot carry out, or on a process that a later action starts."""
    by_process = {name: (writer, start) for name, writer, start in processes_of(scenario.writers, scenario.script)}
    for index, action in enumerate(scenario.script):
        name = getattr(action, "writer", "")
        process = by_process.get(name)
        if process is None:
            continue
        writer, start = process
        clients = clients_of(writer, name, scenario.script)
        before = [client for moment, client in clients if moment < (action.at_ms, index)]
        where = ("script", index, "writer")
        refused = list(_refusals(where, action, before[-1]))
        yield from refused or _before_it_starts(where, action, index, start)
        if isinstance(action, script.UpgradeWriter):
            client = action.client(before[-1])
            for problem in _automatic_problems(("script", index), client, scenario.stream_titled(client.stream)):
                # The period of automatic noting is the writer's, and stays without effect if the client has none.
                if hasattr(action, str(problem.location[-1])):
                    yield problem


def _before_it_starts(where: Location, action: script.Action, index: int, start: tuple[int, int]) -> Iterator[Problem]:
    """An action on somebody who starts later, by time and index in the script."""
    if (action.at_ms, index) < start:
        yield Problem(where, f"starts at {duration_text(start[0])} (got {duration_text(action.at_ms)})")


def _refusals(where: Location, action: script.Action, writer: WriterPart) -> Iterator[Problem]:
    """Why a writer cannot carry an action out, at most one reason."""
    transactional = isinstance(writer, TransactionalWriter)
    notes = isinstance(action, script.NoteTime) or (isinstance(action, script.ShutDownWriter) and action.last_note)
    if isinstance(action, _ON_TRANSACTIONS) and not transactional:
        yield Problem(where, f"{writer.name!r} is an event writer; only a TransactionalWriter has transactions")
    elif notes and transactional:
        yield Problem(where, f"{writer.name!r} notes time when it commits; use CommitTransaction")
    elif notes and writer.id is None:
        yield Problem(where, f"{writer.name!r} has no writer_id, so it cannot note time")
    elif isinstance(action, script.DuplicateWriter) and transactional:
        yield Problem(where, f"{writer.name!r} is transactional; only an EventWriter can be duplicated")
    elif isinstance(action, script.DuplicateWriter) and action.writer != writer.name:
        yield Problem(where, f"name the writer, {writer.name!r}, not one of its processes")


def _reader_problems(scenario: ScenarioFields) -> Iterator[Problem]:
    """Actions before there is a group, on groups, readers and checkpoints that nothing makes, or making one twice."""
    groups = scenario.groups
    on_readers = [(n, a) for n, a in enumerate(scenario.script) if isinstance(a, get_args(script.ReaderAction))]
    if not groups:
        yield from (Problem(("script", n), "concerns readers, and the scenario has none") for n, _ in on_readers)
        return
    readers = Counter(scenario.reader_names)
    makes = (script.Checkpoint, script.TakeStreamCut)
    checkpoints = Counter((a.group or groups[0].name, a.name) for _, a in on_readers if isinstance(a, makes))
    homes = {name: group.name for group in groups for name in group.reader_names()}
    homes |= {a.reader: a.group for _, a in on_readers if isinstance(a, script.AddReader) and a.group}
    yield from _joining_problems(on_readers, readers)
    for index, action in on_readers:
        group = getattr(action, "group", None) or homes.get(getattr(action, "reader", ""), groups[0].name)
        yield from _group_problems(index, action, group, groups)
        if isinstance(action, makes) and checkpoints[group, action.name] > 1:
            yield Problem(("script", index, "name"), f"another checkpoint is called {action.name!r} too")
        yield from unknown(("script", index, "reader"), "reader", getattr(action, "reader", None), sorted(readers))
        if isinstance(action, script.ResetToCheckpoint):
            known = [name for of, name in checkpoints if of == group]
            yield from unknown(("script", index, "checkpoint"), "checkpoint", action.checkpoint, known)
        reads = [name for part in groups if part.name == group for name in (part.streams or (part.stream,)) if name]
        if isinstance(action, script.ReleaseSegment) and reads:
            yield from unknown(("script", index, "stream"), f"stream of group {group!r}", action.stream, reads)
    for part in groups:
        others = [name for of, name in checkpoints if of != part.name]
        yield from unknown(("readers",), "checkpoint of another group", part.starting_checkpoint, others)


_NEEDED_BY: Final[Mapping[str, Mapping[str, str]]] = {
    "visit_order": {"cut_algorithm": "pravega"},
    "read_every_ms": {"publish_timer": "pravega", "enters_time": "on_passing"},
    "group_refresh_ms": {"publish_timer": "pravega"},
}
"""The fields of parts that the sound rules have no use for, each with the options that have, and with such a value."""


def _rule_problems(scenario: ScenarioFields) -> Iterator[Problem]:
    """Rules without a map of times that readers enter them into, and fields that matter only by options nobody chose.

    By the design all groups enter times. Other sets of rules, and options that are set, are there to compare with.
    """
    rules, groups = scenario.rules, scenario.groups
    has_map = any(enters_on_passing(group, rules.in_effect) for group in groups)
    if rules.base != "design" and rules.in_effect.enters_time == "on_passing" and groups and not has_map:
        yield Problem(
            ("rules", "enters_time"),
            "needs read_side='document', and a group with time_windows, or there is no map of times (got 'on_passing')",
        )
    placed = [
        ((name, index) if isinstance(parts, tuple) else (name,), part)
        for name, parts in (("stream", scenario.stream), ("streams", scenario.streams), ("readers", scenario.readers))
        for index, part in enumerate(parts if isinstance(parts, tuple) else filter(None, [parts]))
    ]
    for where, part in placed if rules.base == "sound" else ():
        for name, offered in arguments(part):
            needs = [*_NEEDED_BY.get(name, {}).items()]
            if needs and all(getattr(rules, option) is None for option, _ in needs):
                use = "rules=wm.Rules({}={!r})".format(*needs[0])
                yield Problem(
                    (*where, name),
                    f"has no effect by the sound rules; leave it out, or give the scenario {use} (got {offered!r})",
                )


def _joining_problems(on_readers: Iterable[tuple[int, Any]], readers: Mapping[str, int]) -> Iterator[Problem]:
    """New readers with the name of another one, and actions on them before they join."""
    joins = {action.reader: (action.at_ms, n) for n, action in on_readers if isinstance(action, script.AddReader)}
    for index, action in on_readers:
        name = getattr(action, "reader", "")
        if isinstance(action, script.AddReader):
            if readers[name] > 1:
                yield Problem(("script", index, "reader"), f"another reader is called {name!r} too")
        elif name in joins:
            yield from _before_it_starts(("script", index, "reader"), action, index, joins[name])


def _group_problems(
    index: int, action: script.ReaderAction, group: str, groups: Sequence[ReaderGroup]
) -> Iterator[Problem]:
    names, named = [group.name for group in groups], getattr(action, "group", None)
    if hasattr(action, "group") and named is None and len(groups) > 1:
        yield Problem(("script", index, "group"), f"must say which group; there are: {', '.join(names)}")
    yield from unknown(("script", index, "group"), "group", named, names)
    starts_ms = max((part.starts_ms for part in groups if part.name == group), default=0)
    if action.at_ms <= starts_ms:
        starts, got = duration_text(starts_ms), duration_text(action.at_ms)
        yield Problem(("script", index, "at_ms"), f"lies before or at the start of the readers, {starts} (got {got})")


CONTROLLER_ROLES = ("leader", "committer", "distributor")
"""What a script may call a controller besides its name."""


def problems_across(scenario: ScenarioFields) -> Iterator[Problem]:
    """All mistakes across the parts of a scenario."""
    yield from _stream_problems(scenario)
    for kind, field, named in (
        ("writer", "writers", scenario.writers),
        ("stream", "streams", scenario.streams),
        ("group", "readers", scenario.groups),
    ):
        counts = Counter(part.name for part in named)
        for index, part in enumerate(named):
            if counts[part.name] > 1:
                yield Problem((field, index, "name"), f"another {kind} is called {part.name!r} too")
    processes = Counter(scenario.process_names)
    for index, writer in enumerate(scenario.writers):
        if processes[writer.name] > sum(other.name == writer.name for other in scenario.writers):
            yield Problem(("writers", index, "name"), f"another writer has a process called {writer.name!r}")
    names = {stream.name for stream in scenario.streams}
    for index, stream in enumerate(scenario.streams):
        if (name := qualified_name(stream.name)) in names - {stream.name}:
            yield Problem(
                ("streams", index, "name"),
                f"a stream without a scope is in {DEFAULT_SCOPE!r}, and another is called {name!r} "
                f"(got {stream.name!r})",
            )
    yield from _name_problems(scenario)
    yield from _writer_problems(scenario)
    yield from _reader_problems(scenario)
    yield from _rule_problems(scenario)
    yield from _scale_problems(scenario)
    yield from _controller_problems(scenario)
    yield from _transaction_problems(scenario)
    yield from _partition_problems(scenario)
    yield from overlaps(scenario)


def _stream_problems(scenario: ScenarioFields) -> Iterator[Problem]:
    if scenario.streams and scenario.stream != type(scenario.stream)():
        yield Problem(("streams",), "give either stream or streams, not both")
    names = [stream.name for stream in scenario.all_streams]
    parts: list[tuple[Location, str | None]] = [
        (("writers", index, "stream"), writer.stream) for index, writer in enumerate(scenario.writers)
    ]
    for index, group in enumerate(scenario.groups):
        where = ("readers", index, "stream") if isinstance(scenario.readers, tuple) else ("readers", "stream")
        parts += [(where, named) for named in (group.streams or (group.stream,))]
    for location, named in parts:
        if named is None and len(names) > 1:
            yield Problem(location, f"must say which stream; there are: {', '.join(names)}")
        yield from unknown(location, "stream", named, names)
    for index, writer in enumerate(scenario.writers):
        yield from _automatic_problems(("writers", index), writer, scenario.stream_titled(writer.stream))


def _automatic_problems(where: Location, writer: WriterPart, stream: Stream) -> Iterator[Problem]:
    """Options of automatic noting that contradict each other or have no effect."""
    automatic = writer.automatically_note_time or stream.automatically_note_time
    if automatic and writer.noting != EarliestOpen():
        yield Problem((*where, "noting"), "a writer that notes time automatically notes its clock; leave noting out")
    if not isinstance(writer, EventWriter):
        return
    if automatic and writer.note_every_ms != 1_000:
        yield Problem(
            (*where, "note_every_ms"),
            "a writer that notes time automatically has automatic_note_period_ms; leave note_every_ms out",
        )
    if not automatic and writer.automatic_note_period_ms != 5_000:
        yield Problem((*where, "automatic_note_period_ms"), "needs automatically_note_time")


def _name_problems(scenario: ScenarioFields) -> Iterator[Problem]:
    """Actions after the end, and names in them that nobody has."""
    processes, controllers = sorted(scenario.process_names), scenario.controller_names
    everybody = [*EVERY, *SERVICES, *processes, *controllers, *scenario.reader_names]
    known = {
        "writer": ("writer", processes),
        "controller": ("controller", [*CONTROLLER_ROLES, *controllers]),
        "stream": ("stream", [stream.name for stream in scenario.all_streams]),
        "party": ("writer or controller", [*sorted(writer.name for writer in scenario.writers), *controllers]),
        "a": ("party", everybody),
        "b": ("party", everybody),
    }
    for index, action in enumerate(scenario.script):
        yield from after_the_end(("script", index, "at_ms"), action.at_ms, scenario.duration_ms)
        for field, (kind, names) in known.items():
            yield from unknown(("script", index, field), kind, getattr(action, field, None), names)


def _scale_problems(scenario: ScenarioFields) -> Iterator[Problem]:
    """Actions on streams that are not there, scales that their history refuses, and segments that they never have.

    They are tried in order of time.
    """
    histories = _Histories(scenario)
    for _, index, name, action in sorted(_steps(scenario), key=lambda step: step[:2]):
        yield from histories.problems(index, name, action)
    for index, release in enumerate(scenario.script):
        if isinstance(release, script.ReleaseSegment) and (len(scenario.all_streams) == 1 or release.stream):
            name = release.stream or scenario.all_streams[0].name
            if name in histories.numbers:
                location = ("script", index, "segment")
                yield from _segment_problems(location, release.segment, name, histories.numbers[name])


def segment_to_seal(scenario: ScenarioFields, at_ms: int) -> str | None:
    """A segment of the first stream that is open at a moment and at the end, as `number@epoch`; None: there is none."""
    stream = scenario.all_streams[0].name
    histories = _Histories(scenario)
    known: dict[bool, tuple[str, ...]] = {True: histories.open_segments(stream), False: ()}
    for then_ms, index, name, action in sorted(_steps(scenario), key=lambda step: step[:2]):
        list(histories.problems(index, name, action))
        known[then_ms <= at_ms] = histories.open_segments(stream)
    last = known[False] or known[True]
    return next((segment for segment in known[True] if segment in last), None)


class _Histories:
    """The segments of every stream as a script changes them; `numbers` are all that a stream ever has."""

    def __init__(self, scenario: ScenarioFields) -> None:
        self._streams = {stream.name: stream for stream in scenario.all_streams}
        self._rules = scenario.resolved.rules
        later = scenario.created_later
        initial = {name: stream for name, stream in self._streams.items() if name not in later}
        self._present = {name: created_history(stream, self._rules) for name, stream in initial.items()}
        self._first = Counter[str]()
        self._sealed: set[str] = set()
        self.numbers: dict[str, set[int]] = {}
        for name in self._present:
            self._count(name)

    def open_segments(self, stream: str) -> tuple[str, ...]:
        """The segments of a stream that are open, as `number@epoch`."""
        return tuple(map(segment_name, self._present[stream].active.ids)) if stream in self._present else ()

    def problems(self, index: int, name: str, action: _OnStream | None) -> Iterator[Problem]:
        """What is wrong with an action, which is carried out if nothing is."""
        creates = action is None or isinstance(action, script.CreateStream)
        if creates is (name in self._present):
            state = "there already" if creates else "not there"
            yield Problem(("script", index, "at_ms"), f"the stream {name!r} is {state} then")
            return
        if creates:
            self._present[name] = created_history(self._streams[name], self._rules, self._first[name])
            self._sealed.discard(name)
        elif isinstance(action, script.DeleteStream):
            self._first[name] = 1 + max(segment.number for segment in self._present.pop(name).segments.values())
        elif isinstance(action, script.Scale | script.SealStream):
            yield from self._seal(index, name, action)
        elif isinstance(action, script.TruncateStream):
            numbers = {segment.number for segment in self._present[name].segments.values()}
            for named in action.cut or ():
                yield from _segment_problems(("script", index, "cut", named), named, name, numbers)
        self._count(name)

    def _seal(self, index: int, name: str, action: script.Scale | script.SealStream) -> Iterator[Problem]:
        if name in self._sealed:
            yield Problem(("script", index, "at_ms"), f"the stream {name!r} is sealed then")
        elif isinstance(action, script.SealStream):
            self._sealed.add(name)
        else:
            try:
                self._present[name] = self._present[name].scale(action.seal, action.ranges)
            except ModelError as error:
                yield Problem(("script", index, "seal"), in_words(error))

    def _count(self, name: str) -> None:
        if name in self._present:
            segments = self._present[name].segments.values()
            self.numbers.setdefault(name, set()).update(segment.number for segment in segments)


def _segment_problems(location: Location, named: str, stream: str, numbers: Collection[int]) -> Iterator[Problem]:
    """A segment whose number the stream never has. Its epoch is another one after a rolling transaction."""
    try:
        number, _ = split_id(parse_segment(named))
    except ModelError as error:
        yield Problem(location, in_words(error))
        return
    if number not in numbers:
        known = ", ".join(map(str, sorted(numbers)))
        yield Problem(location, f"the stream {stream!r} has no segment of that number; there are: {known}")


_OnStream = script.Scale | script.TruncateStream | script.SealStream | script.CreateStream | script.DeleteStream


def _steps(scenario: ScenarioFields) -> Iterator[tuple[int, int, str, _OnStream | None]]:
    """What changes a stream's segments: when, index in the script, stream, and the action; None: a new stream."""
    names = {stream.name for stream in scenario.all_streams}
    for index, action in enumerate(scenario.script):
        if isinstance(action, _OnStream) and (name := action.stream or scenario.all_streams[0].name) in names:
            yield action.at_ms, index, name, action
            if isinstance(action, script.DeleteStream) and action.recreate_after_ms is not None:
                yield action.at_ms + action.recreate_after_ms, index, name, None


def _controller_problems(scenario: ScenarioFields) -> Iterator[Problem]:
    """Actions on a controller, by its name, before it joins."""
    joining = sorted(
        (action.at_ms, index)
        for index, action in enumerate(scenario.script)
        if isinstance(action, script.AddController)
    )
    joins = {controller_name(scenario.controllers.count + number): when for number, when in enumerate(joining)}
    for index, action in enumerate(scenario.script):
        for field in ("controller", "party"):
            joined = joins.get(getattr(action, field, ""), AT_THE_START)
            yield from _before_it_starts(("script", index, field), action, index, joined)


def _transaction_problems(scenario: ScenarioFields) -> Iterator[Problem]:
    """Transactions with a name that none of their writer ever has."""
    for index, action in enumerate(scenario.script):
        named, writer = getattr(action, "transaction", None), getattr(action, "writer", "")
        if named is not None and not re.fullmatch(rf"{re.escape(writer)}-[1-9]\d*", named):
            yield Problem(
                ("script", index, "transaction"),
                f"the transactions of {writer!r} are called {writer}-1, {writer}-2 and so on (got {named!r})",
            )


def _partition_problems(scenario: ScenarioFields) -> Iterator[Problem]:
    """Sides between which nothing ever passes."""
    kinds = dict.fromkeys(scenario.process_names, "writers")
    kinds |= dict.fromkeys(scenario.reader_names, "readers")
    kinds |= dict.fromkeys(scenario.controller_names, "controllers")
    for index, action in enumerate(scenario.script):
        if not isinstance(action, script.Partition) or action.a == action.b:
            continue
        a, b = (kinds.get(side, side) for side in (action.a, action.b))
        for field, side in (("a", action.a), ("b", action.b)):
            if side in EVERY and side not in kinds.values():
                yield Problem(("script", index, field), f"the scenario has no {side}")
        if {a, b} <= _TALKS_TO.keys() and b not in _TALKS_TO[a]:
            yield Problem(
                ("script", index, "b"),
                f"nothing ever passes between {action.a!r} and {action.b!r}; "
                f"{action.a!r} talks to: {', '.join(_TALKS_TO[a])}",
            )


_TALKS_TO: Mapping[str, tuple[str, ...]] = {
    "writers": ("segment-store", "controllers"),
    "readers": ("segment-store",),
    "controllers": ("writers", "segment-store", "metadata-store", "coordinator"),
    "segment-store": ("writers", "readers", "controllers"),
    "metadata-store": ("controllers",),
    "coordinator": ("controllers",),
}
"""Between which kinds of nodes messages pass."""


class _Fault(NamedTuple):
    """What a fault does to its party: the state that it is in, for how long, and the states that refuse the fault."""

    state: str
    lasts: str
    unless: tuple[str, ...]


_DOWN: Final = _Fault("down", "restart_after_ms", ("down",))
_FAULTS: Final[Mapping[type[Any], _Fault]] = {
    script.CrashWriter: _DOWN,
    # One that is down says in the run that nobody was there; so does a reader that is to pause.
    script.ShutDownWriter: _DOWN._replace(unless=()),
    script.SilenceWriter: _Fault("silent", "for_ms", ("silent",)),
    script.MarkIdle: _Fault("idle", "for_ms", ("idle",)),
    script.CrashController: _DOWN,
    script.PauseController: _Fault("paused", "for_ms", ("paused", "down")),
    script.CrashReader: _DOWN,
    script.PauseReader: _Fault("paused", "for_ms", ("paused",)),
    script.StoreUnavailable: _Fault("unavailable", "for_ms", ("unavailable",)),
    script.LoseMarksSegment: _Fault("missing", "for_ms", ("missing",)),
    script.LoseBucketOwner: _Fault("without an owner", "for_ms", ("without an owner",)),
}


def overlaps(scenario: ScenarioFields) -> Iterator[Problem]:
    """Faults that overlap with an earlier one of the same party: a crash while it is down, a pause while paused.

    A controller that is named by its role is known only if there is one, and what waits for a point has no moment. A
    crash ends a pause; a stream that is created starts its writers and readers.
    """
    creations = [
        (at_ms, index)
        for at_ms, index, _, action in _steps(scenario)
        if action is None or isinstance(action, script.CreateStream)
    ]
    moments: list[tuple[int, int, script.Action | None]] = [(at_ms, index, None) for at_ms, index in creations]
    moments += [(action.at_ms, index, action) for index, action in enumerate(scenario.script)]
    until_ms: dict[tuple[str, str], tuple[int, int | None]] = {}
    for at_ms, index, action in sorted(moments, key=lambda moment: moment[:2]):
        if action is None:
            until_ms = {key: span for key, span in until_ms.items() if key[1] not in ("down", "paused")}
            continue
        fault, party = _FAULTS.get(type(action)), _party(scenario, action)
        if fault is None or party is None:
            continue
        for state in fault.unless:
            begin_ms, end_ms = until_ms.get((party, state), AT_THE_START)
            # What ends a state is carried out after the actions of its millisecond.
            if end_ms is None or at_ms <= end_ms:
                interval = f"from {exactly(begin_ms)} {'on' if end_ms is None else f'to {exactly(end_ms)}'}"
                yield Problem(("script", index), f"{party} is {state} {interval} (got {exactly(at_ms)})")
                break
        else:
            length_ms = getattr(action, fault.lasts)
            until_ms[party, fault.state] = at_ms, None if length_ms is None else at_ms + length_ms
            if fault.state == "down":
                until_ms.pop((party, "paused"), None)


def _party(scenario: ScenarioFields, action: script.Action) -> str | None:
    """What a fault befalls, as it is called; None: that is known only in the run."""
    stream = getattr(action, "stream", None) or scenario.all_streams[0].name
    match action:
        case script.StoreUnavailable():
            return f"the store {action.store}"
        case script.LoseMarksSegment():
            return f"the marks segment of {stream}"
        case script.LoseBucketOwner():
            return f"the bucket of {stream}"
        case script.CrashController() | script.PauseController() if action.point is not None:
            return None
        case script.CrashController() | script.PauseController() if action.controller in CONTROLLER_ROLES:
            controllers = scenario.controller_names
            return controllers[0] if len(controllers) == 1 else None
    named = (getattr(action, field, None) for field in ("writer", "reader", "controller"))
    return next((name for name in named if name is not None), None)
