"""The process's own stdout and stderr, as streams that know what could not be written to them."""

import errno
import io
import os
import sys
from dataclasses import dataclass
from typing import Any, Final, TextIO

from context_assembler.cli import exit_codes

_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class Outlet(io.FileIO):
    """The end of a standard stream; `trouble` is why something was not written.

    Args:
        is_answer: Whether what cannot be written ends the command: an answer does, a note does not.
    """

    def __init__(self, descriptor: int, *, is_answer: bool) -> None:
        super().__init__(descriptor, "wb", closefd=False)
        self._is_answer: Final = is_answer
        self.trouble: OSError | None = None

    def write(self, content: Any, /) -> int:
        try:
            return super().write(content)
        except OSError as error:
            self.trouble = error
            if self._is_answer:
                raise
            return memoryview(content).nbytes

    def silence(self) -> None:
        """Let what is still to be written go nowhere: the interpreter writes it out at its end.

        Source: https://docs.python.org/3/library/signal.html#note-on-sigpipe (read 2026-11-27)
        """
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno())
        os.close(nowhere)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlets:
    """Where a command's answer and its notes go; `None`: to a stream of somebody else's."""

    answer: Outlet | None
    notes: Outlet | None

    def complaint(self, error: OSError) -> tuple[str, str] | None:
        """Return what to say of an error, and what to do about it, if it is the answer's."""
        if self.answer is None or error is not self.answer.trouble:
            return None
        reason = "it is closed" if error.errno == errno.EBADF else error.strerror
        problem = f"Not all could be written to stdout: {reason}."
        if error.errno in _NO_ROOM:
            return problem, "Make room there, or send it somewhere else."
        return problem, "Send it to a file, a pipe or a terminal."

    def close(self, code: int) -> int:
        """Write what is left, and return the exit code with which to leave."""
        if self.answer is not None:
            try:
                sys.stdout.flush()
            except OSError:
                self.answer.silence()
        outlets = (self.answer, self.notes)
        is_lost = any(outlet is not None and outlet.trouble is not None for outlet in outlets)
        return exit_codes.UNWRITTEN if is_lost and code == exit_codes.FINE else code


def open_outlets() -> Outlets:
    """Let the standard streams of the process write through outlets.

    A closed stdout refuses what is written to it; what a closed stderr is told goes nowhere.
    """
    answer = _answer_outlet(sys.stdout)
    if answer is not None:
        sys.stdout = _text(answer)
    notes = None
    if _is_closed(sys.stderr):
        sys.stderr = _text(io.FileIO(os.open(os.devnull, os.O_WRONLY), "wb", closefd=False))
    elif (notes := _outlet(sys.stderr, is_answer=False)) is not None:
        sys.stderr = _text(notes, is_by_line=True)
    return Outlets(answer=answer, notes=notes)


def _answer_outlet(stdout: TextIO | None) -> Outlet | None:
    if stdout is None:
        # Open for reading alone, it refuses what is written; no file that is opened later is it.
        return Outlet(os.open(os.devnull, os.O_RDONLY), is_answer=True)
    return _outlet(stdout, is_answer=True)


def _is_closed(stream: TextIO | None) -> bool:
    """Whether the process was started without the stream."""
    return stream is None


def _outlet(stream: TextIO, *, is_answer: bool) -> Outlet | None:
    """Return an outlet for a stream of the process; `None` for any other."""
    if stream not in (sys.__stdout__, sys.__stderr__):
        return None
    raw: object = getattr(stream.buffer, "raw", stream.buffer)  # `python -u` has no buffer
    return Outlet(raw.fileno(), is_answer=is_answer) if isinstance(raw, io.FileIO) else None


def _text(raw: io.FileIO, *, is_by_line: bool = False) -> TextIO:
    """Return a text stream, in UTF-8 whatever the locale says."""
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding="utf-8",
        errors="backslashreplace",
        line_buffering=is_by_line or raw.isatty(),
    )
