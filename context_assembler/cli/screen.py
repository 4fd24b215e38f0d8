"""Where the command line writes: JSON for programs, text for people, notes on stderr."""

import io
import json
import os
import re
import sys
from typing import Final, TextIO

from rich.console import Console
from rich.text import Text

from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import Json

_PLAIN_WIDTH_CHARS: Final = 100  # where nobody knows how wide the reader's page is

# Control characters could steer the reader's terminal, bidirectional ones reorder what it shows,
# lone surrogates cannot be written as UTF-8 at all.
_UNSHOWABLE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_UNSAFE_IN_JSON: Final = re.compile("[\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def write_utf8() -> None:
    """Make stdout and stderr UTF-8 whatever the locale says."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def people() -> Console:
    """Return the console for text that people read: coloured on a terminal, plain elsewhere."""
    return _console(sys.stdout)


def notes() -> Console:
    """Return the console for what is not the answer itself: notes, progress, errors."""
    return _console(sys.stderr)


def _console(stream: TextIO) -> Console:
    is_fixed = not stream.isatty() and "COLUMNS" not in os.environ
    return Console(
        file=stream,
        width=_PLAIN_WIDTH_CHARS if is_fixed else None,
        highlight=False,
        markup=False,
        emoji=False,
    )


def print_note(sentence: str) -> None:
    """Write one sentence to stderr that is not the answer itself."""
    notes().print(Text.assemble(("Note: ", "bold yellow"), _flat(sentence)), soft_wrap=True)


def print_error(problem: str, remedy: str) -> None:
    """Write what went wrong to stderr, and below it what to do."""
    console = notes()
    console.print(Text.assemble(("Error: ", "bold red"), _flat(problem)), soft_wrap=True)
    if remedy:
        console.print(f"       {_flat(remedy)}", soft_wrap=True)


def _flat(sentence: str) -> str:
    return " ".join(printable(sentence).split("\n"))


def print_json(value: Json) -> None:
    """Write a JSON value to stdout, and nothing else."""
    sys.stdout.write(json_text(value) + "\n")


def json_text(value: Json) -> str:
    """Return a value as indented JSON that can be written anywhere.

    What UTF-8 cannot carry, or a terminal would obey, is spelled as a JSON escape: the value that a
    program reads is the same.
    """
    text = json.dumps(value, ensure_ascii=False, indent=2)
    return _UNSAFE_IN_JSON.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def printable(text: str) -> str:
    """Return the text with everything that a terminal would obey spelled out."""
    return _UNSHOWABLE.sub(_spell_out, text)


def _spell_out(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def one_line(text: str, *, max_chars: int) -> str:
    """Return the text on one line, cut with an ellipsis where it is longer."""
    flat = " ".join(printable(text).split())
    return flat if len(flat) <= max_chars else f"{flat[: max_chars - 1].rstrip()}…"


def counted(count: int, one: str, many: str = "") -> str:
    """Return how many there are of something, such as `1 question`.

    Args:
        many: What several are called; by default with an s.
    """
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def print_heading(console: Console, heading: str) -> None:
    """Write a heading with an empty line before it."""
    console.print()
    console.print(heading, style="bold")


def spelling(value: Json) -> str:
    """Return a value of a setting or a figure as people write it; empty fields are left out."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if is_object(value):
        given = {name: entry for name, entry in value.items() if entry not in (None, [], "")}
        return ", ".join(f"{name}: {spelling(entry)}" for name, entry in given.items())
    if is_array(value):
        between = " | " if any(is_object(entry) for entry in value) else ", "
        return between.join(map(spelling, value)) or "none"
    return str(value)
