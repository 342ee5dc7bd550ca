"""A film as JSON for the browser: columns of small integers, every text once."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from wmlab.core.charts.style import ROLES
from wmlab.streams.scrubber.film import STYLES, Film, Item, Panel


def film_json(film: Film) -> str:
    """The film as JSON text; the same film gives the same text.

    Moments count from `low`; in columns, numbers are differences to the row before. An item that stays to the end lives
    -1 ms, one across all lanes has the lane -1. `texts` holds each text once; items, happenings and sentences name it
    by its place.
    """
    texts: dict[str, int] = {}
    styles = list(STYLES)
    content = {
        "title": film.title,
        "low": film.low_ms,
        "high": film.high_ms,
        "instants": film.instants,
        "width": film.width,
        "height": film.height,
        "roles": {name: [role.width, role.dash] for name, role in ROLES.items()},
        "styles": [[style.shape, style.role, style.opacity] for style in STYLES.values()],
        "panels": [_panel(panel, film.low_ms, styles, texts) for panel in film.panels],
        "kinds": list(film.kinds),
        "changes": _steps(film.low_ms, film.changes),
        "happened": {
            "at": _steps(film.low_ms, [h.at_ms for h in film.happened]),
            "kind": [_place(h.kind, texts) for h in film.happened],
            "text": [_place(h.text, texts) for h in film.happened],
        },
        "sentences": {
            "from": _steps(film.low_ms, [from_ms for from_ms, _ in film.sentences]),
            "text": [_place(text, texts) for _, text in film.sentences],
        },
        "texts": list(texts),
    }
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def _panel(panel: Panel, low_ms: int, styles: list[str], texts: dict[str, int]) -> dict[str, Any]:
    return {
        "title": panel.title,
        "left": panel.left,
        "top": panel.top,
        "width": panel.width,
        "head": panel.head_px,
        "lanes": panel.lanes,
        "lane": panel.lane_px,
        "low": panel.low,
        "high": panel.high,
        "relative": panel.relative,
        "cursor": panel.cursor,
        "still": panel.still,
        "items": _items(panel.items, low_ms, styles, texts),
    }


def _items(items: tuple[Item, ...], low_ms: int, styles: list[str], texts: dict[str, int]) -> dict[str, list[int]]:
    return {
        "lane": [-1 if item.lane is None else item.lane for item in items],
        "from": _steps(low_ms, [item.from_ms for item in items]),
        "life": [-1 if item.to_ms is None else item.to_ms - item.from_ms for item in items],
        "low": _steps(0, [item.low for item in items]),
        "length": [item.high - item.low for item in items],
        "style": [styles.index(item.style) for item in items],
        "text": [_place(item.label, texts) for item in items],
    }


def _steps(start: int, values: Iterable[int]) -> list[int]:
    return [later - earlier for earlier, later in pairwise([start, *values])]


def _place(text: str, texts: dict[str, int]) -> int:
    return texts.setdefault(text, len(texts))
