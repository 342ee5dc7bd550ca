"""The calls of asynchronous vertices: how long each takes, what it returns, and which of them fail.

Source: "Keyed watermark support", Changes to async-transform processor; upstream class `AsyncTransformUsingServiceP`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wmlab.core.delays import delays_ms
from wmlab.dataflow.model.processor import Call
from wmlab.dataflow.scenario.faults import FailCall, SlowCalls
from wmlab.dataflow.sim.layout import Node
from wmlab.dataflow.sim.processors import rows_of

if TYPE_CHECKING:
    from wmlab.dataflow.sim.instance import Instance
    from wmlab.dataflow.sim.world import DataflowWorld


class Calls:
    """All calls of one asynchronous vertex."""

    def __init__(self, world: DataflowWorld, node: Node) -> None:
        self._world = world
        dataflow = world.dataflow
        given = world.plan.outputs[world.plan.inputs[node.name][0].source]
        self._results = rows_of(node.vertex, given, node.output)
        self._delays = delays_ms(node.vertex.latency, world.draws(f"calls of {node.name}"))
        mine = [fault for fault in dataflow.faults if getattr(fault, "vertex", None) == node.name]
        self._slow = [fault for fault in mine if isinstance(fault, SlowCalls)]
        self._slowed = dict.fromkeys(range(len(self._slow)), 0)
        self._failing = [fault for fault in mine if isinstance(fault, FailCall)]

    def make(self, instance: Instance, call: Call, row: str) -> None:
        """Begin a call; its answer comes later."""
        world = self._world
        written = instance.write(
            "calls", call=call.number, began_ms=world.now_ms, ended_ms=None, outcome="in flight", row=row
        )
        fails = self._fails(instance, call)
        delay_ms = next(self._delays) + self._extra_ms()
        results = None if fails else self._results(call.event.values)

        def end() -> None:
            outcome = "failed" if fails else "answered"
            written.update(ended_ms=world.now_ms, outcome=outcome)
            instance.answer(call.number, results)

        world.later(delay_ms, end)

    def _fails(self, instance: Instance, call: Call) -> bool:
        after_ms = self._world.now_ms - self._world.dataflow.start_ms
        due = [fault for fault in self._failing if fault.at_ms <= after_ms]
        for fault in due:
            self._failing.remove(fault)
            self._world.note("call fails", instance.name, f"call {call.number}")
        return bool(due)

    def _extra_ms(self) -> int:
        extra = 0
        after_ms = self._world.now_ms - self._world.dataflow.start_ms
        for number, fault in enumerate(self._slow):
            inside = fault.at_ms <= after_ms and (fault.for_ms is None or after_ms < fault.at_ms + fault.for_ms)
            if inside and (fault.first is None or self._slowed[number] < fault.first):
                self._slowed[number] += 1
                extra += fault.by_ms
        return extra
