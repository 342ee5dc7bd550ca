"""How answers write times, durations and lists: numbers in groups of three, instants as UTC.

One rule decides the unit of a duration, and of a time of a clock that begins at 0: milliseconds below a second, seconds
below 100, and then minutes, hours and days. `exactly` and `moment` write all digits. `rounded` and `clock_words` write
what a sentence needs: tenths of a second up to an hour, then seconds. Tables whose heads name the unit have plain
numbers. A sentence says "UTC" once (`zone_once`).

A number of milliseconds since 1970 cannot be told from a duration by itself if it is small or negative. So a column is
read as a whole: it has instants if all its values lie after 1973. It also has them if they are in the calendar and the
clock of their run has instants. Then 0 is 1970-01-01, and in a run whose clock begins at 0 it is 0 ms.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain
from textwrap import wrap
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EARLIEST_INSTANT_MS: Final = 100_000_000_000
LAST_INSTANT_MS: Final = 250_000_000_000_000
FIRST_INSTANT_MS: Final = -62_135_596_800_000
SECOND_MS: Final = 1_000
MINUTE_MS: Final = 60_000
HOUR_MS: Final = 3_600_000
DAY_MS: Final = 86_400_000
CALENDAR_YEARS: Final = 400
CALENDAR_MS: Final = 146_097 * DAY_MS
"""After so long the calendar repeats, so that the dates of far years are those of near ones."""
_LONG_MS: Final = 100 * SECOND_MS
"""From here on a duration is written in minutes, hours and days."""
_LONGEST: Final = 200
_LINE: Final = 100
"""The most characters of a line of text."""
TIME_MARK: Final = "\N{INVISIBLE SEPARATOR}"
"""What stands on both sides of a time that `with_moments` is to format; no name of a scenario has it."""
_MARKED_TIME: Final = re.compile(rf"{TIME_MARK}([−-]?\d{{1,3}}(?: \d{{3}})*) ms{TIME_MARK}")


def grouped(number: float) -> str:
    """A number with its digits in groups of three: "29 400", "−5"."""
    return f"{number:,}".replace(",", " ").replace("-", "−")


def is_instant(values: Iterable[int | None], *, clock: Iterable[int | None] = ()) -> bool:
    """Whether the known values read as ms since 1970 rather than as durations.

    They do if all lie between 1973 and 9892, or between the years 1 and 9892 where the values of the `clock` do.
    """
    known = [value for value in values if value is not None]
    if not known or min(known) < FIRST_INSTANT_MS or max(known) > LAST_INSTANT_MS:
        return False
    return min(known) >= _EARLIEST_INSTANT_MS or is_instant(clock)


def utc(time_ms: int) -> datetime:
    """The instant so many ms since 1970; raises `OverflowError` beyond the calendar."""
    return _EPOCH + timedelta(milliseconds=time_ms)


def since_1970_ms(instant: datetime) -> int:
    """An instant with a zone in whole ms since 1970, rounded down."""
    return (instant - _EPOCH) // timedelta(milliseconds=1)


def moment(time_ms: int | None, *, clock_ms: int | None = None) -> str:
    """A time with all its digits: "340 ms", "29.4 s", "12 min 5.25 s"; from one hour on to the second, "2 d 5 h 49 s".

    It is "2013-01-05 17:32:00 UTC" for ms since 1970. `clock_ms` is a time of the clock of the same run: if that is an
    instant, this is one, too. "unknown" for None.
    """
    if time_ms is None:
        return "unknown"
    if time_ms <= LAST_INSTANT_MS and not is_instant([time_ms], clock=[clock_ms]):
        return exactly(time_ms) if abs(time_ms) < HOUR_MS else _in_units(time_ms, cut_to_ms=SECOND_MS)
    fraction = f".{time_ms % 1_000:03}" if time_ms % 1_000 else ""
    cycles = max(time_ms // CALENDAR_MS, 0)
    instant = utc(time_ms - cycles * CALENDAR_MS)
    return f"{instant.year + cycles * CALENDAR_YEARS:04}-{instant:%m-%d %H:%M:%S}{fraction} UTC"


def to_the_ms(time_ms: int, *, clock_ms: int | None = None) -> str:
    """A time next to others that differ by ms: "29.400 s", "12 min 5.250 s"; else as `moment` writes it."""
    text = moment(time_ms, clock_ms=clock_ms)
    if is_instant([time_ms], clock=[clock_ms]) or not SECOND_MS <= abs(time_ms) < HOUR_MS:
        return text
    return re.sub(r"(\d+)(?:\.\d+)? s$", rf"\g<1>.{abs(time_ms) % SECOND_MS:03} s", text)


def clock_words(time_ms: int | None, *, clock_ms: int | None = None) -> str:
    """A time in a sentence: "25.2 s", "12 min 5.3 s", "2 h 5 s", "2013-01-05 17:32:00 UTC"; None: "unknown".

    Up to an hour it has tenths of a second, from then on seconds, both rounded; an instant is cut to the second.

    `clock_ms` is a time of the clock of the same run, as for `moment`.
    """
    if time_ms is None:
        return "unknown"
    if time_ms > LAST_INSTANT_MS or is_instant([time_ms], clock=[clock_ms]):
        return moment(time_ms - time_ms % SECOND_MS, clock_ms=clock_ms)
    return rounded(time_ms) if abs(time_ms) < HOUR_MS else _in_units(_nearest(time_ms, SECOND_MS), cut_to_ms=SECOND_MS)


def is_short(*lengths_ms: int) -> bool:
    """Whether these durations, or times of a clock, are all below 100 seconds: a table has them in ms."""
    return max(map(abs, lengths_ms), default=0) < _LONG_MS


def exactly(length_ms: int) -> str:
    """A duration with all its digits: "340 ms", "29.4 s", "2 min 48 s", "2 h 0.5 s"."""
    if abs(length_ms) >= _LONG_MS:
        return _in_units(length_ms, cut_to_ms=1)
    sign, size_ms = "−" if length_ms < 0 else "", abs(length_ms)
    if size_ms < SECOND_MS:
        return f"{sign}{size_ms} ms"
    return f"{sign}{size_ms / SECOND_MS:.3f}".rstrip("0").rstrip(".") + " s"


def rounded(length_ms: float) -> str:
    """A duration that was measured: "400 ms", "24.0 s", "2 min 48.3 s", "1 h 5 min 3 s"; from a day on "1 d 5 h 2 min".

    Up to an hour it has tenths of a second, up to a day seconds, from then on minutes.
    """
    size_ms, sign = abs(round(length_ms)), "−" if length_ms < 0 else ""
    if size_ms < SECOND_MS:
        return f"{sign}{size_ms} ms" if size_ms else "0 s"
    tenths_ms = _nearest(size_ms, 100)
    if tenths_ms < _LONG_MS:
        return f"{sign}{tenths_ms / SECOND_MS:.1f} s"
    if tenths_ms < HOUR_MS:
        return sign + _in_units(tenths_ms, cut_to_ms=100)
    unit_ms = MINUTE_MS if _nearest(size_ms, SECOND_MS) >= DAY_MS else SECOND_MS
    return sign + _in_units(_nearest(size_ms, unit_ms), cut_to_ms=unit_ms)


def percent(share: float) -> str:
    """A part of a whole, to a tenth of a percent: "0%", "12.5%", "< 0.1%"; only all of it is "100%"."""
    if 0 < share < 0.001:
        return "< 0.1%"
    if 0.999 < share < 1:
        return "> 99.9%"
    return f"{share * 100:.1f}".removesuffix(".0") + "%"


def _nearest(time_ms: int, unit_ms: int) -> int:
    """The nearest whole multiple of a unit; away from 0 where two are as near."""
    nearest_ms = (abs(time_ms) + unit_ms // 2) // unit_ms * unit_ms
    return -nearest_ms if time_ms < 0 else nearest_ms


def _in_units(time_ms: int, *, cut_to_ms: int) -> str:
    """Days, hours, minutes and seconds, cut to whole multiples of `cut_to_ms`."""
    rest = abs(time_ms) - abs(time_ms) % cut_to_ms
    parts = []
    for unit, length_ms in (("d", DAY_MS), ("h", HOUR_MS), ("min", MINUTE_MS)):
        count, rest = divmod(rest, length_ms)
        parts += [f"{grouped(count)} {unit}"] if count else []
    parts += [f"{rest / SECOND_MS:.3f}".rstrip("0").rstrip(".") + " s"] if rest or not parts else []
    return ("−" if time_ms < 0 else "") + " ".join(parts)


def with_moments(text: str, *, clock_ms: int | None = None) -> str:
    """A text whose marked times are whole milliseconds ("72 000 005 ms"), each as `clock_words` writes it, unmarked.

    If two different times would look the same, all have their digits, as `moment` writes them. If one of them is an
    instant, or `clock_ms`, they all are.
    """
    times = {_number(digits) for digits in _MARKED_TIME.findall(text)}
    dated_ms = next((time for time in (clock_ms, *times) if is_instant([time])), None)
    words = {time: clock_words(time, clock_ms=dated_ms) for time in times}
    if len(set(words.values())) < len(words):
        words = {time: moment(time, clock_ms=dated_ms) for time in times}
    return zone_once(_MARKED_TIME.sub(lambda match: words[_number(match[1])], text))


def _number(digits: str) -> int:
    """The number that `grouped` has written, or Spark."""
    return int(digits.replace(" ", "").replace("−", "-"))


_INSIDE_A_NUMBER: Final = re.compile(
    r"(?<=\d) (?=(\d{3}|\d\d:\d\d:\d\d(\.\d+)?|UTC|ms|s|min|h|d|B|kB|MB)\b)"
    r"|(?<=\d [dh]) (?=\d)|(?<=\d min) (?=\d)"
)


_BETWEEN_DIGITS: Final = re.compile(r"(?<=\d) (?=\d{3}\b)")


def unbroken(text: str) -> str:
    """A text of a page in which no line ends inside a number, between it and its unit, or inside a time.

    Digits in groups have narrow spaces between them.
    """
    return _INSIDE_A_NUMBER.sub("\N{NO-BREAK SPACE}", _BETWEEN_DIGITS.sub("\N{NARROW NO-BREAK SPACE}", text))


def wrapped(text: str) -> str:
    """A text in lines of at most 100 characters, which end between words and not inside a number."""
    lines = (
        wrap(line, _LINE, break_long_words=False, break_on_hyphens=False)
        for line in _INSIDE_A_NUMBER.sub("\0", text).splitlines()
    )
    return "\n".join(chain.from_iterable(lines)).replace("\0", " ")


def listed(names: Sequence[str], *, most: int | None = None, rest: str = "more") -> str:
    """Names in one phrase: "w1", "w1 and w2", "w1, w2 and w3"; with `most`, of more names "w1, w2 and 3 more"."""
    if most is not None and len(names) > most:
        names = [*names[: most - 1], f"{len(names) - most + 1} {rest}"]
    return "".join(names) if len(names) < 2 else f"{', '.join(names[:-1])} and {names[-1]}"


def joined(*sentences: str) -> str:
    """Sentences one after the other, without those that are empty; their moments say the day and the zone once."""
    return zone_once(" ".join(filter(None, sentences)))


def as_sentence(phrase: str) -> str:
    """A phrase with a capital and a full stop; it begins with no name."""
    return f"{phrase[:1].upper()}{phrase[1:].removesuffix('.')}." if phrase else ""


_INSTANT: Final = re.compile(r"(\d{4,}-\d\d-\d\d) (\d\d:\d\d:\d\d(?:\.\d{3})?)( UTC)?")


def zone_once(text: str) -> str:
    """A text in which the first moment alone says "UTC", and a moment says its day only if the one before has another.

    "2013-07-15 06:00:25 UTC since 06:00:30"; what is no moment of UTC stays as it is.
    """
    if " UTC" not in text:
        return text
    days: list[str] = []
    zones: list[str] = []

    def shorter(instant: re.Match[str]) -> str:
        day, time, zone = instant[1], instant[2], instant[3] or ""
        written = time if days[-1:] == [day] else f"{day} {time}"
        written += "" if zones else zone
        days.append(day)
        zones.extend(filter(None, [zone]))
        return written

    return _INSTANT.sub(shorter, text)


def zone_once_in(texts: Iterable[str]) -> list[str]:
    """The texts of one answer, in which the first moment of all alone says "UTC", as in `zone_once`."""
    return zone_once("\0".join(texts)).split("\0")


def shown(offered: object) -> str:
    """The repr of something that somebody gave, cut in the middle where it is long; its type if that has lines."""
    try:
        text = repr(offered)
    except ValueError:
        return "an integer of thousands of digits"  # which Python does not write out
    if "\n" in text:
        return of_type(offered)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]}…{text[-_LONGEST // 4 :]}"


def of_type(offered: object) -> str:
    """What something is, where it cannot be shown."""
    return f"a value of type {type(offered).__name__}"


def counted(number: int, noun: str) -> str:
    """A number of things: "1 cycle", "12 cycles"."""
    return f"{grouped(number)} {noun if number == 1 else _plural(noun)}"


def _plural(noun: str) -> str:
    """More than one, for the name of a column as well: "cycles", "cities", "boxes"."""
    if noun[-1:] == "y" and noun[-2:-1] not in tuple("aeiou"):
        return f"{noun[:-1]}ies"
    return f"{noun}{'es' if noun.endswith(('s', 'x', 'z', 'ch', 'sh')) else 's'}"


def number_at_epoch(segment_id: int) -> str:
    """The short name of a segment: "number@epoch"."""
    return f"{segment_id & 0xFFFF_FFFF}@{segment_id >> 32}"


def in_mermaid(text: object) -> str:
    """Text that Mermaid shows as it is: its own marks, and those of HTML, as numbered characters."""
    return "".join(c if c.isalnum() or c in " .,_-+*/():×…'" else f"#{ord(c)};" for c in str(text))
