"""The command line: `wmlab COMMAND`, or `python -m wmlab COMMAND`. Without a command it lists them."""

from __future__ import annotations

import argparse
import ast
import os
import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import wmlab as wm
from wmlab.core.arguments import the_duration
from wmlab.core.errors import EngineError, RecordingError, WmlabError
from wmlab.core.facts import FactAnswer
from wmlab.core.files import NOTEBOOKS, as_path
from wmlab.core.log_columns import TIMES
from wmlab.core.waiting import waiting_for
from wmlab.core.words import clock_words, counted, rounded

if TYPE_CHECKING:
    from wmlab.engines.answers import EngineLog, JobExplanation
    from wmlab.strategies.log_profile import Profile

_CHECK_EPILOG = """\
exit codes:
  0  every invariant that could be judged holds
  1  one is violated, as printed; or the recording or an option was refused, with the reason and the remedy on the
     standard error
  2  the command line was not understood
  3  none is violated, but some hold with exceptions: late events of a writer that had been dropped, for one
"""
_PROFILE_EPILOG = """\
The options are the arguments of wm.trace.load.

exit codes:
  0  nothing is dirty
  1  something is, as printed; or the log or an option was refused, with the reason and the remedy on the standard error
  2  the command line was not understood
"""
_ADVISE_EPILOG = """\
The options are the arguments of wm.trace.load; --late-share and those of windows are those of
wm.strategy.advise.

exit codes:
  0  the log supports the advice
  1  it does not, and what is printed is a guess; or the log or an option was refused, with the reason and the
     remedy on the standard error
  2  the command line was not understood
"""
_JOB_EPILOG = """\
Of several jobs at an address all are explained, but for those that have finished or were cancelled; the worst decides.

exit codes:
  0  no fault
  1  something holds a watermark, or it is further behind the clock than --max-lag
  2  rows are lost
  3  the reports do not tell, or the address does not answer
  4  a job does not run: it has failed, was cancelled, or waits to restart
  64 the command line was not understood, or an option or a file was refused, with the reason on the standard error
"""


_WITH_EXCEPTIONS = 3
_VERDICT_CODES = {"no fault": 0, "held": 1, "rows lost": 2, "cannot tell": 3, "not running": 4}
_BAD_USAGE = 64
"""The exit code of `explain-job` for anything but an answer, as EX_USAGE of sysexits.h: 1 and 2 are answers there."""


