"""Writing a file as a whole: at every moment it holds what came, or what was there before."""

import errno
import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from stat import S_ISREG
from typing import BinaryIO, Final

_TOKEN_BYTES: Final = 6
_DATABASE: Final = b"SQLite format 3\0"


@contextmanager
def written_whole(path: Path) -> Generator[BinaryIO]:
    """Lend a file whose bytes take the place of those at `path` when the block is through.

    Where the block raises, what was there stays. A draft stands beside it meanwhile, and gets its
    permissions; a symbolic link goes on leading to it. What is no file, such as a pipe, keeps
    nothing that could be lost: it is written as the bytes come.

    Raises:
        OSError: It cannot be written, or a database is there, which is nothing that a name mistyped
            should take the place of.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    target = Path(os.path.realpath(path))
    if _holds_database(target):
        raise FileExistsError(errno.EEXIST, "a database is there", str(path))
    draft = target.with_name(f".context-assembler-{token_hex(_TOKEN_BYTES)}")
    try:
        with draft.open("xb") as file:
            if target.exists():
                shutil.copymode(target, draft)
            yield file
            settle(file)
        draft.replace(target)
    except BaseException as error:
        draft.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename == str(draft):
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


def _holds_database(path: Path) -> bool:
    """Whether the file is one of SQLite's.

    Source:
        https://www.sqlite.org/fileformat2.html#magic_header_string (read 2026-11-28)
    """
    if not path.exists():
        return False
    with path.open("rb") as file:
        return file.read(len(_DATABASE)) == _DATABASE


def settle(file: BinaryIO) -> None:
    """Wait until the disk has what was written, where it goes to a disk."""
    file.flush()
    if S_ISREG(os.fstat(file.fileno()).st_mode):
        os.fsync(file.fileno())
