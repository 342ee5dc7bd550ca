"""Programs in other languages: the examples conform; one that dies, hangs or writes something else is an error."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from tests.conftest import VECTORS
from wmlab.__main__ import main
from wmlab.core.errors import ModelError
from wmlab.testing.cases import ANYTHING, cases_of
from wmlab.testing.compare import first_difference
from wmlab.testing.conforming import conformance
from wmlab.testing.known_rules import RULES
from wmlab.testing.program import ProgramError

EXAMPLES = Path(__file__).parents[2] / "examples"
VALVE = [sys.executable, str(EXAMPLES / "my_valve.py")]


def script(tmp_path: Path, body: str) -> list[str]:
    """A program of these lines of Python."""
    path = tmp_path / "program.py"
    path.write_text(f"import json, os, sys, time\n{body}\n")
    return [sys.executable, str(path)]


def test_the_example_in_python_conforms() -> None:
    found = conformance(VALVE, "flink-valve", examples=60, timeout_s=60)
    assert found.conforms
    assert (found.cases, found.lines) == (11, ())
    assert found.sentence.endswith("answers as the rule 'flink-valve' in 11 cases and 60 random histories.")


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node")
def test_the_example_in_javascript_conforms() -> None:
    assert conformance(["node", str(EXAMPLES / "my_coalescer.js")], "jet-coalescer", examples=60, timeout_s=60).conforms


def test_a_program_that_follows_another_rule_fails_in_a_case_with_the_lines_that_show_it() -> None:
    found = conformance(VALVE, "flink-valve-2.3.0", timeout_s=60)
    assert found.case == "classic_loses_flush"
    assert found.disagreement is not None
    assert (found.disagreement.answer, found.disagreement.expected) == ([100, "IDLE"], ["IDLE"])
    start, *steps = map(json.loads, found.lines)
    assert start == {"start": "flink-valve-2.3.0", "parameters": {"channels": 3}}
    assert steps == [dict(step) for step in found.disagreement.steps]
    assert 'the program answers [100, "IDLE"], where the rule \'flink-valve-2.3.0\' answers ["IDLE"]' in found.sentence
    (case,) = [case for case in cases_of("flink-valve-2.3.0") if case.name == found.case]
    assert len(steps) <= len(case.history.steps)


LOOP = """
for line in sys.stdin:
    message = json.loads(line)
    {}
    print(json.dumps("ready" if "start" in message else None), flush=True)
"""


def test_a_random_history_is_shrunk_for_a_program_too(tmp_path: Path) -> None:
    found = conformance(script(tmp_path, LOOP.format("")), "flink-bounded", examples=60, timeout_s=60)
    assert found.case is None
    assert found.lines[1] == '{"op": "record", "time": 0, "now": 0, "writer": "a"}'
    assert "the program answers null" in found.sentence


def test_a_case_of_the_table_is_made_smaller(tmp_path: Path) -> None:
    found = conformance(script(tmp_path, LOOP.format("")), "bounded", examples=60, timeout_s=60)
    assert found.case == "nothing_before_the_first_record"
    assert found.lines == (
        '{"start": "bounded", "parameters": {"bound": 2}}',
        '{"op": "record", "time": 5, "now": 5, "writer": "a"}',
    )
    assert repr(found).endswith("expected: 3")


GENERATOR = """
def cut(number):
    {cut}
for line in sys.stdin:
    message = json.loads(line)
    if "start" in message:
        bound, highest, answer = message["parameters"]["bound"], None, "ready"
    elif message["op"] == "restart":
        highest = answer = None
    else:
        time = cut(message["time"]) if message["op"] == "record" else highest
        highest = time if highest is None or (time is not None and time > highest) else highest
        answer = None if highest is None else cut(highest - bound)
    print(json.dumps(answer), flush=True)
"""


def test_a_generator_in_whole_numbers_of_any_size_conforms(tmp_path: Path) -> None:
    found = conformance(script(tmp_path, GENERATOR.format(cut="return number")), "bounded", examples=40, timeout_s=60)
    assert found.conforms


@pytest.mark.parametrize("bits", [16, 32])
def test_times_in_too_few_bits_are_found(tmp_path: Path, bits: int) -> None:
    cut = f"return (number + 2**{bits - 1}) % 2**{bits} - 2**{bits - 1}"
    found = conformance(script(tmp_path, GENERATOR.format(cut=cut)), "bounded", examples=40, timeout_s=60)
    assert found.case in ("real_times_in_ms", "before_1970")


def test_times_far_ahead_of_the_clock_that_are_cut_are_found(tmp_path: Path) -> None:
    body = GENERATOR.replace('cut(message["time"])', 'min(message["time"], message["now"] + 30)')
    found = conformance(script(tmp_path, body.format(cut="return number")), "bounded", examples=40, timeout_s=60)
    assert found.case == "far_ahead_of_the_clock"


def test_a_line_too_many_is_named(tmp_path: Path) -> None:
    body = LOOP.format("").replace('"ready" if "start" in message else None)', '"ready") + "\\n[7]"')
    with pytest.raises(ProgramError, match=r"wrote '\[7\]' besides its answer"):
        conformance(script(tmp_path, body), "bounded", examples=20, timeout_s=60)


def test_a_program_that_answers_only_after_the_next_line_is_told_so(tmp_path: Path) -> None:
    body = """
