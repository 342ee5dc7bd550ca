"""Builds `presses.csv`, a small synthetic export with the dirt that exports have: `python data/exports/build.py`.

With `--check` it exits with 1 if the file is not what it would write. Seven presses send a record every 7 seconds or so
for an hour and a half, which takes 2 seconds in the mean. The radio of press-06 is bad: two of five of its records are
sent again, and take a minute. Then:

- press-07 has no clock at first: three of its records are of 1970.
- The clock of press-04 is 12 minutes ahead.
- press-05 says nothing for 25 minutes.
- press-02 repeats forty records.
- One time does not exist, one row has no time, and the last line is cut off.
"""

from __future__ import annotations

import random
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

FILE = Path(__file__).parent / "presses.csv"
START = datetime(2024, 3, 12, 6, tzinfo=UTC)
LASTS_S = 5_400
Row = tuple[datetime, datetime, str]
"""When a record was taken, when it was received, and by which device."""


def text() -> str:
    """The whole file."""
    draw = random.Random(12)
    rows = [row for number in range(1, 8) for row in _of_press(number, draw)]
    again = draw.sample([row for row in rows if row[2] == "press-02"], 40)
    rows += [(taken, received + timedelta(seconds=draw.uniform(1, 5)), device) for taken, received, device in again]
    rows.sort(key=lambda row: row[1])
    # What is sent again has the same temperature.
    taken_by = dict.fromkeys((taken, device) for taken, _, device in rows)
    degrees = {record: f"{draw.gauss(80, 2):.2f}" for record in taken_by}
    lines = [f"{device},{_text(taken)},{_text(received)},{degrees[taken, device]}" for taken, received, device in rows]
    lines[2_000] = lines[2_000].replace("2024-03-12T", "2024-13-45T", 1)
    device, _, *rest = lines[3_500].split(",")
    lines[3_500] = ",".join([device, "", *rest])
    return "\n".join(["device,taken_at,received_at,temperature", *lines, "press-03,2024-03-12T07:3"])


def _of_press(number: int, draw: random.Random) -> list[Row]:
    rows: list[Row] = []
    at_s = draw.uniform(0, 7)
    while at_s < LASTS_S:
        taken = START + timedelta(seconds=at_s)
        way_s = draw.uniform(40, 80) if number == 6 and draw.random() < 0.4 else draw.expovariate(1 / 2)
        received = taken + timedelta(seconds=way_s)
        if number == 7 and len(rows) < 3:
            taken = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=len(rows))
        if number == 4:
            taken += timedelta(minutes=12)
        if not (number == 5 and 2_400 <= at_s < 3_900):
            rows.append((taken, received, f"press-{number:02}"))
        at_s += draw.uniform(5, 9)
    return rows


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        sys.exit(FILE.read_text() != text())
    FILE.write_text(text())
