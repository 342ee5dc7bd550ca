"""Every quotation of notebooks, pages and rules stands in the document, word by word, and in the section that is named.

The passages of the documents are in `quotations.json`. Words in quotation marks that are no quotation of a document are
listed below, with what they are.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import pytest

import wmlab as wm
from tests.docs import quotations
from tests.docs.names import ROOT, rows

RULES = {"rules of streams": wm.Rules, "rules of dataflows": wm.dataflow.Rules, "rules of plans": wm.progress.Rules}
NO_PAGES = {"CHANGELOG.md", "development.md", "seeds.md"}
"""What has no quotations of the documents, or has them in one column only."""
OTHER = {
    "strategies.ipynb": {"Adaptive Conformal Inference Under Distribution Shift"},  # titles of papers
    "figures_of_papers.ipynb": {"Watermarks in Stream Processing Systems", "Keyed watermarks", "Adaptive watermarks"},
    "bring_your_own_log.ipynb": {"presses"},  # names and labels in tables, charts and menus
    "bring_your_own_log.md": {"presses", "one tail"},
    "compare_policies_and_timeouts.ipynb": {"mean upper − lower (ms)"},
    "explain_a_running_job.md": {"candidates"},
    "late_and_lost.md": {"in wmlab"},
    "design.md": {
        "cut failed: did not terminate",
        "its writer had been dropped",
        "Share chart",
        "cut the cell",
        "timeout 15 s",
        "timeout 4 s",
        "without crash writer w2 at 30 s",
        "run 1",
        "without a limit",
        "silent writer",
        "two parts in three of this lag are for one device",
        "none yet",
        "not both",
    },
    "03_controllers_and_generations.ipynb": {"nobody leads", "nowhere"},
    "hazelcast_22440.ipynb": {"Fix KeyedWatermarkCoalescer"},  # reports
    "iceberg_15867_native_and_exclusive.ipynb": {"nothing before 10"},  # meanings
    "lobu_3327_windows_by_the_wall_clock.ipynb": {"The clock has passed the end of the window"},
    "pravega_4225_a_revision_is_an_end.ipynb": {"read from this revision"},
    "pravega_4291_commit_without_a_time.ipynb": {"No time given"},
    "pravega_4299_windows_overlap.ipynb": {"between 3 and 7 seconds", "between 4 and 8"},
    "pravega_4478_delete_and_create_again.ipynb": {"no such segment"},
    "pravega_6510_segments_without_data.ipynb": {"nothing acknowledged yet", "finished"},
    "pravega_cuts_that_are_not_sound.ipynb": {"time 10 was reached here"},
    "06_failures.ipynb": {"nothing acknowledged yet", "finished"},
    "07_keyed_watermarks.ipynb": {"from here on, nothing older than this", "below the watermark", "Not now"},
    "08_progress.ipynb": {"reached"},
    "09_which_watermark.ipynb": {"too far ahead"},
    "requirements": {"scope/stream", "not now"},
}
NAMED = re.compile(r'[”"]\)?[.,:]? \((?:in )?[“"]?([^()“”"]+)[”"]?\)')
"""A section in brackets after a quotation."""


def of_notebook(path: Path) -> str:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


@cache
def texts() -> dict[str, str]:
    """All text that may quote a document, by the path of its file."""
    folders = (".", "docs", "docs/how-to", "data", "data/scenarios", "notebooks/scenarios")
    pages = [page for folder in folders for page in ROOT.glob(f"{folder}/*.md") if page.name not in NO_PAGES]
    requirements = [row.cells[0] for row in rows((ROOT / "docs" / "seeds.md").read_text(encoding="utf-8"))]
    return {
        **{str(path.relative_to(ROOT)): of_notebook(path) for path in sorted(ROOT.glob("notebooks/*/*.ipynb"))},
        **{str(page.relative_to(ROOT)): page.read_text(encoding="utf-8") for page in pages},
        "requirements": "\n\n".join(requirements),
        **{
            name: "\n\n".join(f"“{said.sentence}” ({said.source})" for said in made.decided.values())
            for name, made in RULES.items()
        },
    }


def pieces_of(name: str) -> set[str]:
    """All pieces of what stands in quotation marks in a text."""
    found = quotations.quotations_in(texts()[name])
    return {piece for quotation in found for piece in quotations.pieces(quotation)}


def quoted_in(name: str) -> set[str]:
    """The pieces of quotations in a text, without titles of sections and what is no quotation."""
    return pieces_of(name) - quotations.sections() - OTHER.get(Path(name).name, set())


def test_every_quotation_stands_in_a_document() -> None:
    wrong = {name: [piece for piece in quoted_in(name) if not quotations.sources_of(piece)] for name in texts()}
    assert {name: pieces for name, pieces in wrong.items() if pieces} == {}
    assert sum(len(quoted_in(name)) for name in texts()) > 150


def test_a_quotation_with_another_word_or_without_one_is_noticed() -> None:
    assert quotations.sources_of("If there are no known writers") != []
    assert quotations.sources_of("If no writers are known") == []
    long = [piece for name in texts() for piece in quoted_in(name) if len(piece.split()) > 4]
    for piece in long:
        first, second, *rest = piece.split()
        assert quotations.sources_of(" ".join([first, *rest])) == [], piece
        assert quotations.sources_of(" ".join([second, first, *rest])) == [], piece
    assert len(long) > 100


def test_a_quotation_is_from_the_section_that_is_named_with_it() -> None:
    named, wrong = 0, []
    for name, text in texts().items():
        for quotation in quotations.quotations_in(text):
            section = section_after(quotation, text)
            if section in quotations.sections():
                named += 1
                wrong += [
                    (name, piece, section)
                    for piece in quotations.pieces(quotation)
                    if section not in {passage.section for passage in quotations.sources_of(piece)}
                ]
    assert wrong == []
    assert named > 25


def section_after(quotation: str, text: str) -> str | None:
    """What stands in brackets directly after a quotation; None: nothing."""
    flat = " ".join(text.split())
    found = NAMED.match(flat, flat.index(quotation) + len(quotation))
    return re.split("[;,]", quotations.plain(found[1]))[0] if found else None


def test_what_is_no_quotation_is_in_no_document_and_every_passage_is_quoted() -> None:
    """So nothing is excused that could be compared, and nothing of the documents is kept without a use."""
    short = {piece for others in OTHER.values() for piece in others if quotations.sources_of(piece)}
    assert short <= {"reached"}, "a word that the documents have, too"
    quoted = {passage for name in texts() for piece in quoted_in(name) for passage in quotations.sources_of(piece)}
    assert [passage for passage in quotations.passages() if passage not in quoted] == []


@pytest.mark.parametrize(
    ("markdown", "pieces"),
    [
        ('He said "one [...] two ... three".', ["one", "two", "three"]),
        ('`a = "code"` and "a `word` of *code*"', ["a word of code"]),
        ('```\n"a block"\n```\n', []),
        ("“It invokes {@link System#currentTimeMillis()}.”", ["It invokes currentTimeMillis"]),
    ],
)
def test_quotations_are_found_and_divided(markdown: str, pieces: list[str]) -> None:
    assert [piece for quoted in quotations.quotations_in(markdown) for piece in quotations.pieces(quoted)] == pieces
