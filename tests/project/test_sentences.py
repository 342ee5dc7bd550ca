"""No code reads a sentence: what a row says in words is for people, and has a code and the names next to it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.project import source

_SENTENCES = re.compile(r"\b(details?|reasons?|sentences?|what)\b|(\[|\.|\()[\"']?(text|why)\b(?!\()")
"""Names and columns that hold sentences; `text` and `why` as a column or a field, for they are names of much else."""
_ON_A_TEXT = {
    *("startswith", "endswith", "removeprefix", "removesuffix", "find", "index", "partition", "rpartition", "split"),
    *("rsplit", "contains", "like", "ilike", "rlike", "regexp_extract", "regexp_like"),
}
"""Methods that look into the text that they belong to; those of Spark too."""
_WITH_A_PATTERN = {
    *("match", "fullmatch", "search", "findall", "finditer", "sub", "match_substring", "match_substring_regex"),
    *("match_like", "starts_with", "ends_with", "find_substring", "find_substring_regex", "split_pattern"),
}
"""Functions that look into a text that they are given; those of Arrow too."""

_ALLOWED = {
    # What an estimate counts, in one word.
    "wmlab/core/estimate.py": ["cost.what == 'events'"],
    "wmlab/streams/scenario/scenario.py": ["cost.what == 'events'"],
    # In the column next to it stands the target with which a detail begins: it is taken off by its name, whatever that
    # is, and no answer depends on it.
    "wmlab/streams/answers/timeline.py": ["row['detail'].removeprefix(f\"{row['target']} \")"],
}
"""Codes that have the name of a sentence, and the one place that cuts a sentence."""


def readings(tree: ast.AST) -> Iterator[str]:
    """Where a sentence is looked into, or compared with one that is written in the code."""
    for node in ast.walk(tree):
        if _looks_into(node) or _compares(node):
            yield ast.unparse(node)


def _looks_into(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    texts = [node.func.value] if node.func.attr in _ON_A_TEXT else []
    texts += node.args if node.func.attr in _WITH_A_PATTERN else []
    return any(_SENTENCES.search(ast.unparse(text)) for text in texts if not isinstance(text, ast.Constant))


def _compares(node: ast.AST) -> bool:
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
    elif isinstance(node, ast.Match):
        sides = [node.subject, *(case.pattern.value for case in node.cases if isinstance(case.pattern, ast.MatchValue))]
    else:
        return False
    written = [side for side in sides if isinstance(side, ast.Constant) and isinstance(side.value, str) and side.value]
    return bool(written) and any(_SENTENCES.search(ast.unparse(side)) for side in sides if side not in written)


def test_no_code_reads_a_sentence() -> None:
    found = {
        str(path.relative_to(source.ROOT)): list(readings(ast.parse(path.read_text(encoding="utf-8"))))
        for path in source.modules()
    }
    assert {path: read for path, read in found.items() if read} == _ALLOWED


@pytest.mark.parametrize(
    "code",
    [
        "row['detail'].endswith(' is not running')",
        "detail.startswith('nobody is ')",
        "F.col('reason').rlike('^cut failed')",
        "what.removesuffix(verb)",
        "cycle['reason'] == 'no active writer'",
        "'crashes' in row['detail']",
        "re.match('waits for (.*)', row['reason'])",
        "_CRASHED.search(incident.text)",
        "holder.why.split(' ')",
        "pc.match_substring(table['why'], 'idle')",
        "row['why'] == 'lagging'",
    ],
)
def test_code_that_reads_a_sentence_is_found(code: str) -> None:
    assert list(readings(ast.parse(code))) == [code]


@pytest.mark.parametrize("code", ["row['reason'] or 'emitted'", "text.startswith('#')", "row['kind'] == 'crash'"])
def test_what_reads_no_sentence_is_let_be(code: str) -> None:
    assert not list(readings(ast.parse(code)))
