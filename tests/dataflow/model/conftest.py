"""Both modes of the model, for tests whose result is the same in each or names the difference."""

from __future__ import annotations

import pytest

from wmlab.dataflow.model.processor import Mode


@pytest.fixture(params=["sound", "hz"])
def mode(request: pytest.FixtureRequest) -> Mode:
    return request.param
