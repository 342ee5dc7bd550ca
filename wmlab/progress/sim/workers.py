"""The pool: threads that take one task at a time from one queue and finish in an order of their own.

Source: "Watermarking and Progress" (task-based execution on worker threads).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence

import numpy as np
import simpy

from wmlab.core.clock import generator
from wmlab.progress.scenario.parts import StallWorker, Workers

Task = Callable[[int], None]
"""What a task does when its worker, whose number it is told, has executed it."""


class Pool:
    """Workers 1 to `count`; each one's service times are drawn by its own number."""

    def __init__(self, env: simpy.Environment, part: Workers, stalls: Sequence[StallWorker], seed: int) -> None:
        self._env = env
        self._part = part
        self._start_ms = int(env.now)
        self._stalls = sorted(stalls, key=lambda stall: stall.at_ms)
        self._tasks = simpy.Store(env)
        for number in range(1, part.count + 1):
            env.process(self._work(number, generator(seed, f"worker {number}")))

    def submit(self, task: Task) -> None:
        """Queue a task; first come, first served."""
        self._tasks.put(task)

    def _work(self, number: int, draws: np.random.Generator) -> Generator[simpy.Event, Task, None]:
        while True:
            task = yield self._tasks.get()
            now = int(self._env.now)
            yield self._env.timeout(self._done_ms(number, now, self._service_ms(draws)) - now)
            task(number)

    def _service_ms(self, draws: np.random.Generator) -> int:
        mean = self._part.service_mean_ms
        match self._part.service:
            case "exponential":
                return int(draws.exponential() * mean)
            case "lognormal":
                # With sigma 1 the mean of exp(normal) is 1 at mu -1/2.
                return int(draws.lognormal(-0.5, 1.0) * mean)
            case "constant":
                return int(mean)

    def _done_ms(self, number: int, begun_ms: int, service_ms: int) -> int:
        """When a task is done that was begun at a time; a stall within it makes it that much longer."""
        done = begun_ms + service_ms
        for stall in self._stalls:
            begin = self._start_ms + stall.at_ms
            end = begin + stall.for_ms
            if stall.worker == number and begin <= done and begun_ms < end:
                done += end - max(begin, begun_ms)
        return done
