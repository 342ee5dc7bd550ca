"""Files and paths that a user names: checked before they are used, and read with a limit on their size."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from wmlab.core.errors import WmlabError, shown_as_data


def shipped(package: Path, name: str) -> Path:
    """A folder that comes with a package: inside of it in an installed wheel, next to it in a clone."""
    inside = package / name
    return inside if inside.is_dir() else package.parent / name


_PACKAGE: Final = Path(__file__).resolve().parents[1]
DATA: Final = shipped(_PACKAGE, "data")
"""The logs and scenarios that come with wmlab."""
NOTEBOOKS: Final = shipped(_PACKAGE, "notebooks")
"""The notebooks that come with wmlab, in folders: tutorials, scenarios, atlas, exploration."""


def as_path(offered: object, error: type[WmlabError]) -> Path:
    """`offered` as a path, `~` expanded; raises `error` if the system can have no file of that name."""
    try:
        path = Path(offered).expanduser()  # type: ignore[arg-type]  # whatever the user has given
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return path
    except (TypeError, ValueError, RuntimeError, OSError) as wrong:
        reason = wrong.strerror if isinstance(wrong, OSError) else wrong
        problem = f"{shown_as_data(offered)} is not a path that can be used: {reason}."
        raise error(problem, remedy="give the path of a file as text.") from None
    return path


def read_text(path: Path, limit: int) -> str:
    """The text of a UTF-8 file of at most `limit` bytes; raises `OSError`, also for a larger one, or `UnicodeError`."""
    with path.open("rb") as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise OSError(0, f"it has more than {limit:,} bytes")
    return content.decode("utf-8")


def write(path: Path, content: bytes, error: type[WmlabError], *, is_new: bool = False, remedy: str = "") -> Path:
    """Write a file and return its path; raises `error` if it cannot be written, or is there and should be new."""
    try:
        with path.open("xb" if is_new else "wb") as file:
            file.write(content)
    except OSError as wrong:
        remedy = remedy or ("give a path that is free." if is_new else "choose a file that you may write to.")
        raise error(f"{str(path)!r} cannot be written: {wrong.strerror}.", remedy=remedy) from None
    return path
