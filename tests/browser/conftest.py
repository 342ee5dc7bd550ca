"""Tests that look at charts in a real browser; they are collected where Playwright and a Chromium are installed."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.conftest import module_of

SHOOT = Path(__file__).parents[2] / "tools" / "shoot.py"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
HAS_BROWSER = importlib.util.find_spec("playwright") is not None and (
    "WMLAB_CHROMIUM" in os.environ or any(shutil.which(name) for name in BROWSERS)
)

collect_ignore_glob = [] if HAS_BROWSER else ["test_*.py"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not HAS_BROWSER:
        terminalreporter.write_line("tests/browser: not collected, Playwright or Chromium is missing")


@pytest.fixture(scope="session")
def shoot() -> ModuleType:
    """The script tools/shoot.py as a module."""
    return module_of(SHOOT)


@pytest.fixture(scope="module")
def browser(shoot: ModuleType) -> Iterator[Any]:
    """A headless Chromium."""
    with shoot.sync_playwright() as playwright:
        started = shoot.launch(playwright)
        yield started
        started.close()
