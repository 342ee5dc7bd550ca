"""Both rules of the model, for tests whose result is the same in each or names the difference."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["sound", "implementation"])
def rules(request: pytest.FixtureRequest) -> str:
    return request.param
