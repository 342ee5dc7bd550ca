"""Look at a notebook as a reader does: open it in JupyterLab, run it, and take pictures of its charts.

    python tools/shoot.py notebooks/tutorials/00_first_bounds.ipynb out.png --dark --width 1000 --zoom 150 --sidebar

Writes the window to out.png and each output that holds a picture to out-1.png, out-2.png and so on. The notebook on
disk is not changed. Prints the errors of its cells and exits with 1 if there are any. Needs Playwright for Python and a
Chromium: the one that the environment variable WMLAB_CHROMIUM names, one on the PATH, or Playwright's own.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, Playwright, sync_playwright

_START_S = 90
_HEIGHT_PX = 900
_AROUND_PX = 300
"""What JupyterLab needs of a window besides an output, at most."""
_FLAGS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_PICTURES = (
    ".js-plotly-plot, .jp-RenderedSVG, .jp-RenderedMermaid, .jp-RenderedImage, .jp-RenderedHTMLCommon svg, "
    ".wmlab-live, canvas"
)
_SETTLED_MS = 400
"""How long a picture takes to draw itself again after a change of the window, at most."""
_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def find_chromium() -> str | None:
    """The browser to start, or None for Playwright's own."""
    named = os.environ.get("WMLAB_CHROMIUM")
    return named or next((path for name in _NAMES if (path := shutil.which(name))), None)


def launch(playwright: Playwright) -> Browser:
    """A headless Chromium; as root it needs to run without its sandbox."""
    as_root = hasattr(os, "geteuid") and os.geteuid() == 0
    flags = [*_FLAGS, "--no-sandbox"] if as_root else list(_FLAGS)
    return playwright.chromium.launch(executable_path=find_chromium(), args=flags)


