"""How the index of one segment is laid out in an array of 64-bit numbers, which a query of Spark searches.

The index answers: which interval of offsets does this offset lie in, and which watermarks bound it there. Of a segment
whose watermarks 0 and 1 have the bounds 100..150 and 200..250 and cut it at 10 and 20 bytes, it is

    index   0       1      2              5              8           10          12          14 ...
          +-------+------+--------------+--------------+-----------+-----------+-----------+-----------------------+
          | last  | GRID | 100  150  0  | 200  250  1  |  0  BOUND | 10  BOUND | 20  BOUND | CELL CELL CELL ...    |
          | start |      | watermark 0  | watermark 1  |      |           |           |     |                       |
          +-------+---|--+--------------+--------------+------|-----------|-----------|-----+-----------------------+
                      |    ^              ^                   |           |           |       ^ |
                      |    +--------------|--- lower of 10, --+-----------+ lower     |       | +-> a record
                      |    upper of 0     +--- upper of 10 ---------------+  of 20 ---+       |
                      +-----------------------------------------------------------------------+

- A *watermark* is three numbers: its lower bound, its upper bound, its seq. Only those stand there that bound an
  interval.
- A *record* is two numbers: where an interval starts, and `BOUND`, which says where its two watermarks stand.
- A *grid* divides the offsets up to the last start into cells of 2**shift each, and has one number for a cell. That
  number is a `CELL`: how many records start inside the cell, and where the last record before them stands. If more
  than `MOST_RECORDS` start there, it is the `GRID` of finer cells over this cell alone; and where that does not part
  them either, a `CELL` of the kind `LIST`, which says where a *list* stands: how many records start inside the cell,
  where the last record before them stands, and their starts, ascending.

So a search takes a number of steps that does not depend on how many records there are. Each packed number is declared
here once: Python encodes and decodes by the declaration, and the SQL that takes a field out is made from it.
"""

from __future__ import annotations

from functools import reduce
from itertools import accumulate
from operator import or_
from typing import Any, Final


class PackedNumber:
    """A number that holds several: the names and widths (bits) of its fields, from the highest bits to the lowest.

    All fields together have at most 63 bits, so the number is never negative. Fields are whole numbers from 0 up to
    2**width - 1, or arrays of them.
    """

    def __init__(self, **widths: int) -> None:
        ends = list(accumulate(reversed(widths.values()), initial=0))
        self.widths, self.bits = widths, ends[-1]
        self.shifts = dict(zip(reversed(widths), ends, strict=False))

    def encode(self, **fields: Any) -> Any:
        """The number with these fields; all have to be given."""
        return reduce(or_, [fields[name] << shift for name, shift in self.shifts.items()])

    def decode(self, number: Any) -> dict[str, Any]:
        """The fields of a number, from the highest bits to the lowest."""
        return {name: number >> self.shifts[name] & (1 << width) - 1 for name, width in self.widths.items()}

    def sql(self, field: str, number: str) -> str:
        """SQL of a field, a 64-bit number, of the number of this SQL. The highest field needs no mask."""
        shift, width = self.shifts[field], self.widths[field]
        shifted = f"SHIFTRIGHT({number}, {shift})" if shift else number
        return shifted if shift + width == self.bits else f"{shifted} & {(1 << width) - 1}"


BOUND: Final = PackedNumber(lower=31, upper=32)
"""Where the lower and the upper watermark of an interval stand, each a `LOCATION`."""

LOCATION: Final = PackedNumber(lacks_bound=1, index=29)
"""Where a watermark stands. With `lacks_bound` it has a seq, but not this bound: the location as a number then lies
behind all numbers, where SQL finds null."""
NO_WATERMARK: Final = LOCATION.encode(lacks_bound=0, index=2**28)
"""The location of no watermark: behind all numbers, of which a row of Spark has fewer."""

CELL: Final = PackedNumber(at=60, kind=3)
"""A cell: where the last record before those inside it stands, and how many are inside; or where a list stands."""
GRID: Final = PackedNumber(at=54, shift=6, kind=3)
"""A grid: where its cells stand, and that each has 2**shift values."""

GRID_KIND: Final = 6
"""The `kind` of a number that is a `GRID`."""
LIST_KIND: Final = 7
"""The `kind` of a `CELL` with a list."""
MOST_RECORDS: Final = GRID_KIND - 1
"""The largest other `kind` of a `CELL`: how many records start inside it."""
