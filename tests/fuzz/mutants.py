"""Hostile input by number: shipped scenario files, stored recordings and command lines, changed at random.

Mutant `number` of a seed is the same on every machine. What is run may raise errors of wmlab and nothing else, within
two seconds of processor time, and leaves nothing half-written.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import io
import json
import random
import re
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

import wmlab as wm
from wmlab.__main__ import main
from wmlab.core.errors import WmlabError
from wmlab.open import load_scenario
from wmlab.streams.scenario.scenario import StreamScenario

SCENARIOS: Final = Path(__file__).resolve().parents[2] / "data" / "scenarios"
LIMIT_S: Final = 2
CHEAP_STEPS: Final = 3_000
"""Scenarios that would take more are estimated and not run."""

VALUES: Final[tuple[Any, ...]] = (
    *(0, 1, -1, 7, 2**31, 2**53, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 2**70, 10**400),
    *(0.0, -0.0, 0.5, 1.5, 1e-300, 1e20, 1e300, -1e300, float("nan"), float("inf")),
    *(
        "",
        " ",
        "a",
        "w1",
        "leader",
        "0@0",
        "0..1",
        "1/0..1",
        "{name}",
        "ä ö",
        "<b>x</b>",
        "x\0y",
        "\ud800",
        "a" * 5_000,
    ),
    *(None, True, False, [], {}, [[]], [1, "a"], {"kind": "fixed"}, {"kind": ["a"]}, {"a": {"b": {}}}),
)
"""What a value is replaced by."""
TEXTS: Final = (
    *("? [1]\n: 2\n", "name: 2024-02-30\n", "a: !!int abc\n", "b: !!bool maybe\n", "c: !!timestamp x\n", "kind: [a]\n"),
    *(
        "&a [*a]\n",
        "*x",
        "!!binary x",
        "!!python/object:os.x {}",
        "<<: {a: 1}\n",
        "\t",
        "\0",
        "\ufeff",
        "%YAML 9.9\n---\n",
    ),
    *("[" * 1_500, "{a: " * 200, "- " * 300, "9" * 5_000, "a" * 3_000_000, "'", '"', "|\n", "---\n", "...\n"),
    "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" if n else "a0: &a0 [x]\n" for n in range(10)),
)
"""What is put into a text."""


class TooSlow(BaseException):
    """The limit of processor time has passed."""


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant: `accepted`, `refused` by an error of wmlab, or `broken`, with what happened."""

    number: int
    kind: str
    verdict: str
    told: str = ""


