"""Cases on progress by origin, sequence and chunk: a file whose kinds are its top-level names.

Every entry under a kind is one case. As everywhere here, a kind, operation, field or text that no adapter knows fails.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tests.conformance import nebula_progress, nebula_windows
from tests.conformance.fields import Fields, UnknownFormatError, run_kind

KINDS: Final[Mapping[str, Callable[[Fields], None]]] = {
    "chunk_collector": nebula_progress.run_chunks,
    "chunk_rule_comparison": nebula_progress.run_rules,
    "seq_queue": nebula_progress.run_sequences,
    "seq_queue_generators": nebula_progress.run_generated,
    "multi_origin": nebula_progress.run_origins,
    "emit_rechunk": nebula_windows.run_rechunking,
    "slice_assigner": nebula_windows.run_slices,
    "slice_store": nebula_windows.run_store,
    "window_trigger": nebula_windows.run_trigger,
    "sequencer": nebula_windows.run_sequencer,
    "assigners": nebula_windows.run_assigner,
}
META: Final = {"convention", "ids", "generations", "recommended_rule"}


def is_nebula(content: Any) -> bool:
    """Whether a file is in this format: a description under `meta`, and kinds beside it."""
    return isinstance(content, dict) and "meta" in content and "cases" not in content


def cases_of(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """All cases of a file, each with its kind and a name; raises for an unknown description."""
    if unknown := content["meta"].keys() - META:
        raise UnknownFormatError(f"meta: unknown fields {sorted(unknown)}")
    cases = []
    for kind, entries in content.items():
        if kind != "meta":
            for number, entry in enumerate(_entries(kind, entries)):
                name = f"{kind}-{entry.get('id') or entry.get('name') or number}"
                cases.append({"kind": kind, "name": name, "entry": entry})
    return cases


def _entries(kind: str, entries: Any) -> list[dict[str, Any]]:
    if kind == "chunk_rule_comparison" and isinstance(entries, dict):
        with Fields(entries, kind) as fields:
            fields.take("origin", None)
            fields.take("meaning", None)
            rows: list[dict[str, Any]] = fields.take("rows")
            return rows
    return entries if isinstance(entries, list) else [entries]


def run_case(case: Mapping[str, Any]) -> None:
    """Run one case; raises AssertionError when an expectation fails or anything in the case is unknown."""
    run_kind(KINDS, case)
