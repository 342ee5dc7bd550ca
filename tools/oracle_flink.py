"""Flink's own classes, in one Java process, through the py4j that Spark brings. They are installed by

pip install --no-deps --target DIRECTORY apache-flink-libraries==2.3.0
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from subprocess import DEVNULL
from typing import Any, Final

from py4j.java_gateway import CallbackServerParameters, GatewayParameters, JavaGateway, launch_gateway

VERSION: Final = "2.3.0"
EVENT_TIME: Final = "org.apache.flink.api.common.eventtime"
RUNTIME: Final = "org.apache.flink.streaming.runtime"
OPERATORS: Final = "org.apache.flink.streaming.api.operators"
COORDINATOR: Final = "org.apache.flink.runtime.source.coordinator"
OPENED: Final = ("lang", "util", "net", "io", "nio", "time", "text")
"""Packages of Java that a job of Flink looks into."""
SUBTASKS: Final = 3
"""Subtasks of a source in an alignment group."""


class Recorder:
    """What Flink's classes say to their surroundings and ask of them, and a clock that is set by hand."""

    def __init__(self) -> None:
        self.emitted: list[Any] = []
        self.now = 0
        self.clock: Any = None

    def emitWatermark(self, mark: Any) -> None:  # noqa: N802 (a name of Java)
        """Of `DataOutput`: a watermark."""
        self.emitted.append(mark.getTimestamp())

    def emitWatermarkStatus(self, status: Any) -> None:  # noqa: N802
        """Of `DataOutput`: idle or active."""
        self.emitted.append("IDLE" if status.isIdle() else "ACTIVE")

    def relativeTimeNanos(self) -> int:  # noqa: N802
        """Of `RelativeClock`: the time that the history has come to."""
        return self.now * 1_000_000

    def getClock(self) -> Any:  # noqa: N802
        """Of `ProcessingTimeService`: a clock that is Flink's own."""
        return self.clock

    def sendEventToCoordinator(self, event: Any) -> None:  # noqa: N802
        """Of `OperatorEventGateway`: a source reports."""
        self.emitted.append(event.getWatermark())

    def sendEvent(self, event: Any) -> None:  # noqa: N802
        """Of `SubtaskGateway`: the coordinator announces a limit to a source."""
        self.emitted.append(event.getMaxWatermark())

    def currentParallelism(self) -> int:  # noqa: N802
        """Of the coordinator's `Context`."""
        return SUBTASKS

    def ignore(self, *_: Any) -> None:
        """What is asked or said besides."""

    getEnumeratorCheckpointSerializer = getSplitSerializer = emitRecord = pauseOrResumeSplits = ignore  # noqa: N815

    def taken(self) -> list[Any]:
        """What was emitted since this was last asked."""
        taken, self.emitted = self.emitted, []
        return taken

    class Java:
        """The interfaces that Java sees."""

        implements: Final = [
            f"{RUNTIME}.io.PushingAsyncDataInput$DataOutput",
            "org.apache.flink.util.clock.RelativeClock",
            f"{RUNTIME}.tasks.ProcessingTimeService",
            f"{RUNTIME}.tasks.StreamTask$CanEmitBatchOfRecordsChecker",
            "org.apache.flink.runtime.operators.coordination.OperatorEventGateway",
            "org.apache.flink.runtime.operators.coordination.OperatorCoordinator$SubtaskGateway",
            "org.apache.flink.runtime.operators.coordination.OperatorCoordinator$Context",
            "org.apache.flink.api.connector.source.Source",
            "org.apache.flink.api.connector.source.SourceReader",
            "org.apache.flink.core.io.SimpleVersionedSerializer",
            "org.apache.flink.util.function.FunctionWithException",
        ]


