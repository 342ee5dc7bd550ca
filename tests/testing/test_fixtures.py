"""The pytest plugin compares a machine with a rule, and costs nothing where it is not used."""

from __future__ import annotations

import subprocess
import sys
import tomllib

import pytest

from tests.project.source import ROOT

pytest_plugins = ["pytester"]

PLUGIN = ("-p", "wmlab.testing.fixtures", "-p", "no:cacheprovider", "-p", "no:nbval")
MACHINES = """
class Bounded:
    def __init__(self, bound):
        self.bound, self.watermark = bound, None

    def step(self, item):
        if item["op"] == "restart":
            self.watermark = None
        elif item["op"] == "record":
            time = item["time"] - self.bound
            self.watermark = time if self.watermark is None else max(time, self.watermark)
        return self.watermark

class Falls(Bounded):
    def step(self, item):
        if item["op"] == "record":
            self.watermark = None
        return super().step(item)
"""


def test_a_right_machine_passes_and_a_wrong_one_fails_with_a_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        MACHINES
        + """
def test_right(agrees_with_rule):
    agrees_with_rule(Bounded, "bounded", examples=50)

def test_wrong(agrees_with_rule):
    agrees_with_rule(Falls, "bounded")
"""
    )
    result = pytester.runpytest_subprocess(*PLUGIN)
    result.assert_outcomes(passed=1, failed=1)
    text = result.stdout.str()
    assert "Falls answers" in text
    assert "def test_falls_answers_as_bounded():" in text
    assert "find_disagreement" not in text, "no traceback of wmlab"


def test_the_number_of_histories_is_that_of_the_test_or_of_the_option(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
from wmlab.testing import compare

def test_option(monkeypatch, request):
    seen = []
    monkeypatch.setattr(compare, "find_disagreement", lambda mine, rule, examples: seen.append(examples))
    compare_with_rule = request.getfixturevalue("agrees_with_rule")
    compare_with_rule(object, "bounded")
    compare_with_rule(object, "bounded", examples=3)
    print("drawn:", seen)
"""
    )
    pytester.runpytest_subprocess(*PLUGIN, "-s").stdout.fnmatch_lines(["*drawn: [[]500, 3[]]*"])
    result = pytester.runpytest_subprocess(*PLUGIN, "-s", "--watermark-examples", "40")
    result.stdout.fnmatch_lines(["*drawn: [[]40, 3[]]*"])


def test_what_makes_no_sense_is_refused(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
def test_no_histories(agrees_with_rule):
    agrees_with_rule(object, "bounded")
"""
    )
    result = pytester.runpytest_subprocess(*PLUGIN, "--watermark-examples", "0")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*examples is 0*"])


def test_an_installed_wmlab_has_the_plugin() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"] == {"pytest11": {PLUGIN[1]: PLUGIN[1]}}


def test_the_plugin_loads_nothing_else() -> None:
    code = "import sys, pytest; old = set(sys.modules); import wmlab.testing.fixtures; print(*set(sys.modules) - old)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    foreign = [name for name in done.stdout.split() if not name.startswith("wmlab")]
    assert [name for name in foreign if name.split(".")[0] not in sys.stdlib_module_names] == []
    assert len(done.stdout.split()) < 30
