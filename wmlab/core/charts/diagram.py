"""A diagram: Mermaid text with the sentence that says what it shows."""

from __future__ import annotations

import pathlib
from dataclasses import dataclass

from wmlab.core.charts.chart import save_as
from wmlab.core.mermaid import MIME


@dataclass(frozen=True, slots=True)
class Diagram:
    """A drawing as Mermaid text, with the sentence that says what it shows."""

    sentence: str
    mermaid: str

    def __repr__(self) -> str:
        return f"{self.sentence}\n{self.mermaid}"

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        """The text for JupyterLab to draw, and the text as it is."""
        return {MIME: self.mermaid, "text/plain": repr(self)}

    def save(self, path: str | pathlib.Path) -> pathlib.Path:
        """Write the Mermaid text to `path`, a `.mmd` file, and return it; raises `ChartError` for another suffix."""
        return save_as(path, "diagram", self, {".mmd": lambda diagram: diagram.mermaid.encode()})
