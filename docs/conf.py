"""The site: Sphinx with MyST and MyST-NB. `make docs` builds it from the whole repository.

The root of the sources is that of the repository, so a link between pages, notebooks and files is the same on the site
and in a clone. Notebooks are rendered from their stored outputs; none is executed.
"""

from __future__ import annotations

import html
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import wmlab  # noqa: E402
from tools import api_pages, symptoms  # noqa: E402

project = "wmlab"
author = "The wmlab authors"
version = release = wmlab.__version__
root_doc = "docs/index"
include_patterns = [
    "docs/**",
    "notebooks/**",
    "data/**",
    "benchmarks/README.md",
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
]
exclude_patterns = [
    ".*",
    "**/.ipynb_checkpoints",
    "**/.pytest_cache",
    "**/_static",
    "wmlab.egg-info",
    "build",
    "tests",
    "tools",
    "wmlab",
]
extensions = ["myst_nb", "sphinxcontrib.mermaid"]

nb_execution_mode = "off"
myst_heading_anchors = 4
myst_fence_as_directive = ["mermaid"]
# A section may begin two levels down, and of two classes with one name a signature can link to either.
suppress_warnings = ["myst.header", "ref.python"]
python_maximum_signature_line_length = 88
add_module_names = False
toc_object_entries_show_parents = "hide"

html_theme = "pydata_sphinx_theme"
html_title = "wmlab"
html_static_path = ["_static"]
html_css_files = ["wmlab.css"]
html_extra_path = ["_extra"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "navbar_align": "left",
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
}


SECTIONS = {
    "Guides": ["../../README", "../how-to/*"],
    "Notebooks": ["../../notebooks/tutorials/*", "../../notebooks/exploration/*", "../../notebooks/atlas/*"],
    "Background": [
        *("../glossary", "../seeds", "../design", "../at_scale", "../development"),
        *("../../CONTRIBUTING", "../../CHANGELOG", "../../data/**", "../../benchmarks/README"),
    ],
}
"""The pages below each entry of the site's head; each section has a page of its own that lists them."""
HEAD = ["sections/guides", "sections/notebooks", "../notebooks/scenarios/README", "gallery", "reference/index"]
LISTS = {"docs/index": [*HEAD, "sections/background"], "notebooks/scenarios/README": ["*"]}
"""The pages below a page, by its name; a clone does not show these lists."""


def repository() -> str:
    """The address of the repository's files on the web, of the remote `origin`; "" if the clone has none there."""
    asked = ["git", "-C", str(ROOT), "remote", "get-url", "origin"]
    remote = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip().removesuffix(".git")
    remote = re.sub(r"^(?:ssh://)?git@([^:/]+)[:/]", r"https://\1/", remote)
    return f"{remote}/blob/main" if remote.startswith("https://") else ""


class FilesOfTheRepository(SphinxPostTransform):
    """A link to a file that is not a page leads to the repository on the web; else it stays a copy on the site."""

    default_priority = 5

    def run(self, **_: Any) -> None:
        """Replaces the links of one page."""
        address = self.config.wmlab_repository
        for link in list(self.document.findall(addnodes.download_reference)) if address else ():
            path, _ = self.env.relfn2path(link["reftarget"], self.env.docname)
            link.replace_self(nodes.reference("", "", *link.children, refuri=f"{address}/{path}"))


def write_pages(_: Sphinx) -> None:
    """Writes the reference and the pages of the sections; one that is the same is left alone, and not read again."""
    sections = {title.lower(): f"# {title}\n\n{toctree(entries)}\n" for title, entries in SECTIONS.items()}
    for folder, pages in (("reference", api_pages.pages()), ("sections", sections)):
        directory = ROOT / "docs" / folder
        directory.mkdir(exist_ok=True)
        files = {directory / f"{name}.md": text for name, text in pages.items()}
        for former in set(directory.iterdir()) - files.keys():
            former.unlink()
        for file, text in files.items():
            if not file.exists() or file.read_text(encoding="utf-8") != text:
                file.write_text(text, encoding="utf-8")


def toctree(entries: list[str], *options: str) -> str:
    """The list of pages below a page, as MyST has it."""
    lines = ["```{toctree}", ":glob:", ":maxdepth: 1", *options, "", *entries, "```"]
    return "\n".join(lines)


def add_list(_: Sphinx, docname: str, source: list[str]) -> None:
    """Puts the list of the pages below it at the end of a page."""
    if docname in LISTS:
        source[0] += f"\n{toctree(LISTS[docname], ':hidden:')}\n"


def prepare_notebook(_: Sphinx, docname: str, source: list[str]) -> None:
    """Leaves of each output what a page can show: its diagram as a drawing, the still picture of an interactive one."""
    if not docname.startswith("notebooks/") or not source[0].startswith("{"):
        return
    notebook = json.loads(source[0])
    for cell in notebook["cells"]:
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            diagram, figure = data.pop("text/vnd.mermaid", ""), data.pop("application/vnd.plotly.v1+json", "")
            if diagram:
                data["text/html"] = f'<pre class="mermaid">{html.escape("".join(diagram))}</pre>'
            elif figure and not data:
                data["text/html"] = "<p><em>An interactive figure, which the notebook shows when it is run.</em></p>"
    source[0] = json.dumps(notebook)


def add_symptoms(app: Sphinx, doctree: nodes.document) -> None:
    """Gives the page of a report the words by which somebody looks for it; the search finds them."""
    folder, _, name = app.env.docname.rpartition("/")
    words = symptoms.words_of(name) if folder == "notebooks/scenarios" else ()
    if words:
        doctree.insert(0, nodes.meta(name="keywords", content=", ".join(words)))


def setup(app: Sphinx) -> dict[str, Any]:
    """Registers what is above."""
    app.add_config_value("wmlab_repository", repository(), "env", str)
    app.add_post_transform(FilesOfTheRepository)
    app.connect("builder-inited", write_pages)
    app.connect("source-read", add_list)
    app.connect("source-read", prepare_notebook)
    app.connect("doctree-read", add_symptoms)
    return {"parallel_read_safe": True}
