"""The kinds of numbers and names that scenarios are made of."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

Ms = Annotated[int, Field(ge=0, strict=True)]
"""Milliseconds after the start of the scenario, or a duration that may be nothing."""

Period = Annotated[int, Field(gt=0, strict=True)]
"""A duration in milliseconds."""

Time = Annotated[int, Field(ge=-(2**63), lt=2**63, strict=True)]
"""An application time: a 64-bit integer, milliseconds in all scenarios of wmlab."""

WriterId = Annotated[str, Field(max_length=256, pattern=r"^(\{name\}|[A-Za-z0-9._-])+$")]
"""The id under which a writer's marks are kept; "{name}" stands for the writer's name."""

Offset = Annotated[int, Field(ge=0, strict=True)]
"""A place in a segment, in bytes."""
