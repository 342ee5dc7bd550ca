"""The pictures of the benchmark are drawn from the figures that its README states."""

from __future__ import annotations

import pytest

from benchmarks.pictures import DRAWN, PICTURES, measurements, picture


@pytest.mark.parametrize("name", DRAWN)
def test_a_picture_is_as_it_would_be_drawn_now(name: str) -> None:
    assert (PICTURES / name).read_text(encoding="utf-8") == picture(*DRAWN[name]) + "\n"


@pytest.mark.parametrize(("section", "across"), DRAWN.values())
def test_the_table_has_every_contender_at_every_size(section: str, across: str) -> None:
    rows = measurements(section)
    sizes = {getattr(row, across) for row in rows}
    contenders = {row.contender for row in rows}
    assert contenders == {"Spark, reading only", "wmlab", "Polars", "DuckDB"}
    assert len(sizes) == 4
    assert len(rows) == len(sizes) * len(contenders)
