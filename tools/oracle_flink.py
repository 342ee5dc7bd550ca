"""Flink's own classes, in one Java process, through the py4j that Spark brings. They are installed by

pip install --no-deps --target DIRECTORY apache-flink-libraries==2.3.0
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from subprocess import DEVNULL
from typing import Any, Final

from py4j.java_gateway import CallbackServerParameters, GatewayParameters, JavaGateway, launch_gateway

VERSION: Final = "2.3.0"
EVENT_TIME: Final = "org.apache.flink.api.common.eventtime"
RUNTIME: Final = "org.apache.flink.streaming.runtime"


class Told:
    """What Flink's classes have emitted: a `DataOutput` of the runtime, and a clock that is set by hand."""

    def __init__(self) -> None:
        self.emitted: list[Any] = []
        self.now = 0

    def emitWatermark(self, mark: Any) -> None:  # noqa: N802 (a name of Java)
        """Of `DataOutput`: a watermark."""
        self.emitted.append(mark.getTimestamp())

    def emitWatermarkStatus(self, status: Any) -> None:  # noqa: N802
        """Of `DataOutput`: idle or active."""
        self.emitted.append("IDLE" if status.isIdle() else "ACTIVE")

    def relativeTimeNanos(self) -> int:  # noqa: N802
        """Of `RelativeClock`: the time that the history has come to."""
        return self.now * 1_000_000

    def taken(self) -> list[Any]:
        """What was emitted since this was last asked."""
        taken, self.emitted = self.emitted, []
        return taken

    class Java:
        """The interfaces that Java sees."""

        implements: Final = [
            f"{RUNTIME}.io.PushingAsyncDataInput$DataOutput",
            "org.apache.flink.util.clock.RelativeClock",
        ]


class Oracle:
    """Flink's classes behind one gateway."""

    version = VERSION

    def __init__(self, directory: Path) -> None:
        jars = sorted((directory / "pyflink" / "lib").glob("*.jar"))
        if not any(jar.name == f"flink-dist-{VERSION}.jar" for jar in jars):
            raise SystemExit(f"There is no flink-dist-{VERSION}.jar below {directory}: see the head of this file.")
        port = launch_gateway(
            classpath=":".join(map(str, jars)), die_on_exit=True, redirect_stdout=DEVNULL, redirect_stderr=DEVNULL
        )
        self.gateway = JavaGateway(
            gateway_parameters=GatewayParameters(port=port, auto_convert=True),
            callback_server_parameters=CallbackServerParameters(port=0),
        )
        callback = self.gateway.get_callback_server().get_listening_port()
        server = self.gateway.java_gateway_server
        server.resetCallbackClient(server.getCallbackClient().getAddress(), callback)
        self.jvm = self.gateway.jvm
        self.told = Told()
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

    def answers(self, kind: str, given: dict[str, Any]) -> list[Any]:
        """What Flink answers to each step of a history."""
        self.told.taken()
        step: Callable[[list[Any]], Any] = getattr(self, kind)(given)
        return [step(entry) for entry in given["steps"]]

    def bounded(self, given: dict[str, Any]) -> Callable[[list[Any]], Any]:
        """The generator of bounded out-of-orderness."""
        duration = self.jvm.java.time.Duration.ofMillis(given["bound"])
        generator = self.make(f"{EVENT_TIME}.BoundedOutOfOrdernessWatermarks", duration)
        output = self.output()

        def step(entry: list[Any]) -> Any:
            if entry[0] == "record":
                generator.onEvent(None, self.long(entry[1]), output)
            else:
                generator.onPeriodicEmit(output)
            return self.told.taken()

        return step

    def output(self) -> Any:
        """A source's output, which says a watermark that rises, and each change of its status."""
        return self.make("org.apache.flink.streaming.api.operators.source.WatermarkToDataOutput", self.told)

    def idleness(self, given: dict[str, Any]) -> Callable[[list[Any]], Any]:
        """A generator with an idle timeout, over a clock that the history moves."""
        of = self.jvm.java.time.Duration.ofMillis
        inner = self.make(f"{EVENT_TIME}.BoundedOutOfOrdernessWatermarks", of(0))
        generator = self.make(f"{EVENT_TIME}.WatermarksWithIdleness", inner, of(given["timeout"]), self.told)
        output = self.output()

        def step(entry: list[Any]) -> Any:
            if entry[0] == "record":
                generator.onEvent(None, self.long(entry[1]), output)
            else:
                self.told.now = entry[1]
                generator.onPeriodicEmit(output)
            return self.told.taken()

        return step

    def valve(self, given: dict[str, Any]) -> Callable[[list[Any]], Any]:
        """The valve of a task with a number of channels."""
        valve = self.make(f"{RUNTIME}.watermarkstatus.StatusWatermarkValve", given["inputs"])

        def step(entry: list[Any]) -> Any:
            if entry[0] == "wm":
                valve.inputWatermark(
                    self.mark(entry[2], "org.apache.flink.streaming.api.watermark"), entry[1], self.told
                )
            else:
                valve.inputWatermarkStatus(self.status[entry[0]], entry[1], self.told)
            return self.told.taken()

        return step

    def multiplexer(self, given: dict[str, Any]) -> Callable[[list[Any]], Any]:
        """The multiplexer of a source over its splits, some with immediate output."""
        multiplexer = self.make(f"{EVENT_TIME}.WatermarkOutputMultiplexer", self.output())
        outputs: dict[int, Any] = {}

        def step(entry: list[Any]) -> Any:
            match entry:
                case ["add", split]:
                    multiplexer.registerNewOutput(str(split))
                    kind = "Immediate" if split in given["immediate"] else "Deferred"
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
            return self.told.taken()

        return step

    def alignment(self, _: dict[str, Any]) -> Callable[[list[Any]], Any]:
        """The least report of an alignment group, from a class that Java reaches by reflection only."""
        name = "org.apache.flink.runtime.source.coordinator.SourceCoordinator$WatermarkAggregator"
        kind = self.jvm.java.lang.Class.forName(name)
        constructor = kind.getDeclaredConstructors()[0]
        constructor.setAccessible(True)
        aggregator = constructor.newInstance(self.gateway.new_array(self.jvm.java.lang.Object, 0))
        methods = {method.getName(): method for method in kind.getDeclaredMethods()}
        for method in methods.values():
            method.setAccessible(True)

        def call(name: str, *arguments: Any) -> Any:
            passed = self.gateway.new_array(self.jvm.java.lang.Object, len(arguments))
            for index, argument in enumerate(arguments):
                passed[index] = argument
            return methods[name].invoke(aggregator, passed)

        def step(entry: list[Any]) -> Any:
            call("aggregate", str(entry[0]), self.mark(entry[1]))
            return [call("getAggregatedWatermark").getTimestamp()]

        return step
