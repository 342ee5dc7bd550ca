"""A program in any language as a machine: a line of JSON is written to it for each step, and it answers with one.

A first line, {"start": RULE, "parameters": {...}}, begins a history; the answer to it is "ready". One process takes all
histories, one after the other. An answer has to come within a time; a program that dies, is silent, or writes anything
else than a line of JSON is named with what it was last given.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import IO, Any, Final

from wmlab.core.errors import ModelError, WmlabError
from wmlab.core.words import shown
from wmlab.testing.known_rules import Step

_READY: Final = "ready"
_MOST_BYTES: Final = 1_000_000
"""A line that is longer is not an answer."""
_SHOWN: Final = 300
"""Characters of a line that an error shows."""
_ENDING_S: Final = 2.0
"""How long a program has to end once its input has ended."""


class ProgramError(WmlabError):
    """A program breaks the protocol: it died, was silent for too long, or wrote something other than a line of JSON."""


class Program:
    """A process that speaks the protocol. Used in a `with`, at whose end the process is ended.

    Raises `ProgramError` if it cannot be started.
    """

    def __init__(self, command: Sequence[str], rule: str, *, timeout_s: float = 5.0) -> None:
        if not 0 < timeout_s <= 3_600:
            raise ModelError(f"timeout_s is {shown(timeout_s)}.", remedy="Give seconds above 0, at most 3600.")
        self.command, self.rule, self.timeout_s = tuple(command), rule, timeout_s
        self._given = ""
        self._unread = b""
        self._answers, self._waited_s = 0, 0.0
        try:
            # What it writes to its standard error is the user's to see.
            self._process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        except OSError as refused:
            raise ProgramError(
                f"The program {' '.join(self.command)!r} cannot be started: {refused.strerror or refused}.",
                remedy="give a command that can be run here, behind --.",
            ) from None
        os.set_blocking(self._stdin.fileno(), False)
        os.set_blocking(self._stdout.fileno(), False)

    @property
    def _stdin(self) -> IO[bytes]:
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def _stdout(self) -> IO[bytes]:
        assert self._process.stdout is not None
        return self._process.stdout

    def machine(self, **parameters: Any) -> ProgramMachine:
        """The program at the start of a history."""
        ready = self.ask({"start": self.rule, "parameters": parameters})
        if ready != _READY:
            raise self._failed(
                f"answered the start with {_cut(json.dumps(ready))}", 'Let it answer "ready" to a start.'
            )
        return ProgramMachine(self)

    def ask(self, message: Mapping[str, Any]) -> Any:
        """The answer to one line; raises `ProgramError` if there is none."""
        if self._given:
            self.end()
        self._given = json.dumps(message)
        begun_s = time.monotonic()
        line = self._line(f"{self._given}\n".encode())
        self._answers += 1
        self._waited_s += time.monotonic() - begun_s
        try:
            return json.loads(line)
        except ValueError:
            written = _cut(line.decode(errors="replace").strip())
            raise self._failed(
                f"wrote {written!r}, which is no JSON", "Let it write answers only, each as JSON in one line."
            ) from None

    @property
    def answer_s(self) -> float:
        """How long an answer has taken on average."""
        return self._waited_s / max(self._answers, 1)

    def end(self) -> None:
        """Look whether the program has written more than was asked; raises `ProgramError` if it has."""
        with suppress(BlockingIOError):
            self._unread += os.read(self._stdout.fileno(), 65_536)
        if self._unread:
            written = _cut(self._unread.decode(errors="replace").strip())
            raise self._failed(
                f"wrote {written!r} besides its answer", "Let it write exactly one line for each that it reads."
            )

    def _waits_for_more(self) -> bool:
        """Whether a program that has not answered does so once it is given one line more."""
        with suppress(OSError):
            os.write(self._stdin.fileno(), f"{self._given}\n".encode())
            with selectors.DefaultSelector() as waiting:
                waiting.register(self._stdout, selectors.EVENT_READ)
                return bool(waiting.select(max(self.timeout_s, _ENDING_S)) and os.read(self._stdout.fileno(), 1))
        return False

    def _line(self, unsent: bytes) -> bytes:
        """Writes a line and reads one, in the time that there is for both."""
        until = time.monotonic() + self.timeout_s
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._stdout, selectors.EVENT_READ)
            waiting.register(self._stdin, selectors.EVENT_WRITE)
            while b"\n" not in self._unread:
                left_s = until - time.monotonic()
                ready = waiting.select(max(0.0, left_s)) if left_s > 0 else []
                if not ready:
                    what = f"did not answer within {self.timeout_s:g} s"
                    remedy = "Let it write a line for each line that it reads, and flush it; or give it a longer time."
                    if not unsent and self._waits_for_more():
                        what += ", and wrote only when it was given a line more"
                        remedy = "Let it answer each line before it reads the next one, in their order."
                    raise self._failed(what, remedy)
                for key, _ in ready:
                    if key.fileobj is self._stdin:
                        unsent = unsent[self._write(unsent) :]
                        if not unsent:
                            waiting.unregister(self._stdin)
                    else:
                        self._read()
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def _write(self, line: bytes) -> int:
        try:
            return os.write(self._stdin.fileno(), line)
        except BrokenPipeError:
            raise self._ended() from None

    def _read(self) -> None:
        part = os.read(self._stdout.fileno(), 65_536)
        if not part:
            raise self._ended()
        self._unread += part
        if len(self._unread) > _MOST_BYTES:
            raise self._failed(f"wrote more than {_MOST_BYTES} bytes", "Let it write one line for each that it reads.")

    def _ended(self) -> ProgramError:
        try:
            code = self._process.wait(_ENDING_S)
            ended = f"ended with exit code {code}" if code >= 0 else f"was ended by signal {-code}"
        except subprocess.TimeoutExpired:
            ended = "closed its output"
        return self._failed(
            ended, "Let it read lines until its input ends; what it wrote to its standard error is above."
        )

    def _failed(self, what: str, remedy: str) -> ProgramError:
        return ProgramError(
            f"The program {' '.join(self.command)!r} {what}. It was last given: {_cut(self._given)}", remedy=remedy
        )

    def __enter__(self) -> Program:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        # What was not written yet has nobody to read it.
        with suppress(OSError):
            self._stdin.close()
        try:
            self._process.wait(_ENDING_S if kind is None else 0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._stdout.close()


class ProgramMachine:
    """One history of a program."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def step(self, item: Step) -> Any:
        """The program's answer to a step."""
        return self._program.ask(dict(item))


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} …"
