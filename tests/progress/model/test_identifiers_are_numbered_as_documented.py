"""Origins, chunk bases, and the watermark timestamp of a buffer."""

from __future__ import annotations

import pytest

from wmlab.core.errors import ModelError
from wmlab.progress.model.numbers import TupleBuffer, assign_origins, by_event_time, by_ingestion_time


def test_origins_are_numbered_from_1_within_each_plan() -> None:
    assert assign_origins(["source 1", "source 2", "join"]) == {"source 1": 1, "source 2": 2, "join": 3}
    assert assign_origins(["source 3"]) == {"source 3": 1}


@pytest.mark.parametrize("numbers", [(0, 1, 0), (1, 0, 0), (1, 1, -1)])
def test_a_number_that_is_never_given_is_refused(numbers) -> None:
    with pytest.raises(ModelError, match="No buffer has"):
        TupleBuffer(*numbers, True, 0)


def test_a_buffer_is_stamped_with_its_largest_time_or_its_creation() -> None:
    assert by_event_time([3, 9, 7]) == 9
    assert by_event_time([3, 9, 7], unit=1_000) == 9_000
    assert by_event_time([3], allowed_lateness=5) == 0
    assert by_event_time([]) == 0
    assert by_ingestion_time(50) == 50
    assert by_ingestion_time(50, carried=70) == 70