@contextlib.contextmanager
def jupyter_lab(root: Path, *, dark: bool) -> Iterator[tuple[str, str]]:
    """JupyterLab over `root` on a free port of this machine, while the block runs: (address, token).

    Settings, workspaces and checkpoints live in a directory that goes away; autosave is off.
    """
    # The path of a kernel's socket has at most 103 bytes on macOS, where other temporary directories have long names.
    with tempfile.TemporaryDirectory(dir="/tmp") as home:
        scratch = Path(home)
        _write_settings(scratch / "settings", dark=dark)
        token, port = secrets.token_hex(16), _free_port()
        paths = {"JUPYTERLAB_SETTINGS_DIR": "settings", "JUPYTERLAB_WORKSPACES_DIR": "workspaces"}
        paths |= {"JUPYTER_CONFIG_DIR": "config", "JUPYTER_RUNTIME_DIR": "runtime"}
        environment = os.environ | {name: str(scratch / where) for name, where in paths.items()}
        options = (
            "--no-browser",
            "--allow-root",
            f"--port={port}",
            "--ServerApp.ip=127.0.0.1",
            "--ServerApp.port_retries=0",
            f"--ServerApp.root_dir={root}",
            f"--FileCheckpoints.checkpoint_dir={scratch / 'checkpoints'}",
            "--LabApp.expose_app_in_browser=True",
            "--KernelManager.transport=ipc",  # two kernels can be given the same port, see tools/kernels.py
        )
        with (scratch / "server.log").open("wb") as log:
            server = subprocess.Popen(
                [sys.executable, "-m", "jupyterlab", *options],
                env=environment | {"JUPYTER_TOKEN": token},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
            try:
                _await_server(server, f"http://127.0.0.1:{port}/api", scratch / "server.log")
                yield f"http://127.0.0.1:{port}", token
            finally:
                server.terminate()
                server.wait(30)


def open_lab(page: Page, address: str, token: str, *, timeout_s: float) -> None:
    """Open JupyterLab without a notebook; `timeout_s` is for each step from here on."""
    page.set_default_timeout(1_000 * timeout_s)
    page.goto(f"{address}/lab?reset&token={token}")
    page.wait_for_function("window.jupyterapp?.restored")
    page.evaluate("window.jupyterapp.restored.then(() => window.jupyterapp.shell.collapseLeft())")


def open_notebook(page: Page, name: str) -> None:
    """Open the notebook in the JupyterLab of the page, and wait until its outputs are there and its kernel is idle."""
    page.evaluate("path => void window.jupyterapp.commands.execute('docmanager:open', {path})", name)
    page.wait_for_function("path => window.jupyterapp.shell.currentWidget?.context?.path === path", arg=name)
    page.wait_for_function("window.jupyterapp.shell.currentWidget.context.isReady")
    page.wait_for_function("window.jupyterapp.shell.currentWidget.sessionContext.session?.kernel?.status === 'idle'")


def run_notebook(page: Page, name: str) -> list[str]:
    """Open the notebook as `open_notebook`, run all its cells, and return one line per cell that failed."""
    open_notebook(page, name)
    page.evaluate(
        "window.allHaveRun = false;"
        "void window.jupyterapp.commands.execute('notebook:run-all-cells').finally(() => { window.allHaveRun = true })"
    )
    page.wait_for_function("window.allHaveRun")
    page.wait_for_timeout(1_500)
    notebook = page.evaluate("window.jupyterapp.shell.currentWidget.content.model.toJSON()")
    return list(_errors(notebook))


def shut_down(page: Page) -> None:
    """End the notebook's kernel, and with it the Spark that it may have started, and close the notebook unsaved."""
    page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")
    page.evaluate("window.jupyterapp.shell.currentWidget.dispose()")


def take_pictures(page: Page, out: Path) -> list[Path]:
    """Write the window to `out` and every output with a picture next to it, numbered from 1.

    For an output that is higher than the window, the window is made higher: what is beyond it is not drawn.
    """
    _show_cell(page, 0)
    page.screenshot(path=out)
    written, window = [out], page.viewport_size
    for number in range(page.evaluate("window.jupyterapp.shell.currentWidget.content.widgets.length")):
        _show_cell(page, number)
        cell = page.locator(f".jp-Notebook-cell[data-windowed-list-index='{number}']")
        outputs = cell.locator(".jp-OutputArea-child").filter(has=page.locator(_PICTURES))
        for index in range(outputs.count()):
            output = outputs.nth(index)
            if (box := output.bounding_box()) is None:  # hidden, as the note of a chart that answers clicks
                continue
            height = max(window["height"], round(box["height"]) + _AROUND_PX)
            page.set_viewport_size({"width": window["width"], "height": height})
            output.scroll_into_view_if_needed()
            page.wait_for_timeout(_SETTLED_MS)
            target = out.with_name(f"{out.stem}-{len(written)}{out.suffix}")
            output.screenshot(path=target)
            written.append(target)
            page.set_viewport_size(window)
    return written


def _show_cell(page: Page, number: int) -> None:
    """Scroll to a cell: JupyterLab draws only those in view."""
    page.evaluate("number => window.jupyterapp.shell.currentWidget.content.scrollToItem(number, 'start')", number)
    page.wait_for_timeout(_SETTLED_MS)


def shoot(
    notebook: Path,
    out: Path,
    *,
    dark: bool,
    width: int,
    zoom_percent: int = 100,
    sidebar: bool = False,
    timeout_s: float = 300,
) -> tuple[list[Path], list[str]]:
    """Run the notebook in JupyterLab and photograph it: (pictures written, errors of its cells).

    Zoomed, a window of `width` has so many fewer pixels for the page, as in a browser; the pictures have all of them.
    """
    with (
        jupyter_lab(notebook.resolve().parent, dark=dark) as (address, token),
        sync_playwright() as playwright,
        contextlib.closing(launch(playwright)) as browser,
    ):
        scheme = "dark" if dark else "light"
        zoom = zoom_percent / 100
        viewport = {"width": round(width / zoom), "height": round(_HEIGHT_PX / zoom)}
        page = browser.new_page(viewport=viewport, color_scheme=scheme, device_scale_factor=zoom)
        open_lab(page, address, token, timeout_s=timeout_s)
        if sidebar:
            page.evaluate("window.jupyterapp.shell.expandLeft()")
        errors = run_notebook(page, notebook.name)
        return take_pictures(page, out), errors


def main() -> int:
    """The command line; 1 if a cell failed."""
    parser = argparse.ArgumentParser(description="Open a notebook in JupyterLab, run it, and picture its charts.")
    parser.add_argument("notebook", type=Path)
    parser.add_argument("out", type=Path, help="a .png; pictures of outputs are numbered beside it")
    parser.add_argument("--dark", action="store_true", help="JupyterLab's dark theme and a dark desktop")
    parser.add_argument("--width", type=int, default=1280, help="of the window, in pixels (default: 1280)")
    parser.add_argument("--zoom", type=int, default=100, metavar="PERCENT", help="as a browser does (default: 100)")
    parser.add_argument("--sidebar", action="store_true", help="with JupyterLab's side bar open")
    parser.add_argument("--timeout-s", type=float, default=300, help="for one step of the way (default: 300)")
    options = parser.parse_args()
    if not options.notebook.is_file():
        parser.error(f"there is no notebook {options.notebook}")
    written, errors = shoot(
        options.notebook,
        options.out,
        dark=options.dark,
        width=options.width,
        zoom_percent=options.zoom,
        sidebar=options.sidebar,
        timeout_s=options.timeout_s,
    )
    print(*written, sep="\n")
    print(*errors, sep="\n", end="\n" if errors else "", file=sys.stderr)
    return 1 if errors else 0


def _write_settings(directory: Path, *, dark: bool) -> None:
    settings: dict[str, dict[str, Any]] = {
        "apputils-extension/notification": {"fetchNews": "false"},
        "apputils-extension/themes": {"theme": "JupyterLab Dark" if dark else "JupyterLab Light"},
        "docmanager-extension/plugin": {"autosave": False},
    }
    for name, values in settings.items():
        path = directory / "@jupyterlab" / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values), encoding="utf-8")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _await_server(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        if server.poll() is not None:
            break
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5):
            return
        time.sleep(0.2)
    raise RuntimeError(f"JupyterLab did not start:\n{log.read_text(encoding='utf-8', errors='replace')[-2_000:]}")


def _errors(notebook: dict[str, Any]) -> Iterator[str]:
    for number, cell in enumerate(notebook["cells"], start=1):
        for output in cell.get("outputs", []):
            if output["output_type"] == "error":
                yield f"cell {number}: {output['ename']}: {output['evalue']}"


if __name__ == "__main__":
    sys.exit(main())
