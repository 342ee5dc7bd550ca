"""The plain types that scenario fields are made of."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

Ms = Annotated[int, Field(ge=0, strict=True)]
"""Milliseconds after the start of the scenario, or a duration that may be nothing."""
Period = Annotated[int, Field(gt=0, strict=True)]
"""A duration in milliseconds."""
Time = Annotated[int, Field(ge=-(2**63), lt=2**63, strict=True)]
"""An application time: a 64-bit integer, milliseconds in all scenarios of wmlab."""
Offset = Annotated[int, Field(ge=0, strict=True)]
"""A place in a segment, in bytes."""
Share = Annotated[float, Field(ge=0, lt=1, strict=True)]
"""A part of the whole, below 1."""
Name = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9._-]+$")]
"""What a party or a stream is called."""