def attempt(seed: int, number: int, folder: Path, made: Recorded) -> Outcome:
    """Run one mutant in `folder`, which is empty before and after."""
    draw = random.Random(f"{seed} {number}")
    kind, run = draw.choices((("scenario", _scenario), ("recording", _recording), ("command", _command)), (6, 3, 1))[0]
    said = io.StringIO()
    try:
        with limited(), contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            run(draw, folder, made)
        verdict, told = "accepted", ""
    except WmlabError as refusal:
        verdict, told = "refused", ""
        if "To repair it" not in str(refusal):
            verdict, told = "broken", f"no remedy: {refusal}"
    except (Exception, TooSlow, SystemExit):
        verdict, told = "broken", traceback.format_exc()
    half = list(half_written(folder))
    if half:
        verdict, told = "broken", f"half-written: {half}\n{told}"
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return Outcome(number, kind, verdict, told)


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Raise `TooSlow` when this process has worked for `LIMIT_S` seconds; waiting does not count."""

    def stop(_signal: int, _frame: object) -> None:
        raise TooSlow

    begun = time.process_time()
    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, LIMIT_S)
    try:
        yield
        if time.process_time() - begun > LIMIT_S:
            raise TooSlow
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def half_written(folder: Path) -> Iterator[str]:
    """What lies in `folder` and is neither a scenario file nor a whole recording."""
    for path in folder.iterdir():
        if path.name == "run":
            try:
                wm.trace.Recording.read(path)
            except WmlabError as wrong:
                yield str(wrong)
        elif path.name not in ("mutant.yaml", "damaged"):
            yield path.name


@dataclass(frozen=True)
class Recorded:
    """One stored recording of each model, from which damaged ones are made."""

    directories: tuple[Path, ...]

    @classmethod
    def under(cls, folder: Path) -> Recorded:
        """Record a short scenario of each model in `folder`."""
        made = []
        for name in ("first_bounds", "flows/jet_1605", "progress_diagram"):
            scenario = load_scenario(SCENARIOS / f"{name}.yaml")
            made.append(folder / name.replace("/", "_"))
            scenario.record(made[-1])
        return cls(tuple(made))


FILES: Final = tuple(sorted(SCENARIOS.rglob("*.yaml")))


def _scenario(draw: random.Random, folder: Path, _: Recorded) -> None:
    file = folder / "mutant.yaml"
    chosen = draw.choice(FILES)
    text = chosen.read_text(encoding="utf-8")
    if draw.random() < 0.3:
        text = changed_text(draw, text)
    else:
        data = yaml.safe_load(text)
        if draw.random() < 0.6:
            data = {"wmlab": 1, **with_defaults(load_scenario(chosen))}
        for _time in range(draw.choice((1, 1, 1, 2, 3))):
            change(draw, data)
        text = yaml.safe_dump(data, allow_unicode=draw.random() < 0.5)
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    scenario = load_scenario(file)
    repr(scenario), scenario._repr_html_() if isinstance(scenario, StreamScenario) else None
    assert load_scenario(file).to_yaml() == scenario.to_yaml()
    if scenario.estimate().steps > CHEAP_STEPS:
        return
    scenario.record(folder / "run")


def _recording(draw: random.Random, folder: Path, made: Recorded) -> None:
    damaged = folder / "damaged"
    shutil.copytree(draw.choice(made.directories), damaged)
    file = damaged / "recording.json"
    damage = draw.randrange(4)
    if damage == 0:
        data = json.loads(file.read_text(encoding="utf-8"))
        change(draw, data)
        with contextlib.suppress(UnicodeEncodeError):
            file.write_text(json.dumps(data), encoding="utf-8")
    elif damage == 1:
        file.write_bytes(changed_text(draw, file.read_text(encoding="utf-8")).encode("utf-8", "surrogatepass"))
    else:
        file = draw.choice(sorted(damaged.rglob("*.parquet")))
        file.write_bytes(changed_bytes(draw, file.read_bytes()))
    recording = wm.trace.Recording.read(damaged)
    repr(recording), recording._repr_html_()
    for name in recording.schemas:
        recording.table(name)
    recording.explain()
    recording.explain(at_ms=draw.choice((0, 5_000, 2**63 - 1)))


def _command(draw: random.Random, folder: Path, made: Recorded) -> None:
    file, directory = str(draw.choice(FILES)), str(draw.choice(made.directories))
    words = draw.choice(
        (
            ["record", file, str(folder / "run")],
            ["explain", directory, "--at-ms", "5000"],
            ["explain", directory, "--stream", "orders", "--json"],
            ["explain", directory, "--reader", "readers-0"],
            ["bounds", str(folder / "none"), "--of", "events"],
            ["check", str(folder / "none")],
        )
    )
    place = draw.randrange(len(words)) if words[0] != "record" else 0
    offered = [
        *map(str, VALUES[:20]),
        *(v for v in VALUES if isinstance(v, str)),
        "--json",
        "--at-ms",
        "-h",
        "~nobody/x",
    ]
    words = draw.choice(
        ([*words, draw.choice(offered)], [*words[:place], draw.choice(offered), *words[place + 1 :]], words[:-1])
    )
    with contextlib.suppress(SystemExit):  # argparse says what it has not understood
        main([str(word) for word in words])


def changed_text(draw: random.Random, text: str) -> str:
    """A text with lines moved, doubled or lost, characters changed, or something hostile put in."""
    lines = text.splitlines(keepends=True)
    for _ in range(draw.choice((1, 1, 2, 4))):
        at, other = draw.randrange(len(lines)), draw.randrange(len(lines))
        match draw.randrange(6):
            case 0:
                lines.insert(at, draw.choice(TEXTS))
            case 1:
                lines[at] = lines[at].rstrip("\n") + draw.choice(TEXTS) + "\n"
            case 2:
                lines[at], lines[other] = lines[other], lines[at]
            case 3:
                lines.insert(at, lines[other])
            case 4 if len(lines) > 1:
                del lines[at]
            case _:
                place = draw.randrange(len(lines[at]) or 1)
                lines[at] = (
                    lines[at][:place] + draw.choice(" :-[]{}&*!|>'\"%@`#,?\0\n0123456789aé") + lines[at][place + 1 :]
                )
    return "".join(lines)


def changed_bytes(draw: random.Random, content: bytes) -> bytes:
    """Bytes with some changed, or cut off, or more of them; the end of a Parquet file is hit most often."""
    made = bytearray(content)
    match draw.randrange(5):
        case 0:
            return bytes(made[: draw.randrange(len(made))])
        case 1:
            return draw.randbytes(draw.randrange(200))
        case 2:
            return bytes(made) + draw.randbytes(20)
        case _:
            for _ in range(draw.choice((1, 1, 4, 16))):
                made[draw.randrange(len(made) // 2, len(made))] = draw.randrange(256)
    return bytes(made)


def with_defaults(part: Any) -> Any:
    """A scenario as plain data with every option written out, so that each of them is changed sometimes."""
    if dataclasses.is_dataclass(part):
        return {field.name: with_defaults(getattr(part, field.name)) for field in dataclasses.fields(part)}
    if isinstance(part, dict):
        return {key: with_defaults(entry) for key, entry in part.items()}
    return [with_defaults(entry) for entry in part] if isinstance(part, list | tuple) else part


def _choices() -> dict[Any, list[Any]]:
    """The words that an option admits, by the name of the option."""
    found: dict[Any, list[Any]] = {}
    for module in [module for name, module in sorted(sys.modules.items()) if name.startswith("wmlab.")]:
        for made in filter(dataclasses.is_dataclass, vars(module).values()):
            for name, hint in getattr(made, "__annotations__", {}).items():
                words = re.findall(r"Literal\[(.*?)\]", str(hint))
                found.setdefault(name, []).extend(w for text in words for w in re.findall(r"[\"'](\w+)[\"']", text))
    return {name: words for name, words in found.items() if words and name != "kind"}


CHOICES: Final = _choices()


def change(draw: random.Random, data: Any) -> None:
    """Change one entry of nested plain data in place."""
    holder = draw.choice(list(_holders(data)))
    place = draw.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
    match draw.randrange(6):
        case 0:
            del holder[place]
        case 1 if isinstance(holder, list):
            holder.append(copy.deepcopy(holder[place]))
        case 1:
            holder[draw.choice(("kind", "name", "x", 3, None))] = draw.choice(VALUES)
        case 2 | 3 if isinstance(holder[place], bool):
            holder[place] = not holder[place]
        case 2 | 3 if place in CHOICES:
            holder[place] = draw.choice(CHOICES[place])
        case 2 | 3 if isinstance(holder[place], int):
            holder[place] = draw.choice(
                (holder[place] - 1, holder[place] + 1, holder[place] * 3, -holder[place], 2**53)
            )
        case _:
            holder[place] = copy.deepcopy(draw.choice(VALUES))


def _holders(data: Any) -> Iterator[Any]:
    """All mappings and lists with entries in nested plain data."""
    if isinstance(data, dict | list) and data:
        yield data
        for entry in data.values() if isinstance(data, dict) else data:
            yield from _holders(entry)


Run = Callable[[random.Random, Path, Recorded], None]
