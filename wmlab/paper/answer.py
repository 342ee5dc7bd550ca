"""What all answers on paper have: steps, one below the other, and a picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from wmlab.core.answers import AnswerEntry, TableAnswer, text_table
from wmlab.core.charts.chart import Chart


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PaperAnswer(TableAnswer[AnswerEntry]):
    """The steps to an answer as `rows`, and the `chart` of them, whose sentence is the answer."""

    rows: tuple[AnswerEntry, ...]
    chart: Chart

    entries: ClassVar[str] = "rows"

    @property
    def sentence(self) -> str:
        """The answer in one sentence."""
        return self.chart.sentence

    def to_dict(self) -> dict[str, Any]:
        """The sentence and the rows as dicts, lists and scalars."""
        return {"sentence": self.sentence, "rows": self.to_pandas().to_dict("records")}

    def __repr__(self) -> str:
        cells = [tuple(map(str, row)) for row in (self._heads(), *self._rows())]
        right = [column for column in range(len(cells[0])) if column not in self.left]
        return "\n".join([self.sentence, *text_table(cells, right=right)])

    def _repr_html_(self) -> str:
        return self.chart.html + TableAnswer._repr_html_(self)

    def _caption(self) -> str:
        """Nothing: the sentence stands in the picture."""
        return ""
