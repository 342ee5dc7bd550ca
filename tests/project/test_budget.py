"""The package stays small: its size has limits, which may be lowered and never raised."""

from __future__ import annotations

from typing import Final

import pytest

from tests.project import source

CODE_LINES: Final = {
    "top": 276,
    "core": 3_812,
    "streams": 12_023,
    "dataflow": 6_500,
    "progress": 2_422,
    "strategies": 2_443,
}
"""Lines of code by folder of the package, `top` for the files beside them; blanks, comments and docstrings are free."""

LINES: Final = 41_321
"""Lines of all files of the package, whatever is in them."""

FILES: Final = 190


@pytest.mark.parametrize("folder", CODE_LINES)
def test_the_code_of_a_folder_stays_within_its_limit(folder: str) -> None:
    assert source.code_lines_by_folder()[folder] <= CODE_LINES[folder]


def test_every_folder_has_a_limit() -> None:
    assert source.code_lines_by_folder().keys() == CODE_LINES.keys()


def test_the_package_stays_within_its_lines_and_files() -> None:
    files = source.package_files()
    assert sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files) <= LINES
    assert len(files) <= FILES


def test_blanks_comments_and_docstrings_are_not_code() -> None:
    code = 'X = """two\nlines"""  # text\n"""What X is."""\n\ndef f():\n    """Does."""\n'
    assert source.code_lines(f'"""Title.\n\nMore.\n"""\n\n# why\n{code}') == 3
