"""The rules of the documents on paper: their own notation as text, answered step by step, with the picture.

    wm.paper.cut("0 [0-0.5], 1 [0.5-1] -> 2 [0-0.6], 3 [0.6-1.0]", w="(1/972, 2/108)")
    wm.paper.coalesce("in: wm(0, 10)  in: wm(1, 12)  in: idle(1)  in: wm(0, 14)")
    wm.paper.sequences("1, 2, 3, 5, 6")

No run is made: each answer comes from the pure rules of its model. A mistake in a text is reported at its character.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wmlab.core import lazy

if TYPE_CHECKING:
    from wmlab.paper.coalescing import coalesce as coalesce
    from wmlab.paper.sequence_numbers import sequence_table as sequence_table, sequences as sequences
    from wmlab.paper.stream_cut import cut as cut

lazy(__name__)
