"""The marks log by its operations (kind revisioned_log): a small interpreter for operations written as text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.conformance.fields import Fields, expect, interpreted, lookup, matched
from wmlab.core.errors import ModelError
from wmlab.streams.model.cut import CutAlgorithm
from wmlab.streams.model.log import MarksLog, TruncatedError

NULL = "null"
CAS = r"(?:cas|cas_mark|mark_cas|compare_and_set|compare_and_set_mark|set_mark_if|move_mark)"
ORDINALS = {"first": 0, "second": 1, "third": 2}


def run(inputs: Fields, expected: Fields, algorithm: CutAlgorithm) -> None:
    """Run the operations, then look up everything that is expected."""
    log = Log()
    for entry in inputs.take("entries", []):
        log.append(entry)
    for operation in inputs.take("ops", []):
        log.do(operation)
    for name, values in inputs.rest().items():
        log.do_listed(name, values)
    for name, value in expected.rest().items():
        expect(name, log.answer(name, value), value)


class Log:
    """The log, the names given to revisions, and what the operations answered.

    An iterator is what is left of the log as it was when it was opened: from one revision to another.
    r0 is the start, and an entry that is one letter gives its revision the name r + letter.
    """

    def __init__(self) -> None:
        self.log: MarksLog[str] = MarksLog()
        self.names: dict[str, int | None] = {NULL: None, "none": None, "r0": 0}
        self.iterators: dict[str, tuple[int, int]] = {}
        self.taken: list[list[str]] = []
        self.order: dict[str, int] = {}
        self.appended_if: list[str] = []
        self.moved: list[bool] = []
        self.marks: list[int | None] = []
        self.oldest: list[int] = []
        self.before_truncation: MarksLog[str] | None = None
        self.operations: dict[str, Callable[..., None]] = {
            r"(\w+) = latest": self.name_latest,
            r"append (\w+(?:,\s*\w+)*)": self.append_all,
            r"(\w+) = read_from\((\w+)\)": self.open_iterator,
            r"next -> (\w+)(?: \(its revision = (\w+)\))?": self.next,
            r"(\w+) exhausted(?: although (\w+) exists)?": self.exhausted,
            r"read_from\((\w+)\) -> (\w+(?:,\s*\w+)*)": self.read,
            r"append_if\((\w+),\s*(\w+)\)(?: -> (\w+))?": self.append_if,
            rf"{CAS}\((\w+),\s*(\w+)\)(?: -> (\w+))?": self.move_mark,
            r"(?:mark|get_mark)(?:\(\))? (?:->|=|is) (\w+)": self.mark_is,
            r"truncate(?:\(| to | )(\w+)\)?": self.truncate,
        }

    def do(self, operation: str) -> None:
        """Run one operation written as text."""
        interpreted("operation", operation, self.operations)

    def do_listed(self, name: str, values: list[Any]) -> None:
        """Run one kind of operation for each of a list of arguments."""
        if name == "truncate_sequence":
            for revision in values:
                self.truncate(revision)
        else:
            matched("input", name, rf"{CAS}(?:_sequence|_ops|_pairs|_steps|s)?")
            for expected, new in values:
                self.move_mark(expected, new, None)

    def answer(self, name: str, value: Any) -> Any:
        """What the log says under a name of the expectations."""
        forms: dict[str, Callable[..., Any]] = {
            "append_if_results": lambda: self.appended_if,
            "(?:cas_)?results": lambda: self.moved,
            "initial_mark": lambda: self.name_of(MarksLog[str]().pointer, value),
            "latest": lambda: self.name_of(self.log.end, value),
            "oldest_after": lambda: self.names_of(self.oldest, value),
            "iterator_behind_truncation_next": self.next_behind_truncation,
            "(first|second|third)_iterator": lambda ordinal: self.taken[ORDINALS[ordinal]],
            r"read_from\((\w+)\)(_first)?": self.entries_after,
            r"range\((\w+),\s*(\w+)\)": self.entries_between,
            "marks?(?:_after)?(?:_each)?": lambda: (
                self.names_of(self.marks, value) if isinstance(value, list) else self.name_of(self.log.pointer, value)
            ),
        }
        return interpreted("expected", name, forms)

    def entries_after(self, revision: str, first: str | None) -> Any:
        entries = attempt(lambda: [entry for _, entry in self.log.read_after(self.revision(revision))])
        return entries[0] if first and isinstance(entries, list) else entries

    def entries_between(self, start: str, stop: str) -> Any:
        """The entries of a range; that of a truncated log is asked of the log as it was before."""
        bounds = self.revision(start), self.revision(stop)
        return attempt(lambda: [entry for _, entry in self.untruncated.read_range(*bounds)])

    @property
    def untruncated(self) -> MarksLog[str]:
        return self.before_truncation or self.log

    def append(self, entry: str) -> int:
        self.log, revision = self.log.append(entry)
        self.names.setdefault(f"r{entry}", revision)
        return revision

    def append_all(self, entries: str) -> None:
        for entry in entries.split(","):
            self.append(entry.strip())

    def append_if(self, revision: str, entry: str, name: str | None) -> None:
        self.log, found = self.log.append_if(self.revision(revision), entry)
        if found is None:
            assert name in (None, NULL), f"append_if({revision}, {entry}) was refused"
            self.appended_if.append(NULL)
            return
        name = name or f"r{entry}"
        self.names[name] = found
        self.appended_if.append(f"{name} {'>' if found > self.revision(revision) else '<='} {revision}")

    def name_latest(self, name: str) -> None:
        self.names[name] = self.log.end

    def open_iterator(self, name: str, revision: str) -> None:
        self.iterators[name] = self.revision(revision), self.log.end
        self.order[name] = len(self.taken)
        self.taken.append([])

    def next(self, entry: str, name: str | None) -> None:
        iterator = list(self.iterators)[-1]
        start, stop = self.iterators[iterator]
        (revision, found), *_ = self.log.read_range(start, stop)
        self.iterators[iterator] = revision, stop
        expect("next", found, entry)
        self.taken[self.order[iterator]].append(found)
        if name is not None:
            self.names[name] = revision

    def exhausted(self, iterator: str, entry: str | None) -> None:
        found = self.log.read_range(*self.iterators[iterator])
        assert not found, f"{iterator} still gives {found}"
        assert entry is None or any(e == entry for _, e in self.log.entries), f"{entry} does not exist"

    def read(self, revision: str, entries: str) -> None:
        found = [entry for _, entry in self.log.read_after(self.revision(revision))]
        expect("read", found, [entry.strip() for entry in entries.split(",")])
        self.taken.append(found)

    def move_mark(self, expected: str | None, new: str | None, result: str | None) -> None:
        self.log, moved = self.log.move_pointer(self.maybe(expected), self.maybe(new))
        self.moved.append(moved)
        self.marks.append(self.log.pointer)
        assert result is None or result == str(moved).lower(), f"moving the mark from {expected} to {new} gave {moved}"

    def mark_is(self, revision: str) -> None:
        expect("mark", self.log.pointer, self.maybe(revision))

    def truncate(self, revision: str) -> None:
        self.before_truncation = self.untruncated
        self.log = self.log.truncate(self.revision(revision))
        self.oldest.append(self.log.oldest)

    def next_behind_truncation(self) -> Any:
        """The next entry of an iterator that was opened at the start, before the truncation."""
        return attempt(lambda: self.log.read_range(0, self.untruncated.end))

    def revision(self, name: str) -> int:
        found = self.maybe(name)
        assert found is not None, f"{name} is not a revision"
        return found

    def maybe(self, name: str | None) -> int | None:
        if name is None:
            return None
        return lookup("revision", name, self.names)

    def names_of(self, revisions: list[Any], wanted: list[Any]) -> list[Any]:
        return [self.name_of(revision, name) for revision, name in zip(revisions, wanted, strict=True)]

    def name_of(self, revision: int | None, wanted: Any) -> Any:
        """The wanted name if it names the revision, else some name of it."""
        if (wanted is None or wanted in self.names) and self.maybe(wanted) == revision:
            return wanted
        return next(name for name, named in self.names.items() if named == revision)


def attempt(read: Callable[[], Any]) -> Any:
    """What reading gives, or the error in the words of the cases."""
    try:
        return read()
    except TruncatedError:
        return "TRUNCATED"
    except ModelError:
        return "ILLEGAL_STATE"