class Oracle:
    """Flink's classes behind one gateway."""

    version = VERSION

    def __init__(self, directory: Path) -> None:
        jars = sorted((directory / "pyflink" / "lib").glob("*.jar"))
        if not any(jar.name == f"flink-dist-{VERSION}.jar" for jar in jars):
            raise SystemExit(f"There is no flink-dist-{VERSION}.jar below {directory}: see the head of this file.")
        self.classpath = ":".join(map(str, jars))
        port = launch_gateway(
            classpath=self.classpath,
            javaopts=[f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in OPENED],
            die_on_exit=True,
            redirect_stdout=DEVNULL,
            redirect_stderr=DEVNULL,
        )
        self.gateway = JavaGateway(
            gateway_parameters=GatewayParameters(port=port, auto_convert=True),
            callback_server_parameters=CallbackServerParameters(port=0),
        )
        callback = self.gateway.get_callback_server().get_listening_port()
        server = self.gateway.java_gateway_server
        server.resetCallbackClient(server.getCallbackClient().getAddress(), callback)
        self.jvm = self.gateway.jvm
        self.recorder = Recorder()
        self.members: dict[str, Any] = {}
        valves = getattr(self.jvm, f"{RUNTIME}.watermarkstatus.WatermarkStatus")
        self.status = {"idle": valves.IDLE, "active": valves.ACTIVE}

    def make(self, name: str, *arguments: Any) -> Any:
        """An object of a class."""
        made = self.jvm
        for part in name.split("."):
            made = getattr(made, part)
        return made(*arguments)

    def mark(self, time: int, package: str = EVENT_TIME) -> Any:
        """A watermark of either of Flink's two classes."""
        return self.make(f"{package}.Watermark", self.long(time))

    def long(self, value: int) -> Any:
        """A `long`, which py4j would pass as an `int`."""
        return self.jvm.java.lang.Long.valueOf(str(value))

    def close(self) -> None:
        """Ends the Java process."""
        self.gateway.shutdown(raise_exception=False)

    def answers(self, kind: str, history: dict[str, Any]) -> list[Any]:
        """What Flink answers to each step of a history."""
        self.recorder.taken()
        step: Callable[[list[Any]], Any] = getattr(self, kind)(history)
        return [step(entry) for entry in history["steps"]]

    def bounded(self, history: dict[str, Any]) -> Callable[[list[Any]], Any]:
        """The generator of bounded out-of-orderness."""
        duration = self.jvm.java.time.Duration.ofMillis(history["bound"])
        generator = self.make(f"{EVENT_TIME}.BoundedOutOfOrdernessWatermarks", duration)
        output = self.output()

        def step(entry: list[Any]) -> Any:
            if entry[0] == "record":
                generator.onEvent(None, self.long(entry[1]), output)
            else:
                generator.onPeriodicEmit(output)
            return self.recorder.taken()

        return step

    def output(self) -> Any:
        """A source's output, which says a watermark that rises, and each change of its status."""
        return self.make("org.apache.flink.streaming.api.operators.source.WatermarkToDataOutput", self.recorder)

    def idleness(self, history: dict[str, Any]) -> Callable[[list[Any]], Any]:
        """A generator with an idle timeout, over a clock that the history moves."""
        of = self.jvm.java.time.Duration.ofMillis
        inner = self.make(f"{EVENT_TIME}.BoundedOutOfOrdernessWatermarks", of(0))
        generator = self.make(f"{EVENT_TIME}.WatermarksWithIdleness", inner, of(history["timeout"]), self.recorder)
        output = self.output()

        def step(entry: list[Any]) -> Any:
            if entry[0] == "record":
                generator.onEvent(None, self.long(entry[1]), output)
            else:
                self.recorder.now = entry[1]
                generator.onPeriodicEmit(output)
            return self.recorder.taken()

        return step

    def valve(self, history: dict[str, Any]) -> Callable[[list[Any]], Any]:
        """The valve of a task with a number of channels."""
        valve = self.make(f"{RUNTIME}.watermarkstatus.StatusWatermarkValve", history["inputs"])

        def step(entry: list[Any]) -> Any:
            if entry[0] == "wm":
                valve.inputWatermark(
                    self.mark(entry[2], "org.apache.flink.streaming.api.watermark"), entry[1], self.recorder
                )
            else:
                valve.inputWatermarkStatus(self.status[entry[0]], entry[1], self.recorder)
            return self.recorder.taken()

        return step

    def multiplexer(self, history: dict[str, Any]) -> Callable[[list[Any]], Any]:
        """The multiplexer of a source over its splits, some with immediate output."""
        multiplexer = self.make(f"{EVENT_TIME}.WatermarkOutputMultiplexer", self.output())
        outputs: dict[int, Any] = {}

        def step(entry: list[Any]) -> Any:
            match entry:
                case ["add", split]:
                    multiplexer.registerNewOutput(str(split))
                    kind = "Immediate" if split in history["immediate"] else "Deferred"
                    outputs[split] = getattr(multiplexer, f"get{kind}Output")(str(split))
                case ["remove", split]:
                    multiplexer.unregisterOutput(str(split))
                case ["periodic"]:
                    multiplexer.onPeriodicEmit()
                case ["wm", split, time]:
                    outputs[split].emitWatermark(self.mark(time))
                case ["idle", split]:
                    outputs[split].markIdle()
                case ["active", split]:
                    outputs[split].markActive()
            return self.recorder.taken()

        return step

    def alignment(self, history: dict[str, Any]) -> Callable[[list[Any]], Any]:
        """The coordinators of two sources of a group: what each announces to its subtasks that have reported."""
        name = f"{COORDINATOR}.SourceCoordinator"
        job = self.make("org.apache.flink.api.common.JobID")
        store = self.make("org.apache.flink.runtime.operators.coordination.CoordinatorStoreImpl")
        store.putIfAbsent("group", self.hidden(f"{name}$WatermarkAggregator"))
        settings = self.make(
            f"{EVENT_TIME}.WatermarkAlignmentParams", self.long(history["drift"]), "group", self.long(1)
        )
        contexts = [self.context(job), self.context(job)]
        sources = [
            self.make(name, job, str(number), self.recorder, context, store, settings, None)
            for number, context in enumerate(contexts)
        ]

        def step(entry: list[Any]) -> Any:
            match entry:
                case ["report", source, subtask, time]:
                    self.call(f"{name}.handleReportedWatermark", sources[source], subtask, self.mark(time))
                case ["assigned", source, subtask]:
                    self.field(f"{name}Context.subtaskHasNoMoreSplits", contexts[source])[subtask] = True
                case ["announce", source]:
                    self.call(f"{name}.announceCombinedWatermark", sources[source])
            return self.recorder.taken()

        return step

    def context(self, job: Any) -> Any:
        """The context of a coordinator; the thread that serves Python is the coordinator's."""
        factory = f"{COORDINATOR}.SourceCoordinatorProvider$CoordinatorExecutorThreadFactory"
        threads = self.hidden(factory, "coordinator", None, None)
        self.member(f"{factory}.t").set(threads, self.jvm.java.lang.Thread.currentThread())
        name = f"{COORDINATOR}.SourceCoordinatorContext"
        context = self.make(name, job, threads, 1, self.recorder, self.recorder, False)
        self.call(f"{name}.checkAndLazyInitialize", context)
        for gateway in self.field(f"{name}$SubtaskGateways.gateways", self.field(f"{name}.subtaskGateways", context)):
            gateway.put(0, self.recorder)
        return context

    def source(self, history: dict[str, Any]) -> Callable[[list[Any]], Any]:
        """A source and the generators of its splits: what it emits and reports, whether it waits, who is paused."""
        name, recorder, of = f"{OPERATORS}.SourceOperator", self.recorder, self.jvm.java.time.Duration.ofMillis
        recorder.clock = clock = self.make("org.apache.flink.util.clock.ManualClock", self.long(1))
        settings = self.make("org.apache.flink.configuration.Configuration")
        settings.setString("pipeline.watermark-alignment.buffer-size", str(history["buffer"]))
        bounded = self.jvm.org.apache.flink.api.common.eventtime.WatermarkStrategy.forBoundedOutOfOrderness(of(0))
        strategy = bounded.withIdleness(of(history["timeout"]))
        operator = self.make(
            name, None, recorder, recorder, recorder, strategy, recorder, settings, "", True, recorder, {}, False, False
        )
        metrics = self.jvm.org.apache.flink.runtime.metrics.groups.UnregisteredMetricGroups
        task = metrics.createUnregisteredTaskMetricGroup()
        activity = self.make(f"{OPERATORS}.util.PausableRelativeClock", clock)
        times = self.jvm.org.apache.flink.streaming.api.operators.source.TimestampsAndWatermarks
        logic = times.createProgressiveEventTimeLogic(
            strategy, task, recorder, self.long(0), activity, clock, task.getIOMetricGroup()
        )
        output = logic.createMainOutput(recorder, operator)
        for field, value in {
            f"{OPERATORS}.AbstractStreamOperator.metrics": metrics.createUnregisteredOperatorMetricGroup(),
            f"{name}.mainInputActivityClock": activity,
            f"{name}.eventTimeLogic": logic,
            f"{name}.sourceReader": recorder,
            f"{name}.currentMainOutput": output,
            f"{name}.operatingMode": self.field(f"{name}$OperatingMode.READING", None),
        }.items():
            self.member(field).set(operator, value)
        self.call(f"{name}.initSourceMetricGroup", operator)
        splits = [output.createOutputForSplit(str(split)) for split in range(history["splits"])]
        for split in range(history["splits"]):
            self.call(f"{name}.getOrCreateSplitMetricGroup", operator, str(split))
        logic.emitImmediateWatermark(0)
        recorder.taken()

        def step(entry: list[Any]) -> Any:
            clock.advanceTime(of(entry[1]))
            match entry:
                case ["record", _, split, time]:
                    waits, paused = waiting()
                    if not waits and split not in paused:
                        splits[split].collect("", self.long(time))
                        # The first probe sees the record, the second begins the quiet time.
                        logic.emitImmediateWatermark(0)
                        logic.emitImmediateWatermark(0)
                case ["limit", _, limit]:
                    event = self.make("org.apache.flink.runtime.source.event.WatermarkAlignmentEvent", self.long(limit))
                    operator.handleOperatorEvent(event)
                case ["probe", _]:
                    logic.emitImmediateWatermark(0)
                case ["sample", _]:
                    self.call(f"{name}.sampleAndEmitLatestWatermark", operator)
            return [recorder.taken(), *waiting()]

        def waiting() -> list[Any]:
            mode = self.field(f"{name}.operatingMode", operator)
            return [
                mode.toString() != "READING",
                sorted(map(int, self.field(f"{name}.currentlyPausedSplits", operator))),
            ]

        return step

    def member(self, name: str) -> Any:
        """A field or a method, by the names of its class and its own; it need not be public."""
        if name not in self.members:
            kind = self.jvm.java.lang.Class.forName(name.rpartition(".")[0])
            for member in [*kind.getDeclaredFields(), *kind.getDeclaredMethods()]:
                member.setAccessible(True)
                self.members[f"{kind.getName()}.{member.getName()}"] = member
        return self.members[name]

    def field(self, name: str, of: Any) -> Any:
        """The value of such a field."""
        return self.member(name).get(of)

    def call(self, name: str, of: Any, *arguments: Any) -> Any:
        """Calls such a method."""
        return self.member(name).invoke(of, self.array(arguments))

    def hidden(self, kind: str, *arguments: Any) -> Any:
        """An object of a class that need not be public."""
        makers = self.jvm.java.lang.Class.forName(kind).getDeclaredConstructors()
        maker = next(maker for maker in makers if maker.getParameterCount() == len(arguments))
        maker.setAccessible(True)
        return maker.newInstance(self.array(arguments))

    def array(self, values: Sequence[Any]) -> Any:
        """Arguments for reflection."""
        array = self.gateway.new_array(self.jvm.java.lang.Object, len(values))
        for index, value in enumerate(values):
            array[index] = value
        return array