def parser() -> argparse.ArgumentParser:
    """The whole command line. Each command stores in `run` the function that carries it out."""
    top = argparse.ArgumentParser(prog="wmlab", description="An analytical workbench for stream watermarks.")
    commands = top.add_subparsers(title="commands", metavar="COMMAND")

    command = commands.add_parser("demo", help="run an example, say what its readers knew of time, and draw it")
    command.add_argument("--page", metavar="FILE.html", default="wmlab-demo.html", help="where the page goes")
    command.set_defaults(run=_demo)

    command = commands.add_parser("tutorials", help="copy the notebooks that come with wmlab to a new folder")
    command.add_argument("directory", metavar="DIR", help="where they go; it must not exist")
    command.set_defaults(run=_tutorials)

    command = commands.add_parser("record", help="run a scenario and keep the recording")
    command.add_argument("scenario", metavar="SCENARIO", help="a YAML file, or a scenario that comes with wmlab")
    command.add_argument("directory", metavar="DIR", help="where the recording goes; it must not exist")
    command.set_defaults(run=_record)

    command = commands.add_parser("bounds", help="compute the time bounds of a recording with Spark, as CSV")
    command.add_argument("directory", metavar="DIR", help="the recording")
    command.add_argument("--of", choices=["readers", "events"], help="whose positions (default: readers, if any)")
    command.add_argument(
        "--visible", choices=["all", "then"], help="which marks count (default: of readers, those emitted then)"
    )
    command.add_argument("--output", metavar="FILE.csv", help="write there instead of the standard output")
    command.set_defaults(run=_bounds)

    judges = "judge the invariants of a recording; fail if one is violated or holds with exceptions only"
    command = commands.add_parser(
        "check",
        help=judges,
        description=judges,
        epilog=_CHECK_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("directory", metavar="DIR", help="the recording")
    command.add_argument("--only", nargs="+", default=(), metavar="NAME", help="judge these invariants (default: all)")
    command.set_defaults(run=_check)

    command = commands.add_parser("explain", help="say what held the bound, at a moment or over the whole run")
    command.add_argument("directory", metavar="DIR", help="the recording")
    command.add_argument(
        "--at-ms", metavar="MOMENT", type=_number_or_text, help="the moment: ms of the clock, 36s, or a date"
    )
    command.add_argument("--reader", metavar="NAME", help="as seen by this reader")
    command.add_argument("--group", metavar="NAME", help="at the position of this reader group of a stream")
    command.add_argument("--stream", metavar="NAME", help="of this stream or query (default: the only one)")
    command.add_argument("--facts", action="store_true", help="the facts of a stream, a row each, instead of sentences")
    command.add_argument("--json", action="store_true", help="as JSON")
    command.set_defaults(run=_explain)

    profiles = "say what is in a log, which writers are dirty and how, and what to do next"
    command = commands.add_parser(
        "profile", help=profiles, epilog=_PROFILE_EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    _of_log(command, bad_rows="drop")
    command.add_argument("--chart", metavar="FILE", help="save who sends when as .svg, .png or .html")
    command.add_argument("--json", action="store_true", help="as JSON")
    command.set_defaults(run=_profile)

    _add_explain_job(commands)

    advises = "say which watermark a log asks for; fail if the log does not support an answer"
    command = commands.add_parser(
        "advise", help=advises, epilog=_ADVISE_EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    _of_log(command, bad_rows="refuse")
    command.add_argument(
        "--late",
        "--late-share",
        dest="late_share",
        type=float,
        default=0.001,
        metavar="SHARE",
        help="the share of records that may be late, above 0 and below 1 (default: 0.001)",
    )
    lengths = {
        "--window-ms": "choose by the records that windows of this length lose",
        "--slide-ms": "the same for sliding windows",
        "--gap-ms": "the same for sessions with this gap",
        "--allowed-lateness-ms": "how long windows take records after their first result",
    }
    for name, text in lengths.items():
        command.add_argument(name, type=_number_or_text, metavar="N", help=text)
    command.add_argument("--json", action="store_true", help="as JSON")
    command.set_defaults(run=_advise)

    conforms = "judge a program in any language by a rule for watermarks; fail if it answers otherwise"
    command = commands.add_parser("conformance", help=conforms)
    command.add_argument("--rule", required=True, metavar="NAME", help=f"one of {', '.join(wm.testing.RULES)}")
    command.add_argument("--examples", type=int, default=500, metavar="N", help="random histories (default: 500)")
    command.add_argument(
        "--timeout-s", type=float, default=5.0, metavar="S", help="how long an answer may take (default: 5)"
    )
    command.add_argument(
        "--limit-s", type=float, default=300.0, metavar="S", help="how long to draw histories (default: 300)"
    )
    command.add_argument("program", nargs="+", metavar="PROGRAM", help="the program and its arguments, behind --")
    command.set_defaults(run=_conformance)
    return top


def _add_explain_job(commands: Any) -> None:
    explains = "say why the watermark of a Flink job or a Spark query stands, and what would move it"
    command = commands.add_parser(
        "explain-job", help=explains, epilog=_JOB_EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    command.add_argument(
        "address",
        metavar="URL_OR_FILE",
        nargs="+",
        help="a Flink REST interface, pages of its Prometheus reporter (.../metrics), a Prometheus with --last, a log "
        "that was kept, or Spark's event log",
    )
    command.add_argument(
        "--at-ms",
        metavar="MOMENT",
        type=_number_or_text,
        help="the moment: ms since 1970, 20s from the log's begin, or a date (default: the end)",
    )
    command.add_argument(
        "--id", dest="job", metavar="ID_OR_NAME", help="which job or query (default: all that are to run)"
    )
    command.add_argument(
        "--polls", metavar="N", type=int, help="how often to ask (default: 40; with --watch: for ever)"
    )
    command.add_argument(
        "--every", metavar="DURATION", type=_number_or_text, help="how far apart (default: 1s; of a Prometheus 15s)"
    )
    command.add_argument("--watch", action="store_true", help="go on asking, and print a line when the answer changes")
    command.add_argument(
        "--max-lag", metavar="DURATION", type=_number_or_text, help="fail if a watermark is further behind the clock"
    )
    command.add_argument(
        "--last", metavar="DURATION", type=_number_or_text, help="the address is a Prometheus: how far to look back"
    )
    command.add_argument(
        "--header", metavar="NAME:VALUE", action="append", default=[], help="send this header, as for a token"
    )
    command.add_argument("--keep", metavar="FILE.jsonl", help="keep what was polled; the file must not exist")
    command.add_argument("--output", metavar="FILE", help="write a page for a ticket, .html or .md, with the chart")
    command.add_argument("--json", action="store_true", help="as JSON")
    command.set_defaults(run=_explain_job)


def _of_log(command: argparse.ArgumentParser, *, bad_rows: str) -> None:
    """The arguments of `wm.trace.load`; `bad_rows` is what the command does with them by default."""
    command.add_argument("log", metavar="LOG", help="a file, or the name of a log that comes with wmlab")
    for name, about in (("event-time", "when an event happened (default: event_time)"), ("arrival", "when it arrived")):
        two = f"{about}; twice for the columns of its date and of its time of day"
        command.add_argument(f"--{name}", metavar="COLUMN", action="append", help=two)
    command.add_argument("--delay", metavar="COLUMN", help="how long after that it arrived, in place of --arrival")
    command.add_argument("--writer", metavar="COLUMN", help="who sent it (default: writer)")
    command.add_argument("--key", metavar="COLUMN", help="its key (default: the writer, if other columns are named)")
    command.add_argument("--count", metavar="COLUMN", help="how many records a row stands for (default: one)")
    for name, about in (
        ("unit", "of times that are numbers: d, s, ms, us or ns (default: ms)"),
        ("format", "of times that are texts, as '%%d.%%m.%%Y %%H:%%M:%%S'"),
        ("timezone", "of local times, as Europe/Berlin (default: UTC)"),
        ("origin", "the date from which numbers count, as 1899-12-30 (default: 1970-01-01)"),
    ):
        each = f"{about}; of one column as event_time=VALUE, arrival=VALUE or delay=VALUE"
        command.add_argument(f"--{name}", metavar="VALUE", action="append", help=each)
    command.add_argument("--encoding", metavar="NAME", help="of the file (default: utf-8)")
    command.add_argument("--form", choices=["csv", "tsv", "json", "parquet"], help="of the file (default: by its name)")
    command.add_argument(
        "--bad-rows",
        choices=["refuse", "drop"],
        help=f"refuse a log with bad rows, or leave them out (default: {bad_rows})",
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Carries out one command; returns the exit code: 0 done, 1 refused or found wanting, 2 not understood.

    A check that holds with exceptions has 3; `explain-job` has codes of its own.
    """
    top = parser()
    is_of_job = (sys.argv[1:] if arguments is None else arguments)[:1] == ["explain-job"]
    refused_code = _BAD_USAGE if is_of_job else 1
    try:
        options = top.parse_args(arguments)
    except SystemExit as end:
        raise SystemExit(_BAD_USAGE if is_of_job and end.code else end.code) from None
    if "run" not in options:
        top.print_help()
        return 0
    try:
        code: int = options.run(options)
        sys.stdout.flush()
    except WmlabError as mistake:
        print(_as_options(str(mistake), options), file=sys.stderr)
        return refused_code
    except BrokenPipeError:
        # Its reader has enough, as `head` has; what is left must not be written when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as refused:
        print(f"{refused}.\nTo repair it: look at the path, its rights and the room on the disk.", file=sys.stderr)
        return refused_code
    return code


def _as_options(message: str, options: argparse.Namespace) -> str:
    """A message in which the arguments of Python that this command has stand as options: --stream NAME, not stream=."""
    names = "|".join(sorted(vars(options)))
    value = r"'[^']*'|\{[^}]*\}|\.\.\.|(?=\S)"
    flags = {"job": "id"} if options.run is _explain_job else {}
    return re.sub(rf"\b({names})=({value})", lambda match: _as_option(flags.get(match[1], match[1]), match[2]), message)


def _as_option(name: str, value: str) -> str:
    """An argument and its value, a text or a dict of texts, as they are written in a shell."""
    option = f"--{name.replace('_', '-')}"
    if value.startswith("{"):
        each = [shlex.quote(f"{column}={text}") for column, text in ast.literal_eval(value).items()]
        return " ".join(f"{option} {pair}" for pair in each)
    return f"{option} {shlex.quote(ast.literal_eval(value)) if value.startswith(chr(39)) else value}"


def _demo(options: argparse.Namespace) -> int:
    from wmlab.demo import demo

    print(demo(options.page))
    print(f"\nThe picture, as a page for a browser: {options.page}")
    return 0


def _tutorials(options: argparse.Namespace) -> int:
    target = as_path(options.directory, WmlabError)
    if target.exists():
        raise WmlabError(f"there is something at {str(target)!r}.", remedy="name a folder that does not exist.")
    shutil.copytree(NOTEBOOKS, target, ignore=lambda _, names: {name for name in names if not _is_notebook(name)})
    first = target / "tutorials" / "00_first_bounds.ipynb"
    print(f"{counted(len([*target.rglob('*.ipynb')]), 'notebook')} in {target}. To begin: jupyter lab {first}")
    return 0


def _is_notebook(name: str) -> bool:
    """Whether a name below the notebooks is one of them, or a folder of some."""
    return name.endswith(".ipynb") or ("." not in name and not name.startswith("_"))


def _number_or_text(argument: str) -> int | str:
    """A whole number, or a text such as 36s for options that take durations."""
    try:
        return int(argument)
    except ValueError:
        return argument


def _record(options: argparse.Namespace) -> int:
    print(wm.trace.load_scenario(options.scenario).record(options.directory))
    return 0


def _bounds(options: argparse.Namespace) -> int:
    from pyarrow import csv

    recording = wm.load(options.directory)
    bounds = recording.time_bounds(wm.spark_session(), of=options.of, visible=options.visible)
    # Not through pandas, where a column with unknowns becomes floating point.
    with waiting_for("Spark computes the bounds"):
        table = bounds.drop("incidents").toArrow()
    csv.write_csv(table, options.output or sys.stdout.buffer)
    return 0


def _check(options: argparse.Namespace) -> int:
    verdicts = wm.load(options.directory).check(*options.only)
    print(verdicts)
    if verdicts.violated:
        return 1
    return _WITH_EXCEPTIONS if verdicts.with_exceptions else 0


def _explain(options: argparse.Namespace) -> int:
    recording = wm.load(options.directory)
    if options.group is not None and recording.kind != "streams":
        raise RecordingError(
            f"A recording of {recording.kind} has no reader groups, got group {options.group!r}.",
            remedy="leave --group out.",
        )
    of_group = {} if options.group is None else {"group": options.group}
    answer = recording.explain(at_ms=options.at_ms, reader=options.reader, stream=options.stream, **of_group)
    if options.facts and not isinstance(answer, FactAnswer):
        raise RecordingError(f"This answer about {recording.kind} has no facts.", remedy="leave --facts out.")
    print(answer.to_json() if options.json else answer.facts if options.facts else answer)
    return 0


def _explain_job(options: argparse.Namespace) -> int:
    address = options.address[0]
    is_running = wm.engine.is_address(address) and not Path(address).exists()
    try:
        if options.watch:
            return _watch_job(options)
        logs = _asked_logs(options) if is_running else [wm.engine.read(address, job=options.job)]
    except EngineError as wrong:
        if not is_running:
            raise
        print(_as_options(str(wrong), options), file=sys.stderr)
        return _VERDICT_CODES["cannot tell"]
    verdicts = []
    for number, log in enumerate(logs):
        if options.keep:
            log.save(_numbered(options.keep, number, len(logs)))
        verdicts.append(_told(log, log.explain(options.at_ms), options))
        if options.output:
            wm.engine.save_page(log, log.explain(options.at_ms), _numbered(options.output, number, len(logs)))
    return _VERDICT_CODES[max(verdicts, key=wm.engine.SEVERITY.index)]


def _told(log: EngineLog, explanation: JobExplanation, options: argparse.Namespace) -> str:
    """Print an answer; returns what it comes to, with --max-lag."""
    late = _too_late(explanation, options)
    if options.json:
        print(explanation.to_json(), end="")
    else:
        print(log, explanation, sep="\n")
        for evidence in explanation.evidence:
            print(f"  {evidence}")
        print(log.advise(options.at_ms), *filter(None, [late]), sep="\n")
    verdict = "held" if late else explanation.verdict
    return max((verdict, explanation.verdict), key=wm.engine.SEVERITY.index)


def _too_late(explanation: JobExplanation, options: argparse.Namespace) -> str:
    if options.max_lag is None or explanation.lag_ms is None:
        return ""
    most_ms = the_duration(options.max_lag, EngineError, name="max_lag")
    if explanation.lag_ms <= most_ms:
        return ""
    return f"The watermark is {rounded(explanation.lag_ms)} behind the clock, more than --max-lag {rounded(most_ms)}."


def _headers(options: argparse.Namespace) -> dict[str, str]:
    pairs = [header.partition(":") for header in options.header]
    for name, colon, _ in pairs:
        if not colon or not name.strip():
            raise EngineError(
                f"the header {name!r} has no value.", remedy='write --header "Authorization: Bearer TOKEN".'
            )
    return {name.strip(): value.strip() for name, _, value in pairs}


def _asked_logs(options: argparse.Namespace) -> list[EngineLog]:
    """The logs of the job that is named, or of all at the address that are to run."""
    headers, every = _headers(options), options.every
    if options.last is not None:
        log = wm.engine.prometheus(
            options.address[0], job=options.job, last=options.last, every=every or "15s", headers=headers
        )
        return [log]
    every_ms = the_duration(every or "1s", EngineError, name="every")
    polls: dict[str, Any] = {
        "polls": options.polls or (1 if options.watch else 40),
        "every_ms": every_ms,
        "headers": headers,
    }
    addresses = options.address
    is_rest = not addresses[0].endswith("/metrics")
    jobs = [options.job]
    if is_rest and options.job is None and "#/job/" not in addresses[0]:
        known = wm.engine.flink_jobs(addresses[0], headers=headers)
        jobs = [key for key, state in known.items() if not state.endswith(("(FINISHED)", "(CANCELED)"))] or [None]
    with waiting_for(f"Flink is asked {polls['polls']} times"), ThreadPoolExecutor(max_workers=len(jobs)) as workers:
        return list(
            workers.map(lambda job: wm.engine.flink(addresses if not is_rest else addresses[0], job=job, **polls), jobs)
        )


def _watch_job(options: argparse.Namespace) -> int:
    """Print a line whenever the answer for one job changes; the exit code is that of the last one."""
    first, polls = _changed(options, polls=1), options.polls
    (log, *others) = _asked_logs(first)
    if others:
        raise EngineError(f"there are {1 + len(others)} jobs at that address.", remedy="name one with --id, by its id.")
    every_ms = the_duration(options.every or "1s", EngineError, name="every")
    verdict = "cannot tell"
    try:
        for latest, explanation, is_other in wm.engine.answers_of(log, every_ms, most=polls):
            log = latest
            if not is_other:
                continue
            late = _too_late(explanation, options)
            verdict = "held" if late and explanation.verdict == "no fault" else explanation.verdict
            text = explanation.to_json() if options.json else f"{clock_words(explanation.at_ms)}  {verdict}: "
            print(text if options.json else f"{text}{explanation.sentence} {late}".rstrip(), flush=True)
    except KeyboardInterrupt:
        pass
    except EngineError as wrong:
        print(_as_options(str(wrong), options), file=sys.stderr)
        verdict = "cannot tell"
    if options.keep:
        log.save(options.keep)
    return _VERDICT_CODES[verdict]


def _changed(options: argparse.Namespace, **changes: Any) -> argparse.Namespace:
    """The options with some changed."""
    return argparse.Namespace(**(vars(options) | changes))


def _numbered(path: str, number: int, count: int) -> str:
    """The path of one of several files: "job.jsonl", "job-2.jsonl"."""
    return path if count == 1 or not number else str(Path(path).with_stem(f"{Path(path).stem}-{number + 1}"))


def _columns(options: argparse.Namespace) -> dict[str, Any]:
    """The arguments of `wm.trace.load` that were given."""
    names = ("writer", "key", "count", "delay", "encoding", "form", "bad_rows")
    columns = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    columns |= {name: given[0] if len(given) == 1 else given for name in TIMES[:2] if (given := getattr(options, name))}
    for name in ("unit", "format", "timezone", "origin"):
        pairs = [_of_column(given) for given in getattr(options, name) or ()]
        if pairs:
            columns[name] = dict(pairs) if pairs[-1][0] else pairs[-1][1]
    if any(name in columns for name in ("event_time", "arrival", "delay", "writer")):
        columns.setdefault("key", None)
    return columns


def _of_column(given: str) -> tuple[str, str]:
    """The argument for which an option is given, and its value: event_time=s; no argument if it is for all columns."""
    argument, _, value = given.partition("=")
    argument = argument.replace("-", "_")
    return (argument, value) if argument in TIMES else ("", given)


def _profile(options: argparse.Namespace) -> int:
    profile = wm.trace.profile(options.log, **_columns(options))
    if options.chart:
        profile.chart().save(options.chart)
    print(profile.to_json() if options.json else profile.text([_next_command(options, profile)]))
    return 1 if profile.findings else 0


def _next_command(options: argparse.Namespace, profile: Profile) -> str:
    """The command that asks for advice about the log of a profile."""
    names = ("event_time", "arrival", "delay", "writer", "key", "count", "unit", "format", "timezone", "origin")
    given = {name: getattr(options, name) for name in (*names, "encoding", "form")}
    given["bad_rows"] = "drop" if profile.log.refused.num_rows else options.bad_rows
    each = [(name, value if isinstance(value, list) else [value]) for name, value in given.items() if value is not None]
    words = [word for name, values in each for value in values for word in (f"--{name.replace('_', '-')}", value)]
    dirty = " (after its dirt is left out)" if profile.row_numbers else ""
    return f"Next{dirty}: {shlex.join(['wmlab', 'advise', options.log, *words])}"


def _advise(options: argparse.Namespace) -> int:
    log = wm.trace.load(options.log, **_columns(options))
    if log.refused.num_rows:
        # Not on the standard output, which may be JSON.
        print(f"{counted(log.refused.num_rows, 'bad row')} left out of {log.name!r}.", file=sys.stderr)
    names = ("window_ms", "slide_ms", "gap_ms", "allowed_lateness_ms")
    windows = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    advice = wm.strategy.advise(log, options.late_share, **windows)
    if options.json:
        print(advice.to_json(), end="")
        return 0 if advice.supported else 1
    print(advice)
    return 0 if advice.supported else 1


def _conformance(options: argparse.Namespace) -> int:
    conformity = wm.testing.conformance(
        options.program,
        options.rule,
        examples=options.examples,
        timeout_s=options.timeout_s,
        limit_s=options.limit_s,
    )
    print(conformity)
    return 0 if conformity.conforms else 1


if __name__ == "__main__":
    sys.exit(main())
