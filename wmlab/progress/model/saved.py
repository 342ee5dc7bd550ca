"""The state of a tracker as plain data and back: a run that is cut in two ends where one run does.

The data are dicts, lists, numbers, texts and None, as JSON has them. What waits beyond a gap is kept, or the prefix
could never close over it.

Source: "Watermarking and Progress", SequenceNumber (what an operator keeps track of).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wmlab.core.errors import ModelError
from wmlab.progress.model.chunks import Chunks, NumberSet
from wmlab.progress.model.number_map import NumberMap
from wmlab.progress.model.tracker import Done, OriginProgress, Progress, ProgressRules


def to_plain(state: Progress) -> dict[str, Any]:
    """The state as plain data. Source: as the module."""
    rules = state.rules
    return {
        "rules": {"chunk_base": rules.chunk_base, "complete": rules.complete, "local": rules.local},
        "watermark": state.watermark,
        "moved_ms": state.moved_ms,
        "origins": [
            {
                "origin": origin,
                "prefix": local.prefix,
                "local": local.local,
                "moved_ms": local.moved_ms,
                "beyond": [_sequence(sequence, what) for sequence, what in local.beyond],
            }
            for origin, local in zip(state.origins, state.locals, strict=True)
        ],
    }


def of_plain(data: Mapping[str, Any]) -> Progress:
    """The state that `to_plain` wrote. Raises `ModelError` for anything else. Source: as the module."""
    try:
        rules = ProgressRules(**data["rules"])
        made = Progress.start([entry["origin"] for entry in data["origins"]], rules)
        states = tuple(_origin(entry, rules) for entry in data["origins"])
        return Progress(rules, made.origins, states, data["watermark"], data["moved_ms"])
    except (KeyError, TypeError, AttributeError) as wrong:
        raise ModelError(
            f"This is no saved progress: {type(wrong).__name__} {wrong}.", remedy="Give what to_plain returned."
        ) from None


def _sequence(sequence: int, what: Chunks | Done) -> dict[str, Any]:
    if isinstance(what, Done):
        return {"sequence": sequence, "done": True, "watermark": what.watermark, "buffers": what.buffers}
    return {
        "sequence": sequence,
        "done": False,
        "watermark": what.watermark,
        "buffers": what.buffers,
        "last": what.last,
        "balance": what.balance,
        "run": what.seen.run,
        "chunks": [chunk for chunk, _ in what.seen.beyond],
    }


def _origin(entry: Mapping[str, Any], rules: ProgressRules) -> OriginProgress:
    beyond = NumberMap.of((item["sequence"], _content(item, rules)) for item in entry["beyond"])
    waiting = sum(item["buffers"] for item in entry["beyond"])
    return OriginProgress(entry["prefix"], entry["local"], beyond, waiting, entry["moved_ms"])


def _content(item: Mapping[str, Any], rules: ProgressRules) -> Chunks | Done:
    if item["done"]:
        return Done(item["watermark"], item["buffers"])
    chunks = NumberMap.of((chunk, None) for chunk in item["chunks"])
    seen = NumberSet(rules.chunk_base, item["run"], chunks)
    return Chunks(seen, item["buffers"], item["last"], item["balance"], item["watermark"])