print(json.dumps("ready"), flush=True) if sys.stdin.readline() else None
while True:
    sys.stdin.readline(), sys.stdin.readline()
    print("2\\n1", flush=True)
"""
    with pytest.raises(ProgramError, match="wrote only when it was given a line more"):
        conformance(script(tmp_path, body), "bounded", examples=20, timeout_s=2)


def test_when_the_time_is_over_the_answer_says_how_much_was_judged() -> None:
    found = conformance(VALVE, "flink-valve", examples=60, timeout_s=60, limit_s=0)
    assert (found.conforms, found.examples, found.wanted) == (True, 0, 60)
    assert "0 random histories; the time was over before the other 60, an answer takes" in found.sentence


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("sys.exit(3)", "ended with exit code 3"),
        ("os.kill(os.getpid(), 9)", "was ended by signal 9"),
        (LOOP.format("if 'op' in message: sys.exit(0)"), r'exit code 0. It was last given: \{"op": "tick"'),
        ("print('hello', flush=True)\ntime.sleep(60)", "wrote 'hello', which is no JSON"),
        ("print(5, flush=True)\ntime.sleep(60)", "answered the start with 5"),
        ("print('x' * 2_000_000, end='', flush=True)\ntime.sleep(60)", "wrote more than 1000000 bytes"),
    ],
)
def test_a_program_that_does_not_keep_to_the_protocol_is_an_error(tmp_path: Path, body: str, problem: str) -> None:
    with pytest.raises(ProgramError, match=problem):
        conformance(script(tmp_path, body), "bounded", examples=20, timeout_s=30)


def test_a_program_that_is_silent_is_an_error_after_the_time_that_an_answer_may_take(tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match=r'did not answer within 0.3 s. It was last given: \{"start": "bounded"'):
        conformance(script(tmp_path, "time.sleep(600)"), "bounded", timeout_s=0.3)


def test_a_program_that_is_not_there_and_a_time_that_is_none_are_errors() -> None:
    with pytest.raises(ProgramError, match="'no/such/program' cannot be started: No such file"):
        conformance(["no/such/program"], "bounded")
    with pytest.raises(ModelError, match="timeout_s is 0"):
        conformance(VALVE, "flink-valve", timeout_s=0)
    with pytest.raises(ModelError, match="no rule 'valve'"):
        conformance(VALVE, "valve")


def test_the_command_judges_a_program(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["conformance", "--timeout-s", "60", "--examples", "20", "--rule"]
    assert main([*options, "flink-valve", "--", *VALVE]) == 0
    assert "answers as the rule 'flink-valve'" in capsys.readouterr().out
    assert main([*options, "flink-valve-2.3.0", "--", *VALVE]) == 1
    assert 'expected: ["IDLE"]' in capsys.readouterr().out
    assert main([*options, "valve", "--", *VALVE]) == 1
    assert "Give one of bounded" in capsys.readouterr().err


@pytest.mark.parametrize("rule", RULES)
def test_the_rules_answer_the_cases_of_the_table(rule: str) -> None:
    for case in cases_of(rule):
        assert first_difference(RULES[rule].start, rule, case.history, case.answers) is None, case.name


def test_the_table_has_the_cases_of_the_vectors() -> None:
    engines, hazelcast, nebula = (
        json.loads((VECTORS / f"{name}.json").read_text()) for name in ("engines", "hazelcast", "nebula")
    )
    for rule, version in (("flink-valve", "newest"), ("flink-valve-2.3.0", "classic")):
        wanted = {}
        for case in engines["status_watermark_valve"]:
            if version in case.get("versions", [version]):
                wanted[case["id"]] = [(of["op"], of["ch"], of.get("v"), of["emit"]) for of in case["steps"]]
        assert {case.name: rows(case, "channel") for case in cases_of(rule)} == wanted
    wanted = {}
    for case in hazelcast["cases"]:
        if case["kind"] == "keyed_coalescer" and "design" in case["variants"]:
            steps = [of for of in case["steps"] if of["op"] != "keys"]
            wanted[case["id"].partition(".")[2]] = [
                (of["op"], of["queue"], of.get("value"), of.get("expect", ANYTHING)) for of in steps
            ]
    assert {case.name: rows(case, "input") for case in cases_of("jet-coalescer")} == wanted
    steps_of = {case["id"]: case["steps"] for case in nebula["multi_origin"] if "steps" in case}
    assert cases_of("nebula-tracker")
    for case in cases_of("nebula-tracker"):
        assert list(case.answers) == [of["global"] or None for of in steps_of[case.name]]


def rows(case, name):
    """The rows of a case in the words of the vectors."""
    found = []
    for step, answer in zip(case.history.steps, case.answers, strict=True):
        said = (
            answer
            if answer is ANYTHING
            else [["wm", *of[1:]] if isinstance(of, list) and of[0] == "watermark" else of for of in answer]
        )
        found.append(("wm" if step["op"] == "watermark" else step["op"], step[name], step.get("time"), said))
    return found
