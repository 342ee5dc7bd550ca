"""Flink's valve over its channels, as a program that `wmlab conformance` can judge.

    wmlab conformance --rule flink-valve -- python examples/my_valve.py

It reads a line of JSON and writes one. It needs nothing but Python, and nothing of wmlab.
"""

import json
import sys


class Channel:
    """What the valve knows of one channel; it is aligned once it has caught up with the output."""

    def __init__(self):
        self.time = None
        self.idle = False
        self.aligned = True


class Valve:
    """The least watermark of the aligned channels; the largest of all when all are idle. It never falls."""

    def __init__(self, channels):
        self.channels = [Channel() for _ in range(channels)]
        self.output = None
        self.idle = False

    def step(self, item):
        """What goes downstream after a step."""
        if item["op"] == "restart":
            self.__init__(len(self.channels))
            return []
        channel = self.channels[item["channel"]]
        if item["op"] == "watermark":
            return self.watermark(channel, item["time"])
        if (item["op"] == "idle") == channel.idle:
            return []
        return self.falls_idle(channel) if item["op"] == "idle" else self.resumes(channel)

    def watermark(self, channel, time):
        """Those of idle channels, and those that do not rise, are ignored."""
        if channel.idle or not above(time, channel.time):
            return []
        channel.time = time
        channel.aligned = channel.aligned or not above(self.output, time)
        return self.least()

    def falls_idle(self, channel):
        """An idle channel is not waited for; when all are idle, the output rises to the largest watermark."""
        channel.idle, channel.aligned = True, False
        if not all(other.idle for other in self.channels):
            return self.least()
        largest = None
        for other in self.channels:
            largest = other.time if above(other.time, largest) else largest
        emitted = self.rise(largest)
        self.idle = True
        return [*emitted, "IDLE"]

    def resumes(self, channel):
        """A channel that resumes counts as soon as it is not below the output."""
        emitted = ["ACTIVE"] if self.idle else []
        channel.idle, self.idle = False, False
        channel.aligned = not above(self.output, channel.time)
        return emitted + self.least()

    def least(self):
        """The least watermark of the aligned channels, if it rises."""
        times = [channel.time for channel in self.channels if channel.aligned]
        if not times or None in times:
            return []
        return self.rise(min(times))

    def rise(self, time):
        """The output is `time` if that is above it."""
        if not above(time, self.output):
            return []
        self.output = time
        return [time]


def above(time, other):
    """Whether a watermark is above another one; None is below all."""
    return time is not None and (other is None or time > other)


def main():
    """One answer for each line of the standard input."""
    valve = None
    for line in sys.stdin:
        message = json.loads(line)
        if "start" in message:
            valve = Valve(**message["parameters"])
            answer = "ready"
        else:
            answer = valve.step(message)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
