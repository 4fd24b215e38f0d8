"""Opens one instruction file, whatever lies under its name."""

import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from context_assembler.values.prompt import FileState
from context_assembler.values.texts.instruction_text import decode_text

MAX_FILE_BYTES: Final = 4_000_000
# Opening a pipe would wait for somebody who writes into it.
_OPEN_FLAGS: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_ABSENT: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG})

Identity: TypeAlias = tuple[str, tuple[int, ...]]


def identity(path: Path) -> Identity:
    """Return what changes when a file is written, replaced, linked elsewhere, made or removed."""
    try:
        real = os.path.realpath(path)
    except ValueError:
        return "", ()
    try:
        found = path.stat()
    except OSError as error:
        return real, (error.errno or 0,)
    times = (found.st_mtime_ns, found.st_ctime_ns)
    return real, (found.st_dev, found.st_ino, found.st_mode, found.st_size, *times)


def is_there(path: Path) -> bool:
    """Whether something has that name: a broken link has, and what may not be looked at."""
    try:
        path.lstat()
    except OSError as error:
        return error.errno not in _ABSENT
    except ValueError:
        return False
    return True


def read_source(path: Path) -> str:
    """Return the text of a file as far as it is read at all.

    Raises:
        OSError: It cannot be read.
    """
    return decode_text(_read_bytes(path)[0][:MAX_FILE_BYTES]).text


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A file's text, or why there is none.

    `read_bytes` is what reading took; `changed_ns` when the file was changed last.
    """

    path: Path
    state: FileState
    text: str = ""
    encoding: str = ""
    size_bytes: int = 0
    read_bytes: int = 0
    changed_ns: int = 0
    warnings: tuple[str, ...] = ()


def open_file(real: Path) -> Opened:
    """Return the text of a file whose links are resolved; what cannot be read is a state."""
    try:
        if not stat.S_ISREG(mode := real.stat().st_mode):
            kind = "a folder" if stat.S_ISDIR(mode) else "no regular file"
            return refused(real, "unreadable", f"it is {kind}")
        raw_bytes, found = _read_bytes(real)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        return refused(real, "unreadable", f"it cannot be read: {reason}")
    decoded = decode_text(raw_bytes[:MAX_FILE_BYTES])
    warnings = list(decoded.warnings)
    if len(raw_bytes) > MAX_FILE_BYTES:
        warnings.append(f"only the first {MAX_FILE_BYTES:,} bytes were read")
    is_empty = not decoded.text.strip()
    if is_empty and warnings:
        warnings.append("nothing is left of it")
    return Opened(
        path=real,
        state="empty" if is_empty else "ok",
        text=decoded.text,
        encoding=decoded.encoding,
        size_bytes=found.st_size,
        read_bytes=len(raw_bytes),
        changed_ns=max(found.st_mtime_ns, found.st_ctime_ns),
        warnings=tuple(warnings),
    )


def refused(path: Path, state: FileState, reason: str) -> Opened:
    """Return a file of which there is no text."""
    return Opened(path=path, state=state, warnings=(reason,))


def _read_bytes(path: Path) -> tuple[bytes, os.stat_result]:
    """Return as many bytes as are read of a regular file, and one more; and what it is."""
    with os.fdopen(os.open(path, _OPEN_FLAGS), "rb") as file:
        return file.read(MAX_FILE_BYTES + 1) or b"", os.fstat(file.fileno())
